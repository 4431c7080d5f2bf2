"""Coverage and width of the interval on simulated studies, fixed seeds.

The population: two covariates uniform on the square, scores sigmoid(a'x) within the clip, a heterogeneous effect,
so that ATE, ATT and ATC differ; truths by quadrature. Coverage at 95% over R runs has a Monte-Carlo standard error
of sqrt(.95 .05/R): 0.7% at R = 1000. A run fails falsely with probability below 1e-3 (three errors and a bit).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.run.estimators import rehearse_effect
from causalveil.schemas.answers import Limits
from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.tasks.data.covariates import feature_names
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.data.split import ascending, keyed_hash, sizes_of, training_size
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.estimate.models import logistic
from causalveil.tasks.estimate.papers.ipw import weights
from causalveil.tasks.estimate.papers.ipw import weights as weigh
from causalveil.tasks.estimate.papers.ipw.interval import findings
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.budget import RehearsalBudget
from tests.ipw_help import make_study

SCORE = np.array([1.6, -1.0, 0.3])
ROOT3 = math.sqrt(3)


def score_of(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-(x @ SCORE)))


def means_of(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[u | x, t] for t = 1 and 0: inside [-0.7, 0.7], so that noise of 0.3 never leaves [-1, 1]."""
    base = 0.4 * ROOT3 * x[:, 0] - 0.2 * ROOT3 * x[:, 1]
    return base + 0.05 + 0.15 * ROOT3 * x[:, 0], base - 0.1


def design_matrix(z: np.ndarray) -> np.ndarray:
    return np.column_stack([z, np.ones(len(z))]) / ROOT3


def people(n: int, random: np.random.Generator) -> Rows:
    x = design_matrix(random.uniform(-1, 1, (n, 2)))
    t = (random.random(n) < score_of(x)).astype(np.uint8)
    high, low = means_of(x)
    return Rows(x, t, np.where(t == 1, high, low) + random.uniform(-0.2, 0.2, n))


def truth(estimand: str) -> float:
    """The effect on a score from 0 to 10, by the midpoint rule on a 1000 x 1000 grid."""
    axis = (np.arange(1000) + 0.5) / 500 - 1
    x = design_matrix(np.array(np.meshgrid(axis, axis)).reshape(2, -1).T)
    score, (high, low) = score_of(x), means_of(x)
    weight = {"ATE": np.ones(len(x)), "ATT": score, "ATC": 1 - score}[estimand]
    effect = float(np.average(5 * (high - low), weights=weight))
    return effect


def simulate(study: IpwStudy, n: int, runs: int, seed: int) -> list[Findings]:
    """`runs` studies with `n` estimation units and the true scores; noise from the production mechanism."""
    sizes = sizes_of(study, n).model_copy(update={"estimation": n})
    random, budget = np.random.default_rng(seed), RehearsalBudget(seed)
    results = []
    for _ in range(runs):
        rows = people(n, random)
        sums = weights.exact_sums(study, lambda _, rows=rows: rows, 1, n, SCORE)
        results.append(findings(study, sizes, weights.release(study, sizes, sums, budget)))
    return results


def measure(results: list[Findings], target: float) -> dict[str, float]:
    """Coverage, mean width, and the width that an oracle who knew the estimates' spread would need."""
    errors = np.array([found.estimate - target for found in results])
    lower, upper = (np.array([getattr(found.interval, end) for found in results]) for end in ("lower", "upper"))
    return {
        "coverage": float(np.mean((lower <= target) & (target <= upper))),
        "width": float(np.mean(upper - lower)),
        "oracle": 2 * 1.96 * float(np.std(errors)),
        "bias": float(np.mean(errors)),
        "whole": float(np.mean([found.interval.whole_range for found in results])),
    }


CASES: list[tuple[str, dict[str, Any], int, int]] = [
    ("noise drowns everything", {}, 300, 1000),
    ("at the floor", {}, 600, 1000),
    ("noise dominates", {}, 2_000, 1000),
    ("both matter", {}, 10_000, 600),
    ("sampling dominates", {"epsilon": "4"}, 30_000, 400),
    ("ATT", {"estimand": "ATT"}, 6_000, 600),
    ("ATC", {"estimand": "ATC"}, 6_000, 600),
    ("HT", {"weighting": "horvitz_thompson"}, 6_000, 600),
    ("paper", {"weighting": "horvitz_thompson", "variant": "paper", "epsilon": "0.9"}, 6_000, 600),
    ("pure", {"delta": 0}, 1_000, 1000),
    ("pure, larger", {"delta": 0}, 8_000, 600),
    ("training units", {"level": "training_units"}, 1_500, 1000),
    ("80%", {"confidence": 0.8}, 6_000, 600),
]
# Widths over the oracle's: the interval also covers the noise of the variance, which is part of its width where
# noise is large. Where the range cuts both, widths say little.
WIDEST = {"noise drowns everything": 9.9, "at the floor": 9.9, "noise dominates": 1.6}


