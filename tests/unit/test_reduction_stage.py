"""Reducing a folder: the same rows however they are cut, buckets and files of public sizes, nothing left in scratch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.schemas.contract import Contract, DataClass, load_contract
from causalveil.schemas.errors import StudyError
from causalveil.schemas.plan import Layout, Partition
from causalveil.tasks.data import reduction as reduction_stages
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.enclave import FileEnclave
from causalveil.tasks.data.normalise import normalise_stage
from causalveil.tasks.data.partitions import read_layout
from causalveil.tasks.data.reduction import counting_rows, reduce_rows, reduce_stage
from causalveil.tasks.data.simulate import penalty, simulate, simulated_rows, unit_ids
from causalveil.tasks.data.split import Halves, split_stage
from tests.studies import resolved

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


def test_what_it_writes_runs_through_the_stages(tmp_path):
    folder = tmp_path / "new" / "study"
    simulate(folder, 1003, 4, 3, 5, 0.2)
    contract = load_contract(folder / "dataset.yaml")
    assert contract.data_class is DataClass.synthetic
    assert "0.2" in (folder / "PROVENANCE.md").read_text()
    assert "estimator: {name: auto}" in (folder / "study.yaml").read_text()
    # An estimator whose stages split the units.
    (folder / "study.yaml").write_text((folder / "study.yaml").read_text().replace("name: auto", "name: ipw"))
    given = resolved(folder / "study.yaml")
    layout = read_layout(given, DataFolder(folder))
    assert layout.units == 1003
    assert len(layout.partitions) == 3
    scratch = tmp_path / "scratch"
    normalise_stage(given, DataFolder(folder), layout, scratch, "run")
    enclave = FileEnclave(scratch, 3)
    split_stage(given, enclave)
    halves = Halves.open(enclave)
    assert sum(len(halves.train(index)) for index in range(3)) == 502


def test_same_arguments_same_values_other_seed_other_values(tmp_path):
    frames = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        simulate(tmp_path / name, 100, 2, 3, seed, 0.1)
        frames.append(pl.read_parquet(tmp_path / name / "*.parquet"))
    assert frames[0].equals(frames[1])
    assert not frames[0].equals(frames[2])
    assert (tmp_path / "a" / "study.yaml").read_text() == (tmp_path / "b" / "study.yaml").read_text()


@pytest.mark.parametrize("effect", [-0.4, 0.0, 0.1, 0.4])
@pytest.mark.parametrize("covariates", [1, 3, 20])
def test_bounds_overlap_and_effect_hold_for_every_unit(effect, covariates):
    frame = simulated_rows(0, 20_000, covariates, 7, 0, effect)
    names = frame.columns[3:]
    assert len(names) == covariates
    x = frame.select(names).to_numpy()
    assert np.all(np.abs(x) <= 1)
    y, t = frame["outcome"].to_numpy(), frame["treated"].to_numpy()
    assert y.min() >= 0
    assert y.max() <= 1
    # Unconfounded contrast: what is left after the outcome model differs by the effect between the arms.
    # 20,000 uniforms of sd 0.0577: five sd of the difference of means are 0.0042 (false alarm below 1e-6).
    left = y - 0.2 * x[:, : min(5, covariates)].mean(axis=1)
    assert abs(left[t == 1].mean() - left[t == 0].mean() - effect) < 0.0042
    # Overlap inside the default clip.
    propensity = 1 / (1 + np.exp(-2 * x[:, : min(5, covariates)].mean(axis=1)))
    assert propensity.min() >= 0.1
    assert propensity.max() <= 0.9
    # There is confounding to remove: the naive contrast is off by far more than its sd (0.0025).
    assert y[t == 1].mean() - y[t == 0].mean() - effect > 0.015


def test_an_oracle_recovers_the_effect():
    """Hajek weights from the true propensity at n = 200,000, seed 3: within 5 sd (sd about 0.0007)."""
    frame = simulated_rows(0, 200_000, 6, 3, 0, 0.1)
    mean = frame.select(frame.columns[3:8]).to_numpy().mean(axis=1)
    propensity = 1 / (1 + np.exp(-2 * mean))
    t, y = frame["treated"].to_numpy(), frame["outcome"].to_numpy()
    one, zero = t / propensity, (1 - t) / (1 - propensity)
    assert abs(one @ y / one.sum() - zero @ y / zero.sum() - 0.1) < 0.0035


def test_unit_ids_are_distinct_and_look_random():
    ids = unit_ids(0, 300_000, 1)
    assert len(np.unique(ids)) == 300_000
    assert np.array_equal(unit_ids(1000, 1010, 1), ids[1000:1010])
    bits = np.unpackbits(ids.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
    assert np.all(np.abs(bits - 0.5) < 0.006)
    assert abs(np.corrcoef(np.argsort(np.argsort(ids)), np.arange(300_000))[0, 1]) < 0.02


def test_unit_ids_can_be_undone_so_no_two_are_equal():
    """The inverse of splitmix64's finaliser, in plain integers, gives consecutive numbers back."""

    def undo(word: int, shift: int) -> int:
        result = word
        for _ in range(64 // shift):
            result = word ^ (result >> shift)
        return result

    found = []
    for unit in unit_ids(5, 105, 9).view(np.uint64).tolist():
        word = undo(unit, 31) * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
        word = undo(word, 27) * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
        found.append(undo(word, 30))
    assert [word - found[0] for word in found] == list(range(100))


def test_penalty_shrinks_with_n_and_is_one_digit():
    assert penalty(1_000_000, 20) == 1e-4
    assert penalty(100_000, 20) == 4e-4
    assert 1e-6 <= penalty(10**15, 1000) <= penalty(2, 1) == 0.1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"units": 1}, "2 are needed"),
        ({"covariates": 0}, "1 to 1000"),
        ({"partitions": 0}, "partitions"),
        ({"partitions": 11}, "1 to 10"),
        ({"seed": -1}, "seed"),
        ({"effect": 0.41}, "0.4"),
        ({"effect": float("nan")}, "0.4"),
    ],
)
def test_arguments_out_of_range_are_refused_and_nothing_is_written(changes, says, tmp_path):
    arguments = {"units": 10, "covariates": 2, "partitions": 2, "seed": 1, "effect": 0.1, **changes}
    with pytest.raises(StudyError, match=says):
        simulate(tmp_path / "s", **arguments)
    assert not (tmp_path / "s").exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StudyError, match="not an empty folder"):
        simulate(tmp_path, 10, 2, 2, 1, 0.1)
    with pytest.raises(StudyError, match="cannot be written"):
        simulate(tmp_path / "notes.txt" / "x", 10, 2, 2, 1, 0.1)
