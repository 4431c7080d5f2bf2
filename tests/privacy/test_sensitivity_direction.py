"""Every sensitivity of direction finding, by brute force on neighbouring tables.

Each bound is tried from both sides: by every table of a few rows, by Hypothesis, or by a search that climbs, and by a
pair that attains it or comes as near as is known. The oracles are the papers' formulas written out, on matrices.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causalveil.schemas.estimators.direction import Score
from causalveil.schemas.study import Variant
from causalveil.tasks.estimate.papers.direction import scores
from causalveil.tasks.estimate.papers.direction.scores import (
    Bins,
    Kernel,
    QuartileRange,
    bin_distances,
    fit,
    order_distance,
    residuals,
)
from causalveil.tasks.machine.arrays import FloatArray, IntArray

VARIANTS = tuple(Variant)
RANK_SCORES = {Score.spearman: scores.spearman, Score.kendall: scores.kendall}

# Ranks -----------------------------------------------------------------------------------------------------


def reinsertions(rest: tuple[int, ...]) -> IntArray:
    """All tables of len(rest) + 1 rows that hold ``rest``: the second ranks, in the order of the first; one a line.

    A rank score depends on the permutation that pairs the ranks. Take one row out of a table: what is left is again a
    permutation, ``rest``. Put it back at first rank p and second rank q: these are all the neighbours of the table.
    """
    m = len(rest) + 1
    kept = np.array(rest, dtype=np.int64)
    tables = []
    for q in range(m):
        lifted = kept + (kept >= q)
        tables += [np.insert(lifted, p, q) for p in range(m)]
    return np.array(tables)


def signed_scores(tables: IntArray) -> dict[Score, FloatArray]:
    """rho and tau of each line by their definitions."""
    m = tables.shape[1]
    rho = 1 - 6 * np.sum((tables - np.arange(m)) ** 2, axis=1) / (m * (m * m - 1))
    i, j = np.triu_indices(m, 1)
    return {Score.spearman: rho, Score.kendall: np.sign(tables[:, j] - tables[:, i]).sum(axis=1) / (m * (m - 1) / 2)}


EXACT = {Score.spearman: lambda m: 6 / (m + 1), Score.kendall: lambda m: 4 / m}


@pytest.mark.parametrize("m", [2, 3, 4, 5, 6, 7])
def test_rank_bounds_are_attained_and_never_passed_by_any_table(m: int) -> None:
    """All m! permutations with all their neighbours, up to 7 rows: signed scores reach 6/(m + 1) and 4/m, no more."""
    signed, absolute = dict.fromkeys(RANK_SCORES, 0.0), dict.fromkeys(RANK_SCORES, 0.0)
    for rest in itertools.permutations(range(m - 1)):
        for score, values in signed_scores(reinsertions(rest)).items():
            signed[score] = max(signed[score], float(np.ptp(values)))
            absolute[score] = max(absolute[score], float(np.ptp(np.abs(values))))
    for score, bound in EXACT.items():
        assert signed[score] == pytest.approx(bound(m), abs=1e-12)
        # The worst move begins at 1 and, with enough rows, ends above 0: the score's size moves as far.
        assert absolute[score] == pytest.approx(bound(m), abs=1e-12) if m >= 5 else absolute[score] <= bound(m)
        assert bound(m) <= scores.score_sensitivity(score, m, Variant.ours) <= bound(m) * (1 + 1e-10)


@pytest.mark.parametrize("score", RANK_SCORES)
def test_rank_scores_are_those_of_the_definition(score: Score) -> None:
    """Every table of 5 rows, on values whose order is the ranks'."""
    values = np.exp(np.arange(5.0))
    for line in itertools.permutations(range(5)):
        expected = abs(signed_scores(np.array([line]))[score][0])
        assert RANK_SCORES[score](-1 / values, values[list(line)]) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=300, deadline=None)
