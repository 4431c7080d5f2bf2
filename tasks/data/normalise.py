"""Turn columns into rows of the unit ball.

With p covariates the encoded row is x = (z, 1) / sqrt(p + 1) where each covariate's block of z has norm at most 1: a
number, clipped to its declared bounds, is one entry in [-1, 1] on its declared scale; a category is one-hot; a number
that may be missing is a pair (z, missing), which is (z, 0) or (0, 1). So ||x||_2 <= 1 for every possible row, the
intercept inside; ``docs/privacy.md`` proves it in floating point, for which the divisor is slightly larger. Every bound
comes from the study, none from the data.

Where covariates and treatments are public a plan may read them, and no outcome. Of large data it reads row groups at
even distances, and every k-th row of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
from numpy.typing import NDArray

from causalveil.schemas.admission import Roles, read_frame, whole_values
from causalveil.schemas.clusters import Clusters
from causalveil.schemas.columns import (
    OTHER,
    Bounds,
    CategoricalCovariate,
    NumberScale,
    NumericCovariate,
    Others,
    TwoCodes,
)
from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Layout, Partition
from causalveil.schemas.study import MissingTreatment, Study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.covariates import Block, blocks, dimension, scale
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.enclave import Rows, segment_folder
from causalveil.tasks.data.partitions import (
    READER_ERRORS,
    VALUES,
    LoadedSegment,
    opened,
    read_segments,
    reading,
    readings,
)
from causalveil.tasks.data.split import HASH_LABEL, ascending, keyed_hash
from causalveil.tasks.machine.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    frame_of,
    load_array,
    new_array,
    save_array,
    values_of,
)
from causalveil.tasks.machine.distribute import distribute, tell, while_more_come
from causalveil.tasks.privacy.keys import key_of

# Chunks keep temporaries in the processor's cache.
CHUNK_ROWS = 16_384
# Values of a segment's rows that are encoded before they are put in order: as much memory again as the segment.
MOST_ENCODED = 2 * VALUES


def rescale(values: FloatArray, bounds: Bounds, radius: float, out: FloatArray) -> None:
    """Map the declared bounds onto [-radius, radius] and clip to it.

    Values beyond the bounds land on its ends.

    Clipping comes last, so the result is in the interval in floats too, whatever was rounded before, and infinite
    steps on the way (bounds near 1e308) do no harm. Bounds closer than 1e-307 cannot be told apart by a finite rate
    and map to -radius.

    Args:
        values: shape (n,), finite; overwritten.
        bounds: finite, lower < upper.
        radius: above 0.
        out: shape (n,), any strides.

    Raises:
        DataError: a NaN, which clipping lets through.
    """
    with np.errstate(over="ignore"):
        values -= bounds.lower
        values *= min(np.float64(2.0 * radius) / bounds.width, np.finfo(np.float64).max)
        values -= radius
    # A NaN makes min() NaN, and no comparison with NaN is true.
    if values.size and not values.min() >= -np.inf:
        raise DataError("a value is not a number")
    np.clip(values, -radius, radius, out=out)


def on_scale(values: FloatArray, covariate: NumericCovariate) -> FloatArray:
    """Return values on the covariate's declared scale, shape (n,), clipped to its range first.

    A NaN stays a NaN.
    """
    if covariate.scale in (None, NumberScale.linear):
        return values
    clipped = np.clip(values, covariate.lower, covariate.upper)
    return np.log(clipped) if covariate.scale is NumberScale.log else np.sqrt(clipped)


@dataclass(frozen=True)
class CovariateValues:
    """One covariate of a partition, ready to encode: numbers or indices of levels, and nulls."""

    block: Block
    values: NDArray[Any]
    absent: BoolArray | None


def columns(study: EffectStudy, frame: pl.DataFrame) -> list[CovariateValues]:
    """Get those covariates that ``frame`` holds ready to encode; n rows, as validated.

    Raises:
        DataError: a value that validation refuses.
    """
    result = []
    for block in (block for block in blocks(study) if block.name in frame.columns):
        series = values_of(frame, block.name)
        absent = series.is_null().to_numpy() if series.null_count() else None
        if absent is not None and not study.indicated(block.name):
            raise DataError(f"column '{block.name}' holds nulls")
        convert = level_codes if isinstance(block.covariate, CategoricalCovariate) else _covariate_floats
        result.append(CovariateValues(block, convert(series, block), absent))
    return result


def encode(
    study: EffectStudy, prepared: Sequence[CovariateValues], chosen: IntArray | slice, out: FloatArray | None = None
) -> FloatArray:
    """Return the rows of x for some rows of a partition.

    Args:
        study: declares bounds and levels.
        prepared: the partition's covariates.
        chosen: positions of rows, shape (m,), in any order; or a slice of m rows within the partition.
        out: shape (at least m, d), of any strides; memory for the result.

    Returns:
        Shape (m, d): every row in the unit ball, the last column the intercept. A view of ``out`` if given.

    Raises:
        DataError: a NaN.
    """
    m = chosen.stop - chosen.start if isinstance(chosen, slice) else len(chosen)
    x = np.empty((m, dimension(study))) if out is None else out[:m]
    factor = scale(study)
    rows = np.arange(m)
    for column in prepared:
        block = column.block
        values = column.values[chosen].copy() if isinstance(chosen, slice) else column.values.take(chosen, mode="clip")
        absent = None if column.absent is None else column.absent[chosen]
        if isinstance(block.covariate, CategoricalCovariate):
            x[:, block.start : block.start + len(block.features)] = 0.0
            x[rows, block.start + values] = factor
            continue
        rescale(on_scale(values, block.covariate), block.covariate.on_scale, factor, out=x[:, block.start])
        if study.indicated(block.name):
            x[:, block.start + 1] = 0.0 if absent is None else absent * factor
        if absent is not None:
            # The declared midpoint, exactly, so that (z, missing) is (z, 0) or (0, 1).
            x[absent, block.start] = 0.0
    x[:, -1] = factor
    return x


def scaled_outcome(study: EffectStudy, frame: pl.DataFrame) -> FloatArray:
    """Return u = (clip(y) - middle) / (B / 2), shape (n,), never outside [-1, 1].

    A missing outcome gets the value that the study declares for it, exactly; if the study leaves the unit out, it gets
    NaN, and no sum of that outcome reads it. An outcome that is a combination is the sum of its columns, each cut to
    its range and multiplied, in their order.

    Raises:
        DataError: NaN, or nulls for which the study declares nothing.
    """
    counted, outcome = study.missing_outcome.scaled, study.outcome
    values, absent = np.zeros(frame.height), np.zeros(frame.height, dtype=np.bool_)
    for name, codes in outcome.reads.items():
        series = values_of(frame, name)
        if series.null_count() and counted is None and not outcome.leaves_out:
            raise DataError(f"column '{name}' holds nulls")
        absent |= series.is_null().to_numpy()
        numbers = _floats(_numbers(series, codes, name), name)
        if outcome.of:
            term = next(term for term in outcome.of if term.name == name)
            values += term.times * np.clip(numbers, term.lower, term.upper)
        else:
            values = numbers.copy()
    rescale(values, outcome, 1.0, out=values)
    values[absent] = np.nan if counted is None else counted
    return values


def arm_of(study: EffectStudy, series: pl.Series) -> pl.Series:
    """Return 0 for control, 1 for treated, as UInt8; nulls are controls if the study says so.

    Raises:
        DataError: a value that is neither code, or nulls for which the study declares nothing.
    """
    arms = nulls_as_reference(study.missing_treatment, series, binary(series, study.codes))
    if arms.null_count():
        raise DataError(f"column '{study.treatment}' holds something that is not one of its two codes")
    return arms


def nulls_as_reference(missing: MissingTreatment, series: pl.Series, arms: pl.Series) -> pl.Series:
    """Set missing treatments to arm 0, if so declared; a value that is no code stays null."""
    if missing is MissingTreatment.refuse or not series.null_count():
        return arms
    return pl.select(pl.when(series.is_null()).then(pl.lit(0, pl.UInt8)).otherwise(arms)).to_series()


def normalise_segment(study: EffectStudy, segment: LoadedSegment, place: Path, key: bytes) -> None:
    """Write x.npy, t.npy, u.npy, h.npy and c.npy of one segment, rows ascending by keyed hash.

    Raises:
        DataError: a value that admission refuses.
    """
    frame = segment.frame
    order = hashed_order(values_of(frame, study.data.unit), place, key)
    save_array(place / "t.npy", arm_of(study, values_of(frame, study.treatment)).to_numpy().take(order))
    save_array(place / "u.npy", scaled_outcome(study, frame).take(order))
    write_clusters(study.clusters, frame, order, place, key)
    write_covariates(study, columns(study, frame), order, place / "x.npy")


def hashed_order(units: pl.Series, place: Path, key: bytes) -> IntArray:
    """Return the order of a segment's rows by the keyed hash of their units.

    The hashes are left in that order in ``place``.

    Args:
        units: shape (n,).
        place: the segment's folder in scratch; it is made.
        key: 16 bytes, the run's own for this purpose.

    Returns:
        A permutation, shape (n,).
    """
    hashes = keyed_hash(units, key)
    order = ascending(hashes)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    save_array(place / "h.npy", hashes.take(order, axis=0))
    return order


def write_clusters(clusters: Clusters | None, frame: pl.DataFrame, order: IntArray, place: Path, key: bytes) -> None:
    """Write c.npy of one segment: a code of each unit's cluster, where the study has clusters.

    Codes are halves of keyed hashes, the same in all segments. Two clusters of one code would count as one, which
    harms no proof. A unit without a cluster has a code of its own.
    """
    if clusters is None:
        return
    series = values_of(frame, clusters.column)
    absent = series.is_null().to_numpy()
    codes = keyed_hash(series.fill_null("" if series.dtype == pl.String else 0), key)[:, 0].take(order)
    alone = ~load_array(place / "h.npy")[:, 0]
    save_array(place / "c.npy", np.where(absent.take(order), alone, codes))


def normalise_stage(
    study: Study,
    folder: DataFolder,
    layout: Layout,
    scratch: Path,
    run_id: str,
    seed: int | None = None,
    write: Callable[[Any, LoadedSegment, Path, bytes], None] = normalise_segment,
) -> None:
    """Normalise every partition into ``scratch/enclave``.

    Args:
        study: the study.
        folder: the data folder, held to its admission.
        layout: the layout that was validated.
        scratch: the run's scratch folder.
        run_id: the run; its key is derived from the site secret.
        seed: of a simulated run, whose key is derived from it instead.
        write: writes an estimator's rows of a segment, given the study, the segment, its folder in scratch and the
            key of units' hashes. It can be pickled, since it may be called on a worker.

    Raises:
        DataError: a file was changed since it was admitted.
    """
    key = key_of(run_id, seed).subkey(HASH_LABEL)
    roles = {name: study.roles[name] for name in study.columns}
    work = readings(layout, len(roles))

    def write_one(segment: LoadedSegment) -> None:
        write(study, segment, segment_folder(scratch, segment.number), key)

    def normalise(index: int) -> None:
        segments = read_segments(folder, work[index], roles)
        while_more_come(write_one, segments, study.execution.workers)
        tell(index + 1, len(work))

    # Readings of a process run in turn: memory holds as many segments as there are threads.
    distribute(normalise, len(work), workers=1)


def write_covariates(
    study: EffectStudy, prepared: Sequence[CovariateValues], order: IntArray, path: Path, by_column: bool = False
) -> None:
    """Encode the rows in ``order`` and write them to ``path``, chunk by chunk.

    Rows are encoded in the columns' order and permuted afterwards: to gather a row that is contiguous in memory is
    three times as fast as to gather its values from columns, and a column of a segment fits into the processor's cache.
    Where all encoded rows take more memory than a segment may, because categories have many levels, each chunk's values
    are looked up, and written row by row.

    Args:
        study: declares bounds and levels.
        prepared: the segment's covariates.
        order: of its rows.
        path: of the file.
        by_column: write the file column by column, for readers that go along columns.
    """
    d, rows = dimension(study), len(order)
    if rows * d > MOST_ENCODED:
        buffer = np.empty((CHUNK_ROWS, d))
        with new_array(path, (rows, d), np.float64) as write:
            for first in range(0, rows, CHUNK_ROWS):
                write(first, encode(study, prepared, order[first : first + CHUNK_ROWS], buffer))
        return
    whole = np.empty((d, rows)).T if by_column else np.empty((rows, d))
    for first in range(0, rows, CHUNK_ROWS):
        encode(study, prepared, slice(first, min(first + CHUNK_ROWS, rows)), whole[first:])
    with new_array(path, (rows, d), np.float64, by_column) as write:
        if by_column:
            ordered = np.empty(rows)
            for place, column in enumerate(whole.T):
                write(place, np.take(column, order, out=ordered, mode="clip"))
            return
        buffer = np.empty((CHUNK_ROWS, d))
        for first in range(0, rows, CHUNK_ROWS):
            chosen = order[first : first + CHUNK_ROWS]
            write(first, np.take(whole, chosen, axis=0, out=buffer[: len(chosen)], mode="clip"))


def binary(series: pl.Series, codes: TwoCodes) -> pl.Series:
    """Return 0 for control, 1 for treated, as UInt8; null where a value is neither code."""
    control, treated = codes.pair
    kind = pl.String() if isinstance(control, str) else pl.Int64()
    values = series.cast(kind, strict=False)
    return pl.select(
        pl.when(values == treated).then(pl.lit(1, pl.UInt8)).when(values == control).then(pl.lit(0, pl.UInt8))
    ).to_series()


def _numbers(series: pl.Series, codes: TwoCodes | None, name: str) -> pl.Series:
    """A column of codes as 0 and 1; any other column as it is.

    Raises:
        DataError: a value that is neither code.
    """
    if codes is None:
        return series
    numbers = binary(series, codes)
    if numbers.null_count() != series.null_count():
        raise DataError(f"column '{name}' holds something that is not one of its two codes")
    return numbers


def _covariate_floats(series: pl.Series, block: Block) -> FloatArray:
    """A covariate that is a number, or two codes, as floats; nulls are any number."""
    codes = None if isinstance(block.covariate, CategoricalCovariate) else block.covariate.codes
    return _floats(_numbers(series, codes, block.name), block.name)


def _floats(series: pl.Series, name: str) -> FloatArray:
    """The column as floats; nulls are any number."""
    numbers = series.cast(pl.Float64, strict=False)
    if numbers.null_count() != series.null_count():
        raise DataError(f"column '{name}' holds something that is not a number")
    return (numbers.fill_null(0.0) if numbers.null_count() else numbers).to_numpy()


def as_codes(series: pl.Series, text: bool) -> pl.Series:
    """Return values as codes: text or whole numbers, null where a value is no such code."""
    return series.cast(pl.String(), strict=False) if text else whole_values(series)


def level_codes(series: pl.Series, block: Block) -> IntArray:
    """Return the position of each value's level in the block; nulls have the last."""
    if not isinstance(block.covariate, CategoricalCovariate):
        raise TypeError("not a categorical covariate")
    text = isinstance(block.covariate.levels[0], str)
    dtype = pl.String() if text else pl.Int64()
    # A level beyond 64 bits is null here and matches nothing.
    levels = enumerate(pl.Series(block.covariate.levels, dtype=dtype, strict=False))
    table = {level: code for code, level in levels if level is not None}
    default = block.covariate.slots.index(OTHER) if block.covariate.others is Others.other else -1
    codes = as_codes(series, text).replace_strict(table, default=default, return_dtype=pl.Int64).to_numpy()
    codes = np.where(series.is_null().to_numpy(), len(block.features) - 1, codes)
    if np.any(codes < 0):
        raise DataError(f"column '{block.name}' holds something that is not a declared level")
    return codes


