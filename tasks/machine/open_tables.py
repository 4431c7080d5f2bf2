"""Folders that hold a table with a log of its own: which of their files count, the log says, and not the folder.

Files that such a log has taken out stay on disk until somebody cleans up: who reads the folder as plain Parquet reads
people who were erased.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from causalveil.schemas.errors import DataError

_DELTA = "_delta_log"
# What to do instead, by the kind of table.
_INSTEAD = {
    "a Delta table": "read it as a table: causalveil init FOLDER, or kind: delta in source.yaml and causalveil extract",
    "an Iceberg table": "read it through its catalog: causalveil init iceberg:CATALOG/NAMESPACE.TABLE, or kind: "
    "iceberg in source.yaml and causalveil extract",
    "a Hudi table": "write the rows that it holds today as plain Parquet into another folder, and use that",
}


def is_delta(folder: Path) -> bool:
    """Tell whether a folder is a Delta table."""
    return (folder / _DELTA).is_dir()


def refuse_open_table(path: Path) -> None:
    """Refuse a file or folder that is an open table, or lies in one.

    Raises:
        DataError: it is; says which, and what to do.
    """
    for place in (path, *path.absolute().parents):
        refuse_log_in(place)


def refuse_log_in(folder: Path) -> None:
    """Refuse a folder that has the log of a table in it; folders above are not looked at.

    Raises:
        DataError: it has; says which table it is, and what to do.
    """
    refuse_table(folder, lambda name: (folder / name).is_dir(), lambda name: os.listdir(folder / name))


def refuse_table(folder: Path, is_folder: Callable[[str], bool], names: Callable[[str], Iterable[str]]) -> None:
    """Refuse a folder that has the log of a table in it, as the given functions look into it.

    Args:
        folder: for the message.
        is_folder: tells whether it has a folder of some name.
        names: lists what a folder of that name holds.

    Raises:
        DataError: as of :func:`refuse_log_in`.
    """
    kind = open_table(is_folder, names)
    if kind is not None:
        raise DataError(f"{folder}: is {kind}, whose log says which files still count; {_INSTEAD[kind]}")


def open_table(is_folder: Callable[[str], bool], names: Callable[[str], Iterable[str]]) -> str | None:
    """The kind of table whose log lies in a folder, with its article; None where there is none."""
    try:
        if is_folder(_DELTA):
            return "a Delta table"
        if is_folder(".hoodie"):
            return "a Hudi table"
        if is_folder("metadata") and any(
            name == "version-hint.text" or ".metadata.json" in name for name in names("metadata")
        ):
            return "an Iceberg table"
    except (OSError, DataError):
        # A folder that may not be looked into is refused by whoever reads it.
        return None
    return None
