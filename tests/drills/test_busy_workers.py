"""kill -9 lands on Dask and Ray workers while they compute: the scheduler says which are busy, and those die.

The gate kills one worker of a run (``tests/flows/test_runners.py``); here every run loses two, each in mid-task.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from causalveil.schemas.plan import SITE_FILE
from causalveil.schemas.release import load_release, release_text
from causalveil.tasks.machine.site import VARIABLES
from causalveil.tasks.machine.site import home as state_folder
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.flows.test_runners import ROOT, workers_of
from tests.studies import people, write_study

RUNS = 10
KILLS = 2
UNITS = 400_000
CAPS = {"sample": {"epsilon": 1000, "delta": "1e-2"}}


def busy(parent: psutil.Process, runner: str) -> list[psutil.Process]:
    """Workers that have a part of the work in hand: Ray names them for it; of Dask's, those that used the processor."""
    workers = workers_of(parent, runner)
    if runner == "ray":
        return [worker for worker in workers if "attempt" in " ".join(worker.cmdline())]
    before = {worker.pid: sum(worker.cpu_times()[:2]) for worker in workers}
    time.sleep(0.1)
    return [worker for worker in workers if sum(worker.cpu_times()[:2]) - before[worker.pid] >= 0.03]


def reads(home: Path) -> bool:
    """Whether the run is among its rows: its scratch folder is there, so what workers do is work on them."""
    return any(home.glob("scratch/*/enclave"))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("runner", ["dask", "ray"])
def test_busy_workers_are_killed(
    runner: str, tmp_path: Path, home: Path, prefect_server: str, monkeypatch: pytest.MonkeyPatch, record_property: Any
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    (state_folder() / SITE_FILE).write_text(f'[execution]\nengine = "prefect"\nrunner = "{runner}"\nworkers = 2\n')
    path = write_study(tmp_path / "study", frame=people(UNITS), partitions=16, contract={"caps": CAPS})
    environment = os.environ | {"CAUSALVEIL_HOME": str(home), "PREFECT_API_URL": prefect_server}
    ended: Counter[str] = Counter()
    killed = 0
    for number in range(RUNS):
        out = tmp_path / f"out-{number}"
        command = [sys.executable, "-m", "causalveil", "run", str(path), "--run-id", f"hurt-{number}"]
        command += ["--out", str(out), "--json"]
        child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        parent, dead = psutil.Process(child.pid), 0
        while child.poll() is None and dead < KILLS:
            with suppress(psutil.Error):
                for worker in busy(parent, runner)[:1] if reads(home) else []:
                    worker.kill()
                    dead += 1
            time.sleep(0.01)
        _, told = child.communicate(timeout=600)
        killed += dead
        ended["released" if child.returncode == 0 else "refused"] += 1
        if child.returncode != 0:
            message = told.decode().strip().splitlines()[-1]
            assert "withheld" not in message, message
            subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
        # Ray writes on standard output too, so the release is read from its file.
        release = load_release(out / "release.json")
        assert release.units == UNITS
        open_ledger().verify_release(release_text(release))
    record_property("summary", f"{killed} busy {runner} workers killed in {RUNS} runs: {dict(ended)}")
    assert killed >= RUNS
    block = open_ledger().account("small").blocks[0]
    assert (block.spent.epsilon, block.reserved.epsilon) == (RUNS, 0)
