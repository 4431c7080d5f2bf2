"""Parquet files in object storage as a source: ``s3://``, ``gs://`` and ``abfs://`` by pyarrow's file systems.

Credentials are the operator's, where the file systems look for them (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL`` and
the like); none stands in source.yaml, and a URL with one in it is refused. Objects have no links to be followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from causalveil.schemas.errors import CausalveilError, DataError
from causalveil.tasks.machine.folders import refuse_table
from causalveil.tasks.warehouse.own_words import in_own_words


@dataclass(frozen=True, eq=False)
class StoredFile:
    """An object, and what its store said of it when it was listed."""

    url: str
    store: Any
    path: str
    size: int
    modified: int | None
    root: str = ""

    @property
    def name(self) -> str:
        """Return the last part of its name."""
        return PurePosixPath(self.path).name

    def refuse_changed(self) -> None:
        """Refuse an object that was replaced since it was listed.

        Raises:
            DataError: it was.
        """
        if _facts(self.store.get_file_info(self.path)) != (self.size, self.modified):
            raise DataError(f"{self.name}: was changed while it was read; run the extract again")


def arrow_place(where: Path | StoredFile) -> dict[str, Any]:
    """Return the path and the file system by which Arrow opens a file."""
    if isinstance(where, StoredFile):
        return {"source": where.path, "filesystem": where.store}
    return {"source": str(where), "filesystem": None}


def stored_files(url: str, ending: str) -> list[StoredFile]:
    """List the files of an ending below a URL, or the one that it names, in the order of their names.

    Raises:
        DataError: they are an open table's.
        CausalveilError: the store does not answer, refuses, or has nothing there.
    """
    from pyarrow import fs

    with in_our_words(url):
        store, path = fs.FileSystem.from_uri(url)
        for folder in (path, *map(str, PurePosixPath(path).parents)):
            if folder not in (".", "/"):
                refuse_table_in(store, folder)
        one = store.get_file_info(path)
        if one.type == fs.FileType.File:
            return [StoredFile(url, store, path, *_facts(one))]
        found = store.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
        kept = [
            info
            for info in found
            if info.type == fs.FileType.File
            and info.path.endswith(f".{ending}")
            and not any(part.startswith((".", "_")) for part in PurePosixPath(info.path).relative_to(path).parts)
        ]
        below = {str(parent) for info in kept for parent in PurePosixPath(info.path).parents}
        for folder in sorted(one for one in below if one.startswith(f"{path.rstrip('/')}/")):
            refuse_table_in(store, folder)
        return [
            StoredFile(url, store, info.path, *_facts(info), root=path)
            for info in sorted(kept, key=lambda info: info.path)
        ]


def opened(where: Path | StoredFile) -> AbstractContextManager[None]:
    """Enter a block that reads a file: what a store says in it is said in our words, and a changed object is told.

    Raises:
        DataError: the object was replaced meanwhile.
        CausalveilError: the store does not answer.
    """
    return _reading(where) if isinstance(where, StoredFile) else nullcontext()


@contextmanager
def _reading(file: StoredFile) -> Iterator[None]:
    with in_our_words(file.url):
        yield
        file.refuse_changed()


def in_our_words(url: str, *, writes: bool = False) -> AbstractContextManager[None]:
    """Say what is wrong with a store without its own texts, which may quote keys and addresses."""
    done = "written" if writes else "read"
    # Of Arrow, which has OSError for all that a store may answer.
    return in_own_words(
        lambda error: CausalveilError(f"{url}: cannot be {done}: {_why(str(error))} ({type(error).__name__})")
    )


def _why(text: str) -> str:
    if "ACCESS_DENIED" in text or "Forbidden" in text or "HTTP status 403" in text:
        return "the store refuses the operator's credentials, or they may not list, read or write this"
    if "NO_SUCH_BUCKET" in text or "Path does not exist" in text or "does not exist" in text:
        return "there is no such bucket or object"
    return "the store does not answer, or answered something else; is its address in the environment? Run it again"


def _facts(info: Any) -> tuple[int, int | None]:
    return int(info.size or 0), info.mtime_ns


def refuse_table_in(store: Any, folder: str) -> None:
    """Refuse an open table in a store: its log says which of its files count.

    Raises:
        DataError: it is one.
    """
    from pyarrow import fs

    def names(name: str) -> list[str]:
        return [info.base_name for info in store.get_file_info(fs.FileSelector(f"{folder}/{name}"))]

    refuse_table(
        Path(folder), lambda name: store.get_file_info(f"{folder}/{name}").type == fs.FileType.Directory, names
    )
