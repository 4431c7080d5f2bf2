"""Write tables as CSV and figures as SVG in one house style.

Aggregates and expected numbers come here, never rows of a study. The same values give the same bytes:
no dates, no random ids. Colours are those of Okabe and Ito (2008), told apart with any colour vision; each series has
a marker and a dash of its own as well, so that a figure also reads in grey. matplotlib is imported when a figure opens.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from causalveil.tasks.machine.files import write_whole
from causalveil.tasks.machine.frames import harmless_row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = Mapping[str, object]

# Blue, vermilion, green, purple, orange, sky blue, black: yellow is too light for lines on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
PANEL_INCHES = (3.1, 2.5)
# Letters and handles that a row of a legend below two panels has room for.
LEGEND_LETTERS = 80
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # text stays text: searchable, read aloud, and a tenth of the bytes
    "svg.hashsalt": "causalveil",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """Write ``rows`` as CSV; the columns are the keys of the first row, in order.

    Raises:
        StudyError: the file cannot be written.
    """
    text = io.StringIO()
    told = [harmless_row(row) for row in rows]
    writer = csv.DictWriter(text, list(told[0]) if told else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(told)
    write_whole(path, text.getvalue())


@contextmanager
def figure(path: Path, *, alt: str, down: int = 1, across: int = 1, **shared: Any) -> Iterator[list[list[Axes]]]:
    """Open a figure of ``down`` x ``across`` panels, hand out its axes, write it as SVG.

    Args:
        path: of the SVG.
        alt: what the figure shows, in one sentence or two, for who cannot see it; it is stored in the file too.
        down: rows of panels.
        across: panels in a row.
        shared: ``sharex`` and ``sharey`` of matplotlib's ``subplots``.

    Raises:
        StudyError: the file cannot be written.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    style: Any = STYLE  # matplotlib's stubs list every setting by name
    with mpl.rc_context(style):
        size = (PANEL_INCHES[0] * across + 0.3, PANEL_INCHES[1] * down + 0.5)
        drawing, axes = plt.subplots(down, across, figsize=size, squeeze=False, layout="constrained", **shared)
        try:
            yield axes.tolist()
            text = io.StringIO()
            drawing.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Description": alt})
        finally:
            plt.close(drawing)
    write_whole(path, _shorter(text.getvalue()))


def series(
    axes: Axes, x: Sequence[float], y: Sequence[float], label: str, index: int, error: Sequence[float] | None = None
) -> None:
    """Draw one labelled line with the colour, marker and dash of ``index``.

    It has a band of ``error`` on either side if given.
    """
    place = index % len(COLOURS)
    axes.plot(x, y, label=label, color=COLOURS[place], marker=MARKERS[place], linestyle=DASHES[place])
    if error is not None:
        middle, half = np.asarray(y, dtype=float), np.asarray(error, dtype=float)
        axes.fill_between(x, middle - half, middle + half, color=COLOURS[place], alpha=0.15, linewidth=0)


def legend(axes: list[list[Axes]], title: str | None = None) -> None:
    """Draw one legend for all panels, below them; entries are those of the first panel."""
    handles, labels = axes[0][0].get_legend_handles_labels()
    drawing: Any = axes[0][0].figure
    # As many columns as the longest label leaves room for.
    columns = max(1, min(len(labels), 4, LEGEND_LETTERS // (max(map(len, labels)) + 6)))
    drawing.legend(handles, labels, title=title, loc="outside lower center", ncols=columns)


def _shorter(svg: str) -> str:
    """Return the same picture with coordinates to a hundredth of a point, in half the bytes."""
    return re.sub(
        r' (?:d|x|y)="[^"]*"', lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found.group()), svg, flags=re.DOTALL
    )
