"""Every estimator at every level, as populations whose effect is known are asked by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from causalveil_replication.accuracy.populations import KnownPopulation

DELTA = "1e-6"
CONFIDENCES = (0.8, 0.9, 0.95)


@dataclass(frozen=True)
class Method:
    """A way to an answer.

    Attributes:
        level: of privacy.
        delta: of a run.
        estimator: from the population to what a study file says under ``estimator``.
    """

    level: str
    delta: str
    estimator: Callable[[KnownPopulation], Mapping[str, Any]]


def _regression(population: KnownPopulation) -> Mapping[str, Any]:
    return {"name": "regression", "trial": True} if population.trial else {"name": "regression"}


def _balancing(population: KnownPopulation) -> Mapping[str, Any]:
    return {"name": "balancing", "trial": population.trial}


def _difference(population: KnownPopulation) -> Mapping[str, Any]:
    return {"name": "difference_in_means", "trial": population.trial}


def _ipw(population: KnownPopulation) -> Mapping[str, Any]:
    return {"name": "ipw", "trial": population.trial}


def _matching(population: KnownPopulation) -> Mapping[str, Any]:
    return {"name": "matching", "trial": population.trial}


METHODS: dict[str, Method] = {
    "regression": Method("sample", DELTA, _regression),
    "balancing": Method("label", "0", _balancing),
    "difference": Method("sample", DELTA, _difference),
    "matching-label": Method("label", "0", _matching),
    "regression-pure": Method("sample", "0", _regression),
    "ipw-label": Method("label", "0", _ipw),
    "difference-label": Method("label", "0", _difference),
    "matching": Method("sample", "0", _matching),
    "ipw": Method("sample", "0", _ipw),
    "ipw-training": Method("training_units", "0", _ipw),
}
