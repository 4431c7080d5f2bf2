"""The durable record of privacy budget across runs: grant, reserve, release, void, account.

The rules are ``docs/ledger.md``. In short: an owner grants caps; a run reserves its whole plan before a row is
read; each noisy value commits together with its charge under the key (run, name) and is never drawn again; a
void frees only what was never released. Every write is one serialised transaction on an append-only chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import URL, Connection

from causalveil.schemas.contract import Contract, DataClass
from causalveil.schemas.errors import BudgetRefused, ContractError, LedgerError, RunConflict
from causalveil.schemas.ledger import DOCUMENT, Account, Reservation, Verified
from causalveil.schemas.privacy import Charge
from causalveil.schemas.release import LedgerStatement, Release
from causalveil.tasks.machine.home import home
from causalveil.tasks.machine.site import site_settings
from causalveil.tasks.privacy.ledger import verify as ledger_verify
from causalveil.tasks.privacy.ledger.accounts import Book, Caps, RunRecord, account_of, run_of
from causalveil.tasks.privacy.ledger.entry import Entry
from causalveil.tasks.privacy.ledger.grants import Grant, grant_body
from causalveil.tasks.privacy.ledger.log import amounts, audit, whose
from causalveil.tasks.privacy.ledger.review import (
    ReviewVerdict,
    check_verdict,
    document_text,
    refuse_stranger,
    verdict_body,
)
from causalveil.tasks.privacy.ledger.rules import (
    caps_with_room,
    document_that_may_leave,
    drawn_before,
    one_line,
    refuse_another_run,
    refuse_conversion,
)
from causalveil.tasks.privacy.ledger.soundness.integrity import stamp
from causalveil.tasks.privacy.ledger.soundness.memory import Memory, caught_up, from_the_first, holds
from causalveil.tasks.privacy.ledger.store import URL_VARIABLE, Store, entries
from causalveil.tasks.privacy.owner import OwnerKey

OF_A_RUN = ("reserve", "release", "void", "approve", "reject")


def open_ledger(url: str | None = None) -> Ledger:
    """Open a ledger, creating or migrating its tables where needed.

    Args:
        url: ``sqlite:///path`` or ``postgresql://...``; None means the operator's (``site.toml`` or
            ``CAUSALVEIL_LEDGER_URL``) or, without one, SQLite at ``home()/ledger.db``.

    Raises:
        LedgerError: unreachable, not a ledger, or of a newer version than this program.
    """
    store = Store(url) if url else _operators_store()
    identity = store.prepare()
    return Ledger(store, identity, Memory(identity))


def ledger_at_hand() -> Ledger | None:
    """The ledger that ``open_ledger`` opens, unless it is a SQLite file that nobody created yet.

    Raises:
        LedgerError: see ``open_ledger``.
    """
    url = _operators_store().url
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        return None
    return open_ledger()


def throwaway_ledger(directory: Path) -> Ledger:
    """A new SQLite ledger in a temporary folder, for simulations: its charges count nowhere."""
    store = Store(_sqlite(directory / "throwaway-ledger.db"))
    return Ledger(store, store.prepare())


def _operators_store() -> Store:
    return Store(site_settings().ledger or _sqlite(home() / "ledger.db"))


def _sqlite(path: Path) -> URL:
    return URL.create("sqlite", database=str(path))


def _plain(caps: Caps) -> dict[str, Any]:
    return {str(level): cap.model_dump() for level, cap in caps.items()}


@dataclass(frozen=True)
class Released:
    """A release row: what was stored beside the charge, the row's hash, and whether this call drew it."""

    payload: dict[str, Any]
    entry_hash: str
    fresh: bool


