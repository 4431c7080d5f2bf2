"""`ledger forecast` and `ledger chart` as people script them: numbers, bad input, and that no row is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from causalveil.flows import api
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import hold
from causalveil.flows.run.declare import load, prepare, reserve
from causalveil.flows.run.finished import left_after
from causalveil.schemas.ledger import Account, RunAccount, Sum
from causalveil.schemas.privacy import Level
from causalveil.tasks.privacy.budget import FlowBudget
from causalveil.tasks.privacy.keys import key_of
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.privacy.ledger.outlook import accounts_in
from causalveil.tasks.privacy.noise import SecureNoise
from causalveil.tasks.report.burndown import burndown_html
from tests import browser
from tests.flows.test_cli import call, call_json
from tests.flows.test_report_browser import OUTSIDE
from tests.studies import write_study

CONCENTRATED = {"caps": {"sample": {"epsilon": 10, "delta": 1e-4}}, "accounting": "concentrated"}
DELTA = {"privacy": {"epsilon": 1, "delta": 1e-6}}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def study(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    """A study of (1, 1e-6) under a cap of (10, 1e-4), run once."""
    path = write_study(tmp_path / "study", study=DELTA, contract=CONCENTRATED)
    code, _, err = call(capfd, "run", path, "--engine", "direct", "--out", tmp_path / "out", "--run-id", "first")
    assert code == 0, err
    return path


def without_rows(path: Path) -> None:
    """Leave the footers of the partitions, and nothing that a row could be read from."""
    for part in path.parent.glob("*.parquet"):
        content = part.read_bytes()
        length = int.from_bytes(content[-8:-4], "little") + 8
        part.write_bytes(b"PAR1" + bytes(len(content) - length - 4) + content[-length:])


def test_when_a_schedule_runs_dry_and_which_epsilon_lasts(study: Path, capfd: pytest.CaptureFixture[str]) -> None:
    without_rows(study)
    words = ("--every", "week", "--start", "2026-01-01", "--until", "2026-12-31")
    found = call_json(capfd, "ledger", "forecast", "small", "--study", study, *words)
    assert (found["fits"], found["runs"], found["cron"]) == (74, 52, "0 0 * * 1")
    # The 74th Monday and the one after it.
    assert (found["last"], found["dry"]) == ("2027-05-31T00:00+00:00", "2027-06-07T00:00+00:00")
    assert 1.1 < found["epsilon"] < 1.3
    again = call_json(capfd, "ledger", "forecast", "small", *words)
    # Gaussian draws alone own what their total implies, so the last run says the same without its study.
    assert {**again, "budget": 0} == {**found, "budget": 0}
    assert again["budget"]["share"] == pytest.approx(found["budget"]["share"])
    code, out, _ = call(capfd, "ledger", "forecast", "small", *words)
    assert code == 0
    assert "74 runs like 'small' fit" in out
    assert "the run of 2027-06-07 is refused" in out


def test_a_forecast_charges_nothing(study: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = call_json(capfd, "ledger", "verify")
    call_json(capfd, "ledger", "forecast", "small", "--study", study)
    assert call_json(capfd, "ledger", "verify") == before


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "unknown dataset": (("nobody",), "unknown to this ledger"),
    "nonsense cron": (("small", "--every", "now and then"), "--every must be"),
    "missing study": (("small", "--study", "nowhere.yaml"), "nowhere.yaml"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_of_a_forecast(case: str, study: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words, said = BAD[case]
    code, out, err = call(capfd, "ledger", "forecast", *words, "--json")
    assert code == 2, err
    assert said in json.loads(out)["error"]["message"]
    assert len(err.strip().splitlines()) == 1


def test_a_study_of_another_dataset_is_refused(study: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = write_study(tmp_path / "other", study=DELTA, contract={**CONCENTRATED, "dataset": "other"})
    code, _, err = call(capfd, "ledger", "forecast", "small", "--study", other)
    assert (code, "asks dataset 'other', not 'small'" in err) == (2, True)


def test_a_cap_of_nothing_and_a_level_without_one(study: Path, capfd: pytest.CaptureFixture[str]) -> None:
    contract = study.with_name("dataset.yaml")
    text = contract.read_text()
    contract.write_text(text.replace("epsilon: 10\n", "epsilon: 0\n"))
    code, _, err = call(capfd, "ledger", "forecast", "small", "--study", study)
    assert (code, "allows nothing" in err) == (2, True), err
    contract.write_text(text)
    contract.write_text(yaml.safe_dump(yaml.safe_load(text) | {"caps": {"label": {"epsilon": 1, "delta": 0}}}))
    code, _, err = call(capfd, "ledger", "forecast", "small", "--study", study)
    assert (code, "no cap for level sample" in err) == (4, True), err


def test_a_dataset_without_a_run_has_nothing_to_repeat(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path / "study", study=DELTA, contract=CONCENTRATED)
    assert call(capfd, "ledger", "grant", path.with_name("dataset.yaml"), "--reason", "opening")[0] == 0
    code, _, err = call(capfd, "ledger", "forecast", "small")
    assert (code, "--study FILE" in err) == (2, True)
    assert call_json(capfd, "ledger", "forecast", "small", "--study", path)["fits"] == 75


def test_a_chart_has_every_run_and_asks_nobody(study: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    call(capfd, "run", study, "--engine", "direct", "--out", tmp_path / "second", "--run-id", "second")
    written = call_json(capfd, "ledger", "chart", "small", "--out", tmp_path / "chart")["files"]
    page, drawing = (Path(path).read_text() for path in written)
    assert [Path(path).name for path in written] == ["small-budget.html", "small-budget.svg"]
    for name in ("first", "second"):
        assert f'<th scope="row">{name}</th>' in page
        assert f"{name} reserved; 9" in page
    for text in (page, drawing):
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace('http-equiv="', "")
        assert "<script" not in text
    marks = [mark for mark in ElementTree.fromstring(drawing).iter(f"{SVG}circle")]
    # Two runs at level sample, which also touch labels and training units: those have caps too.
    assert len(marks) == 6
    again = call_json(capfd, "ledger", "chart", "small", "--out", tmp_path / "one.svg")["files"]
    assert Path(again[0]).read_text() == drawing


@pytest.mark.parametrize(
    ("words", "said"),
    [(("nobody",), "unknown to this ledger"), (("small", "--out", "chart.pdf"), ".html or .svg")],
)
def test_bad_input_of_a_chart(
    words: tuple[str, ...], said: str, study: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _, err = call(capfd, "ledger", "chart", *words)
    assert (code, said in err) == (2, True), err


@pytest.mark.skipif(bool(browser.missing()), reason=browser.missing())
def test_a_chart_in_a_browser(study: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    written = call_json(capfd, "ledger", "chart", "small", "--out", tmp_path / "chart")["files"]
    with browser.chromium(tmp_path / "profile") as driver:
        for pixels in (1200, 400):
            browser.width(driver, pixels)
            driver.get(Path(written[0]).as_uri())
            assert driver.execute_script(OUTSIDE) == []
            # Dates below the axis keep clear of each other.
            edges = driver.execute_script(
                "return [...document.querySelector('svg.figure').querySelectorAll('.tick')].slice(-3)"
                ".map(e => e.getBoundingClientRect()).map(b => [b.left, b.right])"
            )
            assert edges[0][1] < edges[1][0]
            assert edges[1][1] < edges[2][0]
        driver.get(Path(written[1]).as_uri())
        assert driver.execute_script("return document.querySelectorAll('circle').length") == 3
        assert driver.get_log("browser") == []


def test_hostile_names_stay_text() -> None:
    run: dict[str, Any] = {"study": "<script>alert(1)</script>", "level": "sample", "blocks": ("<b>", "&")}
    account = Account(
        dataset="small",
        ledger="0" * 32,
        caps={},
        blocks=(),
        runs=(RunAccount(run_id="r", state="finished", cost=Sum(), spent=Sum(), **run),),
    )
    page = burndown_html(account, ())
    assert "<script" not in page
    assert "<b>" not in page
    assert "No run was ever charged" in page


# What a study takes of what is left, before and after it ran: the plan's word, the release's and the report's.


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
