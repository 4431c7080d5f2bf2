"""What Lee et al. (2019) prove of private scores, as computed quantities: as printed, and as it holds.

The noise on the coefficients is z ~ N(0, s^2 I). With a_i = +-y_i exp(-+ w'x_i), + for treated units, the estimate is
tau_n = tau + (1/n) sum_i a_i (exp(-+ z'x_i) - 1), and z'x_i ~ N(0, s^2 |x_i|^2) in either arm. Five statements:

- Lemma 3. E tau_n = tau + g, g = (1/n) sum_i a_i (exp(s^2 |x_i|^2/2) - 1). The first paper prints (-1)^t in front of
  the exponent, which its own proof does not have: with it treated units would shrink on average.
- Lemma 6 bounds |z'x| by |z_1 + ... + z_d|, which does not hold (z = (1, -1), x = (1, 0)); |z'x| <= |z| |x| does. Its
  zeta stays large enough within the unit ball, since P(|z| > zeta) < gamma/2 (computed for d to 200), where outcomes
  are counted by their size, which the lemma does not. With quantiles of |z| zeta is several times smaller.
- Theorem 4 calls on Hoeffding's inequality with a range of eta where |tau_n| <= eta leaves 2 eta. The bound holds all
  the same: Markov's inequality gives P(tau_n <= 0) <= 1 - u, u = E tau_n/eta, and 1 - u < exp(-2 u^2) on (0, 1].
- Theorem 5's conditional probability that noise keeps a wrong sign is exact: Phi(|tau_n|/s_n). tau_n is random, so its
  expected size in place of |tau_n| bounds nothing; its largest size, eta, does. The remark after the theorem asks for
  P(tau_n + e <= 0) instead: ``wrong_sign_bound`` is the smallest bound that a mean and a range allow.
- Corollary 7 applies Markov's inequality to |E(tau_n - tau)|; it holds for E|tau_n - tau|, which is bounded by
  (1/n) sum_i |a_i| exp(v_i^2/2) (2 Phi(v_i) - 1), v_i = s |x_i|, the mean distance of a log-normal variable from 1.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize, special, stats

from causalveil.schemas.study import Estimand
from causalveil.tasks.machine.arrays import FloatArray
from causalveil_replication.lee2019.data import Subjects

# sinh of more exceeds a float.
OVERFLOW = 700.0


def coefficient_deviation(epsilon: float, delta: float, units: int, penalty: float) -> float:
    """s: the standard deviation of noise on each coefficient, at sensitivity 2/(m penalty), for epsilon < 1."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon * 2 / (units * penalty)


def signed_weights(sample: Subjects, w: FloatArray, estimand: Estimand = Estimand.ATE) -> FloatArray:
    """Return a_i, shape (n,): 0 where ``estimand`` gives a unit the weight 1 (appendix F of the first paper)."""
    treated = sample.t != 0
    sign = np.where(treated, 1.0, -1.0)
    varies = {Estimand.ATE: True, Estimand.ATT: ~treated, Estimand.ATC: treated}[estimand]
    return np.asarray(sign * sample.y * np.exp(-sign * (sample.x @ w)) * varies)


def bias(
    sample: Subjects,
    w: FloatArray,
    deviation: float,
    printed: bool = False,
    estimand: Estimand = Estimand.ATE,
) -> float:
    """Return g of Lemma 3, in outcome units; infinite where it exceeds a float.

    Args:
        sample: the estimation units.
        w: fitted coefficients.
        deviation: s.
        printed: as the first paper prints it.
        estimand: whose effect.
    """
    exponent = deviation**2 * np.sum(sample.x**2, axis=1) / 2
    if printed:
        exponent = np.where(sample.t != 0, -exponent, exponent)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.mean(signed_weights(sample, w, estimand) * np.expm1(exponent)))


