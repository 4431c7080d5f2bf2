"""Keyed digests of the files that a run reads: a file that is not what was admitted ends the run.

A file is digested, then its columns are read by path, then its identity, size and times of change are compared with
those before the digest: what was read is what was digested.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from causalveil.schemas.admission.manifest import Admission
from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Layout, Partition

CONTENTS_LABEL = "data contents"
_CHUNK = 1 << 20


def file_digest(path: Path, key: str) -> str:
    """HMAC-SHA-256 of a file's bytes under a key, both in hex digits.

    Raises:
        OSError: the file cannot be read.
    """
    found = hmac.new(bytes.fromhex(key), digestmod=hashlib.sha256)
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def state_of(path: Path) -> tuple[int, ...]:
    """What changes whenever a file is written or replaced: device, number, size, times of change.

    Raises:
        OSError: the file is gone.
    """
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@contextmanager
def held_to(admission: Admission | None, folder: Path, partition: Partition) -> Iterator[None]:
    """Let the block read a partition that is, byte by byte, the admitted one, and stays so until it has been read.

    Args:
        admission: the manifest; None where nobody admitted the rows, as in tests of a stage.
        folder: the data folder.
        partition: one of its files.

    Raises:
        DataError: the file is another one; names its public path.
    """
    if admission is None:
        yield
        return
    path, admitted = folder / partition.path, admission.by_path.get(partition.path)
    try:
        before = state_of(path)
        digest = None if admitted is None or admitted.size != before[2] else file_digest(path, admission.key)
    except OSError:
        digest = None
    if admitted is None or digest is None or not hmac.compare_digest(digest, admitted.digest):
        raise changed(partition.path)
    yield
    try:
        same = state_of(path) == before
    except OSError:
        same = False
    if not same:
        raise changed(partition.path)


def contents_digest(admission: Admission, layout: Layout, key: bytes) -> str:
    """Digest of the bytes of a run's partitions, from their manifest, 32 hex digits; the same however often admitted.

    Args:
        admission: has every partition of the layout.
        layout: what the run reads, in its order.
        key: 16 bytes, the run's own for this purpose.
    """
    whole = hashlib.blake2b(key=key, digest_size=16)
    for partition in layout.partitions:
        whole.update(bytes.fromhex(admission.by_path[partition.path].digest))
    return whole.hexdigest()


def changed(path: str) -> DataError:
    """The error of a file that is not what was admitted."""
    return DataError(
        f"{path}: changed since it was admitted; bring back the file that was, or let the data's owner admit what is "
        "there: causalveil admit FOLDER"
    )
