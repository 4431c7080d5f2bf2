"""Many intervals of one fit: standard, naive and private ones of Schröder et al. (2025), at every level and epsilon.

What the paper's equations 7 to 16 need of a run is five numbers and the draws of noise; fitted once, they give the
intervals of Tables 1 and 2 and the widths of Figures 4 and 5 at any epsilon, and the effect's noise is integrated out:

- standard: tau +- z sigma/sqrt(n), no privacy;
- naive: tau_DP +- z sigma/sqrt(n), which forgets the noise;
- valid naive (Table 2): tau_DP +- z sqrt((sigma^2 + n gamma^2 r^2)/n), the variance without noise;
- private: equations 15 and 16;
- bootstrap: ``BOOTSTRAPS`` private estimates of resampled units, each at epsilon/``BOOTSTRAPS``, and their deviation.
  The paper names a bootstrap and does not define it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.privacy import PrivacyCost
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.estimate.papers.aipw_asymptotic import influence
from causalveil.tasks.estimate.papers.aipw_asymptotic.stages import domain, learners, table
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.privacy.mechanisms import gross_error_gaussian
from causalveil_replication.schroeder2025.data import Population, draw, rows_of, shuffled
from causalveil_replication.schroeder2025.runs import NOISE_SEED

SHARE, DELTA = 0.9, 1e-5
BOOTSTRAPS = 20
STANDARD, NAIVE, VALID, PRIVATE = "standard", "naive", "valid naive", "private"
BOOTSTRAP = "bootstrap"
KINDS = (STANDARD, NAIVE, VALID, PRIVATE, BOOTSTRAP)


class FitMoments(NamedTuple):
    """One fit; ``gamma`` is the largest influence in the declared domain, ``attained`` that of the table's own "
    "units."""

    run: int
    units: int
    tau: float
    sigma2: float
    gamma: float
    gamma_s: float
    attained: float
    normal_variance: float


def synthetic_moments(study: EffectStudy, population: Population, units: int, runs: Iterable[int]) -> list[FitMoments]:
    """Moments of some runs: run k has the data of seed k, as every other replication of the paper here."""
    return [moments(study, rows_of(study, draw(population, units, run)), run) for run in runs]


def shuffled_moments(study: EffectStudy, frame: Any, runs: Iterable[int]) -> list[FitMoments]:
    """Moments of some runs on the same units, folds cut from the order of seed k."""
    rows = rows_of(study, frame)
    return [moments(study, shuffled(rows, run), run) for run in runs]


def moments(study: EffectStudy, rows: Rows, run: int) -> FitMoments:
    """Fit once, on folds cut from the rows as they stand.

    Raises:
        TypeError: the study has another estimator.
    """
    if not isinstance(study, AipwStudy):
        raise TypeError("the moments are those of the asymptotic guarantee")
    parts = np.array_split(np.arange(len(rows)), study.estimator.folds)
    tables = [table(study, Rows(rows.x[part], rows.t[part], rows.u[part])) for part in parts]
    models = learners(study, len(rows))
    attained: list[float] = []

    def both(nuisances: influence.NuisanceSurfaces, where: influence.Domain, tau: float) -> float:
        scores = np.concatenate(
            [np.abs(influence.influence(one.x, one.t, one.y, nuisances, where.clip) - tau) for one in tables]
        )
        attained.append(float(scores.max()))
        return influence.farthest(nuisances, where, tau)

    found = influence.moments(tables, domain(study), models, NOISE_SEED + run, both)
    budget = RehearsalBudget(NOISE_SEED + run)
    release_by = gross_error_gaussian(len(rows), PrivacyCost(epsilon=Decimal(1), delta=Decimal("1e-5")))
    normal = float(release_by.release(np.zeros(1), influence.VARIANCE, budget)[0] / release_by.known_scale)
    return FitMoments(run, len(rows), found.tau, found.sigma2, found.gamma, found.gamma_s, max(attained), normal)


def half_width(
    kind: str, found: FitMoments, level: float, epsilon: float, share: float = SHARE, own: bool = False
) -> float:
    """Half the width of one of ``KINDS`` at delta 1e-5.

    Args:
        kind: which.
        found: the fit.
        level: of confidence.
        epsilon: of the whole budget.
        share: of epsilon and delta that the effect has.
        own: gamma over the table's own units, a smaller domain than the declared one.
    """
    z, n = float(stats.norm.ppf((1 + level) / 2)), found.units
    if kind in (STANDARD, NAIVE):
        return z * math.sqrt(found.sigma2 / n)
    noise = effect_noise(found, epsilon, share, own)
    if kind == BOOTSTRAP:
        # Units are resampled, and each of the estimates has its part of the budget; nuisances are not fitted again.
        each = found.gamma * rate(n, epsilon / BOOTSTRAPS, DELTA / BOOTSTRAPS)
        return z * math.sqrt(found.sigma2 / n + each**2)
    sigma2 = found.sigma2
    if kind == PRIVATE:
        gamma_s = max(found.attained**2 - sigma2, sigma2) if own else found.gamma_s
        scale = gamma_s * rate(n, (1 - share) * epsilon, (1 - share) * DELTA)
        sigma2 = max(0.0, sigma2 + scale * found.normal_variance)
    return z * math.sqrt(sigma2 / n + noise**2)


def effect_noise(found: FitMoments, epsilon: float, share: float = SHARE, own: bool = False) -> float:
    """gamma r: the standard deviation of tau_DP around tau (equation 7)."""
    gamma = found.attained if own else found.gamma
    return gamma * rate(found.units, share * epsilon, share * DELTA)


def coverage(kind: str, found: FitMoments, level: float, epsilon: float, truth: float, share: float = SHARE) -> float:
    """The probability that a fit's interval covers the truth, over the effect's noise: exact, given the fit."""
    half, off = half_width(kind, found, level, epsilon, share), truth - found.tau
    if kind == STANDARD:
        return float(abs(off) <= half)
    noise = effect_noise(found, epsilon, share)
    return float(stats.norm.cdf((off + half) / noise) - stats.norm.cdf((off - half) / noise))


def rate(units: int, epsilon: float, delta: float) -> float:
    """Return r(eps, delta) = 5 sqrt(2 ln n ln(2/delta))/(eps n) of equations 7 and 13.

    It holds for any n >= 2.
    """
    return 5 * math.sqrt(2 * math.log(units) * math.log(2 / delta)) / (epsilon * units)
