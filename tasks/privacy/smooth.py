"""Mechanisms that replications alone use: Laplace noise of a smooth sensitivity, and the exponential mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from causalveil.schemas.privacy import Norm, PrivacyCost, float_below
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Budget, Calibrated, Sensitivity, Slot
from causalveil.tasks.privacy.noise import NoiseSource, check_input
from causalveil.tasks.privacy.scales import quotient_above

UNIT = Sensitivity(value=1.0, norm=Norm.l1, formula="1: the value in units of its smooth sensitivity")

EVERY_SCORE = Sensitivity(value=1.0, norm=Norm.l1, formula="1: every score")


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
        """Largest change of log S between neighbours."""
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


@dataclass(frozen=True)
class ExponentialChoice(Calibrated):
    """The exponential mechanism: one of several candidates, exp(epsilon score/2) as likely; (epsilon, 0)-DP.

    McSherry and Talwar 2007; epsilon^2/8-zCDP (Cesar and Rogers 2021). Every score moves by 1 at most between
    neighbours. Drawn as the largest of scores with Gumbel noise of scale 2/epsilon.
    """

    NAME = "exponential"
    NORM = Norm.l1
    PURE = True

    sensitivity: Sensitivity = field(default=EVERY_SCORE, kw_only=True)

    def _scale(self, sensitivity: float) -> float:
        return quotient_above(Fraction(sensitivity) * 2, self._epsilon)

    def choose(self, scores: FloatArray, slot: Slot, budget: Budget) -> int:
        """The place of the chosen score, of ``scores`` of shape (candidates,)."""
        scale = self.known_scale
        check_input(scores, scale)

        def draw(noise: NoiseSource) -> FloatArray:
            # Laplace noise through its distribution function is uniform, and -ln(-ln U) of that is Gumbel.
            flat = noise.laplace(np.zeros_like(scores), 1.0)
            tail = np.exp(-np.abs(flat)) / 2
            minus_log = np.where(flat > 0, -np.log1p(-tail), np.abs(flat) + math.log(2))
            return np.array([float(np.argmax(scores - scale * np.log(minus_log)))])

        return int(budget.spend(self.charge(slot), draw)[0])
