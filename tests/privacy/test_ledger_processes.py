"""Many processes on one ledger, and processes that die: never over a cap, never two draws, never a lost charge."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from causalveil.schemas.errors import BudgetRefused
from causalveil.tasks.privacy.ledger.ledger import Ledger, open_ledger
from tests.children import CONTEXT, process
from tests.ledger_help import audit_lines, budget, charge, contract, finished, never, reservation


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run ``work(0..count-1)`` in processes that start together; their answers, in any order."""
    barrier, answers = CONTEXT.Barrier(count), CONTEXT.SimpleQueue()

    def run(number: int, barrier: Any, answers: Any) -> None:
        barrier.wait(60)
        try:
            answers.put(work(number))
        except BaseException as problem:
            answers.put(problem)

    processes = [process(run, number, barrier, answers) for number in range(count)]
    for child in processes:
        child.start()
    for child in processes:
        child.join(120)
    assert [child.exitcode for child in processes] == [0] * count
    return [answers.get() for _ in processes]


def test_sixteen_processes_never_exceed_a_cap(ledger: Ledger) -> None:
    owner = contract("1")
    ledger.grant(owner, "opening")

    def work(number: int) -> str:
        try:
            own = charge(epsilon="0.15")
            return ledger.reserve(reservation(f"run-{number}", charges=(own,), contract=owner), owner)
        except BudgetRefused:
            return "refused"

    answers = at_once(16, work)
    assert sorted(answers) == ["refused"] * 10 + ["reserved"] * 6  # floor(1 / 0.15) = 6
    assert str(ledger.account("trial").blocks[0].reserved.epsilon) == "0.90"
    ledger.verify()


def test_one_run_in_eight_processes_draws_once(ledger: Ledger, tmp_path: Path) -> None:
    ledger.grant(contract(), "opening")
    request = reservation(charges=(charge("value"), charge("records")))

    def work(number: int) -> tuple[str, bytes, bytes]:
        how = ledger.reserve(request, contract())
        purse = budget(ledger, request, tmp_path)

        def draw(_noise: Any) -> Any:
            return np.frombuffer(os.urandom(8), dtype=np.uint32).astype(np.float64)

        value = purse.spend(charge("value"), draw)
        return how, value.tobytes(), purse.spend_records(charge("records"), draw).tobytes()

    answers = at_once(8, work)
    assert sorted(how for how, _, _ in answers) == ["reserved"] + ["resumed"] * 7
    assert len({answer[1:] for answer in answers}) == 1
    assert ledger.verify().entries == 5
    assert len(list((tmp_path / "records" / "run-1").iterdir())) == 1


def test_new_ledger_is_made_once(ledger_url: str) -> None:
    assert len(set(at_once(8, lambda _number: open_ledger(ledger_url).identity))) == 1


def killed_at(work: Callable[[Any], None]) -> bytes:
    """Run ``work(connection)`` in a process that is killed once it has sent a message; the message."""
    here, there = CONTEXT.Pipe()
    child = process(work, there)
    child.start()
    assert here.poll(60), "the process said nothing"
    message: bytes = here.recv_bytes()
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert child.exitcode == -signal.SIGKILL
    return message


@pytest.mark.parametrize("kind", ["spend", "spend_records"])
@pytest.mark.parametrize("when", ["before the commit", "after the commit"])
def test_killed_in_the_middle_of_a_draw(ledger: Ledger, tmp_path: Path, kind: str, when: str) -> None:
    ledger.grant(contract(), "opening")
    request = reservation()
    ledger.reserve(request, contract())
    act = getattr(budget(ledger, request, tmp_path), kind)
    drawn = np.random.default_rng().standard_normal(3)

    def before(there: Any) -> None:
        def draw(_noise: Any) -> Any:
            there.send_bytes(b"drawing")
            time.sleep(60)

        act(charge(), draw)

    def after(there: Any) -> None:
        class Stop(list[Any]):
            def append(self, line: Any) -> None:
                there.send_bytes(line["hash"].encode())
                time.sleep(60)

        with audit_lines(Stop()):  # a line is written after its commit
            act(charge(), lambda _noise: drawn)

    if when == "before the commit":
        killed_at(before)
        assert ledger.verify().entries == 3
        found = act(charge(), lambda _noise: drawn)
    else:
        assert killed_at(after).decode() == ledger.statement("run-1").entry_hash
        found = act(charge(), never)
    assert found.tobytes() == drawn.tobytes()
    assert ledger.reserve(request, contract()) == "resumed"
    assert ledger.verify().entries == 4
    assert str(ledger.account("trial").blocks[0].spent.epsilon) == "0.1"


def test_killed_anywhere(ledger: Ledger, tmp_path: Path) -> None:
    """A process spends twenty charges and is killed at a random moment, until one gets through."""
    owner = contract("10")
    ledger.grant(owner, "opening")
    charges = tuple(charge(f"draw-{number}") for number in range(20))
    request = reservation(charges=charges, contract=owner)
    seen: dict[str, bytes] = {}
    kills = 0

    def work(there: Any) -> None:
        ledger.reserve(request, owner)
        purse = budget(ledger, request, tmp_path)
        for one in charges:
            drawn = purse.spend(one, lambda _noise: np.random.default_rng().standard_normal(2))
            there.send((one.name, drawn.tobytes()))
        there.send(None)

    # Ever later, so that some process gets through on any machine.
    for delay in np.random.default_rng().uniform(0, 0.04, size=200) * np.arange(1, 201):
        here, there = CONTEXT.Pipe()
        child = process(work, there)
        child.start()
        there.close()
        time.sleep(delay)
        child.kill()
        child.join()
        kills += 1
        done = False
        try:
            while not done:
                message = here.recv()
                done = message is None
                if message:
                    name, drawn = message
                    assert seen.setdefault(name, drawn) == drawn
        except EOFError:
            pass
        ledger.verify()
        if done:
            break
    else:
        pytest.fail("200 processes did not get through twenty draws")
    assert len(seen) == 20
    assert ledger.verify().entries == 23
    assert str(ledger.account("trial").blocks[0].spent.epsilon) == "2.0"
    print(f"{kills} processes were killed")


def test_a_reader_does_not_disturb_writers(ledger: Ledger, tmp_path: Path) -> None:
    owner = contract("100")
    ledger.grant(owner, "opening")

    def work(number: int) -> int:
        if number % 2:
            return max(ledger.verify().entries for _ in range(10))
        for turn in range(3):
            finished(ledger, reservation(f"run-{number}-{turn}", contract=owner), owner, tmp_path)
        return 0

    answers = at_once(4, work)
    assert all(isinstance(answer, int) for answer in answers), answers
    assert ledger.verify().runs == 6
