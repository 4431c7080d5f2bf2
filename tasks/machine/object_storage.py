"""Read Parquet files in object storage, and copy a data folder from there and back.

``s3://``, ``gs://`` and ``abfs://`` are read by pyarrow's file systems. Errors of stores are reported in our own words,
because their texts may quote paths, keys, addresses and values. Credentials are the operator's, where the file systems
look for them (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL`` and the like); none stands in source.yaml, and a URL with
credentials is refused. Objects have no links to be followed.

A data folder in object storage is worked on as a verified copy on this machine's disk, since rows are read through an
open folder, which no store has. So a URL in ``data.path``, ``to`` or on the command line of ``admit`` and ``ledger
grant`` is copied into scratch, and the copy is opened. All of the folder's objects lie there as long as the process, on
the encrypted disk that scratch is meant to lie on. Times of change are those of the objects, so a copy is the same
folder on every machine. The files of an extract or an admission are written back, block by block, behind the mark of an
unfinished folder. Reads are held to the digests of the admission as in any folder.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from pyarrow import fs

from causalveil.schemas.contract import CONTRACT_FILE
from causalveil.schemas.documents import is_stored
from causalveil.schemas.errors import (
    CausalveilError,
    ContractError,
    DataError,
    StudyError,
    in_own_words,
    shown_as,
)
from causalveil.tasks.machine.files import whole_file
from causalveil.tasks.machine.folders import refuse_table
from causalveil.tasks.machine.site import open_scratch
from causalveil.tasks.machine.stored_writes import alone_at, refuse_lost
from causalveil.tasks.warehouse.extract import UNFINISHED_FILE


@dataclass(frozen=True, eq=False)
class StoredFile:
    """An object, with size and time of change when it was listed."""

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
    """List the files of an ending below a URL, or the file that it names, in order of names.

    Raises:
        DataError: they are an open table's.
        CausalveilError: the store does not answer, refuses, or has nothing there.
    """
    with in_our_words(url):
        store, path = file_system(url)
        for folder in (path, *map(str, PurePosixPath(path).parents)):
            if folder not in (".", "/"):
                refuse_table_in(store, folder)
        named = store.get_file_info(path)
        if named.type == fs.FileType.File:
            return [StoredFile(url, store, path, *_facts(named))]
        listed = store.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
        files = [
            info
            for info in sorted(listed, key=lambda info: info.path)
            if info.type == fs.FileType.File
            and info.path.endswith(f".{ending}")
            and not any(part.startswith((".", "_")) for part in PurePosixPath(info.path).relative_to(path).parts)
        ]
        folders = {str(parent) for info in files for parent in PurePosixPath(info.path).parents}
        for folder in sorted(folders):
            if folder.startswith(f"{path.rstrip('/')}/"):
                refuse_table_in(store, folder)
        return [StoredFile(url, store, info.path, *_facts(info), root=path) for info in files]


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
    """Describe errors of a store without its own texts, which may quote keys and addresses."""
    done = "written" if writes else "read"
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


# Files that are written last, in this order: each vouches for those before it.
_LAST = ("_manifest.json", "_admission.json", "_ledger.json")
_CHUNK = 1 << 22
# Bytes of a disk that are left free beside a copy.
_ROOM = 1 << 28

Facts = tuple[int, int | None]


@dataclass
class _Copy:
    """The copy of a URL in this process, with the facts of its objects and files."""

    url: str
    folder: Path
    held: ExitStack
    process: int
    objects: dict[str, Facts] = field(default_factory=dict)
    files: dict[str, tuple[int, int]] = field(default_factory=dict)

    def forget(self) -> None:
        # A forked child inherits exit functions, and must not delete its parent's copies.
        if os.getpid() == self.process:
            self.held.close()


_COPIES: dict[str, _Copy] = {}


def local_copy(url: str, *, new: bool = False) -> Path:
    """Return a folder with the present objects below a URL; it is deleted when the process ends.

    Args:
        url: of the folder.
        new: whether the folder may be empty.

    Raises:
        StudyError: there is no such folder.
        ContractError: a folder above it is another dataset's.
        DataError: it is an open table, has names that no folder holds, or an object changed while it was copied.
        CausalveilError: the store does not answer, refuses, or the disk has no room for it.
    """
    url = url.rstrip("/")
    copy = _COPIES.get(url)
    if copy is None or copy.process != os.getpid() or not copy.folder.is_dir():
        held = ExitStack()
        # A digest, since the name of a bucket may be confidential.
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
        StudyError: it is another URL, or holds credentials.
    """
    try:
        return isinstance(place, str) and is_stored(place)
    except ValueError as problem:
        raise StudyError(f"this place {problem}") from None


def copy_at(folder: Path) -> _Copy | None:
    """Return the copy in a folder; None if the folder is no copy."""
    return next((copy for copy in _COPIES.values() if copy.folder.resolve() == folder.resolve()), None)


def publish(folder: Path) -> None:
    """Write the changes in a copy back to the store; do nothing for other folders.

    Rows go first, and their manifests last. While rows change the store has the mark of an unfinished extract.

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
        for path in sorted(gone, key=lambda path: path == UNFINISHED_FILE):
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
    """Write one object, and note its facts in the copy."""
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
    """Copy objects that are new or changed, and remove files whose objects are gone."""
    store, root = _opened(copy.url)
    for above in (root, *map(str, PurePosixPath(root).parents)):
        if above not in (".", "/"):
            refuse_table_in(store, above)
    _refuse_nested(copy.url, store, root)
    listed = store.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
    # Names as the store has them: as a path of this machine `a//b` and `a/./b` would be `a/b`, which is another object.
    files = {info.path.removeprefix(f"{root}/"): info for info in listed if info.type == fs.FileType.File}
    files = {path: info for path, info in files.items() if not any(part[0] == "." for part in _parts(copy.url, path))}
    folders = {str(parent) for path in files for parent in PurePosixPath(path).parents} - {"."}
    if not folders.isdisjoint(files):
        raise DataError(f"{copy.url}: an object there has the name of a folder of others; take it out")
    if not files and not new:
        raise StudyError(f"{copy.url}: no such data folder, and so no contract; check 'data.path' of the study")
    for folder in sorted(folders):
        refuse_table_in(store, f"{root}/{folder}")
    wanted = {path: _facts(info) for path, info in files.items() if not _hidden(path)}
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

    Arrow reads keys of S3 from the environment itself. Keys of Azure are read here, from the variables that Delta
    tables and the lock of a folder use; without a key Arrow asks for the identity of the machine.
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
            f"{service}_storage_{part}": value
            for service in ("blob", "dfs")
            for part, value in (("authority", authority), ("scheme", scheme))
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


def _hidden(path: str) -> bool:
    """Check whether a file lies below a name that begins with an underscore: it then holds no rows."""
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
    status = path.stat()
    return status.st_size, status.st_mtime_ns
