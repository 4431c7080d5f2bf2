"""Private matching where treatment has several values, as Yuan et al. (2026) sketch it in section V.

"A multinomial logit regression model can be applied for fitting. Then, the noise can be injected into the true
probability vector. The multi-dimensional treatments can be perturbed by Generalized Randomized Response. Moreover, a
distance metric function can be utilized to calculate the distance between different categories and achieve pairwise
privacy-preserving ATE estimation." The paper gives no sensitivity, no division and no experiment; these are ours:

    1  W' = W + noise                 multinomial logit, ridge penalty         e11
       P' = softmax(x W') + noise     every unit's vector of probabilities     e12
    2  t' = GRR(t)                    kept with exp(e2)/(exp(e2) + K - 1)      e2
    3  for each pair a < b: units with t' in {a, b} are matched on P'_b/(P'_a + P'_b), the score that balances the two
       (Lechner 2001), and the estimate gets noise                             e3/(K - 1)

A unit takes part in the K - 1 pairs of its own t' alone. At label level x and t are public, and a pair has e/(K - 1).
Proofs: ``docs/proofs/competitors.md``, section 6.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from scipy import special

from causalveil.schemas.errors import ConvergenceError
from causalveil.schemas.privacy import Norm, PrivacyCost, Scope
from causalveil.tasks.estimate.models.lattice_sums import bounded
from causalveil.tasks.estimate.models.nearest import NO_CAP, adaptive_limit, integer_caps, match_capped, most_used
from causalveil.tasks.machine.arrays import ByteArray, FloatArray, IntArray
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.privacy.mechanisms import (
    BIT,
    Budget,
    Calibrated,
    L2Laplace,
    Laplace,
    LatticeLaplace,
    Sensitivity,
    Slot,
)
from causalveil_replication.yuan2026.data import SEVERAL_RANGE, SEVERAL_VALUES, several
from causalveil_replication.yuan2026.errors import RelativeError, penalty

LEVELS = ("label", "sample")
# The paper's division at sample level and its error coefficients, by level.
SHARES = {"weights": Decimal("0.05"), "scores": Decimal("0.05"), "treatment": Decimal("0.7"), "outcome": Decimal("0.2")}
COEFFICIENTS = {"label": 0.01, "sample": 0.001}
TOLERANCE, STEPS = 1e-10, 100
LATTICE = 2.0**40
# Sums are rounded to floats at the end: far above what that moves them by.
ROUNDING = 2.0**-20


@dataclass(frozen=True)
class GeneralisedResponse(Calibrated):
    """Each unit's value, one of ``values``, is kept with probability p, else another one is taken: (epsilon, 0)-DP.

    p (K - 1)/(1 - p) <= exp(epsilon). Which other value is drawn by K - 2 coins, whose chances are floats and so off by
    2^-53; p is lowered by far more. ``noise_scale`` is p, as of randomised response.
    """

    values: int = 2

    NAME = "generalised randomised response"
    NORM = Norm.bit
    PURE = True

    sensitivity: Sensitivity = field(default=BIT, kw_only=True)

    def _scale(self, sensitivity: float) -> float:  # noqa: ARG002  (one value is one value)
        return (1 - 2.0**-40) / (1 + (self.values - 1) * math.exp(-self._epsilon))

    def release(self, value: ByteArray, slot: Slot, budget: Budget) -> ByteArray:
        """Release one noisy value per unit, shape (n,); every coin of every unit is thrown, whatever the value."""
        keep = self.known_scale

        def draw(noise: Any) -> ByteArray:
            none = np.zeros(len(value), dtype=np.uint8)
            step, going = np.ones_like(none), none == 0
            # The other values are value + 1, ..., value + K - 1, modulo K.
            for left in range(self.values - 1, 1, -1):
                stops = noise.randomised_response(none, 1 - 1 / left) != 0
                going &= ~stops
                step += going
            moved = noise.randomised_response(none, keep) != 0
            return np.where(moved, (value + step) % self.values, value).astype(np.uint8)

        return budget.spend_records(self.charge(slot), draw)


@dataclass(frozen=True)
class SeveralUnits:
    """Units in the order of traversal.

    Attributes:
        x: rows within the unit ball, shape (n, d).
        t: treatments, 0 to ``values`` - 1, shape (n,).
        u: outcomes in [-1, 1], shape (n,).
        values: K, which is public.
        width: B, outcome units.
        penalty: of the multinomial model.
    """

    x: FloatArray
    t: ByteArray
    u: FloatArray
    values: int
    width: float
    penalty: float

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Every pair of values, the smaller first."""
        return list(combinations(range(self.values), 2))

    @cached_property
    def coefficients(self) -> FloatArray:
        """W without noise, shape (K, d)."""
        return fit(self.x, self.t, self.values, self.penalty)


