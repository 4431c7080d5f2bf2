"""Answer a table of times: effects, curves with bands, and log-rank tests.

All are read off released cells, at no further cost. Intervals that hold all together come from the joint normal law of
the answers (``releases.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from causalveil.schemas.answers import Answer, Calibration, GroupCurves, HazardRatio, Limits, LogRankTest, State
from causalveil.schemas.confounding import AS_THEY_ARE, RANDOMISED, ConfoundingStatement
from causalveil.schemas.estimators.survival import Beyond, Measure, SurvivalStudy
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.plan import Sizes
from causalveil.schemas.questions import OutcomeRole
from causalveil.tasks.estimate.answers import covered
from causalveil.tasks.estimate.interval import NOISY, Findings
from causalveil.tasks.estimate.times.curves import Grid
from causalveil.tasks.estimate.times.effects import Compared, LogRank
from causalveil.tasks.estimate.times.releases import JointCells, TimesContrast, label_of
from causalveil.tasks.estimate.times.strata import Strata, TimesShown
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread


def log_rank_test(test: LogRank | None) -> LogRankTest | None:
    """Return a log-rank test as a release's model."""
    if test is None:
        return None
    ratio = None
    if test.ratio is not None and test.lower is not None and test.upper is not None:
        ratio = HazardRatio(estimate=test.ratio, lower=test.lower, upper=test.upper)
    chance = math.erfc(abs(test.statistic) / math.sqrt(2))
    return LogRankTest(statistic=test.statistic, p_value=chance, hazard_ratio=ratio)


@dataclass(frozen=True)
class RowAdjusted:
    """The adjustment of a study of one outcome, for its release.

    Attributes:
        statement: on confounding.
        details: by name.
        covers: sources of confounding not adjusted for that intervals cover.
    """

    statement: ConfoundingStatement
    details: dict[str, float | int | str | bool]
    covers: tuple[Limit, ...]


def table_stage(study: SurvivalStudy, sizes: Sizes, released: FloatArray) -> Findings:
    """Return every answer and all curves from released cells and public facts; no row is read."""
    findings = findings_of(study, JointCells.read(released, study, sizes))
    return replace(findings, cells=tuple(released.tolist()))


def findings_of(study: SurvivalStudy, cells: JointCells) -> Findings:
    """Return every answer and all curves from cells."""
    # Many small matrices: with more threads the libraries would spend more time waiting than computing.
    with one_thread():
        contrasts = cells.contrasts(study)
        compared, factor = compare(study, cells, contrasts)
        answers = [_answer(study, *pair, factor) for pair in zip(contrasts, compared, strict=True)]
        curves = group_curves(study, cells)
    first = study.outcomes[0]
    survivors = (limit(Code.survivors, landmark=first.landmark),) if first.landmark else ()
    entry = () if first.entry is None else (limit(Code.late_entry), *survivors)
    open_to = limit(Code.not_randomised if study.estimator.trial else Code.beyond_prior), limit(Code.censoring), *entry
    details: dict[str, float | int | str | bool] = {
        **grid_details(cells, cells.followed_to(0.0, cells.members(None))),
        **_simultaneous(len(answers), factor),
        **units_by_arm(study, cells),
    }
    findings = Findings(
        answers=tuple(answers),
        confidence=study.confidence,
        covers=covered(study, answers),
        details=details,
        not_covered=(*open_to, *of_the_end(study, cells.grid)),
        calibration=_controls(study),
        curves=curves,
    )
    return of_one_outcome(study, findings) if study.asks_one else findings


def grid_details(cells: JointCells, followed: int) -> dict[str, float]:
    """Return details on the grid, and the end of the last interval with enough people followed."""
    grid = cells.grid
    until = float(grid.ends[followed - 1]) if followed else 0.0
    return {"intervals": grid.intervals, "cells": grid.numbers, "followed_until": until}


def of_the_end(study: SurvivalStudy, grid: Grid) -> tuple[Limit, ...]:
    """Return what intervals do not cover: errors of the grid, and of an end chosen by noise."""
    earlier = () if study.censoring.beyond is Beyond.refuse else (limit(Code.earlier_horizon),)
    return (*earlier, limit(Code.grid, intervals=(grid.intervals,)))


def _simultaneous(answers: int, factor: float) -> dict[str, str]:
    """Return the detail on simultaneous intervals; a single answer has none."""
    text = f"{answers} answers, {factor:.4g} standard errors to either side"
    return {"simultaneous": text} if answers > 1 else {}


def units_by_arm(study: SurvivalStudy, cells: JointCells) -> dict[str, float]:
    """Return details on the noisy number of people of each subgroup and arm."""
    return {
        f"units[{label}][{name}]": float(cells.counts[list(cells.members(group)), arm, : cells.grid.exits].sum())
        for group, label in enumerate(study.groups)
        for arm, name in enumerate(study.arm_names)
    }


