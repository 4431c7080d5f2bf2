"""Weights and exact sums against the textbook formulas, row by row."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from causalveil.flows.run.declare import load_study
from causalveil.schemas.estimators.ipw import FREE_PENALTY, IpwStudy
from causalveil.schemas.privacy import Scope
from causalveil.tasks.data.enclave import MemoryEnclave, Rows, ranks
from causalveil.tasks.data.split import SPLIT, sizes_of
from causalveil.tasks.estimate.models import lattice_sums
from causalveil.tasks.estimate.papers.ipw import weights
from causalveil.tasks.estimate.papers.ipw import weights as weigh
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.privacy.mechanisms import GaussianAnalytic, GaussianClassic, L2Laplace
from tests.ipw_help import ESTIMANDS, cut, make_study, random_rows
from tests.studies import write_study

W = np.array([2.0, -1.0, 0.5, 0.3])


def sums(study: object, rows: Rows, parts: int = 1, workers: int = 1) -> np.ndarray:
    pieces = cut(rows, parts)
    return weigh.exact_sums(study, pieces.__getitem__, len(pieces), len(rows), W, workers)


def textbook_weight(estimand: str, score: float, treated: bool) -> float:
    return {
        "ATE": 1 / score if treated else 1 / (1 - score),
        "ATT": 1 if treated else score / (1 - score),
        "ATC": (1 - score) / score if treated else 1,
    }[estimand]


@pytest.mark.parametrize("estimand", ESTIMANDS)
def test_weights_are_the_textbooks_and_never_above_the_declared_largest(estimand: str) -> None:
    study = make_study(estimand=estimand, clip=(0.2, 0.7))
    scores = np.array([0.2, 0.2, 0.35, 0.5, 0.7, 0.7])
    t = np.array([0, 1, 0, 1, 0, 1], np.uint8)
    found = weigh.weights(study.estimand, scores, t)
    expected = [textbook_weight(estimand, s, bool(a)) for s, a in zip(scores, t, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    treated, control = weigh.largest_weights(study.estimand, study.estimator.clip)
    assert found[t == 1].max() == pytest.approx(treated)
    assert found[t == 0].max() == pytest.approx(control)


@pytest.mark.parametrize("estimand", ESTIMANDS)
@pytest.mark.parametrize("level", ["sample", "training_units"])
def test_hajek_sums_are_those_of_a_loop(estimand: str, level: str) -> None:
    study, rows = make_study(estimand=estimand, level=level), random_rows(500, 4, 1)
    largest = weigh.largest_weights(study.estimand, study.estimator.clip)
    c, expected = weigh.SECOND_MOMENT, np.zeros((2, 5))
    for x, t, u in zip(rows.x, rows.t, rows.u, strict=True):
        score = min(max(float(expit(x @ W)), 0.1), 0.9)
        a = textbook_weight(estimand, score, bool(t)) / largest[0 if t else 1]
        expected[0 if t else 1] += [a * u, a, c * a**2 * u**2, c * a**2 * u, c * a**2]
    np.testing.assert_allclose(sums(study, rows), expected.ravel(), atol=500 * 2.0**-32)


@pytest.mark.parametrize("estimand", ESTIMANDS)
@pytest.mark.parametrize("bounds", [(0, 10), (-3, 1), (2, 5)])
def test_horvitz_thompson_sums_are_those_of_a_loop(estimand: str, bounds: tuple[int, int]) -> None:
    study = make_study(
        estimand=estimand,
        weighting="horvitz_thompson",
        outcome={"lower": bounds[0], "upper": bounds[1]},
    )
    rows, scale = random_rows(300, 4, 2), weigh.horvitz_thompson_scale(study)
    total, squares = 0.0, 0.0
    for x, t, u in zip(rows.x, rows.t, rows.u, strict=True):
        score = min(max(float(expit(x @ W)), 0.1), 0.9)
        weight = textbook_weight(estimand, score, bool(t)) * (1 if t else -1)
        contribution = weight * (study.outcome.middle + u * study.outcome.width / 2)
        assert abs(contribution - scale.middle) <= scale.half * (1 + 1e-12)
        total += contribution
        squares += ((contribution - scale.middle) / scale.half) ** 2
    found = sums(study, rows)
    expected = [(total - 300 * scale.middle) / scale.half, squares]
    np.testing.assert_allclose(found, expected, atol=300 * 2.0**-32)


def test_the_papers_range_is_symmetric_and_ours_is_never_wider() -> None:
    for estimand in ESTIMANDS:
        for outcome in ({"lower": 0, "upper": 10}, {"lower": -8, "upper": 3}):
            ours = make_study(estimand=estimand, weighting="horvitz_thompson", outcome=outcome)
            paper = make_study(
                estimand=estimand,
                weighting="horvitz_thompson",
                outcome=outcome,
                variant="paper",
                epsilon="0.5",
            )
            wide = weigh.horvitz_thompson_scale(paper)
            odds = {"ATE": 10.0, "ATT": 9.0, "ATC": 9.0}[estimand]
            assert wide.half == pytest.approx(max(abs(v) for v in outcome.values()) * odds)
            assert weigh.horvitz_thompson_scale(ours).half <= wide.half * (1 + 1e-12)


@pytest.mark.parametrize("changes", [{}, {"weighting": "horvitz_thompson"}])
def test_sums_depend_on_neither_order_nor_partitions_nor_workers(changes: dict[str, str]) -> None:
    study, rows = make_study(**changes), random_rows(20_001, 4, 3)
    one = sums(study, rows)
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = Rows(rows.x[order], rows.t[order], rows.u[order])
    for other in (sums(study, rows, 5), sums(study, rows, 3, 2), sums(study, shuffled, 7, 2)):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("units", [1, 2, 1000, 2**20, 2**20 + 1, 10**7, 10**12])
def test_sums_on_the_lattice_fit_into_floats(units: int) -> None:
    exponent = lattice_sums.lattice_exponent(units)
    assert units * 2**exponent <= 2**52
    assert exponent == 32 or units * 2 ** (exponent + 1) > 2**51


def test_extreme_rows_stay_within_the_declared_range() -> None:
    rows = Rows(
        np.array([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]] * 2),
        np.array([0, 0, 1, 1], np.uint8),
        np.array([1.0, -1.0, 1.0, -1.0]),
    )
    for estimand in ESTIMANDS:
        for weighting in ("hajek", "horvitz_thompson"):
            study = make_study(estimand=estimand, weighting=weighting, clip=(1e-6, 1 - 1e-6))
            with np.errstate(all="raise", under="ignore"):
                numbers = weigh.contributions(study, rows, np.array([1e6, 0, 0, 0]))
            assert np.all(np.isfinite(numbers))
            assert np.all(np.abs(numbers) <= 1)


def test_the_sensitivity_formulas() -> None:
    n = 4000
    step = 2.0 ** -lattice_sums.lattice_exponent(n // 2)
    c = weigh.SECOND_MOMENT
    for changes, numbers, expected in (
        ({}, 10, math.sqrt(4 + 6 * c**2)),
        ({"weighting": "horvitz_thompson"}, 2, 2.0),
    ):
        study = make_study(**changes)
        value = weigh.sensitivity(study, sizes_of(study, n)).value
        assert value is not None
        assert expected + math.sqrt(numbers) * step <= value <= expected + 1.01 * math.sqrt(numbers) * step + 1e-11
        unknown = weigh.sensitivity(study, None)
        assert unknown.value is None
        assert "n estimation units" in unknown.formula


def test_the_stage_reads_estimation_units() -> None:
    study, rows = make_study(), random_rows(400, 4, 5)
    enclave = MemoryEnclave([{"x": p.x, "t": p.t, "u": p.u, "h": ranks(len(p))} for p in cut(rows, 2)[:2]])
    enclave.save(SPLIT, np.array([[60, 140], [60, 140]]))
    weigh.weigh_stage(study, sizes_of(study, 400), enclave, W)
    kept = np.r_[60:100, 240:400]
    expected = sums(study, Rows(rows.x[kept], rows.t[kept], rows.u[kept]))
    np.testing.assert_array_equal(enclave.load(weigh.SUMS), expected)


# The one draw on the estimation units: what it touches, what it is charged as, how wide it is.
N = 2000


def sums_of(study: object) -> np.ndarray:
    return np.linspace(100, 200, len(weigh.statistic_names(study)))


@pytest.mark.parametrize("weighting", ["hajek", "horvitz_thompson"])
def test_every_entry_gets_noise(weighting: str) -> None:
    study = make_study(weighting=weighting)
    sums, budget = sums_of(study), RehearsalBudget(0)
    released = weights.release(study, sizes_of(study, N), sums, budget)
    assert (released != sums).all()
    assert [(charge.name, charge.scope) for charge in budget.charges] == [("effect", Scope.estimation)]
    np.testing.assert_array_equal(sums, sums_of(study))


def test_at_training_units_level_nothing_is_drawn() -> None:
    study = make_study(level="training_units")
    budget = RehearsalBudget(0)
    sums = sums_of(study)
    np.testing.assert_array_equal(weights.release(study, sizes_of(study, N), sums, budget), sums)
    assert budget.charges == []
    assert weights.mechanism(study, sizes_of(study, N)) is None


def test_which_mechanism_releases_the_sums() -> None:
    sizes = sizes_of(make_study(), N)
    assert isinstance(weights.mechanism(make_study(), sizes), GaussianAnalytic)
    assert isinstance(weights.mechanism(make_study(delta=0), sizes), L2Laplace)
    paper = make_study(variant="paper", weighting="horvitz_thompson", epsilon="0.5")
    assert isinstance(weights.mechanism(paper, sizes), GaussianClassic)
    planned = weights.mechanism(make_study(), None)
    assert planned is not None
    assert planned.noise_scale is None


@pytest.mark.parametrize("estimand", ESTIMANDS)
@pytest.mark.parametrize("epsilon", ["0.2", "0.99"])
def test_the_papers_noise_is_the_papers(estimand: str, epsilon: str) -> None:
    """sigma_n = sqrt(2 ln(1.25/delta)) S/eps, S = (2C/n) max weight (Lee et al. 2019a, section 3.2 and App. F)."""
    study = make_study(variant="paper", weighting="horvitz_thompson", epsilon=epsilon, estimand=estimand)
    sizes = sizes_of(study, N)
    mechanism = weights.mechanism(study, sizes)
    assert mechanism is not None
    assert mechanism.noise_scale is not None
    assert sizes.estimation is not None
    on_tau = weigh.horvitz_thompson_scale(study).half * mechanism.noise_scale / sizes.estimation
    largest = {"ATE": 10, "ATT": 9, "ATC": 9}[estimand]
    expected = math.sqrt(2 * math.log(1.25 / 1e-6)) / float(epsilon) * 2 * 10 / 1000 * largest
    assert on_tau == pytest.approx(expected, rel=1e-8)


def test_the_stage_releases_what_weigh_left() -> None:
    study = make_study()
    enclave = MemoryEnclave([])
    enclave.save(weigh.SUMS, sums_of(study))
    sizes = sizes_of(study, N)
    one = weights.perturb_stage(study, sizes, enclave, RehearsalBudget(3))
    two = weights.release(study, sizes, sums_of(study), RehearsalBudget(3))
    np.testing.assert_array_equal(one, two)


# At label level the propensity model costs nothing, so nothing is bought by its penalty: none declared, hardly any.
@pytest.mark.parametrize(
    ("level", "declared", "penalty"),
    [("label", ..., FREE_PENALTY), ("label", 0.1, 0.1), ("sample", ..., 0.1), ("training_units", ..., 0.1)],
)
def test_the_penalty_of_a_level(level: str, declared: Any, penalty: float, tmp_path: Path) -> None:
    changes = {"estimator": {"penalty": declared}, "privacy": {"level": level}}
    study = load_study(write_study(tmp_path, study=changes))
    assert isinstance(study, IpwStudy)
    assert study.estimator.penalty == penalty
    assert IpwStudy.model_validate(study.model_dump()) == study
