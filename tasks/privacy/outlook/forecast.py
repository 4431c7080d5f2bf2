"""When a schedule runs dry, and which epsilon lasts until a date."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import islice

from causalveil.tasks.privacy.ledger.usage import Use
from causalveil.tasks.privacy.outlook.standing import Accounts, fits

# Amounts of three digits from 0.001 to 100.
LOWEST_DECADE, DECADES, STEPS = -3, 5, 900


@dataclass(frozen=True)
class DryDate:
    """``fits`` runs fit, the last at ``last``, and the one at ``dry`` is refused; None: no such run is foreseen."""

    fits: int
    last: datetime | None
    dry: datetime | None


def when_dry(accounts: Accounts, request: Use, runs: Iterable[datetime]) -> DryDate:
    """When the first run of a schedule is refused, if nothing else is asked of the accounts."""
    room = fits(accounts, request)
    last: datetime | None = None
    for index, moment in enumerate(islice(runs, room + 1)):
        if index == room:
            return DryDate(room, last, moment)
        last = moment
    return DryDate(room, last, None)


def lasting_epsilon(accounts: Accounts, use_at: Callable[[Decimal], Use | None], count: int) -> Decimal | None:
    """The largest epsilon of three digits, 100 at most, of which ``count`` runs fit; None if 0.001 is too much.

    Args:
        accounts: that each run is charged to.
        use_at: what a run of an epsilon uses, rising with it; None if there is no such run.
        count: of runs.
    """

    def lasts(index: int) -> bool:
        use = use_at(_amount(index))
        return use is not None and fits(accounts, use) >= count

    low, high = -1, STEPS * DECADES + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if lasts(middle) else (low, middle)
    return None if low < 0 else _amount(low)


def _amount(index: int) -> Decimal:
    """0.00100, 0.00101, ..., 0.00999, 0.0100, ... 100."""
    decade, step = divmod(index, STEPS)
    return Decimal(100 + step).scaleb(LOWEST_DECADE + decade - 2)
