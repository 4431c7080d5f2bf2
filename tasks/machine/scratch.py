"""The enclave's folder on disk: one per run, mode 0700, deleted when the run ends, however it ends.

A run holds a lock file beside its folder for as long as its process lives; the system drops the lock when
the process dies, even by ``kill -9``. So whatever folder is not locked is stale, and :func:`clean` may
delete it. Deletion is the file system's: it does not overwrite blocks, so put the state folder on an
encrypted disk.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from causalveil.schemas.errors import CausalveilError
from causalveil.tasks.machine.home import home
from causalveil.tasks.machine.site import site_settings

_LOCK = ".lock"


def scratch_root() -> Path:
    """The folder that holds every run's scratch: the operator's, or ``scratch`` in the state folder; mode 0700.

    Raises:
        CausalveilError: it is a link, cannot be made, or other users can open it.
    """
    root = site_settings().scratch or home() / "scratch"
    problem = None
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        problem = (
            f"{root}: cannot be used as scratch folder ({type(error).__name__}); let CAUSALVEIL_SCRATCH name another"
        )
    if problem:
        raise CausalveilError(problem)
    if root.is_symlink() or root.stat().st_mode & 0o077:
        raise CausalveilError(f"{root}: other users can open the scratch folder; run: chmod 700 '{root}'")
    return root


@contextmanager
def open_scratch(run_id: str) -> Iterator[Path]:
    """A new empty folder for run ``run_id``; its rows are gone when the block is left, by an error too.

    Stale folders of dead processes are deleted first. The name holds the public run id and a random part.

    Raises:
        CausalveilError: the scratch root is open to other users.
    """
    clean()
    folder, lock = _locked_folder(_stem(run_id))
    try:
        yield folder
    finally:
        try:
            shutil.rmtree(folder)
        finally:
            folder.with_name(folder.name + _LOCK).unlink(missing_ok=True)
            os.close(lock)


def in_use(run_id: str) -> bool:
    """Check whether a living process holds scratch for ``run_id``.

    What dead ones left is deleted first.

    Raises:
        CausalveilError: the scratch root is open to other users.
    """
    clean()
    return any(entry.name.rpartition(".")[0] == _stem(run_id) for entry in scratch_root().iterdir() if entry.is_dir())


def _stem(run_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", run_id)[:80]


def clean() -> int:
    """Delete the scratch folders that no living process holds; return how many."""
    root = scratch_root()
    names = {entry.name.removesuffix(_LOCK) for entry in root.iterdir()}
    return sum(_delete_if_stale(root / name) for name in sorted(names))


def _locked_folder(stem: str) -> tuple[Path, int]:
    """Take the lock before the folder exists: ``clean`` never meets a living run's folder unlocked."""
    while True:
        folder = scratch_root() / f"{stem}.{uuid4().hex}"
        path = folder.with_name(folder.name + _LOCK)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A clean that ran between open and flock has deleted the file: then this lock guards nothing.
        if _is_same_file(lock, path):
            folder.mkdir(mode=0o700)
            return folder, lock
        os.close(lock)


def _delete_if_stale(folder: Path) -> int:
    path = folder.with_name(folder.name + _LOCK)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        found = folder.is_dir()
        if found:
            shutil.rmtree(folder)
        if _is_same_file(lock, path):
            path.unlink()
        return int(found)
    finally:
        os.close(lock)


def _is_same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
