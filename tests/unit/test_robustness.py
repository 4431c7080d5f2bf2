"""The strength of an unmeasured confounder: formulas held to least squares, and what is read off a release."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import causalveil
from causalveil.flows.run.estimators import rehearse_effect
from causalveil.schemas.answers import Benchmark, Limits, Possible, robustness_value
from causalveil.schemas.contradictions import contradictions
from causalveil.schemas.errors import StudyError
from causalveil.schemas.release import EffectRelease
from causalveil.tasks.estimate.robustness import (
    _units_of,
    as_strong,
    e_value,
    explained,
    extreme_value,
    largest_bias,
    robustness,
)
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.report.page import report_html
from causalveil.tasks.report.panel import panel_text
from causalveil.tasks.report.robustness import (
    NO_ANSWER,
    NOISE_HIDES,
    ContourPlot,
    SensitivityAnalysis,
    benchmark_rows,
    robustness_line,
    robustness_sentences,
)
from tests.golden_studies import direction
from tests.regression_help import in_rows, make_regression
from tests.studies import command

ROOT = Path(__file__).parents[2]


def test_a_confounder_of_the_robustness_value_moves_the_effect_to_nothing() -> None:
    for effect, scale in ((0.3, 1.0), (-2.0, 7.0), (5.0, 0.4)):
        value = robustness_value(effect, scale)
        assert largest_bias(scale, value, value) == pytest.approx(abs(effect))
        assert largest_bias(scale, 1.0, extreme_value(effect, scale)) == pytest.approx(abs(effect))
    assert robustness_value(0.0, 1.0) == 0
    assert robustness_value(1e9, 1.0) == pytest.approx(1)


def test_the_bound_is_the_bias_that_leaving_a_column_out_has() -> None:
    """Least squares with and without a column: the difference of slopes is S sqrt(R2_Y R2_T/(1 - R2_T)) exactly."""
    random = np.random.default_rng(3)
    x, z = random.normal(size=(2, 5_000))
    t = 0.5 * x + 0.4 * z + random.normal(size=5_000)
    y = t + x + 0.7 * z + random.normal(size=5_000)

    def left(of: np.ndarray, *columns: np.ndarray) -> np.ndarray:
        design = np.column_stack([np.ones(5_000), *columns])
        return np.asarray(of - design @ np.linalg.lstsq(design, of, rcond=None)[0])

    def slope(*columns: np.ndarray) -> float:
        return float(left(t, *columns) @ y / (left(t, *columns) ** 2).sum())

    short, all_left = left(y, t, x), left(y, t, x, z)
    outcome = 1 - (all_left**2).sum() / (short**2).sum()
    treatment = 1 - (left(t, x, z) ** 2).sum() / (left(t, x) ** 2).sum()
    scale = np.sqrt((short**2).mean() / (left(t, x) ** 2).mean())
    assert largest_bias(float(scale), float(outcome), float(treatment)) == pytest.approx(abs(slope(x) - slope(x, z)))


def test_of_a_release() -> None:
    found = robustness(-2.0, Limits(lower=-3.0, upper=-1.0), 0.95, (0.2, 0.1), 10_000)
    assert found is not None
    assert found.scale == pytest.approx(20.0)
    # The interval allows for more than sampling and noise: the upper end of S has the rest.
    assert found.upper == pytest.approx(100 * np.sqrt((1 / 1.959964) ** 2 - 0.01), rel=1e-6)
    assert 0 < found.near_end < found.value < 1
    assert largest_bias(found.upper, found.near_end, found.near_end) == pytest.approx(1)


def test_an_interval_that_holds_nothing_has_nothing_to_explain_away() -> None:
    found = robustness(0.5, Limits(lower=-0.2, upper=1.2), 0.95, (0.2, 0.1), 100)
    assert found is not None
    assert found.near_end == 0
    assert robustness(0.5, Limits(lower=0.2, upper=0.8), 0.95, (0.0, 0.1), 100) is None


def test_numbers_of_sensemakr_on_darfur() -> None:
    """Cinelli and Hazlett 2020, table 1: .097 with a standard error of .023 on 783 degrees; being female."""
    scale = 0.0232 * 783**0.5
    assert robustness_value(0.0973, scale) == pytest.approx(0.139, abs=5e-4)
    assert extreme_value(0.0973, scale) == pytest.approx(0.022, abs=5e-4)
    for times, shares in ((1, (0.1246, 0.0092)), (2, (0.2493, 0.0183)), (3, (0.3741, 0.0275))):
        assert as_strong((0.1092, 0.0091), times) == pytest.approx(shares, abs=1e-3)
    assert as_strong((0.1, 0.4), 2) is None
    assert as_strong((1.0, 0.1), 1) is None


def test_shares_of_draws_are_those_of_least_squares() -> None:
    """Partial R2 of a covariate by leaving its columns out of a regression on the same moments, two of it together."""
    random = np.random.default_rng(4)
    x = random.normal(size=(400, 4)) @ random.normal(size=(4, 4))
    y = x @ random.normal(size=4) + random.normal(size=400)
    x, y = x - x.mean(axis=0), y - y.mean()
    owner = np.array([0, 1, 1, -1])
    found = explained((x.T @ x)[None], (x.T @ y)[None], np.array([y @ y]), owner, 3)[:, 0]

    def left(keep: np.ndarray) -> float:
        return float(((y - x[:, keep] @ np.linalg.lstsq(x[:, keep], y, rcond=None)[0]) ** 2).sum())

    expected = [1 - left(np.ones(4, dtype=bool)) / left(owner != place) for place in (0, 1)]
    assert found == pytest.approx([*expected, 0.0])


def test_e_values_are_those_that_are_published() -> None:
    """Maternal infections of VanderWeele and Ding 2017: a risk ratio of 3.9 and of 1.8 at the near end."""
    assert e_value(3.9) == pytest.approx(7.26, abs=0.005)
    assert e_value(1.8) == pytest.approx(3.0, abs=0.005)
    assert e_value(1 / 3.9) == pytest.approx(e_value(3.9))
    assert e_value(1.0) == 1


def ran(folder: Path, study: str) -> EffectRelease:
    release = causalveil.run(ROOT / study, simulate=1, engine="direct", out=folder).release
    assert isinstance(release, EffectRelease)
    return release


@pytest.fixture(scope="module")
def fertility(tmp_path_factory: pytest.TempPathFactory) -> tuple[EffectRelease, Path]:
    folder = tmp_path_factory.mktemp("fertility") / "out"
    return ran(folder, "data/fertility/study.yaml"), folder


def test_page_command_and_python_say_it(
    fertility: tuple[EffectRelease, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    release, folder = fertility
    said = causalveil.sensitivity(release, outcome=0.02, treatment=0.02)
    assert said.robustness is not None
    assert said.widened is not None
    assert release.interval is not None
    assert said.widened[0] < release.interval.lower < release.interval.upper < said.widened[1]
    page = unescape(report_html(release))
    assert all(sentence in page for sentence in robustness_sentences(release))
    assert "The estimate with an unmeasured confounder" in page
    assert str(robustness_line(release)) in panel_text(release)
    like_age = causalveil.sensitivity(release, like="age", times=2)
    for words, code, expected in (
        (["--outcome", "0.02", "--treatment", "0.02"], 0, said),
        (["--like", "age", "--times", "2"], 0, like_age),
        (["--outcome", "0.02"], 2, None),
        (["--like", "shoe_size"], 2, None),
        (["--like", "age", "--times", "200"], 2, None),
        (["--like", "age", "--outcome", "0.02", "--treatment", "0.02"], 2, None),
    ):
        assert command("sensitivity", folder, *words, "--json") == code
        shown = json.loads(capfd.readouterr().out)
        if expected is not None and expected.widened is not None:
            assert (shown["widened"], shown["sentences"]) == (list(expected.widened), list(expected.sentences))


def test_fertility_as_least_squares_has_it_without_noise(fertility: tuple[EffectRelease, Path]) -> None:
    """Without privacy: robustness value .1306, of the near end .1272; age .0169 and .0115, ethnicity .0146 and .0093.

    Epsilon 1, seed 1. Values within 5 %; the 90 % intervals of both covariates' shares, widened by a tenth.
    """
    release, _ = fertility
    found = release.answers[0].robustness
    assert found is not None
    assert (found.value, found.near_end) == pytest.approx((0.1306, 0.1272), rel=0.05)
    shares = {one.covariate: one for one in release.benchmarks}
    for name, outcome, treatment in (("age", 0.0169, 0.0115), ("ethnicity", 0.0146, 0.0093)):
        for share, truth in ((shares[name].outcome, outcome), (shares[name].treatment, treatment)):
            assert 0.9 * share.low <= truth <= 1.1 * share.high


def test_shares_stand_by_the_covariate_that_has_them() -> None:
    """20,000 people, epsilon 1: of names that are not in order the last one drives both arms and outcome."""
    random, names = np.random.default_rng(5), ("late", "early", "middle")
    z = random.uniform(-1, 1, (20_000, 3))
    t = random.random(20_000) < 0.5 + 0.3 * z[:, 2]
    u = np.clip(0.3 * z[:, 2] + 0.1 * t + random.normal(0, 0.2, 20_000), -1, 1)
    study = make_regression(3)
    study = study.model_copy(update={"covariates": dict(zip(names, study.covariates.values(), strict=True))})
    # Rows stand in the order of names: early, late, middle.
    found = rehearse_effect(study, in_rows(z[:, [1, 0, 2]], t, u), RehearsalBudget(1))
    shares = {one.covariate: one for one in found.benchmarks}
    assert set(shares) == set(names)
    assert shares["middle"].outcome.low > 0.2
    assert shares["middle"].treatment.low > 0.05
    assert max(shares[name].outcome.high for name in ("late", "early")) < 0.05


def test_a_covariate_that_noise_hides_is_told_so(fertility: tuple[EffectRelease, Path]) -> None:
    release, _ = fertility
    wide = Possible(low=0.0, median=0.01, high=0.1)
    grey = release.model_copy(update={"benchmarks": (Benchmark(covariate="age", outcome=wide, treatment=wide),)})
    assert NOISE_HIDES in robustness_sentences(grey)
    assert [one.moves for one in benchmark_rows(grey)] == [""]
    plot = ContourPlot.of(grey)
    assert plot is not None
    assert [(mark.hidden, mark.name) for mark in plot.marks] == [(True, "")]
    assert ">hidden by noise<" in report_html(grey)


def test_a_robustness_that_is_not_the_estimate_s_contradicts_it(fertility: tuple[EffectRelease, Path]) -> None:
    release, _ = fertility
    answer = release.answers[0]
    assert answer.robustness is not None
    wrong = answer.model_copy(update={"robustness": answer.robustness.model_copy(update={"value": 0.2})})
    assert list(contradictions(release)) == []
    assert "robustness" in " ".join(contradictions(release.model_copy(update={"answers": (wrong,)})))


def test_nothing_is_said_in_a_trial_and_no_other_document_is_taken(tmp_path: Path) -> None:
    trial = ran(tmp_path / "trial", "data/lalonde/study-difference.yaml")
    assert causalveil.sensitivity(trial) == SensitivityAnalysis(None, (NO_ANSWER,))
    assert causalveil.sensitivity(trial, like="age") == SensitivityAnalysis(None, (NO_ANSWER,))
    assert robustness_line(trial) is None
    assert "Unmeasured confounding." not in report_html(trial)
    with pytest.raises(StudyError, match="of effects of one run"):
        causalveil.sensitivity(direction({})(tmp_path / "way", 1))
    with pytest.raises(StudyError, match="from 0 to below 1"):
        causalveil.sensitivity(trial, outcome=0.5, treatment=1.0)


def test_units_of_a_subgroup_are_not_those_of_one_whose_label_begins_alike() -> None:
    study: Any = SimpleNamespace(known_units=False, groups=("a", "a][b"), arm_names=("0", "1"))
    findings: Any = SimpleNamespace(
        clusters=None, details={"units[a][0]": 60.0, "units[a][1]": 40.0, "units[a][b]": 50.0}
    )
    counts = [_units_of(study, findings, cast(Any, SimpleNamespace(group=group)), 0) for group in study.groups]
    assert counts == [100.0, 50.0]
