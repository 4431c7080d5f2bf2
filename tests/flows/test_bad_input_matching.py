"""Ways to get a matching wrong: each a typed error, one line that says what to do, nothing charged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from causalveil.flows.cli.main import main
from tests.flows.test_bad_input import assert_nothing_charged
from tests.matching_help import CONTRACT, matching_changes
from tests.studies import people, refused, write_study

SHARES = {"weights": "0.05", "scores": "0.05", "treatment": "0.7", "outcome": "0.2"}
LABEL = {"level": "label"}


def one_treated(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(treated=pl.col("person") == 1003)


CASES: dict[str, tuple[int, str, dict[str, Any]]] = {
    "ratio zero": (2, "estimator.ratio", {"ratio": 0}),
    "ratio a fraction": (2, "estimator.ratio", {"ratio": 1.5}),
    "cap zero": (2, "estimator.cap", {"cap": 0}),
    "cap unknown": (2, "estimator.cap", {"cap": "none"}),
    "caliper zero": (2, "estimator.caliper", {"caliper": 0}),
    "coefficient negative": (2, "error_coefficient", {"error_coefficient": -1}),
    "variance share one": (2, "variance_share", {"variance_share": 1}),
    "shares short": (2, "add up to 0.9", {"budget_shares": SHARES | {"treatment": "0.6"}}),
    "shares over": (2, "not to 1", {"budget_shares": SHARES | {"outcome": "0.3"}}),
    "share zero": (2, "above 0", {"budget_shares": SHARES | {"scores": 0, "outcome": "0.25"}}),
    "share negative": (2, "not be negative", {"budget_shares": SHARES | {"scores": "-0.05", "outcome": "0.3"}}),
    "share misspelt": (2, "did you mean 'treatment'", {"budget_shares": {"treatmnt": "0.7"}}),
    "clip is not of matching": (2, "unknown key", {"estimator": {"clip": [0.1, 0.9]}}),
    "training units": (2, "no level 'training_units'", {"level": "training_units"}),
    "delta at label level": (2, "declare delta: 0", LABEL | {"delta": "1e-6"}),
    "nothing to correct": (2, "no attenuation to correct", LABEL | {"correct_attenuation": True}),
    "paper with a caliper": (2, "variant 'ours'", LABEL | {"variant": "paper", "caliper": 0.1}),
    "paper with ATT": (2, "variant 'ours'", LABEL | {"variant": "paper", "estimand": "ATT"}),
    "paper with delta": (2, "spends no delta", {"variant": "paper", "delta": "1e-6"}),
    "one treated unit": (3, "fewer than 5 units", LABEL),
    "caliper too narrow": (3, "widen 'caliper'", LABEL | {"caliper": 1e-300, "ratio": 50}),
    "ratio above the arm": (3, "lower 'ratio'", LABEL | {"ratio": 100}),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, says, changes = CASES[name]
    frame = people(150)
    frame = one_treated(frame) if name == "one treated unit" else frame
    path = write_study(tmp_path / "study", frame=frame, study=matching_changes(**changes), contract=CONTRACT)
    ended, told, everything = refused(capfd, "run", str(path), "--out", str(tmp_path / "out"))
    assert ended == code, everything
    assert says in told
    assert "Traceback" not in everything
    assert not (tmp_path / "out").exists()
    assert_nothing_charged(monkeypatch)


def test_a_contract_that_allows_ipw_alone_refuses_a_matching(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path / "study", study=matching_changes())
    with pytest.raises(SystemExit) as ended:
        main(["run", str(path), "--out", str(tmp_path / "out")])
    assert ended.value.code == 2
    assert "does not allow estimator 'matching'" in capfd.readouterr().err
