"""Intervals without a normal approximation: they hold for scores that no normal resembles, and say so."""

from __future__ import annotations

import math

import numpy as np
import pytest

from causalveil.flows.api import run_study
from causalveil.schemas.errors import StudyError
from causalveil.schemas.privacy import Coverage
from causalveil.schemas.release import load_release
from causalveil.tasks.estimate.interval import Noise
from causalveil.tasks.estimate.papers.aipw.stages import bernstein_half_width as half_width
from tests.aipw_help import analysed, confounded, make_aipw
from tests.limits import codes
from tests.studies import write_study

SILENT = Noise(0.0)


def by_folds(folds: list[np.ndarray], confidence: float) -> float:
    """The inequality written down for each fold's exact scores, and added up."""
    units = sum(map(len, folds))
    bound = math.log(4 * len(folds) / ((1 - confidence) * 0.5))
    return sum(
        len(v) / units * (math.sqrt(2 * v.var(ddof=1) * bound / len(v)) + 14 * bound / (3 * (len(v) - 1)))
        for v in folds
    )


def sums(folds: list[np.ndarray]) -> np.ndarray:
    v = np.concatenate(folds)
    return np.array([v.sum(), v @ v])


@pytest.mark.parametrize("seed", range(20))
def test_pooled_sums_never_ask_for_less_than_the_folds_themselves(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = [60, 61, 61][: 2 + seed % 2]
    folds = [np.clip(random.normal(random.uniform(-1, 1), 0.3, size), -1, 1) for size in sizes]
    found = half_width(sums(folds), SILENT, sizes, 0.9)
    assert min(2.0, by_folds(folds, 0.9)) <= found * (1 + 1e-12)
    alike = [folds[0]] * 2
    assert half_width(sums(alike), SILENT, [60, 60], 0.9) == pytest.approx(min(2.0, by_folds(alike, 0.9))), "no slack"


@pytest.mark.parametrize("noise", [SILENT, Noise(3.0), Noise(2.0, 1.5)])
def test_rare_scores_are_covered_where_a_normal_interval_is_not(noise: Noise) -> None:
    """One score in 250 is 1, the others -1; 4,000 runs of 100 units, half of which hold no rare one. Seeded."""
    random = np.random.default_rng(5)
    truth, runs, hits, normal = 2 / 250 - 1, 4_000, 0, 0
    for _ in range(runs):
        v = np.where(random.random(100) < 1 / 250, 1.0, -1.0)
        spread = noise.scale * (1.0 if noise.mixing is None else math.sqrt(random.gamma(noise.mixing, 2)))
        released = np.array([v.sum(), v @ v]) + spread * random.normal(0, 1, 2)
        half = half_width(released, noise, [50, 50], 0.95)
        hits += abs(released[0] / 100 - truth) <= half
        normal += abs(v.mean() - truth) <= 1.96 * v.std(ddof=1) / 10
    assert hits / runs >= 0.95
    assert normal / runs < 0.6, "test of the test"


def test_widths_shrink_with_units_and_never_exceed_the_range() -> None:
    widths = [half_width(np.array([0.0, 0.04 * n]), SILENT, [n // 2] * 2, 0.95) for n in (4, 1_000, 10**5, 10**7)]
    assert widths[0] == 2.0
    assert widths == sorted(widths, reverse=True)
    # In the limit sqrt(2 K L) standard errors.
    assert widths[-1] == pytest.approx(math.sqrt(4 * math.log(8 / 0.025)) * 0.2 / math.sqrt(10**7), rel=0.02)
    assert half_width(np.array([0.0, 1.0]), SILENT, [1, 2], 0.95) == 2.0
    loose = half_width(np.array([0.0, 40.0]), SILENT, [500, 500], 0.95, rounding=10.0)
    assert loose > half_width(np.array([0.0, 40.0]), SILENT, [500, 500], 0.95) + 0.01


def test_a_trial_may_ask_for_it_and_the_release_says_so(tmp_path: object) -> None:
    known = {"known": 0.5}
    rows, _ = confounded(4_000, seed=2, strength=0.0)
    plain = analysed(make_aipw(), rows)
    found = analysed(make_aipw(coverage="finite_sample"), rows)
    assert (plain.estimate, plain.variance) == (found.estimate, found.variance)
    assert plain.interval.coverage is Coverage.normal_approximation
    assert found.interval.coverage is Coverage.finite_sample
    wider = (found.interval.upper - found.interval.lower) / (plain.interval.upper - plain.interval.lower)
    assert 1 < wider < 6
    assert found.interval.lower <= 1.0 <= found.interval.upper
    estimator = {"name": "aipw", "penalty": ..., "propensity": known, "coverage": "finite_sample"}
    path = write_study(tmp_path / "study", study={"estimator": estimator}, contract={"estimators": ["aipw"]})
    release = load_release(run_study(path, out=tmp_path / "out", engine="direct").path)
    assert release.interval.coverage is Coverage.finite_sample
    assert codes(release.interval.covers) == ["sampling", "noise_of_estimate", "noise_of_variance"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"propensity": {}}, "needs a known chance"),
        ({"guarantee": "asymptotic"}, "belongs to guarantee 'finite_sample'"),
    ],
)
def test_where_it_would_promise_too_much_it_is_refused(changes: dict[str, object], told: str) -> None:
    model = {"outcome_model": {"model": "kernel_ridge"}} if "guarantee" in changes else {}
    with pytest.raises(StudyError, match=told):
        make_aipw(coverage="finite_sample", **changes, **model)
