"""Counting: every unit once, every value in its bin."""

from __future__ import annotations

import numpy as np

from causalveil.schemas.admission.cohort import accepts, type_rule
from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Layout
from causalveil.schemas.ranges import RangesStudy
from causalveil.tasks.enclave.data_folder import DataFolder
from causalveil.tasks.enclave.partitions import column_types, read_rows
from causalveil.tasks.enclave.unit_hash import keyed_hash
from causalveil.tasks.machine.arrays import IntArray
from causalveil.tasks.machine.frames import values_of
from causalveil.tasks.privacy.keys import key_of
from causalveil.tasks.ranges.histogram import BINS, counts

HASH_LABEL = "unit hash"
ROWS = 1_000_000


def check_kinds(study: RangesStudy, folder: DataFolder, layout: Layout) -> None:
    """Check that every partition has the columns as numbers, by their footers: before anything is reserved.

    Raises:
        DataError: a column is missing or is no number.
    """
    for partition in layout.partitions:
        types = column_types(folder, partition)
        for name, role in study.roles.items() if partition.rows else ():
            if name not in types or not accepts(role, types[name]):
                raise DataError(f"{partition.path}: column '{name}' is missing, or it {type_rule(role)}")


def count_stage(study: RangesStudy, folder: DataFolder, layout: Layout, run_id: str) -> IntArray:
    """Count each column's values, shape (d, BINS); the counts stay inside the enclave.

    Raises:
        DataError: the rows are not those that were admitted, or a unit has two.
    """
    key = key_of(run_id, None).subkey(HASH_LABEL)
    histogram, tags = np.zeros((len(study.numbers), BINS), dtype=np.int64), []
    for partition in layout.partitions:
        for frame in read_rows(folder, partition, study.roles, ROWS):
            tags.append(keyed_hash(values_of(frame, study.data.unit), key))
            histogram += np.stack([counts(values_of(frame, name)) for name in study.numbers])
    # Asked again of the rows that were counted: the sensitivity rests on it.
    if len(np.unique(np.concatenate(tags), axis=0)) < layout.units:
        raise DataError(f"column '{study.data.unit}' names a unit twice; a range is found where each unit has one row")
    return histogram
