"""What is refused before anything is reserved is an entry too: bounded, in our own words, by the granted contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from causalveil.flows.api import run_study
from causalveil.schemas.contract import load_contract
from causalveil.schemas.errors import BudgetRefused, CausalveilError
from causalveil.tasks.privacy.ledger import ledger as ledger_module
from causalveil.tasks.privacy.ledger.entry import Entry
from causalveil.tasks.privacy.ledger.ledger import ledger_at_hand, open_ledger
from tests.studies import write_study

SECRET = "a word of the analyst's"


def refusals() -> list[Entry]:
    return [entry for entry in open_ledger().entries_of("small") if entry.kind == "refuse"]


def refused(path: Path, run_id: str | None = "asked", **options: Any) -> CausalveilError:
    with pytest.raises(CausalveilError) as caught:
        run_study(path, out=path.parent / "out", run_id=run_id, engine="direct", **options)
    return caught.value


@pytest.fixture
def granted(tmp_path: Path) -> Path:
    path = write_study(tmp_path / "study")
    open_ledger().grant_itself(load_contract(path.with_name("dataset.yaml")))
    return path


ASKED: dict[str, tuple[dict[str, Any], str]] = {
    "a column that is not public": ({"treatment": "score", "outcome": {"name": "age"}}, "contradicts the contract"),
    "an estimator that is not allowed": ({"estimator": {"name": "difference_in_means", "penalty": ...}}, "forbids"),
    "a column of no contract": ({"covariates": {SECRET: {}}}, "contradicts the contract"),
    "too few units": ({"estimator": {"train_fraction": 0.0001}}, "contradicts the contract"),
}


@pytest.mark.parametrize("case", ASKED)
def test_an_early_refusal_is_an_entry(case: str, granted: Path) -> None:
    changes, words = ASKED[case]
    path = write_study(granted.parent, study={**changes, "purpose": "to see"})
    refused(path)
    (entry,) = refusals()
    assert words in entry.document["why"]
    assert SECRET not in entry.body, "nothing is echoed"
    assert (entry.document["asked"]["study"], entry.document["by"]["purpose"]) == ("small", "to see")
    assert len(entry.body) < 1500
    open_ledger().verify()
    assert open_ledger().account("small").runs == ()


def test_a_level_without_a_cap_is_one(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", study={"privacy": {"level": "label"}}, contract={"caps": {"label": ...}})
    open_ledger().grant_itself(load_contract(path.with_name("dataset.yaml")))
    assert isinstance(refused(path), BudgetRefused)
    assert "no cap for this level" in refusals()[-1].document["why"]


def test_somebody_else_s_contract_writes_nothing(granted: Path, tmp_path: Path) -> None:
    """A folder of the analyst's own could call itself by any dataset's name."""
    changes = ASKED["an estimator that is not allowed"][0]
    refused(write_study(tmp_path / "own", study=changes, contract={"warn_below": 0.5, "public": []}))
    refused(write_study(tmp_path / "other", study=changes, contract={"dataset": "never-granted"}))
    assert refusals() == []
    assert "never-granted" not in open_ledger().datasets()


def test_a_refusal_makes_no_ledger_and_a_simulation_no_entry(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", study=ASKED["an estimator that is not allowed"][0])
    refused(path, None)
    assert ledger_at_hand() is None
    open_ledger().grant_itself(load_contract(path.with_name("dataset.yaml")))
    refused(path, simulate=1)
    assert refusals() == []


def test_nobody_fills_a_ledger_by_being_refused(granted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MOST_REFUSALS", 3)
    path = write_study(granted.parent, study=ASKED["an estimator that is not allowed"][0])
    for number in range(3):
        refused(path, f"early-{number}")
    # Also what is refused at the cap.
    over = yaml.safe_load(write_study(granted.parent).read_text())
    path.write_text(yaml.safe_dump({**over, "privacy": {"epsilon": "11", "delta": "1e-6"}}))
    for number in range(2):
        assert isinstance(refused(path, f"late-{number}"), BudgetRefused)
    found = refusals()
    assert [entry.run_id for entry in found] == ["early-0", "early-1", "early-2"]
    assert "not recorded until tomorrow" in json.dumps(found[-1].document)
    open_ledger().verify()


def test_a_ledger_that_cannot_be_written_hides_no_refusal(granted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_study(granted.parent, study=ASKED["an estimator that is not allowed"][0])
    monkeypatch.setenv("CAUSALVEIL_LEDGER_URL", "postgresql://nobody@127.0.0.1:1/none")
    assert "does not allow estimator" in str(refused(path, None))
