"""The outcome model: exact sums, least squares without noise, and shrinkage that never does worse than arm means."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from causalveil.tasks.aipw import shrinkage
from causalveil.tasks.aipw.decide import recipe
from causalveil.tasks.aipw.outcome_model import ArmSummary, arm_sums, cut, slope_sums, summary_from, without_slopes
from causalveil.tasks.aipw.recipe import APART_WEIGHT, INSIDE_WEIGHT, MEANS_WEIGHT, Recipe
from causalveil.tasks.aipw.shrinkage import shrinkage_factor, signal_ratio, taken_off
from causalveil.tasks.aipw.slopes import moments_from, slopes_from
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.enclave.sizes import sizes_of
from tests.aipw_help import confounded, encode, in_memory, make_aipw

FINE = 2.0**-17


def plan(p: int = 2, n: int = 200_000, delta: str = "1e-6", epsilon: str = "1") -> Recipe:
    study = make_aipw(p, delta=delta, epsilon=epsilon)
    found = recipe(study, sizes_of(study, n))
    assert found.slopes_cost is not None
    return found


def test_sums_are_those_of_a_loop() -> None:
    made, (rows, _) = plan(), confounded(400, seed=1)
    arms = ArmSummary(0.5, 0.0, (0.1, -0.1), (0.0, 0.0), 0.2)
    expected_arms, cross, first, second = np.zeros(4), np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((2, 2))
    within = np.zeros(2)
    means, apart = np.zeros(2), np.zeros((2, 2))
    for x, t, u in zip(rows.x, rows.t, rows.u, strict=True):
        expected_arms += [t * u, (1 - t) * u, math.sqrt(2) * t, u * u]
        z = x[:-1] / max(made.radius, float(np.linalg.norm(x[:-1])))
        r = min(max((u - (0.1 if t else -0.1)) / (made.residuals * 0.2), -1), 1)
        cross[0 if t else 1] += r * z
        first[0 if t else 1] += MEANS_WEIGHT * z
        means[0 if t else 1] += MEANS_WEIGHT * r
        second += np.outer(z, z)
        apart += APART_WEIGHT * (1 if t else -1) * np.outer(z, z)
        within += INSIDE_WEIGHT / math.sqrt(2) * (1 - (x[:-1] / x[-1]) ** 2)
    np.testing.assert_allclose(arm_sums(in_memory([rows])), expected_arms, atol=400 * FINE)
    moments = [*cross.ravel(), *first.ravel(), *means]
    triangles = [(m[0, 0] / math.sqrt(2), m[0, 1], m[1, 1] / math.sqrt(2)) for m in (second, apart)]
    expected = [*moments, *triangles[0], *triangles[1], *within]
    np.testing.assert_allclose(slope_sums(in_memory([rows]), arms, made), expected, atol=1000 * FINE)
    pure = replace(made, slopes_cost=made.slopes_cost.model_copy(update={"delta": 0}))
    found = slope_sums(in_memory([rows]), arms, pure)
    np.testing.assert_allclose(found, [*moments, np.trace(second)], atol=1000 * FINE)


def test_sums_depend_on_neither_order_nor_pieces_nor_workers() -> None:
    made, (rows, _) = plan(), confounded(20_001, seed=2)
    arms = ArmSummary(0.5, 0.0, (0.1, -0.1), (0.0, 0.0), 0.2)
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = Rows(rows.x[order], rows.t[order], rows.u[order])
    pieces = [Rows(shuffled.x[a:b], shuffled.t[a:b], shuffled.u[a:b]) for a, b in ((0, 5), (5, 5), (5, 20_001))]
    for one, two in (
        (arm_sums(in_memory([rows])), arm_sums(in_memory(pieces), 2)),
        (slope_sums(in_memory([rows]), arms, made), slope_sums(in_memory(pieces), arms, made, 2)),
    ):
        np.testing.assert_array_equal(one, two)


def test_cut_rows_stay_in_the_ball_and_keep_their_direction() -> None:
    x = encode(np.random.default_rng(3).uniform(-1, 1, (2000, 6)))
    for radius in (0.2, 0.7, 1.0):
        z = cut(x, radius)
        assert np.all(np.linalg.norm(z, axis=1) <= 1)
        assert np.all(z * 2**18 == np.rint(z * 2**18))
        short = np.linalg.norm(x[:, :-1], axis=1) <= radius
        np.testing.assert_allclose(z[short], x[short, :-1] / radius, atol=FINE)


def test_without_noise_the_slopes_are_least_squares_within_arms() -> None:
    """Large n: noise terms vanish beside the moments. Reference: numpy's least squares with arm constants."""
    (rows, _), n = confounded(60_000, p=3, seed=4, strength=2.0), 60_000
    made = replace(plan(3, n=2 * n, epsilon="1000"), residuals=50.0, radius=1.0)
    pieces = in_memory([rows])
    arms = summary_from(arm_sums(pieces), n, made, 0)
    _, model = slopes_from(moments_from(slope_sums(pieces, arms, made), arms, n, made, 0), arms, made)
    z = rows.x[:, :-1]
    columns = np.column_stack([z, rows.t == 1, rows.t == 0]).astype(float)
    reference = np.linalg.lstsq(columns, rows.u, rcond=None)[0]
    np.testing.assert_allclose(model.slopes, reference[:3], atol=0.002)
    np.testing.assert_allclose(model.constants, reference[3:], atol=0.002)
    # Without the arms' means of x the slopes come out too small by what treatment explains of x.
    total = np.linalg.solve(z.T @ z, z.T @ (rows.u - np.where(rows.t == 1, *arms.means)))
    assert np.all(total < 0.98 * reference[:3])


