"""Open the folder of a dataset once, and digest the files that a run reads.

The open folder is the one door to rows. Contract, manifests and partitions are those of one open folder, so rows are
never read under the contract of another folder that was put in its place. A folder that is held to an admission gives
the rows of admitted bytes alone.

A file with other bytes than the admitted ends the run. A file is opened once. A small file is read into memory, and its
bytes are digested and decoded there. A larger file is digested and then read by the same descriptor, and its size and
times of change are compared with those before the digest, so that the bytes read are those digested.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import Self

from blake3 import blake3

from causalveil.schemas.admission import ADMISSION_FILE, Admission, Digests, parse_admission
from causalveil.schemas.contract import CONTRACT_FILE, Contract, parse_contract
from causalveil.schemas.documents import MAX_BYTES, MAX_DOCUMENT_BYTES
from causalveil.schemas.errors import ContractError, DataError, kind_of
from causalveil.schemas.plan import Layout, Partition
from causalveil.schemas.warehouse import MANIFEST_FILE, Manifest, parse_manifest
from causalveil.tasks.machine.folders import OpenFile, OpenFolder, refuse_table

NONE = "no contract; the data's owner must put one beside the data before anything runs"


class DataFolder(OpenFolder):
    """The folder of one dataset.

    Attributes:
        digests: of the files whose rows may be read; None: not admitted yet, or rows of no person are read.
    """

    digests: Digests | None = None

    @classmethod
    def find(cls, path: Path) -> DataFolder | None:
        """Open the folder if there is one: a study can be planned where no data are.

        Raises:
            DataError: it cannot be read.
        """
        return cls(path) if path.is_dir() else None

    def held_to(self, digests: Digests) -> Self:
        """Return the same open folder, of which only rows of these files are read."""
        folder = object.__new__(type(self))
        folder.__dict__.update(self.__dict__, digests=digests)
        return folder

    @cached_property
    def contract_text(self) -> str:
        """Return the text of dataset.yaml, read once.

        Raises:
            ContractError: missing, a link, or not to be read.
        """
        if self.is_link(CONTRACT_FILE):
            raise ContractError(
                f"{self.path / CONTRACT_FILE}: is a link; the contract must be a file in the folder of its data"
            )
        problem = None
        try:
            content = self.read(CONTRACT_FILE, MAX_BYTES)
            if content is not None:
                return content.decode("utf-8")
            problem = f"{self.path / CONTRACT_FILE}: {NONE}"
        except DataError as error:
            problem = str(error)
        except UnicodeDecodeError as error:
            problem = f"{self.path / CONTRACT_FILE}: cannot be read as UTF-8 text ({kind_of(error)})"
        raise ContractError(problem)

    @cached_property
    def contract(self) -> Contract:
        """Return the contract of the rows in this folder.

        Raises:
            ContractError: as of the text; or it is wrong.
        """
        return parse_contract(self.contract_text, str(self.path / CONTRACT_FILE))

    def find_contract(self) -> Contract | None:
        """Return the contract; None where there is none.

        Raises:
            ContractError: it is wrong.
        """
        return self.contract if self.has_contract else None

    @property
    def has_contract(self) -> bool:
        """Return whether a contract lies here."""
        return self.holds(CONTRACT_FILE)

    def manifest(self) -> Manifest | None:
        """Return the manifest of the extract that filled the folder; None where none did.

        Raises:
            DataError: there is one and it cannot be read.
        """
        content = self.read(MANIFEST_FILE, MAX_DOCUMENT_BYTES)
        return None if content is None else parse_manifest(content, str(self.path / MANIFEST_FILE))

    def admission(self) -> Admission | None:
        """Return the manifest of admitted rows that lies beside them; None where none does.

        Raises:
            DataError: there is one and it cannot be read.
        """
        content = self.read(ADMISSION_FILE, MAX_DOCUMENT_BYTES)
        return None if content is None else parse_admission(content, str(self.path / ADMISSION_FILE))

    def parquet_paths(self) -> Iterator[str]:
        """List the paths of the Parquet files below the folder, with forward slashes.

        Names that begin with a dot or an underscore are skipped, as Spark, Dask and Arrow do.

        Raises:
            ContractError: a folder above or below has a contract of its own.
            DataError: an open table (Delta, Iceberg, Hudi), a link to a folder or a Parquet file, or a folder that
                cannot be listed.
        """
        self._refuse_table(".")
        for above in self.above():
            self._refuse_table(above)
            self._refuse_contract(above, "the data folder lies inside the folder of another dataset")
        for entry in self.walk(skip=_hidden):
            if "/" in entry.path and entry.name == CONTRACT_FILE:
                self._refuse_contract(
                    entry.path.rpartition("/")[0], "another dataset's folder lies inside the data folder"
                )
            if entry.is_folder:
                self._refuse_table(entry.path)
            is_parquet = entry.name.lower().endswith(".parquet")
            if entry.is_link and self.is_folder(entry.path):
                raise DataError(f"{entry.path}: links to folders are not followed; put the folder itself there")
            if entry.is_link and is_parquet:
                raise DataError(f"{entry.path}: is a link, and links are not followed; put the file itself there")
            if is_parquet and not entry.is_folder:
                yield entry.path

    def _refuse_contract(self, folder: str, problem: str) -> None:
        """Refuse a contract above or below: each row has one, so folders of datasets do not nest."""
        if self.holds(f"{folder}/{CONTRACT_FILE}"):
            place = self._place(folder) / CONTRACT_FILE
            raise ContractError(f"{place}: {problem}; datasets do not nest, so move one of them out")

    def _refuse_table(self, folder: str) -> None:
        """Refuse a table: its log says which of its files count, and a plain list of files does not."""
        refuse_table(
            self._place(folder),
            lambda name: self.is_folder(f"{folder}/{name}"),
            lambda name: self.names(f"{folder}/{name}"),
        )

    def _place(self, folder: str) -> Path:
        """Return the path of a folder above or below, for messages."""
        up = len(PurePosixPath(folder).parts) if folder.startswith("..") else 0
        return self.path.parents[up - 1] if 0 < up <= len(self.path.parents) else self.path / folder


def _hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def dataset_around(folder: Path) -> Path | None:
    """Return the data folder whose rows a Parquet file of ``folder`` would be; None if none.

    Links are followed, and ``folder`` need not be there yet. Names that begin with a dot or an underscore are skipped
    by :meth:`DataFolder.parquet_paths`, so files below such a folder hold no rows.
    """
    place = Path(os.path.realpath(folder))
    for above in (place, *place.parents):
        if any(_hidden(part) for part in place.relative_to(above).parts):
            return None
        if os.path.lexists(above / CONTRACT_FILE):
            return above
    return None


CONTENTS_LABEL = "data contents"


def file_digest(file: OpenFile, key: str) -> str:
    """Return the keyed BLAKE3 of a file's bytes.

    BLAKE3 (O'Connor, Aumasson, Neves and Wilcox-O'Hearn 2020) takes a third of the time of HMAC-SHA-256 and resists
    collisions as well.

    Args:
        file: the open file.
        key: of the manifest, 32 hex digits.

    Returns:
        64 hex digits.

    Raises:
        OSError: the file cannot be read.
    """
    digest = blake3(key=_whole_key(key))
    for chunk in file.chunks():
        digest.update(chunk)
    return digest.hexdigest()


@lru_cache(maxsize=8)
def _whole_key(key: str) -> bytes:
    """The 32 bytes that BLAKE3 asks for."""
    return blake3(bytes.fromhex(key), derive_key_context="causalveil data contents v2").digest()


@contextmanager
def held_file(folder: DataFolder, partition: Partition) -> Iterator[OpenFile]:
    """Open a partition whose bytes are those admitted, and stay so until it has been read.

    Args:
        folder: the data folder, held to the digests of its files; or to none, as in tests of a stage.
        partition: one of its files.

    Raises:
        DataError: the file is another one, or no file of its own; names its public path.
    """
    file = None
    with suppress(FileNotFoundError):
        file = folder.file(partition.path)
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
        return hmac.compare_digest(file_digest(file, digests.key), admitted.digest)
    except OSError:
        return False


def contents_digest(admission: Admission, layout: Layout, key: bytes) -> str:
    """Digest of the bytes of a run's partitions, from their manifest, 32 hex digits.

    It is the same however often the data are admitted.

    Args:
        admission: has every partition of the layout.
        layout: the partitions that the run reads, in their order.
        key: 16 bytes, the run's own for this purpose.
    """
    whole = hashlib.blake2b(key=key, digest_size=16)
    for partition in layout.partitions:
        whole.update(bytes.fromhex(admission.by_path[partition.path].digest))
    return whole.hexdigest()


def changed(path: str) -> DataError:
    """Return the error of a file whose bytes are not those admitted."""
    return DataError(
        f"{path}: changed since it was admitted; bring back the file that was, or let the data's owner admit what is "
        "there: causalveil admit FOLDER"
    )
