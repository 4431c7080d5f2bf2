"""Arrays in files: written with mode 0600 and renamed when complete, read through a memory map."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from causalveil.schemas.errors import CausalveilError


def load_array(path: Path) -> NDArray[Any]:
    """Map an array read-only: pages are read when touched and may be dropped again by the system."""
    # A plain view of the map: numpy.memmap's own slicing costs microseconds more.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write a new .npy file with mode 0600; whoever opens it finds all of it."""
    partial = partial_path(path)
    handle, start = create_array(partial, array.shape, array.dtype)
    try:
        write_rows(handle, start, np.ascontiguousarray(array))
    finally:
        os.close(handle)
    partial.replace(path)


def partial_path(path: Path) -> Path:
    """Where a file is written before it is renamed: a worker that was given up may still write beside its successor."""
    return path.with_name(f".{path.name}.{uuid4().hex}")


def create_array(path: Path, shape: tuple[int, ...], dtype: Any) -> tuple[int, int]:
    """Create a .npy file (C order, mode 0600, replacing an older one) whose rows are still to be written.

    Returns:
        An open file descriptor, and the byte offset of the first row, for :func:`write_rows`.
    """
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape})
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.pwrite(handle, header.getvalue(), 0)
    return handle, len(header.getvalue())


def write_rows(handle: int, offset: int, rows: NDArray[Any]) -> None:
    """Write C-contiguous ``rows`` at byte ``offset``; threads may write different places at once.

    Raises:
        CausalveilError: the disk is full or fails.
    """
    view = rows.reshape(-1).view(np.uint8).data
    failure = None
    try:
        while view:
            written = os.pwrite(handle, view, offset)
            view, offset = view[written:], offset + written
    except OSError as error:
        failure = errno.errorcode.get(error.errno or 0, "OSError")
    if failure:
        raise CausalveilError(
            f"the scratch folder cannot be written ({failure}); free some space or point CAUSALVEIL_HOME elsewhere"
        )
