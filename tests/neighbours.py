"""The neighbouring relation, as tests use it: change it here and they name each bound that no longer holds.

Replace-one: one unit's whole row becomes another row; at label level only its outcome does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from causalveil.tasks.data.enclave import Rows


def neighbour(rows: Rows, other: Rows, level: str = "sample") -> Rows:
    """`rows` with the last unit replaced by the one unit of `other`."""
    if level == "label":
        other = Rows(rows.x[-1:], rows.t[-1:], other.u)
    return Rows(np.vstack([rows.x[:-1], other.x]), np.append(rows.t[:-1], other.t), np.append(rows.u[:-1], other.u))


def neighbour_table(frame: pl.DataFrame, index: int, person: Mapping[str, Any]) -> pl.DataFrame:
    """`frame` with the row at `index` replaced by `person`, who has a value for every column."""
    if set(person) != set(frame.columns):
        raise ValueError("replace-one replaces the whole row")
    replacement = pl.DataFrame({name: [value] for name, value in person.items()}, schema=frame.schema)
    return pl.concat([frame.head(index), replacement.select(frame.columns), frame.slice(index + 1)])