def test_slopes_that_differ_lean_towards_the_smaller_arm() -> None:
    """A quarter is treated and has other slopes; 200,000 rows, next to no noise. Reference: regression in each arm."""
    random, n = np.random.default_rng(6), 200_000
    z = random.uniform(-1, 1, (n, 3))
    t = (random.random(n) < 0.25 + 0.1 * z[:, 0]).astype(np.uint8)
    u = np.where(t == 1, 0.4 * z[:, 0], 0.1 * z[:, 0] + 0.2 * z[:, 1]) + random.uniform(-0.2, 0.2, n)
    rows = Rows(encode(z), t, u)
    made = replace(plan(3, n=2 * n, epsilon="1000"), residuals=50.0, radius=1.0)
    pieces = in_memory([rows])
    arms = summary_from(arm_sums(pieces), n, made, 0)
    _, model = slopes_from(moments_from(slope_sums(pieces, arms, made), arms, n, made, 0), arms, made)
    assert (model.common_factor, model.leaning_factor) == (1.0, 1.0)
    columns, slopes = np.column_stack([rows.x[:, :-1], np.ones(n)]), []
    for arm in (1, 0):
        slopes.append(np.linalg.lstsq(columns[t == arm], u[t == arm], rcond=None)[0][:3])
    share = t.mean()
    wanted, common = ((1 - part) * slopes[0] + part * slopes[1] for part in (share, 1 - share))
    np.testing.assert_allclose(model.slopes, wanted, atol=0.01 * np.abs(wanted - common).max())
    assert np.abs(wanted - common).max() > 0.2


@pytest.mark.parametrize(
    ("kept", "share", "seen"), [(0.3, 0.4, 2.0), (0.9, 0.7, -1.0), (1.0, 1.0, 3.0), (0.0, 0.1, 3.0)]
)
def test_what_shrinkage_takes_off_is_the_posterior_mean_square(kept: float, share: float, seen: float) -> None:
    """Against 1e6 seeded draws of a normal signal given what is seen: Monte-Carlo error below 0.3 %."""
    random, noise = np.random.default_rng(7), 1.7
    signal = share * seen + math.sqrt(share * noise) * random.normal(size=1_000_000)
    expected = float(np.mean(((1 - kept) * signal) ** 2))
    assert taken_off(kept, share, seen, noise) == pytest.approx(expected, rel=0.01, abs=1e-12)


