"""Laplace noise scaled to a smooth sensitivity (Nissim, Raskhodnikova and Smith 2007), for replications."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from causalveil.schemas.amounts import float_below
from causalveil.schemas.privacy import Norm, PrivacyCost
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Budget, Calibrated, Sensitivity, Slot
from causalveil.tasks.privacy.noise import check_input
from causalveil.tasks.privacy.scales import quotient_above

UNIT = Sensitivity(value=1.0, norm=Norm.l1, formula="1: the value in units of its smooth sensitivity")


@dataclass(frozen=True)
class SmoothLaplace(Calibrated):
    """Laplace noise of scale 2/epsilon per unit of the smooth sensitivity S: (epsilon, delta)-DP for one number.

    Nissim, Raskhodnikova and Smith 2007, Lemma 2.6 and Example 3: S must be at least the local sensitivity and change
    by a factor of at most exp(beta) between neighbours, beta = epsilon/(2 ln(2/delta)). The value is released in units
    of S, so that the declared scale is exact whatever S turns out to be.
    """

    NAME = "smooth laplace"
    NORM = Norm.l1
    PURE = False

    @property
    def beta(self) -> float:
        """How fast S may decay with the distance from the data."""
        return self._epsilon / (2 * math.log(2 / float_below(self.cost.delta)))

    def _scale(self, sensitivity: float) -> float:
        return quotient_above(Fraction(sensitivity) * 2, self._epsilon)

    def release(self, value: FloatArray, slot: Slot, budget: Budget) -> FloatArray:
        """Release ``value``, shape (1,), in units of its smooth sensitivity."""
        scale = self.known_scale
        check_input(value, scale)
        return budget.spend(self.charge(slot), lambda noise: noise.laplace(value, scale))


def smooth_laplace(cost: PrivacyCost) -> SmoothLaplace:
    """The mechanism for a number that is released in units of its smooth sensitivity."""
    return SmoothLaplace(UNIT, cost)
