from __future__ import annotations

import subprocess
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from causalveil.schemas.admission import NotAdmitted
from causalveil.schemas.columns import Column, Holds
from causalveil.schemas.errors import DataError, StudyError
from causalveil.schemas.plan import Layout, Partition
from causalveil.schemas.study import Select
from causalveil.schemas.warehouse import DeltaSource, ParquetFiles
from causalveil.tasks.data import partitions as segments
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.enclave import FileEnclave
from causalveil.tasks.data.manifests import validate_stage
from causalveil.tasks.data.normalise import normalise_stage
from causalveil.tasks.data.partitions import (
    MANY,
    list_partitions,
    read_layout,
    read_rows,
    read_segments,
    readings,
    segment_count,
)
from causalveil.tasks.data.split import keyed_hash
from causalveil.tasks.machine import folders
from causalveil.tasks.warehouse.open_tables import delta_batches, delta_snapshot
from causalveil.tasks.warehouse.read_files import paths_of
from causalveil.tasks.warehouse.sample import sample_of
from tests.bad_data import GROUP, LAYOUT_CASES, TREATMENT, UNIT, admitted, contract, good, study, write
from tests.stored import put
from tests.warehouse import delta_table, visits

AGE = {"age": Column(holds=Holds.number)}


def blocked(newest: int | None = None):
    select = {"newest": newest} if newest else None
    return study(data={"path": ".", "unit": UNIT, "blocks": "month", "select": select})


def months(folder: Path, *values: str) -> Path:
    for value in values:
        write(folder / f"month={value}", good(3))
    return folder


@pytest.mark.parametrize("case", LAYOUT_CASES, ids=lambda case: case.name)
def test_broken_layouts_are_refused(case, tmp_path):
    folder = tmp_path / "data"
    case.write(folder)
    with pytest.raises(DataError) as caught:
        read_layout(case.study, DataFolder(folder))
    assert all(words in str(caught.value) for words in case.says)
    assert caught.value.__context__ is None


def test_a_folder_that_is_not_there_is_the_studys_mistake(tmp_path):
    (tmp_path / "file").write_text("no folder")
    for name in ("nowhere", "file"):
        with pytest.raises(StudyError, match="no such data folder"):
            DataFolder(tmp_path / name)


def test_files_are_listed_by_path_with_their_rows(tmp_path):
    write(tmp_path / "b", good(3), good(4))
    write(tmp_path / "a" / "deep", good(5))
    write(tmp_path / "a.parquet", good(6))
    write(tmp_path / ".hidden", good(7))
    write(tmp_path / "_log", good(7))
    (tmp_path / "notes.txt").write_text("not data")
    (tmp_path / "study.yaml").write_text("not data")
    layout = read_layout(study(), DataFolder(tmp_path))
    assert [(p.path, p.rows, p.block) for p in layout.partitions] == [
        ("a.parquet/part-0.parquet", 6, "all"),
        ("a/deep/part-0.parquet", 5, "all"),
        ("b/part-0.parquet", 3, "all"),
        ("b/part-1.parquet", 4, "all"),
    ]
    assert layout.units == 18
    assert layout.dataset_blocks == ("all",)


def test_blocks_come_from_the_hive_key_anywhere_on_the_path(tmp_path):
    write(tmp_path / "site=x" / "month=2024-01" / "day=3", good(3))
    write(tmp_path / "month=2024-02", good(4))
    layout = read_layout(blocked(), DataFolder(tmp_path))
    assert layout.blocks == ("month=2024-01", "month=2024-02")
    assert {p.path: p.block for p in layout.partitions} == {
        "month=2024-02/part-0.parquet": "month=2024-02",
        "site=x/month=2024-01/day=3/part-0.parquet": "month=2024-01",
    }


@pytest.mark.parametrize(
    ("values", "newest", "expected"),
    [
        (("2024-01", "2024-02", "2023-12"), 1, ("2024-02",)),
        (("2024-01", "2024-02", "2023-12"), 2, ("2024-01", "2024-02")),
        (("9", "10", "11"), 2, ("10", "11")),
        (("9", "10", "-11"), 1, ("10",)),
        (("9", "10", "x"), 2, ("9", "x")),
        (("1.5", "1.25"), 1, ("1.5",)),
        (("1", "2"), 5, ("1", "2")),
    ],
)
def test_newest_blocks_in_natural_order(values, newest, expected, tmp_path):
    layout = read_layout(blocked(newest), DataFolder(months(tmp_path, *values)))
    assert layout.blocks == tuple(sorted(f"month={value}" for value in expected))
    assert set(layout.dataset_blocks) == {f"month={value}" for value in values}


