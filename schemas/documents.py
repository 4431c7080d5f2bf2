"""Read the YAML that people write, and help with what is not understood.

Decimals are read from text. An unknown key is met with the nearest known one, or with the place where it belongs.
Notebooks show what was read.
"""

from __future__ import annotations

import copy
import difflib
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import yaml
from pydantic import AfterValidator, BaseModel, Tag, ValidationError

from causalveil.schemas.errors import DataError, StudyError
from causalveil.schemas.mistakes import SYNONYMS, missing_key, plain_message

# A model, and the tag by which a union knows it.
Branch = tuple[type[BaseModel], str | None]


def hint(model: type[BaseModel], location: Sequence[str | int]) -> str:
    """Return the end of the sentence "unknown key '...'".

    Args:
        model: of the whole document.
        location: pydantic's, which names branches of unions too; the unknown key is the last.
    """
    name = str(location[-1])
    here = sorted({key for one in _at(model, location[:-1]) for key in one.model_fields} - {name})
    if SYNONYMS.get(name) in here:
        return f", did you mean '{SYNONYMS[name]}'?"
    close = difflib.get_close_matches(name, here, n=1, cutoff=0.6)
    # It is no help to be sent where one is: below a mapping, or in another branch of a union.
    above = {parts for parts in _parents(model).get(name, set()) if not parts or tuple(location[: len(parts)]) != parts}
    above -= {tuple(location[:-1])}
    if above and (not close or difflib.SequenceMatcher(None, name, close[0]).ratio() < 0.8):
        # Of several places the one that is nearest to the top is meant most often.
        place = ".".join(min((len(parts), parts) for parts in above)[1])
        return f"; it belongs below '{place}'" if place else "; it belongs at the top of the document"
    if close:
        return f", did you mean '{close[0]}'?"
    known = _parents(model)
    every = [] if name in known else difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f", did you mean '{every[0]}'?" if every else f" (known keys: {', '.join(here)})"


def _at(model: type[BaseModel], location: Sequence[str | int]) -> list[type[BaseModel]]:
    """Return the models that may stand at a place."""
    found: list[Branch] = [(model, None)]
    for part in location:
        fields = [one.model_fields[part] for one, _ in found if isinstance(part, str) and part in one.model_fields]
        if fields:
            found = [branch for field in fields for branch in _branches(field.annotation)]
        else:
            # A branch of a union, by its name; else the key of a mapping, below which the same models stand.
            found = [branch for branch in found if _is_named(branch, part)] or found
    return [one for one, _ in found]


def _is_named(branch: Branch, name: str | int) -> bool:
    model, tag = branch
    return name == tag or any(
        get_origin(field.annotation) is Literal and name in get_args(field.annotation)
        for field in model.model_fields.values()
    )


def _parents(
    model: type[BaseModel], place: tuple[str, ...] = (), seen: frozenset[type] = frozenset()
) -> dict[str, set[tuple[str, ...]]]:
    """Return every key of a model and of those below it, with the places above it."""
    found: dict[str, set[tuple[str, ...]]] = {}
    if model in seen:
        return found
    for key, field in model.model_fields.items():
        found.setdefault(key, set()).add(place)
        for nested, _ in _branches(field.annotation):
            for name, places in _parents(nested, (*place, key), seen | {model}).items():
                found.setdefault(name, set()).update(places)
    return found


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the models that an annotation is made of, such as those of a union's branches."""
    return [model for model, _ in _branches(annotation)]


