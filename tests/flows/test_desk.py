"""The owner's desk and `ledger export`: what they say of a real ledger, hostile names, and how a browser shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from causalveil.flows.plan.ledger_files import write_desk
from causalveil.schemas.errors import BudgetRefused
from causalveil.tasks.privacy.ledger.ledger import Ledger, open_ledger
from causalveil.tasks.privacy.ledger.outlook import desk_of
from tests import browser
from tests.flows.test_cli import call, call_json
from tests.flows.test_report_browser import CONTRASTS, OUTSIDE, OVERLAPS
from tests.ledger_help import charge, contract, finished, reservation

# Days that stand on two lines.
CUT_DATES = r"""
return [...document.querySelectorAll('span, td')].filter(e => {
  if (!/^\d{4}-\d\d-\d\d$/.test(e.textContent)) return false;
  const range = document.createRange();
  range.selectNodeContents(e);
  return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1;
}).map(e => e.textContent);
"""
HOSTILE = '=HYPERLINK("x")<script>alert(1)</script>'


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Three datasets: one in use with every kind of ending, one nearly spent, one granted alone."""
    made = open_ledger()
    trial = contract(epsilon="1")
    made.grant(trial, "opening")
    for number in range(3):
        finished(made, reservation(f"week-{number}", purpose="adverse events"), trial, tmp_path)
    made.reserve(reservation("dead", purpose=HOSTILE), trial)
    made.reserve(reservation("wrong"), trial)
    made.void("wrong", "the wrong study")
    for _ in range(3):
        with pytest.raises(BudgetRefused):
            made.reserve(reservation("much", (charge(epsilon="0.9"),), purpose=HOSTILE), trial)
    made.grant(contract(epsilon="2"), "a second year")
    low = contract(epsilon="0.1", dataset="low")
    made.grant(low, "small")
    finished(made, reservation("all", contract=low), low, tmp_path)
    made.grant(contract(dataset="unused"), "for later")
    return made


def test_every_fact_is_on_the_desk(ledger: Ledger) -> None:
    later = datetime.now(UTC) + timedelta(days=8)
    desk = desk_of(ledger, later)
    low, trial, unused = desk.datasets
    assert [one.dataset for one in desk.datasets] == ["low", "trial", "unused"]
    assert {run.run_id: run.state for run in trial.runs} == {
        **{f"week-{number}": "finished" for number in range(3)},
        "dead": "reserved",
        "wrong": "voided",
    }
    assert all(run.reserved.actor and run.reserved.host for run in trial.runs)
    assert trial.share_left == pytest.approx(0.8)
    assert trial.pace is not None
    assert trial.pace.fits == 16
    assert len(trial.refusals) == 3
    said = [concern.text for concern in trial.concerns]
    assert sum("'dead'" in text or "Run dead has held budget for 8 days" in text for text in said) == 1
    assert any("3 requests by" in text for text in said)
    assert "The cap of level sample was raised." in said
    assert (low.share_left, low.pace and low.pace.fits) == (0, 0)
    assert ["0% is left of level sample" in concern.text for concern in low.concerns] == [True]
    assert (unused.share_left, unused.runs, unused.pace, unused.concerns) == (1, (), None, ())
    # A week later nothing but the run that died has changed.
    assert not any("held budget" in concern.text for concern in desk_of(ledger).datasets[1].concerns)


