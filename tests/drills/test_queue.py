"""64 processes ask one account at once, several times each: the cap holds, nobody is turned away for having waited."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.schemas.errors import BudgetRefused
from causalveil.schemas.release import load_release
from causalveil.tasks.data.partitions import MANY
from causalveil.tasks.privacy.ledger.ledger import Ledger
from tests.children import CONTEXT, process
from tests.direction_help import DIRECTION, DIRECTION_CONTRACT, cause_and_effect
from tests.ledger_help import charge, contract, reservation
from tests.postgres import WHY_NOT, database
from tests.privacy.test_ledger_processes import at_once
from tests.studies import people, write_study

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


# Runs one after the other in one process, as a worker has them: nothing grows with their number.
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


# A dataset of many small files, by a process that may hold 256 files open, as some systems allow no more.
FILES = 256
ROWS = 4
PARTITIONS = 300
SPARE: dict[str, Any] = {"estimators": ["ipw", "matching", "regression"]}


@dataclass(frozen=True)
class Took:
    """What a run took: openings of what stages left of hashes, processor seconds, bytes."""

    openings: int
    seconds: float
    peak: int


def run(path: str, out: str, home: str, told: Connection) -> None:
    """What the child does: lower its limit, then run, and tell what it took."""
    from causalveil.flows.api import run_study

    os.environ["CAUSALVEIL_HOME"] = home
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    openings: Counter[str] = Counter()

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(arguments[0]).endswith("h.npy"):
            openings["hashes"] += 1

    sys.addaudithook(heard)
    start = time.process_time()
    run_study(path, out=out, run_id="many", engine="direct")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    told.send(Took(openings["hashes"], time.process_time() - start, peak))


def check_partitions(path: Path, out: Path, units: int) -> Took:
    receive, send = CONTEXT.Pipe(duplex=False)
    child = process(run, str(path), str(out), str(out.parent / "home"), send)
    child.start()
    send.close()
    took: Took = receive.recv()
    child.join()
    assert child.exitcode == 0
    assert load_release(out / "release.json").units == units
    return took


def test_1500_partitions_under_256_open_files(tmp_path: Path) -> None:
    """Noise is drawn afresh, so that nothing but the end of the run and the count of units is looked at."""
    frame = people(1500 * ROWS)
    took = check_partitions(
        write_study(tmp_path / "data", frame=frame, partitions=1500), tmp_path / "out", frame.height
    )
    # Nine times each of 250 segments; were there one for each partition, it would be 13,500.
    assert took.openings <= 20 * MANY


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_100000_partitions_under_256_open_files(tmp_path: Path, record_property: Any) -> None:
    """More files than a process has maps, too."""
    took = {}
    for partitions in (1_000, 10_000, 100_000):
        frame, folder = people(partitions * ROWS), tmp_path / str(partitions)
        path = write_study(folder / "data", frame=frame, partitions=partitions)
        one = took[partitions] = check_partitions(path, folder / "out", frame.height)
        each = 1000 * one.seconds / partitions
        record_property("summary", f"{partitions} partitions: {each:.2f} ms each, peak {one.peak >> 20} MB")
    assert took[100_000].openings <= 1.8 * took[1_000].openings


@pytest.mark.parametrize("estimator", ["matching", "regression"])
def test_every_estimator_opens_partitions_in_turn(tmp_path: Path, estimator: str) -> None:
    frame = people(PARTITIONS * ROWS)
    study = {"estimator": {"name": estimator, "penalty": 0.1 if estimator == "matching" else ...}}
    path = write_study(tmp_path / "data", frame=frame, partitions=PARTITIONS, study=study, contract=SPARE)
    check_partitions(path, tmp_path / "out", frame.height)


def test_a_direction_study_opens_partitions_in_turn(tmp_path: Path) -> None:
    pairs = cause_and_effect(PARTITIONS * ROWS)
    frame = pl.DataFrame({"person": np.arange(len(pairs)), "dose": 1 + pairs[:, 0], "response": 5 * pairs[:, 1]})
    path = write_study(tmp_path / "data", frame=frame, partitions=PARTITIONS, base=(DIRECTION, DIRECTION_CONTRACT))
    check_partitions(path, tmp_path / "out", frame.height)
