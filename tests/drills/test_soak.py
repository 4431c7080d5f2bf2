"""Runs one after the other in one process, as a worker has them: nothing grows with their number."""

from __future__ import annotations

import os
import resource
import statistics
import threading
import time
from contextlib import ExitStack
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
        start = time.process_time()
        run_study(path, out=f"{home}-out-{index}", run_id=f"run-{index}", engine="direct")
        told.send(
            {
                "seconds": time.process_time() - start,
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


def time_of(seen: list[dict[str, Any]]) -> str:
    """Processor time of the runs, which hundreds of them must not lengthen."""
    part = [seconds["seconds"] for seconds in seen[SETTLED:]]
    tenth = max(len(part) // 10, 1)
    early, late = statistics.median(part[:tenth]), statistics.median(part[-tenth:])
    assert late <= 1.25 * early
    return f"{len(seen)} runs: {early:.2f} s of processor each in the first tenth, {late:.2f} in the last"


@pytest.mark.skipif(not PROCESS.exists(), reason="what a process holds open is counted in /proc")
@pytest.mark.parametrize("runs", [12, pytest.param(500, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_nothing_grows_with_the_number_of_runs(tmp_path: Path, kind: str, runs: int, record_property: Any) -> None:
    with ExitStack() as stack:
        url = f"sqlite:///{tmp_path}/ledger.sqlite" if kind == "sqlite" else stack.enter_context(database())
        if url is None:
            pytest.skip(WHY_NOT)
        seen = counts(tmp_path, url, runs)
    check(seen)
    if runs >= 500:
        record_property("summary", f"{kind}, {time_of(seen)}")