def log10_bias(sample: Subjects, w: FloatArray, deviation: float) -> float:
    """log10 |g| of Lemma 3, also where g exceeds a float."""
    exponent = deviation**2 * np.sum(sample.x**2, axis=1) / 2
    # log(exp(e) - 1) without overflow.
    log_growth = exponent + np.log1p(-np.exp(-np.maximum(exponent, 1e-300)))
    a = signed_weights(sample, w)
    log_sum, _ = special.logsumexp(log_growth, b=a / len(a), return_sign=True)
    return float(log_sum / math.log(10))


def difference_bound(sample: Subjects, w: FloatArray, deviation: float, failure: float, printed: bool = False) -> float:
    """eta of Lemma 6: two draws of noise move the estimate apart by no more, but with probability ``failure``.

    Args:
        sample: the estimation units.
        w: fitted coefficients.
        deviation: s.
        failure: gamma, for both draws together.
        printed: as printed: zeta from the sum of the noise, and outcomes count with their sign.
    """
    dimension = sample.x.shape[1]
    sizes = np.abs(signed_weights(sample, w))
    if printed:
        zeta = deviation * math.sqrt(2 * dimension * math.log(2 / failure))
        total = float(np.sum(sizes * np.sign(sample.y)))
    else:
        longest = float(np.linalg.norm(sample.x, axis=1).max())
        zeta = deviation * float(stats.chi.isf(failure / 2, dimension)) * longest
        total = float(np.sum(sizes))
    return 2 / len(sample.t) * (math.sinh(zeta) if zeta < OVERFLOW else math.inf) * total


def flip_bound(mean: float, eta: float, printed: bool = False) -> float:
    """Theorem 4: P(tau_n <= 0) for tau_n <= eta with this mean, tau + g; 1 unless the mean is positive."""
    share = max(mean, 0.0) / eta
    return math.exp(-2 * share**2) if printed else max(1 - share, 0.0)


def kept_wrong(tau_n: float, deviation: float) -> float:
    """P(tau_n + e < 0 | tau_n < 0), e ~ N(0, deviation^2): Theorem 5's conditional probability, exact."""
    return float(stats.norm.cdf(abs(tau_n) / deviation))


def joint_flip_bound(mean: float, eta: float, deviation: float) -> float:
    """Theorem 5: P(tau_n + e <= 0, tau_n <= 0) for |tau_n| <= eta with this mean and e ~ N(0, deviation^2)."""
    return flip_bound(mean, eta) * kept_wrong(eta, deviation)


def wrong_sign_bound(mean: float, eta: float, deviation: float) -> float:
    """Return the smallest bound on P(tau_n + e <= 0) for |tau_n| <= eta with this mean, e ~ N(0, deviation^2).

    The probability is E h(tau_n), h(v) = Phi(-v/deviation). Its largest value over all distributions on [-eta, eta]
    with that mean is the least concave function above h, at the mean: h itself up to the point at or below 0 whose
    tangent meets h at eta, and that tangent from there on. A distribution on these two points attains it.
    """

    def height(v: float) -> float:
        return float(stats.norm.cdf(-v / deviation))

    def above(v: float) -> float:
        slope = -float(stats.norm.pdf(v / deviation)) / deviation
        return height(v) + slope * (eta - v) - height(eta)

    # The tangent at 0 passes below h(eta), as h is convex there; the one far to the left is level with 1.
    touching = -eta if above(-eta) <= 0 else float(optimize.brentq(above, -eta, 0.0))
    if mean <= touching:
        return height(mean)
    return height(touching) + (height(eta) - height(touching)) * (mean - touching) / (eta - touching)


def error_bound(sample: Subjects, w: FloatArray, deviation: float, distance: float, printed: bool = False) -> float:
    """Corollary 7: P(|tau_n - tau| >= distance), by Markov's inequality, at most 1.

    ``printed``: |g|/distance, which is no bound.
    """
    if printed:
        return min(1.0, abs(bias(sample, w, deviation)) / distance)
    spread = deviation * np.linalg.norm(sample.x, axis=1)
    with np.errstate(over="ignore"):
        growth = np.exp(spread**2 / 2) * (2 * stats.norm.cdf(spread) - 1)
    return min(1.0, float(np.mean(np.abs(signed_weights(sample, w)) * growth)) / distance)
