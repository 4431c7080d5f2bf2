"""Tables as synthesisers see them: every column a code, and back to rows for the estimate without privacy.

Whole-numbered columns with few values in their declared range keep them; others are cut into equal bins of the
declared range and read back at the middle of their bin. What a column's type is stands in the published file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from causalveil.schemas.columns import CategoricalCovariate
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.estimate.models.nearest import NO_CAP, match_capped
from causalveil_replication.competitors.competitor import Instance, scores
from causalveil_replication.yuan2026.data import rows_of

BINS = 16
NEIGHBOURS = 5
TREATED, OUTCOME = "treated", "outcome"
CodeArray = NDArray[np.int64]


@dataclass(frozen=True)
class Coding:
    """The code of one column: the value that each code is read back as."""

    name: str
    values: tuple[float | int | str, ...]
    edges: tuple[float, ...] = ()

    def encode(self, series: pl.Series) -> CodeArray:
        """Codes of a column, shape (n,)."""
        if self.edges:
            inner = np.searchsorted(np.asarray(self.edges[1:-1]), series.to_numpy(), side="right")
            return np.asarray(inner, dtype=np.int64)
        places = {value: place for place, value in enumerate(self.values)}
        return np.array([places[value] for value in series.to_list()], dtype=np.int64)


@dataclass(frozen=True)
class Coded:
    """A table of codes, shape (n, columns): treatment first, outcome second, then covariates by name."""

    codings: tuple[Coding, ...]
    codes: CodeArray

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each column."""
        return tuple(len(one.values) for one in self.codings)

    def decoded(self, codes: CodeArray) -> pl.DataFrame:
        """A table of units with these codes."""
        columns = {
            one.name: [one.values[code] for code in codes[:, place].tolist()] for place, one in enumerate(self.codings)
        }
        frame = pl.DataFrame(columns).with_columns(pl.Series("unit", np.arange(len(codes))))
        return frame.with_columns(pl.col(TREATED).cast(pl.UInt8))


def coded(instance: Instance) -> Coded:
    """The data set in codes."""
    data = instance.data
    codings = [Coding(TREATED, (0, 1)), _cut(OUTCOME, *data.outcome, data.frame[OUTCOME])]
    for name, covariate in sorted(instance.study.covariates.items()):
        if isinstance(covariate, CategoricalCovariate):
            codings.append(Coding(name, tuple(data.covariates[name]["levels"])))
        else:
            codings.append(_cut(name, covariate.lower, covariate.upper, data.frame[name]))
    codes = np.column_stack([one.encode(data.frame[one.name]) for one in codings])
    return Coded(tuple(codings), codes)


def estimate(instance: Instance, table: Coded, codes: CodeArray) -> float | None:
    """Matching without privacy on a table of codes, as an analyst would do it; None where an arm has too few units."""
    frame = table.decoded(codes)
    rows = rows_of(instance.study, frame, bytes(16))
    if min(int(rows.t.sum()), int((rows.t == 0).sum())) < NEIGHBOURS:
        return None
    return matching_estimate(instance, rows)


def matching_estimate(instance: Instance, rows: Rows) -> float:
    """Nearest-neighbour matching on a propensity model of the same rows, without caps or noise; outcome units."""
    matching = match_capped(scores(rows, instance.penalty, (0.0, 1.0)), rows.t, NEIGHBOURS, (NO_CAP, NO_CAP))
    sign = np.where(rows.t != 0, 1.0, -1.0)
    return float(np.mean(sign * (1 + matching.uses / NEIGHBOURS) * rows.u)) * instance.width / 2


def _cut(name: str, lower: float, upper: float, series: pl.Series) -> Coding:
    values = series.to_numpy()
    if float(lower).is_integer() and upper - lower < BINS and bool(np.all(values == np.round(values))):
        return Coding(name, tuple(range(int(lower), int(upper) + 1)))
    edges = np.linspace(lower, upper, BINS + 1)
    return Coding(name, tuple(((edges[:-1] + edges[1:]) / 2).tolist()), tuple(edges.tolist()))
