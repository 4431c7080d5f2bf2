"""Reading the YAML that people write: decimals from text, no surprises, unknown keys met with the nearest known one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from causalveil.schemas.errors import StudyError

Model = TypeVar("Model", bound=BaseModel)
MAX_BYTES = 1_000_000


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
    return Decimal(loader.construct_scalar(node).replace(".inf", "Infinity").replace(".nan", "NaN"))


def _integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(loader.construct_scalar(node))


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise yaml.constructor.ConstructorError(problem=f"key {key!r} is not text")
        if key in result:
            raise yaml.constructor.ConstructorError(problem=f"key {key!r} stands twice")
        result[key] = loader.construct_object(value_node, deep=True)
    return result


_Loader.add_constructor("tag:yaml.org,2002:float", _decimal)
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


@contextmanager
def reading(path: Path, error: type[StudyError] = StudyError) -> Iterator[None]:
    """Turn whatever keeps the block from reading ``path`` as UTF-8 text into a typed error.

    Raises:
        StudyError: (or ``error``) there is no such file, or it cannot be read.
    """
    try:
        yield
    except FileNotFoundError:
        raise error(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise error(f"{path}: cannot be read as UTF-8 text ({type(problem).__name__})") from None


def read_yaml(path: Path, error: type[StudyError] = StudyError) -> dict[str, Any]:
    """Parse one YAML mapping; numbers with a point or exponent become exact ``Decimal``.

    Args:
        path: the file.
        error: the type to raise, so that a policy's mistakes are the policy's.

    Raises:
        StudyError: (or ``error``) unreadable, not YAML, not a mapping, a key twice, aliases, or over a megabyte.
    """
    with reading(path, error):
        if path.stat().st_size > MAX_BYTES:
            raise error(f"{path}: larger than {MAX_BYTES} bytes; a study or policy file is a page of text")
        text = path.read_text(encoding="utf-8")
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=_Loader)):
            raise error(f"{path}: YAML aliases are not allowed; write the value out")
        document = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        what = getattr(problem, "problem", None) or "does not parse"
        raise error(f"{path}: not valid YAML{where}: {what}") from None
    if not isinstance(document, dict):
        raise error(f"{path}: expected a mapping of keys to values")
    return document


def validate(model: type[Model], document: Any, where: str, error: type[StudyError] = StudyError) -> Model:
    """Validate ``document`` against ``model``; every problem goes into one line.

    Raises:
        StudyError: (or ``error``) naming each offending key and, for an unknown key, the nearest known one.
    """
    try:
        return model.model_validate(document)
    except ValidationError as problem:
        known = sorted(_known_keys(model))
        lines = [_describe(item, known) for item in problem.errors(include_url=False)]
        raise error(f"{where}: " + "; ".join(dict.fromkeys(lines))) from None


def _describe(item: Any, known: list[str]) -> str:
    place = ".".join(str(part) for part in item["loc"]) or "document"
    if item["type"] == "extra_forbidden":
        nearest = difflib.get_close_matches(str(item["loc"][-1]), known, n=1, cutoff=0.5)
        hint = f", did you mean '{nearest[0]}'?" if nearest else f" (known keys: {', '.join(known)})"
        return f"unknown key '{place}'{hint}"
    if item["type"] == "missing":
        return f"missing key '{place}'"
    return f"'{place}': {item['msg'].removeprefix('Value error, ')}"


def _known_keys(model: type[BaseModel], seen: set[type] | None = None) -> set[str]:
    """Field names of ``model`` and of every model reachable from it."""
    seen = seen if seen is not None else set()
    if model in seen:
        return set()
    seen.add(model)
    keys = set(model.model_fields)
    for field in model.model_fields.values():
        for nested in _models_in(field.annotation):
            keys |= _known_keys(nested, seen)
    return keys


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in _models_in(part)]
