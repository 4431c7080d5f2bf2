"""Tell whether a study in full is what a study file asks for, by what the file itself says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from causalveil.schemas.asked.columns import AskedCensoring, AskedGroups, AskedOutcome, AskedTimes
from causalveil.schemas.asked.formula import terms_of
from causalveil.schemas.asked.study_file import AutoEstimator, EffectStudyFile, StudyFile, options
from causalveil.schemas.columns import Covariate, NumericCovariate
from causalveil.schemas.estimators.regression import of_stated_form
from causalveil.schemas.estimators.survival import Censoring, equal_classes
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.study import UNRECORDED, Study
from causalveil.schemas.table import TableStudy
from causalveil.schemas.where import AskedCondition

# Keys with a comparison of their own, and keys that affect no release.
_APART = {
    "data",
    "estimator",
    "privacy",
    "purpose",
    "expect",
    "outcome",
    "outcomes",
    "measure",
    "contrasts",
    "standardise",
}


def asks_for(asked: StudyFile, study: Study) -> bool:
    """Return whether a study in full is what a file asks for, by what the file itself says.

    No contract is needed. Every key of the file counts, whatever kind of study it asks for.
    """
    return (
        asked.data.select == study.data.select
        and _same_method(asked, study)
        and all(_same_key(asked, key, value, study) for key, value in asked if key not in _APART)
        and (not isinstance(asked, EffectStudyFile) or _same_questions(asked, study))
    )


def _same_questions(asked: EffectStudyFile, study: Study) -> bool:
    """Return whether outcomes and measures are the file's."""
    return (
        isinstance(study, TableStudy)
        and _agrees(asked.questions, study.outcomes)
        and asked.measures == study.measure
        and asked.compared == getattr(study, "contrasts", ())
    )


def _same_key(asked: StudyFile, key: str, value: Any, study: Study) -> bool:
    """Return whether a study has what a file says under one of its keys."""
    if not hasattr(study, key):
        # A key of the other kind of outcomes, which the file does not use.
        return bool(value == type(asked).model_fields[key].default)
    full = getattr(study, key)
    if key in ("missing", *UNRECORDED):
        return bool((value or "refuse") == full)
    if value is None or full is None:
        return value is full
    if isinstance(value, AskedGroups):
        levels = None if value.levels is None else _as_codes(value.levels, full.column)
        return value.name == full.name and levels in (None, getattr(full.column, "levels", None))
    if key == "terms":
        return bool(tuple(placed.term for placed in terms_of(value)[0]) == full)
    if isinstance(value, AskedCensoring):
        return _same_censoring(value, full, study)
    return _agrees(value, full)


def _agrees(asked: Any, full: Any) -> bool:
    """Return whether a part of a study in full has everything that a file says of it."""
    if isinstance(asked, Mapping):
        return asked.keys() == full.keys() and all(_agrees(value, full[key]) for key, value in asked.items())
    if isinstance(asked, tuple) and isinstance(full, tuple):
        return len(asked) == len(full) and all(map(_agrees, asked, full))
    if isinstance(asked, AskedCondition):
        return asked.is_asked_by(full)
    if isinstance(asked, AskedTimes) and (asked.entry, asked.landmark or 0.0) != (full.entry, full.landmark):
        return False
    if isinstance(asked, AskedTimes) and asked.events is not None:
        # The order of all events is each contract's.
        same = set(asked.events) == {name for name in full.codes if name != full.censoring}
        return same and _agrees(asked.model_copy(update={"events": None}), full)
    if isinstance(asked, AskedOutcome) and asked.of is not None:
        same = asked.of == {part.name: part.times for part in full.of}
        return same and _agrees(asked.model_copy(update={"of": None}), full)
    if isinstance(asked, Frozen) and type(asked) is not type(full):
        return all(value is None or _agrees(_as_codes(value, full), getattr(full, key, None)) for key, value in asked)
    return bool(asked == full)


def _as_codes(value: Any, column: Any) -> Any:
    """Return the codes of a column's levels for those that a file names; other values unchanged."""
    codes: Mapping[str, Any] = getattr(column, "of_names", {})
    if isinstance(value, tuple):
        return tuple(_as_codes(level, column) for level in value)
    return codes.get(value, value) if isinstance(value, str) else value


def _same_censoring(asked: AskedCensoring, full: Censoring, study: Any) -> bool:
    """Return whether columns, classes, floor and what is answered below it are the file's."""
    columns = asked.columns({*full.by, study.treatment})
    columns.pop(study.treatment, None)
    return (
        (asked.floor, asked.beyond) == (full.floor, full.beyond)
        and columns.keys() == full.by.keys()
        and all(_class_starts(full.by[name], cut) == full.classes.get(name) for name, cut in columns.items())
    )


def _class_starts(column: Covariate, cut: int | tuple[float, ...] | None) -> tuple[float, ...] | None:
    """Return where classes begin; None: the column has no classes."""
    if isinstance(cut, int) and isinstance(column, NumericCovariate):
        return equal_classes(column.lower, column.upper, cut)
    return cut if isinstance(cut, tuple) else None


def _same_method(asked: StudyFile, study: Study) -> bool:
    """Return whether estimator and privacy are the file's, or among those ``auto`` may choose."""
    terms = asked.terms if isinstance(asked, EffectStudyFile) else ()
    methods = [(asked.estimator, asked.privacy)]
    if isinstance(asked.estimator, AutoEstimator):
        methods = options(asked.estimator, asked.privacy)
    return (study.estimator, study.privacy) in [
        (of_stated_form(estimator, terms), privacy) for estimator, privacy in methods
    ]
