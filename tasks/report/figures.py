"""Draw figures in one house style, and place them in reports.

Write tables as CSV and figures as SVG in one house style.
Aggregates and expected numbers come here, never rows of a study. The same values give the same bytes:
no dates, no random ids. Colours are those of Okabe and Ito (2008), told apart with any colour vision; each series has
a marker and a dash of its own as well, so that a figure also reads in grey. matplotlib is imported when a figure opens.

Positions in the figures of a report, in percent of their width.
So text keeps its size at every width.

Pure geometry; the drawing is in ``tasks/report/templates/figures.svg.j2``. Love plots have the arms' standardised
differences in each covariate before and after an adjustment.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from causalveil.schemas.answers import Limits
from causalveil.schemas.confounding import CovariateBalance
from causalveil.schemas.privacy import Charge, met_by_one_unit
from causalveil.schemas.release import Interval
from causalveil.tasks.machine.arrays import harmless_row
from causalveil.tasks.machine.files import write_whole
from causalveil.tasks.report.numbers import TWO_SIDES, beside, broken, percent, span
from causalveil.tasks.report.numbers import figure as figure_text

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
    safe_rows = [harmless_row(row) for row in rows]
    writer = csv.DictWriter(text, list(safe_rows[0]) if safe_rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(safe_rows)
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
        r' (?:d|x|y)="[^"]*"', lambda match: re.sub(r"(\.\d\d)\d+", r"\1", match.group()), svg, flags=re.DOTALL
    )


# Positions keep clear of both edges, for markers and the labels of ticks.
LEFT, RIGHT = 3.0, 97.0
# An interval this many times wider than the middle one is drawn to the edge of the figure, with an arrow.
TOO_WIDE = 4.0
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
MOST_TICKS = 5
# Pixels of a figure on a screen of 400, and of a letter of a tick's label: digits of DejaVu Sans, the widest of the
# fonts that the style sheet names, at 12 pixels.
NARROW, TICK_LETTER = 368, 7.7
# Letters of label and numbers together, in one line of a figure on a screen of 400 pixels.
BESIDE_NUMBERS = 44
HALVES = {"train": "a unit of the training half", "estimation": "a unit of the estimation half"}
Writer = Callable[[Decimal], str]


@dataclass(frozen=True)
class Axis:
    """A linear axis from ``low`` to ``high``."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Return the percent of the width; values beyond the axis lie on its end."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(LEFT + share * (RIGHT - LEFT), 3)

    def beyond(self, value: float) -> bool:
        """Return whether the axis ends before the value."""
        return not self.low <= value <= self.high

    @property
    def ticks(self) -> list[float]:
        """Round numbers on the axis, at most five."""
        return self.ticks_on(NARROW)

    def ticks_on(self, pixels: float) -> list[float]:
        """Return round numbers on the axis, at most five.

        On so many pixels their labels keep clear of each other, and no two of them are the same.
        """
        rough = (self.high - self.low) / (MOST_TICKS - 1)
        power = 10.0 ** math.floor(math.log10(rough))
        ticks: list[float] = []
        for step in (power * scale * step for scale in (1.0, 10.0) for step in STEPS):
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            ticks = [index * step for index in range(first, last + 1)]
            apart = step / (self.high - self.low) * (RIGHT - LEFT) / 100 * pixels
            labels = {figure_text(tick) for tick in ticks}
            clear = len(labels) == len(ticks) and apart >= TICK_LETTER * (1 + max(map(len, labels), default=0))
            if len(ticks) <= MOST_TICKS and (clear or len(ticks) < 2):
                break
        return ticks


