"""Delta tables that a log by hand describes: deletion vectors, mapped columns, features that no reader knows."""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TYPES = {pa.int64(): "long", pa.float64(): "double", pa.bool_(): "boolean", pa.string(): "string"}
PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}


def with_feature(name: str) -> dict[str, Any]:
    """A protocol that asks for one feature."""
    return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [name], "writerFeatures": [name]}


def delta_by_hand(
    folder: Path,
    files: Mapping[str, pa.Table],
    *,
    columns: Mapping[str, tuple[str, str]] | None = None,
    settings: Mapping[str, str] | None = None,
    protocol: Mapping[str, Any] = PLAIN,
    deleted: Mapping[str, Sequence[int]] | None = None,
    vectors: str = "i",
) -> Path:
    """Write files and the log that counts them.

    Args:
        folder: of the table.
        files: by name.
        columns: of mapped tables: name -> (name in the files, type).
        settings: of the table.
        protocol: what a reader must know.
        deleted: numbers of deleted rows, by file.
        vectors: where deletion vectors lie: ``i`` in the log, ``u`` in files of their own.
    """
    (folder / "_delta_log").mkdir(parents=True)
    schema = next(iter(files.values())).schema
    columns = columns or {field.name: (field.name, _TYPES[field.type]) for field in schema}
    fields = []
    for number, (name, (physical, kind)) in enumerate(columns.items(), 1):
        mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
        mapped = bool(settings) and "delta.columnMapping.mode" in (settings or {})
        fields.append({"name": name, "type": kind, "nullable": True, "metadata": mapping if mapped else {}})
    actions: list[dict[str, Any]] = [
        {"protocol": dict(protocol)},
        {
            "metaData": {
                "id": str(uuid.uuid4()),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": [],
                "configuration": dict(settings or {}),
                "createdTime": 0,
            }
        },
    ]
    for name, rows in files.items():
        pq.write_table(rows, folder / name)
        add: dict[str, Any] = {
            "path": name,
            "partitionValues": {},
            "size": (folder / name).stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
            "stats": json.dumps({"numRecords": rows.num_rows}),
        }
        if name in (deleted or {}):
            add["deletionVector"] = _vector(folder, list((deleted or {})[name]), vectors)
        actions.append({"add": add})
    (folder / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")
    return folder


def _vector(folder: Path, rows: list[int], where: str) -> dict[str, Any]:
    from pyroaring import BitMap64

    content = struct.pack("<i", 1681511377) + BitMap64(rows).serialize()
    told = {"storageType": where, "sizeInBytes": len(content), "cardinality": len(rows)}
    if where == "i":
        return {**told, "pathOrInlineDv": _z85(content)}
    name = uuid.uuid4()
    body = b"\x01" + struct.pack(">i", len(content)) + content + struct.pack(">I", zlib.crc32(content))
    (folder / f"deletion_vector_{name}.bin").write_bytes(body)
    return {**told, "pathOrInlineDv": _z85(name.bytes), "offset": 1}


def _z85(content: bytes) -> str:
    content += b"\0" * (-len(content) % 4)
    text = ""
    for start in range(0, len(content), 4):
        value, digits = int.from_bytes(content[start : start + 4], "big"), ""
        for _ in range(5):
            value, digit = divmod(value, 85)
            digits = _LETTERS[digit] + digits
        text += digits
    return text
