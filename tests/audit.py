"""A black-box audit: how private can a mechanism be, given samples of it on two neighbouring inputs?

After Ding et al. 2018 and Jagielski et al. 2020: a threshold event is chosen on one half of the runs, its two
probabilities are bounded on the other half (Clopper-Pearson), and epsilon is bounded from below.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from causalveil.schemas.privacy import Charge
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.noise import NoiseSource, SecureNoise

CANDIDATES = 200
# The parts of its runs after which a mutant is looked at.
LOOKS = (0.125, 0.25, 0.5, 1.0)

Sample = NDArray[np.float64]


def epsilon_lower_bound(
    sample_p: NDArray[np.float64], sample_q: NDArray[np.float64], delta: float, confidence: float
) -> float:
    """A lower bound on every epsilon for which the mechanism is (epsilon, delta)-DP.

    Args:
        sample_p: shape (n,): a scalar statistic of independent runs on one input. Any statistic is sound; the
            log-likelihood ratio of the two inputs is the sharpest. Runs must be in random order.
        sample_q: shape (m,): the same statistic of runs on the neighbouring input.
        delta: the declared delta, a float not below it.
        confidence: the bound exceeds the true epsilon with probability at most 1 - confidence.

    Returns:
        >= 0; 0 if nothing was found.
    """
    halves_p, halves_q = np.array_split(sample_p, 2), np.array_split(sample_q, 2)
    thresholds = np.unique(np.quantile(np.concatenate([halves_p[0], halves_q[0]]), np.linspace(0, 1, CANDIDATES)))
    best_score, best = -np.inf, (0, 0.0, False)
    for order, (p, q) in enumerate([(halves_p[0], halves_q[0]), (halves_q[0], halves_p[0])]):
        for above in (True, False):
            scores = _bounds(p, q, thresholds, above, delta, confidence)
            if scores.max() > best_score:
                best_score, best = scores.max(), (order, float(thresholds[scores.argmax()]), above)
    order, threshold, above = best
    p, q = (halves_p[1], halves_q[1]) if order == 0 else (halves_q[1], halves_p[1])
    return max(0.0, float(_bounds(p, q, np.array([threshold]), above, delta, confidence)[0]))


def caught(
    draw: Callable[[int], tuple[Sample, Sample]], runs: int, epsilon: float, delta: float, confidence: float
) -> float | None:
    """Audit a mutant until it is caught: look after an eighth, a quarter, a half and all of its runs.

    Each look has a quarter of the error, so that a mechanism that keeps its promise is called a mutant with
    probability at most 1 - confidence in all (union bound).

    Args:
        draw: so many more runs -> the statistics of as many runs on either input.
        runs: when to give up.
        epsilon: what the mutant promises.
        delta: as it promises.
        confidence: of all looks together.

    Returns:
        A lower bound on epsilon above the promise, or None: not caught.
    """
    p, q = np.empty(0), np.empty(0)
    for part in LOOKS:
        more = round(runs * part) - p.size
        p, q = (np.concatenate(pair) for pair in zip((p, q), draw(more), strict=True))
        found = epsilon_lower_bound(p, q, delta, 1 - (1 - confidence) / len(LOOKS))
        if found > epsilon:
            return found
    return None


def _bounds(
    p: NDArray[np.float64],
    q: NDArray[np.float64],
    thresholds: NDArray[np.float64],
    above: bool,
    delta: float,
    confidence: float,
) -> NDArray[np.float64]:
    """log((p_low - delta)/q_high) of the events {x >= t} or {x < t}; -inf where that is no number."""
    from scipy.stats import beta

    alpha = (1 - confidence) / 2
    hits_p = np.searchsorted(np.sort(p), thresholds, side="left")
    hits_q = np.searchsorted(np.sort(q), thresholds, side="left")
    if above:
        hits_p, hits_q = p.size - hits_p, q.size - hits_q
    low = np.where(hits_p > 0, beta.ppf(alpha, np.maximum(hits_p, 1), p.size - hits_p + 1), 0.0)
    high = np.where(hits_q < q.size, beta.isf(alpha, hits_q + 1, np.maximum(q.size - hits_q, 1)), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(low > delta, np.log(np.maximum(low - delta, 1e-300) / high), -np.inf)


class OpenBudget:
    """A budget that grants everything and keeps what it was charged: for tests of a single mechanism."""

    def __init__(self, noise: NoiseSource | None = None) -> None:
        self.noise: NoiseSource = noise or SecureNoise()
        self.charges: list[Charge] = []

    def spend(self, charge: Charge, draw: Callable[[NoiseSource], FloatArray]) -> FloatArray:
        """Charge and draw."""
        self.charges.append(charge)
        return draw(self.noise)

    def spend_records(self, charge: Charge, draw: Callable[[NoiseSource], NDArray]) -> NDArray:
        """Charge and draw."""
        self.charges.append(charge)
        return draw(self.noise)


class HalfNoise(SecureNoise):
    """The mutant that every audit must catch: secure noise of half the scale."""

    def laplace(self, value, scale):
        return super().laplace(value, scale / 2)

    def gaussian(self, value, scale):
        return super().gaussian(value, scale / 2)

    def l2_laplace(self, value, scale):
        return super().l2_laplace(value, scale / 2)

    def lattice_laplace(self, values, scale, granularity):
        return super().lattice_laplace(values, scale / 2, granularity)

    def randomised_response(self, bits, keep):
        return super().randomised_response(bits, 1 - (1 - keep) / 2)
