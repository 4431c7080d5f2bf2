"""A line of processes before something that one at a time may use, in the order in which they came.

SQLite serves whoever asks in the right moment, so that of 64 writers one waited 48 seconds while others were served
five times. Here each takes the next number, locks the byte of that number in a file, and waits until no byte before it
is locked. The kernel takes the locks of a killed process away, so that no number is waited for in vain. The locks are
those of an open file, not of a process, so that threads wait for one another as well.

The line is a courtesy and guards nothing: where the file or its locks cannot be had, or whoever is in front does not
move, the caller goes on without it and meets the lock that does guard.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# How long the one in front may stand still: stopped, or busy with more than a reservation.
PATIENCE_SECONDS = 5.0
# Between two looks, for each place further back; and at most.
_STEP, _LONGEST_STEP = 0.002, 0.05
# struct flock of 64-bit Linux: type, whence, start, length, process.
_FLOCK = "hhqqi0q"
# The byte that is locked for the moment in which a number is taken; numbers begin after it.
_COUNTER = 0


@contextmanager
def in_line(path: Path) -> Iterator[None]:
    """Wait for one's turn in the line of the file ``path``, which is made where it is missing; never fails."""
    handle = _open(path)
    if handle is None:
        yield
        return
    try:
        try:
            number = _number(handle)
            if number is not None:
                _wait(handle, number)
        except (OSError, ValueError, struct.error):
            # No locks on this file system, no room for a digit, or a file of somebody else's: go on without the line.
            pass
        yield
    finally:
        # Said before closing: a child that was forked meanwhile holds the open file too.
        _unlock(handle)
        os.close(handle)


def _open(path: Path) -> int | None:
    if not hasattr(fcntl, "F_OFD_SETLK") or struct.calcsize("P") < 8:
        return None
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError:
        return None


def _number(handle: int) -> int | None:
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


def _wait(handle: int, number: int) -> None:
    """Return once nobody with a smaller number is there, or the first of them has not moved for a while."""
    first, since = -1, time.monotonic()
    while (seen := _first(handle, number)) is not None:
        now = time.monotonic()
        if seen != first:
            first, since = seen, now
        elif now - since > PATIENCE_SECONDS:
            return
        time.sleep(min(_STEP * max(number - seen, 1), _LONGEST_STEP))


def _first(handle: int, number: int) -> int | None:
    """The smallest held number before ``number``; None if there is none."""
    found = None
    while number > 1:
        asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 1, number - 1, 0)
        kind, _, start, *_ = struct.unpack(_FLOCK, fcntl.fcntl(handle, fcntl.F_OFD_GETLK, asked))
        if kind == fcntl.F_UNLCK:
            break
        # The kernel names one of several, not always the first.
        found = number = int(start)
    return found


def _lock(handle: int, kind: int, start: int, length: int) -> bool:
    """Lock or unlock bytes at once; whether it was possible. A length of 0 means all that follow."""
    try:
        fcntl.fcntl(handle, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, start, length, 0))
    except BlockingIOError:
        return False
    return True


def _unlock(handle: int) -> None:
    try:
        _lock(handle, fcntl.F_UNLCK, 0, 0)
    except OSError:
        # Closing does the same for everybody but a forked child.
        return
