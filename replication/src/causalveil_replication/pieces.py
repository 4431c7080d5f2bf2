"""Pieces of a replication, kept as they are done, so that an interrupted command goes on where it was."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from pathlib import Path

from causalveil.tasks.report.figures import write_table

Value = str | int | float | None


def is_kept(out: Path, name: str) -> bool:
    """Return whether a piece is there already."""
    return (out / "runs" / f"{name}.csv").is_file()


def kept(out: Path, name: str, make: Callable[[], Iterable[dict[str, object]]]) -> list[dict[str, Value]]:
    """The rows of a piece: from ``out/runs`` if they are there, else made and left there.

    Rows always come from the file, so that one that was interrupted says what one in a single go says.

    Raises:
        StudyError: a file cannot be written.
    """
    path = out / "runs" / f"{name}.csv"
    if not path.is_file():
        write_table(path, list(make()))
    with path.open(encoding="utf-8", newline="") as stream:
        return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(stream)]


def _value(text: str) -> Value:
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
