"""Visits under a contract with `rows`: admitted as one row a person, run on, and nobody sees who has how many."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.api import load_study, plan, run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import admit_folder
from causalveil.flows.run.check import beyond_check, check
from causalveil.schemas.admission import NotAdmitted
from causalveil.schemas.errors import DataError
from causalveil.schemas.release import EffectRelease
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.manifests import DRAFT, clean_reduced, reduced_root, rows_folder, scratch_name
from causalveil.tasks.machine.site import home, open_scratch
from causalveil.tasks.privacy.keys import owner_key
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.report.page import report_html
from causalveil.tasks.report.table import event_study
from tests.studies import command, people, refused, write_study

ROWS: dict[str, Any] = {
    "at_most": 4,
    "keep": "last",
    "order": "day",
    "count": "visits",
    "aggregates": {"score": "mean", "treated": "any", "age": "max"},
}


def visits(n: int = 300, seed: int = 5) -> pl.DataFrame:
    """People with one to six visits each, in the order of days."""
    random = np.random.default_rng(seed)
    frame = people(n).select(pl.all().repeat_by(pl.Series(random.integers(1, 7, n)))).explode(pl.all())
    day = pl.Series("day", random.permutation(frame.height)).cast(pl.Int32)
    return frame.with_columns((pl.lit(0).cast(pl.Date) + pl.duration(days=day)).alias("day"))


def write(folder: Path, frame: pl.DataFrame, contract: dict[str, Any] | None = None, **study: Any) -> Path:
    return write_study(folder, frame=frame, partitions=3, study=study, contract={"rows": ROWS, **(contract or {})})


def test_a_run_reads_one_row_a_person(tmp_path: Path) -> None:
    path = write(tmp_path / "study", visits(), covariates={"age": {}, "visits": {}})
    before = plan(path)
    assert before.sizes is None, "how many people there are is not known from the files"
    assert "an admission counts units: causalveil admit" in str(before)
    result = run_study(path, out=tmp_path / "out", run_id="one", engine="direct")
    assert isinstance(result.release, EffectRelease)
    assert result.release.units == 300
    assert result.release.specification["covariates"]["visits"] == {
        **result.release.specification["covariates"]["visits"],
        "lower": 1.0,
        "upper": 4.0,
    }
    assert plan(path).sizes is not None
    # The reduced rows are the owner's to keep, in a folder that nobody else can open.
    (folder,) = (home() / "reduced" / "small").iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    again = run_study(path, out=tmp_path / "out2", run_id="two", engine="direct")
    assert [entry.kind for entry in open_ledger().entries_of("small")].count("admit") == 1
    assert again.release.units == 300


def test_the_same_people_reduced_by_hand_give_the_same_release(tmp_path: Path) -> None:
    """Whoever makes one row of many, in whatever files: the same numbers under one seed."""
    frame = visits()
    kept = frame.sort("person", "day").group_by("person", maintain_order=True).tail(4)
    by_hand = kept.group_by("person", maintain_order=True).agg(
        pl.col("treated").max(), pl.col("score").mean(), pl.col("age").max(), pl.col("group").last()
    )
    many = write(tmp_path / "many", frame, {"rows": {**ROWS, "count": None}})
    one = write_study(tmp_path / "one", frame=by_hand)
    releases = [
        run_study(path, out=tmp_path / path.parent.name / "out", simulate=3, run_id="same").release
        for path in (many, one)
    ]
    assert isinstance(releases[0], EffectRelease)
    assert isinstance(releases[1], EffectRelease)
    assert releases[0].estimate == releases[1].estimate
    assert releases[0].interval == releases[1].interval


def test_changes_of_periods_are_those_made_by_hand(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A design of changes gives the answers of hand-made columns under one seed, and says what it takes for granted."""
    frame, random = people(300), np.random.default_rng(3)
    at = {year: frame["score"].to_numpy() / 2 + random.normal(0, 1, 300) + year % 3 for year in (2011, 2012, 2013)}
    long = pl.concat([frame.with_columns(score=pl.Series(own), year=pl.lit(year)) for year, own in at.items()])
    by_hand = frame.drop("score").with_columns(
        *(pl.Series(f"d{year}", np.clip(at[year], 0, 10) - np.clip(at[2012], 0, 10)) for year in (2013, 2011))
    )
    asked = {"outcome": ..., "estimator": {"name": "regression", "penalty": ...}, "estimand": "ATT"}
    owner = {"estimators": ["regression"], "rows": {"order": "year", "wide": {"score": [2011, 2012, 2013]}}}
    change = {"name": "change", "before": 2012, "after": 2013, "placebo": 2011}
    design = {**asked, "outcome": {"name": "score", "lower": -5, "upper": 5}, "design": change}
    many = write_study(
        tmp_path / "many", frame=long, contract=owner, study={**design, "missing_outcome": "middle", "estimand": ...}
    )
    ends = {"lower": -5, "upper": 5}
    hand = {"columns": {"d2013": {**ends}, "d2011": {**ends}, "score": ...}, "estimators": ["regression"]}
    roles = [{"name": "d2013", "role": "primary"}, {"name": "d2011", "role": "placebo"}]
    one = write_study(tmp_path / "one", frame=by_hand, contract=hand, study={**asked, "outcomes": roles})
    first, second = (
        run_study(path, out=tmp_path / "out" / path.parent.name, simulate=3, run_id="same", engine="direct").release
        for path in (many, one)
    )
    assert isinstance(first, EffectRelease)
    assert isinstance(second, EffectRelease)
    assert [row.interval for row in first.answers] == [row.interval for row in second.answers]
    assert [row.outcome for row in first.answers] == ["score@2013 - score@2012", "score@2011 - score@2012"]
    assert {"parallel_trends", "anticipation"} <= {one.code for one in first.not_covered}
    assert not {"parallel_trends"} & {one.code for one in second.not_covered}
    told = {True: ("Parallel trends.", "No anticipation."), False: ("No unmeasured confounding.",)}
    for release, changes in ((first, True), (second, False)):
        page = report_html(release)
        assert all(f"<strong>{one}</strong>" in page for one in told[changes])
        assert not any(f"<strong>{one}</strong>" in page for one in told[not changes])
        assert ("Parallel trends given age, group; no anticipation" in page) == changes
    assert "range_of_parts" not in {one.code for one in first.warnings}
    (drawn,) = event_study(first)
    assert [line.label for line in drawn.lines] == ["2011, placebo", "2012, the base", "2013"]
    assert event_study(second) == ()
    wide = write_study(tmp_path / "wide", frame=long, contract=owner, study={**design, "outcome": {"name": "score"}})
    wide.write_text(wide.read_text().replace("  lower: 0\n  upper: 10\n", ""))
    told = str(plan(wide))
    assert "is all that its columns' ranges allow" in told
    assert "units without an outcome are left out of the answer for it ('score@2013 - score@2012', " in told
    undeclared = write_study(tmp_path / "none", contract=owner, study={**design, "design": {**change, "after": 2015}})
    assert "declares no column 'score@2015'" in refused(capfd, "plan", str(undeclared))[1]


