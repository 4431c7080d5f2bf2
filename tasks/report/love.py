"""Love plots: the arms' standardised differences in each covariate before and after an adjustment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from causalveil.schemas.confounding import CovariateBalance
from causalveil.tasks.report.figures import Axis

# The figure shows so many columns, those that were furthest apart; the release has all.
MOST_COLUMNS = 24
# Noise bars reach so many standard deviations to either side.
BAR = 2.0


@dataclass(frozen=True)
class LovePlot:
    """A Love plot.

    Attributes:
        rows: the columns that are shown, the furthest apart first.
        others: how many are not.
        axis: holds every mark, and the bars but those far wider than the others.
    """

    rows: tuple[CovariateBalance, ...]
    others: int
    axis: Axis

    @classmethod
    def of(cls, balance: Sequence[CovariateBalance]) -> LovePlot | None:
        """Return the plot of what was released; None where nothing was."""
        if not balance:
            return None
        rows = sorted(balance, key=lambda row: -abs(row.before))[:MOST_COLUMNS]
        ends = [0.0]
        for row in rows:
            ends += [row.before, row.after - BAR * row.noise_error, row.after + BAR * row.noise_error]
        room = 0.04 * (max(ends) - min(ends)) or 1.0
        return cls(tuple(rows), len(balance) - len(rows), Axis(min(ends) - room, max(ends) + room))
