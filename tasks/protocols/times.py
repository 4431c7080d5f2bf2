"""Adjusted questions of times to an event, whose outcomes are made of released cells.

    1  cells of all people, on a share of the budget                                     (tasks/survival/joint.py)
    2  of each subgroup, arm and question: a public table of outcomes by cell                              (here)
    3  the five joint releases of a protocol by regression, of these outcomes               (recipe.py, drawn.py)

An interval is that of the adjustment, with what errors of the released curves of censoring may move beside it.
``docs/proofs/survival.md``, section 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from causalveil.schemas.estimators.survival_protocol import SurvivalProtocol
from causalveil.schemas.limits import Code, limit
from causalveil.schemas.plan import Sizes
from causalveil.tasks.adjustment.five_releases import FiveReleases
from causalveil.tasks.enclave.cells import CellRows
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.enclave.split import Pieces
from causalveil.tasks.machine.arrays import BoolArray, FloatArray
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.protocols.calibration import calibrate
from causalveil.tasks.protocols.drawn import Asked, JointScales
from causalveil.tasks.protocols.findings import not_covered, parts_of, together
from causalveil.tasks.protocols.gates import balance_of
from causalveil.tasks.protocols.parts import Part, table
from causalveil.tasks.protocols.recipe import TWO_ARMS, ProtocolRecipe, joint_recipe
from causalveil.tasks.survival import curves
from causalveil.tasks.survival.adjusted import moved_means
from causalveil.tasks.survival.curves import Grid
from causalveil.tasks.survival.joint import JointCells, QuestionCells, TimesContrast, cells_share
from causalveil.tasks.survival.joint_answers import HIDDEN, TimesTable, group_curves, people_told
from causalveil.tasks.survival.pseudo import LEAST_RANGE, known, lost_error
from causalveil.tasks.survival.strategy import SLOT


def times_recipe(study: SurvivalProtocol, sizes: Sizes | None) -> ProtocolRecipe:
    """Return every draw of the adjustment.

    The cells leave it all but their share of the budget.

    Raises:
        StudyError: a budget that cannot be divided exactly, or more subgroups than it can serve.
    """
    return joint_recipe(study.bounded, sizes, {SLOT.name: cells_share(study)})


@dataclass(frozen=True)
class TimesOutcomes:
    """Outcomes that released cells make of each question, and how far they are right.

    Attributes:
        grid: of all cells.
        table: by subgroup, question, arm and cell, each subgroup's of a question scaled to [-1, 1].
        half: half the range that it is scaled from, shape (groups, questions).
        weights: of people, shape (groups, arms, cells); those of a subgroup add up to 1.
        told: whether both arms are seen, and followed to the horizon, shape (groups, questions, arms); of the
            reference whether any other arm is.
        lost_error: the largest variance of the logarithm of the released curve of censoring, of the same shape.
        own_error: the variance of the question's own value in an arm, likewise.
    """

    grid: Grid
    table: FloatArray
    half: FloatArray
    weights: FloatArray
    told: BoolArray
    lost_error: FloatArray
    own_error: FloatArray

    def known(self, scales: JointScales) -> JointScales:
        """Return the first joint release, with each outcome's histogram by the cells."""
        questions = tuple(
            tuple(
                tuple(known(self.table[group, place].ravel(), self.weights[group].ravel(), units, side) for side in row)
                for place, row in enumerate(own)
            )
            for group, (own, units) in enumerate(zip(scales.questions, scales.units, strict=True))
        )
        return replace(scales, questions=questions)

    @property
    def by_cell(self) -> FloatArray:
        """Outcomes of people by their cell, shape (cells of all, questions).

        Cells are counted as by ``Grid.cell``. Who is not eligible is in no subgroup; her outcomes are in no sum.
        """
        own = np.moveaxis(self.table, 1, -1).reshape(self.grid.numbers, -1)
        return np.concatenate([own, np.zeros((self.grid.arms * self.grid.cells, own.shape[1]))])


def times_outcomes(study: SurvivalProtocol, cells: JointCells) -> TimesOutcomes:
    """Make the tables of all questions' outcomes of released cells; reads no row."""
    grid, questions = cells.grid, study.questions
    shape = (grid.groups, len(questions), grid.arms)
    made = np.zeros((*shape, grid.cells))
    half, told = np.ones(shape[:2]), np.zeros(shape, dtype=np.bool_)
    lost, own = np.zeros(shape), np.zeros(shape)
    for place, question in enumerate(questions):
        part = QuestionCells.of(question, study, grid, cells.last_of(study, question))
        for group in range(grid.groups):
            asked = [
                TimesContrast(question, group, arm, cells.two_arms(group, arm, part), part)
                for arm in range(1, grid.arms)
            ]
            for one in asked:
                for side, arm in ((1, one.arm), *([(0, 0)] if one.arm == 1 else [])):
                    made[group, place, arm] = _values(one, side)
                    lost[group, place, arm] = lost_error(one.both, side)
                    own[group, place, arm] = one.both.variances(question.measure)[side]
                told[group, place, one.arm] = one.both.followed_to(study.censoring.floor) == one.both.grid.intervals
            told[group, place, 0] = told[group, place, 1:].any()
            made[group, place], half[group, place] = _scaled(made[group, place], told[group, place])
    people = np.array([[curves.tidied(arm, grid) for arm in own] for own in cells.counts])
    weights = people / people.sum(axis=(1, 2), keepdims=True)
    return TimesOutcomes(grid, made, half, weights, told, lost, own)


