"""Rows of a long replication, kept as soon as a part of it is done, so that an interrupted command goes on there."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from causalveil.tasks.machine.files import write_whole


def kept_rows(path: Path, make: Callable[[], Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The rows in ``path``, made and written first where it is missing; a file is there whole or not at all.

    Numbers come back as they were to the last bit. Delete the folder to make them anew.

    Raises:
        StudyError: the file cannot be written.
    """
    if not path.exists():
        write_whole(path, json.dumps(list(make())))
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return rows
