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
from functools import lru_cache
from pathlib import Path

from blake3 import blake3

from causalveil.schemas.admission.manifest import DIGESTS, Admission
from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Layout, Partition

CONTENTS_LABEL = "data contents"
_CHUNK = 1 << 20


def file_digest(path: Path, key: str, version: int = DIGESTS) -> str:
    """The keyed digest of a file's bytes.

    Args:
        path: the file.
        key: of the manifest, 32 hex digits.
        version: of the manifest: HMAC-SHA-256 in the first, then keyed BLAKE3 (O'Connor, Aumasson, Neves and
            Wilcox-O'Hearn 2020), which takes a third of the time and resists collisions as well.

    Returns:
        64 hex digits.

    Raises:
        OSError: the file cannot be read.
    """
    found = _digester(key, version)
    buffer = memoryview(bytearray(_CHUNK))
    with path.open("rb", buffering=0) as file:
        while read := file.readinto(buffer):
            found.update(buffer[:read])
    return found.hexdigest()


def bytes_digest(content: bytes, key: str) -> str:
    """The same of bytes at hand, by the newest version."""
    found = _digester(key, DIGESTS)
    found.update(content)
    return found.hexdigest()


def _digester(key: str, version: int) -> hmac.HMAC | blake3:
    if version == 1:
        return hmac.new(bytes.fromhex(key), digestmod=hashlib.sha256)
    return blake3(key=_whole_key(key))


@lru_cache(maxsize=8)
def _whole_key(key: str) -> bytes:
    """The 32 bytes that BLAKE3 asks for."""
    return blake3(bytes.fromhex(key), derive_key_context="causalveil data contents v2").digest()


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
        digest = (
            None
            if admitted is None or admitted.size != before[2]
            else file_digest(path, admission.key, admission.version)
        )
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
