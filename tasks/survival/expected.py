"""What can be said before a row is read: the same variances at the expected cells of exponential curves."""

from __future__ import annotations

import math

import numpy as np

from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Laplace
from causalveil.tasks.survival.effects import Compared, TwoArms
from causalveil.tasks.survival.grid import ARMS, Grid, grid_of
from causalveil.tasks.survival.strategy import NoisyCells, measured, mechanism, read_cells


def expected_cells(study: SurvivalStudy, sizes: Sizes, stand_in: StandIn) -> NoisyCells:
    """Return the cells of people whose events and losses come at constant rates, as if no noise happened to be drawn.

    Args:
        study: says the risk and the share lost that its reader expects of both arms.
        sizes: its sizes.
        stand_in: says the share of the treated.
    """
    grid = grid_of(study, sizes.units)
    arms = [sizes.units * (1 - stand_in.treated), sizes.units * stand_in.treated]
    counts = np.array([share * _shares(study, grid) for share in arms])
    draw = mechanism(study)
    plain = isinstance(draw, Laplace)
    whole = measured(np.zeros(ARMS * grid.cells, dtype=np.int64), grid, plain)
    return NoisyCells(grid, sizes.units, counts, read_cells(whole, grid, sizes.units, draw).noise)


def _shares(study: SurvivalStudy, grid: Grid) -> FloatArray:
    """The share of an arm's people in each cell; none has a competing event."""
    event, lost = (-math.log1p(-share) for share in (study.expect.risk, study.expect.lost))
    left = np.exp(-(event + lost) * np.linspace(0, 1, grid.intervals + 1))
    gone = -np.diff(left) / (event + lost)
    shares = np.zeros(grid.cells)
    shares[: grid.intervals] = event * gone
    shares[grid.kinds * grid.intervals : -1] = lost * gone
    shares[-1] = left[-1]
    return shares


def expected_contrasts(study: SurvivalStudy, sizes: Sizes, stand_in: StandIn) -> tuple[TwoArms, list[Compared]]:
    """Return both arms as they are expected, and each measure's comparison."""
    both = TwoArms(expected_cells(study, sizes, stand_in))
    return both, [both.contrast(one, study.confidence, study.estimator.allowed) for one in study.measure]
