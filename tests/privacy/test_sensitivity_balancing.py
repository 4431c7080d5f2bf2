"""One outcome under public weights moves the two released numbers by at most 1, and some do."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest

from causalveil.schemas.privacy import PrivacyCost
from causalveil.tasks.balancing.weights import weigh
from causalveil.tasks.enclave.enclave import MemoryEnclave, Rows
from causalveil.tasks.ipw import public_scores as ipw
from causalveil.tasks.weighting.weighted_means import WeightedUnits, mechanism, shares, sums, weigh_units
from tests.balancing_help import confounded, make_balancing
from tests.ipw_help import make_study

PURE = PrivacyCost(epsilon=Decimal(1), delta=Decimal(0))
GAUSSIAN = PrivacyCost(epsilon=Decimal(1), delta=Decimal("1e-6"))


def weighting(random: np.random.Generator, scored: bool) -> tuple[WeightedUnits, np.ndarray]:
    """Weights of all sorts: some 0, some large; arms of 2 to 30."""
    n = int(random.integers(4, 40))
    t = (random.random(n) < random.uniform(0.2, 0.8)).astype(np.uint8)
    t[:4] = [0, 1, 0, 1]
    v = random.exponential(size=n) * (random.random(n) < 0.8)
    v[:4] = 1.0
    queries = int(random.choice([n, t.sum(), n - t.sum()]))
    return weigh_units(v, t, queries, random.random(n) if scored else None), t


@pytest.mark.parametrize("cost", [PURE, GAUSSIAN], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("scored", [True, False], ids=["near", "random"])
def test_one_outcome_moves_the_numbers_by_at_most_the_declared_bound(cost: PrivacyCost, scored: bool) -> None:
    """500 weightings, every unit of each moved between the ends of the range: the worst tables are among them."""
    random = np.random.default_rng(3)
    declared, order = mechanism(cost).sensitivity.value, 1 if cost.delta == 0 else 2
    assert declared is not None
    largest = 0.0
    for _ in range(120):
        units, t = weighting(random, scored)
        u = random.choice([-1.0, 1.0, 0.3], size=len(t))
        before = sums(units, t, u, cost)
        for place in range(len(t)):
            other = u.copy()
            other[place] = -1.0 if u[place] > 0 else 1.0
            moved = float(np.linalg.norm(sums(units, t, other, cost) - before, ord=order))
            assert moved <= declared
            largest = max(largest, moved)
    # The estimate's part alone comes close: its share of the draw.
    assert largest > 0.8


def test_the_busiest_outcome_attains_the_bound_of_the_estimate() -> None:
    t = np.array([1, 1, 0, 0, 0, 0], dtype=np.uint8)
    units = weigh_units(np.array([1.8, 0.2, 1.0, 1.0, 1.0, 1.0]), t, 6, np.arange(6.0))
    up, down = (sums(units, t, np.array([end, 0, 0, 0, 0, 0]), PURE) for end in (1.0, -1.0))
    assert up[0] - down[0] == pytest.approx(float(shares(units.summary, PURE)[0]), abs=1e-12)


@pytest.mark.parametrize("cost", [PURE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_shares_of_a_draw_never_exceed_it(cost: PrivacyCost) -> None:
    random = np.random.default_rng(5)
    for _ in range(100):
        first, second = shares(weighting(random, True)[0].summary, cost)
        assert 0 < second < first < 1
        assert (first + second if cost.delta == 0 else first**2 + second**2) <= 1


def test_without_pairs_everything_is_the_estimates() -> None:
    t = np.array([1, 0, 0, 0], dtype=np.uint8)
    units = weigh_units(np.ones(4), t, 4)
    assert shares(units.summary, PURE) == (1, 0)
    moved = sums(units, t, np.array([1.0, 0, 0, 0]), PURE) - sums(units, t, np.array([-1.0, 0, 0, 0]), PURE)
    assert moved.tolist() == [1.0, 0.0]


def test_weights_are_of_public_columns_alone() -> None:
    """The proof fixes them on both tables: not a bit of them may come from outcomes."""
    study, rows = make_balancing(3), confounded(400, 3)
    turned = Rows(rows.x, rows.t, -rows.u)
    one, other = (weigh(study, MemoryEnclave.of(each)) for each in (rows, turned))
    assert one[0] == other[0]
    assert np.array_equal(one[1].weights, other[1].weights)
    assert all(np.array_equal(*pair) for pair in zip(one[1].pairs, other[1].pairs, strict=True))


def test_ipw_at_label_level_takes_weights_from_public_columns_alone() -> None:
    """The largest weight that occurs is far below the clip's, and the release's unit is 1 all the same."""
    study, rows = make_study(level="label", delta="0", clip=(0.001, 0.999)), confounded(400, 3)
    turned = Rows(rows.x, rows.t, -rows.u)
    (found, units), (again, other) = (ipw.weigh(study, MemoryEnclave.of(each)) for each in (rows, turned))
    assert found == again
    assert np.array_equal(units.weights, other.weights)
    for place in range(0, 400, 7):
        moved = rows.u.copy()
        moved[place] = -1.0 if rows.u[place] > 0 else 1.0
        distance = np.abs(sums(units, rows.t, moved, PURE) - sums(units, rows.t, rows.u, PURE)).sum()
        assert distance <= float(mechanism(PURE).sensitivity.value or 0)
    assert float(units.summary.largest_weight) < 0.1 * 1000 / 400


def test_a_calibration_to_the_mean_weight_would_break_the_bound() -> None:
    """The mutant that the bound is for: dividing by 1/n_t and not by the largest weight."""
    units, rows = weigh(make_balancing(2), MemoryEnclave.of(confounded(500)))[1], confounded(500)
    busiest = int(np.argmax(units.weights * (rows.t == 1)))
    u = np.zeros(500)
    u[busiest] = 1.0
    other = -u
    moved = (sums(units, rows.t, u, PURE) - sums(units, rows.t, other, PURE))[0]
    mean = 1 / min(units.summary.arms)
    assert moved * float(units.summary.largest_weight) / mean > 1.1
    assert math.isfinite(moved)
