"""Draw by mechanisms that few estimators use.

Propose-test-release, gross error, smooth sensitivity.

Two may answer "no answer": what they release is safe near most data sets, and they test for that. Both test a
*distance*: a whole number that moves by at most 1 between neighbours, and is at most 1 on any data set that has a
neighbour for which the promise of the release would not hold. The test is noisy, so it costs epsilon, and passes by
mistake with probability at most delta. Test and value are drawn in one transaction: no answer is an answer, charged and
stored like any other. Proof: ``docs/proofs/direction.md``, section 6.

Gross error is the noise of Schröder, Hartenstein and Feuerriegel (2025), Theorems 4.3 and 4.5. Its guarantee is
asymptotic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.privacy import Norm, PrivacyCost, float_below
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.gaussian import WIDENING
from causalveil.tasks.privacy.mechanisms import Budget, Calibrated, GaussianNoise, Sensitivity, Slot
from causalveil.tasks.privacy.noise import NoiseSource, check_input, laplace_scale, quotient_above

DISTANCE = Sensitivity(value=1.0, norm=Norm.l1, formula="1: the tested distance; the value itself is exact")
# A test's threshold is rounded up by this share, which covers the rounding of its logarithm.
TEST_WIDENING = 1e-9


@dataclass(frozen=True)
class _Tested(Calibrated):
    """The base class of mechanisms that test distances.

    Attributes:
        tests: distances that are tested; one that passes is enough. Each is 1-sensitive, and all are at most 1 where
            the promise does not hold.
    """

    tests: int = 1

    NORM = Norm.l1
    PURE = False
    PARTS: ClassVar[int]

    def __post_init__(self) -> None:
        """Refuse a delta for which a test would be no test."""
        super().__post_init__()
        if self.cost.delta >= 0.5:
            raise StudyError(f"{self.NAME} needs delta below 0.5")

    @property
    def _part(self) -> float:
        """An equal part of epsilon, rounded down."""
        parts = self.tests + self.PARTS
        part = self._epsilon / parts
        return math.nextafter(part, 0.0) if Fraction(part) * parts > Fraction(self._epsilon) else part

    def _scale(self, sensitivity: float) -> float:
        return laplace_scale(sensitivity, self._part)

    @cached_property
    def test_scale(self) -> float:
        """Scale of the Laplace noise on each distance."""
        return laplace_scale(1.0, self._part)

    @cached_property
    def threshold(self) -> float:
        """Threshold of a noisy distance, exceeded from 1 with probability at most delta/tests."""
        room = self.test_scale * math.log(self.tests / (2 * float_below(self.cost.delta))) * (1 + TEST_WIDENING)
        # With a large epsilon the room is below the widening's reach: the sum is rounded up by itself.
        return math.nextafter(1 + room, math.inf)

    def answer_probability(self, distance: float) -> float:
        """Return P(answer) at a distance; with several tests, that of one of them."""
        room = (distance - self.threshold) / self.test_scale
        return 1 - math.exp(-room) / 2 if room > 0 else math.exp(room) / 2

    def _passes(self, distances: FloatArray, noise: NoiseSource) -> bool:
        return bool(np.any(noise.laplace(distances, self.test_scale) > self.threshold))

    def _check(self, value: FloatArray, distances: FloatArray) -> None:
        if distances.shape != (self.tests,):
            raise CausalveilError(f"{self.NAME} declared {self.tests} test(s)")
        check_input(distances, self.test_scale)
        check_input(value, self.known_scale)


@dataclass(frozen=True)
class ProposeTestRelease(_Tested):
    """A value with Laplace noise of a *proposed* sensitivity, or no answer.

    It is (epsilon, delta)-DP (Dwork & Lei 2009).

    ``sensitivity`` is proposed: it must hold between a data set and each neighbour unless every distance of both is
    at most 1. Epsilon is shared equally among the tests and the value: ``noise_scale`` is (tests + 1) S/epsilon.
    With two tests these are Kusner et al.'s (3 epsilon', delta).
    """

    NAME = "propose-test-release"
    PARTS = 1

    def release(self, value: FloatArray, distances: FloatArray, slot: Slot, budget: Budget) -> FloatArray | None:
        """Release ``value``, shape (d,), or None; ``distances`` has shape (tests,)."""
        self._check(value, distances)
        scale = self.known_scale

        def draw(noise: NoiseSource) -> FloatArray:
            # Both are drawn whether or not they are needed, so that a draw takes the same time.
            noisy, passed = noise.laplace(value, scale), self._passes(distances, noise)
            return np.append(noisy, 1.0) if passed else np.zeros(len(value) + 1)

        return _answer(budget.spend(self.charge(slot), draw))


@dataclass(frozen=True)
class StableRelease(_Tested):
    """A value exactly, or no answer, by its distance to instability.

    It is (epsilon, delta)-DP (Dwork & Roth 2014, Alg. 13).

    The value must be the same on a data set and each neighbour unless every distance of both is at most 1. All of
    epsilon goes to the test: ``noise_scale`` is 1/epsilon, that of the noise on the distance.
    """

    NAME = "distance to instability"
    PARTS = 0

    sensitivity: Sensitivity = field(default=DISTANCE, kw_only=True)

    def release(self, value: FloatArray, distances: FloatArray, slot: Slot, budget: Budget) -> FloatArray | None:
        """Release ``value``, shape (d,), or None; ``distances`` has shape (1,)."""
        self._check(value, distances)

        def draw(noise: NoiseSource) -> FloatArray:
            return np.append(value, 1.0) if self._passes(distances, noise) else np.zeros(len(value) + 1)

        return _answer(budget.spend(self.charge(slot), draw))


def _answer(stored: FloatArray) -> FloatArray | None:
    """The value, unless the mark behind it says that there is none."""
    return stored[:-1] if stored[-1] == 1.0 else None


@dataclass(frozen=True)
class GrossErrorGaussian(GaussianNoise):
    """Gaussian noise in proportion to the gross-error sensitivity gamma.

    Its deviation is r = 5 sqrt(2 ln(n) ln(2/delta))/(epsilon n) per unit of gamma.

    That gamma r bounds what smooth sensitivity would ask for is a statement about large n (Avella-Medina 2021). The
    value is released *in units of gamma*, so that the declared scale is exact whatever gamma turns out to be;
    ``sensitivity`` is that of a mean, 1/n. The name does not begin with "gaussian": its loss is what it declares,
    not that of Gaussian noise on a sensitivity of 1/n, which nobody has proved.
    """

    NAME = "gross-error gaussian"

    units: int = field(kw_only=True)

    def __post_init__(self) -> None:
        """Refuse fewer than two units, for which ln n is not positive."""
        super().__post_init__()
        if self.units < 2:
            raise StudyError(f"{self.NAME} needs at least 2 units")

    def _scale(self, sensitivity: float) -> float:
        delta = float_below(self.cost.delta)
        factor = 5 * math.sqrt(2 * math.log(self.units) * math.log(2 / delta)) * (1 + WIDENING)
        return factor * quotient_above(Fraction(sensitivity), self._epsilon)


def gross_error_gaussian(units: int | None, cost: PrivacyCost) -> GrossErrorGaussian:
    """Return the mechanism for a mean over ``units`` units.

    The mean is released in units of its gross-error sensitivity.
    """
    bound = Sensitivity(
        value=None if units is None else 1 / units,
        norm=Norm.l2,
        formula="1/n of the gross-error sensitivity, n units (asymptotic)",
    )
    return GrossErrorGaussian(bound, cost, units=units or 2)
