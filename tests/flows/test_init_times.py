"""What `init` makes of times to an event: it names them, and drafts a contract and a study that run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from causalveil.flows.api import run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.declare import load
from causalveil.flows.run.start import Begun, begin
from causalveil.flows.run.survey import survey
from causalveil.schemas.contract import DataClass
from causalveil.schemas.errors import DataError, StudyError
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.release import EffectRelease
from causalveil.tasks.estimate.times.curves import ARMS, measured
from causalveil.tasks.estimate.times.effects import TwoArms
from causalveil.tasks.estimate.times.people import fewest_followed
from causalveil.tasks.estimate.times.releases import grid_of, mechanism
from causalveil.tasks.start.roles import Wishes
from tests.studies import resolved
from tests.survival_help import cared_for, patients, read_cells

pytestmark = pytest.mark.usefixtures("as_command")

N = 300


def begun(folder: Path, frame: pl.DataFrame, **wishes: Any) -> Begun:
    folder.mkdir(parents=True, exist_ok=True)
    frame.write_csv(folder / "in.csv")
    asked = {"name": "a", "data_class": DataClass.synthetic, "unit": "person", "treatment": "treated"}
    asked |= {"outcome": "days", "trial": True}
    return begin(survey(str(folder / "in.csv")), Wishes(**(asked | wishes)), folder / "out", DirectEngine())


def trial(**columns: Any) -> pl.DataFrame:
    return patients(N).with_columns(age=np.random.default_rng(3).integers(20, 80, N), **columns)


def test_a_time_that_is_taken_for_a_number_is_warned_of(tmp_path: Path) -> None:
    told = "\n".join(begun(tmp_path / "a", trial(), covariates=("age",)).draft.decide)
    assert "'days': it looks like a time to an event, which 'status' names: --outcome 'days' --event 'status'" in told
    told = "\n".join(begun(tmp_path / "b", trial()).draft.decide)
    assert "'status': it looks like what ended 'days'" in told
    found = begun(tmp_path / "c", trial(score=np.arange(N) % 17), outcome="score")
    assert found.draft.taken == ("age",), "neither time nor event was known before treatment"
    assert {"'days'", "'status'"} <= {one.split(":")[0] for one in found.draft.decide}


@pytest.mark.parametrize(
    ("scale", "decimals", "horizon", "data_class", "step"),
    [
        (1, 0, 360, "synthetic", 1),
        (0.1, 1, 36, "synthetic", 0.1),
        (1 / 365.25, 15, 1, "synthetic", 0.001),
        (1 / 365.25, 3, 0.5, "synthetic", 0.001),
        (1 / 365.25, 3, 1, "sensitive", 1),
        (1 / 365.25, 3, 0.5, "sensitive", 0.1),
    ],
)
def test_the_step_of_times_is_drafted(
    scale: float, decimals: int, horizon: float, data_class: str, step: float, tmp_path: Path
) -> None:
    """Years with decimals taken for whole ones have a curve of as many steps as the horizon has years."""
    frame = trial().with_columns((pl.col("days") * scale).round(decimals).alias("days"))
    asked = {"horizon": horizon, "event": "status", "data_class": DataClass(data_class), "ranges": {"age": (18, 90)}}
    asked |= {"levels": {"status": ("0", "1", "2")}} if data_class == "sensitive" else {}
    begun(tmp_path, frame, **asked)
    declared = yaml.safe_load((tmp_path / "out" / "dataset.yaml").read_text())["columns"]["days"]["time"]
    assert declared.get("step", 1) == step


@pytest.mark.parametrize(
    "columns",
    [
        {"days": pl.col("days").alias("visits"), "status": pl.col("status") + 5},
        {"status": pl.lit(None, pl.Int64)},
        {"days": pl.col("days") % 5},
    ],
    ids=["no code is 0", "nothing ended", "few values"],
)
def test_what_is_no_time_is_not_warned_of(columns: dict[str, Any], tmp_path: Path) -> None:
    found = begun(tmp_path, trial(**columns), covariates=("age",))
    assert "time to an event" not in " ".join(found.draft.decide)


def test_a_draft_runs(tmp_path: Path, home: Path) -> None:
    del home
    found = begun(tmp_path, trial(), event="status", horizon=365.0)
    contract = yaml.safe_load((found.folder / "dataset.yaml").read_text())
    assert contract["columns"]["days"] == {"time": {"upper": 365, "origin": "randomised"}}
    assert contract["columns"]["status"] == {"event": {"censored": 0, "event 1": 1, "event 2": 2}}
    study = load(found.folder / "study.yaml").study
    assert study.estimator.trial
    release = run_study(found.folder / "study.yaml", out=tmp_path / "release", engine="direct").release
    assert isinstance(release, EffectRelease)
    assert release.curves[0].curves.events == ("event 1 or event 2",)


def test_a_draft_that_adjusts_runs(tmp_path: Path, home: Path) -> None:
    del home
    begun_ = begun(tmp_path, cared_for(2_000), event="status", horizon=365.0, trial=False)
    drafted = yaml.safe_load((begun_.folder / "study.yaml").read_text())
    assert drafted["covariates"] == ["age", "group"]
    assert drafted["measure"] == "risk"
    assert "trial" not in drafted["estimator"]
    assert (tmp_path / "out" / "study.yaml").exists()
    release = run_study(begun_.folder / "study.yaml", out=tmp_path / "release", engine="direct").release
    assert isinstance(release, EffectRelease)
    assert "confounding_adjusted_for" in release.details
    named = begun(tmp_path / "b", cared_for(2_000), event="status", horizon=365.0, covariates=("age",))
    assert yaml.safe_load((named.folder / "study.yaml").read_text())["covariates"] == ["age"]
    trial_ = begun(tmp_path / "c", cared_for(2_000), event="status", horizon=365.0)
    assert "covariates" not in yaml.safe_load((trial_.folder / "study.yaml").read_text())


def test_words_and_sensitive_data(tmp_path: Path) -> None:
    words = pl.col("status").replace_strict({0: "alive", 1: "relapse", 2: "death"}, return_dtype=pl.String)
    found = begun(tmp_path / "words", trial(status=words), event="status", horizon=365.0)
    contract = yaml.safe_load((found.folder / "dataset.yaml").read_text())
    events = {"event": {"alive": "alive", "death": "death", "relapse": "relapse"}, "censored": "alive"}
    assert contract["columns"]["status"] == events
    assert load(found.folder / "study.yaml").study.outcome.censoring == "alive"
    secret = {"data_class": DataClass.sensitive, "event": "status", "horizon": 365.0, "ranges": {"age": (18, 100)}}
    with pytest.raises(DataError, match="--levels"):
        begun(tmp_path / "secret", trial(), **secret)
    found = begun(tmp_path / "known", trial(), levels={"status": ("0", "1", "2", "3")}, **secret)
    contract = yaml.safe_load((found.folder / "dataset.yaml").read_text())
    assert contract["columns"]["days"]["nulls"] == contract["columns"]["status"]["nulls"] == "indicator"
    assert contract["columns"]["status"]["event"]["event 3"] == 3, "what rows hold decides nothing"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"event": "nothing", "horizon": 365.0}, "no column 'nothing'"),
    ({"event": "status"}, "--horizon"),
    ({"event": "days", "horizon": 365.0}, "another role"),
    ({"event": "age", "horizon": 365.0}, "2 to 6 values"),
    ({"event": "status", "horizon": 365.0, "censored": "lost"}, "--censored"),
    ({"event": "status", "horizon": 365.0, "outcome": "word"}, "with --event it is a time"),
    ({"event": "status", "horizon": 365.0, "arms": True, "reference": "9"}, "--reference"),
    ({"event": "status", "horizon": 365.0, "subgroups": "age"}, "--subgroups"),
    ({"event": "status", "horizon": 365.0, "subgroups": "site", "covariates": ("age",)}, "leave --covariates out"),
    ({"event": "status", "horizon": 365.0, "measures": ("ratio",)}, "their own measures"),
]


@pytest.mark.parametrize(
    ("wishes", "answers"),
    [
        ({"subgroups": "site"}, 6),
        ({"subgroups": "site", "arms": True, "reference": "none", "treatment": "drug"}, 12),
        ({"arms": True, "reference": "none", "treatment": "drug", "where": ("age >= 30",)}, 4),
    ],
)
def test_subgroups_and_arms_draft_a_protocol_that_runs(
    wishes: dict[str, Any], answers: int, tmp_path: Path, home: Path
) -> None:
    del home
    random = np.random.default_rng(4)
    columns = {"site": random.choice(["north", "south"], 2_000), "drug": random.choice(["none", "low", "high"], 2_000)}
    frame = patients(2_000).with_columns(
        age=random.integers(20, 80, 2_000), **{name: pl.Series(values) for name, values in columns.items()}
    )
    found = begun(tmp_path, frame, event="status", horizon=365.0, **wishes)
    drafted = yaml.safe_load((found.folder / "study.yaml").read_text())
    assert drafted["kind"] == "effect"
    asked = {"time": "days", "event": "status", "horizon": 365, "role": "primary"}
    assert drafted["outcomes"] == [asked]
    assert drafted["estimator"] == {"name": "survival", "trial": True}
    assert "covariates" not in drafted
    release = run_study(found.folder / "study.yaml", out=tmp_path / "release", engine="direct").release
    assert isinstance(release, EffectRelease)
    assert len(release.answers) == answers


@pytest.mark.parametrize(("wishes", "told"), REFUSED)
def test_what_cannot_be_drafted_is_said(wishes: dict[str, Any], told: str, tmp_path: Path) -> None:
    word = pl.col("person").cast(pl.String).str.slice(3, 1).replace_strict({}, default="word", return_dtype=pl.String)
    with pytest.raises(StudyError) as refusal:
        begun(tmp_path, trial(word=word, site=pl.Series(["north", "south"] * (N // 2))), **wishes)
    assert told in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_how_many_reach_the_horizon_is_said_where_the_data_are_not_sensitive(tmp_path: Path) -> None:
    """Where an arm has fewer than noise hides, the answer would be the whole range: an earlier horizon is advised."""
    early = begun(tmp_path / "a", trial(), event="status", horizon=1)
    assert "noise hides so few" not in early.followed
    late = begun(tmp_path / "b", trial(), event="status", horizon=10_000)
    assert late.followed.startswith("0 of ")
    assert "ask for an earlier --horizon" in late.followed
    secret = {"data_class": DataClass.sensitive, "levels": {"status": ("0", "1", "2")}}
    assert not begun(tmp_path / "c", trial(), event="status", horizon=10_000, **secret).followed


@pytest.mark.parametrize(
    "wishes",
    [{"trial": True}, {"trial": False}, {"trial": True, "epsilon": "0.2"}, {"trial": True, "subgroups": "site"}],
)
def test_how_many_noise_hides_is_said_of_the_study_that_is_drafted(wishes: dict[str, Any], tmp_path: Path) -> None:
    """As many as it says are seen in five of six draws of the study's cells, but for 300 draws' error; half are not."""
    frame = cared_for(4_000).with_columns(site=pl.Series(["north", "south"] * 2_000))
    found = begun(tmp_path, frame, event="status", horizon=365, **wishes)
    study = resolved(found.folder / "study.yaml")
    fewest = fewest_followed(study, 4_000)
    assert ("noise hides so few" in found.followed) == any(
        few < fewest.all_units for few in map(int, re.findall(r"([\d]+) of", found.followed.replace(",", "")))
    )
    if isinstance(study, SurvivalStudy) and study.asks_one:
        grid, draw = grid_of(study, 4_000), mechanism(study)
        seen = {}
        for people in (fewest.all_units, fewest.all_units / 2):
            cells = np.zeros((1, ARMS, grid.cells), dtype=np.int64)
            cells[..., -1] = [[4_000 - round(people), round(people)]]
            exact = measured(cells, grid, plain=False)
            random = np.random.default_rng(3)
            draws = (exact + draw.known_scale * random.standard_normal(len(exact)) for _ in range(300))
            both = [TwoArms(read_cells(one, study, 4_000)) for one in draws]
            seen[people] = sum(one.seen == grid.intervals for one in both) / 300
        assert min(seen.values()) < 0.5 < 0.74 < max(seen.values()) < 0.93, "four standard errors of 300 draws"


@pytest.mark.parametrize(("time", "end"), [("ptime", "pstat"), ("os_months", "os_flag"), ("rDays", "rcens")])
def test_what_ended_another_time_is_known_by_its_stem(time: str, end: str, tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    more = {time: random.integers(1, 4_000, N), end: random.integers(0, 2, N), "marstat": random.integers(0, 2, N)}
    found = begun(tmp_path, trial(**more), event="status", horizon=200, trial=False)
    assert {"age", "marstat"} <= set(found.draft.taken)
    assert not {time, end} & set(found.draft.taken)


def test_of_arms_and_eligible_people_the_followed_are_counted(tmp_path: Path) -> None:
    drug = pl.Series(np.array(["none", "low", "high"])[np.arange(N) % 3])
    arms = {"arms": True, "reference": "none", "treatment": "drug", "event": "status", "horizon": 100}
    counted = begun(tmp_path / "a", trial(drug=drug), **arms).followed
    assert all(f"'{one}'" in counted for one in ("none", "low", "high"))
    young = begun(tmp_path / "b", trial(drug=drug), **arms, where=("age < 40",)).followed
    assert young != counted


def test_other_times_of_one_follow_up_are_for_a_person_to_decide(tmp_path: Path) -> None:
    """A time to relapse beside the time to death, by its name or by its values; row numbers are left out here too."""
    random = np.random.default_rng(8)
    days = trial()["days"].to_numpy()
    relapse = np.where(random.random(N) < 0.4, np.floor(days * random.random(N)), days)
    more = {"x": relapse, "rtime": relapse + 1, "recur": random.integers(0, 2, N), "row": np.arange(N) + 1}
    more |= {"age at entry": np.floor(days * random.random(N))}
    more |= {"year": random.integers(1980, 1995, N), "dose": random.integers(0, 60, N)}
    found = begun(
        tmp_path / "a",
        trial(**{name: pl.Series(values) for name, values in more.items()}),
        event="status",
        horizon=200,
        trial=False,
    )
    named = {one.split("'")[1] for one in found.draft.decide}
    assert {"x", "rtime", "recur", "age at entry"} <= named
    assert any("'entry: age at entry' beside 'time'" in one for one in found.draft.decide)
    assert {"age", "year", "dose"} <= set(found.draft.taken)
    assert not {"row", "x", "rtime", "recur"} & set(found.draft.taken)


def test_an_event_that_none_has_before_the_horizon_is_asked_about(tmp_path: Path) -> None:
    """A column that says 1 where follow-up was censored was read as if nobody had died, without a word."""
    frame = trial(status=pl.Series([int(i % 3 == 0) for i in range(N)]))
    frame = frame.with_columns(days=pl.when(pl.col("status") == 1).then(200 + pl.col("days")).otherwise(pl.col("days")))
    asked = {"event": "status", "horizon": 100.0}
    told = "no row of 'status' has an event before the horizon 100, as 0 is read as censored: --censored '1'"
    with pytest.raises(StudyError, match=told):
        begun(tmp_path / "a", frame, **asked)
    assert not (tmp_path / "a/out").exists()
    begun(tmp_path / "b", frame, **asked, censored="1")
