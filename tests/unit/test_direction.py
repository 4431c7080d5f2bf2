"""What a direction study declares and answers: shares, scales, theorems at released margins, the planner's hump."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from causalveil.flows.run.declare import declare, known_sizes
from causalveil.schemas.errors import ConvergenceError, StudyError
from causalveil.schemas.estimators.direction import Favours, Releases, Score
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Scope
from causalveil.schemas.release import ScoreRelease
from causalveil.schemas.remarks import PlanCode
from causalveil.schemas.study import Variant
from causalveil.tasks.estimate.papers.direction import scores as sensitivity
from causalveil.tasks.estimate.papers.direction.scores import (
    CHUNK,
    PRECISION,
    SLACK,
    SMALLEST,
    Bins,
    Kernel,
    QuartileRange,
    bin_distances,
    fit,
    hsic,
    kendall,
    order_distance,
    ranks,
    released_log,
    residuals,
    spearman,
    sum_of_squares,
    useful_distance,
)
from causalveil.tasks.estimate.papers.direction.stages import (
    draws,
    favoured,
    fits,
    hsic_margin,
    regress,
    score_values,
    shares,
    stand_in_pairs,
    sweep,
    vectors,
    verdict,
)
from causalveil.tasks.privacy.accountant import total
from causalveil.tasks.privacy.budget import RehearsalBudget
from tests.direction_help import (
    OPTIONS,
    answered,
    cause_and_effect,
    make_direction,
    option_name,
    rows,
)
from tests.studies import command

SIZES = Sizes(units=4_000, train=2_000, estimation=2_000)


@pytest.mark.parametrize("option", OPTIONS, ids=option_name)
@pytest.mark.parametrize(
    "scores", [["spearman"], ["hsic", "iqr"], ["iqr", "kendall", "spearman", "hsic"]], ids="+".join
)
@pytest.mark.parametrize("amounts", [("1", "1e-6"), ("0.7", "3e-7"), ("0.123456789", "1.7e-9")])
def test_charges_add_up_exactly(option: dict[str, Any], scores: list[str], amounts: tuple[str, str]) -> None:
    """With and without a known number of units, whatever does not divide evenly."""
    delta = amounts[1] if "iqr" in scores or "train" in option["protect"] else "0"
    study = make_direction(**option, scores=scores, epsilon=amounts[0], delta=delta)
    for sizes in (SIZES, None):
        charges = [step.mechanism.charge(step.slot) for step in (*fits(study, sizes), *draws(study, sizes))]
        assert total(charges, study.privacy.cost) == study.privacy.cost
        assert len({charge.name for charge in charges}) == len(charges)


def test_shares_are_nearly_equal_and_exact() -> None:
    for whole, parts in (("1", 3), ("0.7", 7), ("1e-6", 6), ("0.000001", 7), ("2", 1), ("0", 3)):
        found = shares(Decimal(whole), parts)
        assert sum(found) == Decimal(whole)
        assert max(found) - min(found) <= Decimal(whole) * Decimal("1e-6")


@pytest.mark.parametrize("score", ["spearman", "kendall", "hsic"])
def test_scales_are_sensitivity_over_epsilon(score: str) -> None:
    """Twice the sensitivity of one value, over the score's epsilon: for the pair, and for the difference."""
    for release in Releases:
        study = make_direction(scores=[score], release=release, epsilon="0.5", delta="0")
        (draw,) = draws(study, SIZES)
        expected = 2 * sensitivity.score_sensitivity(Score(score), 2_000, Variant.ours) / 0.5
        assert draw.mechanism.noise_scale == pytest.approx(expected, rel=1e-12)


def test_ours_is_never_noisier_than_the_paper() -> None:
    for score in (Score.spearman, Score.kendall, Score.hsic):
        for m in (5, 50, 5_000):
            ours, paper = (
                sensitivity.score_sensitivity(score, m, variant) for variant in (Variant.ours, Variant.paper)
            )
            assert ours <= paper
    for penalty in (1e-5, 1e-3, 0.1, 1.0):
        ours, paper = (
            sensitivity.weight_movement(1_000, penalty, variant) for variant in (Variant.ours, Variant.paper)
        )
        assert ours < paper


