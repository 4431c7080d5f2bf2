"""Open folders once, and tell tables with a log of their own from plain folders.

All that is listed, read or written in an open folder goes through one descriptor. Users who may rename a folder above
can put another folder at a path. A descriptor stays with the folder that was opened. Below it no link is followed, and
a file of more than one name (a hard link) is refused: it can be changed by its other name.

In another process, as on a worker of a cluster, the folder is opened anew by its path, and must be the same folder.

The log of a Delta, Iceberg or Hudi table determines its files, not the folder. Files that such a log has taken out stay
on disk until the table is cleaned up: a reader of the folder as plain Parquet would read people who were erased.
"""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property, lru_cache
from io import FileIO
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Self

from causalveil.schemas.errors import CausalveilError, DataError, StudyError, kind_of

# A file up to this size is read once, into memory, where the same bytes are digested and decoded.
SMALL_BYTES = 1 << 23
_CHUNK = 1 << 20
# Time stamps of files move in steps of at most 10 ms (a kernel's tick), twice that to be certain.
_TICK_NS = 20_000_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe in the place of a file must not block.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class FolderIdentity(NamedTuple):
    """The identity of a folder.

    Numbers of devices mean something on one machine alone, between two of its starts.
    """

    machine: str
    device: int
    inode: int

    @classmethod
    def of(cls, handle: int) -> FolderIdentity:
        """Read the identity of an open folder."""
        status = os.fstat(handle)
        return cls(machine(), status.st_dev, status.st_ino)

    def same_as(self, identity: FolderIdentity) -> bool:
        """Tell whether both are the same folder.

        Between machines that share a file system, only the inode number is compared: reads are held to digests all the
        same.
        """
        return self.inode == identity.inode and (self.machine != identity.machine or self.device == identity.device)


@lru_cache(maxsize=1)
def machine() -> str:
    """Return an id of this machine since its last start, or its host name where there is none."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


class FolderEntry(NamedTuple):
    """An entry of a folder: its path below the folder that was opened, and its kind."""

    path: str
    is_folder: bool
    is_link: bool

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return PurePosixPath(self.path).name


class _Descriptor:
    """An open descriptor that is closed when it is no longer referenced."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.number)


class OpenFile:
    """A regular file of one name, held open.

    Attributes:
        path: below the folder that was opened, for messages.
        size: bytes.
        modified: time of the last change, ns.
        mode: permissions.
    """

    def __init__(self, handle: int, path: str) -> None:
        """Take over a descriptor.

        Raises:
            DataError: it is no regular file, or has another name elsewhere.
        """
        self.path, self._descriptor = path, _Descriptor(handle)
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"{path}: is no regular file; take it out of the data folder")
        if status.st_size > SMALL_BYTES and abs(time.time_ns() - status.st_ctime_ns) < _TICK_NS:
            # A change within the same tick would not change the time stamps.
            time.sleep(_TICK_NS / 1e9)
            status = os.fstat(handle)
        self._state = _state(status)
        self.size, self.modified, self.mode = status.st_size, status.st_mtime_ns, stat.S_IMODE(status.st_mode)
        if status.st_nlink > 1:
            raise DataError(
                f"{path}: has another name elsewhere (a hard link), by which it could be changed unseen; give the data "
                "folder a copy of its own: cp FILE COPY && mv COPY FILE"
            )

    @property
    def place(self) -> str:
        """Return a path to this open file, for libraries that open files by path."""
        return f"/dev/fd/{self._descriptor.number}"

    @cached_property
    def content(self) -> bytes | None:
        """Read all bytes of a small file, once; None of a larger one.

        Raises:
            OSError: it cannot be read.
        """
        if self.size > SMALL_BYTES:
            return None
        with FileIO(self._descriptor.number, closefd=False) as file:
            file.seek(0)
            # A file that grew or shrank meanwhile has another size than this; ``changed`` is then True.
            return file.read(self.size + 1) or b""

    def chunks(self) -> Iterator[bytes | memoryview]:
        """Read the bytes in order; each piece is gone when the next is asked for.

        Raises:
            OSError: they cannot be read.
        """
        if self.content is not None:
            yield self.content
        else:
            yield from self._read()

    def _read(self) -> Iterator[memoryview]:
        with FileIO(self._descriptor.number, closefd=False) as file:
            file.seek(0)
            # Bounded, since a file may grow meanwhile without end.
            buffer, left = memoryview(bytearray(min(_CHUNK, self.size + 1))), self.size + 1
            while left and (read := file.readinto(buffer[:left])):
                left -= read
                yield buffer[:read]

    @property
    def changed(self) -> bool:
        """Tell whether a larger file was written to, renamed or linked meanwhile.

        A small file is in memory.
        """
        if self.content is not None:
            return len(self.content) != self.size
        return _state(os.fstat(self._descriptor.number)) != self._state

    def __enter__(self) -> Self:
        """Enter a block at whose end the file is closed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        del self._descriptor


def _state(status: os.stat_result) -> tuple[int, ...]:
    """Return a file's identity and state, some of which changes whenever the file is written to."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_nlink


