"""Rows of a study of times, and the one release of their cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from causalveil.schemas.errors import DataError
from causalveil.schemas.estimators.survival import TimeToEvent
from causalveil.schemas.estimators.survival_protocol import SurvivalStudy
from causalveil.schemas.plan import Sizes
from causalveil.schemas.study import ZERO_ONE, CategoricalCovariate, Missing
from causalveil.tasks.covariates import Block
from causalveil.tasks.enclave.cells import arms_of, eligible, groups_of
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.enclave.normalise import (
    as_codes,
    binary,
    columns,
    hashed_order,
    level_codes,
    write_covariates,
)
from causalveil.tasks.enclave.partitions import LoadedSegment
from causalveil.tasks.machine.arrays import ByteArray, FloatArray, IntArray, save_array
from causalveil.tasks.machine.distribute import distribute
from causalveil.tasks.machine.frames import values_of
from causalveil.tasks.privacy.mechanisms import Budget
from causalveil.tasks.survival.curves import Grid
from causalveil.tasks.survival.joint import grid_of, mechanism
from causalveil.tasks.survival.strategy import SLOT, measured

# Rows whose cells are in memory at a time.
CHUNK_ROWS = 1 << 18


def normalise_times(study: SurvivalStudy, segment: LoadedSegment, place: Path, key: bytes) -> None:
    """Write t.npy, u.npy, k.npy, g.npy and h.npy of one segment; rows ascending by keyed hash.

    With covariates also x.npy.

    Raises:
        DataError: a value that admission refuses.
    """
    frame, first = segment.frame, study.outcomes[0]
    order = hashed_order(values_of(frame, study.data.unit), place, key)
    save_array(place / "t.npy", arms_of(study, values_of(frame, study.treatment))[order])
    time, kind = followed(first, study.kinds, values_of(frame, first.time), values_of(frame, first.event))
    save_array(place / "u.npy", time[order])
    save_array(place / "k.npy", kind[order])
    save_array(place / "g.npy", strata_of_rows(study, frame)[order])
    if study.covariates:
        rows = study.bounded.questions[0]
        write_covariates(rows, columns(rows, frame), order, place / "x.npy")


def strata_of_rows(study: SurvivalStudy, frame: pl.DataFrame) -> ByteArray:
    """Return each person's subgroup and combination of levels, counted from 0, shape (n,).

    A combination is of the levels of the columns of ``censoring.by``. People who are not eligible are in one behind
    all.

    Raises:
        DataError: a value that admission refuses.
    """
    found: IntArray = groups_of(study, frame).astype(np.int64)
    for name, column in study.censoring.by.items():
        series = values_of(frame, name)
        if series.null_count() and column.nulls is not Missing.indicator:
            raise DataError(f"column '{name}' holds nulls")
        levels = study.censoring.levels(name)
        classes = study.censoring.classes.get(name)
        if classes is not None:
            own = _classes_of(series, classes, levels)
        elif isinstance(column, CategoricalCovariate):
            own = level_codes(series, Block(name, column, 0, tuple(map(str, range(levels)))))
        else:
            codes = binary(series, column.codes or ZERO_ONE)
            if codes.null_count() != series.null_count():
                raise DataError(f"column '{name}' holds something that is not one of its two codes")
            own = codes.cast(pl.Int64).fill_null(levels - 1).to_numpy()
        found = found * levels + own
    return np.where(eligible(study.where, frame), found, len(study.groups) * study.censoring.groups).astype(np.uint8)


def _classes_of(series: pl.Series, classes: Sequence[float], levels: int) -> IntArray:
    """The class of each number, counted from 0; a number that is missing has one behind all."""
    numbers = series.cast(pl.Float64, strict=False).fill_nan(None)
    own = np.searchsorted(np.asarray(classes), numbers.fill_null(0.0).to_numpy(), side="right")
    return np.where(numbers.is_null().to_numpy(), levels - 1, own)


def followed(
    outcome: TimeToEvent, kinds_of_events: Sequence[Sequence[str]], times: pl.Series, events: pl.Series
) -> tuple[FloatArray, ByteArray]:
    """Return each person's time and her kind of event, 0 for censored; shapes (n,).

    A person who has no time, a negative one, or no event is censored at 0, which is in the first interval. One who was
    followed for longer than ``upper`` has the next float above it: she is at risk to the end, whatever came later.

    Raises:
        DataError: a code that the contract does not declare, or nulls where it declares none.
    """
    for name, series, nulls in (
        (outcome.time, times, outcome.time_nulls),
        (outcome.event, events, outcome.event_nulls),
    ):
        if series.null_count() and nulls != "indicator":
            raise DataError(f"column '{name}' holds nulls")
    place_of = {name: place + 1 for place, kind in enumerate(kinds_of_events) for name in kind}
    place_of[outcome.censoring] = 0
    codes = {name: code for name, code in outcome.codes.items() if code is not None}
    text = isinstance(next(iter(codes.values())), str)
    of_code = {(code if isinstance(code, str) else int(code)): place_of[name] for name, code in codes.items()}
    kinds = as_codes(events, text).replace_strict(of_code, default=None, return_dtype=pl.UInt8)
    # Of all names one may have no code: it has every code that the contract does not declare.
    for name in outcome.codes.keys() - codes:
        kinds = kinds.fill_null(place_of[name]).set(events.is_null(), None)
    if kinds.null_count() != events.null_count():
        raise DataError(f"column '{outcome.event}' holds a code that is not declared")
    number = times.cast(pl.Float64(), strict=False).fill_nan(None)
    known = (number.is_not_null() & (number >= 0).fill_null(value=False) & kinds.is_not_null()).to_numpy()
    longest = float(np.nextafter(outcome.upper, np.inf))
    time = np.where(known, np.clip(number.fill_null(0.0).to_numpy(), 0.0, longest), 0.0)
    return time, np.where(known, kinds.fill_null(0).to_numpy(), 0).astype(np.uint8)


# The arrays that say a person's cell, as ``Grid.cell`` takes them.
CELL = ("t", "u", "k", "g")


def count_cells(enclave: Enclave, grid: Grid, workers: int) -> IntArray:
    """Return the exact number of people in each cell, shape (numbers,).

    It is a sum over partitions, one chunk in memory.
    """
    size = grid.numbers

    def of_segment(index: int) -> list[int]:
        rows = [enclave.load(name, index) for name in CELL]
        found = np.zeros(size, dtype=np.int64)
        for first in range(0, len(rows[0]), CHUNK_ROWS):
            part = slice(first, first + CHUNK_ROWS)
            # Who is in none of the groups, as ineligible people are, lies behind all cells.
            found += np.bincount(grid.cell(*(one[part] for one in rows)), minlength=size)[:size]
        counts: list[int] = found.tolist()
        return counts

    parts = distribute(of_segment, enclave.segments, workers)
    total: IntArray = np.array(parts, dtype=np.int64).reshape(-1, size).sum(axis=0)
    return total


def release_stage(
    study: SurvivalStudy, sizes: Sizes, enclave: Enclave, budget: Budget, times: float = 1.0
) -> FloatArray:
    """Release the cells of all eligible people, shape (numbers,).

    In rehearsals a row stands for ``times`` people.
    """
    grid = grid_of(study, sizes.units)
    counts = count_cells(enclave, grid, study.execution.workers)
    exact = measured(counts, grid, plain=study.privacy.delta == 0)
    return mechanism(study).release(exact * times, SLOT, budget)