def compare(
    study: SurvivalStudy, cells: JointCells, contrasts: tuple[TimesContrast, ...]
) -> tuple[list[Compared], float]:
    """Return every comparison, and the simultaneous critical value of those noise does not hide."""
    confidence, bias = study.confidence, study.estimator.bias()
    compared = [contrast.both.contrast(contrast.question.measure, confidence, bias) for contrast in contrasts]
    resolved = np.array([not comparison.whole_range for comparison in compared])
    return compared, cells.critical_value(contrasts, resolved, confidence)


def simultaneous_half(compared: Compared, factor: float) -> float:
    """Return half of the simultaneous interval; bias and error may lie on one side."""
    return compared.bias + factor * math.sqrt(compared.sampling + compared.noise)


def _answer(study: SurvivalStudy, contrast: TimesContrast, compared: Compared, factor: float) -> Answer:
    """Return one row of the table."""
    whole, span = compared.whole_range, contrast.both.span(contrast.question.measure)
    half = max(simultaneous_half(compared, factor), (compared.upper - compared.lower) / 2)
    estimate = 0.0 if whole else compared.estimate
    ends = (-span, span) if whole else (max(estimate - half, -span), min(estimate + half, span))
    tested = not whole and contrast.question.measure is Measure.risk
    statement = RANDOMISED if study.estimator.trial else AS_THEY_ARE
    return Answer(
        outcome=contrast.question.label,
        measure=contrast.question.measure,
        role=contrast.question.role,
        group=label_of(study, contrast.group),
        arm=study.arm_names[contrast.arm],
        reference=study.arm_names[0],
        state=State.unresolved if whole else State.answered,
        reason=limit(Code.too_few_at_risk if contrast.both.grid.entries else Code.too_few_followed) if whole else None,
        confounding=None if whole else statement,
        estimate=estimate,
        interval=Limits(lower=compared.lower, upper=compared.upper),
        simultaneous=Limits(lower=ends[0], upper=ends[1]),
        noise_error=span if whole else math.sqrt(compared.noise),
        sampling_error=math.sqrt(compared.sampling),
        bias=compared.bias,
        spread=None,
        values=(compared.control, compared.treated),
        restricted_to=contrast.restricted_to,
        log_rank=log_rank_test(Strata.of(contrast.both).log_rank(study.confidence)) if tested else None,
    )


def group_curves(study: SurvivalStudy, cells: JointCells) -> tuple[GroupCurves, ...]:
    """Return curves of each arm and the reference for figures, over all units and by subgroup."""
    first, names, confidence = study.outcomes[0], study.arm_names, study.confidence
    times = TimesShown(study.horizons[-1], first.unit_of_measure, first.origin, study.labels)
    groups: list[int | None] = [None, *([] if study.subgroups is None else range(len(study.groups)))]
    tested = len(study.outcomes) == 1
    pairs = []
    for group in groups:
        for arm in range(1, cells.grid.arms):
            both, pair = cells.two_arms(cells.members(group), arm), (names[0], names[arm])
            strata = Strata.of(both)
            test = log_rank_test(strata.log_rank(confidence)) if tested else None
            updates = {"log_rank": test, "grid_bracket": both.grid_bracket()}
            curves = strata.curves(times, confidence, pair).model_copy(update=updates)
            pairs.append(GroupCurves(group=label_of(study, group), arm=pair[1], reference=pair[0], curves=curves))
    return tuple(pairs)


def _controls(study: SurvivalStudy) -> Calibration:
    """State how negative controls are used: they stand beside the answers."""
    number = sum(outcome.role is OutcomeRole.negative_control for outcome in study.outcomes)
    if number == 0:
        return Calibration(controls=0, statement="No negative control was declared.")
    word = "control stands" if number == 1 else "controls stand"
    return Calibration(
        controls=number,
        statement=f"{number} negative {word} beside the other answers; intervals of times are not calibrated.",
    )


def of_one_outcome(study: SurvivalStudy, findings: Findings, adjusted: RowAdjusted | None = None) -> Findings:
    """Return the table of one outcome, over all units and of two arms, with its own details.

    Args:
        study: the study.
        findings: its table.
        adjusted: its adjustment; None: the arms are not adjusted.
    """
    adjusted = adjusted or RowAdjusted(RANDOMISED if study.estimator.trial else AS_THEY_ARE, {}, ())
    first, pair = findings.answers[0], findings.curves[0]
    updates = {"reason": None, "confounding": adjusted.statement, "log_rank": None}
    rows = [row.model_copy(update=updates) for row in findings.answers]
    # The test of events stands with the first measure.
    rows[0] = rows[0].model_copy(update={"log_rank": pair.curves.log_rank})
    covers = (*NOISY[:2], *adjusted.covers)
    names = ("intervals", "followed_until", "strata", "pooled_strata")
    return replace(
        findings,
        answers=tuple(rows),
        covers=covers if not first.bias else (*covers, limit(Code.confounding_of_prior)),
        details={
            **{key: findings.details[key] for key in names[:2]},
            "noise_standard_error": first.noise_error or 0.0,
            "sampling_standard_error": first.sampling_error or 0.0,
            **adjusted.details,
            **{key: findings.details[key] for key in names[2:] if key in findings.details},
        },
        curves=(pair.model_copy(update={"curves": pair.curves.model_copy(update={"log_rank": None})}),),
    )
