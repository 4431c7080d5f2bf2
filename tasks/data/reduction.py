"""Make one row of several of a unit when data are admitted.

A unit's rows may lie anywhere; two passes over disk gather them in memory for one bucket. Each partition is written
once more, in scratch, its rows gathered by the bucket of a keyed hash of the unit; then one bucket after the other is
read from all of these files.

A unit's row is a function of its own rows alone, by the owner's ``rows``. A unit's rows must change its reduced row
alone, to the last bit, or the sensitivities of one bounded row would not hold. So rows are ordered by their values,
never by files (``docs/proofs/data.md``), numbers are clipped before they are added, and sums add a unit's rows in turn,
whatever other units' rows are beside them.

The stage goes block by block, into a folder of its own that runs read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from causalveil.schemas.admission import contract_roles
from causalveil.schemas.contract import Contract
from causalveil.schemas.declared import (
    Aggregate,
    CodesColumn,
    Declared,
    EventColumn,
    Keep,
    LevelsColumn,
    NumberColumn,
    RowsPerUnit,
    TimeColumn,
)
from causalveil.schemas.errors import CausalveilError, ContractError, DataError, in_own_words, kind_of
from causalveil.schemas.plan import Layout, Partition
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.normalise import as_codes, binary
from causalveil.tasks.data.partitions import read_rows
from causalveil.tasks.data.split import keyed_hash
from causalveil.tasks.machine.arrays import BoolArray, FloatArray, IntArray, named, values_of
from causalveil.tasks.machine.files import whole_file


def bucket_of(units: pl.Series, key: bytes, buckets: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the bucket of each unit, in [0, buckets); the same in every partition."""
    high = keyed_hash(units, key)[:, 0] >> np.uint64(32)
    return np.asarray((high * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)


def spread(frame: pl.DataFrame, unit: str, key: bytes, buckets: int, path: Path) -> None:
    """Write rows to an Arrow file with one record batch per bucket, mode 0600.

    Args:
        frame: some rows, in the types of ``read_rows``.
        unit: the column that names the unit.
        key: of the hash, 16 bytes; the same for all partitions.
        buckets: their number, below 2^32.
        path: the file, in scratch.

    Raises:
        CausalveilError: the disk is full or fails.
    """
    numbers = bucket_of(values_of(frame, unit), key, buckets)
    order = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[order], np.arange(buckets + 1))
    table = frame[order].rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    problem = "scratch cannot be written ({}); make room on its disk"
    with (
        in_own_words(lambda error: CausalveilError(problem.format(kind_of(error))), OSError, pa.ArrowException),
        whole_file(path) as stream,
        pa.ipc.new_file(stream, table.schema) as writer,
    ):
        for number in range(buckets):
            writer.write_batch(_batch(table.slice(ends[number], ends[number + 1] - ends[number])))


def gather(paths: Sequence[Path], bucket: int) -> Iterator[pl.DataFrame]:
    """Yield the rows of one bucket, a frame from each of the files that :func:`spread` wrote."""
    for path in paths:
        with pa.memory_map(str(path)) as file:
            frame = pl.DataFrame(pa.Table.from_batches([pa.ipc.open_file(file).get_batch(bucket)]))
        yield frame


