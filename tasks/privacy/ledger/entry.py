"""Encode and log entries of the ledger, and read grants and reviews that owners signed.

An event is one JSON line in the logs, after its commit. The ledger is the record; the lines are for people and log
collectors. They carry amounts and hashes, never a released value: a line that is lost with a crash loses nothing.

A grant states the caps that an owner allowed, and its signature proves that it was the owner. For sensitive data the
owner signs each grant. The ledger pins the owner's key at the dataset's first signed grant; from then on a grant counts
only under that key, also one that pins the next key. A grant's number is signed too, so that an old grant cannot be
written again after a lower one.

Where runs are reviewed, the ledger holds a release until the owner lets it go. A verdict is a signed entry on one
document: ledger, run and the hash of the document's entry are under the signature, so a verdict on another run, or on
another release of it, counts for nothing.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Any

from causalveil.schemas.contract import Contract, DataClass, Review
from causalveil.schemas.documents import own_version
from causalveil.schemas.errors import BudgetRefused, ContractError, LedgerError
from causalveil.schemas.hints import option
from causalveil.schemas.ledger import Reservation, Sum
from causalveil.schemas.privacy import Accounting, Charge, PrivacyCost, amount_text
from causalveil.tasks.privacy.keys import OwnerKey, is_signed

# The key of a body under which it names the entry's author, and the fields there.
BY = "by"
AUTHOR_FIELDS = ("actor", "host", "purpose", "version")
# The previous hash of the first entry.
NO_HASH = "0" * 64


def _plain(value: Any) -> str:
    if isinstance(value, Decimal):
        return amount_text(value)
    raise TypeError(f"{type(value).__name__} has no place in a ledger entry")


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False, default=_plain)


def canonical(document: Any) -> str:
    """Return JSON with sorted keys and no spaces.

    Decimals are exact text, floats the repr that reads back equal.
    """
    return _ENCODER.encode(document)


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
        """Return SHA-256 over the previous hash and every other column, as 64 hex digits.

        A JSON array of texts is an encoding that no two different rows share.
        """
        # Put together here: `canonical` of the array was a fifth of reading a ledger.
        quoted = encode_basestring_ascii
        text = (
            f'["causalveil-ledger-1",{quoted(self.previous_hash)},{self.seq},{quoted(self.kind)},'
            f"{quoted(self.dataset)},{quoted(self.run_id)},{quoted(self.name)},{quoted(self.body)},"
            f"{quoted(self.written_at)}]"
        )
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def document(self) -> dict[str, Any]:
        """The body, parsed.

        Raises:
            LedgerError: the body is not a JSON object.
        """
        try:
            document = _loaded(self.body)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise broken(self, "its body is not a JSON object")
        return document


# Several readers in turn ask for the body of the same entry.
_loaded = lru_cache(maxsize=4)(json.loads)


def broken(entry: Entry, why: str) -> LedgerError:
    """Return the error for an entry that the protocol could not have written."""
    return LedgerError(f"ledger entry {entry.seq} does not verify: {why}; restore the ledger from a backup")


def unread(entry: Entry) -> LedgerError:
    """Return the error for an entry of a form that this version does not read.

    Its hash is right: nothing is damaged.
    """
    version = (entry.document.get(BY) or {}).get("version")
    writer = "an earlier version" if version is None else f"causalveil {version}"
    return LedgerError(
        f"ledger entry {entry.seq} was written by {writer} in a form that this version, {own_version()}, does not "
        "read: use the version that wrote it, or keep that ledger with its releases and begin a new one with caps "
        "lowered by what it spent"
    )


_LOG = logging.getLogger("causalveil.audit")


def log_event(event: str, **facts: Any) -> None:
    """Write one line of JSON at level INFO to the logger ``causalveil.audit``."""
    _LOG.info(json.dumps({"event": event, **facts}))


def whose(reservation: Reservation) -> dict[str, str]:
    """Return the facts by which lines are grouped."""
    return {
        "study": reservation.study,
        "run": reservation.run_id,
        "dataset": reservation.dataset,
        "level": str(reservation.level),
    }


def amounts(cost: PrivacyCost | Charge | Sum) -> dict[str, str]:
    """Return the epsilon and delta as exact text."""
    return {"epsilon": amount_text(cost.epsilon), "delta": amount_text(cost.delta)}


_GRANT_LABEL = b"causalveil grant 1\x00"
HOW_TO_GRANT = "its owner must run: causalveil ledger grant CONTRACT --reason TEXT"


@dataclass(frozen=True)
class Grant:
    """The grant in force of one dataset. A grant of the first format says neither class nor key."""

    number: int
    digest: str
    data_class: DataClass | None
    review: bool
    owner_key: str | None
    accounting: Accounting = Accounting.basic


def grant_after(before: Grant | None, entry: Entry, identity: str) -> Grant:
    """Return the grant in force after a grant's entry.

    Raises:
        LedgerError: no owner granted this; names the entry's number.
    """
    body = entry.document
    if body.get("number") is None:
        if before is not None and before.data_class is not None:
            raise broken(entry, "its grant is of a format that was given up before it")
        number = 1 if before is None else before.number + 1
        return Grant(number, str(body.get("policy_digest")), None, review=False, owner_key=None)
    pinned = None if before is None else before.owner_key
    key, number = body.get("owner_key"), 1 if before is None else before.number + 1
    if body["number"] != number:
        raise broken(entry, "its grant was made for another place in the ledger")
    if pinned is not None and key is None:
        raise broken(entry, "its grant drops the owner's key")
    data_class = DataClass(body["data_class"]) if body.get("data_class") in list(DataClass) else None
    if data_class is None or (data_class is DataClass.sensitive and key is None):
        raise broken(entry, "its grant of sensitive data names no owner's key")
    signer = pinned or key
    message = _grant_message(identity, entry.dataset, body)
    if signer is not None and not is_signed(str(signer), str(body.get("signature")), message):
        raise broken(entry, "its grant is not signed by the owner's key")
    accounting = body.get("accounting")
    if accounting not in list(Accounting):
        raise unread(entry)
    return Grant(
        number, str(body.get("policy_digest")), data_class, body.get("review") is True, key, Accounting(accounting)
    )


def grant_body(
    before: Grant | None, contract: Contract, reason: str, identity: str, owner: OwnerKey | None
) -> dict[str, Any]:
    """Return the body of a new grant's entry, signed where it must be.

    Raises:
        ContractError: a signature is needed and the contract names no key, or the key at hand does not count.
    """
    pinned = None if before is None else before.owner_key
    body: dict[str, Any] = {
        "number": 1 if before is None else before.number + 1,
        "caps": {str(level): cap.model_dump() for level, cap in contract.caps.items()},
        "accounting": str(contract.accounting),
        "data_class": str(contract.data_class),
        "policy_digest": contract.digest,
        "review": contract.review is Review.required,
        "owner_key": contract.owner_key,
        "reason": reason,
    }
    if contract.owner_key is None:
        if pinned is not None or contract.data_class is DataClass.sensitive:
            raise ContractError(
                f"the contract of '{contract.dataset}' needs 'owner_key': the line that `causalveil owner key` prints"
            )
        return body
    signer = pinned or contract.owner_key
    if owner is None or owner.public != signer:
        raise ContractError(
            f"a grant for '{contract.dataset}' counts only under its owner's key {signer}; name the file that holds "
            f"its private half by {option('owner_key')} or CAUSALVEIL_OWNER_KEY"
        )
    return {**body, "signature": owner.sign(_grant_message(identity, contract.dataset, body))}


def granted(grant: Grant | None, contract: Contract) -> Grant:
    """Return the grant in force, once it is certain that it is for the contract as it stands.

    Raises:
        BudgetRefused: no grant, a grant of another contract, or an unsigned grant of sensitive data.
    """
    name = contract.dataset
    if grant is None:
        raise BudgetRefused(f"dataset '{name}' has no grant in this ledger; {HOW_TO_GRANT}")
    if contract.data_class is DataClass.sensitive and grant.owner_key is None:
        raise BudgetRefused(f"the grant of '{name}' is not signed, and its data are sensitive; {HOW_TO_GRANT}")
    if grant.owner_key != contract.owner_key:
        raise BudgetRefused(f"the contract of '{name}' names another owner's key than its grant; {HOW_TO_GRANT}")
    if grant.digest != contract.digest:
        raise BudgetRefused(f"the contract of '{name}' was changed after it was granted; {HOW_TO_GRANT}")
    return grant


def _grant_message(identity: str, dataset: str, body: dict[str, Any]) -> bytes:
    """Return the bytes to sign of a grant: the ledger, the dataset, and the entry's body without its author."""
    grant = {key: value for key, value in body.items() if key not in ("signature", BY)}
    return _GRANT_LABEL + canonical({"ledger": identity, "dataset": dataset, "grant": grant}).encode()


