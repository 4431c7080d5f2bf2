"""Answer a table of times: effects, curves with bands, and log-rank tests.

All are read off released cells, at no further cost. Intervals that hold all together come from the joint normal law of
the answers (``releases.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from causalveil.schemas.answers import Answer, Calibration, Curves, GroupCurves, HazardRatio, Limits, LogRankTest, State
from causalveil.schemas.confounding import AS_THEY_ARE, RANDOMISED, ConfoundingStatement
from causalveil.schemas.estimators.survival import Beyond, Measure, SurvivalStudy
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.plan import Sizes
from causalveil.schemas.questions import OutcomeRole
from causalveil.tasks.estimate.answers import covered
from causalveil.tasks.estimate.interval import NOISY, Findings
from causalveil.tasks.estimate.times.curves import Grid
from causalveil.tasks.estimate.times.effects import Compared, LogRank, TwoArms
from causalveil.tasks.estimate.times.releases import JointCells, TimesContrast, label_of
from causalveil.tasks.estimate.times.strata import Strata, TimesShown
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread


def curves_of(shown: TimesShown, both: TwoArms, confidence: float, names: tuple[str, str], tested: bool) -> Curves:
    """Return both arms, as figures show them.

    Args:
        shown: what figures say of the times.
        both: the arms.
        confidence: of the bands.
        names: of the arms, the controls' first.
        tested: whether the log-rank test of the first kind of events is told.
    """
    found = Strata.of(both)
    told = {"log_rank": told_test(found.log_rank(confidence)) if tested else None, "grid_bracket": both.grid_bracket()}
    return found.curves(shown, confidence, names).model_copy(update=told)


def told_test(found: LogRank | None) -> LogRankTest | None:
    """Return a log-rank test as releases have it."""
    if found is None:
        return None
    ratio = None
    if found.ratio is not None and found.lower is not None and found.upper is not None:
        ratio = HazardRatio(estimate=found.ratio, lower=found.lower, upper=found.upper)
    chance = math.erfc(abs(found.statistic) / math.sqrt(2))
    return LogRankTest(statistic=found.statistic, p_value=chance, hazard_ratio=ratio)


# Why an answer has no statement on confounding.


@dataclass(frozen=True)
class RowAdjusted:
    """The adjustment of a study of one outcome, as it is told.

    Attributes:
        done: what was done about confounding.
        details: by name.
        covers: what intervals hold of confounding that was not adjusted for.
    """

    done: ConfoundingStatement
    details: dict[str, float | int | str | bool]
    covers: tuple[Limit, ...]


def table_stage(study: SurvivalStudy, sizes: Sizes, released: FloatArray) -> Findings:
    """Read every answer and all curves off the released cells and public facts; reads no row."""
    found = findings_of(study, JointCells.read(released, study, sizes))
    return replace(found, cells=tuple(released.tolist()))


def findings_of(study: SurvivalStudy, cells: JointCells) -> Findings:
    """Read every answer and all curves off cells."""
    # Many small matrices: threads of the libraries below would wait for each other longer than they work.
    with one_thread():
        asked = cells.asked(study)
        compared, factor = compare(study, cells, asked)
        answers = [_answer(study, one, found, factor) for one, found in zip(asked, compared, strict=True)]
        drawn = group_curves(study, cells)
    first = study.outcomes[0]
    chosen = (limit(Code.survivors, landmark=first.landmark),) if first.landmark else ()
    entry = () if first.entry is None else (limit(Code.late_entry), *chosen)
    open_to = limit(Code.not_randomised if study.estimator.trial else Code.beyond_prior), limit(Code.censoring), *entry
    details: dict[str, float | int | str | bool] = {
        **of_the_grid(cells, cells.followed_to(0.0, cells.members(None))),
        **_together(len(answers), factor),
        **people_told(study, cells),
    }
    left = (*open_to, *of_the_end(study, cells.grid))
    found = Findings(
        answers=tuple(answers),
        confidence=study.confidence,
        covers=covered(study, answers),
        details=details,
        not_covered=left,
        calibration=_controls(study),
        curves=drawn,
    )
    return of_one_outcome(study, found) if study.asks_one else found


def of_the_grid(cells: JointCells, followed: int) -> dict[str, float]:
    """Return the details on the grid, and until when enough people are followed."""
    grid = cells.grid
    until = float(grid.ends[followed - 1]) if followed else 0.0
    return {"intervals": grid.intervals, "cells": grid.numbers, "followed_until": until}


def of_the_end(study: SurvivalStudy, grid: Grid) -> tuple[Limit, ...]:
    """Return what intervals do not cover of the grid, and of an end that noise chose."""
    earlier = () if study.censoring.beyond is Beyond.refuse else (limit(Code.earlier_horizon),)
    return (*earlier, limit(Code.grid, intervals=(grid.intervals,)))


def _together(answers: int, factor: float) -> dict[str, str]:
    """Return the detail on intervals that hold together; a single answer has none."""
    said = f"{answers} answers, {factor:.4g} standard errors to either side"
    return {"simultaneous": said} if answers > 1 else {}


def people_told(study: SurvivalStudy, cells: JointCells) -> dict[str, float]:
    """Return the noisy number of people of each subgroup and arm, as details have it."""
    return {
        f"units[{label}][{name}]": float(cells.counts[list(cells.members(group)), arm, : cells.grid.exits].sum())
        for group, label in enumerate(study.groups)
        for arm, name in enumerate(study.arm_names)
    }


def compare(study: SurvivalStudy, cells: JointCells, asked: tuple[TimesContrast, ...]) -> tuple[list[Compared], float]:
    """Return every comparison, and the critical value of those that noise leaves.

    All of these hold together within so many standard errors.
    """
    compared = [one.both.contrast(one.question.measure, study.confidence, study.estimator.bias()) for one in asked]
    told = np.array([not one.whole_range for one in compared])
    return compared, cells.together(asked, told, study.confidence)


def half_together(found: Compared, factor: float) -> float:
    """Return half of the interval that holds with all others.

    All of the bias may lie on the side of the error.
    """
    return found.bias + factor * math.sqrt(found.sampling + found.noise)


def _answer(study: SurvivalStudy, one: TimesContrast, found: Compared, factor: float) -> Answer:
    """One row of the table."""
    whole, span = found.whole_range, one.both.span(one.question.measure)
    half = max(half_together(found, factor), (found.upper - found.lower) / 2)
    estimate = 0.0 if whole else found.estimate
    ends = (-span, span) if whole else (max(estimate - half, -span), min(estimate + half, span))
    tested = not whole and one.question.measure is Measure.risk
    done = RANDOMISED if study.estimator.trial else AS_THEY_ARE
    return Answer(
        outcome=one.question.label,
        measure=one.question.measure,
        role=one.question.role,
        group=label_of(study, one.group),
        arm=study.arm_names[one.arm],
        reference=study.arm_names[0],
        state=State.unresolved if whole else State.answered,
        reason=limit(Code.too_few_at_risk if one.both.grid.entries else Code.too_few_followed) if whole else None,
        confounding=None if whole else done,
        estimate=estimate,
        interval=Limits(lower=found.lower, upper=found.upper),
        simultaneous=Limits(lower=ends[0], upper=ends[1]),
        noise_error=span if whole else math.sqrt(found.noise),
        sampling_error=math.sqrt(found.sampling),
        bias=found.bias,
        spread=None,
        values=(found.control, found.treated),
        restricted_to=one.restricted_to,
        log_rank=told_test(Strata.of(one.both).log_rank(study.confidence)) if tested else None,
    )


def group_curves(study: SurvivalStudy, cells: JointCells) -> tuple[GroupCurves, ...]:
    """Return curves of each arm beside the reference's, everybody first, as figures have them."""
    first, names = study.outcomes[0], study.arm_names
    shown = TimesShown(study.horizons[-1], first.unit_of_measure, first.origin, study.labels)
    groups: list[int | None] = [None, *([] if study.subgroups is None else range(len(study.groups)))]
    tested = len(study.outcomes) == 1
    found = []
    for group in groups:
        for arm in range(1, cells.grid.arms):
            both, pair = cells.two_arms(cells.members(group), arm), (names[0], names[arm])
            drawn = curves_of(shown, both, study.confidence, pair, tested)
            found.append(GroupCurves(group=label_of(study, group), arm=pair[1], reference=pair[0], curves=drawn))
    return tuple(found)


