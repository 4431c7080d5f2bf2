"""Cells of coarse covariates: when there are any, whom they hold, and what they take off a confounded comparison."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from causalveil.tasks.data.enclave import MemoryEnclave, Rows, ranks
from causalveil.tasks.estimate.label.balancing import weigh
from causalveil.tasks.estimate.weights import features as module
from causalveil.tasks.estimate.weights.features import Cells, spread
from tests.balancing_help import make_balancing
from tests.regression_help import in_rows


def threefold(n: int, seed: int = 1, flags: int = 3, numbers: int = 0) -> Rows:
    """Flags, three of which move treatment and u by the product of their signs; no pair does. The effect is .1 in u."""
    random = np.random.default_rng(seed)
    z = random.choice([-1.0, 1.0], size=(n, flags))
    together = z[:, :3].prod(axis=1)
    t = (random.random(n) < 1 / (1 + np.exp(-together))).astype(np.uint8)
    u = np.clip(0.1 * t + 0.2 * together + 0.1 * random.normal(size=n), -1, 1)
    z = np.column_stack([z, np.clip(random.normal(size=(n, numbers)) / 3, -1, 1)])
    return in_rows(z, t, u)


def compared(rows: Rows, epsilon: str = "4") -> float:
    """The difference of weighted means before noise, in u."""
    _, units = weigh(make_balancing(rows.x.shape[1] - 1, epsilon=epsilon), MemoryEnclave.of(rows))
    w = units.weights.astype(np.float64)
    treated = rows.t == 1
    return float(np.average(rows.u[treated], weights=w[treated]) - np.average(rows.u[~treated], weights=w[~treated]))


@pytest.mark.parametrize("numbers", [0, 2])
def test_what_three_covariates_do_together_is_balanced(numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fixed seed; the sampling error is about .006. Without cells most of the confounding, .18, stays."""
    rows = threefold(2_000, flags=6, numbers=numbers)
    assert abs(compared(rows) - 0.1) < 0.03
    monkeypatch.setattr(module, "MOST_CELLS", 0)
    assert compared(rows) > 0.2


def test_cells_are_of_covariates_of_few_values_alone() -> None:
    random = np.random.default_rng(0)
    x = np.column_stack([random.integers(0, 3, size=(500, 3)) / 2, random.random((500, 2)), np.ones(500)])
    found = Cells.of(make_balancing(5), x)
    assert found.places == (slice(0, 1), slice(1, 2), slice(2, 3))
    assert found.count == 27
    held = found(x)
    assert held.sum(axis=1).tolist() == [1.0] * 500
    _, numbers = np.unique(x[:, :3], axis=0, return_inverse=True)
    assert np.array_equal(held.argmax(axis=1), numbers.ravel())


@pytest.mark.parametrize("case", ["numbers", "few rows", "two covariates", "many"])
def test_no_cells(case: str) -> None:
    """Numbers, also where there are few of them; two covariates, which products say all of; too many combinations."""
    random = np.random.default_rng(0)
    z = {
        "numbers": random.random((300, 3)),
        "few rows": random.random((15, 3)),
        "two covariates": random.integers(0, 2, size=(300, 2)) * 1.0,
        "many": random.integers(0, 2, size=(300, 8)) * 1.0,
    }[case]
    found = Cells.of(make_balancing(z.shape[1]), in_rows(z, np.zeros(len(z)), np.zeros(len(z))).x)
    assert found.count == 0
    assert found(np.ones((4, z.shape[1] + 1))).shape == (4, 0)


def test_a_combination_that_the_sample_lacks_is_in_no_cell() -> None:
    flags = np.array(np.meshgrid([0.0, 1.0], [0.0, 1.0], [0.0, 1.0])).reshape(3, 8).T
    sample = np.repeat(flags[:7], 20, axis=0)
    found = Cells.of(make_balancing(3), np.column_stack([sample, np.ones(len(sample))]))
    assert found.count == 7
    assert found(np.column_stack([flags, np.ones(8)])).sum(axis=1).tolist() == [1.0] * 7 + [0.0]


def test_units_without_a_counterpart_are_counted_and_weighed() -> None:
    """Nobody is left out: whoever is alone in a cell is compared by columns and products, as without cells."""
    rows = threefold(600)
    alone = (rows.x[:, :3] > 0).all(axis=1)
    one_armed = Rows(rows.x, np.where(alone, 1, rows.t).astype(np.uint8), rows.u)
    found, units = weigh(make_balancing(3), MemoryEnclave.of(one_armed))
    assert (found.details["cells"], found.details["alone_in_cell"]) == (8, int(alone.sum()))
    assert found.weights.queries == 600
    assert units.weights[alone].min() > 0
    assert np.isfinite(found.bias)


def test_the_index_follows_cells_as_far_as_treatments_do() -> None:
    """40 cells of 500: the spread of log odds is found up to three of its standard errors, about .1; none is 0."""
    random = np.random.default_rng(5)
    cell = np.repeat(np.arange(40), 500)
    indicators = np.eye(40)[cell]
    odds = random.normal(size=40) * 0.7
    t = (random.random(len(cell)) < 1 / (1 + np.exp(-odds[cell]))).astype(np.uint8)
    assert spread(indicators, np.zeros(len(cell)), t) == pytest.approx(float(np.mean(odds**2)), abs=0.3)
    even = np.tile(np.array([0, 1], dtype=np.uint8), 10_000)
    assert spread(indicators, np.zeros(len(cell)), even) == 0
    assert spread(np.empty((20, 0)), np.zeros(20), np.zeros(20, dtype=np.uint8)) == 0


def test_weights_on_cells_are_of_public_columns_alone() -> None:
    """The sensitivity rests on it: the same weights whatever the outcomes, and one unit's whole outcome moves 1."""
    rows = threefold(300)
    turned = Rows(rows.x, rows.t, -rows.u)
    one, other = (weigh(make_balancing(3), MemoryEnclave.of(each)) for each in (rows, turned))
    assert one[0] == other[0]
    assert one[0].details["cells"] == 8
    assert np.array_equal(one[1].weights, other[1].weights)


def test_partitions_change_nothing_with_cells() -> None:
    rows = threefold(900, numbers=1)
    hashes = ranks(900)
    cuts = pairwise([0, 300, 310, 900])
    parts = [{"x": rows.x[a:b], "t": rows.t[a:b], "u": rows.u[a:b], "h": hashes[a:b]} for a, b in cuts]
    whole, cut = (weigh(make_balancing(4), each) for each in (MemoryEnclave.of(rows), MemoryEnclave(parts)))
    # Sums of floats in another order: a weight may be rounded the other way.
    assert np.abs(cut[1].weights - whole[1].weights).max() <= 1
    for found, _ in (cut, whole):
        assert (found.details["cells"], found.details["alone_in_cell"]) == (8, 0)
