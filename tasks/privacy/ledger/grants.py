"""Grants: what an owner allowed, and how everybody can tell that it was the owner.

For sensitive data the owner signs each grant. The ledger pins the owner's key at the dataset's first signed grant;
from then on a grant counts only under that key, also one that pins the next key. A grant's number is signed too, so
that an old grant cannot be written again after a lower one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from causalveil.schemas.errors import BudgetRefused, PolicyError
from causalveil.schemas.policy import DataClass, Policy, Review
from causalveil.tasks.privacy.ledger.entry import BY, Entry, broken, canonical
from causalveil.tasks.privacy.owner import OwnerKey, is_signed

_LABEL = b"causalveil grant 1\x00"
HOW_TO_GRANT = "its owner must run: causalveil ledger grant POLICY --reason TEXT"


@dataclass(frozen=True)
class Grant:
    """The grant in force of one dataset. A grant of the first format says neither class nor key."""

    number: int
    digest: str
    data_class: DataClass | None
    review: bool
    owner_key: str | None


def grant_after(before: Grant | None, entry: Entry, identity: str) -> Grant:
    """The grant in force once a grant's entry is taken in.

    Raises:
        LedgerError: the entry is not what an owner granted; names its number.
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
    message = _message(identity, entry.dataset, body)
    if signer is not None and not is_signed(str(signer), str(body.get("signature")), message):
        raise broken(entry, "its grant is not signed by the owner's key")
    return Grant(number, str(body.get("policy_digest")), data_class, body.get("review") is True, key)


def grant_body(
    before: Grant | None, policy: Policy, reason: str, identity: str, owner: OwnerKey | None
) -> dict[str, Any]:
    """What a new grant's entry says, signed where it must be.

    Raises:
        PolicyError: a signature is needed and the policy names no key, or the key at hand is not the one that counts.
    """
    pinned = None if before is None else before.owner_key
    body: dict[str, Any] = {
        "number": 1 if before is None else before.number + 1,
        "caps": {str(level): cap.model_dump() for level, cap in policy.caps.items()},
        "data_class": str(policy.data_class),
        "policy_digest": policy.digest,
        "review": policy.review is Review.required,
        "owner_key": policy.owner_key,
        "reason": reason,
    }
    if policy.owner_key is None:
        if pinned is not None or policy.data_class is DataClass.sensitive:
            raise PolicyError(
                f"the policy of '{policy.dataset}' needs 'owner_key': the line that `causalveil owner key` prints"
            )
        return body
    signer = pinned or policy.owner_key
    if owner is None or owner.public != signer:
        raise PolicyError(
            f"a grant for '{policy.dataset}' counts only under its owner's key {signer}; name the file that holds its "
            "private half by --key or CAUSALVEIL_OWNER_KEY"
        )
    return {**body, "signature": owner.sign(_message(identity, policy.dataset, body))}


def granted(grant: Grant | None, policy: Policy) -> Grant:
    """The grant in force, once it is certain that it is for the policy as it stands.

    Raises:
        BudgetRefused: no grant, a grant of another policy, or one that nobody signed for sensitive data.
    """
    name = policy.dataset
    if grant is None:
        raise BudgetRefused(f"dataset '{name}' has no grant in this ledger; {HOW_TO_GRANT}")
    if policy.data_class is DataClass.sensitive and grant.owner_key is None:
        raise BudgetRefused(f"the grant of '{name}' is not signed, and its data are sensitive; {HOW_TO_GRANT}")
    if grant.owner_key != policy.owner_key:
        raise BudgetRefused(f"the policy of '{name}' names another owner's key than its grant; {HOW_TO_GRANT}")
    if grant.digest != policy.digest:
        raise BudgetRefused(f"the policy of '{name}' was changed after it was granted; {HOW_TO_GRANT}")
    return grant


def _message(identity: str, dataset: str, body: dict[str, Any]) -> bytes:
    """What is signed: the ledger, the dataset and everything that the entry says but who wrote it down."""
    said = {key: value for key, value in body.items() if key not in ("signature", BY)}
    return _LABEL + canonical({"ledger": identity, "dataset": dataset, "grant": said}).encode()
