"""Validate documents: say what is wrong with a key, and what to write in its place.

An unknown key is met with the nearest known one, or with the place where it belongs.
"""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError

from causalveil.schemas.documents import MAX_DEPTH, Breach, Document, Place, RuleBroken, parse_json
from causalveil.schemas.errors import DataError, StudyError

# Control characters, ends of lines, halves of pairs, and Unicode's embeddings, overrides and isolates, by which text
# reads otherwise than it is stored.
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
# What a newcomer writes for a key of ours.
SYNONYMS = {
    "min": "lower",
    "max": "upper",
    "low": "lower",
    "high": "upper",
    "eps": "epsilon",
    "exposure": "treatment",
    "intervention": "treatment",
    "target": "outcome",
    "response": "outcome",
    "confounders": "covariates",
    "features": "covariates",
    "controls": "covariates",
    "method": "estimator",
    "budget": "privacy",
    "categories": "levels",
    "values": "levels",
    "id": "unit",
}
# Keys that a person has to write, with a value that is right or says what to put there.
AS_IN = {
    # Of a study
    "kind": "kind: effect",
    "name": "name: first-look",
    "treatment": "treatment: COLUMN",
    "outcome": "outcome: {name: COLUMN}",
    "outcomes": "outcomes: [{name: COLUMN, role: primary}]",
    "covariates": "covariates: [COLUMN, COLUMN]",
    "estimator": "estimator: {name: auto}",
    "privacy": "privacy: {epsilon: 1.0, delta: 1e-6}",
    "epsilon": "epsilon: 1.0",
    "delta": "delta: 1e-6",
    "confidence": "confidence: 0.95",
    "time": "time: COLUMN",
    "event": "event: COLUMN",
    "horizon": "horizon: 365",
    "where": "where: [{column: age, op: '>=', value: 18}]",
    # Of a contract
    "dataset": "dataset: clinic-2026",
    "data_class": "data_class: sensitive",
    "unit": "unit: COLUMN",
    "columns": "columns: {age: {lower: 0, upper: 110}}",
    "public": "public: []",
    "caps": "caps: {sample: {epsilon: 10, delta: 1e-4}}",
    "sample": "sample: {epsilon: 10, delta: 1e-4}",
    "label": "label: {epsilon: 10, delta: 1e-4}",
    "lower": "lower: 0",
    "upper": "upper: 100",
    "levels": "levels: [a, b]",
    "codes": "codes: {control: 0, treated: 1}",
    "control": "control: 0",
    "treated": "treated: 1",
    "blocks": "blocks: {key: month, units_span: false}",
    "select.blocks": "blocks: [2026-07]",
}
# How pydantic calls a bound that a number breaks, and in words.
BOUNDS = {
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "less than or equal to"),
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "greater than or equal to"),
}
OTHERS = {"finite_number": "must be a finite number", "int_from_float": "must be a whole number"}
_NAME = "must begin with a letter or digit and have letters, digits, '.', '-' and '_' alone"


def example(key: object) -> str:
    """Return how a key is written, as the end of a sentence; empty where it is not known."""
    return f", as in {AS_IN[str(key)]}" if str(key) in AS_IN else ""


def nearest(name: str, known: Iterable[str], cutoff: float = 0.7) -> str:
    """Return the end of a sentence that asks for the known word nearest to a misspelt one."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f", did you mean '{close[0]}'?" if close else ""


def missing_key(place: str) -> str:
    """Say that a key is missing, and how it is written."""
    return f"missing key '{place}'{example(place.rpartition('.')[2])}"


def plain_message(item: Mapping[str, Any], place: str) -> str:
    """Return pydantic's message on a value as a plain sentence for its author."""
    kind, context = str(item["type"]), item.get("ctx") or {}
    last_two = ".".join(place.split(".")[-2:])
    key = last_two if last_two in AS_IN else place.rpartition(".")[2]
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return f"must be a mapping of keys to values{example(key)}"
    if kind in ("list_type", "tuple_type"):
        return f"must be a list{example(key) or ', as in [a, b]'}"
    if kind in ("enum", "literal_error"):
        choices = str(context.get("expected", ""))
        names = choices.replace("'", "").replace(" or ", ", ").split(", ")
        return f"must be {'one of ' if len(names) > 1 else ''}{choices}{nearest(str(item.get('input'))[:100], names)}"
    if kind in ("too_short", "too_long"):
        most, ends = ("min_length", "at least") if kind == "too_short" else ("max_length", "at most")
        return f"must have {ends} {context.get(most)} of them, and has {context.get('actual_length')}"
    if kind == "string_pattern_mismatch" and str(context.get("pattern", "")).startswith("^[A-Za-z0-9]"):
        return f"{_NAME}{example(key)}"
    if kind in ("float_parsing", "float_type", "int_parsing", "int_type", "decimal_parsing"):
        return f"must be a number{example(key)}"
    if kind in ("bool_type", "bool_parsing"):
        return "must be true or false"
    if kind == "string_type":
        return f"must be a text string{example(key)}"
    if kind in BOUNDS:
        bound, words = BOUNDS[kind]
        # Of a decimal within a union pydantic tells the bound as text.
        end = context[bound] if isinstance(context[bound], str) else f"{context[bound]:.15g}"
        return f"must be {words} {end}{example(key)}"
    return str(context["error"]) if kind == "value_error" else OTHERS.get(kind, str(item["msg"]))


