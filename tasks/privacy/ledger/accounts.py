"""What the ledger's entries add up to: one derivation, for reserving, for showing and for verifying.

A ``Book`` reads entries in order and refuses the first that breaks a rule, so an account is never computed
from entries that could not have been written by the protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from causalveil.schemas.amounts import add
from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import StudyError
from causalveil.schemas.ledger import DOCUMENT, Account, BlockAccount, Reservation, RunAccount, State, Sum
from causalveil.schemas.privacy import Charge, Level, PrivacyCost
from causalveil.tasks.privacy import accountant
from causalveil.tasks.privacy.concentrated import understated
from causalveil.tasks.privacy.ledger.entry import Entry, broken
from causalveil.tasks.privacy.ledger.grants import Grant, grant_after
from causalveil.tasks.privacy.ledger.review import check_verdict

Model = TypeVar("Model", bound=BaseModel)
Caps = dict[Level, PrivacyCost]
_CAPS: TypeAdapter[Caps] = TypeAdapter(Caps)


@dataclass(frozen=True)
class RunRecord:
    """What the ledger holds on one run."""

    reservation: Reservation
    reserved: Entry
    charges: tuple[tuple[Charge, Entry], ...] = ()
    document: Entry | None = None
    verdict: Entry | None = None
    voided: Entry | None = None

    @property
    def state(self) -> State:
        """Voided, finished, waiting for its owner's review or rejected by it, or still holding its reservation."""
        if self.voided or self.document is None:
            return "voided" if self.voided else "reserved"
        if not self.reservation.review:
            return "finished"
        return "held" if self.verdict is None else "finished" if self.verdict.kind == "approve" else "rejected"

    @property
    def cost(self) -> Sum:
        """The reservation's total."""
        return as_sum(self.reservation.cost)

    @property
    def spent(self) -> Sum:
        """What was released, composed.

        A part of the charges may have more digits than an amount may have; the reservation's total, which is
        never less, then stands for it.
        """
        try:
            return as_sum(accountant.total((charge for charge, _ in self.charges), self.reservation.cost))
        except StudyError:
            return self.cost

    @property
    def used(self) -> Sum:
        """What counts against the caps: the whole reservation, or once voided what was released."""
        return self.spent if self.voided else self.cost

    @property
    def last_hash(self) -> str:
        """Hash of the run's last charge, or of its reservation if it has none."""
        return self.last_entry.hash

    @property
    def last_entry(self) -> Entry:
        """The entry of the run's last charge, or its reservation if it has none."""
        return self.charges[-1][1] if self.charges else self.reserved

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries of the run, in order."""
        later = (self.document, self.verdict, self.voided)
        found = (self.reserved, *(entry for _, entry in self.charges), *(entry for entry in later if entry is not None))
        return tuple(sorted(found, key=lambda entry: entry.seq))

    def drawn(self, name: str) -> Entry | None:
        """The entry of the charge of that name, if it was released."""
        return next((entry for charge, entry in self.charges if charge.name == name), None)

    def after(self, entry: Entry) -> RunRecord:
        """The run once its next entry is taken in.

        Raises:
            LedgerError: the entry may not follow.
        """
        if entry.dataset != self.reservation.dataset:
            raise broken(entry, "it belongs to no reservation")
        if entry.kind in ("approve", "reject") and self.state == "held":
            return replace(self, verdict=entry)
        if self.state != "reserved" or entry.kind not in ("release", "void"):
            raise broken(entry, f"it may not follow: its run is {self.state}")
        if entry.kind == "void":
            return replace(self, voided=entry)
        if entry.kind == "release" and entry.name == DOCUMENT:
            return replace(self, document=entry)
        charge = parsed(Charge, entry.document.get("charge"), entry)
        if charge.name != entry.name or charge not in self.reservation.charges:
            raise broken(entry, "its charge was not declared by its run's reservation")
        if self.drawn(charge.name):
            raise broken(entry, "its charge was released before")
        return replace(self, charges=(*self.charges, (charge, entry)))


def run_of(entries: Iterable[Entry]) -> RunRecord | None:
    """One run, from its own entries in order; None if there are none.

    Raises:
        LedgerError: they are not what the protocol writes.
    """
    run: RunRecord | None = None
    for entry in entries:
        if run is not None:
            run = run.after(entry)
        elif entry.kind == "reserve":
            run = RunRecord(reservation_of(entry), entry)
        else:
            raise broken(entry, "it belongs to no reservation")
    return run


class Book:
    """Entries of one ledger, or all of one dataset's, read in order."""

    def __init__(self, identity: str) -> None:
        """Begin an empty book of the ledger with this identity."""
        self.identity = identity
        self.grants: dict[str, Grant] = {}
        self.caps: dict[str, Caps] = {}
        self.runs: dict[str, RunRecord] = {}
        self._used: dict[tuple[str, Level, str], Sum] = {}

    def add(self, entry: Entry) -> None:
        """Take in the next entry.

        Raises:
            LedgerError: the entry breaks a rule; names its number.
        """
        match entry.kind:
            case "genesis" | "refuse" | "round" | "admit" | "restore":
                pass
            case "grant":
                self.grants[entry.dataset] = grant_after(self.grants.get(entry.dataset), entry, self.identity)
                self.caps[entry.dataset] = grant_caps(entry)
            case "reserve":
                self._reserve(entry)
            case "release" | "void" | "approve" | "reject":
                run = self.runs.get(entry.run_id)
                if run is None:
                    raise broken(entry, "it belongs to no reservation")
                self.runs[entry.run_id] = run.after(entry)
                if entry.kind in ("approve", "reject"):
                    check_verdict(run.document, entry, self.identity, self.grants[entry.dataset].owner_key)
                self._move(run.reservation, run.used, self.runs[entry.run_id].used)
            case _:
                raise broken(entry, "its kind is unknown")

    def used(self, dataset: str, level: Level, block: str) -> Sum:
        """What runs hold or spent in a block."""
        return self._used.get((dataset, level, block), Sum())

    def sums(self) -> Iterable[tuple[tuple[str, Level, str], Sum]]:
        """What is used, by dataset, level and block."""
        return self._used.items()

    def set_sums(self, used: dict[tuple[str, Level, str], Sum]) -> None:
        """Go on from sums that were verified before."""
        self._used = used

    def _reserve(self, entry: Entry) -> None:
        reservation = reservation_of(entry)
        cap = parsed(PrivacyCost, entry.document.get("cap"), entry)
        grant, granted = self.grants.get(entry.dataset), self.caps.get(entry.dataset, {}).get(reservation.level)
        if grant is not None and grant.data_class is not None and grant.digest != reservation.policy_digest:
            raise broken(entry, "its contract is not the one that was granted")
        if grant is not None and grant.review and not reservation.review:
            raise broken(entry, "its release would pass by the owner's review")
        if granted is None or not within(as_sum(cap), granted):
            raise broken(entry, "its cap is not covered by the owner's grant")
        if (reservation.run_id, reservation.dataset) != (entry.run_id, entry.dataset):
            raise broken(entry, "its body speaks of another run")
        if entry.run_id in self.runs:
            raise broken(entry, "its run is reserved twice")
        if not keeps(reservation.charges, reservation.cost):
            raise broken(entry, "its charges exceed its total")
        for block in reservation.blocks:
            if not within(plus(self.used(entry.dataset, reservation.level, block), reservation.cost), cap):
                raise broken(entry, f"it exceeds the cap of block '{block}'")
        self.runs[entry.run_id] = RunRecord(reservation, entry)
        self._move(reservation, Sum(), self.runs[entry.run_id].used)

    def _move(self, reservation: Reservation, old: Sum, new: Sum) -> None:
        for block in reservation.blocks:
            key = (reservation.dataset, reservation.level, block)
            self._used[key] = plus(self._used.get(key, Sum()).minus(old), new)


