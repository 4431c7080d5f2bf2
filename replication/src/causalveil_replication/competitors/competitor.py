"""What a competitor is: a title, whose privacy it keeps in which sense, and how it is fitted and released.

Neighbouring relation and guarantee differ between authors, and a comparison without that key misleads: ``replace_one``
neighbours differ in one unit's row, ``add_remove`` neighbours in its presence, and the latter's epsilon is worth up to
half as much. Noise comes from the mechanisms of ``tasks/privacy`` alone, through a budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import pairwise

import numpy as np

from causalveil.schemas.privacy import PrivacyCost, Scope
from causalveil.schemas.studies import parse_study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.estimate.models.logistic import clipped_scores, fit
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Budget, Slot
from causalveil_replication.yuan2026.data import PublishedData

REPLACE_ONE, ADD_REMOVE = "replace one", "add or remove"
PROVED, CLAIMED, ASYMPTOTIC = "proved", "as its authors claim", "asymptotic"
DELTA = "1e-5"
# Propensity scores of every competitor that divides by them lie in here.
CLIP = (0.1, 0.9)
SLOT = Slot(name="effect", scope=Scope.all)


@dataclass(frozen=True)
class Instance:
    """A data set as one run sees it.

    Attributes:
        data: the table and its declared ranges.
        rows: all units, in the run's secret order of traversal.
        penalty: of propensity models that nobody protects.
    """

    data: PublishedData
    rows: Rows
    penalty: float

    @property
    def width(self) -> float:
        """B, the declared width of the outcome."""
        return self.data.outcome[1] - self.data.outcome[0]

    @cached_property
    def study(self) -> EffectStudy:
        """Some study of these data, for what it says of columns."""
        return self.study_of({"name": "ipw", "penalty": self.penalty}, "1", DELTA, "sample")

    def study_of(self, estimator: dict[str, object], epsilon: str, delta: str, level: str) -> EffectStudy:
        """The study of these data by one of our estimators."""
        privacy = {"epsilon": epsilon, "delta": delta, "level": level}
        study = parse_study(self.data.document(estimator, privacy), self.data.name)
        if not isinstance(study, EffectStudy):
            raise TypeError("not a study of an effect")
        return study

    @property
    def features(self) -> FloatArray:
        """Encoded covariates in [-1, 1], shape (n, d); no intercept."""
        return np.clip(self.rows.x[:, :-1] / self.rows.x[:, -1:], -1.0, 1.0)


@dataclass(frozen=True)
class Fitted:
    """A competitor on one order of the units, before its noise.

    Attributes:
        exact: its estimate without noise, outcome units; None where it has none.
        release: its private estimate at an epsilon, outcome units; None where it gives no answer.
    """

    exact: float | None
    release: Callable[[str, Budget], float | None]


@dataclass(frozen=True)
class Competitor:
    """An estimator of the average effect, by whom, and what it protects.

    ``ours``: one of this project's estimators. ``delta``: as it is run here.
    """

    name: str
    title: str
    level: str
    neighbours: str
    guarantee: str
    delta: str
    fit: Callable[[Instance], Fitted]
    ours: bool = False


def cost(epsilon: str, delta: str = "0") -> PrivacyCost:
    """An (epsilon, delta) as a study declares it."""
    return PrivacyCost(epsilon=Decimal(epsilon), delta=Decimal(delta))


def scores(rows: Rows, penalty: float, clip: tuple[float, float] = CLIP) -> FloatArray:
    """Propensity scores of a logistic model fitted to the same rows, shape (n,), clipped; nobody protects them."""
    return clipped_scores(rows.x, fit(lambda _: rows, 1, len(rows), penalty), clip)


def groups(units: int, count: int) -> list[slice]:
    """``count`` disjoint groups of nearly equal size: the order of traversal is a secret random one, cut in pieces."""
    ends = np.linspace(0, units, count + 1).round().astype(int).tolist()
    return [slice(first, last) for first, last in pairwise(ends)]


def group_count(units: int) -> int:
    """sqrt(n), rounded: public, and the size at which noise of 1/K and groups of n/K units are in balance."""
    return max(2, round(math.sqrt(units)))
