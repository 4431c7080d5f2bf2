"""Read the rows of a table: outcomes, subgroup, arm, and which rows are eligible.

A unit that is not eligible keeps its row, in an extra last subgroup that enters no sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from causalveil.schemas.clusters import SurveyWeights
from causalveil.schemas.columns import OTHER, ZERO_ONE, CategoricalCovariate, Missing
from causalveil.schemas.errors import DataError
from causalveil.schemas.privacy import Level
from causalveil.schemas.table import EffectStudy, TableStudy
from causalveil.schemas.where import Condition, Operator, Value
from causalveil.tasks.data.covariates import Block
from causalveil.tasks.data.enclave import Enclave, Rows
from causalveil.tasks.data.normalise import (
    binary,
    columns,
    hashed_order,
    level_codes,
    nulls_as_reference,
    scaled_outcome,
    write_clusters,
    write_covariates,
)
from causalveil.tasks.data.partitions import LoadedSegment
from causalveil.tasks.data.split import Pieces
from causalveil.tasks.machine.arrays import BoolArray, ByteArray, FloatArray, IntArray, save_array, values_of


@dataclass(frozen=True)
class CellRows(Rows):
    """Aligned rows of units with arms and subgroups.

    x: (rows, d); t: (rows,), the arm, 0 the reference; u: (rows, outcomes) in [-1, 1]; g: (rows,), the subgroup; w:
    (rows,) in [0, 1], survey weights over their declared largest value; None: all weights are 1.
    """

    g: ByteArray
    w: FloatArray | None = None

    def __getitem__(self, part: slice | IntArray) -> CellRows:
        """Return the rows of a slice or at some places."""
        w = None if self.w is None else self.w[part]
        return CellRows(self.x[part], self.t[part], self.u[part], self.g[part], w)

    def with_outcomes(self, chosen: Sequence[int]) -> CellRows:
        """Return the rows in which the chosen outcomes are observed, with these alone."""
        rows = replace(self, u=self.u[:, list(chosen)])
        observed = np.isfinite(rows.u).all(axis=1)
        return rows if observed.all() else rows[np.flatnonzero(observed)]

    @property
    def roots(self) -> FloatArray | None:
        """Roots of the survey weights."""
        return None if self.w is None else np.sqrt(self.w)

    @classmethod
    def of(cls, rows: Rows) -> CellRows:
        """Return rows of one outcome as those of a table that has one subgroup."""
        return cls(rows.x, rows.t, rows.u[:, None], np.zeros(len(rows), np.uint8))

    def by_group(self, groups: int) -> Iterator[CellRows]:
        """Yield the rows of each subgroup in turn, in their order.

        Rows outside all subgroups are left out.
        """
        if groups == 1 and not self.g.any():
            yield self
            return
        order = np.argsort(self.g, kind="stable")
        edges = np.searchsorted(self.g[order], np.arange(groups + 1))
        for group in range(groups):
            chosen = order[edges[group] : edges[group + 1]]
            yield self[chosen]


def all_units(enclave: Enclave, weighted: bool = False) -> Pieces:
    """Return all units of a table, a piece per segment; ``weighted``: with their survey weights."""
    units = sum(map(len, enclave.hashes()))

    def rows(index: int) -> CellRows:
        x, t, u, g = (enclave.load(name, index) for name in ("x", "t", "u", "g"))
        w = enclave.load("w", index) if weighted else None
        # Rows of one outcome may have it as one column or as none.
        return CellRows(x, t, u if u.ndim == 2 else u[:, None], g, w)

    return Pieces(rows, enclave.segments, units)


def normalise_cells(study: EffectStudy, segment: LoadedSegment, place: Path, key: bytes) -> None:
    """Write x, t, u, g, h, w and c of one segment as files, rows ascending by keyed hash.

    Raises:
        DataError: a value that admission refuses.
    """
    frame = segment.frame
    order = hashed_order(values_of(frame, study.data.unit), place, key)
    arms = arms_of(study, values_of(frame, study.treatment))[order]
    u = np.empty((len(order), len(study.outcomes)))
    for index, question in enumerate(study.questions):
        u[:, index] = scaled_outcome(question, frame)[order]
    save_array(place / "t.npy", of_their_cohorts(study, arms, u))
    save_array(place / "u.npy", u)
    groups = np.where(eligible(study.where, frame), groups_of(study, frame), np.uint8(len(study.groups)))
    save_array(place / "g.npy", groups[order])
    if study.weights is not None:
        save_array(place / "w.npy", shares_of(study.weights, values_of(frame, study.weights.column))[order])
    write_clusters(study.clusters, frame, order, place, key)
    first = study.questions[0]
    # At level label weights are computed by row; all other sums by column.
    by_column = study.privacy.level is not Level.label
    write_covariates(first, columns(first, frame), order, place / "x.npy", by_column)


def shares_of(weights: SurveyWeights, series: pl.Series) -> FloatArray:
    """Return survey weights over their largest value, cut to [0, 1]; missing weights are 0."""
    values = series.cast(pl.Float64, strict=False).fill_null(0.0).fill_nan(0.0).to_numpy()
    return np.clip(values / weights.upper, 0.0, 1.0)


def arms_of(study: TableStudy, series: pl.Series) -> ByteArray:
    """Return the arm of each row, 0 for the reference.

    Raises:
        DataError: a value that is no arm.
    """
    if study.arms is None:
        arms = binary(series, study.codes)
    else:
        levels = study.arms.ordered
        kind = pl.String() if isinstance(levels[0], str) else pl.Int64()
        table = {level: place for place, level in enumerate(levels)}
        arms = series.cast(kind, strict=False).replace_strict(table, default=None, return_dtype=pl.UInt8)
    arms = nulls_as_reference(study.missing_treatment, series, arms)
    if arms.null_count():
        raise DataError(f"column '{study.treatment}' holds something that is none of its arms")
    codes: ByteArray = arms.to_numpy()
    return codes


def of_their_cohorts(study: EffectStudy, arms: ByteArray, u: FloatArray) -> ByteArray:
    """Return whether each row is treated, where outcomes are of cohorts.

    Rows of other cohorts lose such an outcome.
    """
    if study.arms is None or not study.of_cohorts:
        return arms
    places = {str(level): place for place, level in enumerate(study.arms.ordered)}
    for index, outcome in enumerate(study.outcomes):
        u[(arms != 0) & (arms != places[str(outcome.arm)]), index] = np.nan
    return np.minimum(arms, np.uint8(1))


def groups_of(study: TableStudy, frame: pl.DataFrame) -> ByteArray:
    """Return the subgroup of each row, by its place in ``study.groups``.

    Raises:
        DataError: a value that is no declared level.
    """
    if study.subgroups is None:
        return np.zeros(frame.height, dtype=np.uint8)
    column, name = study.subgroups.column, study.subgroups.name
    series = values_of(frame, name)
    if series.null_count() and column.nulls is not Missing.indicator:
        raise DataError(f"column '{name}' holds nulls")
    if isinstance(column, CategoricalCovariate):
        return level_codes(series, Block(name, column, 0, study.groups)).astype(np.uint8)
    coded = binary(series, column.codes or ZERO_ONE)
    if coded.null_count() != series.null_count():
        raise DataError(f"column '{name}' holds something that is not one of its two codes")
    return coded.fill_null(len(study.groups) - 1).to_numpy()


def eligible(where: Sequence[Condition], frame: pl.DataFrame) -> BoolArray:
    """Return which rows meet all comparisons; a value that is missing meets none."""
    meets_all = np.ones(frame.height, dtype=np.bool_)
    for condition in where:
        meets_all &= _meets(condition, values_of(frame, condition.column))
    return meets_all


def _meets(condition: Condition, series: pl.Series) -> BoolArray:
    holds, values = condition.holds, condition.values
    if isinstance(holds, CategoricalCovariate):
        kind = pl.String() if isinstance(holds.levels[0], str) else pl.Int64()
        levels = series.cast(kind, strict=False)
        # Level ``other`` is any value that is no declared level, whether or not it is declared itself.
        declared, named = (
            pl.Series([level for level in some if level != OTHER], dtype=kind, strict=False).implode()
            for some in (holds.levels, values)
        )
        holds_value = levels.is_in(named)
        if OTHER in values:
            holds_value |= ~levels.is_in(declared)
    elif holds.codes is not None:
        codes = pl.Series([int(value == holds.codes.yes) for value in values], dtype=pl.UInt8)
        holds_value = binary(series, holds.codes).is_in(codes.implode())
    else:
        numbers = series.cast(pl.Float64, strict=False).clip(holds.lower, holds.upper)
        holds_value = _compared(condition.op, numbers, values)
    met = ~holds_value if condition.op.negated else holds_value
    present = series.is_not_null() & (series.is_not_nan() if series.dtype.is_float() else True)
    return (met & present).fill_null(False).to_numpy()


def _compared(op: Operator, numbers: pl.Series, values: Sequence[Value]) -> pl.Series:
    """Compare each number with the value; for equality or a negation, look it up among values."""
    floats = [float(value) for value in values]
    if op is Operator.less:
        return numbers < floats[0]
    if op is Operator.at_most:
        return numbers <= floats[0]
    if op is Operator.more:
        return numbers > floats[0]
    if op is Operator.at_least:
        return numbers >= floats[0]
    return numbers.is_in(pl.Series(floats, dtype=pl.Float64).implode())
