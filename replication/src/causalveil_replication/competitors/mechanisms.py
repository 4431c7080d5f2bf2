"""Draw by mechanisms that only competitors use: smooth sensitivity and the exponential mechanism.

What bounds the local sensitivity and the scores is proved in ``docs/proofs/competitors.md``, sections 2 and 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.privacy import Norm, PrivacyCost, float_below
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Budget, Laplace, Sensitivity, Slot

UNIT = Sensitivity(value=1.0, norm=Norm.l1, formula="1: the value in units of its smooth sensitivity")
EVERY_SCORE = Sensitivity(value=1.0, norm=Norm.l1, formula="1: every score")


@dataclass(frozen=True)
class SmoothLaplace(Laplace):
    """Laplace noise of scale 2/epsilon per unit of the smooth sensitivity S.

    It is (epsilon, delta)-DP for one number.

    Nissim, Raskhodnikova and Smith 2007, Lemma 2.6 and Example 3: S must be at least the local sensitivity and change
    by a factor of at most exp(beta) between neighbours, beta = epsilon/(2 ln(2/delta)). The value is released in units
    of S, so that the declared scale is exact whatever S turns out to be.
    """

    NAME = "smooth laplace"
    PURE = False

    @property
    def beta(self) -> float:
        """Largest change of log S between neighbours."""
        return self._epsilon / (2 * math.log(2 / float_below(self.cost.delta)))

    def _scale(self, sensitivity: float) -> float:
        return super()._scale(2 * sensitivity)


def smooth_laplace(cost: PrivacyCost) -> SmoothLaplace:
    """Return the mechanism for a number that is released in units of its smooth sensitivity."""
    return SmoothLaplace(UNIT, cost)


@dataclass(frozen=True)
class ExponentialChoice(Laplace):
    """The exponential mechanism: one of several candidates, exp(epsilon score/2) as likely.

    It is (epsilon, 0)-DP.

    McSherry and Talwar 2007; epsilon^2/8-zCDP (Cesar and Rogers 2021). Every score moves by 1 at most between
    neighbours. Drawn as the largest of scores with Gumbel noise of scale 2/epsilon.
    """

    NAME = "exponential"

    sensitivity: Sensitivity = field(default=EVERY_SCORE, kw_only=True)

    def _scale(self, sensitivity: float) -> float:
        return super()._scale(2 * sensitivity)

    def choose(self, scores: FloatArray, slot: Slot, budget: Budget) -> int:
        """Return the place of the chosen score, of ``scores`` of shape (candidates,)."""
        if not np.isfinite(scores).all():
            raise CausalveilError("a score is not finite; nothing was drawn")
        flat = np.zeros_like(scores)
        stored = budget.spend(self.charge(slot), lambda noise: self._place(scores, noise.laplace(flat, 1.0)))
        return int(stored[0])

    def _place(self, scores: FloatArray, laplace: FloatArray) -> FloatArray:
        # Laplace noise through its distribution function is uniform, and -ln(-ln U) of that is Gumbel.
        tail = np.exp(-np.abs(laplace)) / 2
        minus_log = np.where(laplace > 0, -np.log1p(-tail), np.abs(laplace) + math.log(2))
        return np.array([float(np.argmax(scores - self.known_scale * np.log(minus_log)))])
