"""64 processes ask one account at once, several times each: the cap holds, nobody is turned away for having waited."""

from __future__ import annotations

import statistics
import time
from typing import Any

import pytest

from causalveil.schemas.errors import BudgetRefused
from causalveil.tasks.privacy.ledger.ledger import Ledger
from tests.ledger_help import charge, contract, reservation
from tests.privacy.test_ledger_processes import at_once

PROCESSES, ROUNDS = 64, 5
EPSILON, CAP = "0.1", "20"
GRANTED = 200


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_64_processes_on_one_cap(ledger: Ledger, record_property: Any) -> None:
    """Its gate form, with 16 processes, is in ``tests/privacy/test_ledger_processes.py``."""
    owner = contract(CAP)
    ledger.grant(owner, "opening")

    def work(number: int) -> list[tuple[str, float]]:
        answers = []
        for turn in range(ROUNDS):
            own, start = charge(epsilon=EPSILON), time.monotonic()
            try:
                how = ledger.reserve(reservation(f"run-{number}-{turn}", charges=(own,), contract=owner), owner)
            except BudgetRefused:
                how = "refused"
            answers.append((how, time.monotonic() - start))
        return answers

    answers = at_once(PROCESSES, work)
    failed = [str(answer) for answer in answers if isinstance(answer, BaseException)]
    assert not failed, f"{len(failed)} of {PROCESSES}: {failed[0]}"
    found = [one for several in answers for one in several]
    hows, waits = [how for how, _ in found], sorted(wait for _, wait in found)
    backend = ledger.store.url.get_backend_name()
    record_property(
        "summary",
        f"{PROCESSES} processes, {len(found)} reservations on {backend}: longest wait {waits[-1]:.1f} s, "
        f"median {statistics.median(waits):.2f} s",
    )
    assert hows.count("reserved") == GRANTED
    assert hows.count("refused") == PROCESSES * ROUNDS - GRANTED
    assert str(ledger.account("trial").blocks[0].reserved.epsilon) == "20.0"
    ledger.verify()
