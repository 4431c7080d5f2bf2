"""A keyed digest of the bytes that a run reads: whoever resumes it must bring the same.

Paths and counts alone would let a run draw its first value from one table and its second from another.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Layout
from causalveil.tasks.machine.distribute import map_partitions

CONTENTS_LABEL = "data contents"
_CHUNK = 1 << 20


def contents_digest(folder: Path, layout: Layout, key: bytes, workers: int = 1) -> str:
    """BLAKE2b of all partitions in their order, 32 hex digits. Keyed by the run, so it tells nothing of the data.

    Args:
        folder: the data folder.
        layout: the partitions.
        key: 16 bytes, the run's own for this purpose.
        workers: threads, one partition each; the result does not depend on it.

    Raises:
        DataError: a partition cannot be read.
    """

    def digest(index: int) -> bytes:
        partition, found = layout.partitions[index], hashlib.blake2b(key=key, digest_size=16)
        failed = False
        try:
            with (folder / partition.path).open("rb") as file:
                while chunk := file.read(_CHUNK):
                    found.update(chunk)
        except OSError:
            failed = True
        if failed:
            raise DataError(f"{partition.path}: cannot be read; let this user read it, or write the file again")
        return found.digest()

    whole = hashlib.blake2b(key=key, digest_size=16)
    for part in map_partitions(digest, len(layout.partitions), workers):
        whole.update(part)
    return whole.hexdigest()
