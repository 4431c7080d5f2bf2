"""Pseudo-outcomes of both arms' cells: a public table, made of released cells alone.

    z[arm, cell] = f(h) + n df/dh[cell],  h the arm's cells, n its people

A person's outcome is then one of 2 C known numbers, bounded by construction. Their mean over the arm's own cells is
f(h) exactly, and no first-order error of h enters it: the infinitesimal jackknife (``survival::pseudo`` in R uses it
for exact data). An estimator that adjusts for covariates can take them for outcomes of the range [lower, upper].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from causalveil.schemas.estimators.survival import Measure
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.survival import curves
from causalveil.tasks.survival.effects import TwoArms
from causalveil.tasks.survival.grid import ARMS

# Fourth moments over squared variances beyond this say no more than that events are rare.
MOST_KURTOSIS = 1_000.0


@dataclass(frozen=True)
class PseudoOutcomes:
    """The table, and what an adjusting estimator has to know of it.

    Attributes:
        table: shape (2, cells), controls first.
        followed: by arm, the share whom censoring leaves until the horizon.
        kurtosis: the larger arm's fourth moment over its squared variance: rare events have long tails.
    """

    table: FloatArray
    followed: tuple[float, float]
    kurtosis: float

    @property
    def lower(self) -> float:
        """The least outcome that a person may have."""
        return float(self.table.min())

    @property
    def upper(self) -> float:
        """The largest."""
        return float(self.table.max())


def pseudo_outcomes(both: TwoArms, measure: Measure) -> PseudoOutcomes:
    """Return the table of one measure, at tidied cells.

    Args:
        both: both arms as they were released.
        measure: what each outcome is to be the share of.
    """
    function = both.function(measure)
    rows, followed, kurtosis = [], [], 0.0
    for arm in range(ARMS):
        cells = both.tidy[arm]
        away = float(cells.sum()) * curves.gradient(function, cells)
        rows.append(float(function(cells)) + away)
        followed.append(float(curves.still_followed(cells, both.grid)[-1]))
        square = float(cells @ away**2)
        if square > 0:
            kurtosis = max(kurtosis, float(cells @ away**4) * float(cells.sum()) / square**2)
    return PseudoOutcomes(np.array(rows), (followed[0], followed[1]), min(kurtosis, MOST_KURTOSIS))