def account_of(book: Book, ledger: str, dataset: str, contract: Contract | None) -> Account:
    """A dataset's account under the caps in force."""
    caps = caps_in_force(book.caps.get(dataset, {}), contract)
    runs = [run for run in book.runs.values() if run.reservation.dataset == dataset]
    blocks = sorted({(run.reservation.level, block) for run in runs for block in run.reservation.blocks})
    return Account(
        dataset=dataset,
        ledger=ledger,
        caps=caps,
        blocks=tuple(_block_account(runs, level, block, caps.get(level)) for level, block in blocks),
        runs=tuple(
            RunAccount(
                run_id=run.reservation.run_id,
                study=run.reservation.study,
                level=run.reservation.level,
                blocks=run.reservation.blocks,
                state=run.state,
                cost=run.cost,
                spent=run.spent,
            )
            for run in runs
        ),
    )


def _block_account(runs: list[RunRecord], level: Level, block: str, cap: PrivacyCost | None) -> BlockAccount:
    here = [run for run in runs if run.reservation.level is level and block in run.reservation.blocks]
    used, spent = total(run.used for run in here), total(run.spent for run in here)
    granted = as_sum(cap) if cap else Sum()
    return BlockAccount(
        level=level,
        block=block,
        granted=granted,
        spent=spent,
        reserved=used.minus(spent),
        remaining=granted.minus(used),
        runs=len(here),
    )


def caps_in_force(granted: Caps, contract: Contract | None) -> Caps:
    """The lower of the owner's grant and the contract as it stands, level by level, epsilon and delta each."""
    if contract is None:
        return granted
    return {
        level: PrivacyCost(
            epsilon=min(cap.epsilon, contract.caps[level].epsilon), delta=min(cap.delta, contract.caps[level].delta)
        )
        for level, cap in granted.items()
        if level in contract.caps
    }


def as_sum(cost: PrivacyCost) -> Sum:
    """A cost as an exact total."""
    return Sum(epsilon=cost.epsilon, delta=cost.delta)


def plus(left: Sum, right: Sum | PrivacyCost) -> Sum:
    """The exact sum."""
    return Sum(epsilon=add(left.epsilon, right.epsilon), delta=add(left.delta, right.delta))


def total(sums: Iterable[Sum]) -> Sum:
    """The exact sum of many."""
    return reduce(plus, sums, Sum())


def keeps(charges: Sequence[Charge], cost: PrivacyCost) -> bool:
    """Whether the charges of a run, each true of its own draw, together keep the run's total."""
    try:
        return not any(map(understated, charges)) and within(as_sum(accountant.total(charges, cost)), cost)
    except StudyError:
        return False


def within(used: Sum, cap: PrivacyCost) -> bool:
    """Whether a total keeps to a cap in epsilon and in delta."""
    return used.epsilon <= cap.epsilon and used.delta <= cap.delta


def grant_caps(entry: Entry) -> Caps:
    """The caps of a grant."""
    try:
        return _CAPS.validate_python(entry.document.get("caps"))
    except ValidationError:
        raise broken(entry, "its caps do not parse") from None


def reservation_of(entry: Entry) -> Reservation:
    """The reservation in a reserve entry."""
    return parsed(Reservation, entry.document.get("reservation"), entry)


def parsed(model: type[Model], document: Any, entry: Entry) -> Model:
    """A model out of an entry's body.

    Raises:
        LedgerError: the body is not what the program writes.
    """
    try:
        return model.model_validate(document)
    except ValidationError:
        raise broken(entry, "its body does not parse") from None
