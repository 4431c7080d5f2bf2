"""Read from object storage, and write to it.

Read Parquet files in object storage, or copy a data folder from there and back.
``s3://``, ``gs://`` and ``abfs://`` are read by pyarrow's file systems. Errors of stores are told in our own words,
because their texts may quote paths, keys, addresses and values. Credentials are the operator's, where the file systems
look for them (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL`` and the like); none stands in source.yaml, and a URL with one
in it is refused. Objects have no links to be followed.

A data folder in object storage is worked on as a verified copy on this machine's disk. The one door to rows holds an
open folder, which no store has. So a URL in ``data.path``, ``to`` or on the command line of ``admit`` and ``ledger
grant`` is copied into scratch, and the copy is opened. It is there as long as the process: for all of the folder's
objects, on the encrypted disk that scratch is meant to lie on. Times of change are those of the objects, so a copy is
the same folder on every machine. What an extract or an admission writes goes back, block by block, behind the mark of
an unfinished folder. Reads are held to the digests of the admission as in any folder.

Write to object storage: one writer of a folder at a time, and releases put there.
Stores keep no locks, but put an object only if there is none of that name, or only if it is still the one that was
read. The writer holds such an object, renews it, and looks before each block whether it is still its own. A holder that
died is recognised at once on its own machine, where a lock of the operating system ends with the process, and elsewhere
by an object that was not renewed. Readers need no lock: what they read is held to digests.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import uuid4

from obstore import delete, exceptions, get, head, put
from obstore.store import from_url
from pyarrow import fs

from causalveil.schemas.contract import CONTRACT_FILE
from causalveil.schemas.documents import is_stored
from causalveil.schemas.errors import (
    CausalveilError,
    ContractError,
    DataError,
    StudyError,
    in_own_words,
    kind_of,
    shown_as,
)
from causalveil.schemas.hints import option
from causalveil.schemas.release import RELEASE_FILE
from causalveil.tasks.machine.files import whole_file
from causalveil.tasks.machine.folders import FolderIdentity, refuse_table
from causalveil.tasks.machine.site import home, host, machine_lock, open_scratch
from causalveil.tasks.warehouse.extract import UNFINISHED_FILE


@dataclass(frozen=True, eq=False)
class StoredFile:
    """An object, and what its store said of it when it was listed."""

    url: str
    store: Any
    path: str
    size: int
    modified: int | None
    root: str = ""

    @property
    def name(self) -> str:
        """Return the last part of its name."""
        return PurePosixPath(self.path).name

    def refuse_changed(self) -> None:
        """Refuse an object that was replaced since it was listed.

        Raises:
            DataError: it was.
        """
        if _facts(self.store.get_file_info(self.path)) != (self.size, self.modified):
            raise DataError(f"{self.name}: was changed while it was read; run the extract again")


def arrow_place(where: Path | StoredFile) -> dict[str, Any]:
    """Return the path and the file system by which Arrow opens a file."""
    if isinstance(where, StoredFile):
        return {"source": where.path, "filesystem": where.store}
    return {"source": str(where), "filesystem": None}


def stored_files(url: str, ending: str) -> list[StoredFile]:
    """List the files of an ending below a URL, or the one that it names, in order of names.

    Raises:
        DataError: they are an open table's.
        CausalveilError: the store does not answer, refuses, or has nothing there.
    """
    with in_our_words(url):
        store, path = file_system(url)
        for folder in (path, *map(str, PurePosixPath(path).parents)):
            if folder not in (".", "/"):
                refuse_table_in(store, folder)
        one = store.get_file_info(path)
        if one.type == fs.FileType.File:
            return [StoredFile(url, store, path, *_facts(one))]
        found = store.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
        kept = [
            info
            for info in found
            if info.type == fs.FileType.File
            and info.path.endswith(f".{ending}")
            and not any(part.startswith((".", "_")) for part in PurePosixPath(info.path).relative_to(path).parts)
        ]
        below = {str(parent) for info in kept for parent in PurePosixPath(info.path).parents}
        for folder in sorted(one for one in below if one.startswith(f"{path.rstrip('/')}/")):
            refuse_table_in(store, folder)
        return [
            StoredFile(url, store, info.path, *_facts(info), root=path)
            for info in sorted(kept, key=lambda info: info.path)
        ]


def opened(where: Path | StoredFile) -> AbstractContextManager[None]:
    """Return a context for reading a file that raises a store's errors in our words.

    An object that changed meanwhile is an error as well.

    Raises:
        DataError: the object was replaced meanwhile.
        CausalveilError: the store does not answer.
    """
    return _reading(where) if isinstance(where, StoredFile) else nullcontext()


@contextmanager
def _reading(file: StoredFile) -> Iterator[None]:
    with in_our_words(file.url):
        yield
        file.refuse_changed()


def in_our_words(url: str, *, writes: bool = False) -> AbstractContextManager[None]:
    """Say what is wrong with a store without its own texts, which may quote keys and addresses."""
    done = "written" if writes else "read"
    # Of Arrow, which has OSError for all that a store may answer.
    return in_own_words(
        lambda error: CausalveilError(f"{url}: cannot be {done}: {_why(str(error))} ({type(error).__name__})")
    )


def _why(text: str) -> str:
    if "ACCESS_DENIED" in text or "Forbidden" in text or "HTTP status 403" in text:
        return "the store refuses the operator's credentials, or they may not list, read or write this"
    if "NO_SUCH_BUCKET" in text or "Path does not exist" in text or "does not exist" in text:
        return "there is no such bucket or object"
    return "the store does not answer, or answered something else; is its address in the environment? Run it again"


def _facts(info: Any) -> tuple[int, int | None]:
    return int(info.size or 0), info.mtime_ns


def refuse_table_in(store: Any, folder: str) -> None:
    """Refuse an open table in a store: its log says which of its files count.

    Raises:
        DataError: it is one.
    """

    def names(name: str) -> list[str]:
        return [info.base_name for info in store.get_file_info(fs.FileSelector(f"{folder}/{name}"))]

    refuse_table(
        Path(folder), lambda name: store.get_file_info(f"{folder}/{name}").type == fs.FileType.Directory, names
    )


# What is written last, and in this order: each vouches for what came before it.
_LAST = ("_manifest.json", "_admission.json", "_ledger.json")
_CHUNK = 1 << 22
# What of a disk is left free beside a copy.
_ROOM = 1 << 28

Facts = tuple[int, int | None]


@dataclass
class _Copy:
    """The copy of one URL in this process, and which objects it holds."""

    url: str
    folder: Path
    held: ExitStack
    process: int
    objects: dict[str, Facts] = field(default_factory=dict)
    files: dict[str, tuple[int, int]] = field(default_factory=dict)

    def forget(self) -> None:
        # A child that was forked has its parent's exit functions, and its parent's copies are not its own.
        if os.getpid() == self.process:
            self.held.close()


_COPIES: dict[str, _Copy] = {}


def local_copy(url: str, *, new: bool = False) -> Path:
    """Return a folder that holds what lies below a URL by now; it is gone when the process ends.

    Args:
        url: of the folder.
        new: whether nothing need lie there yet.

    Raises:
        StudyError: nothing lies there.
        ContractError: a folder above it is another dataset's.
        DataError: it is an open table, has names that no folder holds, or an object changed while it was copied.
        CausalveilError: the store does not answer, refuses, or the disk has no room for it.
    """
    url = url.rstrip("/")
    copy = _COPIES.get(url)
    if copy is None or copy.process != os.getpid() or not copy.folder.is_dir():
        held = ExitStack()
        # The name of a bucket may tell something; a digest of it tells nothing.
        name = f"copy-{hashlib.sha256(url.encode()).hexdigest()[:16]}"
        copy = _Copy(url, held.enter_context(open_scratch(name)), held, os.getpid())
        _COPIES[url] = copy
        shown_as(copy.folder, url)
        atexit.register(copy.forget)
    with in_our_words(url):
        _fetch(copy, new)
    return copy.folder


@contextmanager
def folder_at(place: str | Path) -> Iterator[Path]:
    """Yield the folder of a path, or the copy of a URL, which is written back at the end.

    Raises:
        CausalveilError: see :func:`local_copy` and :func:`publish`.
    """
    if not stored(place):
        yield Path(place)
        return
    with alone_at(str(place)):
        folder = local_copy(str(place))
        yield folder
        publish(folder)


def stored(place: str | Path) -> bool:
    """Tell whether a place is a URL of object storage.

    Raises:
        StudyError: it is a URL of something else, or holds credentials.
    """
    try:
        return isinstance(place, str) and is_stored(place)
    except ValueError as problem:
        raise StudyError(f"this place {problem}") from None


def copy_at(folder: Path) -> _Copy | None:
    """Return the copy that lies in a folder; None of any other folder."""
    return next((one for one in _COPIES.values() if one.folder.resolve() == folder.resolve()), None)


def publish(folder: Path) -> None:
    """Bring into the store what changed in the copy that a folder is.

    Nothing of any other folder is published.

    Rows go first, and what vouches for them last. While rows change the store has the mark of an unfinished extract.

    Raises:
        CausalveilError: the store does not answer, or refuses.
    """
    copy = copy_at(folder)
    if copy is None:
        return
    refuse_lost(copy.url)
    with in_our_words(copy.url, writes=True):
        store, root = _opened(copy.url)
        now = {path: _state(copy.folder / path) for path in _files(copy.folder)}
        changed = [path for path, state in now.items() if copy.files.get(path) != state]
        gone = [path for path in copy.files if path not in now]
        rows = [path for path in (*changed, *gone) if "/" in path]
        if rows and UNFINISHED_FILE not in copy.files:
            _put(copy, store, root, UNFINISHED_FILE, b"")
        for path in sorted(changed, key=_order):
            if path != UNFINISHED_FILE:
                _put(copy, store, root, path)
        for path in sorted(gone, key=lambda one: one == UNFINISHED_FILE):
            store.delete_file(f"{root}/{path}")
            copy.objects.pop(path, None)
            copy.files.pop(path)
        if UNFINISHED_FILE not in now and UNFINISHED_FILE in copy.objects:
            store.delete_file(f"{root}/{UNFINISHED_FILE}")
            copy.objects.pop(UNFINISHED_FILE)
            copy.files.pop(UNFINISHED_FILE, None)


def _order(path: str) -> tuple[int, str]:
    return (1 + _LAST.index(path) if path in _LAST else 0, path)


def _put(copy: _Copy, store: Any, root: str, path: str, content: bytes | None = None) -> None:
    """Write one object, and note it as what the copy holds."""
    with store.open_output_stream(f"{root}/{path}") as stream:
        if content is not None:
            stream.write(content)
        else:
            with (copy.folder / path).open("rb") as file:
                while chunk := file.read(_CHUNK):
                    stream.write(chunk)
    facts = _facts(store.get_file_info(f"{root}/{path}"))
    copy.objects[path] = facts
    if content is None:
        if facts[1] is not None:
            # The same times on every machine.
            os.utime(copy.folder / path, ns=(facts[1], facts[1]))
        copy.files[path] = _state(copy.folder / path)
    else:
        copy.files.setdefault(path, (-1, -1))


def _fetch(copy: _Copy, new: bool) -> None:
    """Bring the copy to what the store has: objects that are new or changed are copied, those that went are removed."""
    store, root = _opened(copy.url)
    for above in (root, *map(str, PurePosixPath(root).parents)):
        if above not in (".", "/"):
            refuse_table_in(store, above)
    _refuse_nested(copy.url, store, root)
    listed = store.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
    # As the store has them: a path of this machine would take `a//b` and `a/./b` for `a/b`, which is another object.
    found = {one.path.removeprefix(f"{root}/"): one for one in listed if one.type == fs.FileType.File}
    found = {path: one for path, one in found.items() if not any(part[0] == "." for part in _parts(copy.url, path))}
    _refuse_files_as_folders(copy.url, found)
    if not found and not new:
        raise StudyError(f"{copy.url}: no such data folder, and so no contract; check 'data.path' of the study")
    for folder in sorted({str(parent) for path in found for parent in PurePosixPath(path).parents} - {"."}):
        refuse_table_in(store, f"{root}/{folder}")
    wanted = {path: _facts(one) for path, one in found.items() if not _hidden(path)}
    fresh = [path for path, facts in wanted.items() if copy.objects.get(path) != facts]
    _refuse_without_room(copy, sum(wanted[path][0] for path in fresh))
    for path in [path for path in copy.objects if path not in wanted]:
        (copy.folder / path).unlink(missing_ok=True)
        copy.objects.pop(path)
        copy.files.pop(path, None)
    for path in fresh:
        _get(copy, store, root, path, wanted[path])


def _get(copy: _Copy, store: Any, root: str, path: str, facts: Facts) -> None:
    place = copy.folder / path
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    size = 0
    with store.open_input_stream(f"{root}/{path}") as stream, whole_file(place, mode=0o600) as file:
        while chunk := stream.read(_CHUNK):
            size += len(chunk)
            file.write(chunk)
    if size != facts[0] or _facts(store.get_file_info(f"{root}/{path}")) != facts:
        place.unlink(missing_ok=True)
        raise DataError(f"{copy.url}/{path}: was changed while it was copied; run it again")
    if facts[1] is not None:
        os.utime(place, ns=(facts[1], facts[1]))
    copy.objects[path], copy.files[path] = facts, _state(place)


def _opened(url: str) -> tuple[Any, str]:
    store, path = file_system(url)
    return store, path.rstrip("/")


def file_system(url: str) -> tuple[Any, str]:
    """Open the file system of a URL; returns it and the path in it.

    Arrow reads keys of S3 from the environment itself. Those of Azure are read here, under the names that Delta tables
    and the lock of a folder read them by; without a key Arrow asks for the identity of the machine.
    """
    account = re.fullmatch(r"abfss?://([^@/]+)@([^./]+)\.[^/]+/(.*)", url)
    key = os.environ.get("AZURE_STORAGE_ACCOUNT_KEY")
    if account is None or key is None:
        store, path = fs.FileSystem.from_uri(url)
        return store, str(path)
    place: dict[str, str] = {}
    if os.environ.get("AZURE_STORAGE_USE_EMULATOR", "").lower() in ("1", "true"):
        address = os.environ.get("AZURITE_BLOB_STORAGE_URL", "http://127.0.0.1:10000")
        scheme, _, authority = address.partition("://")
        place = {
            f"{one}_storage_{what}": said
            for one in ("blob", "dfs")
            for what, said in (("authority", authority), ("scheme", scheme))
        }
    container, name, path = account.groups()
    return fs.AzureFileSystem(name, account_key=key, **place), f"{container}/{path}"


def _parts(url: str, path: str) -> tuple[str, ...]:
    """Return the parts of an object's name below the folder.

    Raises:
        DataError: one of them is no name of a file.
    """
    parts = tuple(path.split("/"))
    if any(part in ("", ".", "..") or "\0" in part or len(part.encode()) > 255 for part in parts):
        raise DataError(f"{url}: an object there has a name that no folder can hold; take it out")
    return parts


def _refuse_files_as_folders(url: str, paths: Iterable[str]) -> None:
    """Refuse an object whose name others have for their folder, which no folder of this machine can hold.

    Raises:
        DataError: there is one.
    """
    found = set(paths)
    if any(str(parent) in found for path in found for parent in PurePosixPath(path).parents):
        raise DataError(f"{url}: an object there has the name of a folder of others; take it out")


def _hidden(path: str) -> bool:
    """Check whether a file lies below a name that begins with an underscore, as jobs leave them.

    Rows are not looked for there.
    """
    return any(part.startswith("_") for part in path.split("/")[:-1])


def _refuse_nested(url: str, store: Any, root: str) -> None:
    for above in PurePosixPath(root).parents:
        if str(above) != "." and store.get_file_info(f"{above}/{CONTRACT_FILE}").type == fs.FileType.File:
            raise ContractError(
                f"{url}: lies inside the folder of another dataset, which has a {CONTRACT_FILE}; datasets do not nest, "
                "so move one of them out"
            )


def _refuse_without_room(copy: _Copy, size: int) -> None:
    free = shutil.disk_usage(copy.folder).free
    if size + _ROOM > free:
        raise CausalveilError(
            f"{copy.url}: {size / 1e9:,.1f} GB are to be copied, and the scratch folder's disk has {free / 1e9:,.1f} "
            "free; let CAUSALVEIL_SCRATCH name a folder on a larger one"
        )


def _files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in inner.parts) and inner.name != "_extract.lock":
            yield inner.as_posix()


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


# No file of this name is ever copied: it begins with a dot.
LOCK = ".writer.lock"
RENEWED = timedelta(minutes=1)
# Stores refuse requests of a clock that is a quarter of an hour off, so another machine's may differ by that much.
ABANDONED = timedelta(minutes=15) + 5 * RENEWED
# A store that is busy is asked a few times, not for three minutes.
_EMULATOR = "AZURE_STORAGE_USE_EMULATOR"
PATIENCE: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}


@dataclass
class StoreLock:
    """The lock that this process holds of a URL, and the version of its object."""

    url: str
    store: Any
    content: bytes
    version: dict[str, str]
    lost: str | None = None
    _one: threading.Lock = field(default_factory=threading.Lock)

    def renew(self) -> None:
        """Write the object anew.

        The store refuses that if it is no longer the one that this process wrote.

        Raises:
            CausalveilError: another writer took the lock over, or the store does not answer.
        """
        failed: str | None = None
        with self._one:
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
        """Take the object away, if it is still this process's."""
        with suppress(CausalveilError):
            self.renew()
            with suppress(Exception):
                delete(self.store, LOCK)


