"""AIPW of a known chance in simulation: intervals cover what they say, and no outcome model biases them.

Effects are on the scaled outcome times 5 (a range of 10). Seeds are fixed; sizes and Monte-Carlo errors stand beside.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from causalveil.flows.run.estimators import rehearse_effect
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.adjust.features import LineFeature
from causalveil.tasks.estimate.papers.aipw.stages import OutcomeModel, common_range, known_recipe, summed
from causalveil.tasks.privacy.budget import RehearsalBudget
from tests.aipw_help import analysed, confounded, encode, in_memory, make_aipw, make_difference

TRUTH = 1.0


def coverage(runs: int, n: int, **changes: object) -> tuple[float, float, float]:
    """Share of intervals that cover, mean error, and the errors' spread over what the releases say."""
    study, hits, errors, said = make_aipw(**changes), 0, [], []
    for seed in range(runs):
        rows, _ = confounded(n, p=len(study.covariates), seed=seed, strength=0.0)
        found = analysed(study, rows, seed)
        hits += found.interval.lower <= TRUTH <= found.interval.upper
        errors.append(found.estimate - TRUTH)
        said.append(found.variance.sampling + found.variance.noise)
    return hits / runs, float(np.mean(errors)), float(np.std(errors)) / math.sqrt(np.mean(said))


@pytest.mark.parametrize(("n", "delta", "confidence"), [(300, "1e-6", 0.95), (4_000, "1e-6", 0.8), (4_000, "0", 0.95)])
def test_coverage_of_a_trial(n: int, delta: str, confidence: float) -> None:
    """60 runs, eps 1: Monte-Carlo error 2.8 and 5%; false alarm below 1e-3 at 3.3 of them."""
    found, error, spread = coverage(60, n, delta=delta, confidence=confidence)
    print(f"coverage {found:.3f} of {confidence}, mean error {error:.4f}, spread over stated {spread:.3f}")
    assert abs(found - confidence) <= 3.3 * math.sqrt(confidence * (1 - confidence) / 60)
    assert 0.75 <= spread <= 1.25


@pytest.mark.long
@pytest.mark.parametrize(
    ("p", "n", "epsilon", "delta", "folds"),
    [(2, 300, "0.5", "1e-5", 2), (5, 3_000, "1", "1e-6", 3), (20, 30_000, "1", "1e-6", 2), (3, 10_000, "2", "0", 5)],
)
def test_coverage_over_sizes_and_budgets(p: int, n: int, epsilon: str, delta: str, folds: int) -> None:
    """400 runs each: Monte-Carlo error 1.1%; false alarm 1e-3 a side."""
    found, error, spread = coverage(400, n, p=p, epsilon=epsilon, delta=delta, folds=folds)
    print(f"p {p}, n {n}, eps {epsilon}: coverage {found:.3f}, mean error {error:.4f}, spread {spread:.3f}")
    assert abs(found - 0.95) <= 3.3 * 0.011


def test_half_the_noise_in_the_books_is_caught() -> None:
    """Test of the test: intervals that were told half of the noise cover far less than they say. 60 runs."""
    study, hits = make_aipw(epsilon="0.3"), 0
    for seed in range(60):
        rows, _ = confounded(1_000, seed=seed, strength=0.0)
        found = analysed(study, rows, seed)
        half = (found.interval.upper - found.interval.lower) / 4
        hits += abs(found.estimate - TRUTH) <= half
    assert hits / 60 < 0.85


@pytest.mark.parametrize("folds", [1, 2])
def test_no_outcome_model_biases_the_mean_score(folds: int) -> None:
    """A wild model of the wrong sign, 200,000 units, a tenth treated, effects that vary; sampling error .02."""
    random = np.random.default_rng(5)
    z = random.uniform(-1, 1, (200_000, 2))
    t = (random.random(200_000) < 0.1).astype(np.uint8)
    u = 0.3 * z[:, 0] + t * (0.2 + 0.1 * z[:, 1]) - 0.1 + random.uniform(-0.2, 0.2, 200_000)
    lines = tuple(LineFeature(place, np.array([-1.0, 1.0]), np.array([-2.0, 2.0])) for place in (0, 1))
    slopes = np.array([[-2.0, 1.0], [-1.0, 3.0]])
    wrong = OutcomeModel(0.1, (0.7, -0.4), 0.2, lines, np.array([0.3, -0.2]), slopes, 1.0)
    models = [wrong, replace(wrong, means=(-0.5, 0.2), limit=0.0)][:folds]
    study = make_aipw(2, propensity={"known": 0.1})
    plan, bound = known_recipe(study, sizes_of(study, 200_000)), common_range([one.ends for one in models])
    half = len(u) // folds
    parts = [
        Rows(encode(z[part]), t[part], u[part]) for part in (slice(k * half, (k + 1) * half) for k in range(folds))
    ]
    exact = summed(plan, [in_memory([one]) for one in parts], models, 1)
    assert abs(5 * (bound.middle + bound.half * exact[0] / len(u)) - TRUTH) < 0.07
    # A mutant that weighs by the chance of another trial is caught.
    off = [replace(one, chance=0.3, means=(0.9, -0.9)) for one in models]
    bound = common_range([one.ends for one in off])
    exact = summed(plan, [in_memory([one]) for one in parts], off, 1)
    assert abs(5 * (bound.middle + bound.half * exact[0] / len(u)) - TRUTH) > 0.15


def test_slopes_pay_where_they_are_learnt_and_cost_nothing_elsewhere() -> None:
    """Half-widths of one run: 20,000 units with slopes against none, and a difference of means at 1,000, eps .5."""
    rows, _ = confounded(20_000, p=1, seed=3, strength=0.0)
    none = make_difference(epsilon="1", estimator={"name": "difference_in_means", "trial": True})
    learnt = analysed(make_aipw(1), rows)
    assert learnt.details["outcome_model"] == "slopes of each arm"
    plain = rehearse_effect(none, rows, RehearsalBudget(0))
    assert width(learnt.interval) < 0.75 * width(plain.interval)
    few, _ = confounded(1_000, p=1, seed=3, strength=0.0)
    small = analysed(make_aipw(1, epsilon="0.5"), few)
    plain = rehearse_effect(
        make_difference(epsilon="0.5", estimator={"name": "difference_in_means", "trial": True}),
        few,
        RehearsalBudget(0),
    )
    assert width(small.interval) < 1.15 * width(plain.interval)


def width(interval: object) -> float:
    return float(interval.upper - interval.lower)  # type: ignore[attr-defined]
