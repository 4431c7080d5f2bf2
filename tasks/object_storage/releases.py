"""Releases in object storage: files that were written here are put there, the release only where no other lies."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.release import RELEASE_FILE
from causalveil.tasks.object_storage.lock import conditional_store, why


def refuse_unwritable(url: str) -> None:
    """Check that a release could be put at a URL, before budget is reserved for it.

    An empty object is put and removed.

    Raises:
        StudyError: another release lies there.
        CausalveilError: the store does not answer, or refuses.
    """
    from obstore import delete, put

    problem, taken = None, False
    try:
        store, name = conditional_store(url), f".{uuid4().hex}.partial"
        taken = _there(url) is not None
        if not taken:
            put(store, name, b"", mode="create")
            delete(store, name)
    except Exception as failure:
        problem = why(url, failure)
    if problem is not None:
        raise CausalveilError(f"{problem}; nothing was reserved")
    if taken:
        raise StudyError(_taken(url))


def put_release(folder: Path, url: str) -> None:
    """Put the files of a release's folder at a URL.

    The release comes first, and only if none lies there but the same.

    Raises:
        StudyError: another release lies there.
        CausalveilError: the store does not answer, refuses, or holds other bytes than were sent.
    """
    from obstore import exceptions, put

    problem, taken = None, False
    try:
        store = conditional_store(url)
        for name in (RELEASE_FILE, *sorted(one.name for one in folder.iterdir() if one.name.startswith("answers."))):
            content = (folder / name).read_bytes()
            try:
                put(store, name, content, mode="create" if name == RELEASE_FILE else "overwrite")
            except exceptions.AlreadyExistsError:
                taken = _there(url) != content
            if taken:
                break
    except Exception as failure:
        problem = why(url, failure)
    if problem is not None:
        raise CausalveilError(f"{problem}; the release is in {folder / RELEASE_FILE}, and in the ledger")
    if taken:
        raise StudyError(f"{_taken(url)} (this run is in the ledger)")


def _there(url: str) -> bytes | None:
    """Return the release at a URL; None if none lies there."""
    from obstore import get

    try:
        return bytes(get(conditional_store(url), RELEASE_FILE).bytes())
    except FileNotFoundError:
        return None


def _taken(url: str) -> str:
    return f"{url.rstrip('/')}/{RELEASE_FILE}: another release lies there; choose another --out"