def test_both_halves_take_the_larger_sensitivity() -> None:
    one = {half: make_direction(scores=["hsic"], protect=[half], delta="0") for half in ("train", "test")}
    both = make_direction(scores=["hsic"], protect=["train", "test"], delta="0")
    for n, m in ((200, 2_000), (20_000, 20)):
        sizes = Sizes(units=n + m, train=n, estimation=m)
        scales = [draws(study, sizes)[0].mechanism.noise_scale for study in one.values()]
        (draw,) = draws(both, sizes)
        assert draw.mechanism.noise_scale == max(scales)
        assert draw.slot.scope is Scope.all


def test_ranks_of_the_training_half_are_one_test() -> None:
    study = make_direction(scores=["spearman", "kendall"], protect=["train"], epsilon="1", delta="1e-6")
    (draw,) = draws(study, SIZES)
    assert draw.scores == (Score.spearman, Score.kendall)
    assert (draw.mechanism.cost.epsilon, draw.mechanism.cost.delta) == (1, Decimal("1e-6"))


def test_distant_residuals_release_their_ranks_exactly() -> None:
    """Four test rows far apart and very many training rows: the test passes, and values are exact."""
    study = make_direction(scores=["spearman", "kendall"], protect=["train"], release="scores", penalty=1, epsilon=50)
    train = np.tile(cause_and_effect(1_000), (200, 1))
    test = rows(np.array([[-0.9, 0.1], [-0.2, 0.8], [0.3, -0.9], [0.8, 0.4]]))
    found = answered(study, train, test, RehearsalBudget(0))
    exact = vectors(test, regress(study, lambda _: train, 1))
    for score in found.scores:
        assert (score.x_to_y, score.y_to_x) == score_values(study, score.score, exact, test)
        assert score.order_kept == 1


def test_rows_that_tie_are_not_taken_for_dependence() -> None:
    """Two unrelated keyed orders break ties: by one order five hundred equal rows would have the score 1."""
    study = make_direction(delta="1e-6")
    test = rows(np.zeros((500, 2)))
    found = vectors(test, regress(study, lambda _: np.zeros((10, 2)), 1))
    for score in (Score.spearman, Score.kendall):
        assert max(score_values(study, score, found, test)) < 0.2


def test_noise_vanishes_with_epsilon() -> None:
    """At epsilon 1e6 every draw on the test half returns what was measured."""
    study = make_direction(release="scores", epsilon="1000000", delta="1e-6")
    train, test = cause_and_effect(2_000), rows(cause_and_effect(2_000, 1))
    exact = vectors(test, regress(study, lambda _: train, 1))
    for score in answered(study, train, test, RehearsalBudget(0)).scores:
        values = score_values(study, score.score, exact, test)
        assert score.x_to_y == pytest.approx(values[0], abs=1e-4)
        assert score.margin == pytest.approx(values[1] - values[0], abs=1e-4)


def test_theorems_at_their_ends() -> None:
    for theorem in (
        sensitivity.order_kept_one_draw,
        sensitivity.order_kept_two_draws,
        sensitivity.order_kept_four_draws,
    ):
        assert theorem(0.0, 2.0) == pytest.approx(0.5)
        assert theorem(60.0, 1.0) == pytest.approx(1)
        values = [theorem(margin, 1.0) for margin in np.linspace(0, 20, 200)]
        assert all(np.diff(values) >= 0)
    ratio = 1.3
    assert sensitivity.order_kept_two_draws(ratio, 1) == pytest.approx(1 - (ratio + 2) / 4 * math.exp(-ratio))


def vote(favours: Favours | None, kept: float | None) -> ScoreRelease:
    margin = None if kept is None else {Favours.x_to_y: 1.0, Favours.y_to_x: -1.0, None: 0.0}[favours]
    return ScoreRelease(
        score="hsic",
        answered=kept is not None,
        x_to_y=None,
        y_to_x=None,
        margin=margin,
        favours=favours,
        order_kept=kept,
        theorem="",
        charges=("hsic",),
    )


