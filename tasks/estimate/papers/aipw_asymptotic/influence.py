"""Compute the asymptotic intervals of Schröder, Hartenstein and Feuerriegel (2025).

Equations 7, 11, 15 and 16, as printed. Nuisances are fitted without privacy, per arm and fold, and scores are averaged
over all units. A unit is protected by noise scaled by the *gross-error sensitivity*, the largest influence that a unit
of the declared domain could have on the estimate::

    tau_DP    = tau + gamma r(eps1, delta1) U            gamma   = sup_z |Gamma(z) - tau|                  (7)
    sigma2_DP = max(0, sigma2 + gamma_s r(eps2, delta2) U')   gamma_s = sup_z |(Gamma(z) - tau)^2 - sigma2|    (11)
    V = sigma2_DP + n gamma^2 r(eps1, delta1)^2               interval tau_DP +- z sqrt(V/n)               (15, 16)

with r(eps, delta) = 5 sqrt(2 ln n ln(2/delta))/(eps n): n gamma^2 r^2 is gamma^2 50 ln(n) ln(2/delta)/(n eps^2), as in
(16). ``schemas/estimators/aipw.py`` states its assumptions; it is offered for comparison, if a contract allows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product

import numpy as np
from scipy.optimize import minimize

from causalveil.schemas.privacy import PrivacyCost, Scope
from causalveil.tasks.estimate.papers.aipw_asymptotic.learners import Learner, Surface, constant, without_warnings
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.privacy.mechanisms import Budget, GrossErrorGaussian, Slot, gross_error_gaussian

EFFECT = Slot(name="effect", scope=Scope.all)
VARIANCE = Slot(name="variance", scope=Scope.all)
STARTS = 10
# Number of combinations of levels that the search starts from; all if there are no more.
COMBINATIONS = 64
# Rows whose surfaces are computed at once: bounds the kernel matrix between them and the training rows.
CHUNK = 2_048


@dataclass(frozen=True)
class Domain:
    """The values that a unit may have: features in the unit cube, an outcome, a treatment.

    The outcome is in [lower, upper]. ``categories``: first column and number of columns of each one-hot block. (A
    missing flag may have any value in [0, 1] here.)
    """

    features: int
    lower: float
    upper: float
    clip: tuple[float, float]
    categories: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Table:
    """Units for the learners: x (n, d) in [0, 1], t (n,) 0 or 1, y (n,) in outcome units."""

    x: FloatArray
    t: FloatArray
    y: FloatArray

    def __len__(self) -> int:
        """Number of units."""
        return len(self.t)


@dataclass(frozen=True)
class NuisanceSurfaces:
    """The models of one fold: mean outcomes of both arms, and the unclipped propensity score."""

    treated: Surface
    control: Surface
    propensity: Surface


@dataclass(frozen=True)
class InfluenceMoments:
    """Exact tau, sigma2 (equation 8), gamma (7) and gamma_s (11), in outcome units.

    None of them is private yet. gamma and gamma_s are above 0 for every table, since the search for gamma includes both
    ends of the outcome's range.
    """

    units: int
    tau: float
    sigma2: float
    gamma: float
    gamma_s: float


def mechanisms(
    units: int | None, cost: PrivacyCost, effect: PrivacyCost
) -> tuple[GrossErrorGaussian, GrossErrorGaussian]:
    """Return the mechanisms of the effect, at (eps1, delta1), and of the variance, at the rest.

    Args:
        units: n, or None while unknown.
        cost: the whole (eps, delta), delta > 0.
        effect: (eps1, delta1), a part of it; 0.9 of both in the paper's tables.
    """
    rest = PrivacyCost(epsilon=cost.epsilon - effect.epsilon, delta=cost.delta - effect.delta)
    return gross_error_gaussian(units, effect), gross_error_gaussian(units, rest)


def influence(
    x: FloatArray, t: FloatArray, y: FloatArray, nuisances: NuisanceSurfaces, clip: tuple[float, float]
) -> FloatArray:
    """Return the scores Gamma(z), shape (n,), in the form of the equation before (6)."""
    treated, control, pi = (surface(x)[0] for surface in (nuisances.treated, nuisances.control, nuisances.propensity))
    pi = pi.clip(*clip)
    weighted = ((1 - pi) * treated + pi * control) / (pi * (1 - pi)) * (t - pi)
    return np.asarray((t / pi - (1 - t) / (1 - pi)) * y - weighted, dtype=np.float64)


def fit(table: Table, domain: Domain, outcome: Learner, propensity: Learner, seed: int) -> NuisanceSurfaces:
    """Fit the three models to a fold's training units.

    An empty arm is no error, which would reveal data: its outcomes are taken to be in the middle of their range, and
    every propensity score is then 0 or 1, before it is clipped.
    """
    treated = table.t > 0
    middle, share = constant((domain.lower + domain.upper) / 2), float(np.mean(treated))
    return NuisanceSurfaces(
        treated=outcome.fit(table.x[treated], table.y[treated], seed) if share > 0 else middle,
        control=outcome.fit(table.x[~treated], table.y[~treated], seed) if share < 1 else middle,
        propensity=propensity.fit(table.x, table.t, seed) if 0 < share < 1 else constant(share),
    )


def farthest(nuisances: NuisanceSurfaces, domain: Domain, tau: float, starts: int = STARTS) -> float:
    """Return max over z of |Gamma(z) - tau| by bounded L-BFGS-B from several starting points.

    Gamma is linear in y, so the supremum is at an end of the outcome's range; for each end and arm the search is over
    x, from starts at different levels. All starts advance together, as one problem whose variables separate.
    """
    corners = [(t, y) for t in (1.0, 0.0) for y in (domain.lower, domain.upper)]
    first = _starting_points(starts, domain)
    points = np.tile(first, (len(corners), 1))
    t, y = (np.repeat(np.array(side), len(first)) for side in zip(*corners, strict=True))
    low, high = np.zeros_like(points), np.ones_like(points)
    for start, count in domain.categories:
        columns = slice(start, start + count)
        low[:, columns] = high[:, columns] = points[:, columns]
    best = 0.0

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        nonlocal best
        gap, slope = _gap(flat.reshape(points.shape), t, y, nuisances, domain.clip, tau)
        best = max(best, float(np.abs(gap).max()))
        return -float(gap @ gap), (-2 * gap[:, None] * slope).ravel()

    # The sum over starts moves little when one of them still does, so the relative tolerance is tight.
    bounds, options = np.column_stack([low.ravel(), high.ravel()]), {"ftol": 1e-12, "maxiter": 300}
    minimize(objective, points.ravel(), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return best


@without_warnings()
def moments(
    folds: Sequence[Table],
    domain: Domain,
    learners: tuple[Learner, Learner],
    seed: int,
    suprema: Callable[[NuisanceSurfaces, Domain, float], float] = farthest,
) -> InfluenceMoments:
    """Cross-fit, score all units, and search the domain for the largest influence.

    Args:
        folds: the units in two or more disjoint parts; each is scored by models of the others.
        domain: over which suprema are taken.
        learners: of the outcome and of the propensity.
        seed: of stochastic learners; a resumed run has the same.
        suprema: the search for them.
    """
    # Libraries with threads of their own must be loaded before threads are limited, else a process's first run differs.
    for name in ("scipy.optimize", "sklearn.utils.extmath"):
        import_module(name)
    with one_thread():
        models = [fit(_others(folds, k), domain, *learners, seed) for k in range(len(folds))]
        scores = np.concatenate([_scores(fold, model, domain.clip) for fold, model in zip(folds, models, strict=True)])
        tau = float(scores.mean())
        sigma2 = float(np.mean((scores - tau) ** 2))
        # Units of the table are in the domain too.
        gamma = max(float(np.abs(scores - tau).max()), *(suprema(model, domain, tau) for model in models))
    # (Gamma - tau)^2 ranges from 0, where a score equals tau, to gamma^2. If none does, this is above the supremum.
    return InfluenceMoments(len(scores), tau, sigma2, gamma, max(gamma**2 - sigma2, sigma2))


def release(moments: InfluenceMoments, pair: Sequence[GrossErrorGaussian], budget: Budget) -> tuple[float, float]:
    """Release tau_DP of equation 7 and sigma2_DP of equation 11.

    Noise is in units of gamma and gamma_s, so scales are exact.
    """
    effect, variance = pair
    tau = effect.release(np.array([moments.tau / moments.gamma]), EFFECT, budget)
    sigma2 = variance.release(np.array([moments.sigma2 / moments.gamma_s]), VARIANCE, budget)
    return float(tau[0]) * moments.gamma, max(0.0, float(sigma2[0]) * moments.gamma_s)


def _others(folds: Sequence[Table], k: int) -> Table:
    parts = [fold for index, fold in enumerate(folds) if index != k]
    return Table(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "t", "y")))


def _scores(table: Table, nuisances: NuisanceSurfaces, clip: tuple[float, float]) -> FloatArray:
    spans = [slice(first, first + CHUNK) for first in range(0, len(table), CHUNK)]
    return np.concatenate([influence(table.x[s], table.t[s], table.y[s], nuisances, clip) for s in spans])


def _gap(
    x: FloatArray, t: FloatArray, y: FloatArray, nuisances: NuisanceSurfaces, clip: tuple[float, float], tau: float
) -> tuple[FloatArray, FloatArray]:
    """Return Gamma(x, t, y) - tau, shape (points,), and its gradient along x, shape (points, d).

    Gamma = mu_1 - mu_0 + t (y - mu_1)/pi - (1 - t)(y - mu_0)/(1 - pi); a clipped score has no slope.
    """
    (treated, treated_slope), (control, control_slope), (score, slope) = (
        surface(x) for surface in (nuisances.treated, nuisances.control, nuisances.propensity)
    )
    pi = score.clip(*clip)
    slope = np.where((score > clip[0]) & (score < clip[1]), 1.0, 0.0)[:, None] * slope
    treated_weight, control_weight = t / pi, (1 - t) / (1 - pi)
    value = treated - control + treated_weight * (y - treated) - control_weight * (y - control) - tau
    along = -(treated_weight / pi * (y - treated) + control_weight / (1 - pi) * (y - control))
    by_arm = (1 - treated_weight)[:, None] * treated_slope - (1 - control_weight)[:, None] * control_slope
    return value, by_arm + along[:, None] * slope


def _starting_points(count: int, domain: Domain) -> FloatArray:
    """Return at least ``count`` points, shape (points, features), the same in every run.

    They include every combination of levels if there are no more than ``COMBINATIONS``.
    """
    sizes = [size for _, size in domain.categories]
    combinations = math.prod(sizes)
    if combinations <= COMBINATIONS:
        levels = np.array(list(product(*map(range, sizes))), dtype=np.int64)
        levels = levels[np.arange(max(count, combinations)) % combinations]
    else:
        levels = np.floor(_spread(COMBINATIONS, len(sizes)) * sizes).astype(np.int64)
    points = _spread(len(levels), domain.features)
    for (start, size), chosen in zip(domain.categories, levels.T, strict=True):
        points[:, start : start + size] = np.eye(size)[chosen]
    return points


def _spread(count: int, d: int) -> FloatArray:
    """Return quasi-random points of the unit cube, shape (count, d): Roberts's additive R_d sequence."""
    ratio = 2.0
    for _ in range(64):
        ratio = (1 + ratio) ** (1 / (d + 1))
    return (0.5 + np.outer(np.arange(1, count + 1), ratio ** -np.arange(1.0, d + 1))) % 1.0