def _batch(table: pa.Table) -> pa.RecordBatch:
    """A table of one chunk per column, or of none, as one record batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


@dataclass(frozen=True)
class Groups:
    """Rows of a frame in order of units: each unit's first position and number of rows."""

    starts: IntArray
    lengths: IntArray

    @property
    def members(self) -> IntArray:
        """The unit of each row, as a position."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def picked(self, keep: Keep) -> IntArray:
        """Return the first, or the last, row of each unit."""
        return self.starts if keep is Keep.first else self.starts + self.lengths - 1


def reduce_rows(frame: pl.DataFrame, unit: str, rows: RowsPerUnit, columns: Mapping[str, Declared]) -> pl.DataFrame:
    """Return one row per unit.

    Args:
        frame: all rows of its units, in any order: the unit, ``rows.order`` and the declared columns, as checked.
        unit: the column that names the unit; no nulls.
        rows: the most rows that count, from which end, and the aggregate of each column.
        columns: the contract's declarations of the columns of ``frame``.

    Returns:
        The unit, the declared columns in the order of ``columns``, ``rows.count`` and the columns of ``rows.wide``;
        units ascend. All aggregates but ``first`` and ``last`` leave nulls out, and a unit with nulls alone has a null.

    Raises:
        DataError: a value that earlier checks refuse: no number, or neither of two codes.
    """
    frame = counting_rows(frame, unit, rows, columns)
    units = values_of(frame, unit)
    groups = _groups(units)
    reduced = {unit: units.gather(groups.starts)}
    for name, column in columns.items():
        reduced[name] = _reduced_column(values_of(frame, name), name, column, rows.aggregate(name), groups)
    if rows.count is not None:
        reduced[rows.count] = pl.Series(groups.lengths, dtype=pl.Int64)
    for wide_name, (name, period) in rows.periods.items():
        reduced[wide_name] = _of_period(frame, unit, rows, name, columns[name], period, reduced[unit])
    return pl.DataFrame([values.alias(name) for name, values in reduced.items()])


def _of_period(
    frame: pl.DataFrame,
    unit: str,
    rows: RowsPerUnit,
    name: str,
    column: Declared,
    period: str | int,
    units: pl.Series,
) -> pl.Series:
    """Return a column's aggregate over the rows of one period, by unit; null without such rows.

    ``frame``: rows that count, by unit and in order.
    """
    order = values_of(frame, str(rows.order))
    if order.dtype.is_temporal() and not isinstance(period, str):
        raise DataError(f"column '{rows.order}' holds dates; write periods of 'rows.wide' as text, as '2026-01-31'")
    of_period = frame.filter((as_codes(order, isinstance(period, str)) == period).fill_null(value=False))
    groups = _groups(values_of(of_period, unit))
    values = _reduced_column(values_of(of_period, name), name, column, rows.aggregate(name), groups)
    by_unit = pl.DataFrame({"unit": values_of(of_period, unit).gather(groups.starts), "values": values})
    return pl.DataFrame({"unit": units}).join(by_unit, on="unit", how="left", maintain_order="left")["values"]


def counting_rows(frame: pl.DataFrame, unit: str, rows: RowsPerUnit, columns: Mapping[str, Declared]) -> pl.DataFrame:
    """Return the rows that count, by unit and in order: the first or last ``rows.at_most``.

    Of a part of a unit's rows it keeps every row that counts among all of them, so it may be applied to parts first.
    Arguments as of :func:`reduce_rows`.
    """
    frame = _in_order(frame, unit, rows, columns)
    if rows.at_most is None:
        return frame
    groups = _groups(values_of(frame, unit))
    rank = np.arange(groups.lengths.sum()) - np.repeat(groups.starts, groups.lengths)
    if rows.keep is Keep.first:
        return frame.filter(pl.Series(rank < rows.at_most))
    return frame.filter(pl.Series(rank >= np.repeat(groups.lengths, groups.lengths) - rows.at_most))


def _in_order(frame: pl.DataFrame, unit: str, rows: RowsPerUnit, columns: Mapping[str, Declared]) -> pl.DataFrame:
    """Rows by unit, then by the declared order, then by all declared columns, never by files.

    The last step is taken only where two rows of a unit tie; for a unit without ties it changes nothing.
    """
    keys = [unit] if rows.order is None else [unit, rows.order]
    frame = frame[list(dict.fromkeys((*keys, *columns)))]
    # Rows without a value of the order are kept last.
    nulls_last = rows.keep is Keep.first
    ordered = frame.sort(*map(named, keys), nulls_last=nulls_last)
    if frame.height < 2 or not ordered[keys].is_duplicated().any():
        return ordered
    return frame.sort(*map(named, (*keys, *sorted(set(columns) - set(keys)))), nulls_last=nulls_last)


def _groups(units: pl.Series) -> Groups:
    """Return where runs of equal values begin in a sorted column, and their lengths."""
    lengths = units.rle().struct.field("len").to_numpy().astype(np.int64)
    return Groups(np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)[: len(lengths)], lengths)


def _reduced_column(values: pl.Series, name: str, column: Declared, aggregate: Aggregate, groups: Groups) -> pl.Series:
    """One value per unit."""
    if aggregate in (Aggregate.first, Aggregate.last) or isinstance(column, LevelsColumn | TimeColumn | EventColumn):
        keep = Keep.first if aggregate is Aggregate.first else Keep.last
        return values.gather(groups.picked(keep))
    numbers, present = _numbers(values, name, column)
    members, units = groups.members, len(groups.lengths)
    # Added in the order of rows: a unit's sum does not depend on other units.
    counts = np.bincount(members, weights=present, minlength=units)
    if aggregate in (Aggregate.sum, Aggregate.mean):
        sums = np.bincount(members, weights=numbers, minlength=units)
        result = np.asarray(sums / np.maximum(counts, 1.0) if aggregate is Aggregate.mean else sums, np.float64)
    else:
        result = _extreme(numbers, present, groups, largest=aggregate in (Aggregate.max, Aggregate.any))
    reduced = pl.Series(result).scatter(np.flatnonzero(counts == 0), None)
    if isinstance(column, CodesColumn) and aggregate in (Aggregate.any, Aggregate.all):
        return _coded(reduced, column, values.dtype)
    return reduced


def _extreme(numbers: FloatArray, present: BoolArray, groups: Groups, *, largest: bool) -> FloatArray:
    """The largest or the smallest of each unit's values."""
    if not len(numbers):
        return numbers
    if largest:
        return np.asarray(np.maximum.reduceat(np.where(present, numbers, -np.inf), groups.starts))
    return np.asarray(np.minimum.reduceat(np.where(present, numbers, np.inf), groups.starts))


