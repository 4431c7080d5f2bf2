"""What a run holds in memory does not grow with a partition, nor with a row group that is as large as its partition."""

from __future__ import annotations

import os
import resource
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.children import CONTEXT, process
from tests.studies import write_study

MB = 1 << 20
MOST = 1_200 * MB
COLUMNS = 6
ROWS = 2_000_000
SMALL = 100_000
SHARE = 0.75
CONTRACT: dict[str, Any] = {"estimators": ["ipw", "regression", "difference_in_means"]}


def one_row_group(folder: Path, rows: int, estimator: str = "ipw") -> Path:
    """A study of one partition, all of it one row group, written piece by piece so that the test stays small."""
    study = {
        "estimator": {"name": estimator, "penalty": 0.1 if estimator == "ipw" else ...},
        "covariates": {"group": ...} | {f"x{n}": {"lower": -1, "upper": 1} for n in range(COLUMNS)},
    }
    columns = {"group": ...} | {f"x{n}": {"lower": -1, "upper": 1} for n in range(COLUMNS)}
    path = write_study(
        folder, partitions=0, study=study, contract=CONTRACT | {"columns": columns, "public": ["treated"]}
    )
    random = np.random.default_rng(1)
    treated = random.random(rows) < 0.5
    table = {
        "person": np.arange(rows),
        "treated": treated,
        "score": 3 + 2.0 * treated,
        "age": random.integers(20, 61, rows).astype(float),
    }
    table |= {f"x{n}": random.uniform(-1, 1, rows) for n in range(COLUMNS)}
    pq.write_table(pa.table(table), folder / "part.parquet", row_group_size=rows, use_dictionary=False)
    return path


def run(path: str, home: str, told: Connection | None, values: int | None) -> None:
    """Run a study; tell by how much it raised the process's peak, in bytes."""
    os.environ["CAUSALVEIL_HOME"] = home
    from causalveil.flows.api import run_study
    from causalveil.tasks.data import partitions

    if values is not None:
        partitions.VALUES = values
    run_study(path, out=f"{home}-out", run_id="run", engine="direct")
    if told is not None:
        told.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def peak(path: Path, home: Path, values: int | None = None) -> int:
    receive, send = CONTEXT.Pipe(duplex=False)
    child = process(run, str(path), str(home), send, values)
    child.start()
    send.close()
    found = receive.recv()
    child.join()
    return int(found)


def test_a_partition_twenty_times_as_large_takes_less_than_itself(tmp_path: Path) -> None:
    """With segments of 2 MB. Read whole, its columns alone would be held twice."""
    base = peak(one_row_group(tmp_path / "small", SMALL), tmp_path / "one", 1 << 18)
    large = peak(one_row_group(tmp_path / "large", ROWS), tmp_path / "two", 1 << 18)
    assert large - base < SHARE * ROWS * (COLUMNS + 4) * 8


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("estimator", ["ipw", "regression", "difference_in_means"])
def test_2e7_rows_in_one_row_group_stay_below_1200_mb(tmp_path: Path, estimator: str, record_property: Any) -> None:
    found = peak(one_row_group(tmp_path / "data", 2 * 10**7, estimator), tmp_path / "home")
    record_property("summary", f"2e7 rows in one row group, {estimator}: peak {found // MB} MB")
    assert found < MOST
