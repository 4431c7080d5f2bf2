"""What happened in one run, for an auditor: out of the ledger, and out of Prefect's record while there is one."""

from __future__ import annotations

from datetime import datetime

from causalveil.schemas.ledger import State, Sum, Verified
from causalveil.schemas.privacy import Charge, Frozen, Guarantee, Level


class Stamp(Frozen):
    """Where a row stands in the ledger's chain, when it was written, and who said to be writing, where and what for."""

    seq: int
    hash: str
    written_at: str
    actor: str | None = None
    host: str | None = None
    purpose: str | None = None


class RefusalRecord(Frozen):
    """A reservation that the ledger refused, and its row."""

    why: str
    entry: Stamp


class ChargeRecord(Frozen):
    """A charge that was released, and its row. The noisy value itself is in the ledger and in the release."""

    charge: Charge
    entry: Stamp


class LedgerTrail(Frozen):
    """All that the ledger holds of a run. Its reservation was written before a row of data was read."""

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
    """Prefect's part. ``missing`` says why there is none."""

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
    """The audit trail of one run. ``ledger`` is None for a run that was refused and reserved nothing."""

    run_id: str
    chain: Verified
    ledger: LedgerTrail | None
    refused: tuple[RefusalRecord, ...]
    prefect: PrefectTrail
