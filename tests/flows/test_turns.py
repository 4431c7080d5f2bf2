"""Turns of a dataset on a real server: who waits says so, and what a small machine runs out of is said."""

from __future__ import annotations

import logging
import os
import threading
import time
from contextvars import copy_context
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from causalveil.flows.engine.deployment import LEASE_SECONDS, limit_name, one_at_a_time
from causalveil.flows.engine.engine import DirectEngine, guarded
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.plan import Execution, Runner
from tests.children import CONTEXT, process
from tests.own_server import own_server


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


def hold(url: str, told: Connection) -> None:
    """Take the turn and wait to be killed."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    os.environ["PREFECT__RUNTIME__DEPLOYMENT__ID"] = "a-deployment"
    with temporary_settings({PREFECT_API_URL: url}), one_at_a_time("killed"):
        told.send("held")
        time.sleep(600)


def _kill_one_that_holds_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate

    with get_client(sync_client=True) as client:
        client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=limit_name("killed"), limit=1))
    here, there = CONTEXT.Pipe()
    child = process(hold, url, there)
    child.start()
    assert here.recv() == "held"
    # Longer than a lease: who lives keeps the turn.
    time.sleep(LEASE_SECONDS + 20)
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "a-deployment")
    took = threading.Event()

    def next_one() -> None:
        with one_at_a_time("killed"):
            took.set()

    # A thread has settings of its own: it takes those of here.
    waiting = threading.Thread(target=copy_context().run, args=(next_one,))
    waiting.start()
    assert not took.wait(timeout=15)
    child.kill()
    child.join()
    killed = time.monotonic()
    returned = took.wait(timeout=2 * LEASE_SECONDS + 60)
    assert returned
    print(f"the turn came back {time.monotonic() - killed:.0f} s after the kill")
    waiting.join()


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_killed_run_gives_its_turn_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its lease is renewed while it lives; afterwards the server takes it back, and the next run goes on by itself.

    A server's services take leases back, so this one has them; that of other tests has none.
    """
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with own_server(tmp_path) as (url, _), temporary_settings({PREFECT_API_URL: url}):
        _kill_one_that_holds_it(url, monkeypatch)


def test_the_direct_engine_says_that_it_starts_no_cluster(caplog: pytest.LogCaptureFixture) -> None:
    with DirectEngine().distributing(Execution(runner=Runner.threads)):
        assert not caplog.records
    with DirectEngine().distributing(Execution(runner=Runner.dask)):
        assert "use engine='prefect'" in caplog.text


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
    show.account(
        Account(dataset="many", ledger="0" * 32, caps={}, blocks=(), runs=runs[-20:], older_runs=len(runs) - 20)
    )
    shown = capfd.readouterr().out
    assert len(shown) < 5_000
    assert shown.index("run-299") < shown.index("run-280")
    assert "run-279" not in shown
    assert "280 older runs are not shown" in " ".join(shown.split())


def test_an_account_composes_each_run_once_whatever_its_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It did so for each run and block, which of years of weekly runs was most of `ledger show`."""
    from causalveil.tasks.privacy.ledger import accounts
    from causalveil.tasks.privacy.ledger.ledger import throwaway_ledger
    from tests import ledger_help

    counts, total = [], accounts.accountant.total
    for blocks in (1, 12):
        folder = tmp_path / str(blocks)
        folder.mkdir()
        ledger, owner = throwaway_ledger(folder), ledger_help.contract(epsilon="1000")
        ledger.grant_itself(owner)
        for number in range(5):
            names = tuple(f"week={week}" for week in range(blocks))
            ledger.reserve(ledger_help.reservation(f"run-{number}", contract=owner, blocks=names), owner)
        called: list[int] = []
        monkeypatch.setattr(accounts.accountant, "total", lambda *given: called.append(1) or total(*given))  # noqa: B023
        assert len(ledger.account(owner.dataset).blocks) == blocks
        counts.append(len(called))
    assert counts[0] == counts[1] <= 2 * 5
