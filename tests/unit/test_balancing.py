"""Balancing weights against a general solver, on partitions and whole, and what a planner expects of them."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

from causalveil.flows.estimators.balancing import BALANCING
from causalveil.schemas.errors import StudyError
from causalveil.schemas.plan import StandIn
from causalveil.schemas.study import Estimand
from causalveil.tasks.data.enclave import MemoryEnclave, Rows, ranks
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.interval import laplace_allowance
from causalveil.tasks.estimate.label.balancing import arm_sums_of, solve, weigh, weights_of
from tests.balancing_help import confounded, make_balancing
from tests.regression_help import in_rows


@pytest.mark.parametrize("cap", [1.3, 2.0, 50.0])
def test_the_dual_solves_the_quadratic_programme(cap: float) -> None:
    random = np.random.default_rng(1)
    features = np.column_stack([np.ones(30), random.normal(size=(30, 3))])
    target, delta = np.array([1.0, 0.3, -0.2, 0.1]), np.array([1e-4, 0.05, 0.05, 0.2])

    def cost(v: np.ndarray) -> float:
        off = v @ features / 30 - target
        return float(np.mean(v * v) / 2 + np.sum(off * off / delta) / 2)

    found = minimize(
        cost,
        np.ones(30),
        bounds=[(0, cap)] * 30,
        method="L-BFGS-B",
        options={"maxiter": 20_000, "ftol": 1e-15, "maxfun": 10**6},
    )
    multipliers = solve(partial(sums, features, cap), target, delta, 30, np.array([1.0, 0, 0, 0]))
    v = weights_of(features, multipliers, cap)
    assert cost(v) <= found.fun * (1 + 1e-9)
    assert np.abs(v - found.x).max() < 0.01


def sums(features: np.ndarray, cap: float, multipliers: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    return arm_sums_of(features, multipliers, cap)


@pytest.mark.parametrize("estimand", ["ATE", "ATT", "ATC"])
def test_arms_become_alike(estimand: str) -> None:
    """Before, the index is about a deviation apart; after, hardly; arms that nobody is weighed for stay as they are."""
    found, units = weigh(make_balancing(3, estimand=estimand, epsilon="4"), MemoryEnclave.of(confounded(2000, 3)))
    assert found.details["largest_difference_before"] > 0.7
    assert found.details["largest_difference_after"] < 0.08
    assert found.weights.queries == {"ATE": 2000, "ATT": found.weights.arms[0], "ATC": found.weights.arms[1]}[estimand]
    if estimand != "ATE":
        left = units.weights[confounded(2000, 3).t == (1 if estimand == Estimand.ATT else 0)]
        assert len(np.unique(left)) == 1


def test_less_budget_means_flatter_weights() -> None:
    enclave = MemoryEnclave.of(confounded(1000))
    largest = [
        float(weigh(make_balancing(2, epsilon=epsilon), enclave)[0].weights.largest_weight)
        for epsilon in ("0.05", "0.5", "20")
    ]
    assert largest[0] < largest[1] < largest[2]


def test_partitions_and_workers_change_nothing() -> None:
    rows = confounded(900, 4)
    cuts = [0, 300, 310, 900]
    hashes = ranks(900)
    parts = [{"x": rows.x[a:b], "t": rows.t[a:b], "u": rows.u[a:b], "h": hashes[a:b]} for a, b in pairwise(cuts)]
    whole = weigh(make_balancing(4), MemoryEnclave.of(rows))[1].weights
    for workers in (1, 3):
        study = make_balancing(4).model_copy(
            update={"execution": make_balancing(4).execution.model_copy(update={"workers": workers})}
        )
        cut = weigh(study, MemoryEnclave(parts))[1].weights
        # Sums of floats in another order: a weight may be rounded the other way.
        assert np.abs(cut - whole).max() <= 1


def test_more_rows_than_the_sample_are_all_weighed() -> None:
    rows = confounded(50_000)
    found, units = weigh(make_balancing(2, epsilon="2"), MemoryEnclave.of(rows))
    assert len(units.weights) == 50_000
    assert found.details["largest_difference_after"] < 0.01
    assert found.weights.measurable


HOSTILE = {
    "constant": lambda r: in_rows(np.column_stack([r.x[:, 0], np.zeros(len(r))]), r.t, r.u),
    "duplicated": lambda r: in_rows(np.column_stack([r.x[:, 0], r.x[:, 0], r.x[:, 0]]), r.t, r.u),
    "sum to one": lambda r: in_rows(np.column_stack([r.x[:, 0] ** 2, 1 - r.x[:, 0] ** 2]), r.t, r.u),
    "treatment itself": lambda r: in_rows(r.t[:, None] * 1.0, r.t, r.u),
    "more columns than people": lambda r: in_rows(
        np.sin(np.outer(np.arange(20), np.arange(1, 41))), r.t[:20], r.u[:20]
    ),
    "ten people": lambda r: r[:10],
    "two people": lambda r: Rows(r.x[:2], np.array([0, 1], dtype=np.uint8), r.u[:2]),
    "one treated": lambda r: Rows(r.x, (np.arange(len(r)) == 7).astype(np.uint8), r.u),
    "never varies": lambda r: Rows(r.x, r.t, np.ones(len(r))),
}


@pytest.mark.parametrize("epsilon", ["0.01", "100"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_table_has_finite_weights(name: str, epsilon: str) -> None:
    rows = HOSTILE[name](confounded(300))
    study = make_balancing(rows.x.shape[1] - 1, epsilon=epsilon)
    found, units = weigh(study, MemoryEnclave.of(rows))
    assert np.isfinite([found.bias, *map(float, found.details.values())]).all()
    for arm in (0, 1):
        assert units.weights[rows.t == arm].sum() > 0
    assert units.weights.min() >= 0


def test_other_levels_are_refused() -> None:
    with pytest.raises(StudyError, match="label"):
        make_balancing(level="sample")


def test_planned_width_is_what_weights_give() -> None:
    """On a trial, whose weights a stand-in knows: within 15%; 12 rows of noise that are the same every time."""
    from causalveil.flows.run.estimators import rehearse_effect
    from causalveil.tasks.privacy.budget import RehearsalBudget

    random = np.random.default_rng(4)
    rows = in_rows(
        random.uniform(-1, 1, (2000, 3)), random.integers(0, 2, 2000), 0.2 * random.normal(size=2000).clip(-3, 3)
    )
    study = make_balancing(3, trial=True)
    intervals = [rehearse_effect(study, rows, RehearsalBudget(seed)).interval for seed in range(12)]
    measured = np.mean([(one.upper - one.lower) / 2 for one in intervals])
    planned = BALANCING.width(study, sizes_of(study, 2000), StandIn(deviation=1.0))
    assert planned == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize("ratio", [0.3, 3.0, 30.0])
def test_the_laplace_allowance_covers_what_it_says(ratio: float) -> None:
    """200,000 draws a place, seed 0: a coverage of .95 has a standard error of .0005; false alarms below 1e-6."""
    from causalveil.tasks.estimate.interval import Estimate, Noise, assemble

    random, confidence = np.random.default_rng(0), 0.95
    a = laplace_allowance(ratio, confidence)
    assert 0 < a < 1
    noise = Noise(np.sqrt(0.5), 1.0)
    for place in (0.0, 0.5, 2.0, 10.0):
        read = np.linspace(-8, 8, 400)
        halves = np.array(
            [
                (lambda i: (i.upper - i.lower) / 2)(
                    assemble(Estimate(0.0, ratio * (place + m), 1.0, ratio, allowance=a), noise, confidence, None)[1]
                )
                for m in read
            ]
        )
        drawn = random.laplace(size=200_000) / np.sqrt(2)
        error = random.laplace(size=200_000) / np.sqrt(2) + random.normal(size=200_000) * np.sqrt(ratio * place)
        assert np.mean(np.abs(error) <= np.interp(drawn, read, halves)) > confidence - 0.004
