"""The manifest of admitted data, and what an owner is told of data that are not admitted.

A manifest is as private as the rows: it lies beside them, or in the causalveil home. The ledger records its digest,
which tells nothing of the rows, since the manifest holds a secret key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from causalveil.schemas.contract import Contract
from causalveil.schemas.documents import digest_of, read_regular
from causalveil.schemas.errors import DataError, in_own_words
from causalveil.schemas.mistakes import parse_written
from causalveil.schemas.plan import Partition
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.study import Slug

ADMISSION_FILE = "_admission.json"
NO_ADMISSION = "is not a manifest of admitted data; its owner must admit them again"
# What a contract says of budgets, of people and for people: rows are the same whatever it is.
_NOT_OF_ROWS = {
    "ledger",
    "data_class",
    "public",
    "recorded_is_public",
    "bounds_from_data",
    "caps",
    "accounting",
    "estimators",
    "guarantees",
    "unbounded_halves",
    "review",
    "owner_key",
    "warn_below",
}
_FOR_PEOPLE = {"unit_of_measure", "description"}


class AdmittedFile(Partition):
    """One Parquet file as it was admitted; its rows are units.

    Attributes:
        size: bytes.
        modified: time of the last change, ns; it decides about nothing but whether public data are looked at anew.
        digest: of the bytes, under the manifest's key, 64 hex digits: ``tasks.enclave.data_folder.file_digest``.
    """

    size: Annotated[int, Field(ge=0)]
    modified: int
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class CastColumn(Frozen):
    """The types in which files store a column, and the one that it is read as.

    Nothing is lost on the way.
    """

    stored: tuple[str, ...]
    read: str


class Admission(Frozen):
    """The manifest: which bytes were found to keep which declarations.

    Attributes:
        dataset: the contract's.
        declares: digest of what the contract says of rows; see :func:`declarations`.
        key: of the digests, 32 hex digits.
        columns: name and type of each declared column, as the files store it.
        casts: of each column that is read as another type than some file stores it in.
        files: the partitions that runs read, in the order of their paths.
        given: where several rows of a unit were reduced to one, the owner's files, of whose rows ``files`` were made;
            empty where these are the same.
    """

    version: Literal[1] = 1
    dataset: Slug
    declares: str
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    columns: dict[str, str]
    casts: Annotated[dict[str, CastColumn], Field(default_factory=dict)]
    files: tuple[AdmittedFile, ...]
    given: tuple[AdmittedFile, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 over everything.

        The secret key in it hides the rest from a reader of the digest alone.
        """
        return digest_of(self.model_dump(mode="json"))

    @property
    def units(self) -> int:
        """Rows of all files, each of which is one unit."""
        return sum(file.rows for file in self.files)

    @property
    def reduced(self) -> str | None:
        """The name of the folder of reduced rows; None if no rows were reduced.

        It is the same for the same files and declarations.
        """
        if not self.given:
            return None
        return reduced_name(self.declares, self.given)

    @property
    def owners(self) -> tuple[AdmittedFile, ...]:
        """The files in the data folder."""
        return self.given or self.files

    @property
    def blocks(self) -> tuple[str, ...]:
        """The ledger blocks, sorted."""
        return tuple(sorted({file.block for file in self.files}))

    @cached_property
    def by_path(self) -> dict[str, AdmittedFile]:
        """The files by their paths."""
        return {file.path: file for file in self.files}

    @property
    def digests(self) -> Digests:
        """Digests against which files are checked when runs read them."""
        return Digests(self.key, self.by_path)


@dataclass(frozen=True)
class Digests:
    """Digests that files are held to while their rows are read.

    They come with their key, and by path of the file.
    """

    key: str
    files: Mapping[str, AdmittedFile]


def reduced_name(declares: str, given: tuple[AdmittedFile, ...]) -> str:
    """Return 32 hex digits over declarations and the keyed digests of the owner's files.

    They tell nothing of the files' rows.
    """
    text = json.dumps([declares, [[file.path, file.digest] for file in given]])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Finding(Frozen):
    """One thing that keeps data from being admitted; for their owner's eyes.

    Attributes:
        path: the partition; None: all of them together.
        column: the column; None: the file as a whole.
        rule: what is broken, in words that quote no value.
        rows: how many rows break it; None: all, or it is not about rows.
    """

    path: str | None = None
    column: str | None = None
    rule: str
    rows: int | None = None

    @property
    def words(self) -> str:
        """Place and rule in one line, without the count: what is public."""
        column = None if self.column is None else f"column '{self.column}' {self.rule}"
        return ": ".join(part for part in (self.path, column or self.rule) if part)


class NotAdmitted(DataError):
    """The rows of a dataset break its contract.

    ``findings`` are for the owner alone, the message for all.
    """

    def __init__(self, message: str, findings: tuple[Finding, ...] = ()) -> None:
        """``message``: quotes no count and no value."""
        super().__init__(message)
        self.findings = findings

    def __reduce__(self) -> tuple[type[NotAdmitted], tuple[str]]:
        """Leave findings behind: who pickles an error, as a workflow engine does to store it, is not the owner."""
        return type(self), (str(self),)


def declarations(contract: Contract) -> str:
    """Return SHA-256 over what a contract says of rows.

    That is the unit, the blocks, the columns and how rows are reduced.

    Caps, levels and estimators can change without rows being checked again.
    """
    document: dict[str, Any] = contract.model_dump(mode="json", exclude=_NOT_OF_ROWS)
    for column in document["columns"].values():
        for key in _FOR_PEOPLE:
            column.pop(key, None)
        if isinstance(column.get("levels"), dict):
            # Names of levels are for people too.
            column["levels"] = list(column["levels"].values())
    return digest_of(document)


def load_admission(path: Path) -> Admission | None:
    """Return the manifest in a file; None where there is no such file.

    Raises:
        DataError: it cannot be read.
    """
    with in_own_words(lambda _: DataError(f"{path}: {NO_ADMISSION}"), OSError):
        try:
            content = read_regular(path)
        except FileNotFoundError:
            return None
    return parse_admission(content, str(path))


def parse_admission(content: bytes, where: str) -> Admission:
    """Return the manifest in a file's bytes; ``where`` names it.

    Raises:
        DataError: it is none.
    """
    return parse_written(Admission, content, where, NO_ADMISSION)