# Most rows that are decoded, unless one row group has more.
READ = 2_000_000
BATCH = 1 << 16


def public_rows(study: EffectStudy, folder: DataFolder, layout: Layout, most: int) -> Rows:
    """Return covariates and treatments of at most ``most`` units of a folder, at even distances.

    Outcomes are not opened; they are set to 0.

    Args:
        study: the study, whose treatment and covariates are public.
        folder: the data folder.
        layout: its partitions.
        most: largest number of units.

    Raises:
        DataError: a file cannot be read, or breaks the contract's declarations.
    """
    roles = {name: study.roles[name] for name in (study.treatment, *sorted(study.covariates))}
    parts = list[pl.DataFrame]()
    chosen = _groups(folder, layout)
    step = -(-sum(rows for _, _, rows in chosen) // most)
    passed = 0
    for partition, group, rows in chosen:
        start = passed
        for frame in _frames(folder, partition, group, roles):
            first = -start % step
            if first < frame.height:
                parts.append(frame[first::step])
            start += frame.height
        passed += rows
    # These files may not be admitted yet: an error must not quote their values.
    with suppress(*READER_ERRORS, TypeError):
        frame = pl.concat(parts)
        treated = arm_of(study, values_of(frame, study.treatment)).to_numpy()
        return Rows(encode(study, columns(study, frame), slice(0, frame.height)), treated, np.zeros(frame.height))
    raise DataError(f"{folder}: the files do not hold what the contract declares; `causalveil admit` says where")


def _groups(folder: DataFolder, layout: Layout) -> list[tuple[Partition, int, int]]:
    """Partition, position and number of rows of the row groups to be read, in their order."""
    groups = list[tuple[Partition, int, int]]()
    for partition in layout.partitions:
        with opened(folder, partition.path) as file, reading(partition.path):
            footer = pq.read_metadata(file.place)
            groups += [(partition, group, footer.row_group(group).num_rows) for group in range(footer.num_row_groups)]
    step = max(1.0, layout.units / READ)
    places = sorted({int(place) for place in np.arange(0, len(groups), step)})
    return [groups[place] for place in places if groups[place][2]]


def _frames(folder: DataFolder, partition: Partition, group: int, roles: Roles) -> Iterator[pl.DataFrame]:
    with opened(folder, partition.path) as source, reading(partition.path), pq.ParquetFile(source.place) as file:
        for batch in file.iter_batches(BATCH, row_groups=[group], columns=list(roles)):
            yield read_frame(frame_of(batch, list(roles)), roles)
