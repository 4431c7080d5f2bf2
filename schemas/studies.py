"""Find every kind of study by name, and state the question of `causalveil ranges`.

The owner asks for ranges of data whose contract leaves ranges open. It is no kind of study: what it finds goes into the
contract, and from there into releases.
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
    """Return every study class in ``schemas/estimators/``, by its kind and by the name of its estimator.

    Both are literals of the class, so that no second list of them is kept.
    """
    found: dict[str, dict[str, type[Study]]] = {}
    for module in sorted(entry.name for entry in iter_modules(estimators.__path__)):
        where = f"{estimators.__name__}.{module}"
        for one in vars(import_module(where)).values():
            if isinstance(one, type) and issubclass(one, Study) and one.__module__ == where:
                kind, name = _literal(one, "kind"), _literal(one.model_fields["estimator"].annotation, "name")
                found.setdefault(kind, {})[name] = one
    return found


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
        StudyError: it names none of them.
    """
    kind = document.get("kind")
    if not isinstance(kind, str) or kind not in known:
        asked = nearest(kind, known) if isinstance(kind, str) else ""
        raise StudyError(f"{where}: 'kind' must be one of: {', '.join(known)}{asked or example('kind')}")
    names = known[kind]
    estimator = document.get("estimator")
    name = estimator.get("name") if isinstance(estimator, Mapping) else None
    if not isinstance(name, str) or name not in names:
        wrong = name if isinstance(name, str) else estimator if isinstance(estimator, str) else ""
        choice = "; write estimator: {name: auto} to leave the choice open" if "auto" in names else ""
        asked = f"; write estimator: {{name: {wrong}}}" if wrong in names else nearest(wrong, names) or choice
        raise StudyError(f"{where}: 'estimator.name' must be one of: {', '.join(names)}{asked}")
    return kind, name


MOST_COLUMNS = 100


class RangesStudy(Study):
    """The numbers to find a range for."""

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
    """The ends between which a column's values lie, but for few.

    They are None where noise hides all counts of the column.
    """

    column: Name
    lower: Finite | None
    upper: Finite | None


class RangesFound(Frozen):
    """The ranges that were found, and what they cost."""

    kind: Literal["ranges"] = "ranges"
    run_id: str
    dataset: str
    units: int
    epsilon: str
    threshold: Finite
    ranges: tuple[FoundRange, ...]
