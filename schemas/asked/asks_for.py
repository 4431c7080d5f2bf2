"""Tell whether a study in full is what a study file asks for, by what the file itself says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from causalveil.schemas.asked.auto import AutoEstimator, options
from causalveil.schemas.asked.columns import AskedCensoring, AskedGroups, AskedTimes
from causalveil.schemas.asked.formula import terms_of
from causalveil.schemas.asked.study_file import EffectStudyFile, StudyFile
from causalveil.schemas.estimators.regression import of_stated_form
from causalveil.schemas.estimators.survival import Censoring, equal_classes
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.protocols.study import TableStudy
from causalveil.schemas.study import UNRECORDED, Covariate, NumericCovariate, Study
from causalveil.schemas.where import AskedCondition

# Keys that are compared in a way of their own, or that change nothing that is released.
_APART = ("data", "estimator", "privacy", "purpose", "expect", "outcome", "outcomes", "measure")


def asks_for(asked: StudyFile, study: Study) -> bool:
    """Return whether a study in full is what a file asks for, by what the file itself says.

    No contract is needed. Every key of the file counts, whatever kind of study it asks for.
    """
    return (
        asked.data.select == study.data.select
        and _same_method(asked, study)
        and all(_is_said(asked, key, value, study) for key, value in asked if key not in _APART)
        and (not isinstance(asked, EffectStudyFile) or _same_questions(asked, study))
    )


def _same_questions(asked: EffectStudyFile, study: Study) -> bool:
    """Return whether outcomes and measures are the file's."""
    return (
        isinstance(study, TableStudy) and _within(asked.questions, study.outcomes) and asked.measures == study.measure
    )


def _is_said(asked: StudyFile, key: str, value: Any, study: Study) -> bool:
    """Return whether a study has what a file says under one of its keys."""
    if not hasattr(study, key):
        # A key of the other kind of outcomes, which the file does not use.
        return bool(value == type(asked).model_fields[key].default)
    found = getattr(study, key)
    if key in ("missing", *UNRECORDED):
        return bool((value or "refuse") == found)
    if value is None or found is None:
        return value is found
    if isinstance(value, AskedGroups):
        levels = None if value.levels is None else _in_codes(value.levels, found.column)
        return value.name == found.name and levels in (None, getattr(found.column, "levels", None))
    if key == "terms":
        return bool(tuple(one.term for one in terms_of(value)[0]) == found)
    if isinstance(value, AskedCensoring):
        return _same_losses(value, found, study)
    return _within(value, found)


def _within(asked: Any, found: Any) -> bool:
    """Return whether a part of a study in full has everything that a file says of it."""
    if isinstance(asked, Mapping):
        return asked.keys() == found.keys() and all(_within(one, found[name]) for name, one in asked.items())
    if isinstance(asked, tuple) and isinstance(found, tuple):
        return len(asked) == len(found) and all(map(_within, asked, found))
    if isinstance(asked, AskedCondition):
        return asked.is_asked_by(found)
    if isinstance(asked, AskedTimes) and asked.events is not None:
        # The order of all events is each contract's.
        same = set(asked.events) == {name for name in found.codes if name != found.censoring}
        return same and _within(asked.model_copy(update={"events": None}), found)
    if isinstance(asked, Frozen) and type(asked) is not type(found):
        return all(one is None or _within(_in_codes(one, found), getattr(found, key, None)) for key, one in asked)
    return bool(asked == found)


def _in_codes(value: Any, found: Any) -> Any:
    """Return levels that a file names as the codes of a column in full; anything else as it is."""
    codes: Mapping[str, Any] = getattr(found, "of_names", {})
    if isinstance(value, tuple):
        return tuple(_in_codes(one, found) for one in value)
    return codes.get(value, value) if isinstance(value, str) else value


def _same_losses(asked: AskedCensoring, found: Censoring, study: Any) -> bool:
    """Return whether losses depend on the columns that a file names, in as many classes, within the same floor."""
    named = asked.columns({*found.by, study.treatment})
    named.pop(study.treatment, None)
    return (
        (asked.floor, asked.beyond) == (found.floor, found.beyond)
        and named.keys() == found.by.keys()
        and all(_classes_in_full(found.by[name], divided) == found.classes.get(name) for name, divided in named.items())
    )


def _classes_in_full(column: Covariate, divided: int | tuple[float, ...] | None) -> tuple[float, ...] | None:
    """Return where classes begin that a file asks for; None: it asks for none."""
    if isinstance(divided, int) and isinstance(column, NumericCovariate):
        return equal_classes(column.lower, column.upper, divided)
    return divided if isinstance(divided, tuple) else None


def _same_method(asked: StudyFile, study: Study) -> bool:
    """Return whether estimator and privacy are the file's, or among those ``auto`` may choose."""
    terms = asked.terms if isinstance(asked, EffectStudyFile) else ()
    said = [(asked.estimator, asked.privacy)]
    if isinstance(asked.estimator, AutoEstimator):
        said = options(asked.estimator, asked.privacy)
    return (study.estimator, study.privacy) in [(of_stated_form(one, terms), privacy) for one, privacy in said]