@given(st.data(), st.integers(3, 40), st.sampled_from(list(RANK_SCORES)))
def test_rank_scores_of_neighbours_are_close_with_ties_everywhere(data: st.DataObject, m: int, score: Score) -> None:
    """Values from three numbers: ranks are made by the tie orders, which stay with the place and not with the row."""
    value = st.sampled_from([-1.0, 0.0, 1.0])
    a, b = (np.array(data.draw(st.lists(value, min_size=m, max_size=m))) for _ in "ab")
    ties = np.array(data.draw(st.permutations(range(m))))
    place, new_a, new_b = data.draw(st.integers(0, m - 1)), data.draw(value), data.draw(value)
    moved_a, moved_b = a.copy(), b.copy()
    moved_a[place], moved_b[place] = new_a, new_b
    before, after = (RANK_SCORES[score](u, v, (None, ties)) for u, v in ((a, b), (moved_a, moved_b)))
    for variant in VARIANTS:
        assert abs(before - after) <= scores.score_sensitivity(score, m, variant)


# HSIC ------------------------------------------------------------------------------------------------------


def plain_hsic(a: FloatArray, b: FloatArray, bandwidth: float) -> float:
    """trace(KHLH)/(m - 1)^2 on m x m matrices."""
    m = len(a)
    kernel_a, kernel_b = (np.exp(-((v[:, None] - v[None]) ** 2) / (2 * bandwidth**2)) for v in (a, b))
    h = np.eye(m) - 1 / m
    return float(np.trace(kernel_a @ h @ kernel_b @ h)) / (m - 1) ** 2


def hsic(a: FloatArray, b: FloatArray, bandwidth: float) -> float:
    return scores.hsic(a, b, Kernel(bandwidth, 1.0), Kernel(bandwidth, 2.0))


def climb(m: int, bandwidth: float, seed: int, steps: int) -> float:
    """The largest change of HSIC that random moves, kept when they help, find; in units of m/(m - 1)^2."""
    random = np.random.default_rng(seed)
    # Rows 0 .. m - 1 are a table, row m is the person who takes the place of row 0.
    rows = random.choice([-1.0, 0.0, 1.0], (m + 1, 2)) if seed % 2 else random.uniform(-1, 1, (m + 1, 2))

    def change(table: FloatArray) -> float:
        moved = np.vstack([table[m:], table[1:m]])
        return abs(plain_hsic(*table[:m].T, bandwidth) - plain_hsic(*moved.T, bandwidth))

    best = change(rows)
    for _ in range(steps):
        trial = rows.copy()
        place = random.integers(m + 1)
        side = random.integers(2)
        # Jump to where somebody else is, or anywhere.
        trial[place, side] = trial[random.integers(m + 1), side] if random.random() < 0.7 else random.uniform(-1, 1)
        found = change(trial)
        if found >= best:
            rows, best = trial, found
    return best * (m - 1) ** 2 / m


@pytest.mark.parametrize(("m", "bandwidth"), [(6, 0.02), (10, 0.2), (12, 0.05)])
def test_no_search_passes_the_bound_of_hsic(m: int, bandwidth: float) -> None:
    found = max(climb(m, bandwidth, seed, 1200) for seed in range(4))
    bound = scores.score_sensitivity(Score.hsic, m, Variant.ours) * (m - 1) ** 2 / m
    print(f"HSIC, m = {m}, h = {bandwidth}: moved by {found:.3f} m/(m - 1)^2 of {bound:.3f}")
    # The search is worth something: it finds most of what the worst pair that is known gives, 32/27 for large m.
    assert 0.85 <= found <= bound


