"""A series of months: pooled at no charge, the first release of a month counts, the rest is refused."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.schemas.sites.pooled import Series
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.report.numbers import blocks_label
from causalveil.tasks.report.page import series_html
from causalveil.tasks.report.panel import estimated
from tests.studies import command, people, refused, write_study
from tests.survival_help import (
    cared_for_at_sites,
    of_sites,
    patients,
    write_adjusted_times,
    write_survival,
    write_times,
)

CONTRACT: dict[str, Any] = {
    "blocks": {"key": "month", "units_span": False},
    "estimators": ["difference_in_means"],
    "caps": {"sample": {"epsilon": 1000, "delta": "1e-2"}},
}
STUDY: dict[str, Any] = {
    "data": {"select": {"newest": 1}},
    "estimator": {"penalty": ..., "name": "difference_in_means", "trial": True},
    "privacy": {"epsilon": "50"},
}
TIMES: dict[str, Any] = {"data": {"select": {"newest": 1}}, "privacy": {"epsilon": "5"}}
MANY: dict[str, Any] = STUDY | {
    "kind": "effect",
    "outcome": ...,
    "outcomes": [{"name": "score", "role": "primary"}],
    "subgroups": "group",
    "covariates": {"group": ...},
}


def add_month(folder: Path, number: int) -> None:
    """600 people of their own; the effect is 2 in months 1 to 3 and 4 in month 4."""
    place = folder / f"month={number}"
    place.mkdir()
    random = np.random.default_rng(number)
    frame = people(600, seed=number).with_columns(person=pl.col("person") + 1_000_000 * number)
    treated = random.random(600) < 0.5
    score = np.clip(3 + (4 if number == 4 else 2) * treated + random.normal(0, 1, 600), 0, 10)
    frame = frame.with_columns(treated=pl.Series(treated), score=pl.Series(score))
    frame.write_parquet(place / "part.parquet")


def months(folder: Path, study: dict[str, Any], count: int = 4) -> Path:
    """A study that was run after each month."""
    path = write_study(folder / "study", partitions=0, study=study, contract=CONTRACT)
    for number in range(1, count + 1):
        add_month(path.parent, number)
        run_study(path, out=folder / f"out-{number}", engine="direct")
    return path


def series(path: Path, out: Path, capfd: Any) -> Series:
    assert command("series", path, "--out", out, "--json") == 0
    shown = json.loads(capfd.readouterr().out)
    assert (out / "series.json").read_text() == Series.model_validate(shown["series"]).text()
    page = (out / "series.html").read_text()
    assert "Effects over time" in page
    assert "cite as" in page
    assert "may be pooled again at no cost" in page
    assert "The intervals cover sampling and the noise of privacy." in page
    assert "Effects are averages over all units of a block. " in page
    # The assumptions of its question, from the templates of single effects, and those of pooling.
    of_times = "Independent censoring." in page
    assert of_times == (shown["series"]["estimator"] == "survival") != ("Clipping is harmless." in page)
    assert "No unit has rows in two blocks. The blocks’ errors are then independent." in page
    assert not re.search(r"= [0-9.]+e[-+]", page), "a p-value is written as people write it"
    runs = {block["run_id"] for row in shown["series"]["answers"] for block in row["blocks"]}
    for run in runs:
        assert f"causalveil audit {run}" in page
    found = Series.model_validate(shown["series"])
    lines = str(found).splitlines()
    assert len(lines) <= 12, lines
    assert all(len(line.split()) <= 25 for line in lines), lines
    # What was adjusted for and what is left of whose budget stand there, as the blocks' own releases have it.
    stated = {row.confounding for row in found.answers}
    assert None not in {row.confounding for row in found.answers if row.state == "answered"}
    # Whether one statement speaks for all of them, and how, depends on the noise of this run.
    said = [part for one in stated if one for part in (one.done.removesuffix("."), one.sentence)]
    assert any(part in str(found) for part in said), lines
    assert found.runs[-1].budget is not None
    fits = found.runs[-1].budget.fits
    assert f"budget of block {found.runs[-1].blocks[-1]} is left: enough for {fits} more such runs." in lines[-1]
    assert found.answers[0].fixed is not None
    assert estimated(found.answers[0].fixed) in str(found)
    assert repr(found) == f"<Series {found.brief()}>"
    command("series", path, "--out", out)
    printed = capfd.readouterr().out
    assert f"Series: {out / 'series.json'}" in printed
    assert "Differential privacy of each block" in printed
    return found


def test_months_are_pooled_at_no_charge_and_the_odd_one_is_seen(tmp_path: Path, capfd: Any) -> None:
    path = months(tmp_path, STUDY)
    run_study(path, out=tmp_path / "again", engine="direct", again=True)
    before = open_ledger().account("small")
    found = series(path, tmp_path / "series", capfd)
    assert open_ledger().account("small") == before
    (row,) = found.answers
    assert [block.blocks for block in row.blocks] == [(f"month={number}",) for number in (1, 2, 3, 4)]
    assert len(found.left_out) == 1
    widths = [block.interval.upper - block.interval.lower for block in row.blocks]
    assert row.fixed.interval.upper - row.fixed.interval.lower < 0.6 * min(widths)
    # Two of effect and a tenth of error: twenty standard errors.
    assert row.newest.difference == pytest.approx(2, abs=0.6)
    assert row.newest.p_value < 1e-6
    assert row.heterogeneity.p_value < 1e-6
    assert row.drift.per_block > 0


def test_blocks_are_in_the_order_of_time(tmp_path: Path, capfd: Any) -> None:
    """As text month=10 comes before month=9: the newest is the tenth, in series, page and account."""
    found = series(months(tmp_path, STUDY, count=10), tmp_path / "series", capfd)
    names = [f"month={number}" for number in range(1, 11)]
    (row,) = found.answers
    assert [block.blocks for block in row.blocks] == [(name,) for name in names]
    assert row.newest.blocks == ("month=10",)
    assert [run.blocks[-1] for run in found.runs] == names
    # The effect of month 4 alone differs, and the newest is one of the others.
    assert abs(row.newest.difference) < 1
    account = open_ledger().account("small")
    assert [one.block for one in account.blocks if one.level == "sample"] == names
    command("ledger", "chart", "small", "--out", tmp_path / "chart")
    titles = re.findall(
        r"<strong>Level sample, block ([^<]*)</strong>", (tmp_path / "chart" / "small-budget.html").read_text()
    )
    assert titles == names
    assert blocks_label(names[::-1]) == "month=1 … month=10 (10)"


def test_a_protocols_cells_are_pooled_one_by_one(tmp_path: Path, capfd: Any) -> None:
    path = months(tmp_path, MANY, count=3)
    found = series(path, tmp_path / "series", capfd)
    assert [row.group for row in found.answers] == ["all units", "a", "b", "c"]
    for row in found.answers:
        assert row.fixed.estimate == pytest.approx(2, abs=1)
        assert row.heterogeneity.p_value > 1e-6


def test_a_month_without_a_release_is_named_and_asked_by_itself(tmp_path: Path, capfd: Any) -> None:
    """Months 1, 3 and 4 were asked as the newest of their day; month 2 came late, after month 3 was asked."""
    path = write_study(tmp_path / "study", partitions=0, study=STUDY, contract=CONTRACT)
    for number in (1, 3, 4):
        add_month(path.parent, number)
        code, told, _ = refused(capfd, "series", str(path)) if number == 1 else (2, "month=1", None)
        assert (code, told.endswith("without a release are month=1") or number > 1) == (2, True)
        run_study(path, out=tmp_path / f"out-{number}", engine="direct")
    add_month(path.parent, 2)
    found = series(path, tmp_path / "series", capfd)
    assert found.unreleased == ("month=2",)
    assert "Rows but no release: month=2. 'data.select.blocks' of a study asks for them." in str(found)
    assert "Rows but no release: month=2." in (tmp_path / "series" / "series.html").read_text()
    late = path.with_name("late.yaml")
    late.write_text(path.read_text().replace("newest: 1", "blocks: [2]"))
    assert run_study(late, out=tmp_path / "late", engine="direct").release.privacy.blocks.charged == ("month=2",)
    for asked in (path, late):
        found = series(asked, tmp_path / "series", capfd)
        assert found.unreleased == ()
        assert [run.blocks for run in found.runs] == [(f"month={number}",) for number in (1, 2, 3, 4)]


def test_a_series_is_made_where_rows_are_not_there_any_more(tmp_path: Path, capfd: Any) -> None:
    path = months(tmp_path, STUDY, count=2)
    for place in path.parent.glob("month=*"):
        shutil.rmtree(place)
    assert series(path, tmp_path / "series", capfd).unreleased == ()


def test_what_cannot_be_pooled_is_refused(tmp_path: Path, capfd: Any) -> None:
    path = months(tmp_path, STUDY, count=1)
    code, told, _ = refused(capfd, "series", str(path))
    assert code == 2
    assert "releases of 2 blocks at least" in told


def test_units_that_span_blocks_make_no_series(tmp_path: Path, capfd: Any) -> None:
    spanning = CONTRACT | {"blocks": {"key": "month", "units_span": True}}
    path = write_study(tmp_path / "study", partitions=0, study=STUDY, contract=spanning)
    add_month(path.parent, 1)
    run_study(path, out=tmp_path / "out", engine="direct")
    code, told, _ = refused(capfd, "series", str(path))
    assert code == 2
    assert "that units may span them" in told


@pytest.mark.usefixtures("prefect_server")
def test_the_series_runs_as_a_flow(tmp_path: Path) -> None:
    from causalveil.flows.deployed import series as flow

    path = months(tmp_path, STUDY, count=2)
    found = flow(str(path), str(tmp_path / "series"))
    assert len(found.series.answers[0].blocks) == 2
    assert found.page.exists()


@pytest.mark.usefixtures("prefect_server")
def test_a_schedule_begins_with_one_block(tmp_path: Path) -> None:
    """No failure in red: a state that says what it waits for."""
    from causalveil.flows.deployed import series as flow

    state = flow(str(months(tmp_path, STUDY, count=1)), str(tmp_path / "series"), return_state=True)
    assert (state.type.value, state.name) == ("CANCELLED", "TooFewBlocks")
    assert "run the study on further blocks" in str(state.message)


def test_a_series_of_times(tmp_path: Path, capfd: Any) -> None:
    """Each measure is a row; a month in which nobody is followed to the horizon has no part in either."""
    path = write_survival(
        tmp_path / "study", partitions=0, contract=CONTRACT | {"estimators": ["survival"]}, study=TIMES
    )
    for number in range(1, 4):
        place = path.parent / f"month={number}"
        place.mkdir()
        frame = patients(2_000, seed=number).with_columns(person=pl.col("person") + 1_000_000 * number)
        if number == 2:
            frame = frame.with_columns(days=pl.col("days").clip(0, 30), status=pl.lit(0))
        frame.write_parquet(place / "part.parquet")
        run_study(path, out=tmp_path / f"out-{number}", engine="direct")
    found = series(path, tmp_path / "series", capfd)
    assert [row.outcome for row in found.answers] == [
        "risk of death until 365 days",
        "mean time without event until 365 days",
    ]
    page = (tmp_path / "series" / "series.html").read_text()
    assert page.count(">treated minus controls<") == page.count(">treated minus controls, in days<") == 1
    assert "<h2>mean time without event until 365 days, all units</h2>" in page
    assert re.search(r"mean time without event until 365 days\s+[-0-9.]+ days", str(found))
    assert "No answer in month=2: noise hides it" in page
    assert "2 of 3 blocks" in str(found)
    arms = {"arms": {"levels": ["none", "low"], "reference": "none"}, "treatment": "drug", "treatment_codes": None}
    rows = tuple(row.model_copy(update={"arm": "low"}) for row in found.answers)
    of_arms = found.model_copy(update={"answers": rows, "specification": {**found.specification, **arms}})
    assert ">arm minus reference, in days<" in series_html(of_arms)
    assert "treated minus controls" not in series_html(of_arms)
    for row in found.answers:
        assert [one.blocks for one in row.blocks] == [("month=1",), ("month=2",), ("month=3",)]
        assert [one.state for one in row.blocks] == ["answered", "unresolved", "answered"]
        assert row.silent == ("month=2",)
        alone = min(one.interval.upper - one.interval.lower for one in row.blocks if one.interval)
        assert row.fixed.interval.upper - row.fixed.interval.lower < alone


@pytest.mark.parametrize(("write", "people_of"), [(write_times, of_sites), (write_adjusted_times, cared_for_at_sites)])
def test_a_series_of_a_protocol_of_times(write: Any, people_of: Any, tmp_path: Path, capfd: Any) -> None:
    """Each question of each subgroup is a row over the months, pooled to less than a month's."""
    path = write(
        tmp_path / "study",
        partitions=0,
        contract={key: value for key, value in CONTRACT.items() if key != "estimators"},
        study={"data": {"select": {"newest": 1}}, "privacy": {"epsilon": "5"}, "measure": "risk"},
    )
    for number in (1, 2):
        place = path.parent / f"month={number}"
        place.mkdir()
        frame = people_of(4_000, seed=number).with_columns(person=pl.col("person") + 1_000_000 * number)
        frame.write_parquet(place / "part.parquet")
        run_study(path, out=tmp_path / f"out-{number}", engine="direct")
    found = series(path, tmp_path / "series", capfd)
    asked = [
        "risk of death until 365 days",
        "risk of relapse or death until 365 days",
        "risk of relapse until 730 days",
    ]
    assert list(dict.fromkeys(row.outcome for row in found.answers)) == asked
    assert {row.group for row in found.answers} == {"all units", "north", "south", "east"}
    for row in found.answers:
        if not row.silent:
            # Means by variance: what one month alone allows for a subgroup that it left out counts by its weight.
            bound = max if row.fixed.interval.bias else min
            alone = bound(one.interval.upper - one.interval.lower for one in row.blocks)
            assert row.fixed.interval.upper - row.fixed.interval.lower < alone
