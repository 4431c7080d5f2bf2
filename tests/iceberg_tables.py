"""Iceberg tables in a catalog of SQLite, and deletes that pyiceberg does not write itself: by position, by equality."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from pyiceberg.utils.config import Config

POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


def catalog_here(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str = "local", warehouse: str | None = None
) -> Any:
    """A catalog, configured as an operator does it; its tables lie in its folder, or in another warehouse."""
    folder.mkdir()
    monkeypatch.setenv("PYICEBERG_HOME", str(folder))
    monkeypatch.setenv(f"PYICEBERG_CATALOG__{name.upper()}__URI", f"sqlite:///{folder}/catalog.db")
    monkeypatch.setenv(f"PYICEBERG_CATALOG__{name.upper()}__WAREHOUSE", warehouse or f"file://{folder}/warehouse")
    catalog = load_catalog(name, **(Config().get_catalog_config(name) or {}))
    catalog.create_namespace("clinic")
    return catalog


def iceberg_table(catalog: Any, frame: pl.DataFrame, name: str = "clinic.visits", files: int = 1) -> Table:
    """A table of some files."""
    rows = frame.to_arrow()
    rows = rows.cast(pa.schema([pa.field(one.name, plain_text(one.type)) for one in rows.schema]))
    table: Table = catalog.create_table(name, schema=rows.schema)
    size = max(-(-len(rows) // files), 1)
    for start in range(0, len(rows), size):
        table.append(rows.slice(start, size))
    return table


def plain_text(type_: pa.DataType) -> pa.DataType:
    """Text of 32-bit offsets, as catalogs know it."""
    return pa.string() if pa.types.is_string_view(type_) or pa.types.is_large_string(type_) else type_


class _DeleteManifest(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _Deletes(_FastAppendFiles):
    """A snapshot that adds one file of deletes."""

    file: DataFile

    def _existing_manifests(self) -> list[ManifestFile]:
        metadata = self._transaction.table_metadata
        with _DeleteManifest(
            metadata.spec(), metadata.schema(), self.new_manifest_output(), self._snapshot_id, "gzip"
        ) as writer:
            writer.add(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=self._snapshot_id, data_file=self.file
                )
            )
        return [*super()._existing_manifests(), writer.to_manifest_file()]


def delete_rows(table: Table, rows: pa.Table, content: DataFileContent, by: list[int] | None = None) -> None:
    """Commit a file of deletes beside the data files, as engines do that merge on reading."""
    place = f"{table.location()}/data/{uuid.uuid4()}-deletes.parquet"
    with table.io.new_output(place).create() as stream:
        pq.write_table(rows, stream)
    file = DataFile.from_args(
        content=content,
        file_path=place,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(rows),
        file_size_in_bytes=len(table.io.new_input(place)),
        equality_ids=by,
    )
    file.spec_id = 0
    with table.transaction() as transaction:
        commit = _Deletes(operation=Operation.DELETE, transaction=transaction, io=table.io)
        commit.file = file
        commit.commit()
    table.refresh()


def delete_positions(table: Table, positions: dict[str, list[int]]) -> None:
    """Delete rows by file and number."""
    pairs = [(path, row) for path, rows in sorted(positions.items()) for row in rows]
    columns = [pa.array([path for path, _ in pairs]), pa.array([row for _, row in pairs], pa.int64())]
    delete_rows(table, pa.Table.from_arrays(columns, schema=POSITIONS), DataFileContent.POSITION_DELETES)


def delete_by_equality(table: Table, column: str, values: list[int]) -> None:
    """Delete rows that have one of some values."""
    number = table.schema().find_field(column).field_id
    field = pa.field(column, pa.int64(), metadata={"PARQUET:field_id": str(number)})
    rows = pa.Table.from_arrays([pa.array(values, pa.int64())], schema=pa.schema([field]))
    delete_rows(table, rows, DataFileContent.EQUALITY_DELETES, [number])


def data_files(table: Table) -> list[str]:
    """The data files that the newest snapshot counts, oldest first."""
    return [task.file.file_path for task in table.scan().plan_files()][::-1]