@dataclass(frozen=True)
class Line:
    """An estimate with its interval.

    ``weight`` in 0..1 makes the marker; None: a diamond, for what was pooled.
    """

    label: str
    note: str
    estimate: float
    lower: float
    upper: float
    weight: float | None = None
    # A wider interval that is drawn behind.
    outer: tuple[float, float] | None = None
    # An estimate that noise hides has no marker: the interval alone is drawn.
    hidden: bool = False

    @property
    def above(self) -> tuple[str, ...]:
        """Lines of a label that has no room beside its numbers: it stands above them, whole."""
        return broken(self.label) if len(self.label) + len(self.note) > BESIDE_NUMBERS else ()

    @property
    def marker(self) -> float:
        """Half the side of the square, in pixels: its area goes with the weight."""
        return 0.0 if self.weight is None else round(2.5 + 5.5 * math.sqrt(self.weight), 2)


def line_of(label: str, estimate: float, interval: Interval | Limits, weight: float | None = None) -> Line:
    """Return the line of an estimate whose note is its number and its interval."""
    ends = interval.model_dump()
    note = f"{beside(estimate, ends)} ({span(ends)})"
    return Line(label, note, estimate, interval.lower, interval.upper, weight)


@dataclass(frozen=True)
class Bar:
    """One charge in a waterfall: where it begins and ends, in percent."""

    label: str
    note: str
    start: float
    end: float

    @property
    def above(self) -> tuple[str, ...]:
        """Lines of a label that has no room beside its note."""
        return broken(self.label) if len(self.label) + len(self.note) > BESIDE_NUMBERS else ()


@dataclass(frozen=True)
class Waterfall:
    """Bars of what the units of one set spend, charge after charge.

    Bars that do not add up are not ``cumulative``.
    """

    title: str
    bars: tuple[Bar, ...]
    total: str
    cumulative: bool = True


def axis_of(lines: Sequence[Line]) -> Axis:
    """Return an axis for 0, all estimates, and all intervals but those far wider than others."""
    widths = [line.upper - line.lower for line in lines]
    limit = TOO_WIDE * median(widths)
    ends = [0.0]
    for line, width in zip(lines, widths, strict=True):
        ends.append(line.estimate)
        if width <= limit:
            ends += [line.lower, line.upper, *(line.outer or ())]
    low, high = min(ends), max(ends)
    room = 0.06 * (high - low) or max(abs(high), 1.0)
    return Axis(low - room, high + room)


def waterfalls(
    charges: Sequence[Charge], total: Decimal, write: Writer, halves: Mapping[str, str] = HALVES
) -> tuple[Waterfall, ...]:
    """Return what a unit spends, charge after charge.

    For each half of a split, else for a unit that meets the most.

    The structure of ``tasks.privacy.accountant.compose``: what reads all units, and the charges of the unit's own half.
    Shares add up as draws do: Gaussian ones by mu^2, others by epsilon.

    Args:
        charges: of the release.
        total: epsilon of the release, which is the full width.
        write: an amount as text.
        halves: a unit of each half of a split, in the words of the page.
    """
    gaussian = all(charge.mu is not None for charge in charges)
    weights = {charge.name: _squared(charge) if gaussian else charge.epsilon for charge in charges}
    of_units = met_by_one_unit(charges)
    met = dict(zip(halves.values() if len(of_units) > 1 else ["every unit"], of_units, strict=True))
    width = max(_sum(met_charges, weights) for met_charges in met.values())
    return tuple(
        _fall(title, met_charges, weights, max(width, Decimal(0) if gaussian else total), total, write)
        for title, met_charges in met.items()
    )


def _squared(charge: Charge) -> Decimal:
    """mu^2 of a Gaussian charge."""
    return Decimal(0) if charge.mu is None else charge.mu * charge.mu


def _sum(charges: Sequence[Charge], weights: Mapping[str, Decimal]) -> Decimal:
    return sum((weights[charge.name] for charge in charges), Decimal(0))


