"""From a warehouse to Parquet partitions.

One block after the other, each whole or not there.

Layout of the folder that an extract fills, which is a study's data folder::

    month=2026-01/part-00000.parquet ...    at most ``rows_per_file`` rows each, mode 0600
                  _block.json               rows and files of the block, and by which declaration they were taken
    _unfinished                             there while blocks change; until it is gone they are not data
    _manifest.json                          schema, declared range, every block with its n; written last

A block is written into a hidden folder, synced, and renamed, so a block that is there is whole, after a power cut too.
Blocks with rows are left alone, so an extract that died goes on where it was, and the next month's run takes the
next month. A block without rows, as of a month that came late, is asked for again each time. Blocks of an open table
follow the table: one of another state of it is taken anew, since people may have been deleted from it. Blocks of files
follow the files that are new or were written again; where one is gone they stay, and the extract is refused if it gave
them rows. To take a block of another source anew, delete its folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from causalveil.schemas.documents import parse_json, read_regular
from causalveil.schemas.errors import CausalveilError, DataError, StudyError, in_own_words, kind_of
from causalveil.schemas.warehouse import (
    MANIFEST_FILE,
    ExtractedBlock,
    ExtractedFile,
    Manifest,
    Source,
    SourceFile,
    TableSnapshot,
)
from causalveil.tasks.machine.arrays import frame_of
from causalveil.tasks.machine.files import sync_folder, whole_file
from causalveil.tasks.warehouse.extract import BLOCK_FILE, EVERYTHING, KeyInterval, begin_change, end_change
from causalveil.tasks.warehouse.read_files import SourceChanges, changes_since, named_files
from causalveil.tasks.warehouse.read_sql import batches, refuse_keyless, rows_there, snapshot_of, target_schema
from causalveil.tasks.warehouse.values import BATCH_ROWS

LOCK_FILE = "_extract.lock"
_PARTIAL = ".partial-"


@contextmanager
def extracting(folder: Path) -> Iterator[None]:
    """Hold the folder for one extract, and clear away what a dead one left half written.

    Raises:
        CausalveilError: another extract is filling the folder, or it cannot be written.
    """
    with in_own_words(lambda error: CausalveilError(f"{folder}: cannot be written ({kind_of(error)})"), OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        busy = f"{folder}: another extract is filling this folder"
        with in_own_words(lambda _: CausalveilError(busy), BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for left in folder.glob(f".*{_PARTIAL}*"):
            shutil.rmtree(left)
        for left in folder.glob(".*.partial"):
            left.unlink()
        yield
    finally:
        os.close(handle)


@dataclass(frozen=True)
class SourceState:
    """The state of a source when an extract begins.

    Attributes:
        snapshot: of an open table, which every block is taken from; None of other sources.
        changes: of files since the last extract that ended.
        recounted: blocks whose number of rows in a database differs from that of the last extract.
    """

    snapshot: TableSnapshot | None = None
    changes: SourceChanges = field(default_factory=lambda: SourceChanges({}))
    recounted: tuple[str, ...] = ()


def probe_stage(
    source: Source, place: Path, url: str | None, blocks: Iterable[KeyInterval] = (), before: Manifest | None = None
) -> SourceState:
    """Check that the source answers, has the declared columns, and no row without a key.

    Nothing is written. ``blocks`` are declared; ``before`` is the manifest of the last extract into the folder.

    Raises:
        DataError, CausalveilError: see :func:`tasks.warehouse.read_sql.batches`.
    """
    # Listed before any is read: a file that is written meanwhile is a change at the next extract.
    changes = changes_since(source, place, before)
    snapshot = snapshot_of(source, place)
    for _ in batches(source, place, url, None, snapshot=snapshot):
        pass
    refuse_keyless(source, place, url, snapshot)
    return SourceState(snapshot, changes, _recounted(source, place, url, blocks, before))


def _recounted(
    source: Source, place: Path, url: str | None, blocks: Iterable[KeyInterval], before: Manifest | None
) -> tuple[str, ...]:
    """Return the blocks whose number of rows in a database differs from the extract's."""
    if before is None or not hasattr(source.source, "query"):
        return ()
    rows = {block.block: block.rows + sum(block.left_out.values()) for block in before.blocks if block.rows}
    taken = [interval for interval in blocks if interval.block in rows]
    if not taken:
        return ()
    whole = KeyInterval("", "", taken[0].lower, taken[-1].upper)
    if rows_there(source, place, url, whole) == sum(rows[interval.block] for interval in taken):
        return ()
    return tuple(
        interval.block for interval in taken if rows_there(source, place, url, interval) != rows[interval.block]
    )


