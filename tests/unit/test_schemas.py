"""Contracts: exact amounts, YAML without surprises, releases that read back."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalveil.schemas.contract import Contract
from causalveil.schemas.documents import read_yaml
from causalveil.schemas.errors import StudyError
from causalveil.schemas.privacy import add, amount_text, float_below, parse_amount, subtract

amounts = st.decimals("1e-30", "999999", allow_nan=False, allow_infinity=False).map(
    lambda amount: Decimal(f"{amount:.14e}")
)


@given(amounts)
def test_an_amount_survives_json_and_text(amount: Decimal) -> None:
    parsed = parse_amount(str(amount))
    assert parse_amount(json.loads(json.dumps(float(parsed)))) == parsed
    assert parse_amount(amount_text(parsed)) == parsed


@given(amounts)
def test_the_float_to_calibrate_to_is_never_above_the_amount(amount: Decimal) -> None:
    assert Decimal(float_below(amount)) <= amount
    assert float_below(amount) >= float(amount) * (1 - 1e-15)


def test_three_tenths_hold_three_spends_of_a_tenth() -> None:
    tenth = parse_amount("0.1")
    assert subtract(parse_amount("0.3"), add(tenth, tenth, tenth)) == 0


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "1e7", "1e-31", "1.2345678901234567", "", "one", "0x1", "1_0e"])
def test_what_is_no_amount(text: str) -> None:
    with pytest.raises(ValueError):
        parse_amount(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", Decimal("1e-6")),
        ("1.0e-6", Decimal("1.0e-6")),
        ("1E3", Decimal("1E3")),
        ("12", 12),
        ("no", "no"),
        ("on", "on"),
        ("2026-01-01", "2026-01-01"),
        ("1:30", "1:30"),
        ("0o17", "0o17"),
        ("true", True),
        ("null", None),
        ("~", None),
        ("'1e-6'", "1e-6"),
    ],
)
def test_yaml_scalars(text: str, value: object, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(f"key: {text}\n")
    found = read_yaml(path)["key"]
    assert found == value
    assert type(found) is type(value)


def test_a_contract_of_megabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("#" * 2_000_000)
    with pytest.raises(StudyError, match="larger"):
        read_yaml(path)


def test_the_digest_leaves_out_the_ledger() -> None:
    """Granting writes the identity into the file; the contract is the same one."""
    contract = Contract.model_validate(
        {
            "dataset": "d",
            "data_class": "public",
            "unit": "person",
            "columns": {"y": {"lower": 0, "upper": 1}},
            "public": [],
            "caps": {"sample": {"epsilon": 1, "delta": 0}},
        }
    )
    assert contract.model_copy(update={"ledger": "0" * 32}).digest == contract.digest
    assert contract.model_copy(update={"unit": "household"}).digest != contract.digest