def _fall(
    title: str, charges: Sequence[Charge], weights: Mapping[str, Decimal], width: Decimal, total: Decimal, write: Writer
) -> Waterfall:
    bars, spent = [], Decimal(0)
    for charge in charges:
        start, spent = spent, spent + weights[charge.name]
        ends = _share(start, width), _share(spent, width)
        bars.append(Bar(charge.name.replace("_", " "), percent(_share(spent - start, width) / 100), *ends))
    # The units of one part may meet less than those who meet the most; their bars end before the right edge.
    share, whole = _share(spent, width) / 100, write(total)
    return Waterfall(title, tuple(bars), f"ε {whole} of {whole}" if share == 1 else f"{percent(share)} of ε {whole}")


def site_bars(spent: Sequence[tuple[str, Decimal, Decimal]], write: Writer) -> Waterfall:
    """Return what a unit of each site spends: (site, epsilon, delta).

    Nobody is in two sites, so nothing adds up.
    """
    largest = max(epsilon for _, epsilon, _ in spent)
    bars = tuple(
        Bar(site, f"ε {write(epsilon)}, δ {write(delta)}", 0.0, _share(epsilon, largest))
        for site, epsilon, delta in spent
    )
    return Waterfall("a unit of one site", bars, f"ε {write(largest)}", cumulative=False)


def _share(part: Decimal, whole: Decimal) -> float:
    return round(float(100 * part / whole), 3) if whole > 0 else 0.0


# The figure shows so many columns, those that were furthest apart; the release has all.
MOST_COLUMNS = 24
# Names up to so many letters stand in a column beside their marks; where one is longer, all stand above them.
BESIDE_MARKS = 16
# Percent of the width that the column of names takes.
BESIDE_NAMES = 40
# Arms that differ by less are commonly taken as alike (Austin 2009), as where a release says "partly adjusted".
ALIKE = 0.1
# Noise bars reach so many standard deviations to either side.
BAR = 2.0


@dataclass(frozen=True)
class LovePlot:
    """A Love plot.

    Attributes:
        rows: the columns that are shown, the furthest apart first.
        others: how many are not.
        axis: holds every mark, and the bars but those far wider than the others.
        sides: which side is subtracted from which.
    """

    rows: tuple[CovariateBalance, ...]
    others: int
    axis: Axis
    sides: str = TWO_SIDES

    @property
    def noisy(self) -> bool:
        """True if noise is in it: at level label there is none, for all of it is public."""
        return any(row.noise_error > 0 for row in self.rows)

    @property
    def limits(self) -> tuple[float, ...]:
        """Differences at which arms stop being alike, as far as the axis holds them."""
        return tuple(end for end in (-ALIKE, ALIKE) if not self.axis.beyond(end))

    @property
    def above(self) -> bool:
        """True if names stand above their marks, so that none is cut."""
        return any(len(row.covariate) > BESIDE_MARKS for row in self.rows)

    @property
    def left(self) -> float:
        """Percent of the figure's width at which the marks' column begins."""
        return 0 if self.above else BESIDE_NAMES

    @property
    def ticks(self) -> list[float]:
        """Round numbers below the column of marks."""
        return self.axis.ticks_on(NARROW * (100 - self.left) / 100)

    @property
    def lines(self) -> tuple[tuple[str, ...], ...]:
        """Each row's name, in lines."""
        return tuple(broken(row.covariate) if self.above else (row.covariate,) for row in self.rows)

    @classmethod
    def of(cls, balance: Sequence[CovariateBalance], sides: str = TWO_SIDES) -> LovePlot | None:
        """Return the plot of what was released; None where nothing was."""
        if not balance:
            return None
        rows = sorted(balance, key=lambda row: -abs(row.before))[:MOST_COLUMNS]
        ends = [0.0]
        for row in rows:
            ends += [row.before, row.after - BAR * row.noise_error, row.after + BAR * row.noise_error]
        room = 0.04 * (max(ends) - min(ends)) or 1.0
        return cls(tuple(rows), len(balance) - len(rows), Axis(min(ends) - room, max(ends) + room), sides)
