"""Files that appear whole or not at all: the one way in which this program writes one that it keeps.

A file is written beside its name, under a random one, and takes its name when it is complete. A link that somebody
planted is never followed: the random name is created with O_EXCL, and taking a name replaces a link, not its target.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedRandom
from pathlib import Path
from uuid import uuid4

from causalveil.schemas.errors import StudyError

# Modes of new files: for their user alone, or as the user's umask says.
PRIVATE = 0o600
PUBLIC = 0o666


@contextmanager
def whole_file(
    path: Path, *, mode: int = PRIVATE, durable: bool = False, exclusive: bool = False, within: int | None = None
) -> Iterator[BufferedRandom]:
    """A new file for reading and writing, which takes its name when the block is left without an error.

    Args:
        path: the name; its folder must exist. An older file of that name stays as it is until then.
        mode: permissions of the new file, less the umask.
        durable: file and name outlast a power failure from then on (fsync of both). Otherwise they outlast this
            process, and after a power failure the name may hold the older file, or an empty one.
        exclusive: do not replace what has the name already.
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
        # Gone already if it took its name; an error of its own must not hide why the file was not written.
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


def write_whole(
    path: Path, text: str | bytes, *, taken: str | None = None, failed: str = "", private: bool = False
) -> Path:
    """Write a file that may leave the enclave; the same text again is welcome.

    Args:
        path: where; folders are made.
        text: what; text as UTF-8, line ends as they are.
        taken: what to say if anything else lies there; None: it is replaced.
        failed: what to do if nothing can be written, appended to the message.
        private: for its user alone, whatever the umask says.

    Raises:
        StudyError: something else lies there, or nothing can be written.
    """
    problem, content = None, text.encode() if isinstance(text, str) else text
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if taken is not None and os.path.lexists(path) and not _holds(path, content):
            problem = taken
        else:
            with whole_file(path, mode=PRIVATE if private else PUBLIC) as stream:
                stream.write(content)
    except OSError as error:
        problem = f"cannot be written ({type(error).__name__})" + (f"; {failed}" if failed else "")
    if problem:
        raise StudyError(f"{path}: {problem}")
    return path


def _holds(path: Path, content: bytes) -> bool:
    """Check whether ``path`` is a file, and no link, of just this content."""
    return not path.is_symlink() and path.is_file() and path.read_bytes() == content
