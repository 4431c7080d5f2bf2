"""Populations that were written after every estimator's formulas were frozen, each wrong for them in its own way.

They are reported as they come out; no setting was chosen by them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from causalveil.tasks.machine.arrays import FloatArray
from causalveil_replication.accuracy.populations import KnownPopulation

# Chances of the levels of `clinic`: the rarest have 1% of people.
CLINICS = (0.3, 0.2, 0.15, 0.1, 0.08, 0.06, 0.05, 0.03, 0.02, 0.01)


def _unit(s: FloatArray) -> FloatArray:
    found: FloatArray = (s - s.mean()) / s.std()
    return found


def _treated(random: np.random.Generator, log_odds: FloatArray) -> FloatArray:
    found: FloatArray = (random.random(len(log_odds)) < 1 / (1 + np.exp(-log_odds))).astype(np.float64)
    return found


def interaction(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Products of a flag and a number, and of two flags, alone confound: no covariate does by itself. Effect 1."""
    set_ = (random.random((n, 3)) < 0.5).astype(np.float64)
    numbers = random.normal(size=(n, 3))
    s = _unit((2 * set_[:, 0] - 1) * numbers[:, 0] + (2 * set_[:, 1] - 1) * (2 * set_[:, 2] - 1))
    t = _treated(random, s)
    y = t + s + 0.5 * numbers[:, 1] + random.normal(size=n)
    return np.column_stack([set_, numbers]), t, y


def zero_inflated(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Costs: 0 for most, otherwise gamma with a long tail. How often follows the index. Treatment adds .25 x 4 = 1."""
    x = random.normal(size=(n, 5))
    s = _unit(x.sum(axis=1))
    t = _treated(random, s)
    some = random.random(n) < 1 / (1 + np.exp(1.0 - s))
    cost = some * random.gamma(0.8, 2.5, n)
    further = (random.random(n) < 0.25) * random.gamma(2.0, 2.0, n)
    return x, t, cost + t * further


def clinics(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Ten clinics, the rarest of 1%, whose habits and case mix differ; age within clinics. Effect 1."""
    clinic = random.choice(len(CLINICS), size=n, p=CLINICS)
    habit = np.array([-0.8, 0.4, 0.9, -0.3, 1.2, -1.2, 0.6, 1.6, -1.6, 2.0])
    mix = np.array([-0.5, 0.3, 0.8, -0.6, 0.7, -0.9, 0.2, 1.5, -1.5, 2.5])
    age = 50 + 4 * mix[clinic] + 10 * random.normal(size=n)
    years = (age - 50) / 10
    t = _treated(random, habit[clinic] + 0.5 * years)
    y = t + mix[clinic] + 0.6 * years + random.normal(size=n)
    return np.column_stack([clinic.astype(np.float64), age]), t, y


def varying(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The effect itself is 1 + x_0 + sin(2 x_1), so arms have other slopes; E = 1. Treatment follows x_0 and x_1."""
    x = random.normal(size=(n, 5))
    t = _treated(random, 0.8 * x[:, 0] + 0.5 * x[:, 1])
    y = t * (1 + x[:, 0] + np.sin(2 * x[:, 1])) + x[:, 0] + 0.7 * x[:, 2] + random.normal(size=n)
    return x, t, y


def _numbers(p: int, low: float, high: float) -> dict[str, dict[str, Any]]:
    return {f"x{place:02d}": {"lower": low, "upper": high} for place in range(p)}


def _flags(p: int) -> dict[str, dict[str, Any]]:
    return {f"flag{place:02d}": {"levels": [0, 1]} for place in range(p)}


LATER: dict[str, KnownPopulation] = {
    found.name: found
    for found in (
        KnownPopulation(
            "interaction6", "interactions alone confound", 1, (-8, 10), _flags(3) | _numbers(3, -4, 4), interaction
        ),
        KnownPopulation("zeros5", "zero-inflated costs", 1, (0, 40), _numbers(5, -4, 4), zero_inflated),
        KnownPopulation(
            "clinics2",
            "ten clinics, rare levels",
            1,
            (-8, 10),
            {"clinic": {"levels": list(range(len(CLINICS)))}, "age": {"lower": 0, "upper": 110}},
            clinics,
        ),
        KnownPopulation("varying5", "effect varies with covariates", 1, (-10, 12), _numbers(5, -4, 4), varying),
    )
}
