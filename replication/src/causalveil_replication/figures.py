"""Write pages of a replication: Markdown with tables and figures; plots are the product's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from causalveil.tasks.machine.files import write_whole
from causalveil.tasks.report.figures import Row


def write_page(path: Path, parts: Iterable[str]) -> None:
    """Write a Markdown page of ``parts``, a blank line between two.

    Raises:
        StudyError: the file cannot be written.
    """
    write_whole(path, "\n\n".join(part.strip("\n") for part in parts) + "\n")


def markdown_table(rows: Sequence[Row], formats: Mapping[str, str] | None = None) -> str:
    """``rows`` as a Markdown table; the columns are the keys of the first row, in order.

    Args:
        rows: at least one.
        formats: format specification by column, such as ``{"error": ".2f"}``; floats have three digits else. None and
            NaN are a dash.
    """
    columns = list(rows[0])
    lines = [columns, ["---:" if _is_number(rows[0][column]) else "---" for column in columns]]
    lines += [[_cell(row.get(column), (formats or {}).get(column)) for column in columns] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def picture(link: str, alt: str, caption: str) -> str:
    """Markdown for a figure, ``link`` from the page's folder: the picture with its text, and a caption."""
    return f"![{alt}]({link})\n\n*{caption}*"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object, form: str | None) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if form is not None and _is_number(value):
        return format(value, form)
    return f"{value:.3g}" if isinstance(value, float) else str(value).replace("|", "\\|")
