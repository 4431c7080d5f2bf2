"""Follow the accounts that result from the ledger's entries, and the use of each.

An owner chooses the accounting of a cap. ``basic`` adds epsilons and deltas. ``concentrated`` adds rho, and the deltas
of tests: the cap (epsilon, delta) then means the largest rho that implies epsilon at the delta that tests leave
(``tasks/privacy/concentrated.py``). As long as no run had a delta, epsilons may be added up instead: a request that
either measure allows is admitted (``docs/proofs/accounting.md``, section 5). A cap without delta is always basic. Use
is kept in both measures, exactly, so that an account follows from its draws alone.

Accounts are derived here once, for reserving, for showing and for verifying. A ``Book`` reads entries in order and
refuses the first that breaks a rule, so an account is never computed from entries that the protocol cannot write.
"""

from __future__ import annotations

import marshal
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, lru_cache, reduce
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from causalveil.schemas.contract import Contract
from causalveil.schemas.documents import parse_json
from causalveil.schemas.errors import StudyError
from causalveil.schemas.ledger import DOCUMENT, Account, BlockAccount, Reservation, RhoAccount, RunAccount, State, Sum
from causalveil.schemas.plan import natural_order
from causalveil.schemas.privacy import EXACT, Accounting, Charge, Level, PrivacyCost, add, amount_text, subtract
from causalveil.tasks.privacy import accountant
from causalveil.tasks.privacy.accountant import concentrate
from causalveil.tasks.privacy.concentrated import epsilon_of_laplace, epsilon_of_rho, rho_of_cap, understated
from causalveil.tasks.privacy.ledger.entry import (
    Entry,
    Grant,
    broken,
    check_verdict,
    document_text,
    grant_after,
    unread,
)

# Levels nest: neighbours that differ in an outcome only, or in a training unit's row only, are neighbours at level
# sample as well. So the cost of a run at its level is also charged to these accounts.
TOUCHES = {
    Level.sample: (Level.sample, Level.label, Level.training_units),
    Level.label: (Level.label,),
    Level.training_units: (Level.training_units,),
}
# The block of a run that reads the whole dataset, or whose units may lie in several blocks.
WHOLE = "all"
MOST_FITS = 10**9


class Use(NamedTuple):
    """Exact sums over runs: epsilon and delta of their totals, rho, and the deltas of tests."""

    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)
    rho: Decimal = Decimal(0)
    tested: Decimal = Decimal(0)

    def plus(self, use: Use) -> Use:
        """Return the exact sum."""
        return Use(*map(EXACT.add, self, use))

    def minus(self, use: Use) -> Use:
        """Return the exact difference, not below zero."""
        return Use(*(max(subtract(left, right), Decimal(0)) for left, right in zip(self, use, strict=True)))


def use_of(charges: Iterable[Charge], cost: PrivacyCost | Sum) -> Use:
    """Return the use of a run that keeps ``cost`` by these charges."""
    return Use(cost.epsilon, cost.delta, *_concentrated(tuple(charges)))


# Runs of one study have the same charges: their sum is computed once.
_concentrated = lru_cache(maxsize=1024)(concentrate)
_total = lru_cache(maxsize=1024)(accountant.total)


