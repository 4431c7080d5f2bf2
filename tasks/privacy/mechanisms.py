"""Mechanisms: the noise that each draws stands beside its privacy cost.

A mechanism is a sensitivity and a cost; together they fix the noise. ``charge`` declares a draw from the study
alone, before a row is read; ``release`` makes it through a budget. Every scale is calibrated to the safe side and
then checked in exact or high-precision arithmetic: S/epsilon in plain floats overshoots epsilon in half of all
cases. Sensitivities are under replace-one neighbours. Proofs: ``docs/privacy.md``.

Few estimators use propose-test-release, distance to instability and gross error. The first two may return no answer:
their release is private near most data sets only, and they test for that. Both test a *distance*: a whole number that
moves by at most 1 between neighbours, and is at most 1 on any data set that has a neighbour for which the promise of
the release would not hold. The test is noisy, so it costs epsilon, and passes by mistake with probability at most
delta. Test and value are drawn in one transaction: no answer is an answer, charged and stored like any other. Proof:
``docs/proofs/direction.md``, section 6.

Gross error is the noise of Schröder, Hartenstein and Feuerriegel (2025), Theorems 4.3 and 4.5. Its guarantee is
asymptotic.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.privacy import Charge, GaussianCost, Norm, PrivacyCost, Scope, float_below
from causalveil.tasks.machine.arrays import ByteArray, FloatArray
from causalveil.tasks.privacy.concentrated import rho_of_epsilon, rho_of_mu
from causalveil.tasks.privacy.gaussian import WIDENING, rounded_up, unit_sigma
from causalveil.tasks.privacy.noise import (
    LATTICE_EPSILON,
    NoiseSource,
    analytic_sigma,
    check_input,
    classic_sigma,
    granularity,
    keep_probability,
    laplace_scale,
    lattice_scale,
    quotient_above,
)


@dataclass(frozen=True)
class Slot:
    """The name of a draw, and the units that it reads.

    ``name`` is unique in a run: with the run id it is the key under which it is drawn once. To which stage it belongs,
    the stage says (``flows/estimators/stage.py``).
    """

    name: str
    scope: Scope


@dataclass(frozen=True)
class Sensitivity:
    """The largest change of a statistic between neighbours, in ``norm``.

    None while the number of units is unknown.

    Raises:
        CausalveilError: a value that is not finite and positive.
    """

    value: float | None
    norm: Norm
    formula: str

    def __post_init__(self) -> None:
        """Refuse a value for which the noise would be 0 or undefined."""
        if self.value is not None and not (math.isfinite(self.value) and self.value > 0):
            raise CausalveilError("a sensitivity must be finite and above 0")


BIT = Sensitivity(value=1.0, norm=Norm.bit, formula="1 bit")


class Budget(Protocol):
    """The only access to noise.

    A charge is committed once, together with the drawn value (``budget.FlowBudget``).
    """

    def spend(self, charge: Charge, draw: Callable[[NoiseSource], FloatArray]) -> FloatArray:
        """Draw, commit value and charge, return the value, shape (d,).

        A value that is stored already is returned instead.
        """

    def spend_records(self, charge: Charge, draw: Callable[[NoiseSource], NDArray[Any]]) -> NDArray[Any]:
        """Do as ``spend`` for an array with an entry per unit, shape (n,), kept in the enclave."""


class Declared(Protocol):
    """An object by which a stage declares its charges."""

    def charge(self, slot: Slot) -> Charge:
        """Return the declaration of one draw."""


@dataclass(frozen=True)
class Calibrated(ABC):
    """The base class of mechanisms: a sensitivity, and the cost of a release for each unit.

    Raises:
        CausalveilError: the sensitivity is in another norm than the mechanism's.
        StudyError: the mechanism cannot have this cost.
    """

    sensitivity: Sensitivity
    cost: PrivacyCost

    NAME: ClassVar[str]
    NORM: ClassVar[Norm]
    PURE: ClassVar[bool]

    def __post_init__(self) -> None:
        """Refuse a norm or a cost that the theorem does not cover."""
        if self.sensitivity.norm is not self.NORM:
            raise CausalveilError(f"{self.NAME} needs a sensitivity in the {self.NORM} norm")
        if self.cost.epsilon <= 0:
            raise StudyError(f"{self.NAME} needs epsilon above 0")
        if self.PURE and self.cost.delta != 0:
            raise StudyError(f"{self.NAME} spends no delta; declare delta 0 for it")
        if not self.PURE and not 0 < self.cost.delta < 1:
            raise StudyError(f"{self.NAME} needs delta between 0 and 1")

    @cached_property
    def noise_scale(self) -> float | None:
        """The scale of the noise in units of the value; None while the sensitivity is."""
        return None if self.sensitivity.value is None else self._scale(self.sensitivity.value)

    @property
    def _epsilon(self) -> float:
        return float_below(self.cost.epsilon)

    @abstractmethod
    def _scale(self, sensitivity: float) -> float: ...

    @property
    def known_scale(self) -> float:
        """The scale of the noise in units of the value, where the number of units is known.

        Raises:
            CausalveilError: the number of units is not known yet.
        """
        if self.noise_scale is None:
            raise CausalveilError(f"{self.NAME}: the number of units is not known yet, so nothing can be released")
        return self.noise_scale

    @property
    def mu(self) -> Decimal | None:
        """Sensitivity over scale of Gaussian noise, rounded up; None for other noise."""
        return None

    def charge(self, slot: Slot) -> Charge:
        """Declare one draw under ``slot``; the stage that owns it puts its name in."""
        mu = self.mu
        return Charge(
            name=slot.name,
            stage="",
            mechanism=self.NAME,
            scope=slot.scope,
            norm=self.NORM,
            sensitivity=self.sensitivity.value,
            formula=self.sensitivity.formula,
            noise_scale=self.noise_scale,
            epsilon=self.cost.epsilon,
            delta=self.cost.delta,
            mu=mu,
            rho=rho_of_epsilon(self.cost.epsilon, self.NAME) if mu is None else rho_of_mu(mu),
        )


class Mechanism(Calibrated):
    """The base class of mechanisms that add noise to a value."""

    @abstractmethod
    def release(self, value: NDArray[Any], slot: Slot, budget: Budget) -> NDArray[Any]:
        """Add noise to ``value`` under ``slot`` and charge for it; same shape and type.

        Raises:
            BudgetRefused, LedgerError: as of the budget.
            CausalveilError: the value cannot be released, or the sensitivity is not known yet. Nothing is charged.
        """


@dataclass(frozen=True)
class Laplace(Mechanism):
    """Laplace noise of scale S1/epsilon on each coordinate: (epsilon, 0)-DP.

    Dwork et al. 2006, Proposition 1.

    ``noise_scale`` is b of the density exp(-|x|/b)/(2b), standard deviation sqrt(2) b: the least float with
    S1/b <= epsilon both exactly and by OpenDP's own privacy map.
    """

    NAME = "laplace"
    NORM = Norm.l1
    PURE = True

    def _scale(self, sensitivity: float) -> float:
        return laplace_scale(sensitivity, self._epsilon)

    def release(self, value: FloatArray, slot: Slot, budget: Budget) -> FloatArray:
        """Release ``value``, shape (d,), whose L1 sensitivity is the mechanism's."""
        scale = self.known_scale
        check_input(value, scale)
        return budget.spend(self.charge(slot), lambda noise: noise.laplace(value, scale))


