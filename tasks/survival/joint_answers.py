"""A protocol of times.

Its rows, the one release of cells, and the table of answers with curves by subgroup and arm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from causalveil.schemas.confounding import AS_THEY_ARE, RANDOMISED
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.estimators.survival import Beyond, Measure, SurvivalStudy
from causalveil.schemas.estimators.survival_protocol import GroupCurves, SurvivalProtocol
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Coverage
from causalveil.schemas.protocols.answers import BalanceRow, Calibration, Limits, ProtocolAnswer, State
from causalveil.schemas.protocols.study import OutcomeRole
from causalveil.schemas.release import Interval, MeasuredEffect, Variance
from causalveil.tasks.enclave.cells import arms_of, eligible, groups_of
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.enclave.normalise import columns, hashed_order, write_covariates
from causalveil.tasks.enclave.partitions import LoadedSegment
from causalveil.tasks.inference.assemble import NOISY
from causalveil.tasks.machine.arrays import FloatArray, save_array
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.machine.frames import values_of
from causalveil.tasks.privacy.mechanisms import Budget
from causalveil.tasks.survival.curves import Grid
from causalveil.tasks.survival.effects import Compared
from causalveil.tasks.survival.findings import SurvivalFindings, TimesShown, curves_of, log_rank_test
from causalveil.tasks.survival.joint import JointCells, TimesContrast, joint_grid, joint_mechanism, label_of
from causalveil.tasks.survival.stages import count_cells, followed
from causalveil.tasks.survival.strategy import SLOT, measured

# Why an answer has no statement on confounding.
HIDDEN = "not told: through the noise too few people are seen to be followed so long"


def normalise_joint_times(study: SurvivalProtocol, segment: LoadedSegment, place: Path, key: bytes) -> None:
    """Write t.npy, u.npy, k.npy, g.npy and h.npy of one segment; rows ascending by keyed hash.

    With covariates also x.npy. A person who is not eligible keeps her row, in a group behind all others that is not
    counted.

    Raises:
        DataError: a value that admission refuses.
    """
    frame, first = segment.frame, study.outcomes[0]
    order = hashed_order(values_of(frame, study.data.unit), place, key)
    save_array(place / "t.npy", arms_of(study, values_of(frame, study.treatment))[order])
    time, kind = followed(first, study.kinds, values_of(frame, first.time), values_of(frame, first.event))
    save_array(place / "u.npy", time[order])
    save_array(place / "k.npy", kind[order])
    groups = np.where(eligible(study.where, frame), groups_of(study, frame), np.uint8(len(study.groups)))
    save_array(place / "g.npy", groups[order])
    if study.covariates:
        rows = study.bounded.questions[0]
        write_covariates(rows, columns(rows, frame), order, place / "x.npy")


def release_joint_stage(
    study: SurvivalProtocol, sizes: Sizes, enclave: Enclave, budget: Budget, times: float = 1.0
) -> FloatArray:
    """Release the cells of all eligible people, shape (numbers,).

    In rehearsals a row stands for ``times`` people.
    """
    grid = joint_grid(study, sizes.units)
    counts = count_cells(enclave, grid, study.execution.workers, ("t", "u", "k", "g"))
    exact = measured(counts, grid, plain=study.privacy.delta == 0)
    return joint_mechanism(study).release(exact * times, SLOT, budget)


@dataclass(frozen=True)
class TimesTable:
    """Findings of a protocol of times.

    ``cells``: the noisy numbers that all else is read off, of arms as they are.
    """

    answers: tuple[ProtocolAnswer, ...]
    curves: tuple[GroupCurves, ...]
    calibration: Calibration
    not_covered: tuple[Limit, ...]
    details: dict[str, float | int | str | bool]
    balance: tuple[BalanceRow, ...] = ()
    cells: tuple[float, ...] | None = None

    def fields(self, study: SurvivalProtocol) -> dict[str, Any]:
        """Return the fields that a ``ProtocolRelease`` has beside those of every release."""
        return {
            "estimand": study.estimand,
            "confidence": study.confidence,
            "answers": self.answers,
            "balance": self.balance,
            "gates": (),
            "calibration": self.calibration,
            "not_covered": self.not_covered,
            "curves": self.curves,
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
        **of_the_grid(cells, cells.followed_to(0.0)),
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
        f"units[{label}][{name}]": float(cells.counts[group, arm].sum())
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


def _answer(study: SurvivalProtocol, one: TimesContrast, found: Compared, factor: float) -> ProtocolAnswer:
    """One row of the table."""
    whole, span = found.whole_range, one.both.span(one.question.measure)
    half = max(half_together(found, factor), (found.upper - found.lower) / 2)
    estimate = 0.0 if whole else found.estimate
    ends = (-span, span) if whole else (max(estimate - half, -span), min(estimate + half, span))
    tested = not whole and one.question.measure is Measure.risk
    done = RANDOMISED if study.estimator.trial else AS_THEY_ARE
    return ProtocolAnswer(
        outcome=one.question.label,
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
    groups: list[int | None] = [None, *([] if study.subgroups is None else range(cells.grid.groups))]
    tested = len(study.outcomes) == 1
    return tuple(
        GroupCurves(
            group=label_of(study, group),
            arm=names[arm],
            reference=names[0],
            curves=curves_of(shown, cells.two_arms(group, arm), study.confidence, (names[0], names[arm]), tested),
        )
        for group in groups
        for arm in range(1, cells.grid.arms)
    )


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


def one_row(study: SurvivalStudy, table: TimesTable) -> SurvivalFindings:
    """Return a table of one row as the findings of a study of one outcome."""
    trial, first = study.estimator.trial, table.answers[0]
    done = RANDOMISED if trial else AS_THEY_ARE
    measures = tuple(_measured(study, *each) for each in zip(study.measure, table.answers, strict=True))
    details: dict[str, float | int | str | bool] = {
        **{key: table.details[key] for key in ("intervals", "followed_until")},
        "noise_standard_error": math.sqrt(measures[0].variance.noise),
        "sampling_standard_error": math.sqrt(measures[0].variance.sampling),
        "adjustment": done.words,
    }
    return SurvivalFindings(
        measures,
        table.curves[0].curves,
        details,
        done,
        table.not_covered,
        first.restricted_to,
        (),
        table.cells,
    )


def _measured(study: SurvivalStudy, measure: Measure, row: ProtocolAnswer) -> MeasuredEffect:
    """Return one row as a measure in both arms."""
    if row.estimate is None or row.interval is None or row.values is None:
        raise CausalveilError("an answer of times has no numbers; report this")
    bias, noise, sampling = (float(one or 0.0) for one in (row.bias, row.noise_error, row.sampling_error))
    covers = NOISY[:2] if bias == 0 else (*NOISY[:2], limit(Code.confounding_of_prior))
    interval = Interval(
        **dict(row.interval),
        confidence=study.confidence,
        covers=covers,
        coverage=Coverage.normal_approximation,
        whole_range=row.state is State.unresolved,
        bias=bias,
    )
    variance = Variance(sampling=sampling**2, noise=noise**2)
    control, treated = row.values
    return MeasuredEffect(
        measure=measure, treated=treated, control=control, estimate=row.estimate, interval=interval, variance=variance
    )
