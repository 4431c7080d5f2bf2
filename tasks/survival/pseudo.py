"""Pseudo-outcomes of the cells: a public table, made of released cells alone.

    z[arm, cell] = f(h) + n df/dh[cell],  h the arm's cells, n its people

A person's outcome is then one of 2 C known numbers, bounded by construction: the infinitesimal jackknife
(``survival::pseudo`` in R uses it for exact data). Given her covariates its mean is her own f, whatever the released
curve of events says, as long as the released curve of censoring is right; ``lost_error`` says by how much it may be
off. Where censoring may depend on groups each group of an arm has a table of its own. An estimator that adjusts for
covariates can take them for outcomes. ``docs/proofs/survival.md``, section 8.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from causalveil.schemas.estimators.survival import Measure
from causalveil.tasks.adjustment.released import CELLS, EDGES, ReleasedScales
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.survival import curves
from causalveil.tasks.survival.curves import ARMS, CellArray, Grid
from causalveil.tasks.survival.effects import TwoArms
from causalveil.tasks.survival.pooling import CensoringStrata
from causalveil.tasks.survival.strategy import NoisyCells

# A table of one number alone has no range to divide by.
LEAST_RANGE = 1e-9


@dataclass(frozen=True)
class PseudoOutcomes:
    """The table of one measure, and how far it is to be believed.

    Attributes:
        table: of every cell, as ``Grid.cell`` counts them, scaled to [-1, 1].
        middle, half: of the range that it is scaled from.
        followed: the least share that censoring leaves until the horizon, over arms and groups; 0 where nobody is seen
            at risk so long.
        weights: of people by cell, as tidied cells tell them; they add up to 1.
        lost_error: by arm, the variance of the logarithm of the released curve of censoring, where it is largest.
        units: people whose outcomes these are: all, or as many as noise shows to be eligible.
        units_error: the variance of the noise on that, as a share of its square.
        places: which of the outcomes a cell of the whole grid has.
    """

    table: FloatArray
    middle: float
    half: float
    followed: float
    weights: FloatArray
    lost_error: tuple[float, float]
    units: int
    units_error: float
    places: IntArray

    def known(self, scales: ReleasedScales) -> ReleasedScales:
        """Return an adjustment's first release, with the outcome's histogram by the cells."""
        return known(self.table, self.weights, self.units, scales)

    def of(self, cell: CellArray) -> FloatArray:
        """Return the outcome u of people by their cells."""
        return np.asarray(self.table[self.places[cell]])


def known(table: FloatArray, weights: FloatArray, units: int, scales: ReleasedScales) -> ReleasedScales:
    """Return an adjustment's first release, with the outcome's histogram by the cells.

    The cells tell it with little noise; its own would hide a rare event whose outcomes lie in several cells.

    Args:
        table: the outcomes.
        weights: of people by cell; they add up to 1.
        units: how many people there are.
        scales: what was released.
    """
    places = np.clip(np.searchsorted(EDGES, table) - 1, 0, CELLS - 1)
    shares = np.bincount(places, weights, minlength=CELLS)
    return replace(scales, outcome=np.asarray(shares, np.float64), cells_sd=np.append(scales.cells_sd[:-1], 1 / units))


def pseudo_outcomes(
    strata: CensoringStrata, measure: Measure, whole: NoisyCells, until: int | None = None
) -> PseudoOutcomes:
    """Return the table of one measure, at tidied cells.

    Args:
        strata: both arms of every stratum of censoring, to the end of the grid.
        measure: what each outcome is to be the share of.
        whole: all of them together.
        until: the interval with which the measure ends; the last of the grid if it is not said.
    """
    grid = whole.grid
    until = grid.intervals if until is None else until
    groups = [both.until(until) for both in strata.both]
    rows, followed = [], []
    people = np.array([[float(tidy.sum()) for tidy in both.tidy] for both in groups])
    weights = people / people.sum(axis=0)
    errors = np.zeros(ARMS)
    for both, weight in zip(groups, weights, strict=True):
        function = both.function(measure)
        for arm, cells in enumerate(both.tidy):
            rows.append(float(function(cells)) + float(cells.sum()) * curves.gradient(function, cells))
            left = float(curves.still_followed(cells, both.grid)[-1])
            followed.append(left if both.seen == both.grid.intervals else 0.0)
            errors[arm] += float(weight[arm]) ** 2 * lost_error(both, arm)
    raw = np.concatenate(rows)
    low, high = float(raw.min()), float(raw.max())
    half = max((high - low) / 2, LEAST_RANGE)
    middle = low + (high - low) / 2
    table = np.clip((raw - middle) / half, -1.0, 1.0)
    counts = np.concatenate([tidy for both in groups for tidy in both.tidy])
    own, short = grid.places(until), grid.until(until).cells
    return PseudoOutcomes(
        table,
        middle,
        half,
        min(followed),
        counts / counts.sum(),
        (float(errors[0]), float(errors[1])),
        whole.units,
        max(float(whole.noise.sum()), 0.0) / whole.units**2,
        np.concatenate([(one * ARMS + arm) * short + own for one in strata.of_group for arm in range(ARMS)]),
    )


def lost_error(both: TwoArms, arm: int) -> float:
    """Return the largest variance of the logarithm of an arm's curve of censoring."""
    tidy = both.tidy[arm]
    slopes = curves.gradient(partial(_log_followed, grid=both.grid), tidy)
    sampling = tidy @ slopes**2
    noise = np.einsum("cj,cd,dj->j", slopes, both.cells.part(arm), slopes)
    return float(np.maximum(sampling + noise, 0.0).max())


def _log_followed(cells: FloatArray, grid: Grid) -> FloatArray:
    return np.asarray(np.log(np.maximum(curves.still_followed(cells, grid), curves.LEAST)))