class GaussianNoise(Mechanism):
    """The base class of mechanisms with iid normal noise."""

    NORM = Norm.l2
    PURE = False

    def release(self, value: FloatArray, slot: Slot, budget: Budget) -> FloatArray:
        """Release ``value``, shape (d,), whose L2 sensitivity is the mechanism's."""
        scale = self.known_scale
        check_input(value, scale)
        return budget.spend(self.charge(slot), lambda noise: noise.gaussian(value, scale))


@dataclass(frozen=True)
class GaussianAnalytic(GaussianNoise):
    """Gaussian noise with the least standard deviation that is (epsilon, delta)-DP.

    For any epsilon > 0. Balle and Wang 2018, Theorem 8:
    Phi(S/2s - epsilon s/S) - exp(epsilon) Phi(-S/2s - epsilon s/S) <= delta.
    ``noise_scale`` is s, widened by 1e-9 and checked against the formula in 400-bit arithmetic.
    """

    NAME = "gaussian (analytic)"

    def _scale(self, sensitivity: float) -> float:
        return analytic_sigma(sensitivity, self._epsilon, float_below(self.cost.delta))

    @property
    def mu(self) -> Decimal:
        """1 over the deviation at sensitivity 1, rounded up; the same whatever the sensitivity."""
        return _inverse_above(unit_sigma(self._epsilon, float_below(self.cost.delta)))


