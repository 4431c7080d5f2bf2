"""Encode and hash an entry of the ledger, and log it.

An event is one JSON line in the logs, after its commit. The ledger is the record; the lines are for people and log
collectors. They carry amounts and hashes, never a released value: a line that is lost with a crash loses nothing.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from causalveil.schemas.errors import LedgerError
from causalveil.schemas.ledger import Reservation, Sum
from causalveil.schemas.privacy import Charge, PrivacyCost, amount_text

# The key of a body under which it says who wrote the entry: actor, host, purpose.
BY = "by"
# What the first entry has in place of a previous hash.
NO_HASH = "0" * 64


def canonical(document: Any) -> str:
    """JSON with sorted keys and no spaces.

    Decimals are exact text, floats the repr that reads back equal.
    """

    def plain(value: Any) -> str:
        if isinstance(value, Decimal):
            return amount_text(value)
        raise TypeError(f"{type(value).__name__} has no place in a ledger entry")

    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False, default=plain
    )


@dataclass(frozen=True)
class Entry:
    """One row. Columns that a kind has no use for are empty text."""

    seq: int
    kind: str
    dataset: str
    run_id: str
    name: str
    body: str
    previous_hash: str
    hash: str
    written_at: str

    def digest(self) -> str:
        """SHA-256 over the previous hash and every other column, as 64 hex digits.

        A JSON array of texts is an encoding that no two different rows share.
        """
        # Named one by one: a generic copy of the row was a sixth of reading a ledger.
        said = (self.seq, self.kind, self.dataset, self.run_id, self.name, self.body)
        columns = ["causalveil-ledger-1", self.previous_hash, *said, self.written_at]
        return hashlib.sha256(canonical(columns).encode()).hexdigest()

    @property
    def document(self) -> dict[str, Any]:
        """The body, parsed.

        Raises:
            LedgerError: the body is not a JSON object.
        """
        try:
            document = json.loads(self.body)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise broken(self, "its body is not a JSON object")
        return document


def broken(entry: Entry, why: str) -> LedgerError:
    """The error for an entry that the protocol could not have written."""
    return LedgerError(f"ledger entry {entry.seq} does not verify: {why}; restore the ledger from a backup")


_LOG = logging.getLogger("causalveil.audit")


def log_event(event: str, **facts: Any) -> None:
    """Write one line of JSON at level INFO to the logger ``causalveil.audit``."""
    _LOG.info(json.dumps({"event": event, **facts}))


def whose(reservation: Reservation) -> dict[str, str]:
    """The facts by which lines are grouped."""
    return {
        "study": reservation.study,
        "run": reservation.run_id,
        "dataset": reservation.dataset,
        "level": str(reservation.level),
    }


def amounts(cost: PrivacyCost | Charge | Sum) -> dict[str, str]:
    """Epsilon and delta as exact text."""
    return {"epsilon": amount_text(cost.epsilon), "delta": amount_text(cost.delta)}
