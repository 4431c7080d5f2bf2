"""Read a ledger without writing to it: runs, accounts, stored releases, verification.

An auditor recomputes the chain and the accounts, and holds releases in hand against them. The chain finds a changed,
removed, reordered or inserted entry. A ledger that was cut at its end or put back to an older copy is a chain too: what
this machine has seen of it finds those, and releases in hand, by ``verify_release``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from causalveil.schemas.contract import Contract
from causalveil.schemas.documents import parse_json
from causalveil.schemas.errors import LedgerError, RunConflict, StudyError
from causalveil.schemas.ledger import DOCUMENT, Account, UndrawnCharges, Verified
from causalveil.schemas.mistakes import nearest
from causalveil.tasks.privacy.ledger.accounts import Book, RunRecord, account_by_sums, account_of, asked_of, manifest_of
from causalveil.tasks.privacy.ledger.entry import Entry, check_verdict, document_text
from causalveil.tasks.privacy.ledger.journal import Journal
from causalveil.tasks.privacy.ledger.rules import document_that_may_leave, refuse_other_contract
from causalveil.tasks.privacy.ledger.soundness import (
    accounts_for,
    from_the_first,
    refuse_older,
    refuse_unguarded,
    remembered,
)
from causalveil.tasks.privacy.ledger.store import entries

if TYPE_CHECKING:
    from causalveil.schemas.release import LedgerStatement


def _difference(run: RunRecord, document: dict[str, Any]) -> str | None:
    said = document["ledger"]
    if said.get("sequence") not in (None, run.last_entry.seq):
        return "its last charge in the ledger has another number than the release names"
    if said.get("entry_hash") != run.last_hash:
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
        """Return all that the ledger holds on a run, or None if it does not know it.

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
        asked = (entries.c.dataset == dataset, entries.c.kind == "reserve", entries.c.body.contains(study_digest))
        with self.store.read() as connection:
            names = [entry.run_id for entry in self.store.select(connection, *asked)]
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
        from causalveil.schemas.release import LedgerStatement  # which an admission need not wait for

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
        with self.store.read() as connection:
            book = Book(self.identity, self.store.select(connection, entries.c.dataset == dataset))
        return account_of(book, self.identity, dataset, contract)

    def newest(self, dataset: str, most: int, contract: Contract | None = None) -> Account:
        """Return the account with its newest runs alone, from sums that were verified before.

        A dataset of years has thousands of runs, and to add all of them up again takes seconds. Where this machine
        never saw the ledger, or cannot tell that it is unchanged, all entries are read.

        Args:
            dataset: whose account.
            most: how many runs are listed.
            contract: whose caps bind as well.

        Raises:
            LedgerError: the ledger cannot be used, or an entry breaks a rule.
        """
        known = None if self.memory is None else self.memory.read()
        with self.store.read() as connection:
            chain = remembered(self.store, connection, self.identity, known)
            if chain is not None:
                reserved = (entries.c.dataset == dataset, entries.c.kind == "reserve")
                asked = [(entry.run_id, asked_of(entry)) for entry in self.store.select(connection, *reserved)]
                listed = [self._run(connection, run_id) for run_id, _ in asked[max(len(asked) - most, 0) :]]
                runs = [run for run in listed if run is not None]
                return account_by_sums(chain.book, self.identity, dataset, contract, [one for _, one in asked], runs)
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
        known = None if self.memory is None else self.memory.read()
        with self.store.read() as connection:
            chain = remembered(self.store, connection, self.identity, known)
        return chain.book if chain is not None else Book(self.identity, self.history(dataset))

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
            found = [manifest_of(entry) for entry in self.store.select(connection, *of_admissions)]
        return found[-1] if found else None

    def refuse_ungranted(self, contract: Contract) -> None:
        """Refuse a contract under which nothing may be admitted or reserved, whatever is asked.

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

    def history(self, dataset: str) -> tuple[Entry, ...]:
        """Return the entries that a dataset's accounts follow from.

        These are grants, admissions, runs, charges and voids, no documents.

        Raises:
            LedgerError: the ledger cannot be used, or an entry was changed.
        """
        of_accounts = entries.c.kind.in_(("grant", "admit", "reserve", "release", "void"))
        with self.store.read() as connection:
            return tuple(
                self.store.select(connection, entries.c.dataset == dataset, of_accounts, entries.c.name != DOCUMENT)
            )

    def datasets(self) -> tuple[str, ...]:
        """Return the names of all datasets of which anything was granted or asked, sorted.

        Raises:
            LedgerError: the ledger cannot be used.
        """
        with self.store.read() as connection:
            names = connection.execute(select(entries.c.dataset).distinct().where(entries.c.dataset != ""))
            return tuple(sorted(name for (name,) in names))

    def entries_of(self, dataset: str) -> tuple[Entry, ...]:
        """Return every entry of a dataset in order, releases among them.

        The dataset "" has those of the ledger as a whole.

        Raises:
            LedgerError: the ledger cannot be used, or an entry was changed.
        """
        with self.store.read() as connection:
            return tuple(self.store.select(connection, entries.c.dataset == dataset))

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
        known = self.datasets()
        if dataset not in known:
            raise StudyError(
                f"dataset '{dataset}' is unknown to this ledger: no budget was granted and no study asked of it"
                f"{nearest(dataset, known)}"
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
        """Verify the whole ledger, then that it holds this very release, whichever version wrote it.

        Args:
            text: of a release.json, as JSON; spaces and the order of keys do not count.
            where: names it.

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
        _, book = self._audit(None)
        run = book.runs.get(run_id)
        problem = "the ledger does not have it" if run is None else _difference(run, document)
        if problem:
            raise LedgerError(
                f"run {run_id}: {problem}; either this release file was changed or the ledger was rolled back "
                "or truncated"
            )
        return run_id

    def _audit(self, dataset: str | None) -> tuple[Verified, Book]:
        # Read before the transaction begins: what it sees is then no older than what is known.
        known = None if self.memory is None else self.memory.read()
        with self.store.read() as connection:
            chain = from_the_first(self.store, connection, self.identity, dataset)
            refuse_older(self.store, connection, known, self.identity)
            refuse_unguarded(self.store, connection)
        runs = chain.book.runs
        undrawn = tuple(
            UndrawnCharges(run_id=run_id, charges=run.undrawn)
            for run_id, run in runs.items()
            if run.document is not None and run.undrawn
        )
        return Verified(
            ledger=self.identity, entries=chain.seq, runs=len(runs), head_hash=chain.hash, undrawn=undrawn
        ), chain.book
