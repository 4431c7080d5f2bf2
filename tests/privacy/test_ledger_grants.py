"""Only the owner grants: signatures, the pinned key, and forgeries by somebody who can write to the tables."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pytest

from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import BudgetRefused, CausalveilError, ContractError, LedgerError
from causalveil.tasks.privacy.keys import OwnerKey, is_signed, owner_key
from causalveil.tasks.privacy.ledger.ledger import Ledger
from tests.ledger_help import charge, contract, reservation


@pytest.fixture
def owner(tmp_path: Path) -> OwnerKey:
    return owner_key(tmp_path / "owner.key", create=True)


def sensitive(owner: OwnerKey, epsilon: str = "1", **more: Any) -> Contract:
    return contract(epsilon, data_class="sensitive", owner_key=owner.public, **more)


def stranger(folder: Path) -> OwnerKey:
    return owner_key(folder / f"{secrets.token_hex(4)}.key", create=True)


def forge(ledger: Ledger, body: dict[str, Any], kind: str = "grant") -> None:
    """Append what our program would not: as somebody with INSERT on the table and a copy of our code."""
    with ledger.store.write() as connection:
        ledger.store.append(connection, kind, dataset="trial", body=body)


def last_grant(ledger: Ledger) -> dict[str, Any]:
    with ledger.store.read() as connection:
        entries = [entry for entry in ledger.store.select(connection) if entry.kind == "grant"]
    body = dict(entries[-1].document)
    del body["by"]
    return body


def test_sensitive_data_need_a_signed_grant(ledger: Ledger, owner: OwnerKey, tmp_path: Path) -> None:
    theirs = sensitive(owner)
    with pytest.raises(ContractError, match="owner_key"):
        ledger.grant(contract(data_class="sensitive"), "opening")
    with pytest.raises(ContractError, match="ledger grant --key"):
        ledger.grant(theirs, "opening")
    with pytest.raises(ContractError, match="ledger grant --key"):
        ledger.grant(theirs, "opening", stranger(tmp_path))
    with pytest.raises(BudgetRefused, match="no grant"):
        ledger.reserve(reservation(contract=theirs), theirs)
    ledger.grant(theirs, "opening", owner)
    assert ledger.reserve(reservation(contract=theirs), theirs) == "reserved"
    ledger.verify()


def test_an_unsigned_grant_does_not_carry_sensitive_data(ledger: Ledger, owner: OwnerKey) -> None:
    """The contract was synthetic when it was granted, and became sensitive by an edit."""
    ledger.grant(contract(), "opening")
    for now in (contract(data_class="sensitive"), sensitive(owner)):
        with pytest.raises(BudgetRefused, match="ledger grant"):
            ledger.reserve(reservation(contract=now), now)


def test_the_owner_signs_every_later_grant(ledger: Ledger, owner: OwnerKey, tmp_path: Path) -> None:
    other = stranger(tmp_path)
    ledger.grant(sensitive(owner), "opening", owner)
    with pytest.raises(ContractError, match=owner.public):
        ledger.grant(sensitive(other, "100"), "mine now", other)
    with pytest.raises(ContractError, match="owner_key"):
        ledger.grant(contract("100"), "it is synthetic now")
    assert not ledger.grant_itself(contract("100"))
    ledger.grant(sensitive(owner, "2"), "more", owner)
    ledger.verify()


def test_a_new_key_is_signed_by_the_old_one(ledger: Ledger, owner: OwnerKey, tmp_path: Path) -> None:
    heir = stranger(tmp_path)
    ledger.grant(sensitive(owner), "opening", owner)
    ledger.grant(sensitive(heir), "a new owner", owner)
    with pytest.raises(ContractError):
        ledger.grant(sensitive(heir, "3"), "the old owner", owner)
    ledger.grant(sensitive(heir, "3"), "more", heir)
    now = sensitive(heir, "3")
    ledger.reserve(reservation(contract=now), now)
    ledger.verify()


@pytest.mark.parametrize("case", ["unsigned", "another key", "altered", "dropped key", "old format", "replayed"])
def test_a_forged_grant_is_found_and_raises_no_cap(ledger: Ledger, owner: OwnerKey, tmp_path: Path, case: str) -> None:
    other = stranger(tmp_path)
    ledger.grant(sensitive(owner, "1"), "opening", owner)
    ledger.grant(sensitive(owner, "0.1"), "less", owner)
    body = last_grant(ledger)
    wide = {"sample": {"epsilon": "100", "delta": "0"}}
    match case:
        case "unsigned":
            body = {**body, "number": 3, "caps": wide}
            del body["signature"]
        case "another key":
            body = {**body, "number": 3, "caps": wide, "owner_key": other.public, "signature": other.sign(b"mine")}
        case "altered":
            body = {**body, "number": 3, "caps": wide}
        case "dropped key":
            body = {**body, "number": 3, "caps": wide, "owner_key": None, "data_class": "synthetic"}
        case "old format":
            body = {"caps": wide, "policy_digest": sensitive(owner, "100").digest, "reason": "forged"}
        case "replayed":
            with ledger.store.read() as connection:
                first = next(entry for entry in ledger.store.select(connection) if entry.kind == "grant")
            body = {key: value for key, value in first.document.items() if key != "by"}
    forge(ledger, body)
    with pytest.raises(LedgerError, match=r"entry 4 does not verify: its grant"):
        ledger.verify()
    for asked in (sensitive(owner, "100"), sensitive(other, "100"), sensitive(owner, "0.1"), sensitive(owner, "1")):
        with pytest.raises((LedgerError, BudgetRefused)):
            ledger.reserve(reservation(charges=(charge(epsilon="0.05"),), contract=asked), asked)


def test_a_reservation_under_another_contract_than_the_granted_one_is_found(ledger: Ledger, owner: OwnerKey) -> None:
    ledger.grant(sensitive(owner), "opening", owner)
    edited = sensitive(owner, estimators=["ipw", "matching"])
    body = {
        "reservation": reservation(contract=edited).model_dump(),
        "caps": {"sample": {"epsilon": "1", "delta": "1e-6"}},
    }
    with ledger.store.write() as connection:
        ledger.store.append(connection, "reserve", dataset="trial", run_id="run-1", body=body)
    with pytest.raises(LedgerError, match=r"entry 3.*not the one that was granted"):
        ledger.verify()


def test_the_private_key_is_the_owner_s_alone(tmp_path: Path) -> None:
    path = tmp_path / "owner.key"
    with pytest.raises(CausalveilError, match="causalveil owner key"):
        owner_key(path)
    made = owner_key(path, create=True)
    assert path.stat().st_mode & 0o777 == 0o600
    assert owner_key(path).public == made.public
    assert made.public.removeprefix("ed25519:") not in repr(made)
    assert is_signed(made.public, made.sign(b"text"), b"text")
    assert not is_signed(made.public, made.sign(b"text"), b"test")
    assert not is_signed(made.public, "00", b"text")
    path.chmod(0o640)
    with pytest.raises(CausalveilError, match="chmod 600"):
        owner_key(path)
