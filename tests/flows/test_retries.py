"""Prefect runs a task's body again, and a flow's: the noise is the ledger's, drawn once and charged once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.ledger_help import budget, charge, contract, reservation


def test_retries_of_tasks_and_flows_draw_nothing_twice(tmp_path: Path, prefect_server: str) -> None:
    """A task that fails twice after its draws, in a flow that fails once after its task: six bodies, one draw each."""
    from prefect import flow, task
    from prefect.cache_policies import NO_CACHE

    ledger = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    ledger.grant(contract(), "opening")
    request = reservation(charges=(charge("value"), charge("records")))
    purse = budget(ledger, request, tmp_path)
    drawn: list[str] = []
    seen: list[tuple[bytes, bytes]] = []

    def draw(name: str) -> Any:
        def of(_noise: Any) -> Any:
            drawn.append(name)
            return np.random.default_rng().standard_normal(3)

        return of

    @task(retries=2, retry_delay_seconds=0, cache_policy=NO_CACHE, persist_result=False)
    def stage() -> None:
        value = purse.spend(charge("value"), draw("value"))
        records = purse.spend_records(charge("records"), draw("records"))
        seen.append((value.tobytes(), records.tobytes()))
        if len(seen) % 3:
            raise RuntimeError("after the draw")

    @flow(retries=1, retry_delay_seconds=0, persist_result=False)
    def run() -> None:
        ledger.reserve(request, contract())
        stage()
        if len(seen) < 6:
            raise RuntimeError("after the task")

    run()
    assert len(seen) == 6
    assert len(set(seen)) == 1
    assert drawn == ["value", "records"]
    assert ledger.account("trial").blocks[0].spent.epsilon == request.cost.epsilon
    assert ledger.verify().entries == 5
