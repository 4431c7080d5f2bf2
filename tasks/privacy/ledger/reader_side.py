"""Read a ledger and write to it on verified entries.

``Journal`` gives a writer its turn on verified entries, ``OwnerSide`` writes grants, admissions and reviews, and
``ReaderSide`` reads runs, accounts and stored releases, and verifies them.

An auditor recomputes the chain and the accounts, and compares releases in hand with them. The chain finds a changed,
removed, reordered or inserted entry. A ledger that was cut at its end or put back to an older copy is a chain too: this
machine's memory of it finds those, and ``verify_release`` by a release in hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, func, select

from causalveil.schemas.admission import Admission
from causalveil.schemas.contract import Contract
from causalveil.schemas.documents import parse_json
from causalveil.schemas.errors import LedgerError, RunConflict, StudyError
from causalveil.schemas.ledger import Account, EarlyRefusal, Reservation, UndrawnCharges, Verified
from causalveil.schemas.mistakes import nearest
from causalveil.tasks.privacy.keys import OwnerKey
from causalveil.tasks.privacy.ledger.accounts import (
    Book,
    Listing,
    RunRecord,
    account_of,
    manifest_of,
    request_of,
    reservation_of,
    run_of,
)
from causalveil.tasks.privacy.ledger.entry import (
    Entry,
    Grant,
    ReviewVerdict,
    amounts,
    check_verdict,
    document_text,
    grant_body,
    log_event,
    refuse_stranger,
    verdict_body,
)
from causalveil.tasks.privacy.ledger.rules import (
    document_that_may_leave,
    grants_itself,
    one_line,
    refuse_conversion,
    refuse_other_contract,
)
from causalveil.tasks.privacy.ledger.soundness import (
    Memory,
    accounts_for,
    caught_up,
    from_the_first,
    holds,
    look_once,
    refuse_older,
    refuse_unguarded,
    remembered,
    stamp,
)
from causalveil.tasks.privacy.ledger.store import URL_VARIABLE, Store, entries

if TYPE_CHECKING:
    from causalveil.schemas.release import LedgerStatement


OF_A_RUN = ("reserve", "release", "void", "approve", "reject")


@dataclass(frozen=True)
class Journal:
    """One ledger's chain.

    It holds no connection, so it can be shared between threads, pickled, and taken over a fork.

    ``memory`` is this machine's memory of it; a throwaway ledger has none.
    """

    store: Store
    identity: str
    memory: Memory | None = None

    def _run(self, connection: Connection, run_id: str) -> RunRecord | None:
        """One run, from its own entries."""
        of_run = entries.c.run_id == run_id
        return run_of(self.store.select(connection, of_run, entries.c.kind.in_(OF_A_RUN)))

    def _append(
        self, connection: Connection, kind: str, run: Reservation | EarlyRefusal, body: dict[str, Any], name: str = ""
    ) -> Entry:
        return self.store.append(
            connection, kind, dataset=run.dataset, run_id=run.run_id, name=name, body=body, purpose=run.purpose
        )

    @contextmanager
    def _writing(self) -> Iterator[tuple[Connection, Book]]:
        """A write transaction on entries that were verified, and the book of them.

        Raises:
            LedgerError: the ledger does not verify, is an older copy, or cannot be used; nothing is written then.
        """
        if self.memory is not None:
            look_once(self.store, self.identity, self.memory)
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

    def _pinned(self, connection: Connection, dataset: str, before: int | None = None) -> str | None:
        """The owner's key that counts for a dataset, now or before an entry."""
        grants = [entries.c.dataset == dataset, entries.c.kind == "grant"]
        if before is not None:
            grants.append(entries.c.seq < before)
        grant = Book(self.identity, self.store.select(connection, *grants)).grants.get(dataset)
        return None if grant is None else grant.owner_key


