"""Requests of a run to the ledger, and answers of the ledger about an account."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field, PlainSerializer, WithJsonSchema, field_validator, model_validator

from causalveil.schemas.privacy import Accounting, Charge, Frozen, Guarantee, Half, Level, PrivacyCost, subtract
from causalveil.schemas.study import Slug
from causalveil.schemas.warehouse import TableSnapshot

# The name of a run's finished document among its charges.
DOCUMENT = "release"

UNANCHORED = (
    "No file _ledger.json beside the rows names the newest charges, so an older copy of this ledger is not refused "
    "there. Keep the newest release where the ledger's operator cannot change it: causalveil ledger verify --release "
    "FILE finds such a copy."
)

State = Literal["reserved", "held", "finished", "rejected", "voided"]

# A run id is the name of a folder and appears in messages: no separators, no leading dot.
RunId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:+-]{0,119}$")]
Text = Annotated[str, Field(min_length=1)]

# A sum of amounts may have more digits than one amount.
Total = Annotated[
    Decimal,
    PlainSerializer(float, return_type=float, when_used="json"),
    WithJsonSchema({"type": "number", "minimum": 0}),
]


class EarlyRefusal(Frozen):
    """A refusal before a reservation: the contract forbids the study, or the study is invalid."""

    run_id: Annotated[str, Field(max_length=120, description="empty if the run had no id yet")]
    dataset: Slug
    policy_digest: Text
    study: Slug
    estimator: Text
    level: Level
    cost: PrivacyCost
    purpose: Annotated[str | None, Field(max_length=500)]
    why: Text


class Reservation(Frozen):
    """The charges of a run, and the data and study that it is bound to, before a row is read.

    ``key_check`` is derived from the run's key and reveals nothing of it; a resumed run must show the same.
    """

    run_id: RunId
    dataset: Slug
    level: Level
    blocks: Annotated[tuple[Text, ...], Field(min_length=1, description="the blocks charged")]
    cost: PrivacyCost
    charges: tuple[Charge, ...]
    study: Text
    study_digest: Text
    layout_digest: Text
    contents: Annotated[
        Text | None, Field(description="digest of all bytes that the run reads, keyed by the run's secret key")
    ] = None
    admission: Annotated[Text | None, Field(description="digest of the manifest of the admitted data")] = None
    units: Annotated[int, Field(ge=0)]
    key_check: Text
    estimator: Text
    guarantee: Guarantee
    policy_digest: Text
    review: Annotated[bool, Field(description="whether the release is held until the owner approves it")] = False
    purpose: Annotated[str | None, Field(description="the study's, for the record")] = None
    unbounded_halves: Annotated[
        tuple[Half, ...], Field(description="halves whose units this run leaves without any bound")
    ] = ()
    snapshots: Annotated[
        tuple[TableSnapshot, ...], Field(description="states of open tables that the rows were taken from")
    ] = ()

    @field_validator("blocks")
    @classmethod
    def _in_order(cls, blocks: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(blocks)))

    @model_validator(mode="after")
    def _charges_are_distinct(self) -> Reservation:
        names = [charge.name for charge in self.charges]
        if len(set(names)) != len(names):
            raise ValueError("two charges have one name")
        if DOCUMENT in names:
            raise ValueError(f"a charge may not be named '{DOCUMENT}'; the run's document has that name")
        for charge in self.charges:
            if not all(math.isfinite(number or 0.0) for number in (charge.sensitivity, charge.noise_scale)):
                raise ValueError("a sensitivity or noise scale is not finite")
        return self


class Sum(Frozen):
    """Exact totals over many charges."""

    epsilon: Total = Decimal(0)
    delta: Total = Decimal(0)

    def minus(self, other: Sum) -> Sum:
        """Return the exact difference, not below zero."""
        return Sum(
            epsilon=max(subtract(self.epsilon, other.epsilon), Decimal(0)),
            delta=max(subtract(self.delta, other.delta), Decimal(0)),
        )


class RhoAccount(Frozen):
    """A block's account in rho, where accounting is concentrated: rho adds up, epsilon does not."""

    granted: Total
    spent: Total
    reserved: Total
    remaining: Total


class BlockAccount(Frozen):
    """One block at one level.

    ``spent`` was released; ``reserved`` is held for runs that have not drawn it.

    Where accounting is concentrated epsilons are those that rho implies at the cap's delta, and deltas those of tests;
    ``rho`` has what adds up. ``share_left`` is the part of the cap that is left.
    """

    level: Level
    block: str
    granted: Sum
    spent: Sum
    reserved: Sum
    remaining: Sum
    runs: int
    accounting: Accounting = Accounting.basic
    rho: RhoAccount | None = None
    share_left: float = 1.0


class BudgetOutlook(Frozen):
    """The account, one block at one level, with the least room for runs like this one.

    In a plan the outlook is before the run, so ``fits`` counts it. In a release the run is in ``used``, and ``fits``
    counts those that could follow it.
    """

    source: Annotated[
        Literal["ledger", "contract"], Field(description="contract: no ledger was at hand; nothing is used of the caps")
    ]
    level: Level
    block: str
    accounting: Accounting
    cap: PrivacyCost
    used: Annotated[Total, Field(description="spent or reserved: epsilon, at the cap's delta if that is above 0")]
    share: Annotated[float | None, Field(description="what the run takes of what was left; null: nothing was left")]
    share_left: Annotated[float, Field(ge=0, le=1, description="what is left of the cap")]
    fits: Annotated[int, Field(ge=0, description="how many runs like it fit")]


class RunAccount(Frozen):
    """One run and its state.

    A reserved run is in progress, or was interrupted and can be resumed or voided. A held run is finished and waits for
    its owner's review.
    """

    run_id: str
    study: str
    level: Level
    blocks: tuple[str, ...]
    state: State
    cost: Sum
    spent: Sum
    snapshots: tuple[TableSnapshot, ...] = ()


class Account(Frozen):
    """A dataset's account: caps in force, every block with charges, and runs.

    ``older_runs`` are not listed. ``anchored``: as the newest release has it (``LedgerStatement``).
    """

    dataset: str
    ledger: str
    caps: dict[Level, PrivacyCost]
    accounting: Accounting = Accounting.basic
    blocks: tuple[BlockAccount, ...]
    runs: tuple[RunAccount, ...]
    older_runs: int = 0
    anchored: bool | None = None


class UndrawnCharges(Frozen):
    """Charges that a finished run declared and never drew: its release may hold exact values."""

    run_id: str
    charges: tuple[str, ...]


class Verified(Frozen):
    """The extent of a successful verification.

    ``undrawn`` names finished runs of older versions, which let a run end without a draw that it had declared.
    """

    ledger: str
    entries: int
    runs: int
    head_hash: str
    undrawn: tuple[UndrawnCharges, ...] = ()
