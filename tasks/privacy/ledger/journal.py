"""Write to a ledger on verified entries, one turn at a time, and what only owners write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from causalveil.schemas.admission.manifest import Admission
from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import LedgerError, RunConflict
from causalveil.schemas.ledger import EarlyRefusal, Reservation
from causalveil.tasks.privacy.keys import OwnerKey
from causalveil.tasks.privacy.ledger.accounts import Book, RunRecord, run_of
from causalveil.tasks.privacy.ledger.entry import (
    Entry,
    Grant,
    ReviewVerdict,
    amounts,
    document_text,
    grant_body,
    log_event,
    refuse_stranger,
    verdict_body,
)
from causalveil.tasks.privacy.ledger.rules import grants_itself, one_line, refuse_conversion, refuse_other_contract
from causalveil.tasks.privacy.ledger.soundness import Memory, caught_up, from_the_first, holds, look_once, stamp
from causalveil.tasks.privacy.ledger.store import URL_VARIABLE, Store, entries

OF_A_RUN = ("reserve", "release", "void", "approve", "reject")


@dataclass(frozen=True)
class Journal:
    """One ledger's chain.

    It holds no connection, so it can be shared between threads, pickled, and taken over a fork.

    ``memory`` is what this machine knows of it; a ledger that is thrown away has none.
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
        """A write transaction on entries that were verified, and what they add up to.

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
            Whether an entry was written: not if the last admission of the dataset is this very one.

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
        log_event(str(verdict), run=run_id, dataset=document.dataset, ledger=self.identity, hash=entry.hash)

    def restored(self, reason: str) -> Entry:
        """Record that this ledger is an older copy, without entries that this machine has seen.

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
        log_event("restore", lost=known.seq, found=entry.seq - 1, ledger=self.identity, hash=entry.hash)
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
        if run is None or run.document is None or run.state != "held":
            if run is None:
                raise RunConflict(f"run {run_id} is not in this ledger")
            raise RunConflict(f"run {run_id} is {run.state}, not held; there is nothing to review")
        return run.document