# A model, and the tag by which a union knows it.
Branch = tuple[type[BaseModel], str | None]


def hint(model: type[BaseModel], location: Sequence[str | int]) -> str:
    """Return the end of the sentence "unknown key '...'".

    Args:
        model: of the whole document.
        location: pydantic's, which names branches of unions too; the unknown key is the last.
    """
    name = str(location[-1])
    here = sorted({key for place in _at(model, location[:-1]) for key in place.model_fields} - {name})
    if SYNONYMS.get(name) in here:
        return f", did you mean '{SYNONYMS[name]}'?"
    close = difflib.get_close_matches(name, here, n=1, cutoff=0.6)
    # Places on the way to the unknown key are no advice.
    known = _parents(model, location)
    above = {parts for parts in known.get(name, set()) if not parts or tuple(location[: len(parts)]) != parts}
    above -= {tuple(location[:-1])}
    # Nor are several mappings that require the key, such as a name: each has it already.
    own = {parts for parts in above if _has_value(model, parts, name)}
    above -= own if len(own) > 1 else set()
    if above and (not close or difflib.SequenceMatcher(None, name, close[0]).ratio() < 0.8):
        # The place nearest to the top is the most likely.
        place = ".".join(min((len(parts), parts) for parts in above)[1])
        return f"; it belongs below '{place}'" if place else "; it belongs at the top of the document"
    if close:
        return f", did you mean '{close[0]}'?"
    every = [] if name in known else difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f", did you mean '{every[0]}'?" if every else f" (known keys: {', '.join(here)})"


def _has_value(model: type[BaseModel], parts: Sequence[str | int], name: str) -> bool:
    """Return whether a mapping must have a key whose value is no mapping."""
    fields = [place.model_fields[name] for place in _at(model, parts) if name in place.model_fields]
    return any(field.is_required() and not _branches(field.annotation) for field in fields)


def _at(model: type[BaseModel], location: Sequence[str | int]) -> list[type[BaseModel]]:
    """Return the models that may stand at a place."""
    branches: list[Branch] = [(model, None)]
    for part in location:
        fields = [
            branch.model_fields[part] for branch, _ in branches if isinstance(part, str) and part in branch.model_fields
        ]
        if fields:
            branches = [branch for field in fields for branch in _branches(field.annotation)]
        else:
            # A branch of a union, by its name; else the key of a mapping, below which the same models stand.
            branches = [branch for branch in branches if _is_named(branch, part)] or branches
    return [branch for branch, _ in branches]


def _is_named(branch: Branch, name: str | int) -> bool:
    model, tag = branch
    return name == tag or any(
        get_origin(field.annotation) is Literal and name in get_args(field.annotation)
        for field in model.model_fields.values()
    )


def _parents(
    model: type[BaseModel],
    location: Sequence[str | int],
    place: tuple[str, ...] = (),
    seen: frozenset[type] = frozenset(),
) -> dict[str, set[tuple[str, ...]]]:
    """Return the parents of every key of a model and of models below it.

    Of a union on the way to ``location`` only the branch that it names is searched.
    """
    parents: dict[str, set[tuple[str, ...]]] = {}
    if model in seen:
        return parents
    for key, field in model.model_fields.items():
        parents.setdefault(key, set()).add(place)
        below, branches = (*place, key), _branches(field.annotation)
        if tuple(location[: len(below)]) == below and len(location) > len(below):
            branches = [branch for branch in branches if _is_named(branch, location[len(below)])] or branches
        for nested, _ in branches:
            for name, places in _parents(nested, location, below, seen | {model}).items():
                parents.setdefault(name, set()).update(places)
    return parents


