"""A private difference of means for a trial, by disjoint groups, after Guha and Reiter (2025).

K disjoint groups each give a difference of arm means and its variance; both are averaged, and a unit touches one group,
so that Laplace noise of 2 W/K and V/K hides it, W the width of the outcome's range and V the largest variance that a
group of that size can have. Half of epsilon each. The interval adds up sampling and noise. Their paper treats binary
outcomes and reads the interval from a posterior; here the outcome has a declared range and the interval is normal.
"""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
from scipy import stats

from causalveil.schemas.privacy import Norm, PrivacyCost, Scope
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.privacy.mechanisms import Laplace, Sensitivity, Slot
from causalveil_replication.schroeder2025.data import Population, draw
from causalveil_replication.schroeder2025.runs import LEVELS, NOISE_SEED, OneInterval

GROUPS = 25
_DIFFERENCE = Slot(name="difference", scope=Scope.all)
_VARIANCE = Slot(name="variance", scope=Scope.all)


def grouped_difference(population: Population, units: int, epsilon: str, run: int) -> list[OneInterval]:
    """One run's intervals at 80, 90 and 95%: run k has the data of seed k."""
    frame = draw(population, units, run)
    low, high = population.bounds
    t, y = frame["treated"].to_numpy(), frame["outcome"].to_numpy().clip(low, high)
    parts = np.array_split(np.arange(units), GROUPS)
    values = np.array([_group(t[part], y[part], high - low) for part in parts])
    largest = (high - low) ** 2 / 2
    half = PrivacyCost(epsilon=Decimal(epsilon) / 2, delta=Decimal(0))
    budget = RehearsalBudget(NOISE_SEED + run)
    noisy, noise = [], []
    for index, (slot, sensitivity) in enumerate(((_DIFFERENCE, 2 * (high - low)), (_VARIANCE, largest))):
        bound = Sensitivity(value=sensitivity / GROUPS, norm=Norm.l1, formula="range/K, K groups")
        release_by = Laplace(bound, half)
        noisy.append(float(release_by.release(np.array([values[:, index].mean()]), slot, budget)[0]))
        noise.append(2 * release_by.known_scale**2)
    # A mean of K groups' variances over K; what noise makes negative is none.
    deviation = math.sqrt(max(noisy[1], 0.0) / GROUPS + noise[0])
    halves = [(level, float(stats.norm.ppf((1 + level) / 2)) * deviation) for level in LEVELS]
    return [OneInterval(run, level, noisy[0], noisy[0] - half, noisy[0] + half) for level, half in halves]


def _group(t: FloatArray, y: FloatArray, width: float) -> tuple[float, float]:
    """Difference of means and its variance; of a group without two units an arm, no difference and the largest."""
    one, zero = y[t != 0], y[t == 0]
    if min(len(one), len(zero)) < 2:
        return 0.0, width**2 / 2
    variance = one.var(ddof=1) / len(one) + zero.var(ddof=1) / len(zero)
    return float(one.mean() - zero.mean()), min(float(variance), width**2 / 2)
