"""Does every partition meet the schema that the study declares, and has every unit one row?

A failure names partition, column and rule: never a value, a row, or how many rows fail. That it fails at
all is visible and outside the guarantee; ``docs/privacy.md`` says why that is tolerable.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from schemas.cohort import Rule, cohort_schema, storage, type_rule
from schemas.errors import DataError
from schemas.plan import Layout, Partition
from schemas.study import Study
from tasks.partitions import column_groups, column_types, read_columns
from tasks.privacy.keys import key_of
from tasks.rows import HashArray, load_array, partition_folder, save_array
from tasks.unit_hash import ascending, keyed_hash

if TYPE_CHECKING:
    import pandera.polars as pa

HASH_LABEL = "unit hash"
RANGE_UNITS = 500_000
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
    schema = cohort_schema(study, types)
    # No rows: only presence and type can fail.
    _apply(study, schema, pl.DataFrame(schema=dict(types)), partition)
    return schema


def check_values(study: Study, schema: pa.DataFrameSchema, frame: pl.DataFrame, partition: Partition) -> None:
    """Check nulls, finiteness, levels and treatment of the columns that ``frame`` holds.

    Raises:
        DataError: naming partition, column and rule.
    """
    _apply(study, schema.select_columns(frame.columns), frame, partition)


def check_unique(hashes: list[HashArray], range_units: int = RANGE_UNITS) -> None:
    """Check that no 128-bit hash occurs twice in arrays that each ascend.

    Goes through ranges of the hash's high word that hold about ``range_units`` units each, so memory does
    not grow with the number of units.

    Raises:
        DataError: a unit has two rows.
    """
    units = sum(map(len, hashes))
    ranges = max(1, -(-units // range_units))
    edges = [index * 2**64 // ranges for index in range(ranges + 1)]
    for low, high in pairwise(edges):
        pieces = [part[bisect_left(part[:, 0], low) : bisect_left(part[:, 0], high)] for part in hashes]
        if _repeats(np.concatenate(pieces)):
            raise DataError(Rule.unique)


def validate_stage(
    study: Study, folder: Path, layout: Layout, scratch: Path, run_id: str, seed: int | None = None
) -> None:
    """Check every partition, then that units are unique over all of them.

    Leaves the sorted hashes of the units in ``scratch`` (``h.npy``); normalise compares its own with
    them, so a file that is swapped in between is noticed.

    Args:
        study: the study.
        folder: the data folder.
        layout: what :func:`tasks.partitions.read_layout` found there.
        scratch: the run's scratch folder.
        run_id: the run; its key is derived from the site secret.
        seed: of a simulated run, whose key is derived from it instead.

    Raises:
        DataError: one line with partition, column and rule.
    """
    key = key_of(run_id, seed).subkey(HASH_LABEL)
    first: Types | None = None
    for index, partition in enumerate(layout.partitions):
        types = column_types(folder, partition)
        schema = check_types(study, partition, types, first)
        first = first or types
        for names in column_groups(study.columns, partition.rows):
            frame = read_columns(folder, partition, names)
            check_values(study, schema, frame, partition)
            if study.data.unit in names:
                _save_hashes(frame[study.data.unit], key, partition_folder(scratch, index))
            del frame
    paths = [partition_folder(scratch, index) / "h.npy" for index in range(len(layout.partitions))]
    problem = None
    try:
        check_unique([load_array(path) for path in paths])
    except DataError:
        problem = f"column '{study.data.unit}' {Rule.unique}"
    if problem:
        raise DataError(problem)


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
