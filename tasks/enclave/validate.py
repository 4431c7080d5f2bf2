"""Does every partition meet the schema that the study declares, and has every unit one row?

A failure names partition, column and rule: never a value, a row, or how many rows fail. That it fails at
all is visible and outside the guarantee; ``docs/privacy.md`` says why that is tolerable.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from causalveil.schemas.cohort import Rule, cohort_schema, storage, type_rule
from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Layout, Partition
from causalveil.schemas.study import Study
from causalveil.tasks.enclave.enclave import OpenedInTurn
from causalveil.tasks.enclave.partitions import column_types, read_as
from causalveil.tasks.enclave.rows import HashArray, segment_folder
from causalveil.tasks.enclave.segments import LoadedSegment, Reading, read_segments, readings
from causalveil.tasks.enclave.unit_hash import ascending, keyed_hash
from causalveil.tasks.machine.arrays import IntArray
from causalveil.tasks.machine.arrays_on_disk import load_array, save_array
from causalveil.tasks.machine.distribute import distribute
from causalveil.tasks.privacy.keys import key_of

if TYPE_CHECKING:
    import pandera.polars as pa

HASH_LABEL = "unit hash"
RANGE_UNITS = 2_000_000
Types = Mapping[str, pl.DataType]


def check_types(study: Study, partition: Partition, types: Types, first: Types | None) -> pa.DataFrameSchema:
    """Check presence and type of each column of one partition, and agreement with the first partition.

    Returns:
        The schema for the partition's values.

    Raises:
        DataError: naming partition, column and rule.
    """
    for name in study.columns:
        if first is not None and name in types and storage(types[name]) != storage(first[name]):
            raise DataError(_message(partition, name, Rule.same_type))
    types = {name: read_as(kind) for name, kind in types.items()}
    schema = cohort_schema(study, types)
    # No rows: only presence and type can fail.
    _apply(study, schema, pl.DataFrame(schema=types), partition)
    return schema


def check_values(study: Study, schema: pa.DataFrameSchema, frame: pl.DataFrame, partition: Partition) -> None:
    """Check nulls, finiteness, levels and treatment of the columns that ``frame`` holds.

    Raises:
        DataError: naming partition, column and rule.
    """
    _apply(study, schema.select_columns(frame.columns), frame, partition)


def check_unique(hashes: Sequence[HashArray], range_units: int = RANGE_UNITS) -> None:
    """Check that no 128-bit hash occurs twice in arrays, each of shape (units, 2), that each ascend.

    Raises:
        DataError: a unit has two rows.
    """
    edges = range_edges(sum(map(len, hashes)), range_units)
    if any(has_repeat(hashes, low, high) for low, high in pairwise(edges)):
        raise DataError(Rule.unique)


def range_edges(units: int, range_units: int = RANGE_UNITS) -> list[int]:
    """Edges of ranges of the hash's high word that hold about ``range_units`` units each: memory does not grow."""
    ranges = max(1, -(-units // range_units))
    return [index * 2**64 // ranges for index in range(ranges + 1)]


def has_repeat(hashes: Sequence[HashArray], low: int, high: int) -> bool:
    """Whether a hash with its high word in [low, high) stands twice in ascending arrays of shape (units, 2)."""
    # Copies, so that one partition is open at a time.
    return _repeats(
        np.concatenate(
            [np.array(part[bisect_left(part[:, 0], low) : bisect_left(part[:, 0], high)]) for part in hashes]
        )
    )


def validate_stage(
    study: Study, folder: Path, layout: Layout, scratch: Path, run_id: str, seed: int | None = None
) -> None:
    """Check every partition, then that units are unique over all of them.

    Leaves the sorted hashes of each segment's units in ``scratch`` (``h.npy``); normalise compares its own with
    them, so a file that is swapped in between is noticed.

    Args:
        study: the study.
        folder: the data folder.
        layout: what :func:`tasks.enclave.partitions.read_layout` found there.
        scratch: the run's scratch folder.
        run_id: the run; its key is derived from the site secret.
        seed: of a simulated run, whose key is derived from it instead.

    Raises:
        DataError: one line with partition, column and rule.
    """
    key = key_of(run_id, seed).subkey(HASH_LABEL)
    first = column_types(folder, layout.partitions[0]) if layout.partitions else None
    work = readings(layout, len(study.columns))

    # In one process one after the other, so that memory is bounded by one segment.
    distribute(lambda index: validate_reading(study, folder, work[index], first, scratch, key), len(work), workers=1)
    paths = [segment_folder(scratch, number) / "h.npy" for reading in work for number in reading.numbers]
    edges = range_edges(layout.units)

    def repeats(index: int) -> bool:
        hashes = OpenedInTurn(lambda part: load_array(paths[part]), len(paths))
        return has_repeat(hashes, edges[index], edges[index + 1])

    if any(distribute(repeats, len(edges) - 1, workers=1)):
        raise DataError(f"column '{study.data.unit}' {Rule.unique}")


def validate_reading(
    study: Study, folder: Path, reading: Reading, first: Types | None, scratch: Path, key: bytes
) -> None:
    """Check some partitions and leave the sorted hashes of each segment's units in ``scratch``.

    Raises:
        DataError: one line with partition, column and rule.
    """
    known: dict[tuple[object, ...], pa.DataFrameSchema] = {}
    for partition in reading.partitions:
        types = column_types(folder, partition)
        # Of many small files almost all have the same types.
        if (kinds := tuple(types.items())) not in known:
            known[kinds] = check_types(study, partition, types, first)
    schema = next(iter(known.values()))
    for segment in read_segments(folder, reading, study.columns):
        _check_segment(study, schema, segment)
        _save_hashes(segment.frame[study.data.unit], key, segment_folder(scratch, segment.number))


def _check_segment(study: Study, schema: pa.DataFrameSchema, segment: LoadedSegment) -> None:
    """Check all values at once; only where that fails, partition by partition, so as to name the one."""
    failed = False
    try:
        check_values(study, schema, segment.frame, segment.parts[0][0])
    except DataError:
        failed = True
    if failed:
        for partition, frame in segment.parts:
            check_values(study, schema, frame, partition)


def checked_order(segment: LoadedSegment, unit: str, place: Path, key: bytes) -> IntArray:
    """The order of a segment's rows by the hash of their units, if these are the units that were validated.

    Args:
        segment: holds the column ``unit``, n rows.
        unit: the study's unit column.
        place: the segment's folder in scratch, where :func:`validate_reading` left the hashes.
        key: the key of that hash.

    Returns:
        A permutation, shape (n,).

    Raises:
        DataError: the segment was not validated, or its units are others now.
    """
    hashes = keyed_hash(segment.frame[unit], key)
    order = ascending(hashes)
    if not (place / "h.npy").exists():
        raise DataError(f"{segment.partition.path}: not validated; run validate before normalise")
    if not np.array_equal(load_array(place / "h.npy"), hashes[order]):
        raise changed(segment.partition)
    return order


def changed(partition: Partition) -> DataError:
    """The error of a file that is not what was validated."""
    return DataError(f"{partition.path}: changed since it was validated; leave the data alone while a study runs")


def _save_hashes(units: pl.Series, key: bytes, place: Path) -> None:
    hashes = keyed_hash(units, key)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    save_array(place / "h.npy", hashes[ascending(hashes)])


def _repeats(hashes: HashArray) -> bool:
    """Whether a 128-bit value stands twice. High words alone almost never tie, so they are sorted first."""
    ranked = np.sort(hashes[:, 0])
    if not np.any(ranked[1:] == ranked[:-1]):
        return False
    whole = hashes[ascending(hashes)]
    return bool(np.any(np.all(whole[1:] == whole[:-1], axis=1)))


def _apply(study: Study, schema: pa.DataFrameSchema, frame: pl.DataFrame, partition: Partition) -> None:
    """Run pandera, fully, whatever the environment says, and keep of its failure column and rule alone."""
    from pandera.config import ValidationDepth, config_context
    from pandera.errors import SchemaError, SchemaErrorReason

    failed: tuple[str, str] | None = None
    # PANDERA_VALIDATION_ENABLED=False in the environment would turn every check into a pass.
    with config_context(
        validation_enabled=True,
        validation_depth=ValidationDepth.SCHEMA_AND_DATA,
        use_narwhals_backend=False,
    ):
        try:
            schema.validate(frame)
        except SchemaError as error:
            if error.reason_code is SchemaErrorReason.COLUMN_NOT_IN_DATAFRAME:
                failed = str(error.failure_cases), Rule.missing
            elif error.reason_code is SchemaErrorReason.WRONG_DATATYPE:
                failed = str(error.schema.name), type_rule(study, str(error.schema.name))
            else:
                failed = str(error.schema.name), str(getattr(error.check, "name", "breaks the schema"))
    # Raised outside the except block: pandera's error holds the frame, and __context__ would keep it.
    if failed:
        raise DataError(_message(partition, *failed))


def _message(partition: Partition, column: str, rule: str) -> str:
    return f"{partition.path}: column '{column}' {rule}"