def test_the_pace_of_a_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten runs fit; four were weekly; the eleventh, which is refused, is seven weeks after the last."""
    made, trial = open_ledger(), contract(epsilon="1")
    made.grant(trial, "opening")
    start = datetime(2026, 1, 5, tzinfo=UTC)
    for number in range(4):
        finished(made, reservation(f"week-{number}"), trial, tmp_path)
    moments = iter(start + timedelta(weeks=number) for number in range(4))
    times = {f"week-{number}": next(moments) for number in range(4)}
    monkeypatch.setattr(
        "causalveil.tasks.privacy.ledger.outlook._moment",
        lambda entry: times.get(entry.run_id, start),
    )
    pace = desk_of(made).datasets[0].pace
    assert pace is not None
    assert (pace.fits, pace.days_apart, pace.dry) == (6, 7.0, start + timedelta(weeks=10))


def test_pages_hold_no_script_and_ask_nobody(ledger: Ledger, tmp_path: Path) -> None:
    paths = write_desk(ledger, tmp_path / "desk")
    assert [path.relative_to(tmp_path / "desk").as_posix() for path in paths] == [
        "index.html",
        *(f"datasets/{name}.html" for name in ("low", "trial", "unused")),
    ]
    for path in paths:
        text = path.read_text()
        assert "<script" not in text
        assert not re.search(r"\s%|&#8239;", text), "a percent sign stands at its number"
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace('http-equiv="', "")
    assert "&lt;script&gt;alert(1)" in paths[2].read_text()


def test_no_released_value_leaves(ledger: Ledger) -> None:
    """Every run of this ledger drew 1.5, and its release says an estimate and an interval."""

    def leaves(value: Any) -> Iterator[Any]:
        if isinstance(value, dict | list):
            for one in value.values() if isinstance(value, dict) else value:
                yield from leaves(one)
        else:
            yield value

    document = desk_of(ledger).model_dump(mode="json")
    assert 1.5 not in set(leaves(document))
    assert "estimate" not in json.dumps(document)


def test_tables_for_programs(ledger: Ledger, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = call_json(capfd, "ledger", "export", "--format", "parquet", "--out", tmp_path / "p")["files"]
    runs, charges, refusals = (pl.read_parquet(path) for path in files)
    assert (runs.height, charges.height, refusals.height) == (6, 4, 3)
    assert set(refusals["purpose"]) == {HOSTILE}
    assert runs.filter(pl.col("dataset") == "trial")["epsilon"].unique().to_list() == ["0.1"]
    one = call_json(capfd, "ledger", "export", "low", "--out", tmp_path / "c")["files"]
    assert pl.read_csv(one[0])["run_id"].to_list() == ["all"]
    text = Path(call_json(capfd, "ledger", "export", "--out", tmp_path / "all")["files"][2]).read_text()
    assert "'=HYPERLINK" in text, "a spreadsheet must not take it for a formula"
    code, _, err = call(capfd, "ledger", "export", "nobody", "--out", tmp_path / "n")
    assert (code, "unknown to this ledger" in err) == (2, True)


def test_an_entry_of_a_registry(ledger: Ledger, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = call_json(capfd, "ledger", "export", "trial", "--format", "registry", "--out", tmp_path)["files"]
    assert [Path(path).name for path in files] == ["trial.weeks.yaml", "trial.weeks.md"]
    entry = yaml.safe_load(Path(files[0]).read_text())["deployment"]
    assert entry["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.1, "delta": 0.0}
    assert entry["dp_variant"]["variant_name"] == "Pure DP"
    assert "3 finished" in entry["privacy_loss"]["privacy_parameters_details"]
    assert "| Mechanisms | laplace |" in Path(files[1]).read_text()


def test_the_command(ledger: Ledger, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capfd, "desk", "--out", tmp_path / "site")
    assert (code, err) == (0, "")
    assert "index.html" in out
    document = call_json(capfd, "desk")
    assert [one["dataset"] for one in document["datasets"]] == ["low", "trial", "unused"]
    (tmp_path / "file").write_text("")
    code, _, err = call(capfd, "desk", "--out", tmp_path / "file")
    assert (code, len(err.strip().splitlines())) == (2, 1)


def test_in_a_browser(ledger: Ledger, tmp_path: Path) -> None:
    """Nothing sticks out of a telephone or of paper, no labels on each other, contrast of 4.5 to 1 in both schemes."""
    if browser.missing():
        pytest.skip(browser.missing())
    paths = write_desk(ledger, tmp_path / "desk")
    with browser.chromium(tmp_path / "profile") as driver:
        for path in paths:
            for pixels in (1200, 400):
                browser.width(driver, pixels)
                driver.get(path.as_uri())
                assert driver.get_log("browser") == []
                assert driver.execute_script("return document.documentElement.scrollWidth") <= pixels
                assert driver.execute_script(OUTSIDE) == []
                assert driver.execute_script(OVERLAPS) == []
                assert driver.execute_script(CUT_DATES) == []
            for scheme in ("light", "dark"):
                features: dict[str, Any] = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
                driver.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
                assert driver.execute_script(CONTRASTS) >= 4.5
            assert browser.printed(driver).startswith(b"%PDF")
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
            browser.width(driver, 665)  # the width of A4 between the margins, at 96 pixels an inch
            assert driver.execute_script("return document.documentElement.scrollWidth") <= 665
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        links = driver.execute_script("return [...document.links].map(link => link.href)")
        assert links == [paths[0].as_uri()]
    assert json.loads(desk_of(ledger).model_dump_json())["verified"]["runs"] == 6