@dataclass(frozen=True)
class Gaussian(GaussianNoise):
    """Gaussian noise of deviation S2/mu, which is mu-GDP, as a share of a run's mu^2.

    Dong, Roth and Su 2022, Theorem 2.7.

    ``cost`` is a ``GaussianCost``, of ``divide`` or ``portion`` in ``gaussian.py``. ``noise_scale`` is the least
    float s with S2/s <= mu.
    """

    NAME = "gaussian"

    cost: GaussianCost

    def __post_init__(self) -> None:
        """Refuse a cost without mu. Epsilon may be 0: delta alone can cover a small draw."""
        if not isinstance(self.cost, GaussianCost):
            raise CausalveilError(f"{self.NAME} needs a cost with mu: divide the request into shares")
        if self.sensitivity.norm is not self.NORM:
            raise CausalveilError(f"{self.NAME} needs a sensitivity in the {self.NORM} norm")

    def _scale(self, sensitivity: float) -> float:
        return quotient_above(Fraction(sensitivity), self.cost.mu)

    @property
    def mu(self) -> Decimal:
        """The mu of the cost."""
        return self.cost.mu


@dataclass(frozen=True)
class GaussianClassic(GaussianNoise):
    """Gaussian noise with s = sqrt(2 ln(1.25/delta)) S2/epsilon, for epsilon < 1 only.

    It is (epsilon, delta)-DP by Dwork and Roth 2014, Theorem A.1. It is there for the reproduction of papers that
    use it, and wider than the analytic noise.
    """

    NAME = "gaussian (classic)"

    def __post_init__(self) -> None:
        """Refuse epsilon >= 1, where the theorem ends."""
        super().__post_init__()
        if self.cost.epsilon >= 1:
            raise StudyError(f"{self.NAME} is only private for epsilon below 1; use the analytic Gaussian")

    def _scale(self, sensitivity: float) -> float:
        return classic_sigma(sensitivity, self._epsilon, float_below(self.cost.delta))

    @property
    def mu(self) -> Decimal:
        """1 over the deviation at sensitivity 1, rounded up; the same whatever the sensitivity."""
        return _inverse_above(classic_sigma(1.0, self._epsilon, float_below(self.cost.delta)))


@dataclass(frozen=True)
class L2Laplace(Mechanism):
    """Noise with density proportional to exp(-epsilon ||b||_2/S2): (epsilon, 0)-DP for a vector.

    Chaudhuri, Monteleoni and Sarwate 2011, section 3. ``noise_scale`` is S2/epsilon, rounded up; the norm of the
    noise is Gamma(d, S2/epsilon), its direction uniform, a coordinate's variance (d + 1) (S2/epsilon)^2.
    """

    NAME = "l2-laplace"
    NORM = Norm.l2
    PURE = True

    def _scale(self, sensitivity: float) -> float:
        return quotient_above(Fraction(sensitivity), self._epsilon)

    def release(self, value: FloatArray, slot: Slot, budget: Budget) -> FloatArray:
        """Release ``value``, shape (d,), whose L2 sensitivity is the mechanism's."""
        scale = self.known_scale
        check_input(value, scale)
        return budget.spend(self.charge(slot), lambda noise: noise.l2_laplace(value, scale))


