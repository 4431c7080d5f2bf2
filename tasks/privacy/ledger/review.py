"""The owner's review of a finished run: its release is held in the ledger until the owner lets it go.

A verdict is a signed entry on one document: ledger, run and the hash of the document's entry are under the signature,
so a verdict on another run, or on another release of it, counts for nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from causalveil.schemas.errors import ContractError
from causalveil.tasks.privacy.ledger.entry import Entry, broken, canonical
from causalveil.tasks.privacy.owner import OwnerKey, is_signed

_LABEL = b"causalveil review 1\x00"


class ReviewVerdict(StrEnum):
    """What the owner says; the kind of the entry that says it."""

    approve = "approve"
    reject = "reject"


def verdict_body(
    document: Entry, verdict: ReviewVerdict, reason: str | None, identity: str, pinned: str | None, owner: OwnerKey
) -> dict[str, Any]:
    """Return the body of a verdict's entry, signed by the owner.

    Args:
        document: the entry that finished the run.
        verdict: yes or no.
        reason: why, for the record.
        identity: the ledger's.
        pinned: the owner's key that counts.
        owner: the key at hand.

    Raises:
        ContractError: the key at hand is not the one that the ledger pinned.
    """
    refuse_stranger(document.dataset, pinned, owner)
    body = {"document": document.hash, "reason": reason}
    return {**body, "signature": owner.sign(_message(identity, document.run_id, verdict, body))}


def refuse_stranger(dataset: str, pinned: str | None, owner: OwnerKey) -> None:
    """Let the owner pass.

    Raises:
        ContractError: the key at hand is not the one that the ledger pinned.
    """
    if owner.public != pinned:
        raise ContractError(
            f"only the owner of '{dataset}' reviews its releases, and this is not the key that the ledger pinned; name "
            "the file of the right one by --key or CAUSALVEIL_OWNER_KEY"
        )


def check_verdict(document: Entry | None, entry: Entry, identity: str, pinned: str | None) -> None:
    """That a verdict's entry is the owner's, on this very document.

    Raises:
        LedgerError: it is not; names the entry.
    """
    body = entry.document
    said = {"document": body.get("document"), "reason": body.get("reason")}
    if document is None or said["document"] != document.hash:
        raise broken(entry, "it is a verdict on another release")
    message = _message(identity, entry.run_id, entry.kind, said)
    if pinned is None or not is_signed(pinned, str(body.get("signature")), message):
        raise broken(entry, "its verdict is not signed by the owner's key")


def document_text(entry: Entry) -> str:
    """The text of release.json in the entry that finished a run."""
    return str(entry.document.get("document"))


def _message(identity: str, run_id: str, verdict: str, body: dict[str, Any]) -> bytes:
    said = {"ledger": identity, "run": run_id, "verdict": str(verdict), **body}
    return _LABEL + canonical(said).encode()
