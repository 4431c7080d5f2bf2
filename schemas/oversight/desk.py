"""The owner's desk: what a ledger says of all its datasets, for who must see it at a glance."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from causalveil.schemas.ledger import Account, State, Sum, Verified
from causalveil.schemas.privacy import Accounting, Charge, Frozen, Guarantee, Level, PrivacyCost


class Author(Frozen):
    """Who said to be writing an entry, where, and when. Names that were not recorded are None."""

    at: datetime
    actor: str | None = None
    host: str | None = None


class DeskGrant(Frozen):
    """Caps that an owner granted; the last one is in force."""

    by: Author
    caps: dict[Level, PrivacyCost]
    accounting: Accounting
    review: bool
    signed: bool
    reason: str


class DeskRun(Frozen):
    """One run: what it asked, who asked, and how it ended."""

    run_id: str
    study: str
    purpose: str | None
    estimator: str
    guarantee: Guarantee
    level: Level
    blocks: tuple[str, ...]
    units: int
    state: State
    cost: Sum
    spent: Sum
    reserved: Author
    ended: Author | None
    charges: Annotated[tuple[Charge, ...], Field(description="those that were drawn")]


class DeskRefusal(Frozen):
    """A reservation that was refused; it charged nothing."""

    by: Author
    run_id: str
    study: str
    purpose: str | None
    cost: Sum | None
    why: str


class Concern(Frozen):
    """Something that an owner should look at, in a sentence."""

    at: datetime
    text: str


class Pace(Frozen):
    """When the budget is used up if runs like the last one go on at the pace of those before it."""

    study: str
    fits: Annotated[int, Field(ge=0, description="how many runs like the last one fit")]
    days_apart: Annotated[float | None, Field(description="mean distance of the last runs; None after fewer than two")]
    dry: Annotated[datetime | None, Field(description="None: not known, or beyond a hundred years")]


class DeskDataset(Frozen):
    """One dataset: its owner's grants, its accounts, who asked what, and what needs a look."""

    dataset: str
    data_class: str | None
    account: Account
    share_left: Annotated[float, Field(ge=0, le=1, description="of the account with the least left; 1 if unused")]
    grants: tuple[DeskGrant, ...]
    runs: tuple[DeskRun, ...]
    refusals: tuple[DeskRefusal, ...]
    concerns: tuple[Concern, ...]
    pace: Pace | None

    @property
    def held(self) -> tuple[DeskRun, ...]:
        """Runs whose releases wait for the owner's review."""
        return tuple(run for run in self.runs if run.state == "held")

    @property
    def last(self) -> datetime | None:
        """When anything was last asked or granted."""
        moments = [
            *(grant.by.at for grant in self.grants),
            *(run.reserved.at for run in self.runs),
            *(refusal.by.at for refusal in self.refusals),
        ]
        return max(moments, default=None)


class Desk(Frozen):
    """Everything on one ledger, from a chain that was verified first."""

    verified: Verified
    at: datetime
    datasets: tuple[DeskDataset, ...]
    concerns: Annotated[tuple[Concern, ...], Field(description="of the ledger as a whole")] = ()