@pytest.mark.parametrize(
    ("votes", "favours", "weight"),
    [
        ([(Favours.x_to_y, 1.0)], Favours.x_to_y, 1.0),
        ([(Favours.x_to_y, 0.75), (Favours.y_to_x, 0.6)], Favours.x_to_y, 0.15),
        ([(Favours.x_to_y, 0.9), (Favours.y_to_x, 0.9)], None, 0.0),
        ([(None, None), (Favours.y_to_x, 0.8)], Favours.y_to_x, -0.6),
        ([(None, None)], None, 0.0),
        ([(None, 0.5)], None, 0.0),
    ],
)
def test_verdict(votes: list[tuple[Favours | None, float | None]], favours: Favours | None, weight: float) -> None:
    found = verdict([vote(*one) for one in votes])
    assert found.favours is favours
    assert found.weight == pytest.approx(weight)
    assert "2 p - 1" in found.rule


def test_favoured() -> None:
    assert [favoured(margin) for margin in (0.1, -0.1, 0.0, None)] == [Favours.x_to_y, Favours.y_to_x, None, None]


def test_stand_in_is_evenly_spread_and_has_the_direction_that_it_states() -> None:
    pairs = stand_in_pairs(4_096)
    assert np.abs(pairs).max() <= 1
    assert np.abs(np.histogram(pairs[:, 0], 16, (-1, 1))[0] - 256).max() <= 3
    assert hsic_margin(0.001, 0.2, 0.2) > 0.005
    assert hsic_margin(1.0, 0.2, 0.2) < hsic_margin(0.1, 0.2, 0.2)


def test_sweep_has_the_papers_hump() -> None:
    """Training-set privacy: small penalties drown in noise, large ones fit nothing, the best lies between."""
    study = make_direction(scores=["hsic"], protect=["train"], delta="0", epsilon="10", bandwidth=0.1)
    table = sweep(study, Sizes(units=400_000, train=200_000, estimation=200_000))
    right = [row["right_direction"] for row in table]
    best = int(np.argmax(right))
    assert 0 < best < len(right) - 1
    assert right[best] > max(right[0], right[-1]) + 0.2
    assert all(np.diff([row["noise_scale"] for row in table]) <= 0)
    rising = right[3 : best + 1]  # before, the bound on HSIC's sensitivity is HSIC's whole range
    assert np.array_equal(rising, np.sort(rising))


def test_sweep_without_training_privacy_has_none() -> None:
    study = make_direction(scores=["hsic"], protect=["test"], delta="0")
    right = [row["right_direction"] for row in sweep(study, SIZES)]
    assert np.array_equal(right, np.sort(right)[::-1])


def test_sweep_refusals() -> None:
    with pytest.raises(StudyError, match="hsic"):
        sweep(make_direction(scores=["kendall"], delta="0"), SIZES)
    with pytest.raises(StudyError, match="number of units"):
        known_sizes(declare(make_direction(scores=["hsic"], delta="0"), None))