def _branches(annotation: Any, tag: str | None = None) -> list[Branch]:
    """Return the models of an annotation, with the tags of a union's branches."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [(annotation, tag)]
    tag = next((one.tag for one in getattr(annotation, "__metadata__", ()) if isinstance(one, Tag)), tag)
    return [branch for part in getattr(annotation, "__args__", ()) for branch in _branches(part, tag)]


Model = TypeVar("Model", bound=BaseModel)
Place = tuple[str | int, ...]
MAX_BYTES = 1_000_000
# A release or bundle with a hundred covariates is some hundred kilobytes.
MAX_DOCUMENT_BYTES = 64_000_000
# A study nests four levels deep; its longest number has some twenty characters.
MAX_DEPTH = 20
MAX_NUMBER = 100


class _Loader(yaml.SafeLoader):
    """SafeLoader cut down to the YAML 1.2 core schema: ``no`` is text, ``1e-6`` is a number, a date is text."""


_Loader.yaml_implicit_resolvers = {}
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|false|False)$"), list("tTfF"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?[0-9]+$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$|^[-+]?\.(?:inf|nan)$", re.IGNORECASE),
    list("-+.0123456789"),
)


def _decimal(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Decimal:
    return Decimal(_number(loader, node).lower().replace(".inf", "Infinity").replace(".nan", "NaN"))


def _integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(_number(loader, node))


def _number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    text = str(loader.construct_scalar(node))
    if len(text) > MAX_NUMBER:
        raise yaml.constructor.ConstructorError(
            problem=f"a number of more than {MAX_NUMBER} characters", problem_mark=node.start_mark
        )
    return text


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            problem = f"key {_short(key)} is not text"
            if isinstance(value_node, yaml.ScalarNode):
                problem += f"; a code stands behind its name, as in {{{_short(value_node.value)[1:-1]}: {_short(key)}}}"
            raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key_node.start_mark)
        if key in result:
            problem = f"key {_short(key)} stands twice"
            raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key_node.start_mark)
        result[key] = loader.construct_object(value_node, deep=True)
    return result


def _short(key: object) -> str:
    text = repr(key)
    return text if len(text) <= MAX_NUMBER else f"{text[:MAX_NUMBER]}..."


_Loader.add_constructor("tag:yaml.org,2002:float", _decimal)
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


class Document(dict[str, Any]):
    """A file's mapping that remembers on which line each key stands.

    ``lines``: by path of keys and positions.
    """

    lines: dict[Place, int]


def _lines(node: yaml.Node | None, place: Place = ()) -> Iterator[tuple[Place, int]]:
    """Every key and item below a node with its line, counted from 1."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*place, str(key.value))
            yield here, key.start_mark.line + 1
            yield from _lines(value, here)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*place, index), value.start_mark.line + 1
            yield from _lines(value, (*place, index))


class NotADocument(OSError):
    """A pipe, a device, a folder or a file beyond the limit stands where a document should.

    Says which.
    """


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_STORES = ("s3://", "gs://", "gcs://", "abfs://", "abfss://")


def refuse_url(path: str) -> str:
    """Refuse a URL where a folder of this machine is meant.

    Raises:
        ValueError: it is one; says how rows get here from object storage.
    """
    if _URL.match(path):
        raise ValueError(
            "is a URL where a folder is meant; take rows from object storage as Parquet, Delta or Iceberg, "
            "and copy other files by a tool of the store"
        )
    return path


def is_stored(path: str) -> bool:
    """Tell whether a path is a URL of object storage.

    Raises:
        ValueError: it is a URL of something else, or has a password or options in it.
    """
    if not path.startswith(_STORES):
        refuse_url(path)
        return False
    scheme, _, rest = path.partition("://")
    place = rest.partition("/")[0]
    if "?" in path or ":" in place or ("@" in place and not scheme.startswith("abfs")):
        raise ValueError("has credentials or options in its URL; the operator sets them in the environment")
    return True


def _known_place(path: str) -> str:
    is_stored(path)
    return path


LocalPath = Annotated[str, AfterValidator(refuse_url)]
# A path of this machine, or a URL of object storage.
AnyPath = Annotated[str, AfterValidator(_known_place)]


