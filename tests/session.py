"""What all processes of one session of tests share: a folder, and in it the tables of a new Prefect server.

Ray keeps a folder for each process that starts it, of 2 GB with its package of the product, and leaves it there: where
temporary files lie in memory, eight runs of the tests filled it.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

NAMED = "TESTS_FOLDER"
PREFIX = "causalveil-tests-"


def folder() -> Path:
    """Return the session's folder, made by its first process, which removes it; those of killed ones go as well."""
    if NAMED not in os.environ:
        sweep(Path(tempfile.gettempdir()))
        os.environ[NAMED] = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")
        atexit.register(shutil.rmtree, os.environ[NAMED], ignore_errors=True)
        atexit.register(sweep, Path(tempfile.gettempdir()))
    return Path(os.environ[NAMED])


def sweep(place: Path) -> None:
    """Remove folders of sessions, and of Ray's, whose first process is no more: one that was killed could not."""
    for left in (*place.glob(f"{PREFIX}*"), *place.glob("ray/session_*")):
        made_by = re.fullmatch(rf"{PREFIX}(\d+)-\w+|session_[\d_-]+_(\d+)", left.name)
        if made_by and not _lives(int(made_by[1] or made_by[2])):
            shutil.rmtree(left, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def keep_tables(database: Path) -> None:
    """Keep a copy of a new server's database: to make its tables takes 4 s of a processor."""
    kept = folder() / "prefect.db"
    if not kept.exists():
        mine = kept.with_suffix(f".{os.getpid()}")
        with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(mine)) as copy:
            source.backup(copy)
        mine.replace(kept)


def put_tables(database: Path) -> None:
    """Put the kept copy where a server will look for its database, if there is one yet."""
    kept = folder() / "prefect.db"
    if kept.exists():
        shutil.copy(kept, database)