def test_the_share_of_signal_by_hand() -> None:
    cross, values = np.array([2.0, 0.0]), np.array([1.0, 2.0])
    assert signal_ratio(cross, values, 1.0) == pytest.approx(1 - 1.5 / 4)
    assert signal_ratio(cross, values, 3.0) == 0.0
    assert signal_ratio(np.zeros(2), values, 0.0) == 0.0


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.5, 1.0, 3.0, 30.0])
def test_shrunk_slopes_are_never_worse_than_none(ratio: float) -> None:
    """Mean of b'Gb of the error over 4000 draws in 20 dimensions, against leaving the slopes out; seed 5.

    `ratio`: signal over noise. Without any signal the loss is at most 3 % of the noise's own.
    """
    random, d = np.random.default_rng(5), 20
    values = np.linspace(1.0, 4.0, d)
    noise = 1.0
    added = noise**2 * float(np.sum(1 / values))
    direction = random.normal(size=d)
    truth = direction * math.sqrt(ratio * added / float(np.sum(direction**2 / values)))
    losses = []
    for _ in range(4000):
        cross = truth + noise * random.normal(size=d)
        kept = shrinkage_factor(cross, values, noise)
        losses.append(float(np.sum((kept * cross - truth) ** 2 / values)))
    assert np.mean(losses) <= ratio * added + 0.03 * added
    if ratio >= 3:
        assert np.mean(losses) <= 0.85 * ratio * added, "where there is a signal it is used"


def test_kept_share_solves_its_equation() -> None:
    values, noise = np.array([1.0, 2.0, 3.0]), 0.7
    cross = np.array([1.2, 1.0, 1.2])
    kept = shrinkage_factor(cross, values, noise)
    added = noise**2 * float(np.sum(1 / values))
    part = kept / shrinkage.TEXTBOOK_MULTIPLE
    signal = part * added / (1 - part)
    k = float(np.sum(1 / values) ** 2 / np.sum(1 / values**2))
    spread = shrinkage.CAUTION * math.sqrt((2 * added**2 + 4 * signal * added) / k)
    assert signal + spread == pytest.approx(float(np.sum(cross**2 / values)) - added)
    assert 0 < kept < 1
    assert shrinkage_factor(np.zeros(3), values, noise) == 0
    assert shrinkage_factor(cross, values, 0.0) == 1


def test_an_empty_arm_and_wild_numbers_do_no_harm() -> None:
    made = plan()
    for released in (np.zeros(4), np.array([1e6, -1e6, -1e6, -1e6]), np.array([-1e6, 1e6, 1e6, 1e6])):
        arms = summary_from(released, 1000, made, 0)
        assert 0 < arms.treated_share < 1
        assert all(abs(mean) <= 1 for mean in arms.means)
        assert 0 < arms.deviation <= 1
        for numbers in (
            np.zeros(made.slope_numbers),
            np.full(made.slope_numbers, -1e5),
            np.arange(float(made.slope_numbers)) * 1e4,
        ):
            _, model = slopes_from(moments_from(numbers, arms, 1000, made, 0), arms, made)
            assert np.all(np.isfinite(model.slopes))
            assert math.isfinite(model.variance)
            assert 0 <= model.common_factor <= 1
            assert 0 <= model.leaning_factor <= 1


def test_weights_balance_as_far_as_their_log_odds_are_those_that_part_the_arms() -> None:
    made, n = plan(3, n=200_000, epsilon="1000"), 100_000
    rows, _ = confounded(n, p=3, seed=3)
    pieces = in_memory([rows])
    arms = summary_from(arm_sums(pieces), n, made, 0)
    _, model = slopes_from(moments_from(slope_sums(pieces, arms, made), arms, n, made, 0), arms, made)
    # Log odds of 2/3 of each number in [-1, 1], of which rows are half.
    true = np.append(np.full(3, 2 / 3) * 2, 0.0)
    assert model.left_by(None) == 1
    assert model.left_by(np.zeros(4)) == 1
    assert model.left_by(true) < 0.02
    assert model.left_by(true / 2) == pytest.approx(0.25, abs=0.05)
    assert model.left_by(-5 * true) == 1
    assert without_slopes(arms, made).left_by(true) == 1