_REVIEW_LABEL = b"causalveil review 1\x00"


class ReviewVerdict(StrEnum):
    """The owner's verdict; also the kind of the entry that records it."""

    approve = "approve"
    reject = "reject"


def verdict_body(
    document: Entry, verdict: ReviewVerdict, reason: str | None, identity: str, pinned: str | None, owner: OwnerKey
) -> dict[str, Any]:
    """Return the body of a verdict's entry, signed by the owner.

    Args:
        document: the entry that finished the run.
        verdict: the owner's.
        reason: one line for the record.
        identity: the ledger's.
        pinned: the owner's key that counts.
        owner: the key at hand.

    Raises:
        ContractError: the key at hand is not the one that the ledger pinned.
    """
    refuse_stranger(document.dataset, pinned, owner)
    body = {"document": document.hash, "reason": reason}
    return {**body, "signature": owner.sign(_review_message(identity, document.run_id, verdict, body))}


def refuse_stranger(dataset: str, pinned: str | None, owner: OwnerKey) -> None:
    """Refuse every key but the owner's.

    Raises:
        ContractError: the key at hand is not the one that the ledger pinned.
    """
    if owner.public != pinned:
        raise ContractError(
            f"only the owner of '{dataset}' reviews its releases, and this is not the key that the ledger pinned; name "
            f"the file of the right one by {option('owner_key')} or CAUSALVEIL_OWNER_KEY"
        )


def check_verdict(document: Entry | None, entry: Entry, identity: str, pinned: str | None) -> None:
    """Check that a verdict's entry is the owner's, on this document.

    Raises:
        LedgerError: it is not; names the entry.
    """
    body = entry.document
    signed = {"document": body.get("document"), "reason": body.get("reason")}
    if document is None or signed["document"] != document.hash:
        raise broken(entry, "it is a verdict on another release")
    message = _review_message(identity, entry.run_id, entry.kind, signed)
    if pinned is None or not is_signed(pinned, str(body.get("signature")), message):
        raise broken(entry, "its verdict is not signed by the owner's key")


def document_text(entry: Entry) -> str:
    """Return the text of release.json in the entry that finished a run."""
    return str(entry.document.get("document"))


def _review_message(identity: str, run_id: str, verdict: str, body: dict[str, Any]) -> bytes:
    signed = {"ledger": identity, "run": run_id, "verdict": str(verdict), **body}
    return _REVIEW_LABEL + canonical(signed).encode()
