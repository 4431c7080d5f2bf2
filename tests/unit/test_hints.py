"""What is said of a key that a document may not have."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from causalveil.schemas.asked.study_file import load_study_file
from causalveil.schemas.contract import Contract, load_contract
from causalveil.schemas.documents import read_yaml
from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.privacy import add, amount_text, float_below, parse_amount, subtract

FERTILITY = Path(__file__).parents[2] / "data" / "fertility"
BOTH = {"lower": 0, "upper": 9, "levels": [1, 2]}
CASES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("study", {"select": {"newest": 1}}, "unknown key 'select'; it belongs below 'data'"),
    ("study", {"newest": 1}, "unknown key 'newest'; it belongs below 'data.select'"),
    ("study", {"epsilon": 1}, "unknown key 'epsilon'; it belongs below 'privacy'"),
    ("study", {"data": {"privacy": {}}}, "unknown key 'data.privacy'; it belongs at the top of the document"),
    (
        "study",
        {"estimator": {"name": "difference_in_means", "clip": 1}},
        "'estimator.clip' (known keys: confounding_prior, name, trial)",
    ),
    ("study", {"estimator": {"name": "ipw", "penality": 1}}, "did you mean 'penalty'?"),
    ("study", {"treatmnt": "x"}, "did you mean 'treatment'?"),
    (
        "study",
        {
            "estimator": {"name": "survival", "trial": True},
            "outcome": {"name": "death", "time": "days", "event": "status", "of": ["death"], "horizon": 365},
        },
        "unknown key 'outcome.name' (known keys: entry, event, events, horizon, landmark, of, origin, role, time, "
        "unit_of_measure)",
    ),
    ("dataset", {"lower": 1}, "unknown key 'lower'; it belongs below 'columns'"),
    ("dataset", {"colums": {}}, "did you mean 'columns'?"),
    ("dataset", {"columns": {"age": BOTH}}, "unknown key 'columns.age.lower' (known keys: description, levels,"),
    ("dataset", {"columns": {"age": {"lower": 0, "uper": 9}}}, "unknown key 'columns.age.uper', did you mean 'upper'?"),
)


@pytest.mark.parametrize(("name", "changes", "said"), CASES, ids=[said for _, _, said in CASES])
def test_a_key_that_may_not_be_is_told_where_it_belongs(
    name: str, changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    # A reader of YAML 1.1 takes these two keys for truth values.
    text = (FERTILITY / f"{name}.yaml").read_text().replace("{no:", '{"no":').replace(" yes:", ' "yes":')
    document = yaml.safe_load(text) | changes
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(CausalveilError) as caught:
        load_study_file(path) if name == "study" else load_contract(path)
    message = str(caught.value)
    assert said in message
    assert "\n" not in message
    key = next(iter(changes))
    assert f"unknown key '{key}', did you mean '{key}'" not in message


# Contracts: exact amounts, YAML without surprises, releases that read back.
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


# More digits than sums have, which is no error of the program; zeros at the end are no digits.
LONG = "1." + "1" * 98


def test_zeros_at_the_end_of_an_amount_are_no_digits() -> None:
    assert parse_amount("1." + "0" * 98) == parse_amount("1")


@pytest.mark.parametrize(
    "text", ["nan", "inf", "-1", "1e7", "1e-31", "1.2345678901234567", LONG, "", "one", "0x1", "1_0e"]
)
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
