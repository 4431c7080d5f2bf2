"""Love plots: the arms' differences in each covariate before and after an adjustment, from released details."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from causalveil.tasks.report.figures import Axis

# The figure shows so many columns, those that were furthest apart; the release has all.
MOST_COLUMNS = 24
# Noise bars reach so many standard deviations to either side.
BAR = 2.0


@dataclass(frozen=True)
class ColumnDifference:
    """The arms' standardised differences in one column, and the standard deviation of noise."""

    label: str
    before: float
    after: float
    error: float


@dataclass(frozen=True)
class LovePlot:
    """A Love plot.

    Attributes:
        rows: the columns that are shown, the furthest apart first.
        others: how many are not.
        axis: holds every mark, and the bars but those far wider than the others.
    """

    rows: tuple[ColumnDifference, ...]
    others: int
    axis: Axis

    @classmethod
    def of(cls, details: Mapping[str, Any]) -> LovePlot | None:
        """Read it from a release's details; None where they say nothing of it."""
        found = []
        for key, before in details.items():
            if key.startswith("difference_before[") and key.endswith("]"):
                name = key[len("difference_before[") : -1]
                after, error = (details.get(f"difference_{what}[{name}]", 0.0) for what in ("after", "noise"))
                found.append(ColumnDifference(name, before, after, error))
        if not found:
            return None
        rows = sorted(found, key=lambda row: -abs(row.before))[:MOST_COLUMNS]
        ends = [0.0]
        for row in rows:
            ends += [row.before, row.after - BAR * row.error, row.after + BAR * row.error]
        room = 0.04 * (max(ends) - min(ends)) or 1.0
        return cls(tuple(rows), len(found) - len(rows), Axis(min(ends) - room, max(ends) + room))
