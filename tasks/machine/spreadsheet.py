"""CSV files that people open in a spreadsheet: text there is text, whoever wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

# First characters by which a spreadsheet takes text for a formula (OWASP, "CSV injection"), their wide forms too.
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def harmless(value: Any) -> Any:
    """A value of a table as a spreadsheet may read it: a quote before text that begins as a formula does.

    A number that was written as text stays as it is.
    """
    if not isinstance(value, str) or not value.startswith(FORMULAS):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def harmless_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a table, its names too."""
    return {harmless(name): harmless(value) for name, value in row.items()}


def csv_text(frame: pl.DataFrame) -> str:
    """A frame as CSV for people."""
    import polars as pl

    texts = [series.name for series in frame if series.dtype == pl.String]
    columns = [pl.Series(name, [harmless(value) for value in frame[name]], dtype=pl.String) for name in texts]
    return frame.with_columns(columns).rename({name: harmless(name) for name in frame.columns}).write_csv()