@dataclass(frozen=True)
class OwnerSide(Journal):
    """The owner's side of a ledger."""

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
        """Grant the caps of public or synthetic data that have no grant yet.

        The first grant of such data needs no owner.

        Returns:
            Whether a grant was written; never for sensitive data or under a contract that names an owner's key.

        Raises:
            LedgerError: the contract names another ledger, or the ledger cannot be used.
        """
        self._refuse_foreign(contract)
        if not grants_itself(contract):
            return False
        with self._writing() as (connection, book):
            before = book.grants.get(contract.dataset)
            if before is not None:
                return False
            reason = f"granted by itself: the data are {contract.data_class}"
            entry = self._append_grant(connection, None, contract, reason, None)
        self._audit_grant(contract, entry)
        return True

    def admit(self, contract: Contract, admission: Admission) -> bool:
        """Record that data were held to their contract; from then on runs are held to this manifest.

        Returns:
            Whether an entry was written: not if the last admission of the dataset is the same.

        Raises:
            BudgetRefused: the contract is not the granted one; nothing is written.
            LedgerError: the contract names another ledger, or the ledger cannot be used.
        """
        self._refuse_foreign(contract)
        body = {
            "manifest": admission.digest,
            "declares": admission.declares,
            "policy_digest": contract.digest,
            "partitions": len(admission.files),
            "units": admission.units,
        }
        with self._writing() as (connection, book):
            refuse_other_contract(book, contract)
            if book.admissions.get(contract.dataset) == admission.digest:
                return False
            entry = self.store.append(connection, "admit", dataset=contract.dataset, body=body)
        log_event("admit", dataset=contract.dataset, units=admission.units, ledger=self.identity, hash=entry.hash)
        return True

    def held_document(self, run_id: str, owner: OwnerKey) -> str:
        """Return the document of a run that waits for its owner's review, for the owner to read.

        Raises:
            RunConflict: no such run, or it is not held.
            ContractError: another key than the pinned one.
        """
        with self.store.read() as connection:
            document = self._held(connection, run_id)
            refuse_stranger(document.dataset, self._pinned(connection, document.dataset), owner)
        return document_text(document)

    def review(self, run_id: str, verdict: ReviewVerdict, owner: OwnerKey, reason: str | None = None) -> None:
        """Record the owner's signed verdict on a held release.

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
        log_event(str(verdict), run=run_id, dataset=document.dataset, ledger=self.identity, hash=entry.hash)

    def restored(self, reason: str) -> Entry:
        """Record that this ledger is an older copy, without entries that this machine has seen.

        Raises:
            RunConflict: nothing that this machine has seen is missing.
            StudyError: no reason.
            LedgerError: the ledger does not verify, or cannot be used.
        """
        why = one_line(reason)
        snapshot = None if self.memory is None else self.memory.read()
        with self.store.write() as connection:
            chain = from_the_first(self.store, connection, self.identity)
            if snapshot is None or self.memory is None or holds(self.store, connection, snapshot):
                raise RunConflict("this ledger holds all that this machine has seen of it; there is nothing to accept")
            lost = {"seq": snapshot.seq, "hash": snapshot.hash}
            body = {"lost": lost, "found": {"seq": chain.seq, "hash": chain.hash}, "reason": why}
            traces = stamp(self.store, connection)
            entry = self.store.append(connection, "restore", body=body, purpose=why)
            chain.take([entry])
        chain.after_loss = True
        self.memory.keep(chain, stamp(self.store, None) or traces)
        log_event("restore", lost=snapshot.seq, found=entry.seq - 1, ledger=self.identity, hash=entry.hash)
        return entry

    def _append_grant(
        self, connection: Connection, before: Grant | None, contract: Contract, reason: str, owner: OwnerKey | None
    ) -> Entry:
        body = grant_body(before, contract, reason, self.identity, owner)
        return self.store.append(connection, "grant", dataset=contract.dataset, body=body, purpose=reason)

    def _audit_grant(self, contract: Contract, entry: Entry) -> None:
        caps = {str(level): amounts(cap) for level, cap in contract.caps.items()}
        log_event("grant", dataset=contract.dataset, caps=caps, ledger=self.identity, hash=entry.hash)

    def _held(self, connection: Connection, run_id: str) -> Entry:
        """The document of a run that waits for its owner's review."""
        run = self._run(connection, run_id)
        if run is None:
            raise RunConflict(f"run {run_id} is not in this ledger")
        if run.document is None or run.state != "held":
            raise RunConflict(f"run {run_id} is {run.state}, not held; there is nothing to review")
        return run.document


