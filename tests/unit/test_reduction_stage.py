"""Reducing a folder: the same rows however they are cut, buckets and files of public sizes, nothing left in scratch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.schemas.contract import Contract
from causalveil.schemas.plan import Layout, Partition
from causalveil.tasks.data import reduction as reduction_stages
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.reduction import counting_rows, reduce_rows, reduce_stage

BLOCKS = {"key": "month", "units_span": False}


def visits_contract(blocks: dict[str, Any] | None = None) -> Contract:
    return Contract.model_validate(
        {
            "dataset": "visits",
            "data_class": "synthetic",
            "unit": "person",
            "blocks": blocks,
            "columns": {"cost": {"lower": 0, "upper": 9}, "ward": {"levels": ["a", "b"]}},
            "rows": {"at_most": 3, "order": "day", "count": "visits", "aggregates": {"cost": "sum"}},
            "public": [],
            "caps": {"sample": {"epsilon": 1, "delta": 0}},
        }
    )


def visits(rows: int, people: int, seed: int = 3) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "person": random.permutation(
                np.concatenate([np.arange(people), random.integers(0, people, rows - people)])
            ),
            "day": random.integers(0, 30, rows),
            "cost": random.random(rows) * 10,
            "ward": random.choice(["a", "b"], rows),
        }
    )


def write(folder: Path, frames: dict[str, pl.DataFrame]) -> Layout:
    for path, frame in frames.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        frame.write_parquet(folder / path)
    return Layout(
        partitions=tuple(
            Partition(path=path, rows=frame.height, block=path.split("/")[0] if "/" in path else "all")
            for path, frame in frames.items()
        ),
        dataset_blocks=tuple(sorted({path.split("/")[0] if "/" in path else "all" for path in frames})),
    )


def reduce_folder(
    tmp_path: Path, contract: Contract, frames: dict[str, pl.DataFrame], **sizes: int
) -> tuple[dict[str, pl.DataFrame], list[tuple[str, int]]]:
    """The files that result, by path; and how many units were shown of each block."""
    for name in ("data", "scratch", "target"):
        (tmp_path / name).mkdir(parents=True)
    layout = write(tmp_path / "data", frames)
    seen: list[tuple[str, int]] = []
    reduce_stage(
        contract,
        DataFolder(tmp_path / "data"),
        layout,
        tmp_path / "scratch",
        tmp_path / "target",
        lambda block, units: seen.append((block, units.n_unique())),
        b"0123456789abcdef",
        **sizes,
    )
    assert list((tmp_path / "scratch").iterdir()) == [], "rows are gone"
    paths = sorted((tmp_path / "target").rglob("*.parquet"))
    assert all(path.stat().st_mode & 0o077 == 0 for path in paths)
    return {path.relative_to(tmp_path / "target").as_posix(): pl.read_parquet(path) for path in paths}, seen


@pytest.mark.parametrize(("pieces", "bucket_rows", "file_units"), [(1, 10**6, 10**6), (3, 100, 97), (7, 300, 500)])
def test_the_cut_into_files_and_parts_changes_nothing(
    pieces: int, bucket_rows: int, file_units: int, tmp_path: Path
) -> None:
    contract, frame = visits_contract(), visits(2000, 500)
    assert contract.rows is not None
    size = -(-frame.height // pieces)
    frames = {f"part-{index}.parquet": frame.slice(index * size, size) for index in range(pieces)}
    # Dictionaries of text have entries of their own in each file.
    frames["part-0.parquet"] = frames["part-0.parquet"].with_columns(pl.col("ward").cast(pl.Categorical))
    found, seen = reduce_folder(tmp_path, contract, frames, bucket_rows=bucket_rows, file_units=file_units)
    whole = pl.concat(list(found.values())).sort("person")
    assert whole.equals(reduce_rows(frame, "person", contract.rows, contract.columns))
    assert sum(count for _, count in seen) == whole["person"].n_unique() == 500
    # Sizes follow from the number of people alone, not from a hash.
    assert [one.height for one in found.values()] == [
        min(file_units, 500 - first) for first in range(0, 500, file_units)
    ]


@pytest.mark.parametrize("keep", ["first", "last"])
def test_somebody_with_very_many_rows_is_held_in_pieces(
    keep: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100,000 rows of one person, over all files, among 2,000 of 500: the same result, and no more rows at once than
    two buckets and one piece."""
    contract = visits_contract()
    rows = contract.model_dump(mode="json")["rows"] | {"keep": keep}
    contract = Contract.model_validate(contract.model_dump(mode="json") | {"rows": rows})
    assert contract.rows is not None
    heavy = visits(100_000, 1, seed=4)
    frame = pl.concat([visits(2_000, 500), heavy]).sample(fraction=1, shuffle=True, seed=1)
    frames = {f"part-{index:02d}.parquet": frame.slice(index * 5_100, 5_100) for index in range(20)}
    heights: list[int] = []

    def told(frame: pl.DataFrame, *arguments: Any) -> pl.DataFrame:
        heights.append(frame.height)
        return counting_rows(frame, *arguments)

    monkeypatch.setattr(reduction_stages, "counting_rows", told)
    found, _ = reduce_folder(tmp_path, contract, frames, bucket_rows=1_000, file_units=10**6)
    # What follows reduces all rows at once, to compare.
    held, whole = list(heights), pl.concat(list(found.values())).sort("person")
    assert whole.equals(reduce_rows(frame, "person", contract.rows, contract.columns))
    assert len(held) > 10
    # A piece has at most the rows of the frame that it was spread from: one partition more than a bucket.
    assert max(held) <= 2_000 + 6_100


def test_blocks_are_reduced_by_themselves(tmp_path: Path) -> None:
    frames = {f"month={m}/part-{i}.parquet": visits(300, 40 + m, seed=m + i) for m in (1, 2) for i in (0, 1)}
    frames["month=3/part-0.parquet"] = visits(300, 40).clear()
    found, _ = reduce_folder(tmp_path, visits_contract(BLOCKS), frames)
    assert {path: frame.height for path, frame in found.items()} == {
        "month=1/part-00000.parquet": 41,
        "month=2/part-00000.parquet": 42,
        "month=3/part-00000.parquet": 0,
    }
    assert found["month=3/part-00000.parquet"].schema == found["month=1/part-00000.parquet"].schema


def test_neighbouring_tables_have_files_of_equal_sizes(tmp_path: Path) -> None:
    """Somebody with one row is replaced by somebody with three hundred, under another name."""
    frame = visits(900, 300)
    one = frame.filter(pl.col("person") != 7)
    other = pl.concat([one, visits(300, 2).with_columns(person=pl.lit(10**9, dtype=pl.Int64))])
    sizes = []
    for name, rows in (("one", frame), ("other", other)):
        found, _ = reduce_folder(tmp_path / name, visits_contract(), {"a.parquet": rows}, bucket_rows=50, file_units=64)
        sizes.append({path: one.height for path, one in found.items()})
    assert sizes[0] == sizes[1]