@dataclass(frozen=True)
class LatticeLaplace(Mechanism):
    """Discrete Laplace noise on each unit's own value: (epsilon, 0)-DP.

    This holds since a unit touches no other value.

    The discrete Laplace is Ghosh, Roughgarden and Sundararajan 2012's geometric mechanism. Values are first rounded
    to the public lattice ``granularity * Z``; two values at most S apart land at most floor(S/granularity) + 1 steps
    apart, and ``noise_scale`` covers that: wider than S/epsilon by a part in a million. The sampler is exact, so no
    delta is spent. Values must satisfy |value| <= 2^29 S.
    """

    NAME = "lattice laplace"
    NORM = Norm.l1
    PURE = True

    def __post_init__(self) -> None:
        """Refuse an epsilon for which the lattice would be too fine for 64-bit integers."""
        super().__post_init__()
        if not LATTICE_EPSILON[0] <= self._epsilon <= LATTICE_EPSILON[1]:
            low, high = LATTICE_EPSILON
            raise StudyError(f"{self.NAME} needs epsilon between {low} and {high}")

    @property
    def granularity(self) -> float | None:
        """Step of the lattice: the power of two in (S 2^-21, S 2^-20].

        It is public, as the sensitivity is.
        """
        return None if self.sensitivity.value is None else granularity(self.sensitivity.value)

    def _scale(self, sensitivity: float) -> float:
        return lattice_scale(sensitivity, self._epsilon)

    def release(self, value: FloatArray, slot: Slot, budget: Budget) -> FloatArray:
        """Release one noisy value per unit, shape (n,), into the enclave.

        Raises:
            CausalveilError: the sensitivity is not known yet, or a value is not finite. Nothing is charged.
        """
        scale, granularity = self.known_scale, self.granularity
        if granularity is None:
            raise CausalveilError(f"{self.NAME}: the sensitivity is not known yet, so nothing can be released")
        check_input(value, scale)
        return budget.spend_records(self.charge(slot), lambda noise: noise.lattice_laplace(value, scale, granularity))


@dataclass(frozen=True)
class RandomisedResponse(Mechanism):
    """Each unit's bit is kept with probability p, else flipped: (epsilon, 0)-DP (Warner 1965).

    p/(1 - p) <= exp(epsilon), and p is the largest float that satisfies it. Charges record p in their field
    ``noise_scale``, which has one meaning per mechanism.
    """

    NAME = "randomised response"
    NORM = Norm.bit
    PURE = True

    sensitivity: Sensitivity = field(default=BIT, kw_only=True)

    def _scale(self, sensitivity: float) -> float:  # noqa: ARG002  (one bit is one bit)
        return keep_probability(self._epsilon)

    @property
    def keep_probability(self) -> float:
        """p, in [1/2, 1): the probability that a bit is released unchanged."""
        return self.known_scale

    def release(self, value: ByteArray, slot: Slot, budget: Budget) -> ByteArray:
        """Release one noisy bit per unit, shape (n,), into the enclave.

        Raises:
            CausalveilError: ``value`` is no vector of zeros and ones. Nothing is charged.
        """
        keep = self.keep_probability
        if value.ndim != 1 or value.dtype != np.uint8 or (value.size and value.max() > 1):
            raise CausalveilError(f"{self.NAME} takes a vector of zeros and ones")
        return budget.spend_records(self.charge(slot), lambda noise: noise.randomised_response(value, keep))


def vector_mechanism(sensitivity: Sensitivity, cost: PrivacyCost) -> Gaussian | GaussianAnalytic | L2Laplace:
    """Return the mechanism for a vector with an L2 sensitivity.

    It is Gaussian noise if there is a delta to spend, else L2-Laplace noise.

    A part of a divided request comes with its mu; a cost of its own gets the analytic Gaussian.
    """
    if isinstance(cost, GaussianCost):
        return Gaussian(sensitivity, cost)
    return GaussianAnalytic(sensitivity, cost) if cost.delta > 0 else L2Laplace(sensitivity, cost)


def _inverse_above(scale: float) -> Decimal:
    """1/scale in twelve digits, rounded up with room for the last float of a product with a sensitivity."""
    return rounded_up(1 / Decimal(scale) * (1 + Decimal("1e-15")))


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
    not that of Gaussian noise on a sensitivity of 1/n, which is not proved.
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