def read_regular(path: Path, largest: int = MAX_DOCUMENT_BYTES) -> bytes:
    """Return the bytes of a regular file of at most ``largest`` bytes.

    A pipe or a device never keeps the reader waiting.

    Raises:
        NotADocument: it is no regular file, or larger.
        OSError: it is not there or cannot be read.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise NotADocument("not a regular file")
        found = file.read(largest + 1)
    if len(found) > largest:
        raise NotADocument(f"larger than {largest} bytes")
    return found


def read_text(path: Path, error: type[StudyError] = StudyError, largest: int = MAX_DOCUMENT_BYTES) -> str:
    """Return the text of a UTF-8 document.

    Raises:
        StudyError: (or ``error``) there is no such file, or it is no document that can be read.
    """
    try:
        return read_regular(path, largest).decode("utf-8")
    except FileNotFoundError:
        raise error(f"{path}: no such file") from None
    except NotADocument as problem:
        raise error(f"{path}: {problem}") from None
    except (OSError, ValueError) as problem:
        raise error(f"{path}: cannot be read as UTF-8 text ({type(problem).__name__})") from None


def parse_json(text: str | bytes) -> Any:
    """Parse JSON of any origin.

    Raises:
        ValueError: it is not JSON, or nests deeper or has longer numbers than any document of ours.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def digest_of(document: Any) -> str:
    """Return the SHA-256 of a document of plain values as canonical JSON."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_yaml(path: Path) -> Document:
    """Parse one YAML mapping; numbers with a point or exponent become exact ``Decimal``.

    Raises:
        StudyError: unreadable, not YAML, not a mapping, a key twice, aliases, or over a megabyte.
    """
    return parse_yaml(read_text(path, StudyError, MAX_BYTES), str(path))


def parse_yaml(text: str, where: str, error: type[StudyError] = StudyError) -> Document:
    """Parse one YAML mapping that was read already; ``where`` names it.

    Raises:
        StudyError: (or ``error``) not YAML, not a mapping, a key twice, or aliases.
    """
    try:
        _check_plain(text)
        document, lines = _read(text)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        what = getattr(problem, "problem", None) or "does not parse"
        raise error(f"{where}: not valid YAML{line}: {what}") from None
    if not isinstance(document, dict):
        raise error(f"{where}: expected a mapping of keys to values")
    result = Document(document)
    result.lines = lines
    return result


def _read(text: str) -> tuple[Any, dict[Place, int]]:
    """Return what a text says, and in which line each of its keys is; both are made of one composition."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        document = None if node is None else loader.construct_document(node)
        return document, dict(_lines(node))
    finally:
        loader.dispose()


def _check_plain(text: str) -> None:
    """Refuse, before anything is built, what a page of settings has no use for: aliases, tags, deep nesting."""
    depth = 0
    event: Any
    for event in yaml.parse(text, Loader=_Loader):
        what = None
        if isinstance(event, yaml.AliasEvent):
            what = "aliases are not allowed; write the value out"
        elif isinstance(event, yaml.NodeEvent) and getattr(event, "tag", None) is not None:
            what = "tags are not allowed; write the plain value"
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            what = f"more than {MAX_DEPTH} levels of nesting" if depth > MAX_DEPTH else None
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if what:
            raise yaml.constructor.ConstructorError(problem=what, problem_mark=event.start_mark)


def validate(model: type[Model], document: Any, where: str, error: type[StudyError] = StudyError) -> Model:
    """Validate ``document`` against ``model``; every problem goes into one line.

    Raises:
        StudyError: (or ``error``) naming each offending key and, for an unknown key, the nearest known one.
    """
    try:
        return model.model_validate(document)
    except ValidationError as problem:
        items = problem.errors(include_url=False)
        # A list that is too short for want of a wrong item is told by that item.
        below = {item["loc"][:-1] for item in items}
        kept = [item for item in items if item["type"] != "too_short" or item["loc"] not in below]
        told = [_described(item, model, document) for item in kept]
        raise error(f"{where}: " + "; ".join(dict.fromkeys(told))) from None


