"""The operator's settings, the state folder, the acting user's name, and scratch folders.

The state folder holds the site secret, the default ledger and scratch. Settings lie there in ``site.toml``, each of
them overridden by a variable of its own. The user's name is for the record.

Each run has one scratch folder of mode 0700, which is deleted when the run ends, however it ends. A run holds a lock
file beside its folder for as long as its process lives; the system drops the lock when the process dies, even by ``kill
-9``. So a folder that is not locked is stale, and :func:`clean` may delete it. Deletion is the file system's: it does
not overwrite blocks, so put the state folder on an encrypted disk.
"""

from __future__ import annotations

import fcntl
import getpass
import os
import platform
import re
import shutil
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import platformdirs

from causalveil.schemas.documents import read_text
from causalveil.schemas.errors import CausalveilError, SiteError, StudyError, in_own_words, kind_of
from causalveil.schemas.mistakes import validate
from causalveil.schemas.plan import SITE_FILE, SiteSettings

HOME_VARIABLE = "CAUSALVEIL_HOME"


def home() -> Path:
    """Return the state folder, created with mode 0700 if it is not there yet.

    It is ``$CAUSALVEIL_HOME`` if that is set, else the user's data folder for causalveil.

    Raises:
        CausalveilError: the path cannot be made a folder, or other users may write to it (then they could swap the
            site secret).
    """
    configured = os.environ.get(HOME_VARIABLE)
    folder = Path(configured).absolute() if configured else Path(platformdirs.user_data_dir("causalveil"))
    # A state folder elsewhere would have a site key of its own, and no ledger: a second budget for the same data.
    return private_folder(folder, f"let {HOME_VARIABLE} name the state folder that this account had before")


def private_folder(folder: Path, otherwise: str) -> Path:
    """Return a folder that other users may not write to, created with mode 0700 if missing.

    Args:
        folder: its path.
        otherwise: advice if its permissions cannot be mended.

    Raises:
        CausalveilError: it cannot be made a folder, or other users may write to it.
    """
    advice = "mend its permissions, or " + otherwise
    with in_own_words(lambda error: CausalveilError(f"{folder}: cannot be used ({kind_of(error)}); {advice}"), OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        open_to_others = folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if open_to_others:
        raise CausalveilError(f"{folder}: other users may write to the state folder; run: chmod go-w '{folder}'")
    return folder


# Variable: the key of site.toml that it overrides.
VARIABLES = {
    "CAUSALVEIL_LEDGER_URL": "ledger",
    "CAUSALVEIL_SHARED": "shared",
    "CAUSALVEIL_SCRATCH": "scratch",
    "CAUSALVEIL_CONCURRENCY": "concurrency",
    "CAUSALVEIL_ENGINE": "execution.engine",
    "CAUSALVEIL_RUNNER": "execution.runner",
    "CAUSALVEIL_WORKERS": "execution.workers",
    "CAUSALVEIL_ADDRESS": "execution.address",
    "CAUSALVEIL_TLS_CA": "execution.tls.ca",
    "CAUSALVEIL_TLS_CERT": "execution.tls.cert",
    "CAUSALVEIL_TLS_KEY": "execution.tls.key",
}


def site_settings() -> SiteSettings:
    """Read the settings that the operator of this machine chose, from file and environment.

    The environment overrides the file; settings in neither have their defaults.

    Raises:
        SiteError: the file or a variable is wrong. A URL may hold a password, so no value is quoted.
    """
    path = home() / SITE_FILE
    document: dict[str, Any] = {}
    if path.exists():
        with in_own_words(lambda error: SiteError(f"{path}: is not TOML ({error})"), tomllib.TOMLDecodeError):
            document = tomllib.loads(read_text(path, SiteError))
    for variable, place in VARIABLES.items():
        value = os.environ.get(variable)
        if value:
            *folders, last = place.split(".")
            inner = document
            for folder in folders:
                inner = inner.setdefault(folder, {})
            inner[last] = value
    return validate(SiteSettings, document, str(path), SiteError)


def site_folder() -> Path:
    """Return the folder by which workers of a site can go on with each other's runs.

    It holds keys, record-level values of runs under way, and manifests that could not lie beside their data. By default
    it is the state folder.

    Raises:
        SiteError: the settings are wrong.
        CausalveilError: it cannot be made, or other users may write to it.
    """
    shared = site_settings().shared
    return home() if shared is None else private_folder(shared, "let CAUSALVEIL_SHARED name another folder")


ACTOR_VARIABLE = "CAUSALVEIL_ACTOR"
LONGEST = 200


def actor() -> str:
    """Return the name under which this process works.

    It is ``CAUSALVEIL_ACTOR``, else ``actor`` of site.toml, else the login name.

    Raises:
        StudyError: the variable is not one line of at most 200 characters.
    """
    configured = os.environ.get(ACTOR_VARIABLE, site_settings().actor)
    if configured is None:
        try:
            return getpass.getuser()
        except (KeyError, OSError):  # a container's user may have no name
            return f"uid {os.getuid()}"
    if not configured.strip() or not configured.isprintable() or len(configured) > LONGEST:
        raise StudyError(f"{ACTOR_VARIABLE}: must be a line of text of at most {LONGEST} characters")
    return configured.strip()


def host() -> str:
    """Return the name of this machine."""
    return platform.node() or "unknown"


_LOCK = ".lock"


def scratch_root() -> Path:
    """Return the folder, mode 0700, that holds every run's scratch.

    It is the operator's, or ``scratch`` in the state folder.

    Raises:
        CausalveilError: it is a link, cannot be made, or other users can open it.
    """
    root = site_settings().scratch or home() / "scratch"
    with in_own_words(
        lambda error: CausalveilError(
            f"{root}: cannot be used as scratch folder ({kind_of(error)}); let CAUSALVEIL_SCRATCH name another"
        ),
        OSError,
    ):
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if root.is_symlink() or root.stat().st_mode & 0o077:
        raise CausalveilError(f"{root}: other users can open the scratch folder; run: chmod 700 '{root}'")
    return root


@contextmanager
def open_scratch(run_id: str) -> Iterator[Path]:
    """Open a new empty scratch folder for run ``run_id``.

    Its rows are gone when the block is left, by an error too.

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

    Folders of dead processes are deleted first.

    Raises:
        CausalveilError: the scratch root is open to other users.
    """
    clean()
    return any(entry.name.rpartition(".")[0] == _stem(run_id) for entry in scratch_root().iterdir() if entry.is_dir())


def _stem(run_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", run_id)[:80]


def clean() -> int:
    """Delete the scratch folders that no living process holds; return their number."""
    root = scratch_root()
    names = {entry.name.removesuffix(_LOCK) for entry in root.iterdir()}
    return sum(_delete_if_stale(root / name) for name in sorted(names))


def machine_lock(name: str) -> int | None:
    """Take a lock of this machine's state folder.

    It ends with the process or when its descriptor is closed.

    Returns:
        An open descriptor; None if another process holds the lock.
    """
    folder = private_folder(home() / "locks", "delete it")
    handle = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


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
        is_stale = folder.is_dir()
        if is_stale:
            shutil.rmtree(folder)
        if _is_same_file(lock, path):
            path.unlink()
        return int(is_stale)
    finally:
        os.close(lock)


def _is_same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