class OpenFolder:
    """A folder that was opened once.

    Attributes:
        path: at which it was opened, links resolved; for messages, and for opening it in another process.
        identity: of the folder.
    """

    def __init__(self, path: Path) -> None:
        """Open it. A link that names the folder is followed, this once.

        Raises:
            StudyError: there is no such folder.
            DataError: it cannot be read.
        """
        self.path = path.resolve()
        self._opened: _Descriptor | None = _open(self.path)
        self.identity = FolderIdentity.of(self._opened.number)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the descriptor, which means nothing in another process."""
        return {**self.__dict__, "_opened": None}

    def __str__(self) -> str:
        """Return the path, for messages."""
        return str(self.path)

    @property
    def handle(self) -> int:
        """Return the descriptor; in another process the folder is opened anew.

        Raises:
            DataError: another folder has the path by now.
        """
        if self._opened is None:
            opened = _open(self.path)
            if not FolderIdentity.of(opened.number).same_as(self.identity):
                raise DataError(f"{self.path}: another folder lies there than the run began with; put that one back")
            self._opened = opened
        return self._opened.number

    def file(self, path: str) -> OpenFile:
        """Open a file by its path below the folder; no part of it may be a link.

        Raises:
            FileNotFoundError: nothing has this path.
            DataError: it is a link, no regular file, of several names, or cannot be opened.
        """
        *folders, name = PurePosixPath(path).parts
        at, problem = self.handle, None
        held: list[_Descriptor] = []
        try:
            for folder in folders:
                held.append(_Descriptor(os.open(folder, _FOLDER, dir_fd=at)))
                at = held[-1].number
            return OpenFile(os.open(name, _FILE, dir_fd=at), path)
        except FileNotFoundError:
            raise
        except OSError as error:
            problem = kind_of(error)
            if self.is_link(path):
                problem = "is a link, and links are not followed; put the file itself there"
            else:
                problem = f"cannot be opened ({problem}); mend its permissions"
        raise DataError(f"{path}: {problem}")

    def read(self, name: str, largest: int) -> bytes | None:
        """Read a document in the folder itself; None where there is none.

        Raises:
            DataError: it is a link, no regular file, of several names, too large, or cannot be read.
        """
        problem = None
        try:
            with self.file(name) as file:
                problem = f"larger than {largest} bytes"
                if file.size <= largest:
                    content = b"".join(bytes(chunk) for chunk in file.chunks())
                    if not file.changed:
                        return content
                    problem = "was changed while it was read"
        except FileNotFoundError:
            return None
        except OSError as error:
            problem = f"cannot be read ({kind_of(error)})"
        raise DataError(f"{self.path / name}: {problem}")

    def walk(self, skip: Callable[[str], bool]) -> Iterator[FolderEntry]:
        """List all entries below the folder but those whose names ``skip`` excludes.

        Links are listed, and not followed.

        Raises:
            DataError: a folder cannot be listed.
        """
        yield from self._walk(self.handle, "", skip)

    def _walk(self, handle: int, above: str, skip: Callable[[str], bool]) -> Iterator[FolderEntry]:
        try:
            with os.scandir(handle) as scan:
                entries = sorted(
                    (item.name, item.is_dir(follow_symlinks=False), item.is_symlink())
                    for item in scan
                    if not skip(item.name)
                )
        except OSError as error:
            raise self._unreadable(above, error) from None
        for name, is_folder, is_link in entries:
            entry = FolderEntry(f"{above}{name}", is_folder, is_link)
            yield entry
            if is_folder:
                try:
                    inner = _Descriptor(os.open(name, _FOLDER, dir_fd=handle))
                except OSError as error:
                    raise self._unreadable(entry.path, error) from None
                yield from self._walk(inner.number, f"{entry.path}/", skip)

    def _unreadable(self, path: str, error: OSError) -> DataError:
        """The error of a folder that cannot be listed: its units must not be left out silently."""
        return DataError(f"{self.path / path}: this folder cannot be read ({kind_of(error)}); mend its permissions")

    def holds(self, path: str) -> bool:
        """Tell whether anything, a link to nowhere too, has a path that starts at the folder.

        ``..`` leads above.
        """
        return _stat(path, self.handle, follow=False) is not None

    def names(self, path: str = ".") -> list[str]:
        """List the names in the folder, or in one that has a path from there.

        Raises:
            DataError: it cannot be listed.
        """
        try:
            listed = _Descriptor(os.open(path, _FOLDER, dir_fd=self.handle))
            return sorted(os.listdir(listed.number))
        except OSError as error:
            problem = self._unreadable(path, error)
        raise problem

    def is_folder(self, path: str) -> bool:
        """Tell whether a folder has the path, or a link that leads to one."""
        status = _stat(path, self.handle, follow=True)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def is_link(self, path: str) -> bool:
        """Tell whether the path, or a folder on it, is a link."""
        parts = PurePosixPath(path).parts
        statuses = (_stat("/".join(parts[:end]), self.handle) for end in range(1, len(parts) + 1))
        return any(status is not None and stat.S_ISLNK(status.st_mode) for status in statuses)

    def above(self) -> Iterator[str]:
        """List each folder above, the nearest first, as a path that starts at the folder.

        The folder may have been moved meanwhile.
        """
        status, path = os.fstat(self.handle), ".."
        while (above := _stat(path, self.handle)) is not None and not os.path.samestat(status, above):
            yield path
            status, path = above, f"../{path}"


def _stat(path: str, handle: int, *, follow: bool = False) -> os.stat_result | None:
    try:
        return os.stat(path, dir_fd=handle, follow_symlinks=follow)
    except OSError:
        return None


def _open(path: Path) -> _Descriptor:
    failure: CausalveilError
    try:
        return _Descriptor(os.open(path, _FOLDER))
    except (FileNotFoundError, NotADirectoryError):
        failure = StudyError(f"{path}: no such data folder, and so no contract; check 'data.path' of the study")
    except OSError as error:
        failure = DataError(f"{path}: this folder cannot be read ({kind_of(error)}); mend its permissions")
    raise failure


_DELTA = "_delta_log"
# Advice by the kind of table.
_ADVICE = {
    "a Delta table": "read it as a table: causalveil init FOLDER, or kind: delta in source.yaml and causalveil extract",
    "an Iceberg table": "read it through its catalog: causalveil init iceberg:CATALOG/NAMESPACE.TABLE, or kind: "
    "iceberg in source.yaml and causalveil extract",
    "a Hudi table": "write the rows that it holds today as plain Parquet into another folder, and use that",
}


def is_delta(folder: Path) -> bool:
    """Tell whether a folder is a Delta table."""
    return (folder / _DELTA).is_dir()


def refuse_open_table(path: Path) -> None:
    """Refuse a file or folder that is an open table, or lies in one.

    Raises:
        DataError: it is; names the kind of table, and gives advice.
    """
    for place in (path, *path.absolute().parents):
        refuse_log_in(place)


def refuse_log_in(folder: Path) -> None:
    """Refuse a folder that has the log of a table in it; folders above are not looked at.

    Raises:
        DataError: it has; names the kind of table, and gives advice.
    """
    refuse_table(folder, lambda name: (folder / name).is_dir(), lambda name: os.listdir(folder / name))


def refuse_table(folder: Path, is_folder: Callable[[str], bool], names: Callable[[str], Iterable[str]]) -> None:
    """Refuse a folder that has the log of a table in it, as the given functions see it.

    Args:
        folder: for the message.
        is_folder: tells whether it has a folder of a name.
        names: lists the names in the folder of a name.

    Raises:
        DataError: as of :func:`refuse_log_in`.
    """
    kind = None
    # The readers of a folder that cannot be listed refuse it.
    with suppress(OSError, DataError):
        if is_folder(_DELTA):
            kind = "a Delta table"
        elif is_folder(".hoodie"):
            kind = "a Hudi table"
        elif is_folder("metadata") and any(
            name == "version-hint.text" or ".metadata.json" in name for name in names("metadata")
        ):
            kind = "an Iceberg table"
    if kind is not None:
        raise DataError(f"{folder}: is {kind}, whose log says which files still count; {_ADVICE[kind]}")
