"""A table with a log of its own is refused by every door that reads folders of Parquet: its files are not its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from causalveil.schemas.errors import DataError
from causalveil.schemas.warehouse import DeltaSource, ParquetFiles
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.partitions import list_partitions
from causalveil.tasks.warehouse.open_tables import delta_batches, delta_snapshot
from causalveil.tasks.warehouse.read_files import paths_of
from causalveil.tasks.warehouse.sample import sample_of
from tests.bad_data import good, write
from tests.warehouse import delta_table, visits

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
