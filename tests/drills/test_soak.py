"""Runs one after the other in one process, as a worker has them: nothing grows with their number."""

from __future__ import annotations

import os
import resource
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from tests.children import CONTEXT, process
from tests.postgres import WHY_NOT, database
from tests.studies import write_study

# The first runs import, fill pools and open what stays open.
SETTLED = 5
PROCESS = Path("/proc/self")


def _is_socket(descriptor: str) -> bool:
    try:
        return os.readlink(PROCESS / "fd" / descriptor).startswith("socket:")
    except FileNotFoundError:
        # What listed the folder, closed by now.
        return False


def soak(path: str, home: str, url: str, runs: int, told: Connection) -> None:
    """Run a study again and again; tell open files, connections, threads and scratch after each, in order."""
    os.environ |= {"CAUSALVEIL_HOME": home, "CAUSALVEIL_LEDGER_URL": url}
    from causalveil.flows.api import run_study

    for index in range(runs):
        run_study(path, out=f"{home}-out-{index}", run_id=f"run-{index}", engine="direct")
        told.send(
            {
                "files": len(os.listdir(PROCESS / "fd")),
                "connections": sum(_is_socket(name) for name in os.listdir(PROCESS / "fd")),
                "threads": threading.active_count(),
                "maps": len((PROCESS / "maps").read_text().splitlines()),
                "scratch": sum(1 for _ in (Path(home) / "scratch").rglob("*")),
                "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            }
        )
    told.close()


def counts(tmp_path: Path, url: str, runs: int) -> list[dict[str, Any]]:
    cap = {"caps": {"sample": {"epsilon": 10 * runs, "delta": "1e-1"}}}
    path = write_study(tmp_path / "data", study={"privacy": {"delta": "1e-9"}}, contract=cap)
    receive, send = CONTEXT.Pipe(duplex=False)
    child = process(soak, str(path), str(tmp_path / "home"), url, runs, send)
    child.start()
    send.close()
    seen = []
    try:
        while len(seen) < runs:
            seen.append(receive.recv())
    except EOFError:
        pass
    child.join()
    assert child.exitcode == 0
    assert len(seen) == runs
    return seen


def check(seen: list[dict[str, Any]]) -> None:
    """After the first runs nothing is more than it was; memory's high mark may still settle by a tenth."""
    early, late = seen[SETTLED], seen[-1]
    for what in ("files", "connections", "threads", "scratch"):
        assert late[what] <= early[what], what
    # An allocator's arenas are maps too: a map for each run would be more.
    assert late["maps"] - early["maps"] < (len(seen) - SETTLED) / 2
    assert late["peak"] <= 1.1 * early["peak"]


@pytest.mark.skipif(not PROCESS.exists(), reason="what a process holds open is counted in /proc")
@pytest.mark.parametrize("runs", [18, pytest.param(500, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_nothing_grows_with_the_number_of_runs(tmp_path: Path, kind: str, runs: int) -> None:
    if kind == "sqlite":
        check(counts(tmp_path, f"sqlite:///{tmp_path}/ledger.sqlite", runs))
        return
    with database() as url:
        if url is None:
            pytest.skip(WHY_NOT)
        check(counts(tmp_path, url, runs))