# What the gate has time for: at the floor, where noise rules, of both weightings, and without a delta.
SHORT = ("at the floor", "noise dominates", "HT", "pure")


@pytest.mark.parametrize(
    ("name", "changes", "n", "runs"),
    [pytest.param(*case, id=case[0], marks=[pytest.mark.long] * (case[0] not in SHORT)) for case in CASES],
)
def test_intervals_cover_what_they_say_and_are_no_wider_than_they_must(
    name: str, changes: dict[str, Any], n: int, runs: int
) -> None:
    # Scores are the true ones, so that nothing is left to be allowed for.
    study = make_study(confounding_prior={"outcome_r2": 0}, **changes)
    found = measure(simulate(study, n, runs, seed=11), truth(str(study.estimand)))
    print(f"{name}: n={n} runs={runs} " + " ".join(f"{key}={value:.3f}" for key, value in found.items()))
    error = math.sqrt(study.confidence * (1 - study.confidence) / runs)
    assert found["coverage"] >= study.confidence - 3.2 * error
    assert found["width"] <= WIDEST.get(name, 1.4) * found["oracle"] or found["whole"] > 0.05
    if name in ("sampling dominates", "training units"):
        assert found["coverage"] <= study.confidence + 3.2 * error + 0.015
        assert abs(found["bias"]) <= 4 * found["oracle"] / 3.92 / math.sqrt(runs)


def test_a_fitted_propensity_model_that_is_hardly_shrunk_keeps_the_coverage() -> None:
    """Fit and effect on the same units, which label level allows, penalty near 0: 300 runs of 3,000 units.

    The interval covers neither shrinkage nor noise of the model (docs/proofs/ipw.md, section 6), so neither is
    large here. That the scores are estimated makes the estimate less variable than the interval says.
    """
    asked = make_study(penalty=1e-4, level="label", epsilon="4").model_dump(mode="json")
    study = IpwStudy.model_validate(asked | {"covariates": {name: {"lower": -1, "upper": 1} for name in ("a", "b")}})
    runs, target, random, budget = 300, truth("ATE"), np.random.default_rng(5), RehearsalBudget(5)
    results = [rehearse_effect(study, people(3_000, random), budget) for _ in range(runs)]
    found = measure(results, target)
    print("fitted: " + " ".join(f"{key}={value:.3f}" for key, value in found.items()))
    assert found["coverage"] >= 0.95 - 3.2 * math.sqrt(0.95 * 0.05 / runs)
    assert found["width"] <= 2.3 * found["oracle"]


# The whole estimator at sample level: split, private propensity, weights, noise, interval; does the interval cover?.
UNITS, RUNS = 20_000, 300
MONTE_CARLO = math.sqrt(0.95 * 0.05 / RUNS)
LOWEST = 0.95 - 3 * MONTE_CARLO
RANDOMISED = np.zeros(3)
CONFOUNDED = np.array([2.0, -1.0, 0.2])


# The population --------------------------------------------------------------------------------------------


def sigmoid(value: FloatArray) -> FloatArray:
    return 1 / (1 + np.exp(-value))


