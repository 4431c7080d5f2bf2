"""Protocols end to end: plan = ledger = release, tables beside it, the same on Prefect, and gates' exit code."""

from __future__ import annotations

import csv
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from jsonschema import Draft202012Validator

from causalveil.flows.api import run_study
from causalveil.flows.run.declare import plan_study
from causalveil.schemas.limits import Code
from causalveil.schemas.release import EffectRelease, release_schema, release_text
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.report.page import report_html
from tests.limits import codes
from tests.studies import command, people, write_study

STUDY: dict[str, Any] = {
    "kind": "effect",
    "outcome": ...,
    "outcomes": [{"name": "score", "role": "primary"}, {"name": "points", "role": "negative_control"}],
    "subgroups": "group",
    "covariates": {"group": ...},
    "estimator": {"penalty": ..., "name": "regression"},
    "privacy": {"epsilon": "20"},
}
ARMS: dict[str, Any] = {"treatment": "drug", "arms": {"reference": "none"}, "subgroups": ...}
LABEL: dict[str, Any] = {
    "estimator": {"penalty": ..., "name": "balancing"},
    "privacy": {"epsilon": "20", "delta": "0", "level": "label"},
}
CONTRACT: dict[str, Any] = {
    "estimators": ["regression", "difference_in_means", "balancing", "matching"],
    "public": ["treated", "age", "group", "drug"],
    "caps": {"sample": {"epsilon": 1000, "delta": "1e-2"}},
    "columns": {"points": {"lower": 0, "upper": 1}, "drug": {"levels": ["none", "low", "high"]}},
}


def table(n: int = 2_000) -> pl.DataFrame:
    random = np.random.default_rng(1)
    return people(n).with_columns(
        points=pl.Series(random.random(n)), drug=pl.Series(random.choice(["none", "low", "high"], n))
    )


def study_in(folder: Path, **changes: Any) -> Path:
    study = STUDY | changes
    return write_study(folder, frame=table(), study=study, contract=CONTRACT)


@pytest.mark.parametrize(
    ("changes", "answers", "charges"),
    [
        ({}, 8, 5),
        (ARMS, 4, 5),
        ({"estimator": {"penalty": ..., "name": "difference_in_means"}}, 8, 1),
        ({"estimator": {"penalty": ..., "name": "difference_in_means"}} | ARMS | {"subgroups": "group"}, 16, 1),
        (LABEL, 8, 1),
        (LABEL | {"estimator": {"penalty": ..., "name": "matching"}}, 8, 1),
        (LABEL | ARMS | {"privacy": LABEL["privacy"] | {"delta": "1e-6"}}, 4, 1),
    ],
)
def test_plan_ledger_release_agree(changes: dict[str, Any], answers: int, charges: int, tmp_path: Path) -> None:
    path = study_in(tmp_path / "study", **changes)
    _, plan = plan_study(path)
    found = run_study(path, out=tmp_path / "out", engine="direct")
    release = found.release
    assert isinstance(release, EffectRelease)
    assert release.privacy.charges == plan.charges
    assert len(plan.charges) == charges
    ledger = open_ledger()
    ledger.verify()
    ledger.verify_release(release_text(release))
    Draft202012Validator(release_schema()).validate(json.loads(found.path.read_text()))
    assert len(release.answers) == answers
    assert codes(release.not_covered)[0] in (Code.unmeasured, Code.beyond_prior)
    assert Code.within_groups in codes(release.not_covered)
    with (tmp_path / "out" / "answers.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["estimate"]) for row in rows] == [answer.estimate for answer in release.answers]
    frame = pl.read_parquet(tmp_path / "out" / "answers.parquet")
    assert frame["simultaneous_upper"].to_list() == [
        None if answer.simultaneous is None else answer.simultaneous.upper for answer in release.answers
    ]
    again = run_study(path, out=tmp_path / "again", engine="direct", run_id=found.run_id)
    assert again.release == release
    page_names_its_arms(release)
    sizes = [key for key in release.details if key.startswith("units[all units][")]
    order = ["none", "low", "high"] if "arms" in changes else ["0", "1"]
    assert sizes in ([], [f"units[all units][{arm}]" for arm in order]), "arms stand in their order"
    assert (tmp_path / "again" / "answers.csv").read_bytes() == (tmp_path / "out" / "answers.csv").read_bytes()


def page_names_its_arms(release: EffectRelease) -> None:
    """What is subtracted from what, in words, on axes and in guidelines; and numbers of public columns are exact."""
    arms, label = bool(release.specification.get("arms")), release.privacy.level == "label"
    page = " ".join(unescape(re.sub("<[^>]+>", "", report_html(release))).split())
    assert ("each arm minus the reference." in page) == arms
    assert ("every arm" in page) == (arms and "The arms differ by" not in page)
    assert (" against none" in page) == (" instead of none " in page) == arms
    assert ("treated minus controls" in page) != arms
    assert ("this arm minus all others" in page) == (arms and bool(release.balance) and not label)
    assert ("so these numbers are exact" in page) == label
    noisy = [key for key in release.details if key.startswith("units[") and key != "units[all units]"]
    assert ("released with noise)" in page) == (bool(noisy) and not label)
    assert ("as released with noise: see" in page) == (bool(release.balance) and not label)
    assert ("two standard errors of noise" in page) == (bool(release.balance) and not label)


def test_a_failed_gate_has_an_exit_code_and_its_charge_stands(tmp_path: Path, capfd: Any) -> None:
    path = study_in(tmp_path / "study", subgroups=..., gates={"overlap": 0.9999}, privacy={"epsilon": "500"})
    assert command("run", path, "--engine", "direct", "--out", tmp_path / "out") == 8
    shown = capfd.readouterr()
    assert "a declared gate failed (overlap in all units, treated = 1)" in shown.err
    assert "withheld" in shown.out
    (row,) = open_ledger().account("small").runs
    assert float(row.spent.epsilon) > 0
    document = json.loads((tmp_path / "out" / "release.json").read_text())
    assert {answer["state"] for answer in document["answers"]} == {"withheld"}
    assert {answer["estimate"] for answer in document["answers"]} == {None}


def test_prefect_shows_a_failed_gate_by_name(tmp_path: Path, prefect_server: str) -> None:
    """On the command line the exit code is 8; in Prefect the run is over, in a state that people and rules can see."""
    import httpx

    from causalveil.flows.deployed import run_with_prefect

    path = study_in(tmp_path / "study", subgroups=..., gates={"overlap": 0.9999}, privacy={"epsilon": "500"})
    found = run_study(path, out=tmp_path / "out", run_id="gated", engine="prefect")
    # As a deployment asks again; from Python the ledger would answer without a flow run.
    again = run_with_prefect(path, tmp_path / "again", "gated", None, lambda _: None)
    for one in (found, again):
        assert isinstance(one.release, EffectRelease)
        assert one.release.gate_failed
    wanted = {"flow_runs": {"name": {"any_": ["gated"]}}}
    runs = httpx.post(f"{prefect_server}/flow_runs/filter", json=wanted, timeout=30).raise_for_status().json()
    assert [(run["state"]["type"], run["state"]["name"]) for run in runs] == [("COMPLETED", "GateFailed")] * 2
    assert all("overlap in all units, treated = 1" in run["state"]["message"] for run in runs)
    assert command("run", path, "--engine", "prefect", "--run-id", "gated", "--out", tmp_path / "third") == 8