@settings(max_examples=400, deadline=None)
@given(st.data(), st.integers(1, 8), st.sampled_from([0.02, 0.3, 1.0]))
def test_the_lemma_of_hsic_holds_for_any_measure(data: st.DataObject, atoms: int, bandwidth: float) -> None:
    """(3/4) alpha + (16/27) beta <= 1: section 3 of docs/proofs/direction_hsic.md, on the exact kernel."""
    value = st.one_of(st.floats(-1, 1), st.sampled_from([-1.0, 0.0, 1.0]))
    places = np.array(data.draw(st.lists(value, min_size=atoms + 2, max_size=atoms + 2)))
    if data.draw(st.booleans()):
        places[:2] = places[2]
    weights = np.array(data.draw(st.lists(st.integers(1, 20), min_size=atoms, max_size=atoms)), dtype=float)
    assert lemma(places, weights / weights.sum(), bandwidth) <= 1 + 1e-12


def lemma(places: FloatArray, mass: FloatArray, bandwidth: float) -> float:
    """(3/4) alpha + (16/27) beta for x, x' = places[:2] and the measure with ``mass`` on the others."""
    kernel = np.exp(-((places[:, None] - places[None, 2:]) ** 2) / (2 * bandwidth**2))
    f = kernel[:2] - mass @ kernel[2:]
    f -= (f @ mass)[:, None]
    return float(0.75 * (f[0] - f[1]) ** 2 @ mass + 16 / 27 * (f[0] + f[1]) ** 2 @ mass)


def test_the_lemma_of_hsic_is_attained_where_its_factor_is_largest() -> None:
    """A quarter of the mass at x = x', the rest far away: no factor above 16/27 would do."""
    assert lemma(np.array([-1.0, -1.0, -1.0, 1.0]), np.array([0.25, 0.75]), 0.05) == pytest.approx(1)


