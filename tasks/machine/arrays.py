"""Name the array types that stages exchange, and keep arrays in files.

Files of arrays have mode 0600, are there whole or not at all, and are read through a memory map.
"""

from __future__ import annotations

import io
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from causalveil.schemas.errors import CausalveilError, in_own_words, kind_of
from causalveil.tasks.machine.files import whole_file

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Int32Array = NDArray[np.int32]
ByteArray = NDArray[np.uint8]
BoolArray = NDArray[np.bool_]


# Of a .npy file of version 1.0, before its header: magic, version, the header's length in two bytes.
_PREFIX = 10


def load_array(path: Path) -> NDArray[Any]:
    """Map an array of any shape read-only.

    Pages are read when touched and may be dropped again by the system.

    ``numpy.load`` maps an array as well, but takes ten times as long to parse the same header again and again.
    """
    with path.open("rb", buffering=0) as file:
        first = file.read(_PREFIX)
        shape, dtype, start = _parsed(first + file.read(int.from_bytes(first[-2:], "little")))
        held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.ndarray(shape, dtype, buffer=held, offset=start)


@lru_cache(maxsize=256)
def _parsed(header: bytes) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, type and first byte of the array behind a header of :func:`new_array`."""
    stream = io.BytesIO(header)
    np.lib.format.read_magic(stream)
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    return shape, dtype, len(header)


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array of any shape to a .npy file with mode 0600.

    Whoever opens it finds all of it.

    Raises:
        CausalveilError: the disk is full or fails.
    """
    with new_array(path, array.shape, array.dtype) as write:
        write(0, np.ascontiguousarray(array))


@contextmanager
def new_array(path: Path, shape: tuple[int, ...], dtype: Any) -> Iterator[Callable[[int, NDArray[Any]], None]]:
    """Create a .npy file that takes its name when the block is left without an error.

    Its array is in C order, and its mode is 0600.

    Yields:
        ``write(first, rows)``, which writes C-contiguous ``rows`` of ``dtype`` from row number ``first`` on. Threads
        may write different rows at once.

    Raises:
        CausalveilError: the disk is full or fails.
    """
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape})
    start, row_bytes = len(header.getvalue()), int(np.prod(shape[1:], dtype=np.int64)) * np.dtype(dtype).itemsize
    with ExitStack() as file:
        with writing_scratch():
            handle = file.enter_context(whole_file(path)).fileno()
            _write_at(handle, 0, memoryview(header.getvalue()))
        # Outside of that block: an error of who makes the rows is none of the disk.
        yield lambda first, rows: _write_at(handle, start + first * row_bytes, rows.reshape(-1).view(np.uint8).data)
        with writing_scratch():
            file.close()


def _write_at(handle: int, offset: int, view: memoryview) -> None:
    """Write all of ``view`` at byte ``offset``; the system may take it piece by piece."""
    with writing_scratch():
        while view:
            written = os.pwrite(handle, view, offset)
            view, offset = view[written:], offset + written


def writing_scratch() -> AbstractContextManager[None]:
    """Say in our words that the scratch folder cannot be written.

    Raises:
        CausalveilError: it cannot.
    """
    return in_own_words(_unwritable, OSError)


def _unwritable(failure: OSError) -> CausalveilError:
    return CausalveilError(
        f"the scratch folder cannot be written ({kind_of(failure)}); free some space, or let CAUSALVEIL_SCRATCH name a "
        "folder, still to be made, on a disk with room"
    )
