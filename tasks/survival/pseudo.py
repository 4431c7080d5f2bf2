"""Pseudo-outcomes of the cells: public tables, made of released cells alone.

    z[arm, cell] = f(h) + n df/dh[cell],  h the arm's cells, n its people

A person's outcome of a question is then one of as many known numbers as there are cells, bounded by construction: the
infinitesimal jackknife (``survival::pseudo`` in R uses it for exact data). Given her covariates its mean is her own f,
whatever the released curve of events says, as long as the released curve of censoring is right; ``lost_error`` says by
how much it may be off. Where censoring may depend on strata each stratum of an arm has a table of its own. An estimator
that adjusts for covariates can take them for outcomes. ``docs/proofs/survival.md``, sections 8 and 12.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from causalveil.schemas.estimators.survival import Measure
from causalveil.schemas.estimators.survival_protocol import SurvivalStudy
from causalveil.tasks.machine.arrays import BoolArray, FloatArray
from causalveil.tasks.survival import curves
from causalveil.tasks.survival.curves import Grid
from causalveil.tasks.survival.effects import TwoArms
from causalveil.tasks.survival.joint import JointCells, QuestionCells
from causalveil.tasks.survival.pooling import Stratum, pool_strata

# A table of one number alone has no range to divide by.
LEAST_RANGE = 1e-9


@dataclass(frozen=True)
class TimesOutcomes:
    """Outcomes that released cells make of each question, and how far they are right.

    Attributes:
        grid: of all cells.
        parts: by subgroup and question, its cells until it ends.
        strata: of censoring, by subgroup and question.
        table: by subgroup, question, stratum as released, arm and cell; each subgroup's of a question in [-1, 1].
        half: half the range that it is scaled from, shape (groups, questions).
        weights: of people by cell, of the same shape as ``table``; those of a subgroup's question add up to 1.
        told: whether both arms are seen, and followed until the question ends, shape (groups, questions, arms); of the
            reference whether any other arm is.
        followed: the least share that censoring leaves until then, over arms and strata, shape (groups, questions).
        lost_error: the largest variance of the logarithm of the released curve of censoring, of the shape of ``told``.
        own_error: the variance of the question's own value in an arm, likewise.
    """

    grid: Grid
    parts: tuple[tuple[QuestionCells, ...], ...]
    strata: tuple[tuple[tuple[Stratum, ...], ...], ...]
    table: FloatArray
    half: FloatArray
    weights: FloatArray
    told: BoolArray
    followed: FloatArray
    lost_error: FloatArray
    own_error: FloatArray

    @property
    def by_cell(self) -> FloatArray:
        """Outcomes of people by their cell, shape (cells of all, questions).

        Cells are counted as by ``Grid.cell``. Who is not eligible is in no subgroup; her outcomes are in no sum.
        """
        own = np.moveaxis(self.table, 1, -1).reshape(self.grid.numbers, -1)
        return np.concatenate([own, np.zeros((self.grid.arms * self.grid.cells, own.shape[1]))])


def times_outcomes(study: SurvivalStudy, cells: JointCells) -> TimesOutcomes:
    """Make the tables of all questions' outcomes of released cells; reads no row."""
    grid, questions = cells.grid, study.questions
    groups, many = len(study.groups), grid.strata_of_group
    table = np.zeros((groups, len(questions), many, grid.arms, grid.cells))
    weights, half, followed = np.zeros_like(table), np.ones(table.shape[:2]), np.ones(table.shape[:2])
    shape = (groups, len(questions), grid.arms)
    told, lost, own = np.ones(shape, dtype=np.bool_), np.zeros(shape), np.zeros(shape)
    parts, strata = list[tuple[QuestionCells, ...]](), list[tuple[tuple[Stratum, ...], ...]]()
    for group in range(groups):
        ends = [_ended(study, cells, group, place) for place in range(len(questions))]
        parts.append(tuple(part for part, _ in ends))
        strata.append(tuple(pooled for _, pooled in ends))
        for place, (question, (part, pooled)) in enumerate(zip(questions, ends, strict=True)):
            at = group, place
            for arm in range(1, grid.arms):
                whole = cells.two_arms(cells.members(group), arm, part)
                each = [whole] if len(pooled) == 1 else [cells.two_arms(one.places, arm, part) for one in pooled]
                ends_there = [both.followed_to(study.censoring.floor) == part.grid.intervals for both in each]
                told[(*at, arm)] = all(ends_there)
                # The reference stands beside every arm; its own numbers are read beside the first.
                for side, own_arm in ((1, arm), *([(0, 0)] if arm == 1 else [])):
                    own[(*at, own_arm)] = whole.variances(question.measure)[side]
                    people = np.array([float(both.tidy[side].sum()) for both in each])
                    for one, both, share in zip(pooled, each, people / people.sum(), strict=True):
                        places = [spot - group * many for spot in one.places]
                        table[(*at, places, own_arm)] = values_by_cell(both, question.measure, side, part)
                        summed = cells.counts[list(one.places), own_arm].sum(axis=0)
                        weights[(*at, places[0], own_arm)] = curves.tidied(summed, grid)
                        lost[(*at, own_arm)] += share**2 * lost_error(both, side)
                        left = float(curves.still_followed(both.tidy[side], part.grid)[-1])
                        followed[at] = min(followed[at], left if both.seen == part.grid.intervals else 0.0)
            told[(*at, 0)] = told[(*at, slice(1, None))].any()
            table[at], half[at] = _scaled(table[at], told[at])
            weights[at] /= weights[at].sum()
    return TimesOutcomes(grid, tuple(parts), tuple(strata), table, half, weights, told, followed, lost, own)


