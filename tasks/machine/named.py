"""Columns by the names that people gave them: to polars ``^age$`` is a pattern, and ``*`` is every column.

``pl.col(name)``, strings as arguments of ``select`` or ``sort``, and methods of a series (which are expressions over a
column of its name) all read a name as a pattern. A name that was not written in this program goes through here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def named(name: str) -> pl.Expr:
    """Return the expression of the column of exactly this name."""
    import polars.selectors as cs

    return cs.by_name(name)


def values_of(frame: pl.DataFrame, name: str) -> pl.Series:
    """Return a column as a series under a name that is no pattern; messages take its name from elsewhere."""
    return frame.get_column(name).alias("values")
