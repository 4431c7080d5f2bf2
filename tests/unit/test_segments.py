"""Segments hold every row once, in order, and neither large partitions nor many small ones make them large or many."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Layout, Partition
from causalveil.tasks.data import partitions as segments
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.enclave import FileEnclave
from causalveil.tasks.data.manifests import validate_stage
from causalveil.tasks.data.normalise import normalise_stage
from causalveil.tasks.data.partitions import MANY, read_layout, read_segments, readings, segment_count
from causalveil.tasks.data.split import keyed_hash
from tests.bad_data import GROUP, TREATMENT, UNIT, admitted, contract, good, study, write


def layout(*rows: int) -> Layout:
    partitions = tuple(Partition(path=f"{n}.parquet", rows=count, block="all") for n, count in enumerate(rows))
    return Layout(partitions=partitions, dataset_blocks=("all",))


@examples(st.lists(st.integers(0, 40_000), min_size=1, max_size=600), st.integers(1, 3000))
def test_readings_hold_every_partition_once_in_order_and_segments_are_bounded(rows, columns):
    given = layout(*rows)
    work = readings(given, columns)
    assert tuple(partition for reading in work for partition in reading.partitions) == given.partitions
    assert [n for reading in work for n in reading.numbers] == list(range(segment_count(given, columns)))
    most = max(segments.FEWEST_ROWS, segments.VALUES // columns)
    for reading in work:
        held = sum(partition.rows for partition in reading.partitions)
        assert held <= reading.rows * reading.segments
        assert reading.rows == most
        assert len(reading.partitions) == 1 or reading.segments == 1
        assert reading.segments == 1 or held > reading.rows * (reading.segments - 1)


def test_up_to_256_partitions_each_have_their_own_segment_and_more_share():
    assert segment_count(layout(*[5] * MANY), 20) == MANY
    assert segment_count(layout(*[5] * (MANY + 1)), 20) <= MANY
    assert segment_count(layout(*[4] * 100_000), 20) <= MANY
    assert segment_count(layout(2 * 10**7), 20) == -(-2 * 10**7 // (segments.VALUES // 20))


def stages(folder, scratch, given=None):
    """What the enclave holds of each unit, whatever segment it is in."""
    given = given or study()
    found = read_layout(given, DataFolder(folder))
    admission = admitted(contract(), folder, scratch.with_name(f"{scratch.name}-of-admission"))
    data = DataFolder(folder).held_to(admission.digests)
    validate_stage(given, data, found, admission)
    normalise_stage(given, data, found, scratch, "run", 1)
    enclave = FileEnclave(scratch, segment_count(found, len(given.columns)))
    columns = [enclave.gather(name) for name in "htux"]
    order = np.lexsort((columns[0][:, 1], columns[0][:, 0]))
    return enclave.segments, [column[order] for column in columns]


@pytest.mark.parametrize("group", [7, 1000])
def test_cutting_and_sharing_change_no_unit(group, tmp_path, monkeypatch):
    frame = good(500)
    write(tmp_path / "whole", frame)
    (tmp_path / "cut").mkdir()
    frame.write_parquet(tmp_path / "cut" / "part.parquet", row_group_size=group)
    write(tmp_path / "shared", *(frame[start : start + 5] for start in range(0, 500, 5)), good(0))
    one, expected = stages(tmp_path / "whole", tmp_path / "scratch")
    assert one == 1
    monkeypatch.setattr(segments, "VALUES", 64 * len(study().columns))
    monkeypatch.setattr(segments, "FEWEST_ROWS", 1)
    monkeypatch.setattr(segments, "MANY", 10)
    for name, many in (("cut", 8), ("shared", 10)):
        count, found = stages(tmp_path / name, tmp_path / f"scratch-{name}")
        assert count == many
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


BROKEN = {
    "a value": (good(5, 250).with_columns(pl.lit(3).cast(pl.Int8).alias(TREATMENT)), TREATMENT),
    "a level": (good(5, 250).with_columns(pl.lit("x").alias(GROUP)), GROUP),
    "a type": (good(5, 250).with_columns(pl.col("age").cast(pl.String)), "age"),
    "a column": (good(5, 250).drop("age"), "age"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_partition_is_named_that_is_wrong_among_those_that_share(name, tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "MANY", 10)
    frames = [good(5, 5 * number) for number in range(100)]
    frames[50], column = BROKEN[name]
    write(tmp_path / "data", *frames)
    with pytest.raises(DataError, match=rf"part-50\.parquet: column '{column}'"):
        stages(tmp_path / "data", tmp_path / "scratch")


def test_a_unit_is_found_twice_in_one_segment_and_in_two(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "MANY", 10)
    frames = [good(5, 5 * number) for number in range(100)]
    for twin in (51, 99):
        folder = tmp_path / f"data-{twin}"
        write(folder, *frames[:twin], frames[50], *frames[twin + 1 :])
        with pytest.raises(DataError, match=UNIT):
            stages(folder, tmp_path / f"scratch-{twin}")


def test_types_that_change_after_validation_are_refused(tmp_path):
    write(tmp_path, good(5), good(5, 5).with_columns(pl.col(UNIT).cast(pl.String)))
    (reading,) = readings(layout(10), 5)
    shared = segments.Reading(read_layout(study(), DataFolder(tmp_path)).partitions, 0, reading.rows, 1)
    (segment,) = read_segments(DataFolder(tmp_path), shared, {UNIT: study().roles[UNIT]})
    with pytest.raises(DataError, match="another type"):
        segment.frame  # noqa: B018


def test_whole_numbers_of_units_may_have_any_width(tmp_path):
    """The least and the largest of all kinds lie in one segment, and files without rows say nothing."""
    kinds = (pl.Int8, pl.UInt64, pl.Float64, pl.Decimal(38, 0), pl.Int64)
    frames = [good(5, 5 * number).with_columns((pl.int_range(5) + 5 * number).cast(kind).alias(UNIT))
              for number, kind in enumerate(kinds)]  # fmt: skip
    largest = frames[1].with_columns(pl.lit(2**64 - 1, pl.UInt64).alias(UNIT))
    write(tmp_path, good(0).drop(UNIT), frames[0], largest[:1], *frames[2:])
    partitions = read_layout(study(), DataFolder(tmp_path)).partitions
    (segment,) = read_segments(
        DataFolder(tmp_path), segments.Reading(partitions, 0, 100, 1), {UNIT: study().roles[UNIT]}
    )
    assert segment.frame[UNIT].to_list() == [*range(5), 2**64 - 1, *range(10, 25)]
    hashes = keyed_hash(segment.frame[UNIT], bytes(16))
    assert np.array_equal(hashes[:5], keyed_hash(frames[0][UNIT], bytes(16)))
    assert np.array_equal(hashes[5:6], keyed_hash(largest[UNIT][:1], bytes(16)))
