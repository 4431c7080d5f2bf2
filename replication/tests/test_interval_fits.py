"""Intervals read off one fit: against the production stage, against draws, and by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.tasks.estimate.papers.aipw_asymptotic import stages
from causalveil.tasks.estimate.papers.aipw_asymptotic.influence import InfluenceMoments
from causalveil_replication.schroeder2025 import fits
from causalveil_replication.schroeder2025.data import DATASET_1, TRIAL, draw, rows_of
from causalveil_replication.schroeder2025.grouped import GROUPS, _group, grouped_difference
from causalveil_replication.schroeder2025.moments import (
    BOOTSTRAP,
    NAIVE,
    PRIVATE,
    STANDARD,
    VALID,
    FitMoments,
    coverage,
    effect_noise,
    half_width,
    moments,
)
from causalveil_replication.schroeder2025.networks import STEPS, StepRun, step_rows, step_runs
from causalveil_replication.schroeder2025.page_fits import draw_fits, page_fits
from causalveil_replication.schroeder2025.runs import DIFFERENCE, KERNEL, NETWORK, study_of

ONE = FitMoments(0, 3_000, 1.02, 1.5, 8.0, 62.5, 2.5, -0.4)


def test_a_fit_is_the_production_codes_and_its_interval_the_stages() -> None:
    """With the variance's draw as it fell, half the width is that of equations 15 and 16 in the production code."""
    study = study_of(DATASET_1.document(), KERNEL, 300, "0.5", "1e-5")
    assert isinstance(study, AipwStudy)
    found = moments(study, rows_of(study, draw(DATASET_1, 300, 3)), 3)
    assert 0 < found.attained <= found.gamma
    effect, variance = stages.mechanisms(study, 300)
    sigma2 = max(0.0, found.sigma2 + found.gamma_s * variance.known_scale * found.normal_variance)
    exact = InfluenceMoments(300, found.tau, found.sigma2, found.gamma, found.gamma_s)
    interval = stages.findings(study, exact, (found.tau, sigma2)).interval
    assert half_width(PRIVATE, found, 0.95, 0.5) == pytest.approx((interval.upper - interval.lower) / 2, rel=1e-6)
    assert effect_noise(found, 0.5) == pytest.approx(found.gamma * effect.known_scale, rel=1e-6)
    with pytest.raises(TypeError):
        moments(study_of(TRIAL.document(), DIFFERENCE, 300, "0.5", "1e-5"), rows_of(study, draw(DATASET_1, 300, 3)), 0)


def test_widths_by_hand() -> None:
    z = stats.norm.ppf(0.95)
    rate = 5 * math.sqrt(2 * math.log(3_000) * math.log(2 / 0.9e-5)) / (0.45 * 3_000)
    standard = z * math.sqrt(1.5 / 3_000)
    assert half_width(STANDARD, ONE, 0.9, 0.5) == half_width(NAIVE, ONE, 0.9, 0.5) == pytest.approx(standard)
    valid = half_width(VALID, ONE, 0.9, 0.5)
    assert valid == pytest.approx(z * math.sqrt(1.5 / 3_000 + (8 * rate) ** 2))
    assert half_width(VALID, ONE, 0.9, 0.5, own=True) == pytest.approx(z * math.sqrt(1.5 / 3_000 + (2.5 * rate) ** 2))
    # A negative draw took all of the sampling variance away.
    assert half_width(PRIVATE, ONE, 0.9, 0.5) == pytest.approx(z * 8 * rate)
    assert half_width(BOOTSTRAP, ONE, 0.9, 0.5) > 15 * valid


def test_the_network_of_productions_step_is_productions() -> None:
    study = study_of(DATASET_1.document(), NETWORK, 300, "0.5", "1e-5")
    found = moments(study, rows_of(study, draw(DATASET_1, 300, 3)), 3)
    ours, longer = (step_runs(DATASET_1, 300, step, (3,))[0] for step in STEPS)
    assert ours.tau == pytest.approx(found.tau, rel=1e-9)
    assert ours.error == pytest.approx(math.sqrt(found.sigma2 / 300), rel=1e-9)
    assert longer.tau != ours.tau
    rows = step_rows(DATASET_1, 0.01, [StepRun(0, 1.1, 0.1), StepRun(1, 1.15, 0.1)])
    assert [row["coverage"] for row in rows] == [0.5, 1, 1], "1 and 1.5 errors off; 1.28 at 80%"
    assert (rows[0]["bias"], rows[0]["bias_error"]) == (0.125, 0.025)


