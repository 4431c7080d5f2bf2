"""kill -9 lands in every phase of a run; then it is run again, and the books balance.

The parent kills a child at a stage chosen in turn after a random wait, reads what the ledger holds, and lets a second
child finish the same run id: every value that was stored is found unchanged, nothing is charged twice or lost.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

import killed
import pytest
from sqlalchemy import create_engine, text
from studies import people, write_study

from schemas.release import load_release
from tasks.privacy.ledger import open_ledger

STAGES = ("start", "validate", "normalise", "split", "propensity", "weigh", "perturb", "interval")
SEED = 20261121


@pytest.fixture(scope="module")
def processes() -> multiprocessing.context.ForkServerContext:
    """Children fork from a server that has imported everything and computed nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["killed", "flows.spine", "scipy.stats", "pandera.polars", "dp_accounting.pld"])
    return context


def _start(processes, study: Path, out: Path, run_id: str, home: Path):  # type: ignore[no-untyped-def]
    receive, send = processes.Pipe(duplex=False)
    child = processes.Process(target=killed.run, args=(str(study), str(out), run_id, str(home), send))
    child.start()
    send.close()
    return child, receive


def _kill_at(child, phases: Connection, phase: str, wait: float) -> str:  # type: ignore[no-untyped-def]
    """Kill `child` some time after it enters `phase`; return the last phase it told."""
    last = "before"
    while last != phase:
        try:
            last = phases.recv()
        except EOFError:
            break
        if last == "done":
            break
    time.sleep(wait)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    while phases.poll():
        try:
            last = phases.recv()
        except EOFError:
            break
    return last


def _stored(home: Path, run_id: str) -> dict[str, str]:
    """Every release row of a run, by name, as the ledger holds it."""
    if not (home / "ledger.db").exists():
        return {}
    engine = create_engine(f"sqlite:///{home / 'ledger.db'}")
    with engine.connect() as connection:
        if not connection.execute(text("select 1 from sqlite_master where name = 'entries'")).first():
            return {}
        rows = connection.execute(
            text("select name, body from entries where kind = 'release' and run_id = :run"), {"run": run_id}
        )
        return {name: body for name, body in rows}


def _kill_and_resume(count: int, processes, tmp_path: Path, home: Path) -> Counter[str]:  # type: ignore[no-untyped-def]
    study = write_study(
        tmp_path / "study",
        frame=people(3000),
        partitions=3,
        policy={"caps": {"sample": {"epsilon": 1000, "delta": "1e-2"}}},
    )
    home.mkdir(mode=0o700)
    chance = random.Random(SEED)
    histogram: Counter[str] = Counter()
    survived = 0
    for attempt in range(count):
        run_id = f"killed-{attempt}"
        out = tmp_path / "out" / run_id
        child, phases = _start(processes, study, out, run_id, home)
        phase = _kill_at(child, phases, STAGES[attempt % len(STAGES)], chance.expovariate(100))
        histogram[phase] += 1
        before = _stored(home, run_id)
        survived += bool(before)

        child, _ = _start(processes, study, out, run_id, home)
        child.join()
        assert child.exitcode == 0
        after = _stored(home, run_id)
        assert before.items() <= after.items(), "a stored value changed"
        assert set(after) == {"propensity", "effect", "release"}
        assert json.loads((out / "release.json").read_text())["run_id"] == run_id
        open_ledger().verify_release(load_release(out / "release.json"))

    account = open_ledger().account("small")
    (block,) = account.blocks
    assert block.spent.epsilon == count, "each run is charged once"
    assert block.reserved.epsilon == 0
    assert not list((home / "scratch").glob("*/enclave")), "a run that finished leaves no rows behind"
    print(f"killed in: {dict(histogram)}; {survived} had released something")
    assert survived > 0
    return histogram


@pytest.mark.timeout(900)
def test_kill_everywhere(processes, tmp_path: Path, home: Path) -> None:  # type: ignore[no-untyped-def]
    histogram = _kill_and_resume(56, processes, tmp_path, home)
    assert len(histogram) >= 6, "the kills landed in too few phases to show anything"
