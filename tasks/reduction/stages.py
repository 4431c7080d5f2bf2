"""The stage that makes one row of several, block by block, into a folder of its own that runs read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl

from causalveil.schemas.admission.cohort import contract_roles
from causalveil.schemas.contract import Contract
from causalveil.schemas.declared import RowsPerUnit
from causalveil.schemas.errors import CausalveilError, ContractError
from causalveil.schemas.plan import Layout, Partition
from causalveil.tasks.enclave.data_folder import DataFolder
from causalveil.tasks.enclave.partitions import read_rows
from causalveil.tasks.machine.files import whole_file
from causalveil.tasks.machine.frames import values_of
from causalveil.tasks.reduction.reduce import counting_rows, reduce_rows
from causalveil.tasks.reduction.spread import gather, spread

# Rows of one bucket, about, and units of one file that results: memory holds some of each.
BUCKET_ROWS = 500_000
FILE_UNITS = 1_000_000
MOST_BUCKETS = 2048


def reduce_stage(
    contract: Contract,
    folder: DataFolder,
    layout: Layout,
    scratch: Path,
    target: Path,
    each: Callable[[str, pl.Series], None],
    key: bytes,
    *,
    bucket_rows: int = BUCKET_ROWS,
    file_units: int = FILE_UNITS,
) -> None:
    """Reduce all rows of a folder to one per unit and block.

    Args:
        contract: with ``rows``.
        folder: the data folder, held to the files whose rows keep the contract's declarations.
        layout: its partitions.
        scratch: an empty private folder, for the rows of one block.
        target: an empty private folder. It is given ``part-00000.parquet`` and so on, below ``month=...`` where the
            contract has blocks: each of ``file_units`` units but the last, so their number and sizes follow from the
            number of units alone.
        each: is shown each block's name with units, each unit of the block once.
        key: of the hash that decides which rows are reduced together; 16 bytes, thrown away afterwards.
        bucket_rows: rows that are reduced at once, about.
        file_units: units per file.

    Raises:
        ContractError: the contract says nothing of rows.
        DataError: a file cannot be read, or holds what the checks refuse.
        CausalveilError: the disk is full or fails.
    """
    if contract.rows is None:
        raise ContractError(f"the contract of '{contract.dataset}' has no 'rows' to reduce")
    for block in dict.fromkeys(partition.block for partition in layout.partitions):
        partitions = [one for one in layout.partitions if one.block == block]
        place = target if contract.blocks is None else target / block
        place.mkdir(mode=0o700, exist_ok=True)
        reduced = _reduced(contract, folder, partitions, scratch, key, bucket_rows)
        for index, frame in enumerate(_cut(reduced, file_units)):
            each(block, values_of(frame, contract.unit))
            _write(place / f"part-{index:05d}.parquet", frame)


def _reduced(
    contract: Contract, folder: DataFolder, partitions: list[Partition], scratch: Path, key: bytes, bucket_rows: int
) -> Iterator[pl.DataFrame]:
    """The reduced rows of one block, bucket by bucket."""
    if contract.rows is None:
        return
    buckets = min(MOST_BUCKETS, max(1, -(-sum(one.rows for one in partitions) // bucket_rows)))
    roles = contract_roles(contract)
    names = dict.fromkeys([contract.unit, *([contract.rows.order] if contract.rows.order else []), *contract.columns])
    columns = {name: roles[name] for name in names}
    paths: list[Path] = []
    # A file without rows may say anything of its columns.
    partitions = [one for one in partitions if one.rows] or partitions[:1]
    frames = (frame for one in partitions for frame in read_rows(folder, one, columns, bucket_rows))
    for frame in _joined(frames, bucket_rows):
        paths.append(scratch / f"rows-{len(paths):05d}.arrow")
        spread(frame, contract.unit, key, buckets, paths[-1])
    for bucket in range(buckets):
        frame = _held(gather(paths, bucket), contract, contract.rows, 2 * bucket_rows)
        yield reduce_rows(frame, contract.unit, contract.rows, contract.columns)
    for path in paths:
        path.unlink()


def _held(frames: Iterator[pl.DataFrame], contract: Contract, rows: RowsPerUnit, most: int) -> pl.DataFrame:
    """The rows of a bucket without those that cannot count, taken out whenever there are more than ``most``.

    One unit may have any number of rows, all of which are in her bucket; of these ``at_most`` count. Memory holds twice
    what counts, at least ``most`` rows.
    """
    held = next(frames)
    for frame in frames:
        held = pl.concat([held, frame])
        if rows.at_most is not None and held.height > most:
            held = counting_rows(held, contract.unit, rows, contract.columns)
            most = max(most, 2 * held.height)
    return held


def _joined(frames: Iterator[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """Join frames into ones of ``rows`` rows or more, so that small partitions make few files."""
    waiting, height = list[pl.DataFrame](), 0
    for frame in frames:
        waiting.append(frame)
        height += frame.height
        if height >= rows:
            yield pl.concat(waiting)
            waiting, height = [], 0
    if waiting:
        yield pl.concat(waiting)


def _cut(frames: Iterator[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """Cut frames into ones of ``rows`` rows but the last.

    There is one frame at least, so that no block is a gap.
    """
    rest = pl.DataFrame()
    for frame in frames:
        rest = frame if rest.is_empty() else pl.concat([rest, frame])
        while rest.height > rows:
            yield rest[:rows]
            rest = rest[rows:]
    yield rest


def _write(path: Path, frame: pl.DataFrame) -> None:
    failure = None
    try:
        with whole_file(path, durable=True) as stream:
            frame.write_parquet(stream, compression="lz4", statistics=False)
    except OSError as error:
        failure = type(error).__name__
    if failure:
        raise CausalveilError(f"{path.parent}: the reduced rows cannot be written ({failure}); make room on its disk")
