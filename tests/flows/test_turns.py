"""Turns of a dataset on a real server: who waits says so, and what a small machine runs out of is said."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.engine.guard import guarded
from causalveil.flows.engine.limits import LEASE_SECONDS, limit_name, one_at_a_time
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.execution import Execution, Runner


@pytest.mark.usefixtures("prefect_server")
def test_a_run_that_waits_for_its_turn_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate

    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "a-deployment")
    with get_client(sync_client=True) as client:
        client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=limit_name("turns"), limit=1))
    caplog.set_level(logging.INFO, logger="causalveil.flow")
    had = threading.Event()

    def other() -> None:
        with one_at_a_time("turns"):
            had.set()

    def lines(word: str) -> int:
        return sum(word in record.getMessage() for record in caplog.records)

    with one_at_a_time("turns"):
        waiting = threading.Thread(target=other)
        waiting.start()
        end = time.monotonic() + 60
        while lines("asks for the turn") < 2 and time.monotonic() < end:
            time.sleep(0.1)
        assert not had.is_set()
        assert (lines("asks for the turn"), lines("has the turn")) == (2, 1)
    waiting.join(timeout=120)
    assert had.is_set()
    assert lines("has the turn") == 2
    assert LEASE_SECONDS == 60, "what deploy/README.md says"


def test_the_direct_engine_says_that_it_starts_no_cluster(caplog: pytest.LogCaptureFixture) -> None:
    with DirectEngine().distributing(Execution(runner=Runner.threads)):
        assert not caplog.records
    with DirectEngine().distributing(Execution(runner=Runner.dask)):
        assert "use --engine prefect" in caplog.text


def test_a_stage_without_memory_says_what_to_do() -> None:
    def greedy() -> None:
        raise MemoryError("Unable to allocate 7.00 TiB for an array with values 1, 2, 3")

    with pytest.raises(CausalveilError, match="CAUSALVEIL_WORKERS=1") as caught:
        guarded(greedy)
    assert "TiB" not in str(caught.value)


def test_a_ledger_of_many_runs_shows_the_newest(capfd: pytest.CaptureFixture[str]) -> None:
    """A weekly study of years: a page of runs, newest first, and how to see the rest. `--json` has them all."""
    from causalveil.flows.cli import show
    from causalveil.schemas.ledger import Account, RunAccount, Sum
    from causalveil.schemas.privacy import Level

    runs = tuple(
        RunAccount(
            run_id=f"run-{number}",
            study="weekly",
            level=Level.sample,
            blocks=("all",),
            state="finished",
            cost=Sum(),
            spent=Sum(),
        )
        for number in range(300)
    )
    show.account(Account(dataset="many", ledger="0" * 32, caps={}, blocks=(), runs=runs), most=20)
    shown = capfd.readouterr().out
    assert len(shown) < 5_000
    assert shown.index("run-299") < shown.index("run-280")
    assert "run-279" not in shown
    assert "280 older runs are not shown" in " ".join(shown.split())