def _numbers(values: pl.Series, name: str, column: NumberColumn | CodesColumn) -> tuple[FloatArray, BoolArray]:
    """A column as numbers within its declared range, 0 for nulls; and True where it has a value.

    Raises:
        DataError: something that is no number, or neither code.
    """
    if isinstance(column, CodesColumn):
        numbers = binary(values, column.codes).cast(pl.Float64)
        lower, upper = 0.0, 1.0
    else:
        numbers = values.cast(pl.Float64, strict=False)
        lower, upper = column.lower, column.upper
    if numbers.null_count() != values.null_count() or numbers.is_nan().any():
        raise DataError(f"column '{name}' holds something that is no number, or neither of its two codes")
    present = numbers.is_not_null().to_numpy()
    clipped = np.clip(numbers.fill_null(0.0).to_numpy(), lower, upper)
    return np.where(present, clipped, 0.0), present


def _coded(numbers: pl.Series, column: CodesColumn, dtype: pl.DataType) -> pl.Series:
    """0 and 1 as the column writes control and treated."""
    control, treated = column.codes.pair
    kind = pl.String() if isinstance(control, str) else pl.Int64()
    coded = pl.select(
        pl.when(numbers == 1.0).then(pl.lit(treated, kind)).when(numbers == 0.0).then(pl.lit(control, kind))
    ).to_series()
    return coded if isinstance(control, str) else coded.cast(dtype)