def _controls(study: SurvivalStudy) -> Calibration:
    """Say what is done with negative controls: they stand beside the answers."""
    many = sum(one.role is OutcomeRole.negative_control for one in study.outcomes)
    if many == 0:
        return Calibration(controls=0, statement="No negative control was declared.")
    word = "control stands" if many == 1 else "controls stand"
    return Calibration(
        controls=many,
        statement=f"{many} negative {word} beside the other answers; intervals of times are not calibrated.",
    )


def of_one_outcome(study: SurvivalStudy, found: Findings, adjusted: RowAdjusted | None = None) -> Findings:
    """Return the table of one outcome with what is told of it alone.

    It is over all units and of two arms.

    Args:
        study: the study.
        found: its table.
        adjusted: what is said of the adjustment; None: the arms are compared as they are.
    """
    adjusted = adjusted or RowAdjusted(RANDOMISED if study.estimator.trial else AS_THEY_ARE, {}, ())
    first, pair = found.answers[0], found.curves[0]
    told = {"reason": None, "confounding": adjusted.done, "log_rank": None}
    rows = [row.model_copy(update=told) for row in found.answers]
    # The test of events stands with the first measure.
    rows[0] = rows[0].model_copy(update={"log_rank": pair.curves.log_rank})
    covers = (*NOISY[:2], *adjusted.covers)
    kept = ("intervals", "followed_until", "strata", "pooled_strata")
    return replace(
        found,
        answers=tuple(rows),
        covers=covers if not first.bias else (*covers, limit(Code.confounding_of_prior)),
        details={
            **{key: found.details[key] for key in kept[:2]},
            "noise_standard_error": first.noise_error or 0.0,
            "sampling_standard_error": first.sampling_error or 0.0,
            **adjusted.details,
            **{key: found.details[key] for key in kept[2:] if key in found.details},
        },
        curves=(pair.model_copy(update={"curves": pair.curves.model_copy(update={"log_rank": None})}),),
    )
