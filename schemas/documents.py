"""Read documents: YAML that people write, JSON, and the paths and URLs in them.

Base of documents that a notebook, ``print`` and a console show, each in its own way.

Decimals are read from text. ``schemas/mistakes.py`` holds what was read to a model.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator

from causalveil.schemas.errors import StudyError, kind_of

_PAINTERS: dict[type, Callable[[Any], str]] = {}
_WRITERS: dict[type, Callable[[Any], str]] = {}
_TABLES: dict[type, Callable[[Any], Any]] = {}


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


def tabled_by(kind: type, table: Callable[[Any], Any]) -> None:
    """Have :func:`table_of` documents of ``kind`` be the frame that ``table`` makes of them."""
    _TABLES[kind] = table


def table_of(document: object) -> Any:
    """Return the data frame of a document's rows."""
    return next(_TABLES[kind] for kind in type(document).__mro__ if kind in _TABLES)(document)


Place = tuple[str | int, ...]
MAX_BYTES = 1_000_000
# A release or bundle with a hundred covariates is some hundred kilobytes.
MAX_DOCUMENT_BYTES = 64_000_000
# A study nests four levels deep; its longest number has some twenty characters.
MAX_DEPTH = 20
MAX_NUMBER = 100


@dataclass(frozen=True)
class Breach:
    """A rule of a document that is broken.

    Attributes:
        place: the key that is wrong, with dots between keys, as people write it; empty: the whole document.
        text: what is wrong and what to do.
        names: columns and keys that it is about beside its place. Where one of them is wrong itself, this is no news.
    """

    place: str
    text: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the text."""
        return self.text


class RuleBroken(ValueError):
    """Rules of a whole document that are broken, each at the key where it stands."""

    def __init__(self, text: str, place: str = "", *names: str, also: Iterable[Breach] = ()) -> None:
        """``also``: further rules; ``text`` may then be empty."""
        self.breaches = (*([Breach(place, text, names)] if text else []), *also)
        super().__init__("; ".join(map(str, self.breaches)))


class _Loader(yaml.SafeLoader):
    """SafeLoader of the YAML 1.2 core schema: ``no`` and dates are text, ``1e-6`` is a number."""


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


_VERSION = re.compile(r"[0-9][0-9A-Za-z.+]{0,39}")
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
    return _of_a_system(path)


def _of_a_system(path: str) -> str:
    """Refuse what no file system takes for a path, before one is asked."""
    if "\0" in path:
        raise ValueError("holds a NUL character, which no path has")
    return path


LocalPath = Annotated[str, AfterValidator(refuse_url), AfterValidator(_of_a_system)]
# A path of this machine, or a URL of object storage.
AnyPath = Annotated[str, AfterValidator(_known_place)]


def read_regular(path: Path, largest: int = MAX_DOCUMENT_BYTES) -> bytes:
    """Return the bytes of a regular file of at most ``largest`` bytes.

    A pipe or a device never keeps the reader waiting.

    Raises:
        NotADocument: it is no regular file, or larger.
        OSError: it is not there or cannot be read.
    """
    if path.is_dir():
        raise NotADocument("is a folder; name the file in it")
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise NotADocument("not a regular file")
        content = file.read(largest + 1)
    if len(content) > largest:
        raise NotADocument(f"larger than {largest} bytes")
    return content


def path_of(value: Any, what: str) -> Path:
    """Return the path that a caller in Python gave for a document.

    Raises:
        StudyError: it is no path.
    """
    if not isinstance(value, str | os.PathLike):
        raise StudyError(f"{what} is named by its path, as text or a Path, not by {type(value).__name__}")
    return Path(value)


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
        raise error(f"{path}: cannot be read as UTF-8 text ({kind_of(problem)})") from None


def parse_json(text: str | bytes) -> Any:
    """Parse JSON of any origin.

    Raises:
        ValueError: it is not JSON, or nests deeper or has longer numbers than any document of ours.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


@cache
def own_version() -> str:
    """Return the version of this program, as documents and ledger entries record it."""
    from importlib.metadata import version  # 20 ms that readers of a study need not pay

    return version("causalveil")


def as_written(where: str, document: Any) -> str:
    """Return the start of an error on a document: its place, and the version that wrote it.

    Args:
        where: names the document.
        document: of any origin, with or without the name of its software.
    """
    software = document.get("software") if isinstance(document, dict) else None
    version = software.get("version") if isinstance(software, dict) else None
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        return where
    if version == own_version():
        return f"{where}: not as this version, {version}, writes it"
    return f"{where}: written by causalveil {version}, and this version, {own_version()}, does not read it"


def digest_of(document: Any) -> str:
    """Return the SHA-256 of a document of plain values as canonical JSON."""
    return text_digest(json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True))


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text's UTF-8 bytes."""
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
    """Return the document of a text, and the line of each of its keys, from one composition."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        document = None if node is None else loader.construct_document(node)
        return document, dict(_lines(node))
    finally:
        loader.dispose()


def _check_plain(text: str) -> None:
    """Refuse aliases, tags and deep nesting before anything is built."""
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