def test_no_variance_makes_an_interval_narrower_than_the_effects_noise() -> None:
    rows = fits.variance_rows("x", [ONE, ONE._replace(normal_variance=2.0)])
    assert [row["epsilon"] for row in rows] == list(fits.VARIANCE_EPSILONS)
    for row in rows:
        assert row["variance_of_zero"] < row["exact_variance"] < row["half_width"]
    rate = 5 * math.sqrt(2 * math.log(3_000) * math.log(2 / 1e-5)) / (0.5 * 3_000)
    assert rows[1]["variance_of_zero"] == pytest.approx(stats.norm.ppf(0.975) * 8 * rate, rel=1e-3)
    assert fits.variance_rows("x", []) == []


def test_coverage_is_that_of_draws() -> None:
    """200,000 draws of seed 1; a standard error is at most 0.0012, and five of them fail once in 1.7e6."""
    noise = effect_noise(ONE, 0.5)
    drawn = np.random.default_rng(1).normal(ONE.tau, noise, 200_000)
    for kind in (NAIVE, VALID, PRIVATE):
        share = float(np.mean(np.abs(drawn - 1) <= half_width(kind, ONE, 0.8, 0.5)))
        assert coverage(kind, ONE, 0.8, 0.5, 1.0) == pytest.approx(share, abs=5 * 0.0012)
    assert coverage(STANDARD, ONE, 0.8, 0.5, 1.0) == 1
    assert coverage(STANDARD, ONE._replace(tau=1.2), 0.8, 0.5, 1.0) == 0


def test_a_unit_moves_one_group() -> None:
    """Whatever one unit becomes, its group's difference moves by 2 W at most and its variance by W^2/2."""
    random = np.random.default_rng(2)
    for _ in range(200):
        size = int(random.integers(2, 9))
        t, y = random.integers(0, 2, size).astype(float), random.integers(0, 2, size) * 3.0
        before = _group(t, y, 3.0)
        t[0], y[0] = random.integers(0, 2), random.integers(0, 2) * 3.0
        after = _group(t, y, 3.0)
        assert abs(before[0] - after[0]) <= 6
        assert abs(before[1] - after[1]) <= 4.5
        assert 0 <= after[1] <= 4.5
    answers = grouped_difference(TRIAL, 1_000, "0.5", 4)
    assert answers == grouped_difference(TRIAL, 1_000, "0.5", 4)
    assert [one.level for one in answers] == [0.8, 0.9, 0.95]
    noise = 2 * 2 * (TRIAL.bounds[1] - TRIAL.bounds[0]) / GROUPS / 0.25
    assert answers[2].upper - answers[2].lower >= 2 * 1.95 * math.sqrt(2) * noise / 2


def test_rows_of_the_tables_and_a_page_with_and_without_patients(tmp_path: Path) -> None:
    some = [ONE._replace(run=run, tau=1 + run / 100) for run in range(3)]
    rows = fits.column_rows(DATASET_1, KERNEL, some)
    assert [row["column"] for row in rows[::3]] == ["standard", "naive", "naive, half of epsilon", "private"]
    assert rows[3]["coverage"] > rows[6]["coverage"], "more noise, less coverage of an interval that forgets it"
    levels = fits.level_rows(some)
    assert len(levels) == 3 * 3 * 4
    own = {row["method"]: row["half_width"] for row in levels[:4]}
    assert own["valid naive, gamma over the patients"] < own["valid naive"]
    utility = {(r["weight"], r["epsilon"], r["method"]): r["utility"] for r in fits.utility_rows(some)}
    width = half_width(NAIVE, ONE, 0.95, 0.5)
    assert utility[0.25, 0.5, NAIVE] == pytest.approx(0.75 * (1 - width / 2.5), abs=1e-4)
    private = np.mean([half_width(PRIVATE, one, 0.95, 2.0) for one in some])
    assert utility[0.5, 2.0, PRIVATE] == pytest.approx(0.5 * (1 - private / 2.5), abs=1e-4), (
        "epsilon 2: no privacy left"
    )
    sizes = {(method, units): some for method in (KERNEL, NETWORK) for units in fits.UNITS}
    widths = [row for row in fits.width_rows(sizes, few=2) if row["method"] == "standard"]
    assert {(row["units"], row["runs"]) for row in widths} == {(units, 3) for units in fits.UNITS}
    tables = {
        "interval-columns": rows,
        "interval-widths": widths,
        "interval-utility": fits.utility_rows(some),
        "interval-grouped": fits.grouped_rows(5),
        "interval-rhc-levels": levels,
        "interval-network": step_rows(DATASET_1, 0.01, [StepRun(0, 1.1, 0.1), StepRun(1, 1.2, 0.1)]),
        "interval-variance": fits.variance_rows("x", some),
    }
    pictures = draw_fits(tmp_path, tables)
    assert "Table 2" in "".join(page_fits(tables, pictures))
    assert "## Table 2" not in "".join(page_fits({**tables, "interval-rhc-levels": []}, pictures))
