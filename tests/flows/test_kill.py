"""kill -9 lands anywhere, by the clock; then the run is run again, and the books balance.

What crashes at exact places cannot meet (``test_crash.py``), as in the middle of a write, these may.

The parent kills a child at a stage chosen in turn after a random wait, reads what the ledger holds, and lets a second
child finish the same run id: every value that was stored is found unchanged, nothing is charged twice or lost.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.children import CONTEXT, process, run_study_aloud
from tests.studies import people, write_study

STAGES = ("start", "validate", "normalise", "split", "propensity", "weigh", "perturb", "interval")
SEED = 20261121
ROOT = Path(__file__).parents[2]


def _start(study: Path, out: Path, run_id: str, home: Path):
    receive, send = CONTEXT.Pipe(duplex=False)
    child = process(run_study_aloud, str(study), str(out), run_id, str(home), send)
    child.start()
    send.close()
    return child, receive


def _kill_at(child, phases: Connection, phase: str, wait: float) -> str:
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
    child.kill()
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


def _kill_and_resume(count: int, tmp_path: Path, home: Path) -> Counter[str]:
    study = write_study(
        tmp_path / "study",
        frame=people(3000),
        partitions=3,
        contract={"caps": {"sample": {"epsilon": 1000, "delta": "1e-2"}}},
    )
    home.mkdir(mode=0o700)
    chance = random.Random(SEED)
    histogram: Counter[str] = Counter()
    survived = 0
    for attempt in range(count):
        run_id = f"killed-{attempt}"
        out = tmp_path / "out" / run_id
        child, phases = _start(study, out, run_id, home)
        phase = _kill_at(child, phases, STAGES[attempt % len(STAGES)], chance.expovariate(100))
        histogram[phase] += 1
        before = _stored(home, run_id)
        survived += bool(before)

        child, _ = _start(study, out, run_id, home)
        child.join()
        assert child.exitcode == 0
        after = _stored(home, run_id)
        assert before.items() <= after.items(), "a stored value changed"
        assert set(after) == {"propensity", "effect", "release"}
        assert json.loads((out / "release.json").read_text())["run_id"] == run_id
        open_ledger().verify_release((out / "release.json").read_text())

    account = open_ledger().account("small")
    block = account.blocks[0]
    assert block.spent.epsilon == count, "each run is charged once"
    assert block.reserved.epsilon == 0
    assert not list((home / "scratch").glob("*/enclave")), "a run that finished leaves no rows behind"
    print(f"killed in: {dict(histogram)}; {survived} had released something")
    assert survived > 0
    return histogram


@pytest.mark.long
@pytest.mark.timeout(900)
def test_kill_everywhere(tmp_path: Path, home: Path) -> None:
    histogram = _kill_and_resume(56, tmp_path, home)
    assert len(histogram) >= 6, "the kills landed in too few phases to show anything"


@pytest.mark.long
@pytest.mark.timeout(300)
def test_kill_through_prefect(tmp_path: Path, home: Path, prefect_server: str) -> None:
    """The same through the command and Prefect's server: three kills at random moments, then a run to the end."""
    study = write_study(tmp_path / "study", frame=people(3000))
    chance = random.Random(SEED)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "causalveil", "run", str(study), "--run-id", "killed", "--out", str(out), "--json"]
    environment = os.environ | {
        "CAUSALVEIL_HOME": str(home),
        "PREFECT_API_URL": prefect_server,
        "CAUSALVEIL_ENGINE": "prefect",
    }
    stored: dict[str, str] = {}
    for _ in range(3):
        child = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(chance.uniform(3, 6))
        child.kill()
        child.communicate()
        now = _stored(home, "killed")
        assert stored.items() <= now.items(), "a stored value changed"
        stored = now
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert stored.items() <= _stored(home, "killed").items()
    open_ledger().verify_release((out / "release.json").read_text())
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1
