"""The chain as everybody uses it who writes to a ledger: one turn at a time, on entries that were verified."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import LedgerError
from causalveil.schemas.ledger import EarlyRefusal, Reservation
from causalveil.tasks.privacy.ledger.accounts import Book, RunRecord, run_of
from causalveil.tasks.privacy.ledger.entry import Entry
from causalveil.tasks.privacy.ledger.soundness import Memory, caught_up, look_once, stamp
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
        book = Book(self.identity)
        for entry in self.store.select(connection, *grants):
            book.add(entry)
        grant = book.grants.get(dataset)
        return None if grant is None else grant.owner_key
