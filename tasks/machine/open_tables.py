"""Folders that hold a table with a log of its own: which of their files count, the log says, and not the folder.

Files that such a log has taken out stay on disk until somebody cleans up: who reads the folder as plain Parquet reads
people who were erased.
"""

from __future__ import annotations

from pathlib import Path

from causalveil.schemas.errors import DataError

_WRITE = "write the rows that it holds today as plain Parquet into another folder"


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
    kind = open_table(folder)
    if kind is not None:
        raise DataError(
            f"{folder}: is {kind}, whose log says which files still count; {_WRITE}, by the tool that wrote it, and "
            "use that"
        )


def open_table(folder: Path) -> str | None:
    """The kind of table whose log lies in a folder, with its article; None where there is none."""
    try:
        if (folder / "_delta_log").is_dir():
            return "a Delta table"
        if (folder / ".hoodie").is_dir():
            return "a Hudi table"
        metadata = folder / "metadata"
        if metadata.is_dir() and (any(metadata.glob("*.metadata.json*")) or (metadata / "version-hint.text").exists()):
            return "an Iceberg table"
    except OSError:
        # A folder that may not be looked into is refused by whoever reads it.
        return None
    return None