def chosen(**select):
    return study(data={"path": ".", "unit": UNIT, "blocks": "month", "select": select})


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ({"blocks": ["9"]}, ("9",)),
        ({"blocks": [11, "9", 9]}, ("11", "9")),
        ({"from": 10}, ("10", "11")),
        ({"to": "10"}, ("10", "9")),
        ({"from": "9", "to": "11"}, ("10", "11", "9")),
    ],
)
def test_blocks_that_are_named_in_natural_order(select, expected, tmp_path):
    (tmp_path / "month=8").mkdir()
    good(0).write_parquet(tmp_path / "month=8" / "part.parquet")
    layout = read_layout(chosen(**select), DataFolder(months(tmp_path, "9", "10", "11")))
    assert layout.blocks == tuple(f"month={value}" for value in expected)
    assert len(layout.dataset_blocks) == 4


@pytest.mark.parametrize(
    ("select", "says"),
    [
        ({"blocks": ["9", "12"]}, "there is no block month=12, .* there are month=8 to month=10"),
        ({"from": "7"}, "there is no block month=7"),
        ({"blocks": ["8"]}, "block month=8, .* holds no rows yet"),
        ({"from": "8", "to": "9"}, "block month=8, .* holds no rows yet"),
        ({"from": "10", "to": "9"}, "month=10 comes after month=9"),
    ],
)
def test_a_named_block_that_is_not_there_or_holds_no_rows_is_refused_by_name(select, says, tmp_path):
    (tmp_path / "month=8").mkdir()
    good(0).write_parquet(tmp_path / "month=8" / "part.parquet")
    with pytest.raises(DataError, match=says):
        read_layout(chosen(**select), DataFolder(months(tmp_path, "9", "10")))


@pytest.mark.parametrize(
    ("select", "says"),
    [
        ({}, "choose by one of"),
        ({"newest": 1, "blocks": ["9"]}, "choose by one of"),
        ({"blocks": []}, "at least 1 item"),
        ({"blocks": ["month=9"]}, "write the value alone, as in 9"),
        ({"from": True}, "string"),
    ],
)
def test_blocks_are_chosen_in_one_way(select, says):
    with pytest.raises(ValueError, match=says):
        Select.model_validate(select)


def test_how_blocks_are_chosen_is_part_of_the_digest_as_it_was_written():
    assert chosen(newest=2).specification()["data"]["select"] == {"newest": 2}
    found = chosen(**{"from": 7}).specification()["data"]["select"]
    assert found == {"from": "7"}
    assert Select.model_validate(found).model_dump() == found


def test_a_block_named_twice_on_a_path_is_refused(tmp_path):
    write(tmp_path / "month=1" / "month=2", good())
    with pytest.raises(DataError, match="exactly one folder"):
        read_layout(blocked(), DataFolder(tmp_path))


def test_blocks_that_are_not_selected_are_not_opened(tmp_path):
    months(tmp_path, "1", "2")
    (tmp_path / "month=1" / "part-0.parquet").write_text("broken")
    assert read_layout(blocked(1), DataFolder(tmp_path)).units == 3


def test_links_and_files_of_several_names_are_refused(tmp_path):
    """Whoever turns a link, or changes a file by its other name, changes what is read."""
    write(tmp_path, good(3))
    inner = tmp_path / "z.parquet"
    inner.symlink_to("part-0.parquet")
    with pytest.raises(DataError, match=r"z\.parquet: is a link"):
        read_layout(study(), DataFolder(tmp_path))
    inner.unlink()
    inner.hardlink_to(tmp_path / "part-0.parquet")
    with pytest.raises(DataError, match=r"part-0\.parquet: has another name"):
        read_layout(study(), DataFolder(tmp_path))
    # The advice.
    for name in ("part-0.parquet", "z.parquet"):
        subprocess.run(f"cp {name} copy && mv copy {name}", shell=True, cwd=tmp_path, check=True)
    assert read_layout(study(), DataFolder(tmp_path)).units == 6


def test_layout_is_the_same_through_a_linked_root_and_its_digest_sees_counts(tmp_path):
    write(tmp_path / "data", good(3))
    (tmp_path / "link").symlink_to(tmp_path / "data")
    direct = read_layout(study(), DataFolder(tmp_path / "data"))
    assert read_layout(study(), DataFolder(tmp_path / "link")) == direct
    write(tmp_path / "data", good(4))
    assert read_layout(study(), DataFolder(tmp_path / "data")).digest != direct.digest


