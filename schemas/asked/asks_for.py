"""Tell whether a study in full is what a study file asks for, by what the file itself says."""

from __future__ import annotations

from typing import Any

from causalveil.schemas.asked.resolve import unrecorded
from causalveil.schemas.asked.shorthands import AutoEstimator, options
from causalveil.schemas.asked.study_file import (
    AskedTimes,
    DirectionStudyFile,
    EffectStudyFile,
    ProtocolStudyFile,
    StudyFile,
    SurvivalProtocolFile,
    SurvivalStudyFile,
)
from causalveil.schemas.estimators.direction import DirectionStudy
from causalveil.schemas.estimators.survival import SurvivalStudy, TimeToEvent, equal_classes
from causalveil.schemas.estimators.survival_protocol import SurvivalProtocol
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.protocols.study import JointStudy, ProtocolStudy, Subgroups
from causalveil.schemas.study import (
    UNRECORDED,
    Covariate,
    EffectStudy,
    Missing,
    MissingTreatment,
    NumericCovariate,
    Study,
)


def asks_for(asked: StudyFile, study: Study) -> bool:
    """Return whether a study in full is what a file asks for, by what the file itself says.

    No contract is needed.
    """
    said = (asked.kind, asked.name, asked.data.select)
    if said != (study.kind, study.name, study.data.select) or not _same_method(asked, study):
        return False
    if isinstance(asked, DirectionStudyFile) and isinstance(study, DirectionStudy):
        return _within(asked.pair.x, study.pair.x) and _within(asked.pair.y, study.pair.y)
    if isinstance(asked, ProtocolStudyFile) and isinstance(study, ProtocolStudy):
        return _asks_for_protocol(asked, study)
    if isinstance(asked, SurvivalStudyFile) and isinstance(study, SurvivalStudy):
        return _asks_for_times(asked, study)
    if isinstance(asked, SurvivalProtocolFile) and isinstance(study, SurvivalProtocol):
        return _asks_for_many_times(asked, study)
    if not (isinstance(asked, EffectStudyFile) and isinstance(study, EffectStudy)):
        return False
    effect = (asked.treatment, asked.missing or Missing.refuse, asked.estimand, asked.confidence)
    return (
        effect == (study.treatment, study.missing, study.estimand, study.confidence)
        and unrecorded(asked) == {key: getattr(study, key) for key in UNRECORDED}
        and asked.covariates.keys() == study.covariates.keys()
        and _within(asked.outcome, study.outcome)
        and all(_within(one, study.covariates[name]) for name, one in asked.covariates.items())
    )


def _asks_for_times(asked: SurvivalStudyFile, study: SurvivalStudy) -> bool:
    keys = ("treatment", "measure", "intervals", "estimand", "confidence")
    return (
        all(getattr(asked, key) == getattr(study, key) for key in keys)
        and (asked.missing_treatment or MissingTreatment.refuse) == study.missing_treatment
        and (asked.missing or Missing.refuse) == study.missing
        and asked.covariates.keys() == study.covariates.keys()
        and all(_within(one, study.covariates[name]) for name, one in asked.covariates.items())
        and (asked.censoring.floor, asked.censoring.beyond) == (study.censoring.floor, study.censoring.beyond)
        and _asks_for_losses(asked, study)
        and len(asked.where) == len(study.where)
        and all(one.is_asked_by(found) for one, found in zip(asked.where, study.where, strict=True))
        and _asks_for_time(asked.outcome, study.outcome)
    )


def _asks_for_time(asked: AskedTimes, found: TimeToEvent) -> bool:
    """Return whether a time and its event are the file's; the order of all events is each contract's."""
    same = asked.events is None or set(asked.events) == {name for name in found.codes if name != found.censoring}
    return same and _within(asked.model_copy(update={"events": None}), found)


def _asks_for_many_times(asked: SurvivalProtocolFile, study: SurvivalProtocol) -> bool:
    keys = ("treatment", "measure", "intervals", "estimand", "confidence")
    return (
        all(getattr(asked, key) == getattr(study, key) for key in keys)
        and (asked.missing_treatment or MissingTreatment.refuse) == study.missing_treatment
        and len(asked.outcomes) == len(study.outcomes)
        and all(_asks_for_time(one, other) for one, other in zip(asked.outcomes, study.outcomes, strict=True))
        and _asks_for_groups(asked, study)
    )


def _asks_for_losses(asked: SurvivalStudyFile, study: SurvivalStudy) -> bool:
    """Return whether losses depend on the columns that a file names, in as many classes."""
    found = asked.censoring.columns({*study.censoring.by, study.treatment})
    found.pop(study.treatment, None)
    return found.keys() == study.censoring.by.keys() and all(
        _classes_in_full(study.censoring.by[name], divided) == study.censoring.classes.get(name)
        for name, divided in found.items()
    )


def _classes_in_full(column: Covariate, divided: int | tuple[float, ...] | None) -> tuple[float, ...] | None:
    """Return where classes begin that a file asks for; None: it asks for none."""
    if isinstance(divided, int) and isinstance(column, NumericCovariate):
        return equal_classes(column.lower, column.upper, divided)
    return divided if isinstance(divided, tuple) else None


def _asks_for_protocol(asked: ProtocolStudyFile, study: ProtocolStudy) -> bool:
    said = (asked.treatment, asked.missing or Missing.refuse, asked.estimand, asked.confidence, asked.gates)
    return (
        said == (study.treatment, study.missing, study.estimand, study.confidence, study.gates)
        and unrecorded(asked) == {key: getattr(study, key) for key in UNRECORDED}
        and len(asked.outcomes) == len(study.outcomes)
        and all(_within(one, other) for one, other in zip(asked.outcomes, study.outcomes, strict=True))
        and asked.covariates.keys() == study.covariates.keys()
        and all(_within(one, study.covariates[name]) for name, one in asked.covariates.items())
        and asked.measure == study.measure
        and _asks_for_groups(asked, study)
    )


def _asks_for_groups(asked: ProtocolStudyFile | SurvivalProtocolFile, study: JointStudy) -> bool:
    """Return whether subgroups, arms and who is eligible are the file's."""
    groups, arms = asked.subgroups, asked.arms
    return (
        (groups is None) == (study.subgroups is None)
        and (groups is None or study.subgroups is None or groups.name == study.subgroups.name)
        and (groups is None or study.subgroups is None or groups.levels in (None, _levels_of(study.subgroups)))
        and (arms is None) == (study.arms is None)
        and (arms is None or study.arms is None or arms.reference == study.arms.reference)
        and (arms is None or study.arms is None or arms.levels in (None, study.arms.levels))
        and len(asked.where) == len(study.where)
        and all(one.is_asked_by(found) for one, found in zip(asked.where, study.where, strict=True))
    )


def _levels_of(groups: Subgroups) -> tuple[str | int, ...] | None:
    return getattr(groups.column, "levels", None)


def _same_method(asked: StudyFile, study: Study) -> bool:
    """Return whether estimator and privacy are the file's, or among those ``auto`` may choose."""
    if not isinstance(asked.estimator, AutoEstimator):
        return (asked.estimator, asked.privacy) == (study.estimator, study.privacy)
    model = type(study.estimator)
    return any(
        settings["name"] == study.estimator.name
        and (model.model_validate(settings), privacy) == (study.estimator, study.privacy)
        for settings, privacy in options(asked.estimator, asked.privacy)
    )


def _within(asked: Frozen, found: Any) -> bool:
    """Return whether a column in full has everything that a file says of it."""
    return all(getattr(found, key, None) == value for key, value in asked if value is not None)