@dataclass(frozen=True)
class TakenBlock:
    """A block, and whether it had other rows before."""

    block: ExtractedBlock
    again: bool = False


def extract_stage(
    source: Source,
    place: Path,
    url: str | None,
    folder: Path,
    interval: KeyInterval,
    state: SourceState,
) -> TakenBlock:
    """Take one block, unless it is there with the rows of this state of its source.

    Args:
        source: the declaration.
        place: the folder that its relative paths begin at.
        url: of the warehouse.
        folder: the data folder, held by :func:`extracting`.
        interval: the block.
        state: of the source; a block of another state may hold rows that were deleted or corrected since.

    Raises:
        DataError: the source's schema drifted, a block of another declaration or table is in the way, or files are gone
            that gave it rows.
        CausalveilError: the source cannot be read, or the folder not be written.
    """
    place_of_block = folder / interval.block
    before = stored_block(source, folder, interval.block) if place_of_block.exists() else None
    snapshot = state.snapshot
    if before is not None:
        _refuse_other_table(folder, before, snapshot)
        if before.rows and before.snapshot == snapshot and not _touched(source, place, interval, state.changes):
            return TakenBlock(before)
    partial = folder / f".{interval.block}{_PARTIAL}{uuid4().hex}"
    aside = partial.with_name(f"{partial.name}-before")
    failed = f"{folder}: block {interval.block} cannot be written"
    try:
        with in_own_words(lambda error: CausalveilError(f"{failed} ({kind_of(error)}); run again"), OSError):
            partial.mkdir(mode=0o700)
            lost = Counter[str]()
            files = _write(
                batches(source, place, url, interval, lost, snapshot),
                target_schema(source),
                partial,
                source.rows_per_file,
            )
            block = ExtractedBlock(
                block=interval.block,
                rows=sum(files.values()),
                source_digest=source.digest,
                files=tuple(ExtractedFile(path=f"{interval.block}/{name}", rows=rows) for name, rows in files.items()),
                left_out=dict(lost),
                snapshot=snapshot,
            )
            same = before is None or not before.rows or _same_rows(folder, before, partial)
            if before == block and same:
                return TakenBlock(block)
            if before is not None and not same and state.changes.gone:
                raise _gone(folder, before, state.changes)
            if before is None or block.rows or before.rows:
                _write_text(partial / BLOCK_FILE, block.model_dump_json(indent=1) + "\n")
                begin_change(folder)
                if before is not None:
                    place_of_block.rename(aside)
                partial.rename(place_of_block)
                sync_folder(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(aside, ignore_errors=True)
    return TakenBlock(block, again=not same)


def _touched(source: Source, place: Path, interval: KeyInterval, changes: SourceChanges) -> bool:
    """Return whether a block may have other rows by files that were written, or are gone."""
    if changes.changed or changes.gone or not changes.new:
        return bool(changes.changed or changes.gone)
    if getattr(source.source, "row_number", None) is not None:
        # Rows are numbered over all files in the order of their names.
        return True
    lost = Counter[str]()
    return any(batch.num_rows or lost for batch in batches(source, place, None, interval, lost, among=changes.new))


def _same_rows(folder: Path, before: ExtractedBlock, taken: Path) -> bool:
    """Return whether a block holds the same rows, in any order, as the files in ``taken``."""
    try:
        return _rows(folder / file.path for file in before.files) == _rows(taken.iterdir())
    except (pa.ArrowException, OSError):
        # A file that does not parse any more holds no rows.
        return False


def _rows(paths: Iterable[Path]) -> tuple[int, int]:
    """Return the number of rows, and the sum of their hashes, which depends on no order."""
    count = total = 0
    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_ROWS):
                hashes = frame_of(batch, batch.schema.names).hash_rows()
                count, total = count + len(hashes), (total + int(hashes.sum())) % (1 << 64)
    return count, total


def _gone(folder: Path, block: ExtractedBlock, changes: SourceChanges) -> DataError:
    return DataError(
        f"{folder / block.block}: would have other rows now, as the source lacks files that it had: "
        f"{named_files(changes.gone)}; bring them back, or delete this folder to take the block anew from what is there"
    )