def fit(x: FloatArray, t: ByteArray, values: int, penalty: float) -> FloatArray:
    """Minimise the mean of multinomial losses plus penalty ||W||^2/2 by Newton's method, shape (K, d).

    Raises:
        ConvergenceError: the gradient does not get small enough.
    """
    n, d = x.shape
    hot = np.eye(values)[t]
    w = np.zeros((values, d))

    def loss(w: FloatArray) -> float:
        logits = x @ w.T
        fits = special.logsumexp(logits, axis=1) - np.sum(logits * hot, axis=1)
        return float(fits.mean() + penalty / 2 * np.sum(w**2))

    for _ in range(STEPS):
        p = special.softmax(x @ w.T, axis=1)
        gradient = (p - hot).T @ x / n + penalty * w
        if np.linalg.norm(gradient) <= TOLERANCE:
            return w
        curves = [
            [(x * (p[:, a] * ((a == b) - p[:, b]))[:, None]).T @ x / n for b in range(values)] for a in range(values)
        ]
        hessian = np.block(curves) + penalty * np.eye(values * d)
        step = np.linalg.solve(hessian, gradient.ravel()).reshape(values, d)
        size = 1.0
        while size > 1e-6 and loss(w - size * step) > loss(w) - size / 4 * float(np.sum(gradient * step)) + 1e-15:
            size /= 2
        w = w - size * step
    raise ConvergenceError("the multinomial model did not converge")


def coefficient_sensitivity(units: int, penalty: float) -> Sensitivity:
    """Return the sensitivity of W in the Frobenius norm.

    2 sqrt(2)/(n penalty), and what the solver leaves.
    """
    value = (2 * math.sqrt(2) / units + 2 * 2 * TOLERANCE) / penalty
    return Sensitivity(value=value, norm=Norm.l2, formula="2 sqrt(2)/(n penalty) + 4 tol/penalty")


def vector_sensitivity(values: int) -> Sensitivity:
    """Return the L1 sensitivity of a vector of probabilities.

    With a step of the lattice for each of its entries.
    """
    return Sensitivity(value=2.0 + values * 2.0**-18, norm=Norm.l1, formula="2: a unit's own probabilities")


def release(units: SeveralUnits, epsilon: str, level: str, ratio: int, budget: Budget) -> dict[tuple[int, int], float]:
    """Return the private effect of b over a for every pair a < b, outcome units.

    Raises:
        ConvergenceError: before anything is drawn.
        DataError: an arm of a pair has fewer than ``ratio`` units.
    """
    whole = Decimal(epsilon)
    if level == "label":
        exact = special.softmax(units.x @ units.coefficients.T, axis=1)
        return _pairs(units, exact, units.t, whole, level, ratio, budget)
    part = {name: PrivacyCost(epsilon=share * whole, delta=Decimal(0)) for name, share in SHARES.items()}
    noisy = L2Laplace(coefficient_sensitivity(len(units.t), units.penalty), part["weights"])
    w = noisy.release(units.coefficients.ravel(), _slot("propensity"), budget).reshape(units.coefficients.shape)
    chances = special.softmax(units.x @ w.T, axis=1)
    release_by = LatticeLaplace(vector_sensitivity(units.values), part["scores"])
    vectors = release_by.release(chances.ravel(), _slot("scores"), budget).reshape(chances.shape)
    arms = GeneralisedResponse(part["treatment"], values=units.values).release(units.t, _slot("treatment"), budget)
    return _pairs(units, vectors, arms, part["outcome"].epsilon, level, ratio, budget)


