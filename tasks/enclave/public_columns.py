"""Covariates and treatments of people where these are public.

A plan may read them; a run's outcomes it may not.

An even part of large data is read: row groups at even distances, and every k-th row of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from causalveil.schemas.admission.casts import Roles, read_frame
from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Layout, Partition
from causalveil.schemas.protocols.study import EffectStudy
from causalveil.tasks.enclave.data_folder import DataFolder
from causalveil.tasks.enclave.enclave import Rows
from causalveil.tasks.enclave.normalise import arm_of, columns, encode
from causalveil.tasks.enclave.partitions import READER_ERRORS, opened, reading
from causalveil.tasks.machine.frames import frame_of, values_of

# Rows of which columns are decoded at most, unless one row group has more.
READ = 2_000_000
BATCH = 1 << 16


def public_rows(study: EffectStudy, folder: DataFolder, layout: Layout, most: int) -> Rows:
    """Return covariates and treatments of at most so many units of a folder, evenly.

    Outcomes are not opened; they are set to 0.

    Args:
        study: the study, whose treatment and covariates are public.
        folder: the data folder.
        layout: its partitions.
        most: how many units.

    Raises:
        DataError: a file cannot be read, or holds what the contract does not allow.
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
    # Nobody has admitted these files yet: whatever they hold instead is not quoted.
    found: Rows | None = None
    with suppress(*READER_ERRORS, TypeError):
        found = _rows_of(study, pl.concat(parts))
    if found is None:
        raise DataError(f"{folder}: the files do not hold what the contract declares; `causalveil admit` says where")
    return found


def _rows_of(study: EffectStudy, frame: pl.DataFrame) -> Rows:
    treated = arm_of(study, values_of(frame, study.treatment))
    x = encode(study, columns(study, frame), slice(0, frame.height))
    return Rows(x, treated.to_numpy(), np.zeros(frame.height))


def _groups(folder: DataFolder, layout: Layout) -> list[tuple[Partition, int, int]]:
    """Partition, place and rows of the row groups to be read, in their order."""
    found = list[tuple[Partition, int, int]]()
    for partition in layout.partitions:
        with opened(folder, partition.path) as file, reading(partition.path):
            footer = pq.read_metadata(file.place)
            found += [(partition, group, footer.row_group(group).num_rows) for group in range(footer.num_row_groups)]
    every = max(1.0, layout.units / READ)
    places = sorted({int(place) for place in np.arange(0, len(found), every)})
    return [found[place] for place in places if found[place][2]]


def _frames(folder: DataFolder, partition: Partition, group: int, roles: Roles) -> Iterator[pl.DataFrame]:
    with opened(folder, partition.path) as source, reading(partition.path), pq.ParquetFile(source.place) as file:
        for batch in file.iter_batches(BATCH, row_groups=[group], columns=list(roles)):
            yield read_frame(frame_of(batch, list(roles)), roles)
