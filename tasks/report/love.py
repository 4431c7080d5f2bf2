"""Love plots: the arms' standardised differences by covariate, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from causalveil.schemas.confounding import CovariateBalance
from causalveil.tasks.report.figures import Axis
from causalveil.tasks.report.numbers import broken

# The figure shows so many columns, those that were furthest apart; the release has all.
MOST_COLUMNS = 24
# Names up to so many letters stand in a column beside their marks; where one is longer, all stand above them.
BESIDE_MARKS = 16
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

    @property
    def above(self) -> bool:
        """True if names stand above their marks, so that none is cut."""
        return any(len(row.covariate) > BESIDE_MARKS for row in self.rows)

    @property
    def lines(self) -> tuple[tuple[str, ...], ...]:
        """Each row's name, in lines."""
        return tuple(broken(row.covariate) if self.above else (row.covariate,) for row in self.rows)

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