def _pairs(
    units: SeveralUnits,
    vectors: FloatArray,
    arms: ByteArray,
    epsilon: Decimal,
    level: str,
    ratio: int,
    budget: Budget,
) -> dict[tuple[int, int], float]:
    each = epsilon / (units.values - 1)
    found = {}
    for pair in units.pairs:
        places, weights = weighed(vectors, arms, pair, ratio, float(each), COEFFICIENTS[level])
        z = normalised(units.u[places], arms[places] == pair[1], weights)
        mechanism = Laplace(
            Sensitivity(value=1 + ROUNDING, norm=Norm.l1, formula="1: a sum over its largest weight"),
            PrivacyCost(epsilon=each, delta=Decimal(0)),
        )
        noisy = mechanism.release(np.array([z]), _slot(f"effect {pair[1]} - {pair[0]}"), budget)[0]
        found[pair] = float(noisy * weights.max() / len(places) * units.width)
    return found


def weighed(
    vectors: FloatArray, arms: ByteArray, pair: tuple[int, int], ratio: int, epsilon: float, coefficient: float
) -> tuple[IntArray, FloatArray]:
    """Return whom a pair is about, in the order of traversal, and their weights 1 + uses/N. No outcome is read."""
    places = np.flatnonzero((arms == pair[0]) | (arms == pair[1]))
    score, second = pair_score(vectors[places], pair), (arms[places] == pair[1]).astype(np.uint8)
    treated = int(second.sum())
    controls = len(places) - treated
    integer_caps(Fraction(1), treated, controls, ratio)
    most = most_used(score, second, ratio) / ratio
    limit = adaptive_limit(epsilon, coefficient, max(treated, controls), most)
    caps = integer_caps(Fraction(limit), treated, controls, ratio)
    return places, 1 + match_capped(score, second, ratio, caps).uses / ratio


def pair_score(vectors: FloatArray, pair: tuple[int, int]) -> FloatArray:
    """Return P_b/(P_a + P_b) of each unit on a lattice, shape (n,): the chance of b for whoever has a or b.

    Noisy entries may be negative; they count as a millionth.
    """
    a, b = (np.maximum(vectors[:, one], 1e-6) for one in pair)
    return np.rint(bounded(b / (a + b)) * LATTICE) / LATTICE


def normalised(u: FloatArray, second: np.ndarray, weights: FloatArray) -> float:
    """Return sum of +-weight u over twice the largest weight: one outcome moves it by 1 at most."""
    return float(np.where(second, weights, -weights) @ u / (2 * weights.max()))


def without_privacy(units: SeveralUnits, pair: tuple[int, int], ratio: int) -> float:
    """Return the matching estimate of b over a with exact scores and no caps, outcome units."""
    vectors = special.softmax(units.x @ units.coefficients.T, axis=1)
    places = np.flatnonzero((units.t == pair[0]) | (units.t == pair[1]))
    second = (units.t[places] == pair[1]).astype(np.uint8)
    uses = match_capped(pair_score(vectors[places], pair), second, ratio, (NO_CAP, NO_CAP)).uses
    weights = 1 + uses / ratio
    return float(normalised(units.u[places], second != 0, weights) * weights.max() / len(places) * units.width)


def simulated(order: int) -> SeveralUnits:
    """Return the simulated units in an order of traversal."""
    x, t, y = several(order)
    low, high = SEVERAL_RANGE
    u = np.clip((y - (low + high) / 2) / ((high - low) / 2), -1, 1)
    return SeveralUnits(x, t, u, SEVERAL_VALUES, high - low, penalty(len(t), x.shape[1] - 1))


def measure(orders: int) -> Iterator[dict[str, object]]:
    """Yield relative errors by level, epsilon and pair over ``orders`` orders of traversal, each with its own noise."""
    ordered = [simulated(order) for order in range(orders)]
    truth = {pair: without_privacy(ordered[0], pair, RATIO) for pair in ordered[0].pairs}
    for level in LEVELS:
        for epsilon in EPSILONS:
            found = [release(units, epsilon, level, RATIO, RehearsalBudget(k)) for k, units in enumerate(ordered)]
            for pair, exact in truth.items():
                error = RelativeError.of([one[pair] for one in found], exact)
                yield {
                    "level": level,
                    "epsilon": float(epsilon),
                    "effect": f"{pair[1]} over {pair[0]}",
                    "non_private": round(exact, 6),
                    "mean": round(float(np.mean([one[pair] for one in found])), 6),
                    "relative_error": round(error.mean, 6),
                    "standard_error": round(error.standard_error, 6),
                    "runs": error.runs,
                }


RATIO, EPSILONS = 5, ("0.5", "1", "2", "4")


def _slot(name: str) -> Slot:
    return Slot(name=name, scope=Scope.all)
