"""Find every kind of study by name, and state the question of `causalveil ranges`.

The owner asks for ranges of columns whose contract leaves them open. That is no kind of study: the ranges go into the
contract.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from causalveil.schemas import estimators
from causalveil.schemas.columns import Column, Finite, Holds, Name, Nulls
from causalveil.schemas.errors import StudyError
from causalveil.schemas.mistakes import example, nearest, validate
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.study import Study


def _studies() -> dict[str, dict[str, type[Study]]]:
    """Return every study class in ``schemas/estimators/`` by kind and estimator's name."""
    studies: dict[str, dict[str, type[Study]]] = {}
    for module in sorted(entry.name for entry in iter_modules(estimators.__path__)):
        where = f"{estimators.__name__}.{module}"
        for model in vars(import_module(where)).values():
            if isinstance(model, type) and issubclass(model, Study) and model.__module__ == where:
                kind, name = _literal(model, "kind"), _literal(model.model_fields["estimator"].annotation, "name")
                studies.setdefault(kind, {})[name] = model
    return studies


def _literal(model: Any, field: str) -> str:
    """Return the one value that a field of a model may have."""
    (value,) = get_args(model.model_fields[field].annotation)
    return str(value)


# kind -> estimator name -> the study that declares it.
STUDIES: Mapping[str, Mapping[str, type[Study]]] = _studies()


def estimator_names() -> tuple[str, ...]:
    """Return every estimator that a contract may allow."""
    return tuple(dict.fromkeys(name for names in STUDIES.values() for name in names))


def parse_study(document: Mapping[str, Any], where: str = "study") -> Study:
    """Return a study in full from a document.

    Its kind and the name of its estimator choose the model.

    Raises:
        StudyError: with every problem in one line.
    """
    kind, name = named(STUDIES, document, where)
    return validate(STUDIES[kind][name], document, where)


def named(known: Mapping[str, Collection[str]], document: Mapping[str, Any], where: str) -> tuple[str, str]:
    """Return the kind and the estimator's name of a document.

    Args:
        known: the names of estimators, by kind.
        document: of a study.
        where: names it in messages.

    Raises:
        StudyError: the kind or the estimator is unknown.
    """
    kind = document.get("kind")
    if not isinstance(kind, str) or kind not in known:
        near = nearest(kind, known) if isinstance(kind, str) else ""
        raise StudyError(f"{where}: 'kind' must be one of: {', '.join(known)}{near or example('kind')}")
    names = known[kind]
    estimator = document.get("estimator")
    name = estimator.get("name") if isinstance(estimator, Mapping) else None
    if not isinstance(name, str) or name not in names:
        written = name if isinstance(name, str) else estimator if isinstance(estimator, str) else ""
        choice = "; write estimator: {name: auto} to leave the choice open" if "auto" in names else ""
        advice = f"; write estimator: {{name: {written}}}" if written in names else nearest(written, names) or choice
        raise StudyError(f"{where}: 'estimator.name' must be one of: {', '.join(names)}{advice}")
    return kind, name


MOST_COLUMNS = 100


class RangesStudy(Study):
    """The columns of numbers for which to find a range."""

    kind: Literal["ranges"] = "ranges"
    numbers: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST_COLUMNS)]

    @property
    def roles(self) -> dict[str, Column]:
        """The unit, and numbers that may be missing."""
        return {
            self.data.unit: Column(holds=Holds.unit),
            **{name: Column(holds=Holds.number, nulls=Nulls.welcome) for name in self.numbers},
        }


class FoundRange(Frozen):
    """The ends between which most of a column's values lie; None where noise hides them."""

    column: Name
    lower: Finite | None
    upper: Finite | None


class RangesFound(Frozen):
    """The ranges of columns, and their cost."""

    kind: Literal["ranges"] = "ranges"
    run_id: str
    dataset: str
    units: int
    epsilon: str
    threshold: Finite
    ranges: tuple[FoundRange, ...]