def means(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """E[u | x, t] for t = 1 and 0: a heterogeneous effect; those who are treated more often have larger outcomes."""
    base = 0.3 * ROOT3 * x[:, 0] - 0.1 * ROOT3 * x[:, 1]
    return base + 0.1 + 0.1 * ROOT3 * x[:, 0], base - 0.1


def two_numbers(**changes: Any) -> IpwStudy:
    """A study of the two covariates of :func:`people`, that allows for no confounding unless ``changes`` do."""
    numbers = {name: {"lower": -1, "upper": 1} for name in ("x0", "x1")}
    return make_study(
        covariates={"age": ..., "group": ..., **numbers}, **{"confounding_prior": {"outcome_r2": 0}, **changes}
    )


def people_coverage(assignment: FloatArray, random: np.random.Generator) -> Rows:
    z = random.uniform(-1, 1, (UNITS, 2))
    x = np.column_stack([z, np.ones(UNITS)]) / ROOT3
    t = (random.random(UNITS) < sigmoid(x @ assignment)).astype(np.uint8)
    treated, control = means(x)
    return Rows(x, t, np.where(t == 1, treated, control) + random.uniform(-0.25, 0.25, UNITS))


def grid() -> FloatArray:
    """Midpoints of 200 x 200 cells: expectations over the population by quadrature."""
    axis = (np.arange(200) + 0.5) / 100 - 1
    z = np.array(np.meshgrid(axis, axis)).reshape(2, -1).T
    return np.column_stack([z, np.ones(len(z))]) / ROOT3


GRID = grid()


def truth_coverage(study: IpwStudy, assignment: FloatArray) -> float:
    treated, control = means(GRID)
    score = sigmoid(GRID @ assignment)
    weight = {"ATE": np.ones(len(GRID)), "ATT": score, "ATC": 1 - score}[study.estimand]
    return float(np.average(treated - control, weights=weight)) * study.outcome.width / 2


def weighted_limit(study: IpwStudy, assignment: FloatArray, coefficients: FloatArray) -> float:
    """What Hajek weighting by these coefficients converges to, by quadrature."""
    score, sides = sigmoid(GRID @ assignment), means(GRID)
    model = logistic.clipped_scores(GRID, coefficients, study.estimator.clip)
    arms = []
    for arm, share, mean in ((1, score, sides[0]), (0, 1 - score, sides[1])):
        weight = weigh.weights(study.estimand, model, np.full(len(GRID), arm, np.uint8))
        arms.append(float(np.average(mean, weights=share * weight)))
    return (arms[0] - arms[1]) * study.outcome.width / 2


def shrunk(assignment: FloatArray, penalty: float) -> FloatArray:
    """The ridge-penalised model of the whole population: Newton's method on the quadrature points."""
    w = np.zeros(3)
    for _ in range(50):
        model = sigmoid(GRID @ w)
        gradient = GRID.T @ (model - sigmoid(GRID @ assignment)) / len(GRID) + penalty * w
        hessian = (GRID * (model * (1 - model))[:, None]).T @ GRID / len(GRID) + penalty * np.eye(3)
        w = w - np.linalg.solve(hessian, gradient)
    return w


# The runs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """What one study found, its released coefficients, and the estimate of an oracle on the same estimation half."""

    found: Findings
    coefficients: FloatArray
    oracle: float


def one_run(study: IpwStudy, rows: Rows, assignment: FloatArray, key: bytes, budget: RehearsalBudget) -> Run:
    order = ascending(keyed_hash(pl.Series(range(UNITS)), key))
    ranked = Rows(rows.x[order], rows.t[order], rows.u[order])
    found = rehearse_effect(study, ranked, budget)
    w = np.array([found.details[f"propensity_coefficient[{name}]"] for name in feature_names(study)])

    half = ranked[training_size(UNITS, study.estimator.train_fraction) :]
    weight = weigh.weights(study.estimand, sigmoid(half.x @ assignment), half.t)
    high, low = (np.average(half.u[half.t == arm], weights=weight[half.t == arm]) for arm in (1, 0))
    return Run(found, w, float(high - low) * study.outcome.width / 2)


def simulate_coverage(study: IpwStudy, assignment: FloatArray, seed: int) -> list[Run]:
    random, budget = np.random.default_rng(seed), RehearsalBudget(seed)
    return [
        one_run(study, people_coverage(assignment, random), assignment, random.bytes(16), budget) for _ in range(RUNS)
    ]


def coverage(runs: list[Run], targets: FloatArray | float) -> float:
    lower, upper = (np.array([getattr(run.found.interval, end) for run in runs]) for end in ("lower", "upper"))
    return float(np.mean((lower <= targets) & (targets <= upper)))


def width(runs: list[Run]) -> float:
    return float(np.mean([run.found.interval.upper - run.found.interval.lower for run in runs]))


def halved(run: Run) -> Run:
    interval = run.found.interval
    middle, quarter = (interval.lower + interval.upper) / 2, (interval.upper - interval.lower) / 4
    half = interval.model_copy(update={"lower": middle - quarter, "upper": middle + quarter})
    own = run.found.headline.model_copy(update={"interval": Limits(lower=half.lower, upper=half.upper)})
    return replace(run, found=replace(run.found, answers=(own,)))


def needed(estimates: list[float]) -> float:
    """Width of the 95% interval of somebody who knows the spread of these estimates."""
    return 2 * 1.96 * float(np.std(estimates))


# Limits on the width over that of a Hajek estimate without privacy (true scores, the same half). For Hajek the noise in
# the means makes it 2.7 (standard deviation 0.066 beside 0.025 of sampling), the bound on the noisy sampling variance
# 1.3 times that; ATT's treated weigh 1 and its controls up to 9, so its sums of controls are small beside their noise.
CASES_COVERAGE: list[tuple[str, dict[str, Any], float]] = [
    ("Hajek", {}, 4.0),
    ("ATT", {"estimand": "ATT"}, 5.5),
    ("HT", {"weighting": "horvitz_thompson"}, 6.5),
]


@pytest.mark.parametrize(
    ("name", "changes", "factor"),
    [pytest.param(*case, id=case[0], marks=[pytest.mark.long] * (case[0] != "Hajek")) for case in CASES_COVERAGE],
)
def test_a_randomised_study_is_covered_at_a_known_width(name: str, changes: dict[str, Any], factor: float) -> None:
    study = two_numbers(**changes)
    runs, effect = simulate_coverage(study, RANDOMISED, seed=21), truth_coverage(study, RANDOMISED)
    estimates = [run.found.estimate for run in runs]
    covered, wide, oracle = coverage(runs, effect), width(runs), needed([run.oracle for run in runs])
    bias = float(np.mean(estimates)) - effect
    print(
        f"{name}: covered {covered:.3f} (+- {MONTE_CARLO:.3f}), width {wide:.3f} = {wide / oracle:.2f} oracle's "
        f"= {wide / needed(estimates):.2f} needed, bias {bias:.4f}"
    )
    assert covered >= LOWEST
    # Intervals of half the width would not pass.
    assert coverage([halved(run) for run in runs], effect) < LOWEST
    assert oracle <= wide <= factor * oracle
    assert wide <= 1.5 * needed(
        estimates
    )  # 1.3 to 1.45 where noise dominates: the sampling variance enters by its bound
    assert abs(bias) <= 3.5 * float(np.std(estimates)) / math.sqrt(RUNS)


@pytest.mark.long
def test_a_confounded_study_is_off_by_what_shrinkage_predicts_and_covers_the_weighted_contrast() -> None:
    """The default penalty leaves most of the confounding in, which no noise tells and the allowance covers."""
    study = two_numbers()
    runs, effect = simulate_coverage(study, CONFOUNDED, seed=22), truth_coverage(study, CONFOUNDED)
    limits = np.array([weighted_limit(study, CONFOUNDED, run.coefficients) for run in runs])
    estimates = np.array([run.found.estimate for run in runs])
    error = float(np.std(estimates)) / math.sqrt(RUNS)
    bias = float(np.mean(estimates)) - effect
    predicted = weighted_limit(study, CONFOUNDED, shrunk(CONFOUNDED, study.estimator.penalty)) - effect
    unadjusted = weighted_limit(study, CONFOUNDED, np.zeros(3)) - effect
    oracle = float(np.mean([run.oracle for run in runs])) - effect
    covers_limit, covers_effect = coverage(runs, limits), coverage(runs, effect)
    print(
        f"confounded: effect {effect:.3f}, bias {bias:.4f} (+- {error:.4f}), predicted {predicted:.4f}, unadjusted "
        f"{unadjusted:.4f}, oracle {oracle:.4f}; covers the weighted contrast {covers_limit:.3f} "
        f"(+- {MONTE_CARLO:.3f}), the effect {covers_effect:.3f}; width {width(runs):.3f}"
    )
    assert covers_limit >= LOWEST
    assert 0 < predicted < unadjusted  # the sign of the confounding, and less of it than without weights
    assert abs(bias - predicted) <= 3.5 * error
    assert covers_effect <= 0.05  # the honest number: shrinkage alone moves the estimate out of its interval
    assert abs(oracle) <= 0.1 * predicted  # and it is shrinkage: true scores show no such bias
    allowing = simulate_coverage(two_numbers(confounding_prior={}), CONFOUNDED, seed=22)
    assert coverage(allowing, effect) >= LOWEST
    assert width(allowing) >= 2 * predicted
