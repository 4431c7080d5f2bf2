"""The table of answers of a study of times, with curves by subgroup and arm."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from causalveil.schemas.confounding import AS_THEY_ARE, RANDOMISED, ConfoundingStatement, CovariateBalance
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.estimators.survival import Beyond, Curves, Measure
from causalveil.schemas.estimators.survival_protocol import GroupCurves, SurvivalProtocol, SurvivalStudy
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Coverage
from causalveil.schemas.protocols.answers import Answer, BalanceRow, Calibration, Limits, State, in_table
from causalveil.schemas.protocols.study import OutcomeRole
from causalveil.schemas.release import Interval, Variance
from causalveil.tasks.inference.assemble import NOISY
from causalveil.tasks.inference.covered import covered
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.survival.curves import Grid
from causalveil.tasks.survival.effects import Compared
from causalveil.tasks.survival.findings import TimesShown, curves_of, log_rank_test
from causalveil.tasks.survival.joint import JointCells, TimesContrast, label_of

# Why an answer has no statement on confounding.
HIDDEN = "not told: through the noise too few people are seen to be followed so long"


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


@dataclass(frozen=True)
class TimesTable:
    """Findings of a protocol of times.

    Attributes:
        cells: the noisy numbers that all else is read off, of arms as they are.
        adjusted: of one group and two arms, what is said of the first question's adjustment.
    """

    answers: tuple[Answer, ...]
    curves: tuple[GroupCurves, ...]
    calibration: Calibration
    not_covered: tuple[Limit, ...]
    details: dict[str, float | int | str | bool]
    balance: tuple[BalanceRow, ...] = ()
    cells: tuple[float, ...] | None = None
    adjusted: RowAdjusted | None = None

    def fields(self, study: SurvivalProtocol) -> dict[str, Any]:
        """Return the fields that an ``EffectRelease`` has beside those of every release."""
        return {
            "estimand": study.estimand,
            "confidence": study.confidence,
            "coverage": Coverage.normal_approximation,
            "answers": in_table(self.answers),
            "covers": covered(study, self.answers),
            "balance": self.balance,
            "calibration": self.calibration if self.calibration.controls else None,
            "not_covered": self.not_covered,
            "curves": self.curves,
            "cells": self.cells,
            "details": self.details,
        }


def table_stage(study: SurvivalProtocol, sizes: Sizes, released: FloatArray) -> TimesTable:
    """Read every answer and all curves off the released cells and public facts; reads no row."""
    found = table_of(study, JointCells.read(released, study, sizes))
    return replace(found, cells=tuple(released.tolist()))


def table_of(study: SurvivalProtocol, cells: JointCells) -> TimesTable:
    """Read every answer and all curves off cells."""
    # Many small matrices: threads of the libraries below would wait for each other longer than they work.
    with one_thread():
        asked = cells.asked(study)
        compared, factor = compare(study, cells, asked)
        answers = [_answer(study, one, found, factor) for one, found in zip(asked, compared, strict=True)]
        drawn = group_curves(study, cells)
    open_to = limit(Code.not_randomised if study.estimator.trial else Code.beyond_prior), limit(Code.censoring)
    details: dict[str, float | int | str | bool] = {
        **of_the_grid(cells, cells.followed_to(0.0, cells.members(None))),
        **_together(len(answers), factor),
        **people_told(study, cells),
    }
    left = (*open_to, *of_the_end(study, cells.grid))
    return TimesTable(tuple(answers), drawn, _controls(study), left, details)


def of_the_grid(cells: JointCells, followed: int) -> dict[str, float]:
    """Return the details on the grid, and until when enough people are followed."""
    grid = cells.grid
    until = float(grid.ends[followed - 1]) if followed else 0.0
    return {"intervals": grid.intervals, "cells": grid.numbers, "followed_until": until}


def of_the_end(study: SurvivalProtocol, grid: Grid) -> tuple[Limit, ...]:
    """Return what intervals do not cover of the grid, and of an end that noise chose."""
    earlier = () if study.censoring.beyond is Beyond.refuse else (limit(Code.earlier_horizon),)
    return (*earlier, limit(Code.grid, intervals=(grid.intervals,)))


def _together(answers: int, factor: float) -> dict[str, str]:
    """Return the detail on intervals that hold together; a single answer has none."""
    said = f"{answers} answers, {factor:.4g} standard errors to either side"
    return {"simultaneous": said} if answers > 1 else {}


def people_told(study: SurvivalProtocol, cells: JointCells) -> dict[str, float]:
    """Return the noisy number of people of each subgroup and arm, as details have it."""
    return {
        f"units[{label}][{name}]": float(cells.counts[list(cells.members(group)), arm].sum())
        for group, label in enumerate(study.groups)
        for arm, name in enumerate(study.arm_names)
    }


def compare(
    study: SurvivalProtocol, cells: JointCells, asked: tuple[TimesContrast, ...]
) -> tuple[list[Compared], float]:
    """Return every comparison, and the critical value of those that noise leaves.

    All of these hold together within so many standard errors.
    """
    compared = [one.both.contrast(one.question.measure, study.confidence, study.estimator.allowed) for one in asked]
    told = np.array([not one.whole_range for one in compared])
    return compared, cells.together(asked, told, study.confidence)


def half_together(found: Compared, factor: float) -> float:
    """Return half of the interval that holds with all others.

    All of the bias may lie on the side of the error.
    """
    return found.bias + factor * math.sqrt(found.sampling + found.noise)


def _answer(study: SurvivalProtocol, one: TimesContrast, found: Compared, factor: float) -> Answer:
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
        adjustment=HIDDEN if whole else done.words,
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
        log_rank=log_rank_test(one.both, study.confidence) if tested else None,
    )


def group_curves(study: SurvivalProtocol, cells: JointCells) -> tuple[GroupCurves, ...]:
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


def _controls(study: SurvivalProtocol) -> Calibration:
    """Say what is done with negative controls: they stand beside the answers."""
    many = sum(one.role is OutcomeRole.negative_control for one in study.outcomes)
    if many == 0:
        return Calibration(controls=0, statement="No negative control was declared.")
    word = "control stands" if many == 1 else "controls stand"
    return Calibration(
        controls=many,
        statement=f"{many} negative {word} beside the other answers; intervals of times are not calibrated.",
    )


@dataclass(frozen=True)
class MeasuredEffect:
    """One measure of the time to an event in both arms, and their difference with its interval."""

    measure: Measure
    treated: float
    control: float
    estimate: float
    interval: Interval
    variance: Variance


@dataclass(frozen=True)
class SurvivalFindings:
    """Findings of a study of one outcome, of which the first measure is the answer.

    Attributes:
        restricted_to: when measures end, where that is before the study's horizon.
        cells: the noisy numbers that all else is read off, of arms as they are.
        table: of one row, which these are read off.
    """

    measures: tuple[MeasuredEffect, ...]
    curves: Curves
    details: dict[str, float | int | str | bool]
    confounding: ConfoundingStatement
    not_covered: tuple[Limit, ...]
    restricted_to: float | None
    balance: tuple[CovariateBalance, ...]
    cells: tuple[float, ...] | None
    table: TimesTable

    @property
    def interval(self) -> Interval:
        """Interval of the first measure."""
        return self.measures[0].interval

    def fields(self, study: SurvivalStudy) -> dict[str, Any]:
        """Return the fields that an ``EffectRelease`` has beside those of every release."""
        found = self.table.fields(study.table)
        done = {"adjustment": self.confounding.words, "confounding": self.confounding, "simultaneous": None}
        # The test of events stands with the first measure.
        tests = (self.curves.log_rank, *(None for _ in self.measures[1:]))
        pair = self.table.curves[0]
        return {
            **found,
            "answers": tuple(
                row.model_copy(update={**done, "log_rank": test})
                for row, test in zip(self.table.answers, tests, strict=True)
            ),
            "covers": self.interval.covers,
            "curves": (pair.model_copy(update={"curves": pair.curves.model_copy(update={"log_rank": None})}),),
            "details": {key: one for key, one in self.details.items() if key != "adjustment"},
        }


def one_row(study: SurvivalStudy, table: TimesTable) -> SurvivalFindings:
    """Return a table of one row as the findings of a study of one outcome."""
    trial, first = study.estimator.trial, table.answers[0]
    adjusted = table.adjusted or RowAdjusted(RANDOMISED if trial else AS_THEY_ARE, {}, ())
    measures = tuple(_measured(study, *each, adjusted) for each in zip(study.measure, table.answers, strict=True))
    details: dict[str, float | int | str | bool] = {
        **{key: table.details[key] for key in ("intervals", "followed_until")},
        "noise_standard_error": math.sqrt(measures[0].variance.noise),
        "sampling_standard_error": math.sqrt(measures[0].variance.sampling),
        "adjustment": adjusted.done.words,
        **adjusted.details,
        **{key: table.details[key] for key in ("strata", "pooled_strata") if key in table.details},
    }
    return SurvivalFindings(
        measures,
        table.curves[0].curves,
        details,
        adjusted.done,
        table.not_covered,
        first.restricted_to,
        tuple(CovariateBalance(**one.model_dump(exclude={"group", "arm"})) for one in table.balance),
        table.cells,
        table,
    )


def _measured(study: SurvivalStudy, measure: Measure, row: Answer, adjusted: RowAdjusted) -> MeasuredEffect:
    """Return one row as a measure in both arms."""
    if row.estimate is None or row.interval is None or row.values is None:
        raise CausalveilError("an answer of times has no numbers; report this")
    bias, noise, sampling = (float(one or 0.0) for one in (row.bias, row.noise_error, row.sampling_error))
    covers = (*NOISY[:2], *adjusted.covers)
    interval = Interval(
        **dict(row.interval),
        confidence=study.confidence,
        covers=covers if bias == 0 else (*covers, limit(Code.confounding_of_prior)),
        coverage=Coverage.normal_approximation,
        whole_range=row.state is State.unresolved,
        bias=bias,
    )
    variance = Variance(sampling=sampling**2, noise=noise**2)
    control, treated = row.values
    return MeasuredEffect(
        measure=measure, treated=treated, control=control, estimate=row.estimate, interval=interval, variance=variance
    )
