"""Write to object storage: one writer of a folder at a time, and releases put there.

Stores keep no locks, but put an object only if there is none of that name, or only if it is still the version that was
read. The writer holds such an object, renews it, and checks before each block that it is still its own. A holder that
died is detected at once on its own machine, where a lock of the operating system ends with the process, and elsewhere
by an object that was not renewed. Readers need no lock: their reads are held to digests.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from obstore import delete, exceptions, get, head, put
from obstore.store import from_url

from causalveil.schemas.contract import CONTRACT_FILE
from causalveil.schemas.errors import CausalveilError, StudyError, in_own_words, kind_of
from causalveil.schemas.hints import option
from causalveil.schemas.release import RELEASE_FILE
from causalveil.tasks.machine.folders import FolderIdentity
from causalveil.tasks.machine.site import home, host, machine_lock

# No file of this name is ever copied: it begins with a dot.
LOCK = ".writer.lock"
RENEWED = timedelta(minutes=1)
# Stores refuse requests of a clock that is a quarter of an hour off, so clocks of two machines differ by less.
ABANDONED = timedelta(minutes=15) + 5 * RENEWED
# A busy store is asked a few times, not for three minutes.
_EMULATOR = "AZURE_STORAGE_USE_EMULATOR"
PATIENCE: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}


@dataclass
class StoreLock:
    """This process's lock of a URL, and the version of its object."""

    url: str
    store: Any
    content: bytes
    version: dict[str, str]
    lost: str | None = None
    _renewing: threading.Lock = field(default_factory=threading.Lock)

    def renew(self) -> None:
        """Write the object anew; the store refuses that if another writer has written it.

        Raises:
            CausalveilError: another writer took the lock over, or the store does not answer.
        """
        failed: str | None = None
        with self._renewing:
            if self.lost is None:
                try:
                    self.version = _version(put(self.store, LOCK, self.content, mode=_mode(self.version)))
                except exceptions.PreconditionError as problem:
                    self.lost = why(self.url, problem)
                except Exception as problem:
                    failed = why(self.url, problem)
            failed = self.lost or failed
        if failed is not None:
            raise CausalveilError(failed)

    def release(self) -> None:
        """Remove the object, if it is still this process's."""
        with suppress(CausalveilError):
            self.renew()
            with suppress(Exception):
                delete(self.store, LOCK)


_HELD: dict[str, StoreLock] = {}


@contextmanager
def alone_at(url: str) -> Iterator[None]:
    """Hold a URL for this process until the block is left.

    Inside a block of the same URL it is held already.

    Raises:
        CausalveilError: another writer holds it, or the store does not answer, refuses, or knows no conditional put.
    """
    url = url.rstrip("/")
    if url in _HELD:
        yield
        return
    handle = _local(url)
    stop = threading.Event()
    try:
        lock = _HELD[url] = _taken(url)
        atexit.register(_forget, lock, os.getpid())
        threading.Thread(target=_keep, args=(lock, stop), daemon=True).start()
        try:
            yield
        finally:
            stop.set()
            _HELD.pop(url, None)
            lock.release()
    finally:
        os.close(handle)


def refuse_lost(url: str) -> None:
    """Refuse to write where another writer took over, as it may after a long pause.

    Raises:
        CausalveilError: one did.
    """
    lock = _HELD.get(url)
    if lock is not None:
        lock.renew()


def _forget(lock: StoreLock, process: int) -> None:
    if os.getpid() == process and _HELD.pop(lock.url, None) is lock:
        lock.release()


def _keep(lock: StoreLock, stop: threading.Event) -> None:
    while not stop.wait(RENEWED.total_seconds()):
        # A store that does not answer now may answer a minute later; a lock that was taken over stays lost.
        with suppress(CausalveilError):
            lock.renew()


def _local(url: str) -> int:
    """Open this machine's own lock of a URL, which ends with the process that holds it."""
    handle = machine_lock(hashlib.sha256(url.encode()).hexdigest()[:16])
    if handle is None:
        raise CausalveilError(f"{url}: another process of this machine writes there; let it end")
    return handle


def _taken(url: str) -> StoreLock:
    """Create the lock's object, or replace that of a holder that died."""
    place = _here()
    content = json.dumps({"host": host(), "place": place, "writer": uuid4().hex}).encode()
    with in_own_words(lambda failure: CausalveilError(why(url, failure)), Exception):
        store = conditional_store(url)
        try:
            return StoreLock(url, store, content, _version(put(store, LOCK, content, mode="create")))
        except exceptions.AlreadyExistsError:
            held = get(store, LOCK)
            facts: Any = held.meta
            holder = _holder(bytes(held.bytes()))
        age = datetime.now(UTC) - facts["last_modified"]
        if holder.get("place") == place or age > ABANDONED:
            version = _version(facts)
            return StoreLock(url, store, content, _version(put(store, LOCK, content, mode=_mode(version))))
    raise CausalveilError(
        f"{url}: an extract or an admission on {holder.get('host') or 'another machine'} writes there; let it end. If "
        f"it was killed, run this again there, or elsewhere {int(ABANDONED.total_seconds() // 60)} minutes later"
    )