def test_cohorts_have_changes_from_their_own_last_period_before(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    frame, random = people(400), np.random.default_rng(4)
    cohort = random.choice([0, 2013, 2014], 400)
    long = pl.concat(
        frame.with_columns(score=pl.Series(random.uniform(2, 6, 400)), cohort=pl.Series(cohort), year=pl.lit(year))
        for year in (2011, 2012, 2013, 2014)
    )
    rows = {"order": "year", "wide": {"score": [2011, 2012, 2013, 2014]}}
    owner = {"estimators": ["regression"], "rows": rows, "columns": {"cohort": {"levels": [0, 2013, 2014]}}}
    design = {"name": "change", "periods": [2011, 2012, 2013, 2014], "cohorts": [2013, 2014]}
    study = {
        "treatment": "cohort",
        "arms": {"reference": 0},
        "outcome": {"name": "score", "lower": -5, "upper": 5},
        "design": design,
        "estimand": ...,
        "estimator": {"name": "regression", "penalty": ...},
        "privacy": {"epsilon": 9},
    }
    path = write_study(tmp_path / "cohorts", frame=long, contract=owner, study=study)
    found = run_study(path, out=tmp_path / "out", simulate=3, run_id="one", engine="direct").release
    assert isinstance(found, EffectRelease)
    changes = (
        "2013: 2013-2012",
        "2013: 2014-2012",
        "2014: 2014-2013",
        "2013: 2011-2012",
        "2014: 2011-2013",
        "2014: 2012-2013",
    )
    names = [f"cohort {one[:4]}: score@{one[6:10]} - score@{one[11:]}" for one in changes]
    assert [row.outcome for row in found.answers] == names
    assert [row.role for row in found.answers] == ["primary"] * 3 + ["placebo"] * 3
    times = {one.name: list(one.of or {}) for one in found.contrasts}
    assert times == {
        "score, all after treatment": names[:3],
        "score, event time 0": [names[0], names[2]],
        "score, event time 1": [names[1]],
        "score, event time -2": [names[3], names[5]],
        "score, event time -3": [names[4]],
    }
    assert "parallel_trends" in {one.code for one in found.not_covered}
    assert "score, event time 0" in str(plan(path, units=9_000))
    times, first, second = event_study(found)
    assert [line.label for line in times.lines] == [
        "event time -3, placebo",
        "event time -2, placebo",
        "event time -1, the base",
        *(f"event time {at}" for at in (0, 1)),
    ]
    assert [line.label for line in first.lines] == ["2011, placebo", "2012, the base", "2013", "2014"]
    assert [line.label for line in second.lines] == ["2011, placebo", "2012, placebo", "2013, the base", "2014"]
    assert (times.outcome, times.lines[2].estimate, second.role) == ("score", 0.0, "cohort 2014")
    assert times.lines[4].estimate == found.answers[1].estimate
    for changed, said in (
        ({"design": {**design, "cohorts": [2011]}}, "cohort 2011 is none of 'periods', or has none before it"),
        ({"design": {**design, "before": 2011, "after": 2012}}, "'cohorts' and 'periods'"),
        ({"estimand": "ATE"}, "write 'estimand: ATT'"),
        ({"subgroups": "group", "covariates": ["age"]}, "'design.cohorts' answers over all units alone"),
    ):
        wrong = write_study(tmp_path / "wrong", contract=owner, study={**study, **changed})
        assert said in refused(capfd, "plan", str(wrong))[1]


def test_a_sum_of_signed_rows_is_told_not_to_be_a_change(tmp_path: Path) -> None:
    rows = {**ROWS, "aggregates": {"score": "sum"}}
    signed = write(tmp_path / "signed", visits(), {"rows": rows, "columns": {"score": {"lower": -10}}})
    assert "every unit has all the rows that 'score' sums" in (beyond_check(signed) or "")
    counted = write(tmp_path / "counted", visits(), {"rows": rows})
    assert "'score' sums" not in (beyond_check(counted) or "")


def sensitive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **contract: Any) -> Path:
    monkeypatch.setenv("CAUSALVEIL_OWNER_KEY", str(tmp_path / "owner.key"))
    owner = owner_key(create=True).public
    path = write(tmp_path / "study", visits(), {"data_class": "sensitive", "owner_key": owner, **contract})
    assert command("ledger", "grant", path.with_name("dataset.yaml"), "--reason", "opening") == 0
    return path