@dataclass(frozen=True)
class Ledger:
    """One ledger. Holds no connection: share it between threads, pickle it, take it over a fork.

    ``memory`` is what this machine knows of it; a ledger that is thrown away has none.
    """

    store: Store
    identity: str
    memory: Memory | None = None

    def grant(self, contract: Contract, reason: str, owner: OwnerKey | None = None) -> None:
        """Record the owner's caps for a dataset; the latest grant is in force.

        Args:
            contract: the owner's contract.
            reason: why, in one line; part of the record.
            owner: the owner's key. Needed where the contract names one, as it must for sensitive data.

        Raises:
            LedgerError: the contract names another ledger, or the ledger cannot be written.
            ContractError: the contract names no key and must, ``owner`` is not the key that counts, or an account that
                has runs would be converted to another accounting.
            StudyError: no reason.
        """
        self._refuse_foreign(contract)
        with self._writing() as (connection, book):
            refuse_conversion(book, contract)
            before = book.grants.get(contract.dataset)
            entry = self._append_grant(connection, before, contract, one_line(reason), owner)
        self._audit_grant(contract, entry)

    def grant_itself(self, contract: Contract) -> bool:
        """Grant the caps of public or synthetic data that nobody granted yet: no owner's hand is needed at first.

        Returns:
            Whether a grant was written; never for sensitive data or under a contract that names an owner's key.

        Raises:
            LedgerError: the contract names another ledger, or the ledger cannot be used.
        """
        self._refuse_foreign(contract)
        if contract.data_class is DataClass.sensitive or contract.owner_key is not None:
            return False
        with self._writing() as (connection, book):
            before = book.grants.get(contract.dataset)
            if before is not None:
                return False
            reason = f"granted by itself: the data are {contract.data_class}"
            entry = self._append_grant(connection, None, contract, reason, None)
        self._audit_grant(contract, entry)
        return True

    def _append_grant(
        self, connection: Connection, before: Grant | None, contract: Contract, reason: str, owner: OwnerKey | None
    ) -> Entry:
        body = grant_body(before, contract, reason, self.identity, owner)
        return self.store.append(connection, "grant", dataset=contract.dataset, body=body, purpose=reason)

    def _audit_grant(self, contract: Contract, entry: Entry) -> None:
        caps = {str(level): amounts(cap) for level, cap in contract.caps.items()}
        audit("grant", dataset=contract.dataset, caps=caps, ledger=self.identity, hash=entry.hash)

    def reserve(self, request: Reservation, contract: Contract) -> Literal["reserved", "resumed"]:
        """Set the run's whole cost aside in every block it charges, or recognise a run that comes back.

        A refusal is an entry as well: who asked, for how much, and why it was refused. It charges nothing.

        Args:
            request: what the run may spend and what it is bound to.
            contract: the owner's contract as it stands; its caps and the latest grant's bind, whichever is lower.

        Returns:
            "reserved", or "resumed" if the same run had reserved before.

        Raises:
            BudgetRefused: no grant of this contract, no cap for the level, or too little left; names the block and
                the amounts.
            RunConflict: the run id belongs to something else, or was voided.
            ContractError: the contract is not the one that the reservation names.
            LedgerError: the contract names another ledger, or the ledger cannot be used.
        """
        self._refuse_foreign(contract)
        if (request.dataset, request.policy_digest) != (contract.dataset, contract.digest):
            raise ContractError(f"run {request.run_id}: the contract is not the one that the reservation names")
        refused: BudgetRefused | None = None
        with self._writing() as (connection, book):
            run = book.runs.get(request.run_id) or self._run(connection, request.run_id)
            if run is not None:
                refuse_another_run(run, request)
                event, entry = "resume", run.reserved
            else:
                try:
                    caps = caps_with_room(book, request, contract)
                except BudgetRefused as problem:
                    refused = problem
                    event, entry = "refused", self._append_refusal(connection, request, str(problem))
                else:
                    body = {"reservation": request.model_dump(), "caps": _plain(caps)}
                    event, entry = "reserve", self._append(connection, "reserve", request, body)
        audit(event, **whose(request), **amounts(request.cost), ledger=self.identity, hash=entry.hash)
        if refused is not None:
            raise refused
        return "reserved" if event == "reserve" else "resumed"

    def released(self, run_id: str, charge: Charge) -> Released | None:
        """What is stored under (run, charge name), or None if the run may still draw it.

        Raises:
            BudgetRefused: the run reserved no such charge, or is voided or finished without it.
            LedgerError: the ledger cannot be used.
        """
        with self.store.read() as connection:
            entry = drawn_before(self._spender(connection, run_id), charge)
        return None if entry is None else Released(entry.document, entry.hash, fresh=False)

    def release(self, run_id: str, charge: Charge, draw: Callable[[], dict[str, Any]]) -> Released:
        """Commit a charge and what was drawn for it in one transaction, once for each (run, charge name).

        Args:
            run_id: a run that reserved this very charge.
            charge: one of its declared charges, every field equal.
            draw: called at most once, inside the transaction, and only if nothing is stored yet; returns JSON
                values. Whatever it raises is raised, and nothing is charged.

        Raises:
            BudgetRefused: the run reserved no such charge, or is voided or finished without it.
            LedgerError: the ledger cannot be used. Run again: a draw that did commit is found.
        """
        with self._writing() as (connection, book):
            run = book.runs.get(run_id) or self._spender(connection, run_id)
            entry = drawn_before(run, charge)
            if entry is not None:
                return Released(entry.document, entry.hash, fresh=False)
            body = {"charge": charge.model_dump(), **draw()}
            entry = self._append(connection, "release", run.reservation, body, charge.name)
        audit(
            "charge",
            **whose(run.reservation),
            stage=charge.stage,
            name=charge.name,
            mechanism=charge.mechanism,
            scope=str(charge.scope),
            **amounts(charge),
            ledger=self.identity,
            hash=entry.hash,
        )
        return Released(entry.document, entry.hash, fresh=True)

    def finish(self, run_id: str, document: str) -> None:
        """Store the run's final document, which marks it finished. Post-processing: no charge. Idempotent.

        Raises:
            RunConflict: no such run, voided, or finished with another document.
            LedgerError: the ledger cannot be used.
        """
        with self._writing() as (connection, book):
            run = book.runs.get(run_id) or self._run(connection, run_id)
            if run is None or run.voided:
                raise RunConflict(f"run {run_id} {'was voided' if run else 'is not in this ledger'}")
            if run.document is not None:
                if run.document.document.get("document") != document:
                    raise RunConflict(f"run {run_id} is finished with another release; that one stands")
                return
            entry = self._append(connection, "release", run.reservation, {"document": document}, DOCUMENT)
        event = "hold" if run.reservation.review else "finish"
        audit(event, **whose(run.reservation), ledger=self.identity, hash=entry.hash)

    def record(self, run_id: str) -> RunRecord | None:
        """All that the ledger holds on a run, or None if it does not know it.

        Raises:
            LedgerError: the ledger cannot be used, or an entry of the run breaks a rule.
        """
        with self.store.read() as connection:
            return self._run(connection, run_id)

    def stored_document(self, run_id: str) -> str | None:
        """The document of a finished run, else None.

        Raises:
            ReleaseHeld: it waits for the owner's review.
            RunConflict: the owner rejected it.
            LedgerError: the ledger cannot be used, or the owner's approval is forged.
        """
        with self.store.read() as connection:
            run = self._run(connection, run_id)
            if run is not None and run.verdict is not None:
                pinned = self._pinned(connection, run.reservation.dataset, run.verdict.seq)
                check_verdict(run.document, run.verdict, self.identity, pinned)
        return None if run is None else document_that_may_leave(run)

    def held_document(self, run_id: str, owner: OwnerKey) -> str:
        """The document of a run that waits for its owner's review, for the owner to read.

        Raises:
            RunConflict: no such run, or it is not held.
            ContractError: another key than the pinned one.
        """
        with self.store.read() as connection:
            document = self._held(connection, run_id)
            refuse_stranger(document.dataset, self._pinned(connection, document.dataset), owner)
        return document_text(document)

    def review(self, run_id: str, verdict: ReviewVerdict, owner: OwnerKey, reason: str | None = None) -> None:
        """Let a held release go, or keep it for good: the owner's signed word.

        Raises:
            RunConflict: no such run, or it is not held.
            ContractError: another key than the pinned one.
            StudyError: a rejection without a reason.
            LedgerError: the ledger cannot be used.
        """
        why = one_line(reason or "") if reason is not None or verdict is ReviewVerdict.reject else None
        with self._writing() as (connection, _):
            document = self._held(connection, run_id)
            pinned = self._pinned(connection, document.dataset)
            body = verdict_body(document, verdict, why, self.identity, pinned, owner)
            entry = self.store.append(
                connection, str(verdict), dataset=document.dataset, run_id=run_id, body=body, purpose=why
            )
        audit(str(verdict), run=run_id, dataset=document.dataset, ledger=self.identity, hash=entry.hash)

    def charges_of(self, run_id: str) -> int:
        """How many charges of a run are committed; 0 for a run that is not there."""
        run = self.record(run_id)
        return 0 if run is None else len(run.charges)

    def settle_round(self, round_: str, digests: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
        """Keep each site's first answer to a coordinator's round, for good.

        Args:
            round_: the round's name.
            digests: SHA-256 of each site's answer.
            before: answers that were kept elsewhere before.

        Returns:
            The sites whose answer is another one than their first; then nothing is kept.

        Raises:
            LedgerError: the ledger cannot be used.
        """
        of_round = (entries.c.dataset == "", entries.c.kind == "round", entries.c.name == round_)
        with self._writing() as (connection, _):
            kept = dict(before)
            for entry in self.store.select(connection, *of_round):
                kept |= entry.document["answers"]
            others = [site for site in digests if kept.get(site, digests[site]) != digests[site]]
            new = {site: digest for site, digest in digests.items() if site not in kept}
            if new and not others:
                self.store.append(connection, "round", name=round_, body={"answers": {**before, **new}})
        return others

    def last_charge_hash(self, run_id: str) -> str:
        """Hash of the run's last charge, or of its reservation if nothing was charged.

        Raises:
            RunConflict: no such run.
        """
        return self.statement(run_id).entry_hash

    def statement(self, run_id: str) -> LedgerStatement:
        """What a release says of this ledger: its identity, and the run's last charge or else its reservation.

        Raises:
            RunConflict: no such run.
        """
        run = self.record(run_id)
        if run is None:
            raise RunConflict(f"run {run_id} is not in this ledger")
        last = run.last_entry
        return LedgerStatement(identity=self.identity, entry_hash=last.hash, sequence=last.seq)

    def restored(self, reason: str) -> Entry:
        """Accept, for the record, that this ledger lost entries that this machine has seen: an older copy goes on.

        Raises:
            RunConflict: nothing that this machine has seen is missing.
            StudyError: no reason.
            LedgerError: the ledger does not verify, or cannot be used.
        """
        why = one_line(reason)
        known = None if self.memory is None else self.memory.read()
        with self.store.write() as connection:
            chain = from_the_first(self.store, connection, self.identity)
            if known is None or self.memory is None or holds(self.store, connection, known):
                raise RunConflict("this ledger holds all that this machine has seen of it; there is nothing to accept")
            lost = {"seq": known.seq, "hash": known.hash}
            body = {"lost": lost, "found": {"seq": chain.seq, "hash": chain.hash}, "reason": why}
            traces = stamp(self.store, connection)
            entry = self.store.append(connection, "restore", body=body, purpose=why)
            chain.take([entry])
        chain.after_loss = True
        self.memory.keep(chain, stamp(self.store, None) or traces)
        audit("restore", lost=known.seq, found=entry.seq - 1, ledger=self.identity, hash=entry.hash)
        return entry

    def void(self, run_id: str, reason: str) -> None:
        """End a run for good and free what it reserved but never released. The row stays, as do its charges.

        Raises:
            RunConflict: no such run, already voided, or finished.
            StudyError: no reason.
            LedgerError: the ledger cannot be used.
        """
        self._void(run_id, one_line(reason), only_untouched=False)

    def void_if_untouched(self, run_id: str, reason: str) -> bool:
        """Void a run that has released nothing, as after a typed failure before its first draw.

        Returns:
            Whether it was voided by this call; False also for a run that is not there or not open.
        """
        return self._void(run_id, one_line(reason), only_untouched=True)

    def account(self, dataset: str, contract: Contract | None = None) -> Account:
        """Caps in force, every charged block, every run. With a contract its caps bind as well.

        Raises:
            LedgerError: the ledger cannot be used, or an entry of the dataset breaks a rule.
        """
        with self.store.read() as connection:
            book = Book(self.identity)
            for entry in self.store.select(connection, entries.c.dataset == dataset):
                book.add(entry)
        return account_of(book, self.identity, dataset, contract)

    def refusals(self, run_id: str) -> tuple[Entry, ...]:
        """Every refusal of a reservation under this run id."""
        with self.store.read() as connection:
            return tuple(self.store.select(connection, entries.c.run_id == run_id, entries.c.kind == "refuse"))

    def history(self, dataset: str) -> tuple[Entry, ...]:
        """What a dataset's accounts follow from: grants, reservations, charges and voids in order, no documents.

        Raises:
            LedgerError: the ledger cannot be used, or an entry was changed.
        """
        of_accounts = entries.c.kind.in_(("grant", "reserve", "release", "void"))
        with self.store.read() as connection:
            return tuple(
                self.store.select(connection, entries.c.dataset == dataset, of_accounts, entries.c.name != DOCUMENT)
            )

    def sums(self) -> Book:
        """What the whole ledger adds up to, as a writer finds it; takes a writer's turn, and writes nothing.

        Raises:
            LedgerError: the ledger does not verify, is an older copy, or cannot be used.
        """
        with self._writing() as (_, book):
            return book

    def knows(self, dataset: str) -> bool:
        """Whether anybody granted or asked anything of a dataset here."""
        with self.store.read() as connection:
            return next(iter(self.store.select(connection, entries.c.dataset == dataset)), None) is not None

    def verify(self, dataset: str | None = None) -> Verified:
        """Recompute the chain and the accounts (of one dataset, or of all). See ``ledger_verify``."""
        return ledger_verify.verify(self.store, self.identity, dataset, self.memory)

    def verify_release(self, release: Release) -> Verified:
        """Verify the chain and that it still holds what a release in hand says. See ``ledger_verify``."""
        return ledger_verify.verify_release(self.store, self.identity, release, self.memory)

    def _void(self, run_id: str, reason: str, *, only_untouched: bool) -> bool:
        with self._writing() as (connection, book):
            run = book.runs.get(run_id) or self._run(connection, run_id)
            if only_untouched and (run is None or run.state != "reserved" or run.charges):
                return False
            if run is None:
                raise RunConflict(f"run {run_id} is not in this ledger")
            if run.state != "reserved":
                raise RunConflict(f"run {run_id} is already {run.state}; there is nothing to void")
            entry = self._append(connection, "void", run.reservation, {"reason": reason})
        freed = run.cost.minus(run.spent)
        audit("void", **whose(run.reservation), **amounts(freed), ledger=self.identity, hash=entry.hash)
        return True

    def _run(self, connection: Connection, run_id: str) -> RunRecord | None:
        """One run, from its own entries."""
        of_run = entries.c.run_id == run_id
        return run_of(self.store.select(connection, of_run, entries.c.kind.in_(OF_A_RUN)))

    def _held(self, connection: Connection, run_id: str) -> Entry:
        """The document of a run that waits for its owner's review."""
        run = self._run(connection, run_id)
        if run is None or run.document is None or run.state != "held":
            if run is None:
                raise RunConflict(f"run {run_id} is not in this ledger")
            raise RunConflict(f"run {run_id} is {run.state}, not held; there is nothing to review")
        return run.document

    def _pinned(self, connection: Connection, dataset: str, before: int | None = None) -> str | None:
        """The owner's key that counts for a dataset, now or before an entry."""
        grants = [entries.c.dataset == dataset, entries.c.kind == "grant"]
        if before is not None:
            grants.append(entries.c.seq < before)
        book = Book(self.identity)
        for entry in self.store.select(connection, *grants):
            book.add(entry)
        grant = book.grants.get(dataset)
        return None if grant is None else grant.owner_key

    def _spender(self, connection: Connection, run_id: str) -> RunRecord:
        run = self._run(connection, run_id)
        if run is None:
            raise BudgetRefused(f"run {run_id} has no reservation; nothing may be drawn")
        return run

    def _append(
        self, connection: Connection, kind: str, run: Reservation, body: dict[str, Any], name: str = ""
    ) -> Entry:
        return self.store.append(
            connection, kind, dataset=run.dataset, run_id=run.run_id, name=name, body=body, purpose=run.purpose
        )

    def _append_refusal(self, connection: Connection, request: Reservation, why: str) -> Entry:
        asked = request.model_dump(
            include={"level", "blocks", "cost", "study", "study_digest", "policy_digest", "estimator", "guarantee"}
        )
        return self._append(connection, "refuse", request, {"asked": asked, "why": why})

    @contextmanager
    def _writing(self) -> Iterator[tuple[Connection, Book]]:
        """A write transaction on entries that were verified, and what they add up to.

        Raises:
            LedgerError: the ledger does not verify, is an older copy, or cannot be used; nothing is written then.
        """
        with self.store.write() as connection:
            chain = caught_up(self.store, connection, self.identity, self.memory)
            before, traces = chain.seq, stamp(self.store, connection)
            yield connection, chain.book
            if self.memory is not None:
                chain.take(self.store.select(connection, entries.c.seq > before, checked=False))
        if self.memory is not None:
            self.memory.keep(chain, stamp(self.store, None) or traces)

    def _refuse_foreign(self, contract: Contract) -> None:
        if contract.ledger is not None and contract.ledger != self.identity:
            raise LedgerError(
                f"the contract of '{contract.dataset}' names another ledger ({contract.ledger}; this one is "
                f"{self.identity}): set {URL_VARIABLE} to the owner's"
            )
