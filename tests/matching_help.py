"""Studies, rows and budgets for tests of the matching estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.privacy import Charge
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.noise import NoiseSource
from tests.studies import RESOLVED, merge

CONTRACT = {"estimators": ["matching"]}


def matching_changes(**changes: Any) -> dict[str, Any]:
    """Changes to the small study that make it one of matching; privacy and estimator keys may stand at the top."""
    base: dict[str, Any] = {"estimator": {"name": "matching", "penalty": 0.01}, "privacy": {"delta": "0"}}
    for group, keys in {
        "privacy": ("epsilon", "delta", "level"),
        "estimator": (
            "ratio",
            "cap",
            "caliper",
            "budget_shares",
            "correct_attenuation",
            "penalty",
            "variance_share",
            "variant",
            "error_coefficient",
            "confounding_prior",
        ),
    }.items():
        for key in keys:
            if key in changes:
                base[group][key] = changes.pop(key)
    return merge(base, changes)


def matching_study(**changes: Any) -> MatchingStudy:
    """The small study by matching, with changes as of ``matching_changes``."""
    return MatchingStudy.model_validate(merge(RESOLVED, matching_changes(**changes)))


def two_covariates(**changes: Any) -> MatchingStudy:
    """A study of an outcome in [-1, 1] with two covariates in [-1, 1], for rows of :func:`population`."""
    return matching_study(
        **{"penalty": 0.001, "confounding_prior": {"outcome_r2": 0}, **changes},
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


class Transcript:
    """A budget that keeps all that is drawn; with ``fixed`` it returns those arrays in place of a draw."""

    def __init__(self, noise: NoiseSource, fixed: dict[str, NDArray[Any]] | None = None) -> None:
        self._noise = noise
        self._fixed = fixed or {}
        self.drawn: dict[str, NDArray[Any]] = {}
        self.charges: list[Charge] = []

    def spend(self, charge: Charge, draw: Callable[[NoiseSource], FloatArray]) -> FloatArray:
        """Charge, and draw unless the array is fixed."""
        self.charges.append(charge)
        value = self._fixed[charge.name] if charge.name in self._fixed else draw(self._noise)
        self.drawn[charge.name] = value
        return value

    def spend_records(self, charge: Charge, draw: Callable[[NoiseSource], NDArray[Any]]) -> NDArray[Any]:
        """As ``spend``."""
        return self.spend(charge, draw)
