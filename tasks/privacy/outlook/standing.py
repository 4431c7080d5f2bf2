"""How a run stands to what is left of the accounts that it touches. Amounts only; no draw, no row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal

from causalveil.schemas.contract import Contract
from causalveil.schemas.ledger import BudgetOutlook
from causalveil.schemas.privacy import Accounting, Level
from causalveil.tasks.privacy.ledger.accounts import Book, caps_in_force
from causalveil.tasks.privacy.ledger.usage import TOUCHES, Cap, Use, share_of_request

# An account is one block at one level: its cap, and what is used of it.
Accounts = Mapping[tuple[Level, str], tuple[Cap, Use]]


def accounts_in(
    book: Book, dataset: str, level: Level, blocks: Iterable[str], contract: Contract | None = None
) -> Accounts:
    """The accounts that a run of this level on these blocks is charged to, under the caps in force.

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