def _ended(
    study: SurvivalStudy, cells: JointCells, group: int, place: int
) -> tuple[QuestionCells, tuple[Stratum, ...]]:
    """Return the cells of a question until it ends, and the strata of censoring of a subgroup until then."""
    question = study.questions[place]
    strata = pool_strata(study, cells, group, cells.last_of(study, question))
    last = cells.last_of(study, question, [one.places for one in strata])
    return QuestionCells.of(question, study, cells.grid, last), strata


def values_by_cell(both: TwoArms, measure: Measure, side: int, part: QuestionCells) -> FloatArray:
    """Return an arm's outcomes by cell of the whole grid.

    It is f(h) + n df/dh of the question's cell that a cell is part of.
    """
    function, tidy = both.function(measure), both.tidy[side]
    values = float(function(tidy)) + float(tidy.sum()) * curves.gradient(function, tidy)
    return np.asarray(values[part.sums.argmax(axis=0)])


def _scaled(raw: FloatArray, told: BoolArray) -> tuple[FloatArray, float]:
    """Return outcomes of all arms in [-1, 1] and half their range.

    It is that of the arms that are told: outcomes of an arm without units at risk at the horizon have no bound.
    """
    chosen = raw[:, told] if told.any() else raw
    low, high = float(chosen.min()), float(chosen.max())
    half = max((high - low) / 2, LEAST_RANGE)
    return np.clip((raw - low) / half - 1.0, -1.0, 1.0), half


def lost_error(both: TwoArms, arm: int) -> float:
    """Return the largest variance of the logarithm of an arm's curve of censoring."""
    tidy = both.tidy[arm]
    slopes = curves.gradient(partial(_log_followed, grid=both.grid), tidy)
    sampling = tidy @ slopes**2
    noise = np.einsum("cj,cd,dj->j", slopes, both.cells.part(arm), slopes)
    return float(np.maximum(sampling + noise, 0.0).max())


def _log_followed(cells: FloatArray, grid: Grid) -> FloatArray:
    return np.asarray(np.log(np.maximum(curves.still_followed(cells, grid), curves.LEAST)))
