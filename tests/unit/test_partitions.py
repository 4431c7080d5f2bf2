from __future__ import annotations

import subprocess
from pathlib import Path

import polars as pl
import pytest

from causalveil.schemas.columns import Column, Holds
from causalveil.schemas.errors import DataError, StudyError
from causalveil.schemas.plan import Partition
from causalveil.schemas.study import Select
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.partitions import read_layout, read_rows
from tests.bad_data import LAYOUT_CASES, UNIT, good, study, write

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
