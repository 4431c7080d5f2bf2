"""Sentences that panels of every kind share.

Limits, adjustment, cost, and an estimate with its interval.

Lines are in the markup of ``rich``, with all that a study names escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rich.markup import escape

from causalveil.schemas.limits import Limit
from causalveil.tasks.report.numbers import confidence_level, within

if TYPE_CHECKING:
    from causalveil.schemas.confounding import ConfoundingStatement
    from causalveil.schemas.ledger import BudgetOutlook
    from causalveil.schemas.release import Interval


class Spanned(Protocol):
    """An interval."""

    @property
    def lower(self) -> float:
        """Its lower end."""

    @property
    def upper(self) -> float:
        """Its upper end."""


class Estimated(Protocol):
    """An estimate with its interval."""

    @property
    def estimate(self) -> float:
        """The estimate."""

    @property
    def interval(self) -> Spanned:
        """Its interval."""


# So many lines a panel has, and so many limits at most, in order of importance; the report has the rest.
LINES = 12
LIMITS = 4


def limits(not_covered: Sequence[Limit], room: int, head: str = "The interval does not cover") -> list[str]:
    """Return the first limits of a release, and how many more the report has."""
    sentences = [one.sentence for one in not_covered]
    shown = max(min(LIMITS, room - 1, len(sentences)), 1)
    if not sentences:
        return []
    more = len(sentences) - shown
    rest = f" ({more} more in the report)" if more > 0 else ""
    return [f"{head}{rest}:", *(f"- {escape(sentence)}" for sentence in sentences[:shown])]


def estimate_line(estimate: float, interval: Interval, unit: str | None) -> str:
    """Return an estimate with its unit of measure and its interval."""
    of = escape(f" {unit}") if unit else ""
    level = confidence_level(interval.confidence)
    found = within(estimate, interval.lower, interval.upper)
    return f"[bold]{found}{of}[/bold]   {level} interval [bold]{ends(interval)}[/bold]"


def ends(interval: Spanned) -> str:
    """Return the ends of an interval in square brackets."""
    low, high = (within(end, interval.lower, interval.upper) for end in (interval.lower, interval.upper))
    return escape(f"[{low}, ") + f"{high}]"


def estimated(found: Estimated) -> str:
    """Return an estimate with the decimals that its interval bears."""
    return within(found.estimate, found.interval.lower, found.interval.upper)


def span_of(interval: Spanned) -> str:
    """Return an interval in words, with the decimals that it bears."""
    return " to ".join(within(end, interval.lower, interval.upper) for end in (interval.lower, interval.upper))


def adjusted(found: ConfoundingStatement | None) -> list[str]:
    """Return what was done about confounding, in yellow where it was not all that could be done."""
    from causalveil.schemas.confounding import AdjustmentState

    if found is None:
        return []
    whole = found.state in (AdjustmentState.adjusted, AdjustmentState.randomised) and not found.left_out
    said = [escape(one) for one in found.sentences]
    return said if whole else [f"[yellow]{one}[/yellow]" for one in said]


def adjusted_by_answer(stated: Sequence[ConfoundingStatement | None]) -> list[str]:
    """Return what was done about confounding, best and worst where answers differ."""
    from causalveil.schemas.confounding import AdjustmentState

    found = list(dict.fromkeys(one for one in stated if one is not None))
    if not found:
        return []
    order = list(AdjustmentState)
    found.sort(key=lambda one: (order.index(one.state), -(one.share or 0.0)))
    if found[0].done == found[-1].done:
        return [escape(found[0].done)]
    best, worst = escape(found[0].sentence), escape(found[-1].sentence)
    return [f"Best adjusted answer: {best}.", f"[yellow]Worst: {worst}.[/yellow]"]


def runs_left(fits: int) -> str:
    """Return for how many more runs like this one a budget is enough."""
    if fits == 0:
        return "too little for another such run"
    return f"enough for {fits:,} more such run{'' if fits == 1 else 's'}"


def budget_left(outlook: BudgetOutlook, of: str) -> str:
    """Return the share of a budget that is left, and for how many runs it is enough."""
    return f"{share_left(outlook)} of the budget of {escape(of)} is left: {runs_left(outlook.fits)}."


def share_left(outlook: BudgetOutlook) -> str:
    """Return the share that is left; neither what is not all nor what is not nothing reads so."""
    text = f"{outlook.share_left:.1%}"
    if text == "100.0%" and outlook.share_left < 1:
        return "More than 99.9%"
    return "Less than 0.1%" if text == "0.0%" and outlook.share_left > 0 else text
