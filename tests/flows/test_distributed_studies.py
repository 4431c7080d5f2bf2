"""Every estimator gives one release whether its partitions are worked on here or were sent away through a pickle.

A cluster is slow to start. What can go wrong with one, a function that holds an open file or a mapped array, or that
leaves its result in memory that nobody shares, goes wrong through a pickle too. ``test_runners.py`` has the clusters.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.declare import load
from causalveil.flows.run.study import execute
from causalveil.schemas.plan import Execution
from causalveil.schemas.release import Release
from causalveil.schemas.studies import estimator_names
from causalveil.tasks.machine.distribute import distributing_by, gathered, worker_part, worker_parts
from tests.studies import people, write_study
from tests.survival_help import patients, write_survival

SEED = 3
DIRECTION: dict[str, Any] = {
    "kind": "direction",
    "treatment": ...,
    "outcome": ...,
    "covariates": ...,
    "estimand": ...,
    "pair": {"x": {"name": "age", "lower": 20, "upper": 60}, "y": {"name": "score", "lower": 0, "upper": 10}},
    "privacy": {"delta": 0},
}
BALANCING: dict[str, Any] = {"privacy": {"delta": 0, "level": "label"}}
AIPW: dict[str, Any] = {"estimator": {"guarantee": "asymptotic"}}
CHANGES: dict[str, dict[str, Any]] = {"aipw": AIPW, "direction": DIRECTION, "balancing": BALANCING}


class SendingEngine(DirectEngine):
    """Runs the stages here and sends parts of the work through a pickle, both ways."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []

    def distributing(self, execution: Execution) -> AbstractContextManager[None]:
        return distributing_by(self._send)

    def _send(self, function: Callable[[int], Any], count: int) -> list[Any]:
        parcels = [cloudpickle.dumps((function, part)) for part in worker_parts(count, 3)]
        self.sent.append(function.__module__)
        return gathered([pickle.loads(pickle.dumps(worker_part(*pickle.loads(parcel)))) for parcel in parcels])


def released(path: Path, out: Path, engine: DirectEngine) -> dict[str, Any]:
    release: Release = execute(load(path), out, "same", SEED, engine).release
    return release.model_dump(mode="json", exclude={"ledger"})


@pytest.mark.parametrize("name", sorted(estimator_names()))
def test_sent_away_or_not_gives_one_release(name: str, tmp_path: Path) -> None:
    change = CHANGES.get(name, {}) | {
        "estimator": {"name": name, "penalty": ...} | CHANGES.get(name, {}).get("estimator", {})
    }
    contract = {"estimators": [name], "guarantees": ["finite_sample", "asymptotic"]}
    if name == "survival":
        path = write_survival(tmp_path / "study", frame=patients(2000), partitions=5, contract=contract)
    else:
        path = write_study(tmp_path / "study", frame=people(2000), partitions=5, study=change, contract=contract)
    away = SendingEngine()
    assert released(path, tmp_path / "a", away) == released(path, tmp_path / "b", DirectEngine())
    assert {"causalveil.tasks.data.normalise"} <= set(away.sent)
    # Balancing weights and the asymptotic guarantee look at all segments at once, in the process of the run.
    assert name in ("balancing", "aipw") or len(set(away.sent)) > 1, "and something of the estimator's own"