_HELD: dict[str, StoreLock] = {}


@contextmanager
def alone_at(url: str) -> Iterator[None]:
    """Hold a URL for this process until the block is left.

    Inside of a block of the same URL it is held already.

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
        # A store that does not answer now may a minute later; one that was taken over stays lost.
        with suppress(CausalveilError):
            lock.renew()


def _local(url: str) -> int:
    """Open this machine's own lock of a URL, which ends with the process that holds it."""
    handle = machine_lock(hashlib.sha256(url.encode()).hexdigest()[:16])
    if handle is None:
        raise CausalveilError(f"{url}: another process of this machine writes there; let it end")
    return handle


def _taken(url: str) -> StoreLock:
    """Create the object, or replace the one of a holder that died."""
    place = _here()
    content = json.dumps({"host": host(), "place": place, "writer": uuid4().hex}).encode()
    with in_own_words(lambda failure: CausalveilError(why(url, failure)), Exception):
        store = conditional_store(url)
        try:
            return StoreLock(url, store, content, _version(put(store, LOCK, content, mode="create")))
        except exceptions.AlreadyExistsError:
            found = get(store, LOCK)
            facts: Any = found.meta
            said = _said(bytes(found.bytes()))
        age = datetime.now(UTC) - facts["last_modified"]
        if said.get("place") == place or age > ABANDONED:
            version = _version(facts)
            return StoreLock(url, store, content, _version(put(store, LOCK, content, mode=_mode(version))))
    raise CausalveilError(_busy(url, str(said.get("host") or "another machine")))


