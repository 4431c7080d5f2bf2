"""What is released of cells: exact sums, a sensitivity of sqrt(2) for every grid, noise that hardly grows with it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from causalveil.schemas.estimators.survival import MOST_INTERVALS
from causalveil.tasks.estimate.times import curves
from causalveil.tasks.estimate.times.curves import BITS, Grid, measured, strategy
from causalveil.tasks.estimate.times.releases import budget_of, grid_of, mechanism
from tests.survival_help import make_survival, read_cells


@pytest.mark.parametrize("kinds", [1, 2])
def test_no_two_cells_are_farther_apart_than_the_root_of_two(kinds: int) -> None:
    """All pairs of cells of both arms, of every grid, in whole numbers; attained up to what rounding takes off."""
    for intervals in range(1, MOST_INTERVALS + 1):
        entries = strategy(Grid(intervals, kinds, 1.0), False)
        inner = entries.T @ entries
        lengths = np.diag(inner)
        apart = lengths[:, None] + lengths[None, :] - 2 * inner
        # Cells of different arms share no entry.
        farthest = max(int(apart.max()), 2 * int(lengths.max()))
        assert farthest <= 2 * 4**BITS
        assert farthest > 2 * 4**BITS * (1 - 1e-5)
        assert (entries >= 0).all()


def test_sums_are_exact_for_as_many_people_as_there_are() -> None:
    grid, random = Grid(50, 2, 365.0), np.random.default_rng(1)
    counts = random.integers(0, 10**8, 2 * grid.cells)
    found = measured(counts, grid, plain=False)
    exact = [
        sum(int(a) * int(b) for a, b in zip(row, counts[: grid.cells], strict=True)) for row in strategy(grid, False)
    ]
    assert [Fraction(one) for one in found[: grid.cells].tolist()] == [Fraction(one, 2**BITS) for one in exact]


def test_a_person_is_in_one_cell() -> None:
    grid = Grid(10, 2, 365.0)
    time = np.array([0.0, 36.5, 36.6, 73.0, 365.0, 365.1, 9999.0, 365.0])
    kind = np.array([1, 1, 2, 0, 1, 1, 2, 0], dtype=np.uint8)
    arm = np.array([0, 0, 0, 1, 1, 1, 0, 0], dtype=np.uint8)
    # Events at an interval's end are in it, and who outlives the horizon is at risk there whatever came later.
    # So is who is lost at the horizon: she was followed to it.
    expected = [0, 0, 11, 31 + 22, 31 + 9, 31 + 30, 30, 30]
    assert grid.cell(arm, time, kind).tolist() == expected
    uneven = replace(grid, between=tuple(36.5 * np.arange(1, 11)))
    assert uneven.cell(arm, time, kind).tolist() == expected


def test_times_at_ends_of_intervals_are_not_pushed_on_by_rounding() -> None:
    for horizon, intervals in ((365.0, 20), (365.0, 30), (0.7, 7), (1095.0, 49)):
        grid = Grid(intervals, 1, horizon)
        whole = np.arange(1, intervals + 1) * horizon
        time = np.array([one / intervals for one in whole.tolist() if one % intervals == 0])
        arm = np.zeros(len(time), np.uint8)
        expected = [round(one * intervals / horizon) - 1 for one in time.tolist()]
        assert grid.cell(arm, time, np.ones(len(time), np.uint8)).tolist() == expected


@pytest.mark.parametrize("delta", ["1e-6", "0"])
def test_cells_are_read_back_and_add_up_to_everybody(delta: str) -> None:
    study = make_survival(delta=delta)
    grid, random = grid_of(study, 2_000), np.random.default_rng(2)
    counts = random.multinomial(2_000, random.dirichlet(np.ones(2 * grid.cells)))
    found = read_cells(measured(counts, grid, delta == "0"), study, 2_000)
    assert found.counts.reshape(-1) == pytest.approx(counts, abs=1e-6)
    noisy = read_cells(random.normal(0, 9, 2 * grid.cells), study, 2_000)
    assert noisy.counts.sum() == pytest.approx(2_000)
    assert noisy.noise.sum() == pytest.approx(0, abs=1e-6)
    assert np.linalg.eigvalsh(noisy.noise).min() > -1e-6


def test_the_covariance_is_that_of_the_noise() -> None:
    """3,000 draws, seed 3: diagonal and sums within 15%, which a right covariance fails once in a million."""
    study, random = make_survival(competing=False, intervals=10), np.random.default_rng(3)
    grid, draw = Grid(10, 1, 365.0), mechanism(study)
    noise = random.normal(0, draw.known_scale, (3_000, 2 * grid.cells))
    found = [read_cells(row, study, 500) for row in noise]
    counts = np.array([one.counts.reshape(-1) for one in found])
    assert counts.var(axis=0) == pytest.approx(np.diag(found[0].noise), rel=0.15)
    sums = np.cumsum(counts[:, :10], axis=1)
    take = np.tril(np.ones((10, 10)))
    assert sums.var(axis=0) == pytest.approx(np.diag(take @ found[0].noise[:10, :10] @ take.T), rel=0.15)


def noise_of_curve(intervals: int, plain: bool) -> float:
    """kappa: n mu times the deviation of the noise of S at the horizon; S = .5, two thirds still followed."""
    grid, people = Grid(intervals, 1, 1.0), 1e6
    ends = np.linspace(0, 1, intervals + 1)
    event, lost = np.log(2), -np.log(2 / 3)
    left = np.exp(-(event + lost) * ends)
    gone = -np.diff(left) / (event + lost)
    cells = people * np.concatenate([event * gone, lost * gone, left[-1:]])
    slope = curves.gradient(lambda one: curves.survival(one, grid)[..., -1], cells)
    back = np.linalg.inv(strategy(grid, plain) / 2**BITS)
    return float(np.sqrt(2) * np.linalg.norm(slope @ back) * people)


def test_a_fine_grid_costs_nearly_nothing() -> None:
    ours = [noise_of_curve(intervals, plain=False) for intervals in (25, 50, 100)]
    histogram = [noise_of_curve(intervals, plain=True) for intervals in (25, 50, 100)]
    assert ours == pytest.approx([1.9, 2.0, 2.2], abs=0.1)
    assert histogram == pytest.approx([5.2, 7.3, 10.3], abs=0.3)


def test_the_grid_follows_public_numbers() -> None:
    assert [grid_of(make_survival(epsilon=one), 1_000).intervals for one in ("0.5", "1", "3")] == [10, 20, 50]
    assert grid_of(make_survival(delta="0"), 10**6).intervals == 10
    assert budget_of(make_survival(delta="0")) == 0
    assert grid_of(make_survival(intervals=33), 100).intervals == 33
    assert grid_of(make_survival(outcome={"horizon": 14}), 10**6).intervals == 14
    assert grid_of(make_survival(outcome={"horizon": 14, "step": 0.5}), 10**6).intervals == 28
