"""A dataset of many small files, by a process that may hold 256 files open, as some systems allow no more."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.schemas.release import load_release
from tests.children import process
from tests.direction_help import DIRECTION, DIRECTION_CONTRACT, cause_and_effect
from tests.studies import people, write_study

FILES = 256
ROWS = 4
PARTITIONS = 300
SPARE: dict[str, Any] = {"estimators": ["ipw", "aipw", "matching", "regression"]}


def run(path: str, out: str, home: str) -> None:
    """What the child does: lower its limit, then run."""
    from causalveil.flows.api import run_study

    os.environ["CAUSALVEIL_HOME"] = home
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    run_study(path, out=out, run_id="many", engine="direct")


def check(path: Path, out: Path, units: int) -> None:
    child = process(run, str(path), str(out), str(out.parent / "home"))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert load_release(out / "release.json").units == units


def test_1500_partitions_under_256_open_files(tmp_path: Path) -> None:
    """Noise is drawn afresh, so that nothing but the end of the run and the count of units is looked at."""
    frame = people(1500 * ROWS)
    check(write_study(tmp_path / "data", frame=frame, partitions=1500), tmp_path / "out", frame.height)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_100000_partitions_under_256_open_files(tmp_path: Path) -> None:
    """More files than a process has maps, too."""
    frame = people(100_000 * ROWS)
    check(write_study(tmp_path / "data", frame=frame, partitions=100_000), tmp_path / "out", frame.height)


@pytest.mark.parametrize("estimator", ["aipw", "matching", "regression"])
def test_every_estimator_opens_partitions_in_turn(tmp_path: Path, estimator: str) -> None:
    frame = people(PARTITIONS * ROWS)
    study = {"estimator": {"name": estimator, "penalty": 0.1 if estimator == "matching" else ...}}
    path = write_study(tmp_path / "data", frame=frame, partitions=PARTITIONS, study=study, contract=SPARE)
    check(path, tmp_path / "out", frame.height)


def test_a_direction_study_opens_partitions_in_turn(tmp_path: Path) -> None:
    pairs = cause_and_effect(PARTITIONS * ROWS)
    frame = pl.DataFrame({"person": np.arange(len(pairs)), "dose": 1 + pairs[:, 0], "response": 5 * pairs[:, 1]})
    path = write_study(tmp_path / "data", frame=frame, partitions=PARTITIONS, base=(DIRECTION, DIRECTION_CONTRACT))
    check(path, tmp_path / "out", frame.height)