def _here() -> list[Any]:
    """Identify the state folder: processes with the same share its lock of the operating system too."""
    handle = os.open(home(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return list(FolderIdentity.of(handle))
    finally:
        os.close(handle)


def _holder(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content[:10_000])
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _version(facts: Any) -> dict[str, str]:
    return {key: facts[key] for key in ("e_tag", "version") if facts.get(key)}


def _mode(version: dict[str, str]) -> Any:
    if not version:
        raise CausalveilError("the store tells no versions")
    return version


def conditional_store(url: str) -> Any:
    """Open a URL by the library with conditional puts; credentials are the operator's."""
    address = os.environ.get("AWS_ENDPOINT_URL", "") if url.startswith("s3:") else os.environ.get(_EMULATOR, "")
    plain = address.startswith("http://") or address.lower() in ("1", "true")
    options: Any = {"allow_http": plain}
    place = url.replace("gcs://", "gs://", 1)
    return from_url(place, client_options=options, retry_config=PATIENCE)


def why(url: str, problem: Exception) -> str:
    """Say why an object cannot be put, without the store's text, which may quote keys."""
    if isinstance(problem, exceptions.AlreadyExistsError | exceptions.PreconditionError):
        return f"{url}: another extract or admission has begun to write there; this one stops, and nothing is lost"
    if isinstance(problem, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError | PermissionError):
        why = "the store refuses the operator's credentials, or they may not write this"
    elif isinstance(problem, exceptions.NotFoundError | FileNotFoundError):
        why = "there is no such bucket"
    elif isinstance(problem, exceptions.NotSupportedError):
        why = "the store knows no conditional put, and without one two writers could not be kept apart"
    else:
        why = (
            f"the store does not answer, or answered something else; is its address in the environment? Run it again "
            f"({kind_of(problem)})"
        )
    return f"{url}: cannot be written: {why}"


def refuse_unwritable(url: str) -> None:
    """Check that a release could be put at a URL, before budget is reserved for it.

    An empty object is put and removed.

    Raises:
        StudyError: another release lies there.
        CausalveilError: the store does not answer, or refuses.
    """
    with in_own_words(lambda failure: CausalveilError(f"{why(url, failure)}; nothing was reserved")):
        store, name = conditional_store(url), f".{uuid4().hex}.partial"
        if _release_at(url) is not None:
            raise StudyError(_other_release(url))
        put(store, name, b"", mode="create")
        delete(store, name)


def dataset_around_url(url: str) -> str | None:
    """Return the URL of the data folder in which ``url`` lies; None if in none.

    Files below a name that begins with a dot or an underscore are not in it, as in any data folder.

    Raises:
        CausalveilError: the store does not answer.
    """
    scheme, _, rest = url.partition("://")
    parts = [part for part in rest.split("/") if part]
    with in_own_words(lambda failure: CausalveilError(why(url, failure))):
        for number in range(len(parts), 0, -1):
            if any(part.startswith((".", "_")) for part in parts[number:]):
                return None
            above = f"{scheme}://{'/'.join(parts[:number])}"
            if _holds(above, CONTRACT_FILE):
                return above
    return None


def _holds(url: str, name: str) -> bool:
    """Return whether there is an object that the operator's credentials may read."""
    try:
        head(conditional_store(url), name)
    except (FileNotFoundError, PermissionError, exceptions.NotFoundError, exceptions.PermissionDeniedError):
        return False
    return True


def put_release(folder: Path, url: str) -> None:
    """Put the files of a release's folder at a URL.

    The release comes first, and only if no other release lies there.

    Raises:
        StudyError: another release lies there.
        CausalveilError: the store does not answer, refuses, or holds other bytes than were sent.
    """
    local = f"the release is in {folder / RELEASE_FILE}, and in the ledger"
    with in_own_words(lambda failure: CausalveilError(f"{why(url, failure)}; {local}")):
        store = conditional_store(url)
        for name in (RELEASE_FILE, *sorted(path.name for path in folder.glob("answers.*"))):
            content = (folder / name).read_bytes()
            try:
                put(store, name, content, mode="create" if name == RELEASE_FILE else "overwrite")
            except exceptions.AlreadyExistsError:
                if _release_at(url) != content:
                    raise StudyError(f"{_other_release(url)} (this run is in the ledger)") from None


def _release_at(url: str) -> bytes | None:
    """Return the release at a URL; None if there is none."""
    try:
        return bytes(get(conditional_store(url), RELEASE_FILE).bytes())
    except FileNotFoundError:
        return None


def _other_release(url: str) -> str:
    return f"{url.rstrip('/')}/{RELEASE_FILE}: another release lies there; choose another {option('out')}"
