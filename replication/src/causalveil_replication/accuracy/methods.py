"""What the accuracy study compares: every estimator at every level, and two analyses without privacy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from causalveil_replication.accuracy.populations import KnownPopulation

UNITS = (500, 3_000, 30_000, 300_000)
EPSILONS = ("0.1", "0.5", "1", "2", "4", "8")
DELTA = "1e-6"
CONFIDENCES = (0.8, 0.9, 0.95)
# Of the runs that are asked for: what larger tables get, and the fewest that a cell has.
SHARES = {500: 1.0, 3_000: 1.0, 30_000: 0.4, 300_000: 0.06}
FEWEST = 3


@dataclass(frozen=True)
class Method:
    """A way to an answer.

    Attributes:
        name: of files and of the table.
        title: for people.
        level: of privacy; empty: none.
        delta: of a run.
        share: of the runs that are asked for.
        slow: takes a tenth of the runs where there are 30,000 units or more.
        estimator: from the population to what a study file says under ``estimator``.
    """

    name: str
    title: str
    level: str
    delta: str
    share: float
    estimator: Callable[[KnownPopulation], Mapping[str, Any]]
    slow: bool = False

    def runs(self, asked: int, units: int) -> int:
        """How many a cell of ``units`` has if ``asked`` are asked for."""
        share = SHARES[min(SHARES, key=lambda size: abs(size - units))] * self.share
        return max(FEWEST, round(asked * share * (0.25 if self.slow and units >= 30_000 else 1)))


def _named(name: str) -> Callable[[KnownPopulation], Mapping[str, Any]]:
    return lambda _: {"name": name}


def _regression(population: KnownPopulation) -> Mapping[str, Any]:
    return {"name": "regression", "trial": True} if population.trial else {"name": "regression"}


def _balancing(population: KnownPopulation) -> Mapping[str, Any]:
    return {"name": "balancing", "allowance": 0.0} if population.trial else {"name": "balancing"}


def _difference(population: KnownPopulation) -> Mapping[str, Any]:
    return {"name": "difference_in_means", "trial": population.trial}


def _ipw(population: KnownPopulation) -> Mapping[str, Any]:
    return {"name": "ipw", "confounding_prior": {"outcome_r2": 0}} if population.trial else {"name": "ipw"}


def _matching(population: KnownPopulation) -> Mapping[str, Any]:
    return {"name": "matching", "confounding_prior": {"outcome_r2": 0}} if population.trial else {"name": "matching"}


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("regression", "regression", "sample", DELTA, 1.0, _regression),
        Method("balancing", "balancing", "label", "0", 0.3, _balancing, slow=True),
        Method("difference", "difference_in_means", "sample", DELTA, 0.3, _difference),
        Method("matching-label", "matching", "label", "0", 0.3, _matching, slow=True),
        Method("regression-pure", "regression", "sample", "0", 1.0, _regression),
        Method("ipw-label", "ipw", "label", "0", 0.3, _ipw),
        Method("difference-label", "difference_in_means", "label", "0", 0.3, _difference),
        Method("matching", "matching", "sample", "0", 0.2, _matching, slow=True),
        Method("ipw", "ipw", "sample", "0", 0.2, _ipw),
        Method("ipw-training", "ipw", "training_units", "0", 0.2, _ipw),
        Method("least-squares", "least squares, not private", "", "0", 0.3, _named("least squares")),
        Method("dml", "double machine learning, not private", "", "0", 0.1, _named("dml"), slow=True),
    )
}
