"""Studies, rows and budgets for tests of the matching estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from causalveil.schemas.estimators.matching import MatchingEstimator, MatchingStudy
from causalveil.tasks.data.enclave import Rows
from tests.studies import RESOLVED, lifted, merge

CONTRACT = {"estimators": ["matching"]}


def matching_changes(**changes: Any) -> dict[str, Any]:
    """Changes to the small study that make it one of matching; privacy and estimator keys may stand at the top."""
    base: dict[str, Any] = {"estimator": {"name": "matching", "penalty": 0.01}, "privacy": {"delta": "0"}}
    return merge(base, lifted(MatchingEstimator, changes))


def matching_study(**changes: Any) -> MatchingStudy:
    """The small study by matching, with changes as of ``matching_changes``."""
    return MatchingStudy.model_validate(merge(RESOLVED, matching_changes(**changes)))


def two_covariates(**changes: Any) -> MatchingStudy:
    """A study of an outcome in [-1, 1] with two covariates in [-1, 1], for rows of :func:`population`."""
    return matching_study(
        **{"penalty": 0.001, "trial": True, **changes},
        outcome={"lower": -1, "upper": 1},
        covariates={
            "age": {"lower": -1, "upper": 1},
            "group": ...,
            "other": {"lower": -1, "upper": 1},
        },
    )


def population(
    n: int,
    random: np.random.Generator,
    *,
    slope: float = 1.0,
    base: float = 0.0,
    effect: float = 0.2,
    varying: float = 0.0,
    outcome: float = 0.2,
    spread: float = 0.15,
) -> Rows:
    """Rows in the unit ball of two covariates x: treatment by slope (x_1 + x_2) + base, effect + varying x_1."""
    x = random.uniform(-1, 1, (n, 2))
    t = (random.random(n) < 1 / (1 + np.exp(-slope * x.sum(axis=1) - base))).astype(np.uint8)
    u = 0.5 * outcome * x.sum(axis=1) + (effect + varying * x[:, 0]) * t + random.normal(0, spread, n) - effect / 2
    ball = np.column_stack([x, np.ones(n)]) / np.sqrt(3) * (1 - 2.0**-40)
    return Rows(ball, t, np.clip(u, -1, 1))
