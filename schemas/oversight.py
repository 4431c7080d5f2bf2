"""Show owners all datasets, and auditors what happened in one run.

The owner's desk shows all datasets of a ledger. The trail of a run is from the ledger, and from Prefect's record where
one exists.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from causalveil.schemas.ledger import Account, State, Sum, Verified
from causalveil.schemas.privacy import Accounting, Charge, Frozen, Guarantee, Level, PrivacyCost


class Author(Frozen):
    """The stated author of an entry, with host and time. Names that were not recorded are None."""

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
    """One run: its question, its author, and its end."""

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
    """A sentence on something that an owner should check."""

    at: datetime
    text: str


class Pace(Frozen):
    """The date at which the budget is used up if runs like the last go on at the same pace."""

    study: str
    fits: Annotated[int, Field(ge=0, description="how many runs like the last one fit")]
    days_apart: Annotated[float | None, Field(description="mean distance of the last runs; None after fewer than two")]
    dry: Annotated[datetime | None, Field(description="None: not known, or beyond a hundred years")]


class DeskDataset(Frozen):
    """One dataset: grants, accounts, runs with their authors, and concerns."""

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
        """The time of the last request or grant."""
        moments = [
            *(grant.by.at for grant in self.grants),
            *(run.reserved.at for run in self.runs),
            *(refusal.by.at for refusal in self.refusals),
        ]
        return max(moments, default=None)


class Desk(Frozen):
    """All datasets of one ledger, after its chain was verified."""

    verified: Verified
    at: datetime
    datasets: tuple[DeskDataset, ...]
    concerns: Annotated[tuple[Concern, ...], Field(description="of the ledger as a whole")] = ()


class Stamp(Frozen):
    """The place of a row in the ledger's chain: time, stated author, host, purpose, version."""

    seq: int
    hash: str
    written_at: str
    actor: str | None = None
    host: str | None = None
    purpose: str | None = None
    version: str | None = None


class RefusalRecord(Frozen):
    """A reservation that the ledger refused, and its row."""

    why: str
    entry: Stamp


class ChargeRecord(Frozen):
    """A charge that was released, and its row.

    The noisy value itself is in the ledger and in the release.
    """

    charge: Charge
    adds: Annotated[str, Field(description="its amount in the unit in which the run's charges add up")]
    entry: Stamp


class LedgerTrail(Frozen):
    """The ledger's entries of a run, from its reservation before a row was read."""

    dataset: str
    study: str
    study_digest: str
    layout_digest: str
    policy_digest: str
    estimator: str
    guarantee: Guarantee
    level: Level
    blocks: tuple[str, ...]
    units: int
    state: State
    reserved: Stamp
    cost: Sum
    spent: Sum
    cost_adds: Annotated[str, Field(description="the largest sum of charges that one unit meets")]
    spent_adds: Annotated[str, Field(description="the same of those that were drawn")]
    charges: tuple[ChargeRecord, ...]
    not_drawn: tuple[str, ...]
    finished: Stamp | None
    voided: Stamp | None
    void_reason: str | None
    reviewed: Stamp | None
    review_reason: str | None
    software: dict[str, str] | None


class StateRecord(Frozen):
    """One state that Prefect saw a run in."""

    type: str
    name: str
    at: datetime
    message: str | None


class StageRecord(Frozen):
    """One task run: a stage, or a worker's part of one."""

    name: str
    tries: int
    states: tuple[StateRecord, ...]


class FlowRecord(Frozen):
    """One flow run of the run; a run that was started again has several."""

    id: str
    flow: str
    deployment: str | None
    tries: int
    states: tuple[StateRecord, ...]
    stages: tuple[StageRecord, ...]

    @property
    def refusals(self) -> tuple[StateRecord, ...]:
        """The states in which the budget refused it."""
        return tuple(state for state in self.states if "BudgetRefused" in (state.message or ""))


class PrefectTrail(Frozen):
    """Prefect's record; ``missing``: why there is none."""

    missing: str | None
    flow_runs: tuple[FlowRecord, ...] = ()

    @property
    def refusals(self) -> tuple[StateRecord, ...]:
        """Every refusal that Prefect recorded. Those of the ledger itself are its own entries."""
        return tuple(state for run in self.flow_runs for state in run.refusals)

    @property
    def starts(self) -> int:
        """Number of times that the run was begun, retries included."""
        return sum(run.tries for run in self.flow_runs)


class Trail(Frozen):
    """The audit trail of one run.

    ``ledger`` is None for a run that was refused and reserved nothing.
    """

    run_id: str
    chain: Verified
    ledger: LedgerTrail | None
    refused: tuple[RefusalRecord, ...]
    prefect: PrefectTrail