def _branches(annotation: Any, tag: str | None = None) -> list[Branch]:
    """Return the models of an annotation, with the tags of a union's branches."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [(annotation, tag)]
    tag = next((mark.tag for mark in getattr(annotation, "__metadata__", ()) if isinstance(mark, Tag)), tag)
    return [branch for part in getattr(annotation, "__args__", ()) for branch in _branches(part, tag)]


Model = TypeVar("Model", bound=BaseModel)


def _controls(value: Any, welcome: str, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Yield the control characters of a document, each with its place."""
    if isinstance(value, str):
        yield from ((place, letter) for letter in CONTROLS.findall(value) if letter not in welcome)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _controls(key, welcome, place)
            yield from _controls(item, welcome, (*place, str(key)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _controls(item, welcome, (*place, index))


def _hidden(document: Any) -> Iterator[tuple[Place, str]]:
    """Yield places of control characters with a sentence; line breaks and tabs are allowed."""
    for place, letter in _controls(document, "\n\r\t"):
        named = f"'{'.'.join(map(str, place))}': " if place else ""
        yield place, f"{named}holds the control character U+{ord(letter):04X}; write plain text"


def validate(model: type[Model], document: Any, where: str, error: type[StudyError] = StudyError) -> Model:
    """Validate ``document`` against ``model``; every problem goes into one line.

    Every document from outside passes here, so that what is shown of it later cannot move a cursor, hide a line or turn
    the direction of writing: such characters are refused.

    Raises:
        StudyError: (or ``error``) naming each offending key and, for an unknown key, the nearest known one.
    """
    for _, sentence in _hidden(document):
        raise error(f"{where}: {sentence}")
    try:
        return model.model_validate(document)
    except ValidationError as problem:
        items = problem.errors(include_url=False)
        # Of a list that is too short because of a wrong item only the item is reported.
        parents = {item["loc"][:-1] for item in items}
        sentences = [
            _described(item, model, document)
            for item in items
            if item["type"] != "too_short" or item["loc"] not in parents
        ]
        raise error(f"{where}: " + "; ".join(dict.fromkeys(sentences))) from None


@dataclass(frozen=True)
class Problem:
    """One mistake in a document: where it stands and what to do.

    ``line`` counts from 1; None: no line. ``place``: the keys down to it; empty: the whole document.
    """

    file: str
    line: int | None
    text: str
    place: Place = ()

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
    hidden = [Problem(where, line_of(document, place), sentence, place) for place, sentence in _hidden(document)]
    if hidden:
        return None, hidden
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
            # Of a list that is too short because a wrong item was removed only the item is reported.
            if item["type"] == "too_short" and any(
                key[: len(place)] == place and len(key) > len(place) for key in removed
            ):
                continue
            # A mapping that lacks a key only because it was removed is removed as a whole, without a report.
            if not (missing and any(key[:-1] == place[:-1] for key in removed)):
                gone = {key[-1] for key in removed if key[: len(place)] == place}
                for breach in _breaches(item, place, model):
                    at = place or place_of(breach.place, document)
                    if gone.isdisjoint((*breach.names, *breach.place.split("."))):
                        problems[Problem(where, line_of(document, at), breach.text, at)] = None
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


def place_of(key: str, document: Any) -> Place:
    """Return the place of a key with dots.

    A name may stand in a list, of whose items people count from 1.
    """
    first, _, rest = key.partition(".")
    listed = document.get(first) if isinstance(document, Mapping) else None
    if isinstance(listed, list | tuple):
        if rest.isdecimal():
            return (first, int(rest) - 1)
        return (first, listed.index(rest)) if rest in listed else (first,)
    return (first, *rest.split(".")) if rest else (first,) if first else ()


def line_of(document: Any, place: Place) -> int | None:
    """Return the line of the deepest key on the way to a place that stands in the file."""
    lines = document.lines if isinstance(document, Document) else {}
    return next((lines[place[:end]] for end in range(len(place), 0, -1) if place[:end] in lines), None)


def _described(item: Any, model: type[BaseModel], document: Any) -> str:
    place = _place(item["loc"], document, missing=item["type"] == "missing")
    line = line_of(document, place)
    sentence = _sentence(item, ".".join(map(str, place)), model)
    return sentence if line is None else f"line {line}: {sentence}"


def _place(location: Place, document: Any, *, missing: bool) -> Place:
    """Return the keys that a person wrote, without pydantic's names of branches of unions."""
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


def _breaches(item: Any, place: Place, model: type[BaseModel]) -> tuple[Breach, ...]:
    """Return the breaches in an error of pydantic; a rule of the document may have several."""
    broken, sentence = (item.get("ctx") or {}).get("error"), _sentence(item, ".".join(map(str, place)), model)
    if not isinstance(broken, RuleBroken):
        return (Breach("", sentence),)
    if not place:
        return broken.breaches
    return tuple(Breach(breach.place, sentence, breach.names) for breach in broken.breaches)


def _sentence(item: Any, place: str, model: type[BaseModel]) -> str:
    if item["type"] == "extra_forbidden":
        return f"unknown key '{place}'{hint(model, item['loc'])}"
    if item["type"] == "missing":
        return missing_key(place)
    message = plain_message(item, place)
    # A rule of the whole document names its keys itself.
    return f"'{place}': {message}" if place else message
