"""Write files whole or not at all, and let processes wait in line for a file.

This program writes all files that it keeps in this way. A file is written beside its name, under a random name, and
takes its own when it is complete. A planted link is never followed: the random name is created with O_EXCL, and taking
a name replaces a link, not its target.

Processes that wait for the same file are served in the order of their arrival (:func:`fair_lock`). SQLite does not
keep that order: of 64 writers one waited 48 seconds while others were served five times. Here each takes the next
number, locks the byte of that number in a file, and waits until no byte before it is locked. The kernel drops the locks
of a killed process. The locks belong to an open file, not to a process, so that threads wait for each other as well.

The line protects nothing, it only keeps the order: where the file or its locks cannot be had, or the first in the line
does not move, the caller goes on without it to the lock that protects.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedRandom
from pathlib import Path
from uuid import uuid4

from causalveil.schemas.errors import StudyError, in_own_words, kind_of

# Modes of new files: for their user alone, or as the user's umask says.
PRIVATE = 0o600
PUBLIC = 0o666
# The first part of a URL that was taken for a path.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@contextmanager
def whole_file(
    path: Path, *, mode: int = PRIVATE, durable: bool = False, exclusive: bool = False, within: int | None = None
) -> Iterator[BufferedRandom]:
    """Create a file that takes its name when the block is left without an error.

    It is open for reading and writing.

    Args:
        path: the name; its folder must exist. An older file of that name stays as it is until then.
        mode: permissions of the new file, less the umask.
        durable: file and name outlast a power failure from then on (fsync of both). Otherwise they outlast this
            process, and after a power failure the name may hold the older file, or an empty one.
        exclusive: do not replace a file that has the name already.
        within: descriptor of an open folder; then ``path`` is a name in it.

    Raises:
        FileExistsError: ``exclusive``, and the name is taken.
        OSError: the disk is full or fails, or the folder cannot be written. Nothing is left then.
    """
    draft = path.with_name(f".{uuid4().hex}.partial")
    # O_EXCL of mode "x" also refuses a link in the place of the draft.
    try:
        with open(draft, "x+b", opener=lambda name, flags: os.open(name, flags, mode, dir_fd=within)) as stream:
            yield stream
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        if exclusive:
            os.link(draft, path, src_dir_fd=within, dst_dir_fd=within)
        else:
            os.replace(draft, path, src_dir_fd=within, dst_dir_fd=within)
        if durable and within is not None:
            os.fsync(within)
        elif durable:
            sync_folder(path.parent)
    finally:
        # It is gone already if it took its name; an error here must not hide the error of writing.
        with suppress(OSError):
            os.unlink(draft, dir_fd=within)


def sync_folder(folder: Path) -> None:
    """Make new, changed and removed names of ``folder`` outlast a power failure.

    Raises:
        OSError: the disk fails, or there is no such folder.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder_durably(folder: Path) -> None:
    """Create ``folder`` and its parents with mode 0700, so that they outlast a power failure.

    Raises:
        OSError: the disk fails, or something else has the name.
    """
    if folder.is_dir():
        return
    make_folder_durably(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    sync_folder(folder.parent)


def refuse_url_as_path(path: Path) -> None:
    """Refuse a path that was a URL: it would name a folder ``s3:`` here.

    Raises:
        StudyError: it is one.
    """
    if path.parts and _SCHEME.fullmatch(path.parts[0]):
        raise StudyError(
            f"{path}: is a URL where a file or folder of this machine is meant; write it here, and copy it by a tool "
            "of the store"
        )


def write_whole(
    path: Path, text: str | bytes, *, taken: str | None = None, failed: str = "", private: bool = False
) -> Path:
    """Write a file that may leave the enclave; the same text may be written again.

    Args:
        path: of the file; folders are made.
        text: the content; text as UTF-8, line ends unchanged.
        taken: the problem if another file lies there; None: it is replaced.
        failed: advice if the file cannot be written, appended to the message.
        private: for its user alone, whatever the umask.

    Raises:
        StudyError: another file lies there, or the file cannot be written.
    """
    content, advice = text.encode() if isinstance(text, str) else text, f"; {failed}" if failed else ""
    refuse_url_as_path(path)
    with in_own_words(lambda error: StudyError(f"{path}: cannot be written ({kind_of(error)}){advice}"), OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        if taken is not None and os.path.lexists(path) and not _holds(path, content):
            raise StudyError(f"{path}: {taken}")
        with whole_file(path, mode=PRIVATE if private else PUBLIC) as stream:
            stream.write(content)
    return path


def _holds(path: Path, content: bytes) -> bool:
    """Check whether ``path`` is a file, and no link, of this content."""
    return not path.is_symlink() and path.is_file() and path.read_bytes() == content


# Longest wait for the first in the line: it may be stopped, or busy with more than a reservation.
PATIENCE_SECONDS = 5.0
# Pause between two looks for each place in the line, and the longest pause.
_STEP, _LONGEST_STEP = 0.002, 0.05
# struct flock of 64-bit Linux: type, whence, start, length, process.
_FLOCK = "hhqqi0q"
# The byte that is locked for the moment in which a number is taken; numbers begin after it.
_COUNTER = 0


@contextmanager
def fair_lock(path: Path) -> Iterator[None]:
    """Wait for a turn in the line of the file ``path``, which is made if missing; never fail."""
    handle = _open_lock(path)
    if handle is None:
        yield
        return
    try:
        try:
            number = _take_number(handle)
            if number is not None:
                _wait_for_turn(handle, number)
        except (OSError, ValueError, struct.error):
            # No locks on this file system, no room for a digit, or a foreign file: go on without the line.
            pass
        yield
    finally:
        # Unlocked before closing: a child that was forked meanwhile holds the open file too.
        with suppress(OSError):
            _lock(handle, fcntl.F_UNLCK, 0, 0)
        os.close(handle)


def _open_lock(path: Path) -> int | None:
    if not hasattr(fcntl, "F_OFD_SETLK") or struct.calcsize("P") < 8:
        return None
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError:
        return None


def _take_number(handle: int) -> int | None:
    """Take the next number and lock its byte; None where the counter cannot be had."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not _lock(handle, fcntl.F_WRLCK, _COUNTER, 1):
        if time.monotonic() > deadline:
            return None
        time.sleep(_STEP)
    try:
        number = int(os.pread(handle, 20, 0) or b"0") + 1
        os.pwrite(handle, b"%020d" % number, 0)
        return number if _lock(handle, fcntl.F_WRLCK, number, 1) else None
    finally:
        _lock(handle, fcntl.F_UNLCK, _COUNTER, 1)


def _wait_for_turn(handle: int, number: int) -> None:
    """Return once no smaller number is held, or the smallest has been the same for a while."""
    first, since = -1, time.monotonic()
    while (seen := _first_waiting(handle, number)) is not None:
        now = time.monotonic()
        if seen != first:
            first, since = seen, now
        elif now - since > PATIENCE_SECONDS:
            return
        time.sleep(min(_STEP * max(number - seen, 1), _LONGEST_STEP))


def _first_waiting(handle: int, number: int) -> int | None:
    """The smallest held number before ``number``; None if there is none."""
    first = None
    while number > 1:
        query = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 1, number - 1, 0)
        kind, _, start, *_ = struct.unpack(_FLOCK, fcntl.fcntl(handle, fcntl.F_OFD_GETLK, query))
        if kind == fcntl.F_UNLCK:
            break
        # The kernel names one of several, not always the first.
        first = number = int(start)
    return first


def _lock(handle: int, kind: int, start: int, length: int) -> bool:
    """Lock or unlock bytes at once, and return whether it was possible.

    A length of 0 means all that follow.
    """
    try:
        fcntl.fcntl(handle, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, start, length, 0))
    except BlockingIOError:
        return False
    return True