def worst_hsic_pair(m: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Two clusters, a third and two thirds of the rows, in both vectors; then one of the third leaves it in b alone."""
    a = np.where(np.arange(m) < round(m / 3), -1.0, 1.0)
    moved = a.copy()
    moved[0] = 1.0
    return a, a.copy(), moved


@pytest.mark.parametrize("m", [30, 300, 3000])
def test_the_worst_known_pair_of_hsic_is_where_the_proof_puts_it(m: int) -> None:
    a, b, moved = worst_hsic_pair(m)
    found = (hsic(a, b, 0.1) - hsic(a, moved, 0.1)) * (m - 1) ** 2 / m
    assert found == pytest.approx(32 / 27, abs=2 / m)
    assert found <= scores.score_sensitivity(Score.hsic, m, Variant.ours) * (m - 1) ** 2 / m


@settings(max_examples=200, deadline=None)
@given(st.data(), st.integers(2, 15), st.sampled_from([0.02, 0.1, 0.2, 1.0]))
def test_hsic_of_neighbours_is_as_close_as_declared(data: st.DataObject, m: int, bandwidth: float) -> None:
    value = st.one_of(st.floats(-1, 1), st.sampled_from([-1.0, 0.0, 1.0]))
    a, b = (np.array(data.draw(st.lists(value, min_size=m + 1, max_size=m + 1))) for _ in "ab")
    before, after = hsic(a[1:], b[1:], bandwidth), hsic(a[:-1], b[:-1], bandwidth)
    # a[1:] and a[:-1] differ in one row up to order, and HSIC does not know the order.
    for variant in VARIANTS:
        assert abs(before - after) <= scores.score_sensitivity(Score.hsic, m, variant)
    assert before == pytest.approx(plain_hsic(a[1:], b[1:], bandwidth), abs=scores.HSIC_ERROR)


# Training units --------------------------------------------------------------------------------------------

PENALTIES = [1e-3, 0.01, 0.1, 1.0]


def neighbours(seed: int, n: int) -> tuple[FloatArray, FloatArray]:
    """Training sets of n rows that differ in one; half of them at the corners, where regressions are pulled hardest."""
    random = np.random.default_rng(seed)
    rows = random.uniform(-1, 1, (n + 1, 2))
    if seed % 2:
        rows = np.where(random.random((n + 1, 2)) < 0.7, np.sign(rows), rows)
    if seed % 3 == 0:
        rows[:, 0] = rows[0, 0]
    return rows[1:], rows[:-1]


@pytest.mark.parametrize("penalty", PENALTIES)
def test_residuals_of_neighbouring_training_sets_are_as_close_as_declared(penalty: float) -> None:
    places = np.linspace(-1, 1, 81)
    for seed, n, bandwidth in itertools.product(range(12), (1, 2, 20), (0.05, 0.5)):
        one, other = (fit(lambda _, t=t: t, 1, 0, penalty, bandwidth) for t in neighbours(seed, n))
        # r = y' - f(x') moves as f does, whatever y' is.
        moved = float(np.max(np.abs(one.predict(places) - other.predict(places))))
        distance = float(np.linalg.norm(one.weights - other.weights))
        for variant in VARIANTS:
            assert moved <= scores.residual_movement(n, penalty, variant)
            assert distance <= scores.weight_movement(n, penalty, variant)


def test_residuals_move_as_regressions_do() -> None:
    train, test = neighbours(1, 20)[0], neighbours(3, 50)[0]
    f, g = (fit(lambda _: train, 1, cause, 0.1, 0.2) for cause in (0, 1))
    r_y, r_x = residuals(train, test, 0.1, 0.2)
    np.testing.assert_allclose(r_y, test[:, 1] - f.predict(test[:, 0]))
    np.testing.assert_allclose(r_x, test[:, 0] - g.predict(test[:, 1]))


@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_bound_on_weights_is_within_a_known_factor_of_what_is_reached(penalty: float) -> None:
    """Everybody pulls one way; the row that is replaced sits across, at the other end, with its sign turned.

    The curvature there is the penalty alone, so the weights move by 4/(n penalty) but for the row's own pull; what the
    bound has on top, 4/(n penalty sqrt(2 penalty)), is for predictions of size 1/sqrt(2 penalty), which no table has
    at the same time (predictions inside the gradient are not clipped).
    """
    n = 20_000
    rows = np.column_stack([np.full(n, 0.9), np.ones(n)])
    pair = []
    for sign in (1.0, -1.0):
        rows[0] = -0.9, sign
        pair.append(fit(lambda _: rows, 1, 0, penalty, 0.2).weights)
    share = float(np.linalg.norm(pair[0] - pair[1])) / scores.weight_movement(n, penalty, Variant.ours)
    print(f"penalty {penalty}: {share:.3f} of the bound")
    pull = penalty / (penalty + 2 / n)
    expected = pull * math.sqrt(penalty) / (math.sqrt(penalty) + math.sqrt(0.5))
    assert share == pytest.approx(expected, rel=0.01)


def test_a_wrong_parametrisation_would_be_caught() -> None:
    """scikit-learn's penalty taken for ours, without n/2, moves residuals by more than the bound at once."""
    n, penalty = 400, 1.0
    rows = np.column_stack([np.linspace(-1, 1, n) * 0 + 0.9, np.ones(n)])
    rows[0] = -0.9, 1.0
    turned = rows.copy()
    turned[0] = -0.9, -1.0
    wrong = [fit(lambda _, t=t: t, 1, 0, 2 * penalty / n, 0.2) for t in (rows, turned)]
    moved = abs(float(wrong[0].predict(np.array([-0.9]))[0] - wrong[1].predict(np.array([-0.9]))[0]))
    assert moved > 10 * scores.residual_movement(n, penalty, Variant.ours)


@pytest.mark.parametrize("penalty", [0.02, 0.3, 1.0])
def test_hsic_moves_with_residuals_as_little_as_declared(penalty: float) -> None:
    """Two clusters whose residuals stand where the kernel is steepest, moved towards or away from each other by D.

    It is the worst that training units could do, half of them up, half of them down: D/2 times the slope for small D, a
    quarter for large.
    """
    m, n, bandwidth, largest = 200, 3000, 0.2, 0.0
    movement = scores.residual_movement(n, penalty, Variant.ours)
    ours, paper = (scores.hsic_training_sensitivity(n, m, penalty, bandwidth, variant) for variant in VARIANTS)
    sides = np.repeat([-1.0, 1.0], m // 2)
    for gap, sign in itertools.product(np.linspace(0, 0.5, 26), (1, -1)):
        residual = sides * gap / 2
        moved = residual + sign * movement * sides
        largest = max(largest, abs(hsic(sides, residual, bandwidth) - hsic(sides, np.clip(moved, -2, 2), bandwidth)))
    print(f"HSIC, penalty {penalty}: moved by {largest / ours:.3f} of the bound")
    assert 0.98 * ours <= largest <= ours <= paper


@pytest.mark.parametrize("penalty", [0.05, 1.0])
def test_hsic_of_neighbouring_training_sets_is_as_close_as_declared(penalty: float) -> None:
    random = np.random.default_rng(3)
    test = random.uniform(-1, 1, (60, 2))
    for seed, n in itertools.product(range(10), (5, 50)):
        found = []
        for train in neighbours(seed, n):
            r, _ = residuals(train, test, penalty, 0.2)
            found.append(hsic(test[:, 0], r, 0.2))
        for variant in VARIANTS:
            assert abs(found[0] - found[1]) <= scores.hsic_training_sensitivity(n, 60, penalty, 0.2, variant)


# Distances -------------------------------------------------------------------------------------------------

CAP = 50


@settings(max_examples=400, deadline=None)
@given(st.data(), st.integers(4, 14), st.sampled_from([0.25, 1.0]))
def test_distances_of_neighbours_differ_by_one_and_guard_the_bin(data: st.DataObject, m: int, width: float) -> None:
    value = st.one_of(st.floats(-2, 2), st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]))
    one = np.array(data.draw(st.lists(value, min_size=m, max_size=m)))
    other = one.copy()
    other[data.draw(st.integers(0, m - 1))] = data.draw(value)
    ranges = [QuartileRange(np.sort(values)) for values in (one, other)]
    distances = [bin_distances(iqr, width, CAP, replace=True, movement=None) for iqr in ranges]
    for shift, before, after in zip((0.0, 0.5), *distances, strict=True):
        assert abs(before - after) <= 1
        bins = Bins(width, shift)
        if max(before, after) > 1:
            assert bins.of(ranges[0].now) == bins.of(ranges[1].now) is not None


