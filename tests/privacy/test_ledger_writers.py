"""The ledger on PostgreSQL under 32 writers in 4 processes: no cap is passed, no charge is lost, the chain holds."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from causalveil.schemas.errors import BudgetRefused
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.children import CONTEXT, process
from tests.ledger_help import charge, contract, reservation
from tests.postgres import WHY_NOT, database

PROCESSES, THREADS, TRIES = 4, 8, 6
EPSILON, CAP = "0.1", "10"


@pytest.fixture
def url() -> Iterator[str]:
    with database() as found:
        if found is None:
            pytest.skip(WHY_NOT)
        yield found


def write(url: str, number: int, barrier: Any, answers: Any) -> None:
    """One process: each thread reserves, draws, and now and then voids, run after run."""
    ledger, owner, one = open_ledger(url), contract(CAP), charge(epsilon=EPSILON)

    def writer(thread: int) -> list[tuple[str, float | None]]:
        seen: list[tuple[str, float | None]] = []
        for attempt in range(TRIES):
            run_id = f"run-{number}-{thread}-{attempt}"
            try:
                ledger.reserve(reservation(run_id, charges=(one,), contract=owner), owner)
            except BudgetRefused:
                seen.append(("refused", None))
                continue
            value = float(number * 1000 + thread * 100 + attempt)
            if attempt == 0:
                ledger.void(run_id, "of no use")
                seen.append(("voided", None))
                continue
            for _ in range(2):  # the second draw finds the first
                stored = ledger.release(run_id, one, lambda value=value: {"value": value})  # type: ignore[misc]
                value = stored.payload["value"]
            seen.append((run_id, value))
        return seen

    barrier.wait(60)
    with ThreadPoolExecutor(THREADS) as pool:
        answers.put([answer for answers_ in pool.map(writer, range(THREADS)) for answer in answers_])


def test_32_writers_from_several_processes(url: str) -> None:
    ledger = open_ledger(url)
    ledger.grant(contract(CAP), "opening")
    barrier, answers = CONTEXT.Barrier(PROCESSES), CONTEXT.SimpleQueue()
    children = [process(write, url, number, barrier, answers) for number in range(PROCESSES)]
    for child in children:
        child.start()
    told = [answer for _ in children for answer in answers.get()]
    for child in children:
        child.join(120)
        assert child.exitcode == 0
    kinds = [kind for kind, _ in told]
    assert len(told) == PROCESSES * THREADS * TRIES
    assert kinds.count("voided") == PROCESSES * THREADS
    spent = {run: value for run, value in told if value is not None}
    # 160 wanted 0.1 each of a cap of 10: exactly 100 had it.
    assert len(spent) == 100
    assert kinds.count("refused") == 60
    account = ledger.account("trial")
    assert str(account.blocks[0].spent.epsilon) == "10.0"
    assert account.blocks[0].remaining.epsilon == 0
    verified = ledger.verify()
    assert verified.entries == 2 + 2 * 32 + 2 * 100 + 60, "a refusal is an entry as well"
    for run_id, value in spent.items():
        record = ledger.record(run_id)
        assert record is not None
        assert record.charges[0][1].document["value"] == value, "what a writer saw is what the ledger holds"
