"""Distances for propose-test-release, against every table that can be written down."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from causalveil.tasks.estimate.papers.direction.scores import (
    SLACK,
    SMALLEST,
    Bins,
    QuartileRange,
    bin_distances,
    order_distance,
    released_log,
    useful_distance,
)

# Values whose ranges fall into many bins of these widths.
GRID = (0.0, 0.3, 0.5, 0.9, 1.6, 2.0)
WIDTHS = (0.4, 1.0)


def iqr(values: tuple[float, ...]) -> float:
    return QuartileRange(np.sort(np.array(values))).now


@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_windows_are_the_widest_and_narrowest_of_all_replacements(m: int) -> None:
    """Exhaustive: every table over the grid, every set of replaced rows, far values and grid values put in."""
    new = (-1e9, *GRID, 1e9)
    for table in itertools.combinations_with_replacement(GRID, m):
        sorted_range = QuartileRange(np.array(table))
        for replaced in range(3 if m < 5 else 2):
            found = [
                iqr((*(value for place, value in enumerate(table) if place not in out), *values))
                for out in itertools.combinations(range(m), replaced)
                for values in itertools.product(new, repeat=replaced)
            ]
            widest = sorted_range.widest(replaced)
            assert widest == max(found) or (widest == math.inf and max(found) > 1e8)
            # The narrowest range is reached by putting all new values into one place of the window.
            assert sorted_range.narrowest(replaced) <= min(found) + 1e-15
            inside = [table[0] if replaced == 0 else value for value in table]
            reached = [
                iqr((*(value for place, value in enumerate(table) if place not in out), *[value] * replaced))
                for out in itertools.combinations(range(m), replaced)
                for value in inside
            ]
            assert sorted_range.narrowest(replaced) == pytest.approx(min(reached), abs=1e-12)


def distances(table: tuple[float, ...], width: float, **settings: object) -> tuple[int, int]:
    arguments: dict = {"replace": True, "movement": None} | settings
    return bin_distances(QuartileRange(np.sort(np.array(table))), width, 50, **arguments)


@pytest.mark.parametrize("m", [3, 4])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("movement", [None, 0.11])
def test_distances_move_by_one_and_are_small_where_a_bin_is_left(m: int, width: float, movement: float | None) -> None:
    """The two properties that propose-test-release rests on, on all pairs of tables that differ in one row."""
    tables = {table: distances(table, width, movement=movement) for table in itertools.product(GRID, repeat=m)}
    left = 0
    for table, own in tables.items():
        for place, value in itertools.product(range(m), GRID):
            other = (*table[:place], value, *table[place + 1 :])
            for which, shift in enumerate((0.0, 0.5)):
                assert abs(own[which] - tables[other][which]) <= 1
                bins = Bins(width, shift)
                if bins.of(iqr(table)) != bins.of(iqr(other)):
                    left += 1
                    assert own[which] <= 1
                    assert tables[other][which] <= 1
            if max(own) >= 2:
                assert abs(released_log(iqr(table)) - released_log(iqr(other))) <= width
    assert left > 100


@pytest.mark.parametrize("replace", [True, False])
def test_training_units_move_every_value(replace: bool) -> None:
    """Random tables, every value moved by up to D: the same two properties for a training unit."""
    random = np.random.default_rng(3)
    left = 0
    for _ in range(4_000):
        m, movement, width = int(random.integers(3, 12)), float(random.choice([0.01, 0.05, 0.2])), 0.3
        table = random.uniform(-1, 1, m)
        other = table + movement * random.choice([-1, 1], m) * random.choice([1.0, random.random()])
        pair = [
            bin_distances(QuartileRange(np.sort(values)), width, 50, replace=replace, movement=movement + SLACK)
            for values in (table, other)
        ]
        for which, shift in enumerate((0.0, 0.5)):
            assert abs(pair[0][which] - pair[1][which]) <= 1
            bins = Bins(width, shift)
            if bins.of(iqr(tuple(table))) != bins.of(iqr(tuple(other))):
                left += 1
                assert max(pair[0][which], pair[1][which]) <= 1
    assert left > 100


def test_a_range_of_zero_is_unstable_and_has_a_finite_logarithm() -> None:
    assert distances((0.5,) * 6, 1.0) == (0, 0)
    assert released_log(0.0) == math.log(SMALLEST)
    assert Bins(1.0, 0.0).of(0.0) is None


def test_a_distance_is_cut_at_the_cap_and_grows_with_the_rows() -> None:
    few, many = (max(distances(tuple(np.linspace(-1, 1, m)), 1.0)) for m in (40, 4_000))
    assert few < many == 50


@pytest.mark.parametrize("count", [2, 5, 30])
def test_order_is_kept_below_its_distance(count: int) -> None:
    """Moving every residual by D as badly as possible, as often as the distance allows, leaves the order alone."""
    random = np.random.default_rng(count)
    for _ in range(200):
        residuals, movement = random.uniform(-2, 2, count), 10 ** random.uniform(-4, -1)
        distance = order_distance(residuals, movement, 10**6)
        order = np.argsort(residuals)
        closest = int(np.argmin(np.diff(residuals[order])))
        moved = residuals.copy()
        moved[order[closest]] += movement * (distance - 1)
        moved[order[closest + 1]] -= movement * (distance - 1)
        if distance >= 1:
            assert np.array_equal(np.argsort(moved), order)
        other = residuals + movement * random.choice([-1, 1], count)
        assert abs(order_distance(other, movement * (1 + 1e-9) + SLACK, 10**6) - distance) <= 1
        if not np.array_equal(np.argsort(other), order):
            assert distance <= 1


def test_equal_residuals_have_no_distance() -> None:
    assert order_distance(np.array([0.0, 1.0, 1.0]), 1e-3, 100) == 0


def test_useful_distance_is_beyond_doubt() -> None:
    threshold, scale = 30.0, 4.0
    assert math.exp(-(useful_distance(threshold, scale) - threshold) / scale) / 2 < 1e-11
