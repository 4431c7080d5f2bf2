"""Risk ratios and odds ratios of a trial: Fieller's intervals hold the noise of both arms, or say they have no end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.api import report, run_study
from causalveil.flows.run.check import check
from causalveil.schemas.questions import ALL_UNITS
from causalveil.schemas.release import EffectRelease, load_release
from causalveil.schemas.studies import parse_study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.estimate.answers import Risks, fieller, over_all
from causalveil.tasks.report.table import rows_of
from tests.protocol_help import analysed, in_cells, make_protocol
from tests.studies import command, people, resolved, write_study

EVENT: dict[str, Any] = {"name": "y0", "lower": 0, "upper": 1, "codes": {"no": 0, "yes": 1}, "role": "primary"}
ALL = ["difference", "ratio", "odds_ratio"]


def trial(groups: int = 1, epsilon: str = "1", **changes: Any) -> EffectStudy:
    study = make_protocol(1, 1, groups, name="difference_in_means", trial=True, epsilon=epsilon)
    made = parse_study(study.model_dump() | {"outcomes": [EVENT], "measure": ALL} | changes)
    assert isinstance(made, EffectStudy)
    return made


def events(n: int, risks: tuple[float, float], groups: int, seed: int) -> Any:
    random = np.random.default_rng(seed)
    t, g = random.integers(0, 2, n), random.integers(0, groups, n)
    # Risks of both arms are larger from subgroup to subgroup.
    y = random.random(n) < np.array(risks)[1 - t] * (1 + 0.5 * g)
    return in_cells(random.uniform(-1, 1, (n, 1)), t, (2.0 * y - 1)[:, None], g)


@pytest.mark.parametrize(
    ("n", "risks", "groups", "epsilon"),
    [(8_000, (0.06, 0.03), 1, "0.5"), (4_000, (0.5, 0.4), 1, "1"), (12_000, (0.2, 0.1), 2, "0.7")],
    ids=["noise rules", "sampling rules", "subgroups"],
)
def test_intervals_cover_as_often_as_they_say(n: int, risks: tuple[float, float], groups: int, epsilon: str) -> None:
    """300 seeded runs; fewer than 271 of them cover once in 1,000 tests of an interval whose coverage is .95."""
    study = trial(groups, epsilon)
    factor = np.mean([1 + 0.5 * g for g in range(groups)])
    one, other = risks[0] * factor, risks[1] * factor
    truth = {"ratio": one / other, "odds_ratio": one * (1 - other) / (other * (1 - one))}
    held = {"difference": 0, "ratio": 0, "odds_ratio": 0}
    for seed in range(300):
        answer = analysed(study, events(n, risks, groups, seed), seed).answers[0]
        assert answer.group == ALL_UNITS
        assert answer.interval is not None
        held["difference"] += answer.interval.lower <= one - other <= answer.interval.upper
        for found in answer.measures:
            true = truth[found.measure]
            held[found.measure] += found.lower <= true and (found.upper is None or true <= found.upper)
    assert min(held.values()) >= 271, held


def test_two_arms_with_a_rare_event_have_errors_that_depend_on_each_other() -> None:
    """Counts share noise where they add up to n: 600 seeded runs, of which fewer than 552 cover once in 1,000 tests."""
    study, held = make_protocol(1, 1, name="difference_in_means", trial=True, epsilon="0.2"), 0
    for seed in range(600):
        (answer,) = analysed(study, events(8_000, (0.02, 0.02), 1, seed), seed).answers
        assert answer.interval is not None
        held += answer.interval.lower <= 0 <= answer.interval.upper
    assert held >= 552, held


def test_fieller_holds_what_the_test_does_not_reject() -> None:
    """On a fine grid of ratios: inside the interval, unless it was filled up to be one."""
    random, grid = np.random.default_rng(3), np.linspace(0, 40, 4_001)
    for _ in range(300):
        top, bottom = random.uniform(0, 1, 2)
        root = random.normal(size=(2, 2)) * random.choice([0.05, 0.3, 1.0])
        v = root @ root.T
        lower, upper = fieller(top, bottom, v, 1.96)
        rest = (top - grid * bottom) ** 2 - 1.96**2 * (v[0, 0] - 2 * grid * v[0, 1] + grid**2 * v[1, 1])
        kept = grid[rest <= 0]
        assert np.all(kept >= lower - 1e-9)
        assert upper is None or np.all(kept <= upper + 1e-9)
        if upper is not None:
            inside = grid[(grid > lower) & (grid < upper)]
            assert np.isin(inside, kept).all()


def test_without_a_reference_there_is_no_upper_end() -> None:
    nothing = Risks((0.4, 0.0), np.diag([1e-4, 1e-4]))
    for measure in trial().ratios:
        found = nothing.answer(measure, 0.95)
        assert found.estimate is None
        assert found.upper is None
        assert found.lower > 1
        assert "no upper end" in found.words
    assert over_all([], 1.0) is None


def test_a_hidden_subgroup_leaves_no_ratio_over_everybody() -> None:
    rows = events(4_000, (0.5, 0.4), 1, 0)
    few = in_cells(rows.x[:, :1], rows.t, rows.u, np.arange(4_000) < 20)
    answers = analysed(trial(2), few).answers
    assert [bool(answer.measures) for answer in answers] == [False, True, False]


STUDY: dict[str, Any] = {
    "estimator": {"penalty": ..., "name": "difference_in_means", "trial": True},
    "privacy": {"epsilon": "5"},
    "outcome": {"name": "event", "lower": ..., "upper": ...},
    "measure": ALL,
}
CONTRACT: dict[str, Any] = {
    "estimators": ["difference_in_means", "regression", "aipw", "balancing"],
    "columns": {"event": {"codes": {"no": 0, "yes": 1}, "nulls": "indicator"}},
}


def study_in(folder: Path, contract: dict[str, Any] | None = None, **changes: Any) -> Path:
    frame = people(4_000).with_columns(event=(pl.col("score") > 4).cast(pl.Int8))
    return write_study(folder, frame=frame, study={"missing_outcome": "lower"} | STUDY | changes, contract=CONTRACT)


@pytest.mark.parametrize("estimator", ["difference_in_means", "auto"])
def test_a_trial_shows_its_ratios(estimator: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = study_in(tmp_path / "study", estimator={"penalty": ..., "name": estimator, "trial": True})
    assert check(path) == []
    assert command("run", path, "--engine", "direct", "--out", tmp_path / "out") == 0
    shown = capfd.readouterr().out
    assert "risk ratio" in shown
    assert "odds ratio" in shown
    release = load_release(tmp_path / "out")
    assert isinstance(release, EffectRelease)
    (row,) = rows_of(release)
    assert float(row["ratio_lower"]) < float(row["ratio"]) < float(row["ratio_upper"])
    page = report(tmp_path / "out" / "release.json", out=tmp_path / "report.html").read_text()
    assert "Ratios of arms" in page


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"estimator": {"name": "regression"}}, "does not release arm means with their errors|does not release"),
    ({"estimator": {"name": "aipw", "guarantee": "asymptotic"}}, "use {name: difference_in_means, trial: true}"),
    ({"estimator": {"name": "difference_in_means", "trial": False}}, "in a randomised trial alone"),
    ({"outcome": "score"}, "compares shares of an outcome of two values"),
    ({"missing_outcome": "middle"}, "write 'lower' or 'upper'"),
    ({"measure": ["hazard"]}, "'measure.0'"),
    ({"measure": ["ratio", "ratio"]}, "names one twice"),
    ({"estimator": {"name": "auto"}}, "{name: auto, trial: true}"),
]


@pytest.mark.parametrize(("changes", "told"), REFUSED)
def test_what_has_no_ratio_says_what_has_one(changes: dict[str, Any], told: str, tmp_path: Path) -> None:
    changed = {
        key: ({"penalty": ..., "trial": ...} | one if key == "estimator" else one) for key, one in changes.items()
    }
    path = study_in(tmp_path / "study", **changed)
    problems = [one.text for one in check(path)]
    assert any(part in text for text in problems for part in told.split("|")), problems


def test_the_difference_alone_is_the_plain_study(tmp_path: Path) -> None:
    plain = resolved(study_in(tmp_path / "plain", measure=...))
    for said in ("difference", ["difference"]):
        assert resolved(study_in(tmp_path / "said", measure=said)).digest == plain.digest
    found = run_study(study_in(tmp_path / "ratio", measure="ratio"), out=tmp_path / "out", engine="direct").release
    assert isinstance(found, EffectRelease)
    assert [one.measure for one in found.answers[0].measures] == ["ratio"]