def _busy(url: str, where: str) -> str:
    minutes = int(ABANDONED.total_seconds() // 60)
    return (
        f"{url}: an extract or an admission on {where} writes there; let it end. If it was killed, run this again "
        f"there, or elsewhere {minutes} minutes later"
    )


def _here() -> list[Any]:
    """Name the state folder of this machine: whoever has the same has its lock of the operating system too."""
    handle = os.open(home(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return list(FolderIdentity.of(handle))
    finally:
        os.close(handle)


def _said(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content[:10_000])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _version(facts: Any) -> dict[str, str]:
    return {key: facts[key] for key in ("e_tag", "version") if facts.get(key)}


def _mode(version: dict[str, str]) -> Any:
    if not version:
        raise CausalveilError("the store tells no versions")
    return version


def conditional_store(url: str) -> Any:
    """Open what lies below a URL by the library that knows conditional puts.

    Credentials are the operator's.
    """
    address = os.environ.get("AWS_ENDPOINT_URL", "") if url.startswith("s3:") else os.environ.get(_EMULATOR, "")
    plain = address.startswith("http://") or address.lower() in ("1", "true")
    options: Any = {"allow_http": plain}
    place = url.replace("gcs://", "gs://", 1)
    return from_url(place, client_options=options, retry_config=PATIENCE)


def why(url: str, problem: Exception) -> str:
    """Say why nothing could be put.

    The store's own text may quote keys and addresses, so it is left out.
    """
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
        if _there(url) is not None:
            raise StudyError(_other_release(url))
        put(store, name, b"", mode="create")
        delete(store, name)


def dataset_around_url(url: str) -> str | None:
    """Return the URL of the data folder in which ``url`` lies; None if in none.

    A name that begins with a dot or an underscore below it hides what lies there, as in any data folder.

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
    """Return whether an object is there that the operator's credentials may see."""
    try:
        head(conditional_store(url), name)
    except (FileNotFoundError, PermissionError, exceptions.NotFoundError, exceptions.PermissionDeniedError):
        return False
    return True


def put_release(folder: Path, url: str) -> None:
    """Put the files of a release's folder at a URL.

    The release comes first, and only if none lies there but the same.

    Raises:
        StudyError: another release lies there.
        CausalveilError: the store does not answer, refuses, or holds other bytes than were sent.
    """
    kept = f"the release is in {folder / RELEASE_FILE}, and in the ledger"
    with in_own_words(lambda failure: CausalveilError(f"{why(url, failure)}; {kept}")):
        store = conditional_store(url)
        for name in (RELEASE_FILE, *sorted(one.name for one in folder.iterdir() if one.name.startswith("answers."))):
            content = (folder / name).read_bytes()
            try:
                put(store, name, content, mode="create" if name == RELEASE_FILE else "overwrite")
            except exceptions.AlreadyExistsError:
                if _there(url) != content:
                    raise StudyError(f"{_other_release(url)} (this run is in the ledger)") from None


def _there(url: str) -> bytes | None:
    """Return the release at a URL; None if none lies there."""
    try:
        return bytes(get(conditional_store(url), RELEASE_FILE).bytes())
    except FileNotFoundError:
        return None


def _other_release(url: str) -> str:
    return f"{url.rstrip('/')}/{RELEASE_FILE}: another release lies there; choose another {option('out')}"
