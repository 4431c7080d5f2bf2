"""The chain of entries, link by link, and what it adds up to so far."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from causalveil.schemas.errors import LedgerError
from causalveil.tasks.privacy.ledger.accounts import Book
from causalveil.tasks.privacy.ledger.entry import NO_HASH, Entry, broken


@dataclass
class Chain:
    """A verified beginning of a ledger: its last entry, and the book of all that came before.

    ``only`` names the dataset whose entries the book is to hold; None: those of all. ``after_loss``: the ledger lost
    entries that this machine has seen, which was accepted for the record.
    """

    book: Book
    last: tuple[int, str] | None = None
    only: str | None = None
    after_loss: bool = False

    def take(self, entries: Iterable[Entry]) -> None:
        """Take in the entries that follow, which must be all of them and in order.

        Raises:
            LedgerError: names the first that does not follow, or that breaks a rule.
        """
        for entry in entries:
            self._check(entry)
            if self.only is None or entry.dataset == self.only:
                self.book.add(entry)
            self.last = (entry.seq, entry.hash)

    @property
    def seq(self) -> int:
        """Number of the last entry."""
        return 0 if self.last is None else self.last[0]

    @property
    def hash(self) -> str:
        """Hash of the last entry.

        Raises:
            LedgerError: there is none.
        """
        if self.last is None:
            raise LedgerError("the ledger is empty; restore it from a backup")
        return self.last[1]

    def _check(self, entry: Entry) -> None:
        if entry.seq != self.seq + 1:
            raise broken(entry, "an entry before it is missing")
        if entry.previous_hash != (NO_HASH if self.last is None else self.last[1]):
            raise broken(entry, "it is not chained to the entry before it")
        if entry.hash != entry.digest():
            raise broken(entry, "its hash is not that of its content")
        if (entry.kind == "genesis") != (self.last is None):
            raise broken(entry, "the first entry, and no other, is the genesis")
        if self.last is None:
            found = entry.document.get("identity")
            if found != self.book.identity or not re.fullmatch("[0-9a-f]{32}", str(found)):
                raise broken(entry, "it is the genesis of another ledger")
