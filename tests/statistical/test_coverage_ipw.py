"""Coverage and width of the interval on simulated studies, fixed seeds.

The population: two covariates uniform on the square, scores sigmoid(a'x) within the clip, a heterogeneous effect,
so that ATE, ATT and ATC differ; truths by quadrature. Coverage at 95% over R runs has a Monte-Carlo standard error
of sqrt(.95 .05/R): 0.7% at R = 1000. A run fails falsely with probability below 1e-3 (three errors and a bit).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from causalveil.flows.run.estimators import rehearse_effect
from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.estimate.papers.ipw import weights
from causalveil.tasks.estimate.papers.ipw.interval import findings
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