def test_only_num_rows_is_taken_from_the_footer(tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    class Footer:
        num_rows = 24

    monkeypatch.setattr(pq, "read_metadata", lambda path: Footer())
    assert read_layout(study(), DataFolder(write(tmp_path, good()))).units == 24


def test_glob_characters_and_hive_folders_do_not_change_what_is_read(tmp_path):
    folder = write(tmp_path / "age=99" / "[a]*", good(3))
    (folder / "part-0.parquet").rename(folder / "p[0]?.parquet")
    layout = read_layout(study(), DataFolder(tmp_path))
    (frame,) = read_rows(DataFolder(tmp_path), layout.partitions[0], AGE, 5)
    assert frame["age"].to_list() == good(3)["age"].to_list()


@pytest.mark.parametrize("rows", [1, 7, 10, 24, 25, 1000])
@pytest.mark.parametrize("group", [1, 10, 24])
def test_rows_come_in_frames_of_the_size_asked_for_whatever_the_row_groups(rows, group, tmp_path):
    given = good(24).with_columns(pl.col("group").cast(pl.Categorical).alias("entry"))
    given.write_parquet(tmp_path / "part.parquet", row_group_size=group)
    (partition,) = read_layout(study(), DataFolder(tmp_path)).partitions
    names = ["group", "person", "entry"]
    word, unit = Column(holds=Holds.level, levels=("a", "b")), Column(holds=Holds.unit)
    frames = list(read_rows(DataFolder(tmp_path), partition, dict(zip(names, (word, unit, word), strict=True)), rows))
    assert [frame.height for frame in frames[:-1]] == [rows] * (len(frames) - 1)
    assert 0 < frames[-1].height <= rows
    assert pl.concat(frames).equals(given.select(names).with_columns(pl.col("entry").cast(pl.String)))


def test_a_file_without_rows_has_its_columns(tmp_path):
    good(0).write_parquet(tmp_path / "part.parquet")
    (frame,) = read_rows(DataFolder(tmp_path), Partition(path="part.parquet", rows=0, block="all"), AGE, 5)
    assert frame.schema == good(0).select("age").schema


@pytest.mark.parametrize("promised", [23, 25])
@pytest.mark.parametrize("rows", [5, 100])
def test_another_number_of_rows_than_promised_is_an_error(promised, rows, tmp_path):
    good(24).write_parquet(tmp_path / "part.parquet")
    with pytest.raises(DataError, match="number of rows"):
        list(read_rows(DataFolder(tmp_path), Partition(path="part.parquet", rows=promised, block="all"), AGE, rows))


def test_a_column_is_read_by_its_whole_name(tmp_path):
    """A reader that takes names for paths brings ``age.max`` where ``age`` is asked for."""
    pl.DataFrame({"age.max": [1.0], "age": [2.0]}).write_parquet(tmp_path / "part.parquet")
    (frame,) = read_rows(DataFolder(tmp_path), Partition(path="part.parquet", rows=1, block="all"), AGE, 5)
    assert frame.to_dict(as_series=False) == {"age": [2.0]}


# A table with a log of its own is refused by every door that reads folders of Parquet: its files are not its rows.
MARKS = {
    "Delta": "_delta_log/00000000000000000000.json",
    "Hudi": ".hoodie/hoodie.properties",
    "Iceberg": "metadata/00000-7f6d1c1e.metadata.json",
    "Iceberg, gzip": "metadata/v2.metadata.json.gz",
    "Iceberg, Hadoop's": "metadata/version-hint.text",
}
INSTEAD = {
    "D": r"causalveil init FOLDER, or kind: delta in source\.yaml",
    "H": "plain Parquet into another folder",
    "I": r"causalveil init iceberg:CATALOG/NAMESPACE\.TABLE, or kind: iceberg in source\.yaml",
}
DOORS = {
    "run": lambda folder: list_partitions(DataFolder(folder), None),
    "extract": lambda folder: paths_of(ParquetFiles(kind="parquet", path=str(folder)), Path()),
    "init": lambda folder: sample_of(str(folder)),
}


def table(folder: Path, mark: str) -> Path:
    (folder / mark).parent.mkdir(parents=True)
    (folder / mark).write_text("{}")
    return folder


@pytest.mark.parametrize("kind", MARKS)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("where", ["it", "in it", "above it"])
def test_a_folder_with_a_log_is_refused_in_one_sentence(kind: str, door: str, where: str, tmp_path: Path) -> None:
    folder = table(tmp_path / "a" / "table", MARKS[kind])
    write(folder / "data" / "month=1", good())
    if (door, kind, where) == ("init", "Delta", "it"):
        pytest.skip("init reads a Delta table by its log")
    asked = {"it": folder, "in it": folder / "data" / "month=1", "above it": tmp_path / "a"}[where]
    with pytest.raises(DataError, match=rf"is an? {kind.partition(',')[0]} table.*{INSTEAD[kind[0]]}"):
        DOORS[door](asked)


@pytest.mark.parametrize("door", ["extract", "init"])
def test_a_file_of_a_table_is_refused_too(door: str, tmp_path: Path) -> None:
    folder = table(write(tmp_path / "table", good()), MARKS["Delta"])
    with pytest.raises(DataError, match="is a Delta table"):
        DOORS[door](folder / "part-0.parquet")


@pytest.mark.parametrize("door", DOORS)
def test_folders_that_are_called_alike_are_read(door: str, tmp_path: Path) -> None:
    write(tmp_path / "data" / "metadata", good())
    (tmp_path / "data" / "_delta_log").write_text("no folder")
    assert DOORS[door](tmp_path / "data")


def test_a_table_that_cannot_be_read_leaves_nothing_of_its_readers_error(tmp_path: Path) -> None:
    """Texts of libraries quote paths, keys and values; a workflow engine stores what hangs on an error."""
    source = DeltaSource(kind="delta", path="none-there")
    with pytest.raises(DataError, match="no log of one lies there") as caught:
        delta_snapshot(source, tmp_path)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_an_error_of_who_reads_the_rows_is_not_told_as_the_tables(tmp_path: Path) -> None:
    delta_table(tmp_path / "table", visits())
    source = DeltaSource(kind="delta", path="table")
    opened = delta_batches(source, tmp_path, delta_snapshot(source, tmp_path), ["person"], "TRUE")
    with pytest.raises(ZeroDivisionError), opened as batches:
        sum(batch.num_rows for batch in batches) // 0


# A file that says otherwise than its folder is not admitted: the folder says which account is charged.
BLOCKS = {"data": {"path": ".", "unit": UNIT, "blocks": "month"}}
SAME: dict[str, tuple[str, Any]] = {
    "text": ("2025-01", "2025-01"),
    "a day of the month": ("2025-01", date(2025, 1, 17)),
    "a moment of the month": ("2025-01", datetime(2025, 1, 17, 12)),
    "a whole number": ("07", 7),
    "a float": ("7", 7.0),
    "a written sign": ("a%2Fb", "a/b"),
    "no value": ("2025-01", None),
    "no value, by Hive": ("__HIVE_DEFAULT_PARTITION__", None),
}
OTHER: dict[str, tuple[str, Any]] = {
    "text": ("2025-02", "2025-01"),
    "a day": ("2025-02", date(2025, 1, 17)),
    "a moment": ("2025-02", datetime(2025, 1, 17, 12)),
    "a whole number": ("8", 7),
    "a float": ("7", 7.5),
    "a number in a folder of words": ("may", 5),
    "a value where Hive says none": ("__HIVE_DEFAULT_PARTITION__", "2025-01"),
}


def write_folders(folder: Path, said: str, value: Any) -> Path:
    kind = pl.String() if value is None else None
    put(folder / f"month={said}" / "a.parquet", good(24).with_columns(pl.lit(value, kind).alias("month")))
    return folder


@pytest.mark.parametrize("most", [folders.SMALL_BYTES, 0], ids=["small", "large"])
@pytest.mark.parametrize("case", SAME)
def test_a_file_that_says_the_same_is_admitted(
    case: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "SMALL_BYTES", most)
    assert admitted(contract(**BLOCKS), write_folders(tmp_path / "data", *SAME[case]), tmp_path / "scratch").units == 24


@pytest.mark.parametrize("most", [folders.SMALL_BYTES, 0], ids=["small", "large"])
@pytest.mark.parametrize("case", OTHER)
def test_a_file_that_says_otherwise_is_refused(
    case: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "SMALL_BYTES", most)
    with pytest.raises(
        NotAdmitted, match=r"a.parquet: column 'month' says otherwise than the name of the folder"
    ) as told:
        admitted(contract(**BLOCKS), write_folders(tmp_path / "data", *OTHER[case]), tmp_path / "scratch")
    assert [one.rows for one in told.value.findings] == [24]


# Segments hold every row once, in order, and neither large partitions nor many small ones make them large or many.
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