@dataclass(frozen=True)
class Cap:
    """A cap in the accounting that its owner chose."""

    cost: PrivacyCost
    accounting: Accounting

    @property
    def concentrated(self) -> bool:
        """True if the cap limits rho, which it can with a delta only."""
        return self.accounting is Accounting.concentrated and self.cost.delta > 0

    def rho(self, use: Use) -> Decimal:
        """Return the largest rho that the cap allows at the delta that tests of ``use`` leave."""
        left = subtract(self.cost.delta, use.tested)
        return rho_of_cap(self.cost.epsilon, left) if left > 0 else Decimal(0)

    def excess(self, before: Use, request: Use) -> str | None:
        """Say why a request does not fit after ``before``, in amounts only; None if it fits."""
        short = self._short(before, request)
        if short is None or not self.concentrated:
            return short
        return f"{short} ({self.say(before)}){self._still_fits(before)}"

    def _short(self, before: Use, request: Use) -> str | None:
        """The amount that a request would exceed."""
        after = before.plus(request)
        if self.keeps_pure(after):
            return None
        sums = (
            ("epsilon", before.epsilon, request.epsilon, self.cost.epsilon),
            ("delta", before.delta, request.delta, self.cost.delta),
        )
        if not self.concentrated:
            return _short_of(sums)
        rho = (
            ("delta of tests", before.tested, request.tested, self.cost.delta),
            ("rho", before.rho, request.rho, self.rho(after)),
        )
        short = _short_of(rho)
        # Where no run has a delta, the sum of epsilons is the cap's nearer limit.
        return short and ((_short_of(sums) if after.delta == 0 else None) or short)

    def keeps_pure(self, use: Use) -> bool:
        """Check whether no run has a delta and the sum of epsilons is within a concentrated cap.

        If so, rho need not be within it.
        """
        return self.concentrated and use.delta == 0 and use.epsilon <= self.cost.epsilon

    def _still_fits(self, before: Use) -> str:
        """The largest draw without delta that fits, in words."""
        pure = subtract(self.cost.epsilon, before.epsilon) if before.delta == 0 else Decimal(0)
        left = max(subtract(self.rho(before), before.rho), Decimal(0))
        largest = max(pure, epsilon_of_laplace(left))
        return f"; without delta, one draw of Laplace noise of epsilon {amount_text(largest)} fits" if largest else ""

    def epsilon(self, use: Use) -> Decimal:
        """Return the use as epsilon, at the cap's delta less the deltas of tests.

        In basic accounting it is the sum of epsilons.
        """
        if not self.concentrated:
            return use.epsilon
        left = subtract(self.cost.delta, use.tested)
        added = min(use.epsilon, self.cost.epsilon) if use.delta == 0 else self.cost.epsilon
        return added if left <= 0 else min(added, epsilon_of_rho(use.rho, left))

    def sums(self, use: Use) -> Sum:
        """Use as epsilon and delta for people; only in basic accounting do these add up."""
        return Sum(epsilon=self.epsilon(use), delta=use.tested if self.concentrated else use.delta)

    def say(self, use: Use) -> str:
        """Say the amounts in words: epsilon x of cap y at delta d."""
        return (
            f"epsilon {amount_text(self.epsilon(use))} of {amount_text(self.cost.epsilon)} at delta "
            f"{amount_text(self.cost.delta)}"
        )

    def share_left(self, use: Use) -> float:
        """Return the share of the cap that is left: of its scarcest amount."""
        if self.concentrated:
            pairs = [(use.rho, self.rho(use)), (use.tested, self.cost.delta)]
        else:
            pairs = [(use.epsilon, self.cost.epsilon), (use.delta, self.cost.delta)]
        left = min(max(0.0, 1 - float(used / cap)) if cap > 0 else float(used == 0) for used, cap in pairs)
        return max(left, 1 - float(use.epsilon / self.cost.epsilon)) if self.keeps_pure(use) else left

    def fits(self, before: Use, request: Use) -> int:
        """Return how many runs like ``request`` fit after ``before``; at most a billion."""

        def count_fits(count: int) -> bool:
            return self._short(before, Use(*(amount * count for amount in request))) is None

        if not count_fits(1):
            return 0
        low, high = 1, 2
        while high < MOST_FITS and count_fits(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if count_fits(middle) else (low, middle)
        return min(low, MOST_FITS)

    def rho_account(self, used: Use, spent: Use) -> RhoAccount | None:
        """Return the account in rho.

        It is None in basic accounting, and where epsilons are added up because rho would not fit.
        """
        if not self.concentrated:
            return None
        granted = self.rho(used)
        if used.rho > granted and self.keeps_pure(used):
            return None
        return RhoAccount(
            granted=granted,
            spent=spent.rho,
            reserved=max(subtract(used.rho, spent.rho), Decimal(0)),
            remaining=max(subtract(granted, used.rho), Decimal(0)),
        )


def _short_of(amounts: Iterable[tuple[str, Decimal, Decimal, Decimal]]) -> str | None:
    """The first amount that is exceeded, in words.

    An amount of 0 may be too, since the deltas of tests lower the rho that was allowed before.
    """
    for name, used, requested, cap in amounts:
        if add(used, requested) > cap:
            return (
                f"{name} spent or reserved {amount_text(used)}, requested {amount_text(requested)}, remaining "
                f"{amount_text(max(subtract(cap, used), Decimal(0)))} of {amount_text(cap)}"
            )
    return None


Model = TypeVar("Model", bound=BaseModel)
Caps = dict[Level, PrivacyCost]
_CAPS: TypeAdapter[Caps] = TypeAdapter(Caps)
_NOTHING = PrivacyCost(epsilon=Decimal(0), delta=Decimal(0))
# The key of sums in which each run counts once, whatever blocks it charged: no block has an empty name.
_EVERY = ""


@dataclass(frozen=True)
class RunRecord:
    """The entries of the ledger on one run."""

    reservation: Reservation
    reserved: Entry
    charges: tuple[tuple[Charge, Entry], ...] = ()
    document: Entry | None = None
    verdict: Entry | None = None
    voided: Entry | None = None

    @property
    def state(self) -> State:
        """State of the run: reserved, held for its owner's review, rejected, finished or voided."""
        if self.voided or self.document is None:
            return "voided" if self.voided else "reserved"
        if not self.reservation.review:
            return "finished"
        return "held" if self.verdict is None else "finished" if self.verdict.kind == "approve" else "rejected"

    @property
    def ended(self) -> bool:
        """True if no entry of the run may follow."""
        return self.state not in ("reserved", "held")

    @property
    def cost(self) -> Sum:
        """The reservation's total."""
        return as_sum(self.reservation.cost)

    @cached_property
    def spent(self) -> Sum:
        """Composed cost of the charges that were released.

        The sum of a part of the charges may have more digits than an amount may have; the reservation's total, which
        is never less, then takes its place.
        """
        try:
            return as_sum(_total(tuple(charge for charge, _ in self.charges), self.reservation.cost))
        except StudyError:
            return self.cost

    @cached_property
    def drawn_use(self) -> Use:
        """Use of the charges that were released, in every measure."""
        return use_of((charge for charge, _ in self.charges), self.spent)

    @cached_property
    def used(self) -> Use:
        """Use that counts against caps: the whole reservation, or once voided its draws."""
        return self.drawn_use if self.voided else use_of(self.reservation.charges, self.reservation.cost)

    @property
    def undrawn(self) -> tuple[str, ...]:
        """Names of the declared charges that are not committed, in the order of their declaration."""
        released = {charge.name for charge, _ in self.charges}
        return tuple(charge.name for charge in self.reservation.charges if charge.name not in released)

    @property
    def last_entry(self) -> Entry:
        """The entry of the run's last charge, or its reservation if it has none."""
        return self.charges[-1][1] if self.charges else self.reserved

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries of the run, in order."""
        entries = (self.reserved, *(entry for _, entry in self.charges), self.document, self.verdict, self.voided)
        return tuple(sorted((entry for entry in entries if entry is not None), key=lambda entry: entry.seq))

    def entry_of_charge(self, name: str) -> Entry | None:
        """Return the entry of the charge of that name, if it was released."""
        return next((entry for charge, entry in self.charges if charge.name == name), None)

    def after(self, entry: Entry) -> RunRecord:
        """Return the run with its next entry.

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
        charge = _charge_of(entry.document.get("charge"), entry)
        declared = next((planned for planned in self.reservation.charges if planned.name == entry.name), None)
        if declared is not charge and declared != charge:
            raise broken(entry, "its charge was not declared by its run's reservation")
        if self.entry_of_charge(charge.name):
            raise broken(entry, "its charge was released before")
        return RunRecord(self.reservation, self.reserved, (*self.charges, (charge, entry)))


def run_of(entries: Iterable[Entry]) -> RunRecord | None:
    """Return one run, from its own entries in order; None if there are none.

    Raises:
        LedgerError: the protocol does not write such entries.
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
    """Entries of one ledger, or all of one dataset's, read in order.

    ``runs`` are those that may still have entries; of a run that ended, its state and its use are kept, so a book of a
    long ledger is small. ``undrawn`` names charges that a finished run declared and never drew.
    """

    def __init__(self, identity: str, entries: Iterable[Entry] = ()) -> None:
        """Begin a book of the ledger with this identity, and take in entries.

        Raises:
            LedgerError: an entry breaks a rule; names its number.
        """
        self.identity = identity
        self.grants: dict[str, Grant] = {}
        self.caps: dict[str, Caps] = {}
        self.runs: dict[str, RunRecord] = {}
        self.undrawn: dict[str, tuple[str, ...]] = {}
        self._ended: dict[str, State] = {}
        # Digest of the manifest under which each dataset was admitted last.
        self.admissions: dict[str, str] = {}
        self._used: dict[tuple[str, Level, str], Use] = {}
        for entry in entries:
            self.add(entry)

    @property
    def reserved(self) -> int:
        """Number of runs that were read from their first entry on."""
        return len(self.runs) + len(self._ended)

    def add(self, entry: Entry) -> RunRecord | None:
        """Take in the next entry; return the run that it belongs to, with this entry.

        Raises:
            LedgerError: the entry breaks a rule; names its number.
        """
        match entry.kind:
            case "genesis" | "refuse" | "round" | "restore":
                pass
            case "admit":
                self.admissions[entry.dataset] = manifest_of(entry)
            case "grant":
                before = self.grants.get(entry.dataset)
                grant = grant_after(before, entry, self.identity)
                if before is not None and before.accounting != grant.accounting and self.has_runs(entry.dataset):
                    raise broken(entry, "it converts an account that has runs to another accounting")
                self.grants[entry.dataset] = grant
                self.caps[entry.dataset] = grant_caps(entry)
            case "reserve":
                return self._reserve(entry)
            case "release" | "void" | "approve" | "reject":
                return self._follow(entry)
            case _:
                raise unread(entry)
        return None

    def _follow(self, entry: Entry) -> RunRecord:
        """Take in an entry of a run that was reserved before."""
        before = self.runs.get(entry.run_id)
        if before is None:
            state = self._ended.get(entry.run_id)
            raise broken(entry, f"it may not follow: its run is {state}" if state else "it belongs to no reservation")
        run = before.after(entry)
        if entry.kind in ("approve", "reject"):
            check_verdict(run.document, entry, self.identity, self.grants[entry.dataset].owner_key)
        # Only a void frees budget: until then the whole reservation is used.
        if entry.kind == "void":
            self._move(run.reservation, before.used, run.used)
        if entry.name == DOCUMENT and run.undrawn:
            self.undrawn[entry.run_id] = run.undrawn
        self.runs[entry.run_id] = run
        if run.ended:
            self._ended[entry.run_id] = run.state
            del self.runs[entry.run_id]
        return run

    def has_runs(self, dataset: str) -> bool:
        """Check whether any run ever reserved budget of a dataset."""
        return any((dataset, level, _EVERY) in self._used for level in Level)

    def used(self, dataset: str, level: Level, block: str | None) -> Use:
        """Return the use of a block's account at a level, reserved or spent.

        It includes runs on the whole dataset; None is any block that no run named yet.
        """
        if block == WHOLE:
            return self._used.get((dataset, level, _EVERY), Use())
        whole = self._used.get((dataset, level, WHOLE), Use())
        return whole if block is None else whole.plus(self._used.get((dataset, level, block), Use()))

    def caps_for(self, request: Reservation, caps: Caps) -> dict[Level, Cap]:
        """Return the caps that a request is held to: of all levels that it touches."""
        held = self.caps_of(request.dataset, caps)
        return {level: held[level] for level in TOUCHES[request.level] if level in held}

    def caps_of(self, dataset: str, caps: Caps | None = None) -> dict[Level, Cap]:
        """Return caps in the accounting that the owner granted; by default those of the grant."""
        grant = self.grants.get(dataset)
        accounting = Accounting.basic if grant is None else grant.accounting
        costs = self.caps.get(dataset, {}) if caps is None else caps
        return {level: Cap(cost, accounting) for level, cost in costs.items()}

    def excess(self, request: Reservation, caps: Mapping[Level, Cap]) -> str | None:
        """Say in which account and why a request does not fit; None if it fits."""
        use = use_of(request.charges, request.cost)
        for level, cap in caps.items():
            for block in request.blocks:
                excess = cap.excess(self.used(request.dataset, level, block), use)
                if excess is not None:
                    return f"level {level}, block '{block}': {excess}"
        return None

    def sums(self) -> Iterable[tuple[tuple[str, Level, str], Use]]:
        """Return uses by dataset, level and block; under the empty block, each run once."""
        return self._used.items()

    def set_sums(self, used: dict[tuple[str, Level, str], Use]) -> None:
        """Go on from sums that were verified before."""
        self._used = used

    def _reserve(self, entry: Entry) -> RunRecord:
        reservation = reservation_of(entry)
        caps, grant, granted = grant_caps(entry), self.grants.get(entry.dataset), self.caps.get(entry.dataset, {})
        if grant is not None and grant.data_class is not None and grant.digest != reservation.policy_digest:
            raise broken(entry, "its contract is not the one that was granted")
        if grant is not None and grant.review and not reservation.review:
            raise broken(entry, "its release would pass by the owner's review")
        if reservation.level not in caps or not all(
            level in granted and within(as_sum(cap), granted[level]) for level, cap in caps.items()
        ):
            raise broken(entry, "its cap is not covered by the owner's grant")
        if (reservation.run_id, reservation.dataset) != (entry.run_id, entry.dataset):
            raise broken(entry, "its body speaks of another run")
        if reservation.admission != self.admissions.get(entry.dataset):
            raise broken(entry, "its data are not those that were admitted")
        if entry.run_id in self.runs or entry.run_id in self._ended:
            raise broken(entry, "its run is reserved twice")
        if not keeps(reservation.charges, reservation.cost):
            raise broken(entry, "its charges exceed its total")
        excess = self.excess(reservation, self.caps_for(reservation, caps))
        if excess is not None:
            raise broken(entry, f"it exceeds the cap of {excess}")
        run = self.runs[entry.run_id] = RunRecord(reservation, entry)
        self._move(reservation, None, run.used)
        return run

    def _move(self, reservation: Reservation, old: Use | None, new: Use) -> None:
        for level in TOUCHES[reservation.level]:
            for block in (*reservation.blocks, _EVERY):
                key = (reservation.dataset, level, block)
                before = self._used.get(key, Use())
                self._used[key] = (before if old is None else before.minus(old)).plus(new)


@dataclass
class Listing:
    """Runs of one dataset as its account lists them, read entry by entry.

    Attributes:
        requests: number of runs by level and blocks.
        runs: the runs listed, oldest first; None where a run goes on.
        undrawn: uses of ended runs beyond their draws.
        document: the newest release that names its ledger.
    """

    requests: Counter[tuple[Level, tuple[str, ...]]] = field(default_factory=Counter)
    runs: dict[str, RunAccount | None] = field(default_factory=dict)
    undrawn: dict[str, tuple[Reservation, Use]] = field(default_factory=dict)
    document: Entry | None = None

    def take(self, entry: Entry, run: RunRecord | None) -> None:
        """Take in the next entry of the dataset, with the run that :meth:`Book.add` returned."""
        if run is None:
            return
        if entry.kind == "reserve":
            self.requests[run.reservation.level, run.reservation.blocks] += 1
            self.runs[entry.run_id] = None
        # As JSON in JSON; releases of ranges name no ledger.
        if entry.name == DOCUMENT and '\\"ledger\\"' in entry.body:
            self.document = entry
        if run.ended:
            self.runs[entry.run_id] = _run_account(run)
            left = run.used.minus(run.drawn_use)
            if left != Use():
                self.undrawn[entry.run_id] = run.reservation, left


def account_of(book: Book, dataset: str, contract: Contract | None, listing: Listing, *, older: int = 0) -> Account:
    """Return a dataset's account under the caps in force.

    Budget that is reserved and not spent is of the runs under way, which the book has, and of the few that ended before
    they drew all.

    Args:
        book: of all entries of the dataset at least, or with their sums.
        dataset: its name.
        contract: its caps bind as well.
        listing: of its runs.
        older: number of runs that are not in the listing.
    """
    under_way = [run for run in book.runs.values() if run.reservation.dataset == dataset]
    waiting = [(run.reservation, run.used.minus(run.drawn_use)) for run in under_way]
    waiting += listing.undrawn.values()
    caps = caps_in_force(book.caps.get(dataset, {}), contract)
    grant = book.grants.get(dataset)
    accounting = Accounting.basic if grant is None else grant.accounting
    # The level of a run, and further levels that it touches if they have caps.
    accounts = {
        (level, block)
        for run_level, run_blocks in listing.requests
        for block in run_blocks
        for level in TOUCHES[run_level]
        if level is run_level or level in caps
    }

    def block_account(level: Level, block: str) -> BlockAccount:
        cap, used = Cap(caps.get(level, _NOTHING), accounting), book.used(dataset, level, block)
        held = [use for request, use in waiting if meets(request.level, request.blocks, level, block)]
        spent = used.minus(reduce(Use.plus, held, Use()))
        sums, granted = cap.sums(used), as_sum(cap.cost)
        return BlockAccount(
            level=level,
            block=block,
            granted=granted,
            spent=cap.sums(spent),
            reserved=sums.minus(cap.sums(spent)),
            remaining=granted.minus(sums),
            runs=sum(number for request, number in listing.requests.items() if meets(*request, level, block)),
            accounting=Accounting.concentrated if cap.concentrated else Accounting.basic,
            rho=cap.rho_account(used, spent),
            share_left=cap.share_left(used),
        )

    runs = (listed or _run_account(book.runs[name]) for name, listed in listing.runs.items())
    return Account(
        dataset=dataset,
        ledger=book.identity,
        caps=caps,
        accounting=accounting,
        blocks=tuple(
            block_account(level, block)
            for level in Level
            for block in natural_order(block for account_level, block in accounts if account_level is level)
        ),
        runs=tuple(runs),
        older_runs=older,
        anchored=_anchored(listing.document),
    )


def meets(run_level: Level, blocks: Sequence[str], level: Level, block: str | None) -> bool:
    """Check whether a run on ``blocks`` is charged to the account of a level and a block.

    A run on the whole dataset is charged to every block, any run to the account of the whole. None is any block that
    no run named yet.
    """
    return level in TOUCHES[run_level] and (block == WHOLE or block in blocks or WHOLE in blocks)


def _anchored(document: Entry | None) -> bool | None:
    """Return whether a release's ledger was anchored in a file beside the rows; None if it does not state that."""
    ledger = None if document is None else parse_json(document_text(document)).get("ledger")
    anchored = None if ledger is None else ledger.get("anchored")
    return anchored if isinstance(anchored, bool) else None


def _run_account(run: RunRecord) -> RunAccount:
    return RunAccount.taken_from(run.reservation, state=run.state, cost=run.cost, spent=run.spent)


def caps_in_force(granted: Caps, contract: Contract | None) -> Caps:
    """Return the lower of the owner's grant and the contract as it stands, level by level.

    Epsilon and delta are compared each by itself.
    """
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
    """Return a cost as an exact total."""
    return Sum(epsilon=cost.epsilon, delta=cost.delta)


@lru_cache(maxsize=1024)
def keeps(charges: tuple[Charge, ...], cost: PrivacyCost) -> bool:
    """Check whether a run's charges, each true of its own draw, together keep its total."""
    try:
        return not any(map(understated, charges)) and within(as_sum(accountant.total(charges, cost)), cost)
    except StudyError:
        return False


def within(used: Sum, cap: PrivacyCost) -> bool:
    """Check whether a total keeps to a cap in epsilon and in delta."""
    return used.epsilon <= cap.epsilon and used.delta <= cap.delta


def grant_caps(entry: Entry) -> Caps:
    """Return the caps in the entry of a grant, or of a reservation that was held to them.

    Raises:
        LedgerError: the entry names none, as in versions that kept the accounts of levels apart.
    """
    try:
        return _CAPS.validate_python(entry.document.get("caps"))
    except ValidationError:
        raise unread(entry) from None


def manifest_of(entry: Entry) -> str:
    """Return the digest of the manifest in an admit entry."""
    digest = entry.document.get("manifest")
    if not isinstance(digest, str):
        raise unread(entry)
    return digest


def reservation_of(entry: Entry) -> Reservation:
    """Return the reservation in a reserve entry."""
    document = entry.document.get("reservation")
    if isinstance(document, dict) and isinstance(document.get("charges"), list):
        document = {**document, "charges": [_charge_of(charge, entry) for charge in document["charges"]]}
    return parsed(Reservation, document, entry)


def _charge_of(document: Any, entry: Entry) -> Charge:
    """Return a charge in an entry's body: the same object for equal charges, of which a year of runs has many."""
    try:
        return _validated_charge(marshal.dumps(document, 2))
    except ValueError:
        raise unread(entry) from None


@lru_cache(maxsize=4096)
def _validated_charge(document: bytes) -> Charge:
    return Charge.model_validate(marshal.loads(document))


def request_of(entry: Entry) -> tuple[Level, tuple[str, ...]]:
    """Return level and blocks of a reservation, without the rest of it.

    Raises:
        LedgerError: the program does not write such a body.
    """
    try:
        document = entry.document["reservation"]
        return Level(document["level"]), tuple(map(str, document["blocks"]))
    except (KeyError, TypeError, ValueError):
        raise unread(entry) from None


def parsed(model: type[Model], document: Any, entry: Entry) -> Model:
    """Return a model out of an entry's body.

    Raises:
        LedgerError: the program does not write such a body.
    """
    try:
        return model.model_validate(document)
    except ValidationError:
        raise unread(entry) from None