@pytest.mark.parametrize("seed", range(20))
def test_distances_are_those_of_every_possible_replacement(seed: int) -> None:
    """7 values, all ways to replace 1 or 2 of them by numbers of a fine grid: never a shorter way out of the bin."""
    values = np.sort(np.random.default_rng(seed).uniform(-1, 1, 7))
    iqr = QuartileRange(values)
    grid = np.concatenate([np.linspace(-2, 2, 9), values])
    for shift, distance in zip((0.0, 0.5), bin_distances(iqr, 1.0, CAP, replace=True, movement=None), strict=True):
        bins = Bins(1.0, shift)
        for count in range(1, min(distance, 3)):
            for places in itertools.combinations(range(7), count):
                for new in itertools.product(grid, repeat=count):
                    changed = values.copy()
                    changed[list(places)] = new
                    assert bins.of(QuartileRange(np.sort(changed)).now) == bins.of(iqr.now)


@settings(max_examples=200, deadline=None)
@given(st.data(), st.integers(2, 12), st.floats(0.001, 0.5))
def test_order_distances_of_moved_residuals_differ_by_one_and_guard_the_order(
    data: st.DataObject, m: int, movement: float
) -> None:
    one = np.array(data.draw(st.lists(st.floats(-2, 2), min_size=m, max_size=m)))
    shift = np.array(data.draw(st.lists(st.floats(-1, 1), min_size=m, max_size=m)))
    other = one + movement * shift
    before, after = (order_distance(values, movement, CAP) for values in (one, other))
    assert abs(before - after) <= 1
    if max(before, after) > 1:
        assert np.array_equal(scores.ranks(one), scores.ranks(other))