@dataclass(frozen=True)
class Problem:
    """One mistake in a document: where it stands and what to do.

    ``line`` counts from 1; None: no line.
    """

    file: str
    line: int | None
    text: str

    def __str__(self) -> str:
        """As compilers write it, so that editors find the place."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.text}"


def parse_written(model: type[Model], content: bytes, where: str, otherwise: str) -> Model:
    """Read a JSON document that this program wrote, from the bytes of a file.

    Nothing of it is quoted.

    Args:
        model: of the document.
        content: the bytes.
        where: names the file.
        otherwise: what it then is, and what to do.

    Raises:
        DataError: it is no such document.
    """
    try:
        return validate(model, parse_json(content), where)
    except (ValueError, StudyError):
        problem = f"{where}: {otherwise}"
    raise DataError(problem)


def every_problem(model: type[Model], document: Mapping[str, Any], where: str) -> tuple[Model | None, list[Problem]]:
    """Return all mistakes of a document that can be found, and what remains of it without them.

    A model stops at its first rule for the whole document while a key is wrong. So wrong keys are taken out and the
    rest is looked at again, until nothing is wrong or nothing can be taken out.

    Returns:
        The model of the document without its wrong keys, None if it cannot do without them; and the problems.
    """
    rest = copy.deepcopy(dict(document))
    problems: dict[Problem, None] = {}
    removed: set[Place] = set()
    for _ in range(MAX_DEPTH):
        try:
            return model.model_validate(rest), list(problems)
        except ValidationError as failure:
            items = failure.errors(include_url=False)
        taken_out = False
        places = [_place(item["loc"], rest, missing=item["type"] == "missing") for item in items]
        for item, place in zip(items, places, strict=True):
            missing = item["type"] == "missing"
            # A list that is too short because a wrong item was taken out is told already, by that item.
            if item["type"] == "too_short" and any(
                key[: len(place)] == place and len(key) > len(place) for key in removed
            ):
                continue
            # What lacks a key only because that was taken out is told already, and goes as a whole.
            if not (missing and any(key[:-1] == place[:-1] for key in removed)):
                told = _said(item, ".".join(str(part) for part in place), model)
                # Rules for the whole document tell several problems in one, each of which begins with its place.
                for one in [told] if place else re.split(r"; (?=')", told):
                    if not any(f"'{key[-1]}'" in one for key in removed):
                        problems[Problem(where, line_of(document, place), one)] = None
            wrong = place[:-1] if missing else place
            if _take_out(rest, wrong):
                removed.add(wrong)
                taken_out = True
        if not taken_out:
            return None, list(problems)
    return None, list(problems)


def _take_out(document: Any, place: Place) -> bool:
    """Remove what stands at a place; False if it is the document itself or is gone already."""
    if not place:
        return False
    try:
        for part in place[:-1]:
            document = document[part]
        del document[place[-1]]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def line_of(document: Any, place: Place) -> int | None:
    """Return the line of the deepest key on the way to a place that stands in the file."""
    lines = document.lines if isinstance(document, Document) else {}
    return next((lines[place[:end]] for end in range(len(place), 0, -1) if place[:end] in lines), None)


def _described(item: Any, model: type[BaseModel], document: Any) -> str:
    place = _place(item["loc"], document, missing=item["type"] == "missing")
    line = line_of(document, place)
    said = _said(item, ".".join(str(part) for part in place), model)
    return said if line is None else f"line {line}: {said}"


def _place(location: Place, document: Any, *, missing: bool) -> Place:
    """Return the keys that a person wrote: pydantic puts the name of a union's branch between them."""
    place: list[str | int] = []
    here = document
    for position, part in enumerate(location):
        inside = (isinstance(here, dict) and part in here) or (
            isinstance(here, list | tuple) and isinstance(part, int) and part < len(here)
        )
        if inside:
            place.append(part)
            here = here[part]
        elif missing and position == len(location) - 1 and isinstance(here, dict | list | tuple):
            place.append(part)
    return tuple(place)


def _said(item: Any, place: str, model: type[BaseModel]) -> str:
    if item["type"] == "extra_forbidden":
        return f"unknown key '{place}'{hint(model, item['loc'])}"
    if item["type"] == "missing":
        return missing_key(place)
    told = plain_message(item, place)
    # A rule for the whole document names the keys that it is about.
    return f"'{place}': {told}" if place else told


_PAINTERS: dict[type, Callable[[Any], str]] = {}


_WRITERS: dict[type, Callable[[Any], str]] = {}


class Shown:
    """Base of what a notebook shows as HTML, ``print`` as a few lines, and a console as one.

    The words and figures live on a higher floor, which hands its painters and writers down here. Before a model's
    class in the list of bases, as models have a text of all their fields.
    """

    def brief(self) -> str:
        """Return the gist in one line."""
        return ""

    def __repr__(self) -> str:
        """Return class and gist: all fields would fill a screen."""
        return f"<{type(self).__name__} {self.brief()}>"

    def __str__(self) -> str:
        """Return the lines of the panel where the class has a writer, else the gist."""
        writer = next((_WRITERS[kind] for kind in type(self).__mro__ if kind in _WRITERS), None)
        return self.brief() if writer is None else writer(self)

    def _repr_html_(self) -> str | None:
        """Return a fragment of HTML, as IPython and Jupyter ask for it; None: they show the text."""
        painter = next((_PAINTERS[kind] for kind in type(self).__mro__ if kind in _PAINTERS), None)
        return None if painter is None else painter(self)


def painted_by(kind: type[Shown], painter: Callable[[Any], str]) -> None:
    """Have documents of ``kind`` and of its subclasses shown by ``painter``."""
    _PAINTERS[kind] = painter


def written_by(kind: type[Shown], writer: Callable[[Any], str]) -> None:
    """Have ``str`` of documents of ``kind`` and of its subclasses be the text of ``writer``."""
    _WRITERS[kind] = writer