def _values(one: TimesContrast, side: int) -> FloatArray:
    """Return an arm's outcomes by cell of the whole grid: f(h) + n df/dh of the question's cell that it is part of."""
    function, tidy = one.both.function(one.question.measure), one.both.tidy[side]
    values = float(function(tidy)) + float(tidy.sum()) * curves.gradient(function, tidy)
    return np.asarray(values[one.part.sums.argmax(axis=0)])


def _scaled(raw: FloatArray, told: BoolArray) -> tuple[FloatArray, float]:
    """Return outcomes of all arms in [-1, 1] and half their range.

    It is that of the arms that are told: outcomes of an arm without units at risk at the horizon have no bound.
    """
    chosen = raw[told] if told.any() else raw
    low, high = float(chosen.min()), float(chosen.max())
    half = max((high - low) / 2, LEAST_RANGE)
    return np.clip((raw - low) / half - 1.0, -1.0, 1.0), half


def times_outcomes_stage(study: SurvivalProtocol, sizes: Sizes, released: FloatArray) -> TimesOutcomes:
    """Make the tables of all questions' outcomes of the released numbers; reads no row."""
    with one_thread():
        return times_outcomes(study, JointCells.read(released, study, sizes))


def people_of(enclave: Enclave, outcomes: TimesOutcomes) -> Pieces:
    """Return all units with the outcomes that public tables give them, a piece a segment."""
    units, by_cell, grid = sum(map(len, enclave.hashes())), outcomes.by_cell, outcomes.grid

    def rows(index: int) -> CellRows:
        x, t, time, kind, g = (enclave.load(name, index) for name in ("x", "t", "u", "k", "g"))
        return CellRows(x, t, by_cell[grid.cell(t, time, kind, g)], g)

    return Pieces(rows, enclave.segments, units)


def times_parts(
    study: SurvivalProtocol, outcomes: TimesOutcomes, asked: Asked, scales: JointScales, units: int
) -> list[Part]:
    """Return every answer of the table with its errors, in units of its question.

    ``units``: of the data.
    """
    groups, arms = study.groups, study.arm_names

    def in_its_units(part: Part, row: Sequence[FiveReleases] | None) -> Part:
        if row is None:
            return part
        group, arm = groups.index(part.group), arms.index(part.arm)
        if not outcomes.told[group, part.outcome, arm]:
            return Part(part.outcome, part.group, part.arm, False, 0.0, 0.0, 0.0, 0.0, 0.0, None, hidden=HIDDEN)
        half = float(outcomes.half[group, part.outcome])
        factor = half / (study.questions[part.outcome].span / 2)
        error = None if part.error is None else part.error * factor
        lost = sum(
            float(outcomes.lost_error[group, part.outcome, one])
            * (moved + float(outcomes.own_error[group, part.outcome, one]))
            for one, moved in _moved(row, arm, half).items()
        )
        return replace(
            part,
            value=part.value * factor,
            sampling=part.sampling * factor**2,
            noise=part.noise * factor**2 + lost,
            spread=part.spread * factor,
            error=error,
        )

    return parts_of(study.bounded, asked, scales, units, in_its_units)


def _moved(row: Sequence[FiveReleases], arm: int, half: float) -> dict[int, float]:
    """Return the mean square by which adjusting moves the mean of the reference, and of an arm."""
    if len(row) == 1:
        found = moved_means(row[0], half)
        return {0: float((found[:, 0] ** 2).mean()), 1: float((found[:, 1] ** 2).mean())}
    # Of more than two arms a side has its own arm for the treated.
    return {one: float((moved_means(row[one], half)[:, TWO_ARMS - 1] ** 2).mean()) for one in (0, arm)}


def times_findings(
    study: SurvivalProtocol,
    sizes: Sizes,
    released: FloatArray,
    outcomes: TimesOutcomes,
    asked: Asked,
    scales: JointScales,
) -> TimesTable:
    """Read every adjusted answer, and curves of the arms as they are, off all releases.

    No row is read.
    """
    bounded = study.bounded
    with one_thread():
        cells = JointCells.read(released, study, sizes)
        parts, balance = times_parts(study, outcomes, asked, scales, sizes.units), balance_of(bounded, asked)
        drawn = group_curves(study, cells)
    answers, calibration = calibrate(bounded, parts, table(bounded, parts))
    labels = {own.name: question.label for own, question in zip(bounded.outcomes, study.questions, strict=True)}
    open_to = not_covered(bounded, asked, calibration.mean is not None)
    lost = limit(Code.censoring)
    if study.subgroups is not None:
        lost = limit(Code.censoring_within, columns=(f"a level of '{study.subgroups.name}'",))
    details: dict[str, float | int | str | bool] = {
        "intervals": cells.grid.intervals,
        "cells": cells.grid.numbers,
        **together(len(answers)),
        **people_told(study, cells),
    }
    return TimesTable(
        tuple(one.model_copy(update={"outcome": labels[one.outcome]}) for one in answers),
        drawn,
        calibration,
        (*open_to, lost, limit(Code.grid, intervals=(cells.grid.intervals,))),
        details,
        balance,
    )
