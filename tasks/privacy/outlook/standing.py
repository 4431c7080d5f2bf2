"""Tell what is left of accounts, and when a schedule runs dry.

Only amounts are used; no draw, no row. A schedule is a cron expression in UTC, as Prefect's deployments have it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice, takewhile
from typing import Literal

from cronsim import CronSim, CronSimError

from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import StudyError
from causalveil.schemas.ledger import BudgetOutlook
from causalveil.schemas.privacy import Accounting, Level
from causalveil.tasks.privacy.ledger.accounts import Book, caps_in_force
from causalveil.tasks.privacy.ledger.usage import TOUCHES, Cap, Use, share_of_request

# An account is one block at one level: its cap, and what is used of it.
Accounts = Mapping[tuple[Level, str], tuple[Cap, Use]]


def accounts_in(
    book: Book, dataset: str, level: Level, blocks: Iterable[str], contract: Contract | None = None
) -> Accounts:
    """Return the accounts, under the caps in force, that such a run would be charged to.

    The run is of this level and on these blocks.

    Empty if the level has no cap. A dataset that nobody granted has the contract's caps.
    """
    granted = book.caps.get(dataset)
    if granted is None:
        if contract is None:
            return {}
        held = {name: Cap(cap, contract.accounting) for name, cap in contract.caps.items()}
    else:
        held = book.caps_of(dataset, caps_in_force(granted, contract))
    if level not in held:
        return {}
    named = tuple(blocks)
    return {
        (touched, block): (held[touched], book.used(dataset, touched, block))
        for touched in TOUCHES[level]
        if touched in held
        for block in named
    }


def fits(accounts: Accounts, request: Use) -> int:
    """Return how many runs like ``request`` fit into every account."""
    return min(cap.fits(used, request) for cap, used in accounts.values())


def outlook(accounts: Accounts, request: Use, source: Literal["ledger", "contract"]) -> BudgetOutlook:
    """Return an unreserved run's outlook in the account with the least room for runs like it."""
    return _outlook(accounts, request, source, before=accounts)


def outlook_after(accounts: Accounts, request: Use) -> BudgetOutlook:
    """Return a reserved run's outlook: ``accounts`` hold it, and ``fits`` counts those after it."""
    before = {account: (cap, used.minus(request)) for account, (cap, used) in accounts.items()}
    return _outlook(accounts, request, "ledger", before=before)


def _outlook(
    accounts: Accounts, request: Use, source: Literal["ledger", "contract"], *, before: Accounts
) -> BudgetOutlook:
    rooms = {account: cap.fits(used, request) for account, (cap, used) in accounts.items()}
    level, block = min(
        accounts, key=lambda account: (rooms[account], accounts[account][0].share_left(accounts[account][1]))
    )
    cap, used = accounts[level, block]
    share = share_of_request(cap, before[level, block][1], request)
    return BudgetOutlook(
        source=source,
        level=level,
        block=block,
        accounting=Accounting.concentrated if cap.concentrated else Accounting.basic,
        cap=cap.cost,
        used=cap.epsilon(used),
        share_left=cap.share_left(used),
        share=share if math.isfinite(share) else None,
        fits=rooms[level, block],
    )


# Amounts of three digits from 0.001 to 100.
LOWEST_DECADE, DECADES, STEPS = -3, 5, 900


@dataclass(frozen=True)
class DryDate:
    """The number of runs that fit, the last of them at ``last``; the one at ``dry`` is refused.

    None: no such run is foreseen.
    """

    fits: int
    last: datetime | None
    dry: datetime | None


def when_dry(accounts: Accounts, request: Use, runs: Iterable[datetime]) -> DryDate:
    """Return when the first run of a schedule is refused, if nothing else is charged."""
    room = fits(accounts, request)
    last: datetime | None = None
    for index, moment in enumerate(islice(runs, room + 1)):
        if index == room:
            return DryDate(room, last, moment)
        last = moment
    return DryDate(room, last, None)


def lasting_epsilon(accounts: Accounts, use_at: Callable[[Decimal], Use | None], count: int) -> Decimal | None:
    """The largest epsilon of three digits, 100 at most, of which ``count`` runs fit.

    It is None if 0.001 is too much.

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


NAMED = {"day": "0 0 * * *", "week": "0 0 * * 1", "month": "0 0 1 * *", "year": "0 0 1 1 *"}
# Beyond, nobody plans.
MOST_RUNS = 100_000
MOST_YEARS = 100
FIRST_YEAR, LAST_YEAR = 1900, 2900


def cron_of(every: str) -> str:
    """The cron expression of ``day``, ``week``, ``month``, ``year``, or of itself."""
    return NAMED.get(every, every)


def runs_of(every: str, start: date) -> Iterator[datetime]:
    """Yield the times of a schedule from the beginning of ``start`` on.

    There are a hundred thousand at most, within a hundred years.

    Raises:
        StudyError: not a cron expression of five fields, or a start before 1900 or after 2900.
    """
    if not FIRST_YEAR <= start.year <= LAST_YEAR:
        raise StudyError(f"a schedule starts between the years {FIRST_YEAR} and {LAST_YEAR}, not on {start}")
    cron = cron_of(every)
    begin = datetime.combine(start, time(), UTC)
    try:
        if len(cron.split()) != 5:
            raise CronSimError("five fields")
        # What runs at the very beginning counts, and cronsim looks for what is later.
        found = CronSim(cron, begin - timedelta(seconds=1))
    except CronSimError:
        named = ", ".join(NAMED)
        raise StudyError(
            f"--every must be {named} or a cron expression of five fields, such as '0 6 * * 1' for Mondays at six"
        ) from None
    end = begin + timedelta(days=MOST_YEARS * 365)
    return takewhile(lambda moment: moment < end, islice(found, MOST_RUNS))


def count_until(every: str, start: date, until: date) -> int:
    """Count the schedule's runs from ``start`` to the end of ``until``.

    Raises:
        StudyError: it never runs then, too often to be foreseen, or see ``runs_of``.
    """
    if until < start:
        raise StudyError(f"--until {until} lies before the start, {start}")
    end = datetime.combine(until, time.max, UTC)
    count = sum(1 for _ in takewhile(lambda moment: moment <= end, runs_of(every, start)))
    if count == 0:
        raise StudyError(f"the schedule does not run from {start} to {until}; choose a later date")
    if count == MOST_RUNS or (until - start).days > MOST_YEARS * 365:
        raise StudyError(f"a schedule is foreseen for {MOST_YEARS} years and {MOST_RUNS:,} runs at most")
    return count