# About the rows of a bucket, and the units of a file that results: memory holds some of each.
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
        target: an empty private folder, for ``part-00000.parquet`` and so on, below ``month=...`` where the contract
            has blocks: each of ``file_units`` units but the last, so their number and sizes follow from the number of
            units alone.
        each: called with a block's name and units, each unit of the block once.
        key: of the hash by which rows are put into buckets; 16 bytes, not used afterwards.
        bucket_rows: about the number of rows that are reduced at once.
        file_units: units per file.

    Raises:
        ContractError: the contract has no ``rows``.
        DataError: a file cannot be read, or holds values that the checks refuse.
        CausalveilError: the disk is full or fails.
    """
    if contract.rows is None:
        raise ContractError(f"the contract of '{contract.dataset}' has no 'rows' to reduce")
    for block in dict.fromkeys(partition.block for partition in layout.partitions):
        partitions = [partition for partition in layout.partitions if partition.block == block]
        place = target if contract.blocks is None else target / block
        place.mkdir(mode=0o700, exist_ok=True)
        reduced = _reduced_block(contract, contract.rows, folder, partitions, scratch, key, bucket_rows)
        for index, frame in enumerate(_cut(reduced, file_units)):
            each(block, values_of(frame, contract.unit))
            _write(place / f"part-{index:05d}.parquet", frame)


def _reduced_block(
    contract: Contract,
    rows: RowsPerUnit,
    folder: DataFolder,
    partitions: list[Partition],
    scratch: Path,
    key: bytes,
    bucket_rows: int,
) -> Iterator[pl.DataFrame]:
    """The reduced rows of one block, bucket by bucket."""
    buckets = min(MOST_BUCKETS, max(1, -(-sum(partition.rows for partition in partitions) // bucket_rows)))
    roles = contract_roles(contract)
    names = dict.fromkeys([contract.unit, *([rows.order] if rows.order else []), *contract.columns])
    columns = {name: roles[name] for name in names}
    paths: list[Path] = []
    # Types in a file without rows are arbitrary.
    partitions = [partition for partition in partitions if partition.rows] or partitions[:1]
    frames = (frame for partition in partitions for frame in read_rows(folder, partition, columns, bucket_rows))
    for frame in _joined(frames, bucket_rows):
        paths.append(scratch / f"rows-{len(paths):05d}.arrow")
        spread(frame, contract.unit, key, buckets, paths[-1])
    for bucket in range(buckets):
        frame = _held(gather(paths, bucket), contract, rows, 2 * bucket_rows)
        yield reduce_rows(frame, contract.unit, rows, contract.columns)
    for path in paths:
        path.unlink()


def _held(frames: Iterator[pl.DataFrame], contract: Contract, rows: RowsPerUnit, most: int) -> pl.DataFrame:
    """The rows of a bucket; rows that cannot count are removed whenever there are more than ``most``.

    A unit may have any number of rows, all of which are in its bucket; of these ``at_most`` count. Memory holds twice
    the rows that count, at least ``most`` rows.
    """
    held = next(frames)
    for frame in frames:
        held = pl.concat([held, frame])
        if rows.at_most is not None and held.height > most:
            held = counting_rows(held, contract.unit, rows, contract.columns)
            most = max(most, 2 * held.height)
    return held


def _joined(frames: Iterator[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """Join frames until they have ``rows`` rows or more, so that small partitions make few files."""
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
    """Cut frames into frames of ``rows`` rows but the last; a block without rows has an empty frame."""
    rest = pl.DataFrame()
    for frame in frames:
        rest = frame if rest.is_empty() else pl.concat([rest, frame])
        while rest.height > rows:
            yield rest[:rows]
            rest = rest[rows:]
    yield rest


def _write(path: Path, frame: pl.DataFrame) -> None:
    def problem(error: BaseException) -> CausalveilError:
        return CausalveilError(
            f"{path.parent}: the reduced rows cannot be written ({kind_of(error)}); make room on its disk"
        )

    with (
        in_own_words(problem, OSError, pl.exceptions.ComputeError),
        whole_file(path, durable=True) as stream,
    ):
        frame.write_parquet(stream, compression="lz4", statistics=False)