def test_sensitive_visits_are_admitted_by_their_owner_and_held_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = sensitive(tmp_path, monkeypatch)
    with pytest.raises(DataError, match="never admitted"):
        run_study(path, out=tmp_path / "out", engine="direct")
    assert command("admit", path.parent) == 0
    assert "rows, reduced to 300 units" in capfd.readouterr().out
    assert run_study(path, out=tmp_path / "out", run_id="one", engine="direct").release.units == 300
    # What the owner's files say now is not what was admitted.
    first = path.parent / "part-0.parquet"
    frame = pl.read_parquet(first)
    frame.with_columns(pl.col("score") + 1.0).vstack(frame[:1]).write_parquet(first)
    with pytest.raises(DataError, match="changed since they were admitted"):
        run_study(path, out=tmp_path / "out2", engine="direct")
    admission = admit_folder(DataFolder(path.parent), DirectEngine())
    assert [folder.name for folder in (home() / "reduced" / "small").iterdir()] == [admission.reduced]
    # Reduced rows that somebody changed, or took away.
    reduced = rows_folder(DataFolder(path.parent), admission).path
    (part,) = reduced.glob("*.parquet")
    whole = part.read_bytes()
    pl.read_parquet(part).with_columns(score=pl.lit(5.0)).write_parquet(part)
    with pytest.raises(DataError, match="changed since it was admitted"):
        run_study(path, out=tmp_path / "out3", run_id="three", engine="direct")
    part.write_bytes(whole)
    assert run_study(path, out=tmp_path / "out4", run_id="four", engine="direct").release.units == 300
    shutil.rmtree(reduced)
    with pytest.raises(DataError, match="are gone"):
        run_study(path, out=tmp_path / "out5", run_id="five", engine="direct")
    assert admit_folder(DataFolder(path.parent), DirectEngine()).digest == admission.digest, (
        "the same rows, the same manifest"
    )
    assert run_study(path, out=tmp_path / "out6", run_id="six", engine="direct").release.units == 300


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"score": float("nan")}, "column 'score' holds nulls or NaN"),
        ({"group": "z"}, "column 'group' holds a value that is not among its declared levels"),
    ],
)
def test_bad_visits_are_told_before_anything_is_reduced(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    frame = visits()
    (name, value), *_ = change.items()
    bad = frame.with_columns(
        pl.when(pl.int_range(pl.len()) == 7).then(pl.lit(value, frame.schema[name])).otherwise(pl.col(name)).alias(name)
    )
    path = write(tmp_path / "study", bad)
    with pytest.raises(NotAdmitted, match=says):
        admit_folder(DataFolder(path.parent), DirectEngine())
    assert not list((home() / "reduced").rglob("*.parquet"))


def test_a_person_in_two_blocks_that_units_do_not_span_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    contract = {"rows": ROWS, "blocks": {"key": "month", "units_span": False}}
    path = write_study(folder, partitions=0, contract=contract)
    frame = visits()
    halves = frame.filter(pl.col("person") < 1150), frame.filter(pl.col("person") >= 1150)
    for month, rows in enumerate(halves):
        (folder / f"month={month}").mkdir()
        rows.write_parquet(folder / f"month={month}" / "a.parquet")
    assert run_study(path, out=tmp_path / "out", engine="direct").release.units == 300
    halves[1].vstack(halves[0][:1]).write_parquet(folder / "month=1" / "a.parquet")
    with pytest.raises(NotAdmitted, match="names a unit twice"):
        run_study(path, out=tmp_path / "out2", engine="direct")
    root = reduced_root("small")
    assert len(list(root.iterdir())) == 1, "rows that were not admitted are nowhere"


def test_clean_deletes_reduced_rows_that_nobody_needs(tmp_path: Path) -> None:
    path = write(tmp_path / "study", visits())
    run_study(path, out=tmp_path / "out", run_id="one", engine="direct")
    root = reduced_root("small")
    (root / DRAFT).mkdir()
    with open_scratch(scratch_name("small")):
        assert clean_reduced(None) == 0, "somebody is writing there"
    assert clean_reduced(None) == 1
    run_study(path, out=tmp_path / "out2", run_id="two", engine="direct")
    assert command("clean", "--reduced", "small") == 0
    assert list(root.iterdir()) == []
    # Synthetic data admit themselves again.
    assert run_study(path, out=tmp_path / "out3", run_id="three", engine="direct").release.units == 300


def test_neighbours_look_alike_to_everybody_but_the_owner(tmp_path: Path) -> None:
    """One person with a single visit is replaced by one with two hundred: layout, ledger and plan are equal."""
    frame = visits()
    one = frame.filter(pl.col("person") != 1007).vstack(frame.filter(pl.col("person") == 1007)[:1])
    busy = frame.filter(pl.col("person") == 1007)[:1].select(pl.all().repeat_by(200)).explode(pl.all())
    other = frame.filter(pl.col("person") != 1007).vstack(busy)
    seen = []
    for name, rows in (("one", one), ("other", other)):
        path = write(tmp_path / name, rows, {"dataset": name})
        release = run_study(path, out=tmp_path / name / "out", run_id=name, engine="direct").release
        reserved = open_ledger().record(name)
        assert reserved is not None
        admitted = [entry.document for entry in open_ledger().entries_of(name) if entry.kind == "admit"]
        facts = [(one["partitions"], one["units"]) for one in admitted]
        seen.append((release.units, reserved.reservation.layout_digest, load_study(path).digest, facts))
    assert seen[0] == seen[1]


def test_check_reads_the_visits_as_the_contract_declares_them(tmp_path: Path) -> None:
    path = write(tmp_path / "study", visits(), covariates={"age": {}, "visits": {}})
    assert check(path) == []
    write(tmp_path / "study", visits().drop("day"), covariates={"age": {}, "visits": {}})
    assert [one.text for one in check(path)] == [
        "part-0.parquet (and 2 more): column 'day' is missing; there are person, treated, score, age, group"
    ]
