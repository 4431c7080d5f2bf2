"""What a study takes of what is left, before and after it ran: the plan's word, the release's and the report's."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from causalveil.flows import api
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import hold
from causalveil.flows.run.declare import load, prepare, reserve
from causalveil.flows.run.finished import left_after
from causalveil.schemas.privacy import Level
from causalveil.tasks.privacy.budget import FlowBudget
from causalveil.tasks.privacy.keys import key_of
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.privacy.ledger.outlook import accounts_in
from causalveil.tasks.privacy.noise import SecureNoise
from tests.flows.test_cli import call, call_json
from tests.studies import write_study

CONCENTRATED = {"caps": {"sample": {"epsilon": 10, "delta": 1e-4}}, "accounting": "concentrated"}
DELTA = {"privacy": {"epsilon": 1, "delta": 1e-6}}


def test_plan_and_release_say_what_a_run_takes(home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path / "study", study=DELTA, contract=CONCENTRATED)
    planned = call_json(capfd, "plan", path)
    before = planned["budget"]
    assert (before["source"], before["fits"], before["used"], before["share_left"]) == ("contract", 75, 0, 1)
    assert any("75 such runs are possible" in one["sentence"] for one in planned["expected"]["sentences"])
    assert not (home / "ledger.db").exists(), "a plan makes no ledger"
    ran = call_json(capfd, "run", path, "--out", tmp_path / "out", "--run-id", "one")["release"]["budget"]
    assert (ran["source"], ran["fits"], ran["share"]) == ("ledger", 74, pytest.approx(before["share"]))
    after = call_json(capfd, "plan", path)["budget"]
    assert after == ran | {"share": after["share"]}
    assert after["share"] > ran["share"], "of what is left now"
    code, shown, _ = call(capfd, "ledger", "show", "small")
    assert code == 0
    # Epsilon at the cap's delta, and rho beside it.
    for text in (f"{ran['used']:g}", "The same as rho", "2.117", "98.7%"):
        assert text in shown
    page = api.report(tmp_path / "out" / "release.json").read_text()
    assert "This run took 1.32% of the budget that was left at level" in page
    assert "enough for 74 more such runs" in page
    assert api.plan(path).budget is not None
    assert call_json(capfd, "run", path, "--out", tmp_path / "out", "--run-id", "one")["release"]["budget"] == ran


def test_a_study_that_does_not_fit_is_told_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path / "study", study={"privacy": {"epsilon": 11}})
    planned = call_json(capfd, "plan", path)
    assert planned["budget"]["fits"] == 0
    assert "over_budget" in [one["code"] for one in planned["expected"]["warnings"]]


def test_a_level_without_a_cap_is_told_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path / "study")
    contract = path.with_name("dataset.yaml")
    declared = yaml.safe_load(contract.read_text())
    contract.write_text(yaml.safe_dump(declared | {"caps": {"label": declared["caps"]["sample"]}}))
    planned = call_json(capfd, "plan", path)
    assert planned["budget"] is None
    assert "no_cap" in [one["code"] for one in planned["expected"]["warnings"]]


def test_a_cap_that_is_taken_away_under_way_stops_no_release(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study")
    request = prepare(load(path), simulate=False)
    ledger = open_ledger()
    ledger.grant(request.contract, "opening")
    held = hold(request.contract, request.folder, request.layout, ledger, DirectEngine())
    reservation = reserve(request, held.admission, "late", key_of("late", None))
    ledger.reserve(reservation, request.contract)
    caps = {level: cap for level, cap in request.contract.caps.items() if level is not Level.sample}
    ledger.grant(request.contract.model_copy(update={"caps": caps}), "no more samples")
    accounts = accounts_in(ledger.sums(), "small", Level.sample, reservation.blocks, request.contract)
    assert accounts == {}
    assert left_after(request.contract, FlowBudget(ledger, reservation, SecureNoise(), tmp_path)) is None


def test_a_simulation_says_nothing_of_a_budget(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path / "study")
    ran = call_json(capfd, "run", path, "--out", tmp_path / "out", "--simulate", "1")
    assert ran["release"]["budget"] is None


def test_a_ledger_that_cannot_be_asked_stops_no_plan(
    home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_study(tmp_path / "study")
    home.mkdir(mode=0o700)
    (home / "ledger.db").write_bytes(b"not a database at all, and longer than a header" * 20)
    code, out, err = call(capfd, "plan", path)
    assert code == 0, err
    assert "could not be asked what is left" in out.replace("\n", " ")