def _difference(run: RunRecord, document: dict[str, Any]) -> str | None:
    statement = document["ledger"]
    if statement.get("sequence") not in (None, run.last_entry.seq):
        return "its last charge in the ledger has another number than the release names"
    if statement.get("entry_hash") != run.last_entry.hash:
        return "its last charge in the ledger has another hash than the release names"
    if run.document is None:
        return "the ledger has no finished release of it"
    if parse_json(document_text(run.document)) != document:
        return "the ledger has another release of it"
    return None


@dataclass(frozen=True)
class ReaderSide(Journal):
    """The side of a ledger that analysts, officers and auditors read."""

    def record(self, run_id: str) -> RunRecord | None:
        """Return the ledger's entries on a run, or None if it has none.

        Raises:
            LedgerError: the ledger cannot be used, or an entry of the run breaks a rule.
        """
        with self.store.read() as connection:
            return self._run(connection, run_id)

    def runs_of_study(self, dataset: str, study_digest: str) -> tuple[RunRecord, ...]:
        """Return the runs that asked a study of a dataset, oldest first.

        Raises:
            LedgerError: the ledger cannot be used, or an entry of these runs breaks a rule.
        """
        of_study = (entries.c.dataset == dataset, entries.c.kind == "reserve", entries.c.body.contains(study_digest))
        with self.store.read() as connection:
            names = [entry.run_id for entry in self.store.select(connection, *of_study)]
            return tuple(run for run in (self._run(connection, name) for name in names) if run is not None)

    def stored_document(self, run_id: str) -> str | None:
        """Return the document of a finished run, else None.

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

    def statement(self, run_id: str) -> LedgerStatement:
        """Return the ledger's identity and the run's last charge, or its reservation, for a release.

        Raises:
            RunConflict: no such run.
        """
        run = self.record(run_id)
        if run is None:
            raise RunConflict(f"run {run_id} is not in this ledger")
        last = run.last_entry
        from causalveil.schemas.release import LedgerStatement  # here: an admission need not import it

        return LedgerStatement(identity=self.identity, entry_hash=last.hash, sequence=last.seq)

    def charges_of(self, run_id: str) -> int:
        """Return the number of a run's committed charges; 0 for a run that is not there."""
        run = self.record(run_id)
        return 0 if run is None else len(run.charges)

    def account(self, dataset: str, contract: Contract | None = None) -> Account:
        """Return caps in force, every charged block and every run; a contract's caps bind as well.

        Raises:
            LedgerError: the ledger cannot be used, or an entry of the dataset breaks a rule.
        """
        book, listing = Book(self.identity), Listing()
        for entry in self.entries_of(dataset):
            listing.take(entry, book.add(entry))
        return account_of(book, dataset, contract, listing)

    def newest(self, dataset: str, most: int, contract: Contract | None = None) -> Account:
        """Return the account with its newest runs alone, from sums that were verified before.

        A dataset of years has thousands of runs, and to add all of them up again takes seconds. Where this machine
        never saw the ledger, or cannot tell that it is unchanged, all entries are read.

        Args:
            dataset: its name.
            most: largest number of runs that are listed.
            contract: its caps bind as well.

        Raises:
            LedgerError: the ledger cannot be used, or an entry breaks a rule.
        """
        snapshot = None if self.memory is None else self.memory.read()
        with self.store.read() as connection:
            chain = remembered(self.store, connection, self.identity, snapshot)
            if chain is not None:
                reserved = (entries.c.dataset == dataset, entries.c.kind == "reserve")
                requests = [(entry.run_id, request_of(entry)) for entry in self.store.select(connection, *reserved)]
                older, listing = max(len(requests) - most, 0), Listing()
                for run_id, _ in requests[older:]:
                    run = self._run(connection, run_id)
                    for entry in () if run is None else run.entries:
                        listing.take(entry, run)
                # Of all runs; sums that were verified before do not tell which of the older runs ended undrawn.
                listing.requests, listing.undrawn = Counter(request for _, request in requests), {}
                return account_of(chain.book, dataset, contract, listing, older=older)
        whole = self.account(dataset, contract)
        older = max(len(whole.runs) - most, 0)
        return whole.model_copy(update={"runs": whole.runs[older:], "older_runs": older})

    def standing(self, dataset: str) -> Book:
        """Return caps, grants and sums of a dataset.

        They follow from the state that this machine has verified, else from the first entry on.

        Of its runs the book holds those that may still have entries.

        Raises:
            LedgerError: the ledger cannot be used, or an entry breaks a rule.
        """
        snapshot = None if self.memory is None else self.memory.read()
        with self.store.read() as connection:
            chain = remembered(self.store, connection, self.identity, snapshot)
        return chain.book if chain is not None else Book(self.identity, self.entries_of(dataset))

    def last_reservation(self, dataset: str) -> Reservation | None:
        """Return the reservation of the newest run of a dataset; None if it has no run.

        Raises:
            LedgerError: the ledger cannot be used, or the entry was changed.
        """
        newest = select(func.max(entries.c.seq)).where(entries.c.dataset == dataset, entries.c.kind == "reserve")
        with self.store.read() as connection:
            seq = connection.execute(newest).scalar()
            newest_entry = self.store.select(connection, entries.c.seq == seq) if seq is not None else ()
            return next(map(reservation_of, newest_entry), None)

    def head(self) -> tuple[int, str]:
        """Return number and hash of the last entry.

        Raises:
            LedgerError: the ledger cannot be used, or is empty.
        """
        with self.store.read() as connection:
            last = self.store.head(connection)
        if last is None:
            raise LedgerError("the ledger is empty; restore it from a backup")
        return last.seq, last.hash

    def accounts_for(self, seq: int, digest: str) -> bool:
        """Tell whether the ledger holds an entry, or accepts its loss for the record.

        Raises:
            LedgerError: the ledger cannot be used.
        """
        with self.store.read() as connection:
            return accounts_for(self.store, connection, seq, digest)

    def admission(self, dataset: str) -> str | None:
        """Digest of the manifest under which a dataset was admitted last; None: it never was.

        Raises:
            LedgerError: the ledger cannot be used, or an entry was changed.
        """
        of_admissions = (entries.c.dataset == dataset, entries.c.kind == "admit")
        with self.store.read() as connection:
            digests = [manifest_of(entry) for entry in self.store.select(connection, *of_admissions)]
        return digests[-1] if digests else None

    def refuse_ungranted(self, contract: Contract) -> None:
        """Refuse a contract under which no data may be admitted and no budget reserved.

        Raises:
            BudgetRefused: no grant, or a grant of another contract.
            LedgerError: the ledger cannot be used, or a grant is forged.
        """
        grants = (entries.c.dataset == contract.dataset, entries.c.kind == "grant")
        with self.store.read() as connection:
            book = Book(self.identity, self.store.select(connection, *grants))
        refuse_other_contract(book, contract)

    def refusals(self, run_id: str) -> tuple[Entry, ...]:
        """Return every refusal of a reservation under this run id."""
        with self.store.read() as connection:
            return tuple(self.store.select(connection, entries.c.run_id == run_id, entries.c.kind == "refuse"))

    def datasets(self) -> tuple[str, ...]:
        """Return the names of all datasets that have entries, sorted.

        Raises:
            LedgerError: the ledger cannot be used.
        """
        with self.store.read() as connection:
            names = connection.execute(select(entries.c.dataset).distinct().where(entries.c.dataset != ""))
            return tuple(sorted(name for (name,) in names))

    def entries_of(self, dataset: str) -> Iterator[Entry]:
        """Yield every entry of a dataset in order, releases among them.

        Rows are fetched as they are consumed.

        Raises:
            LedgerError: the ledger cannot be used, or an entry was changed.
        """
        with self.store.read() as connection:
            yield from self.store.select(connection, entries.c.dataset == dataset)

    def sums(self) -> Book:
        """Return the book of the whole ledger, as a writer finds it.

        Takes a writer's turn, and writes nothing.

        Raises:
            LedgerError: the ledger does not verify, is an older copy, or cannot be used.
        """
        with self._writing() as (_, book):
            return book

    def refuse_unknown(self, dataset: str) -> None:
        """Refuse the name of a dataset of which the ledger has no entry.

        Raises:
            StudyError: names the nearest that it has.
            LedgerError: the ledger cannot be used.
        """
        names = self.datasets()
        if dataset not in names:
            raise StudyError(
                f"dataset '{dataset}' is unknown to this ledger: no budget was granted and no study asked of it"
                f"{nearest(dataset, names)}"
            )

    def verify(self, dataset: str | None = None) -> Verified:
        """Recompute every hash, and the accounts of one dataset or of all.

        Checks that entries are consecutive and chained from a genesis with this identity; that no reservation ever
        exceeded the cap recorded with it, nor that cap the owner's grant; that each release and void belongs to a
        reservation that was open; that each charge is one that its reservation declared; that grants and verdicts are
        their owner's; that the database is whole and the triggers stand; that this machine has seen no later entry.
        Finished runs that never drew a declared charge are named: older versions wrote them, and the chain holds.

        Raises:
            StudyError: the ledger holds, and has no entry of the dataset.
            LedgerError: names the first entry that fails.
        """
        verified = self._audit(dataset)[0]
        if dataset is not None:
            self.refuse_unknown(dataset)
        return verified

    def verify_release(self, text: str, where: str = "release") -> str:
        """Verify the whole ledger, then that it holds this release, whichever version wrote it.

        Args:
            text: of a release.json, as JSON; spaces and the order of keys do not count.
            where: its name in errors.

        Returns:
            The run's id.

        Raises:
            StudyError: it is no release of a run.
            LedgerError: another ledger's release, or one that this ledger does not have any more or has otherwise.
        """
        try:
            document = parse_json(text)
            run_id, identity = str(document["run_id"]), str(document["ledger"]["identity"])
        except (ValueError, KeyError, TypeError):
            raise StudyError(f"{where}: is not the release of a run") from None
        if identity != self.identity:
            raise LedgerError(f"run {run_id}: its release names ledger {identity}, and this is {self.identity}")
        self._audit(None)
        run = self.record(run_id)
        problem = "the ledger does not have it" if run is None else _difference(run, document)
        if problem:
            raise LedgerError(
                f"run {run_id}: {problem}; either this release file was changed or the ledger was rolled back "
                "or truncated"
            )
        return run_id

    def verify_each(self, each: Callable[[Book, Entry, RunRecord | None], None]) -> tuple[Verified, Book]:
        """Verify the whole ledger; call ``each`` with the book and the run after each entry.

        Returns:
            The extent, and the book of all entries.

        Raises:
            LedgerError: names the first entry that fails; then all calls of ``each`` are void.
        """
        return self._audit(None, each)

    def _audit(
        self,
        dataset: str | None,
        each: Callable[[Book, Entry, RunRecord | None], None] = lambda _book, _entry, _run: None,
    ) -> tuple[Verified, Book]:
        # Read before the transaction begins, which is then no older than the snapshot.
        snapshot = None if self.memory is None else self.memory.read()
        with self.store.read() as connection:
            chain = from_the_first(self.store, connection, self.identity, dataset, each)
            refuse_older(self.store, connection, snapshot, self.identity)
            refuse_unguarded(self.store, connection)
        book = chain.book
        undrawn = tuple(UndrawnCharges(run_id=run_id, charges=names) for run_id, names in book.undrawn.items())
        return Verified(
            ledger=self.identity, entries=chain.seq, runs=book.reserved, head_hash=chain.hash, undrawn=undrawn
        ), book
