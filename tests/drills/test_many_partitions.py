"""A dataset of many small files, by a process that may hold 256 files open, as some systems allow no more."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.schemas.release import load_release
from causalveil.tasks.data.partitions import MANY
from tests.children import CONTEXT, process
from tests.direction_help import DIRECTION, DIRECTION_CONTRACT, cause_and_effect
from tests.studies import people, write_study

FILES = 256
ROWS = 4
PARTITIONS = 300
SPARE: dict[str, Any] = {"estimators": ["ipw", "aipw", "matching", "regression"]}


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


def check(path: Path, out: Path, units: int) -> Took:
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
    took = check(write_study(tmp_path / "data", frame=frame, partitions=1500), tmp_path / "out", frame.height)
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
        one = took[partitions] = check(path, folder / "out", frame.height)
        each = 1000 * one.seconds / partitions
        record_property("summary", f"{partitions} partitions: {each:.2f} ms each, peak {one.peak >> 20} MB")
    assert took[100_000].openings <= 1.8 * took[1_000].openings


@pytest.mark.parametrize("estimator", ["aipw", "matching", "regression"])
def test_every_estimator_opens_partitions_in_turn(tmp_path: Path, estimator: str) -> None:
    frame = people(PARTITIONS * ROWS)
    known = {"propensity": {"known": 0.5}} if estimator == "aipw" else {}
    study = {"estimator": {"name": estimator, "penalty": 0.1 if estimator == "matching" else ..., **known}}
    path = write_study(tmp_path / "data", frame=frame, partitions=PARTITIONS, study=study, contract=SPARE)
    check(path, tmp_path / "out", frame.height)


def test_a_direction_study_opens_partitions_in_turn(tmp_path: Path) -> None:
    pairs = cause_and_effect(PARTITIONS * ROWS)
    frame = pl.DataFrame({"person": np.arange(len(pairs)), "dose": 1 + pairs[:, 0], "response": 5 * pairs[:, 1]})
    path = write_study(tmp_path / "data", frame=frame, partitions=PARTITIONS, base=(DIRECTION, DIRECTION_CONTRACT))
    check(path, tmp_path / "out", frame.height)
