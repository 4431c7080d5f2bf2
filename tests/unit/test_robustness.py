"""The strength of an unmeasured confounder: formulas held to least squares, and what is read off a release."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path

import numpy as np
import pytest

import causalveil
from causalveil.flows.cli.main import main
from causalveil.schemas.errors import StudyError
from causalveil.schemas.limits import Code, limit
from causalveil.schemas.privacy import Coverage
from causalveil.schemas.release import EffectRelease, Interval, Variance
from causalveil.tasks.estimate.robustness import Robustness, e_value, extreme_value, largest_bias, robustness_value
from causalveil.tasks.report.page import report_html
from causalveil.tasks.report.robustness import NO_ANSWER, SensitivityAnalysis, robustness_sentences

ROOT = Path(__file__).parents[2]


def interval(lower: float, upper: float, *, whole: bool = False) -> Interval:
    covers = (limit(Code.sampling),)
    told = {"confidence": 0.95, "covers": covers, "coverage": Coverage.normal_approximation, "whole_range": whole}
    return Interval(lower=lower, upper=upper, **told)


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
    found = Robustness.of(-2.0, interval(-3.0, -1.0), Variance(sampling=0.04, noise=0.01), 10_000)
    assert found is not None
    assert found.scale == pytest.approx(20.0)
    # The interval allows for more than sampling and noise: the upper end of S has the rest.
    assert found.upper == pytest.approx(100 * np.sqrt((1 / 1.959964) ** 2 - 0.01), rel=1e-6)
    assert 0 < found.near_end < found.value < 1
    assert found.beside(interval(-3.0, -1.0), found.near_end, found.near_end)[1] == pytest.approx(0)


def test_an_interval_that_holds_nothing_has_nothing_to_explain_away() -> None:
    found = Robustness.of(0.5, interval(-0.2, 1.2), Variance(sampling=0.04, noise=0.01), 100)
    assert found is not None
    assert found.near_end == 0
    assert Robustness.of(0.5, interval(-4, 4, whole=True), Variance(sampling=1.0, noise=1.0), 100) is None
    assert Robustness.of(0.5, interval(0.2, 0.8), Variance(sampling=0.0, noise=0.1), 100) is None


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


def test_page_command_and_python_say_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    release = ran(tmp_path / "out", "data/fertility/study.yaml")
    said = causalveil.sensitivity(release, outcome=0.02, treatment=0.02)
    assert said.robustness is not None
    assert said.widened is not None
    assert release.interval is not None
    assert said.widened[0] < release.interval.lower < release.interval.upper < said.widened[1]
    assert all(sentence in unescape(report_html(release)) for sentence in robustness_sentences(release))
    for words, code in ((["--outcome", "0.02", "--treatment", "0.02"], 0), (["--outcome", "0.02"], 2)):
        with pytest.raises(SystemExit) as ended:
            main(["sensitivity", str(tmp_path / "out"), *words, "--json"])
        assert int(ended.value.code or 0) == code
        shown = json.loads(capfd.readouterr().out)
        assert code or (shown["widened"], shown["sentences"]) == (list(said.widened), list(said.sentences))


def test_nothing_is_said_in_a_trial_and_no_other_document_is_taken(tmp_path: Path) -> None:
    trial = ran(tmp_path / "trial", "data/lalonde/study-difference.yaml")
    assert causalveil.sensitivity(trial) == SensitivityAnalysis(None, (NO_ANSWER,))
    assert "If a confounder was missed" not in report_html(trial)
    direction = causalveil.run(ROOT / "data/delays/study.yaml", simulate=1, engine="direct", out=tmp_path / "way")
    with pytest.raises(StudyError, match="of effects of one run"):
        causalveil.sensitivity(direction)
    with pytest.raises(StudyError, match="from 0 to below 1"):
        causalveil.sensitivity(trial, outcome=0.5, treatment=1.0)