@pytest.mark.parametrize("option", OPTIONS, ids=option_name)
def test_what_is_expected(option: dict[str, Any]) -> None:
    """Every option has sentences; a half without a bound is a warning; few units drown."""
    from causalveil.flows.estimators.direction import DIRECTION

    study = make_direction(**option)
    for units in (40, 400_000):
        sizes = Sizes(units=units, train=units // 2, estimation=units // 2)
        found = DIRECTION.expected(study, sizes, StandIn(), None)
        assert found["sentences"] or found["warnings"]
        unprotected = [one for one in found["warnings"] if one.code is PlanCode.unprotected]
        assert len(unprotected) == 2 - len(option["protect"])
        assert 0.0 <= found["hsic_right_direction"] <= 1.0


def test_plan_sweep_on_the_command_line(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    from tests.direction_help import write_direction

    path = write_direction(tmp_path)
    for part in tmp_path.glob("*.parquet"):
        part.unlink()
    assert command("plan", path, "--units", "4000", "--sweep", "penalty", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["expected"]["sweep"]) == 9
    command("plan", path, "--units", "4000", "--sweep", "penalty")
    shown = capsys.readouterr().out
    assert "right direction" in shown


# Scores, kernels and regressions against scipy, scikit-learn and plain oracles.
BANDWIDTHS = (0.02, 0.05, 0.2, 1.0, 10.0)


def gaussian(values: np.ndarray, bandwidth: float) -> np.ndarray:
    return np.exp(-(np.subtract.outer(values, values) ** 2) / (2 * bandwidth**2))


@pytest.mark.parametrize("bandwidth", BANDWIDTHS)
@pytest.mark.parametrize("radius", [1.0, 2.0])
def test_features_are_the_gaussian_kernel(bandwidth: float, radius: float) -> None:
    """To a quarter of what is charged for, at random values, at the ends and where values coincide; norm one."""
    values = np.concatenate([np.random.default_rng(0).uniform(-radius, radius, 300), [-radius, radius, 0.0, 0.0]])
    features = Kernel(bandwidth, radius).features(values)
    assert features.shape == (304, Kernel(bandwidth, radius).dimension)
    assert np.abs(features @ features.T - gaussian(values, bandwidth)).max() < PRECISION / 4
    assert np.abs((features**2).sum(axis=1) - 1).max() < 1e-14


def test_values_beyond_the_radius_are_clipped() -> None:
    kernel = Kernel(0.2, 1.0)
    assert np.array_equal(kernel.features(np.array([7.0, -9.0])), kernel.features(np.array([1.0, -1.0])))


def test_slope_bounds_the_kernel() -> None:
    steps = np.linspace(-40, 40, 1_000_001)
    for bandwidth in BANDWIDTHS:
        slopes = np.abs(np.diff(np.exp(-(steps**2) / (2 * bandwidth**2)))) / np.diff(steps)
        assert slopes.max() <= Kernel(bandwidth, 2.0).lipschitz < slopes.max() * 1.01


@pytest.mark.parametrize("bandwidth", [0.01, 11.0])
def test_bandwidth_out_of_range(bandwidth: float) -> None:
    with pytest.raises(StudyError, match="bandwidth"):
        Kernel(bandwidth, 1.0)


@pytest.mark.parametrize("penalty", [1e-5, 1e-3, 0.1, 1.0])
@pytest.mark.parametrize("bandwidth", [0.05, 0.2, 2.0])
def test_regression_is_kernel_ridge(penalty: float, bandwidth: float) -> None:
    """scikit-learn's, whose alpha is n penalty/2: with alpha = penalty the residuals would differ by tenths."""
    from sklearn.kernel_ridge import KernelRidge

    pairs, new = cause_and_effect(400), np.linspace(-1, 1, 301)
    for cause in (0, 1):
        ours = fit(lambda _: pairs, 1, cause, penalty, bandwidth).predict(new)
        model = KernelRidge(alpha=len(pairs) * penalty / 2, kernel="rbf", gamma=1 / (2 * bandwidth**2))
        theirs = model.fit(pairs[:, [cause]], pairs[:, 1 - cause]).predict(new[:, None])
        assert np.abs(ours - np.clip(theirs, -1, 1)).max() < 1e-7


def test_regression_does_not_depend_on_partitions() -> None:
    pairs = cause_and_effect(3 * CHUNK)
    whole = fit(lambda _: pairs, 1, 0, 0.01, 0.2)
    parts = np.array_split(pairs, [10, 10, 9_000])
    cut = fit(lambda index: parts[index], len(parts), 0, 0.01, 0.2, workers=2)
    assert np.abs(whole.weights - cut.weights).max() < 1e-10


def test_no_training_rows() -> None:
    with pytest.raises(ConvergenceError, match="no training units"):
        fit(lambda _: np.zeros((0, 2)), 1, 0, 0.1, 0.2)


def test_residuals_stay_in_range() -> None:
    train = np.array([[-1.0, 1.0], [1.0, -1.0]] * 50)
    found = residuals(train, -train, 1e-5, 0.02)
    assert all(np.abs(side).max() <= 2 for side in found)


@pytest.mark.parametrize("m", [3, 4, 5, 17, 200])
def test_ranks_against_scipy(m: int) -> None:
    from scipy.stats import kendalltau, spearmanr

    random = np.random.default_rng(m)
    for _ in range(20):
        a, b = random.normal(size=(2, m))
        assert spearman(a, b) == pytest.approx(abs(spearmanr(a, b).statistic), abs=1e-12)
        assert kendall(a, b) == pytest.approx(abs(kendalltau(a, b, method="exact").statistic), abs=1e-12)


def test_two_rows_have_one_pair() -> None:
    assert spearman(np.array([0.0, 1.0]), np.array([5.0, 3.0])) == 1
    assert kendall(np.array([0.0, 1.0]), np.array([5.0, 3.0])) == 1


def test_ties_are_broken_by_the_order_that_is_given() -> None:
    values = np.array([1.0, 0.0, 1.0, 0.0])
    assert ranks(values).tolist() == [2, 0, 3, 1]
    assert ranks(values, np.array([3, 2, 1, 0])).tolist() == [3, 1, 2, 0]
    a, b = np.zeros(500), np.zeros(500)
    order = np.random.default_rng(0).permutation(500)
    assert spearman(a, b) == 1, "one order for both looks like dependence"
    assert spearman(a, b, (None, order)) < 0.2


def test_spearman_is_exact_beyond_floats() -> None:
    """3e5 reversed rows: the sum of squares is 9e15, and the score is 1, not nearly 1."""
    rising = np.arange(300_000.0)
    assert spearman(rising, rising[::-1]) == 1.0


@pytest.mark.parametrize("m", [2, 33_000_000, 60_000_000, 10**9, 2**31])
def test_squares_of_ranks_that_differ_add_up_at_any_size(m: int) -> None:
    """A chunk's squares exceed 63 bits from 3.4e7 test rows on; a sum that wraps moves by 2^64 for one row."""
    assert sum_of_squares(np.full(CHUNK + 3, m - 1), m) == (CHUNK + 3) * (m - 1) ** 2


@pytest.mark.parametrize("m", [2, 3, 50, 400])
@pytest.mark.parametrize("bandwidths", [(0.2, 0.2), (0.05, 1.0)])
def test_hsic_against_the_trace(m: int, bandwidths: tuple[float, float]) -> None:
    random = np.random.default_rng(m)
    a, b = random.uniform(-1, 1, m), random.uniform(-2, 2, m)
    k, el, centre = gaussian(a, bandwidths[0]), gaussian(b, bandwidths[1]), np.eye(m) - 1 / m
    expected = np.trace(k @ centre @ el @ centre) / (m - 1) ** 2
    assert hsic(a, b, Kernel(bandwidths[0], 1.0), Kernel(bandwidths[1], 2.0)) == pytest.approx(expected, abs=1e-11)


def test_hsic_over_chunks_of_rows() -> None:
    """More rows than a chunk: the same as from the halves' own sums, here by repeating rows (means do not change)."""
    random = np.random.default_rng(5)
    a, b = random.uniform(-1, 1, (2, 900))
    kernels = Kernel(0.2, 1.0), Kernel(0.2, 2.0)
    copies = 20
    assert copies * 900 > 2 * CHUNK
    once, often = hsic(a, b, *kernels), hsic(np.tile(a, copies), np.tile(b, copies), *kernels)
    assert often * ((copies * 900 - 1) / (copies * 900)) ** 2 == pytest.approx(once * (899 / 900) ** 2, abs=1e-12)


def test_quartile_range() -> None:
    found = QuartileRange(np.arange(8.0))
    assert found.places == (1, 5)
    assert released_log(found.now) == pytest.approx(np.log(4))


# Distances for propose-test-release, against every table that can be written down.
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
