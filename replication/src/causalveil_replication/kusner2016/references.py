"""What Kusner et al. (2016) name beside their private scores: references without privacy, and IQR's null rate.

- The variance score (Buehlmann et al. 2014): log variance of the cause and of the residual. One unit can move it by any
  amount, so it has no private release here or there.
- HSIC's p-value (Hoyer et al. 2009; gamma approximation of Gretton et al. 2008). The direction whose residual looks
  *more* independent is taken, that is the larger p-value; the paper's section 3.3 says the lower one.
- No split: regressions and scores on everybody. The split is what the privacy proofs need: a unit is in one half.
- IGCI (Janzing et al. 2012): slopes of the deterministic relation; uniform and Gaussian reference measure.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from causalveil.schemas.estimators.direction import Score
from causalveil.schemas.study import Variant
from causalveil.tasks.estimate.papers.direction.scores import residuals
from causalveil.tasks.estimate.papers.direction.stages import TestRows, score_values
from causalveil.tasks.machine.arrays import FloatArray
from causalveil_replication.kusner2016.pairs import CausePair, halves
from causalveil_replication.kusner2016.runs import (
    BANDWIDTH,
    PENALTY,
    Row,
    about,
    answer_rate,
    exact,
    is_right,
    study_of,
)

NULL_DELTAS = ("1e-5", "1e-4", "1e-3", "1e-2")
NULL_EPSILONS = ("0.1", "1", "10")
# The p-value needs matrices of m x m; more rows than these are thinned to these.
P_VALUE_ROWS = 400


def rehearse_references(pair: CausePair, split: int) -> list[Row]:
    """Without privacy: is each reference right? The paper's scores on one half, and without a split on everybody."""
    found, test, _ = exact(pair, split)
    sides = ((found["x"], found["residual_y"]), (found["y"], found["residual_x"]))
    few = [(a[:P_VALUE_ROWS], b[:P_VALUE_ROWS]) for a, b in sides]
    # Smaller means cause first, as for every score; of p-values the larger is the better.
    values = {
        "variance": (variance_score(*sides[0]), variance_score(*sides[1])),
        "hsic p-value": (-hsic_p_value(*few[0], BANDWIDTH), -hsic_p_value(*few[1], BANDWIDTH)),
    }
    rows = [{**about(pair, split), "reference": name, "right": is_right(pair, two)} for name, two in values.items()]
    for score in Score:
        two = score_values(study_of(score, "1", Variant.ours), score, found, test)
        rows.append({**about(pair, split), "reference": f"{score}, half", "right": is_right(pair, two)})
    return rows


def rehearse_whole(pair: CausePair) -> list[Row]:
    """Without privacy and without a split: every score on everybody, and IGCI."""
    order = np.concatenate([halves(pair, 0)[0], halves(pair, 0)[1].pairs])
    r_y, r_x = residuals(order, order, PENALTY, BANDWIDTH)
    found = {"x": order[:, 0].copy(), "y": order[:, 1].copy(), "residual_y": r_y, "residual_x": r_x}
    test = TestRows(order, np.arange(len(order))[::-1].copy())
    rows = []
    for score in Score:
        two = score_values(study_of(score, "1", Variant.ours), score, found, test)
        rows.append({**about(pair, 0), "reference": f"{score}, no split", "right": is_right(pair, two)})
    sides = ((found["x"], r_y), (found["y"], r_x))
    variance = variance_score(*sides[0]), variance_score(*sides[1])
    rows.append({**about(pair, 0), "reference": "variance, no split", "right": is_right(pair, variance)})
    for reference in ("uniform", "gaussian"):
        difference = igci(found["x"], found["y"], reference)
        rows.append({**about(pair, 0), "reference": f"IGCI, {reference}", "right": is_right(pair, (difference, 0.0))})
    return rows


def rehearse_nulls(pair: CausePair, split: int) -> list[Row]:
    """P(no answer) of IQR over delta and epsilon, by both variants: exact, for the tests' distances are known here."""
    found, test, sizes = exact(pair, split)
    rows = []
    for delta in NULL_DELTAS:
        for epsilon in NULL_EPSILONS:
            for variant in Variant:
                study = study_of(Score.iqr, epsilon, variant, delta=delta)
                null = 1 - answer_rate(study, sizes, found, test)
                place = {"delta": float(delta), "epsilon": float(epsilon), "variant": str(variant)}
                rows.append({**about(pair, split), **place, "null": null})
    return rows


def variance_score(a: FloatArray, b: FloatArray) -> float:
    """log V(a) + log V(b); -infinity for a constant."""
    with np.errstate(divide="ignore"):
        return float(np.log(np.var(a)) + np.log(np.var(b)))


def hsic_p_value(a: FloatArray, b: FloatArray, bandwidth: float) -> float:
    """log of P(HSIC at least this large | a and b independent), by a gamma law of the null's mean and variance.

    Args:
        a: shape (m,), m >= 6.
        b: the same.
        bandwidth: of both Gaussian kernels.
    """
    m = len(a)
    kernels = [np.exp(-((v[:, None] - v[None, :]) ** 2) / (2 * bandwidth**2)) for v in (a, b)]
    centred = [k - k.mean(axis=0) - k.mean(axis=1)[:, None] + k.mean() for k in kernels]
    statistic = float(np.sum(centred[0] * centred[1])) / m
    off = 1 - np.eye(m)
    squares = (centred[0] * centred[1] / 6) ** 2 * off
    variance = float(squares.sum()) / m / (m - 1) * 72 * (m - 4) * (m - 5) / (m * (m - 1) * (m - 2) * (m - 3))
    means = [float(np.sum(k * off)) / (m * (m - 1)) for k in kernels]
    mean = (1 + means[0] * means[1] - means[0] - means[1]) / m
    if variance <= 0 or mean <= 0:
        return 0.0
    return float(stats.gamma.logsf(statistic, mean**2 / variance, scale=variance * m / mean))


def igci(x: FloatArray, y: FloatArray, reference: str) -> float:
    """C(x to y) - C(y to x), C the mean log slope of neighbours; negative: x causes y. 0 where no slope is known.

    Args:
        x: shape (n,), n >= 3, not constant.
        y: the same.
        reference: ``uniform``: scaled to [0, 1]; ``gaussian``: to mean 0 and variance 1.
    """
    u, v = (((w - w.min()) / np.ptp(w) if reference == "uniform" else (w - w.mean()) / w.std()) for w in (x, y))
    return _mean_log_slope(u, v) - _mean_log_slope(v, u)


def _mean_log_slope(u: FloatArray, v: FloatArray) -> float:
    order = np.lexsort((v, u))
    du, dv = np.diff(u[order]), np.abs(np.diff(v[order]))
    known = (du > 0) & (dv > 0)
    return float(np.mean(np.log(dv[known] / du[known]))) if known.any() else 0.0
