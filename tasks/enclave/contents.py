"""Keyed digests of the files that a run reads: a file that is not what was admitted ends the run.

A file is opened once. A small one is read into memory, and its bytes are digested and decoded there. A larger one is
digested and then read by the same descriptor, and its size and times of change are compared with those before the
digest: what was read is what was digested.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from blake3 import blake3

from causalveil.schemas.admission.manifest import DIGESTS, Admission, Digests
from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Layout, Partition
from causalveil.tasks.enclave.data_folder import DataFolder
from causalveil.tasks.machine.folders import OpenFile

CONTENTS_LABEL = "data contents"


def file_digest(file: OpenFile, key: str, version: int = DIGESTS) -> str:
    """The keyed digest of a file's bytes.

    Args:
        file: it.
        key: of the manifest, 32 hex digits.
        version: of the manifest: HMAC-SHA-256 in the first, then keyed BLAKE3 (O'Connor, Aumasson, Neves and
            Wilcox-O'Hearn 2020), which takes a third of the time and resists collisions as well.

    Returns:
        64 hex digits.

    Raises:
        OSError: the file cannot be read.
    """
    found = _digester(key, version)
    for chunk in file.chunks():
        found.update(chunk)
    return found.hexdigest()


def _digester(key: str, version: int) -> hmac.HMAC | blake3:
    if version == 1:
        return hmac.new(bytes.fromhex(key), digestmod=hashlib.sha256)
    return blake3(key=_whole_key(key))


@lru_cache(maxsize=8)
def _whole_key(key: str) -> bytes:
    """The 32 bytes that BLAKE3 asks for."""
    return blake3(bytes.fromhex(key), derive_key_context="causalveil data contents v2").digest()


@contextmanager
def held_file(folder: DataFolder, partition: Partition) -> Iterator[OpenFile]:
    """Let the block read a partition that is, byte by byte, the admitted one, and stays so until it has been read.

    Args:
        folder: the data folder, held to the digests of its files; or to none, as in tests of a stage.
        partition: one of its files.

    Raises:
        DataError: the file is another one, or no file of its own; names its public path.
    """
    file = None
    try:
        file = folder.file(partition.path)
    except FileNotFoundError:
        file = None
    if file is None:
        raise changed(partition.path)
    with file:
        if not _is_held(file, folder.digests):
            raise changed(partition.path)
        yield file
        if file.changed:
            raise changed(partition.path)


def _is_held(file: OpenFile, digests: Digests | None) -> bool:
    if digests is None:
        return True
    admitted = digests.files.get(file.path)
    if admitted is None or admitted.size != file.size:
        return False
    try:
        return hmac.compare_digest(file_digest(file, digests.key, digests.version), admitted.digest)
    except OSError:
        return False


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
