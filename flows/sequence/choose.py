"""From ``estimator: auto`` to a study of one estimator, by public facts alone, and why.

Level and design leave one estimator or a few; of these the one of the least expected half-width is taken, for a
stand-in population at the study's own size and budget. No row is read.
"""

from __future__ import annotations

from typing import Any

from causalveil.flows.sequence.estimators import estimator_of
from causalveil.schemas.asked.resolve import resolve
from causalveil.schemas.asked.shorthands import AutoEstimator, options
from causalveil.schemas.asked.study_file import STUDY_FILES, EffectStudyFile, ProtocolStudyFile, StudyFile
from causalveil.schemas.contract import Contract
from causalveil.schemas.documents import validate
from causalveil.schemas.errors import CausalveilError, ContractError, StudyError
from causalveil.schemas.execution import Execution
from causalveil.schemas.plan import StandIn
from causalveil.schemas.privacy import Level, amount_text
from causalveil.schemas.protocols.study import EffectMeasure, ProtocolStudy
from causalveil.schemas.studies import STUDIES
from causalveil.schemas.study import NOTHING_TO_ADJUST_FOR, EffectStudy, Study
from causalveil.tasks.enclave.split import sizes_of

WHY = {
    "ipw": "the one estimator of an effect whose training units alone are protected",
    "balancing": "covariates and treatments are public, so weights of them cost nothing",
    "regression": "covariates are private; it adjusts as far as size and budget allow and says how far",
    "difference_in_means": "treatment was randomised, and covariates would cost more than they bring at this size",
    "aipw": "the chance of treatment is known, so nothing is spent on it",
}


def candidates(
    asked: StudyFile, contract: Contract | None, where: str = "study", execution: Execution | None = None
) -> list[Study]:
    """The studies that a file may become: one, unless it leaves the estimator open.

    Raises:
        ContractError: the contract allows none of them, or not these columns in these roles.
        StudyError: the study contradicts the contract.
    """
    if not isinstance(asked.estimator, AutoEstimator):
        return [resolve(asked, contract, where, execution)]
    found = [one for one in options(asked.estimator, asked.privacy) if _answers(asked, one[0]["name"])]
    if not found:
        if isinstance(asked, EffectStudyFile | ProtocolStudyFile) and not asked.covariates:
            raise StudyError(f"{where}: {NOTHING_TO_ADJUST_FOR}")
        raise StudyError(
            f"{where}: 'auto' takes no estimator that answers this; subgroups and 'where' take level 'sample' or "
            "'label', a 'measure' beside the difference {name: auto, trial: true} at level 'sample'"
        )
    allowed = [one for one in found if contract is None or one[0]["name"] in contract.estimators]
    if not allowed:
        names = ", ".join(f"'{one[0]['name']}'" for one in found)
        raise ContractError(f"{where}: 'auto' would take {names} here, and the contract allows none of them")
    files = [
        validate(
            STUDY_FILES[asked.kind][settings["name"]],
            {**asked.model_dump(), "estimator": settings, "privacy": privacy.model_dump()},
            where,
        )
        for settings, privacy in allowed
    ]
    return [resolve(file, contract, where, execution) for file in files]


def _answers(asked: StudyFile, name: str) -> bool:
    """Return whether an estimator answers what the file asks.

    It must serve the file's kind of study, have covariates if it adjusts, and release arm means for ratios.
    """
    if name not in STUDIES[asked.kind]:
        return False
    study: Any = STUDIES[asked.kind][name]
    # A protocol adjusts as the study of one of its questions does.
    adjusts = getattr(getattr(study, "SINGLE", study), "ADJUSTS", False)
    if adjusts and isinstance(asked, EffectStudyFile | ProtocolStudyFile) and not asked.covariates:
        return False
    ratios = isinstance(asked, ProtocolStudyFile) and any(one is not EffectMeasure.difference for one in asked.measure)
    return not ratios or getattr(study, "ARM_MEANS", False)


def chosen(studies: list[Study], asked: StudyFile, units: int | None) -> Study:
    """The study of the least expected half-width, with the reason where there was a choice to be made.

    Args:
        studies: as of :func:`candidates`.
        asked: the study file.
        units: n; None where it is unknown.

    Raises:
        StudyError: n is unknown, or too small for every candidate.
    """
    if not isinstance(asked.estimator, AutoEstimator):
        return studies[0]
    if units is None and len(studies) > 1:
        raise StudyError(
            "'auto' chooses by the number of units: give --units N, put the partitions in place, or admit them "
            "(causalveil admit)"
        )
    # Of one nothing is chosen.
    widths = [expected_width(study, units) if len(studies) > 1 else None for study in studies]
    known = [(width, place) for place, width in enumerate(widths) if width is not None]
    best = min(known)[1] if known else 0
    study = studies[best]
    # A study without a number of units has formulas, and this reason.
    return study.model_copy(update={"choice": reason(study, studies, widths, units)})


def reason(study: Study, studies: list[Study], widths: list[float | None], units: int | None) -> str:
    """Return a sentence on why ``auto`` chose this estimator."""
    name, privacy = study.estimator.name, study.privacy
    facts = f"level {privacy.level}, epsilon {amount_text(privacy.epsilon)}"
    facts += f", delta {amount_text(privacy.delta)}" if privacy.level is not Level.label else ""
    facts += f", {units:,} units" if units is not None else ""
    others = [
        f"{other.estimator.name} {width:.3g}"
        for other, width in zip(studies, widths, strict=True)
        if other is not study and width is not None
    ]
    own = widths[studies.index(study)]
    beside = f"; expected half-width {own:.3g}, {', '.join(others)}" if own is not None and others else ""
    return f"auto took {name} ({facts}): {WHY[name]}{beside}"


def expected_width(study: Study, units: int | None) -> float | None:
    """Expected half-width for the stand-in population; None where the estimator cannot run at this size.

    By a formula, or by few draws of noise from seeds that are always the same: asked again it chooses the same.
    """
    if units is None or not isinstance(study, EffectStudy | ProtocolStudy):
        return None
    try:
        found = estimator_of(study).half_width(study, sizes_of(study, units), StandIn())
    except CausalveilError:
        return None
    return None if found is None else float(found)