def _refuse_other_table(folder: Path, before: ExtractedBlock, snapshot: TableSnapshot | None) -> None:
    """Refuse a table that took the place of the block's table.

    Raises:
        DataError: it is another table.
    """
    if before.snapshot is not None and snapshot is not None and before.snapshot.table != snapshot.table:
        raise DataError(
            f"{folder / before.block}: was taken from another table than the one that lies there now; delete the "
            "folders of all blocks to take them anew, or fill another folder: 'to' in source.yaml"
        )


def stored_block(source: Source, folder: Path, name: str) -> ExtractedBlock:
    """Return a block that an earlier extract finished.

    Raises:
        DataError: no extract made it, or one of another declaration, or its files were changed.
    """
    problem = None
    try:
        document = parse_json(read_regular(folder / name / BLOCK_FILE))
        block = ExtractedBlock.model_validate(document)
        counts = [pq.read_metadata(folder / file.path).num_rows for file in block.files]
    except Exception:  # of json, pydantic, the file system, or pyarrow
        problem = "is not as an extract left it"
    else:
        if block.source_digest != source.digest:
            problem = "was taken by another declaration (query, version, key or columns)"
        elif counts != [file.rows for file in block.files]:
            problem = "was changed since it was taken"
    if problem:
        raise DataError(f"{folder / name}: {problem}; delete this folder to take the block anew")
    return block


def manifest_stage(
    source: Source,
    folder: Path,
    intervals: tuple[KeyInterval, ...],
    blocks: tuple[ExtractedBlock, ...],
    files: dict[str, SourceFile],
) -> Manifest:
    """Write the manifest: every block of the declared range in order, and the source's files.

    Raises:
        DataError: the folder holds a block outside the declared range, which a study would read.
        CausalveilError: it cannot be written.
    """
    declared = {block.block for block in blocks}
    name = EVERYTHING.block.partition("=")[0] if source.key is None else source.key.name
    extra = sorted(path.name for path in folder.glob(f"{name}=*") if path.name not in declared)
    if extra:
        raise DataError(f"{folder / extra[0]}: lies outside the declared range; widen the range or move it away")
    manifest = Manifest(
        name=source.name,
        dataset=source.dataset,
        source_digest=source.digest,
        key=None if source.key is None else source.key.name,
        first=intervals[0].value,
        last=intervals[-1].value,
        columns=source.kinds,
        blocks=blocks,
        required=source.required,
        source_files=files,
    )
    path = folder / MANIFEST_FILE
    with in_own_words(lambda error: CausalveilError(f"{path}: cannot be written ({kind_of(error)})"), OSError):
        _write_text(path, manifest.model_dump_json(indent=1) + "\n")
        end_change(folder)
    return manifest


def check_dataset(source: Source, dataset: str | None) -> None:
    """Check that the contract in the folder, if any, is of the dataset that the source names.

    Raises:
        StudyError: it is of another.
    """
    if dataset is not None and dataset != source.dataset:
        raise StudyError(
            f"source '{source.name}' fills dataset '{source.dataset}', but the contract there is of '{dataset}'"
        )


def _write(rows: Iterator[pa.RecordBatch], schema: pa.Schema, folder: Path, rows_per_file: int) -> dict[str, int]:
    """Write batches into files of at most ``rows_per_file`` rows, and at least one file."""
    written: dict[str, int] = {}
    rest: pa.RecordBatch | None = None
    more = True
    while more:
        name = f"part-{len(written):05d}.parquet"
        with _new_parquet(folder / name, schema) as write:
            count = 0
            while count < rows_per_file:
                batch = rest if rest is not None else next(rows, None)
                rest = None
                if batch is None:
                    more = False
                    break
                room = rows_per_file - count
                if batch.num_rows > room:
                    batch, rest = batch.slice(0, room), batch.slice(room)
                write(batch)
                count += batch.num_rows
        written[name] = count
    if len(written) > 1 and written[name] == 0:
        # The rows ended with the file before.
        (folder / name).unlink()
        del written[name]
    return written


@contextmanager
def _new_parquet(path: Path, schema: pa.Schema) -> Iterator[Any]:
    """Yield the writer of a new Parquet file, mode 0600, on disk when the block is left."""
    with (
        whole_file(path, durable=True) as stream,
        pq.ParquetWriter(stream, schema, compression="lz4", write_statistics=False) as writer,
    ):
        yield lambda batch: writer.write_batch(batch) if batch.num_rows else None


def _write_text(path: Path, text: str) -> None:
    with whole_file(path, durable=True) as stream:
        stream.write(text.encode())
