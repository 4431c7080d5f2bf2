"""Slopes of each arm in AIPW: second moments of each arm, and what their noise does to an adjustment."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from causalveil.tasks.aipw.leaning import SIGNS, Distance, alike, arm_moments, moved_by, moved_by_centres
from causalveil.tasks.aipw.outcome_model import ArmSummary, arm_sums, slope_sums, summary_from
from causalveil.tasks.aipw.recipe import Recipe
from causalveil.tasks.aipw.slopes import moments_from, shrink, slopes_from
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.inference.assemble import Noise
from causalveil.tasks.machine.arrays import FloatArray
from tests.aipw_help import encode, in_memory
from tests.unit.test_outcome_model import plan

VALUES, PARTS = np.array([1000.0, 3000.0, 6000.0]), np.array([0.3, 0.7])


def symmetric_noise(random: np.random.Generator, draws: int, d: int, deviation: float) -> FloatArray:
    """Matrices whose entries have this deviation, on the diagonal sqrt(2) of it; shape (draws, d, d)."""
    drawn = deviation * random.normal(size=(draws, d, d))
    upper = np.triu(drawn, 1)
    return upper + upper.transpose(0, 2, 1) + math.sqrt(2) * drawn * np.eye(d)


def test_arms_that_nothing_sets_apart_have_their_part_of_both() -> None:
    found = arm_moments(np.zeros((3, 3)), VALUES, PARTS, 1.0, 1.0)
    other = alike(VALUES, PARTS)
    for one, two in ((found.matrices, other.matrices), (found.inverses, other.inverses)):
        np.testing.assert_allclose(one, two)
    assert found.noise == 0
    np.testing.assert_allclose(other.inverses[1], np.diag(1 / (0.7 * VALUES)))


def test_what_sets_arms_apart_is_kept_as_far_as_it_exceeds_noise() -> None:
    apart = np.array([[100.0, 80.0, 0.0], [80.0, -200.0, 50.0], [0.0, 50.0, 300.0]])
    exact = arm_moments(apart, VALUES, PARTS, 0.0, 0.0)
    np.testing.assert_allclose(exact.matrices[0], np.diag(0.3 * VALUES) + apart)
    np.testing.assert_allclose(exact.matrices.sum(axis=0), np.diag(VALUES))
    np.testing.assert_allclose(exact.inverses[1] @ exact.matrices[1], np.eye(3), atol=1e-12)
    noisy = arm_moments(apart, VALUES, PARTS, 10.0, 20.0)
    kept = 1 - 20.0**2 * 12 / float(np.sum(apart**2))
    np.testing.assert_allclose(noisy.matrices[0], np.diag(0.3 * VALUES) + kept * apart)
    # Of noise N and signal S, of which S/(S + N) is kept, the error is S N/(S + N).
    assert noisy.noise == pytest.approx(math.sqrt(kept) * 20)
    drowned = arm_moments(apart, VALUES, PARTS, 10.0, 200.0)
    np.testing.assert_allclose(drowned.inverses, alike(VALUES, PARTS).inverses)


def test_an_arm_of_which_a_direction_drowns_is_taken_to_be_like_the_other() -> None:
    # The treated hardly vary along the first direction, and noise of 20 an entry hides how little.
    apart = np.diag([-290.0, 0.0, 0.0])
    found = arm_moments(apart, VALUES, PARTS, 0.0, 20.0)
    np.testing.assert_allclose(found.inverses, alike(VALUES, PARTS).inverses)
    # Where a column is publicly constant along it, it is not asked; its eigenvalue is raised to the floor.
    constant = arm_moments(apart, VALUES, PARTS, 0.0, 20.0, constant=1)
    assert np.linalg.eigvalsh(constant.inverses[0])[-1] == pytest.approx(1 / (0.2 * 0.3 * VALUES.mean()))
    assert np.abs(constant.raised).max() < 1e-12


def test_squares_of_a_noisy_distance_lose_its_noise() -> None:
    """Mean over 100,000 seeded draws, Monte-Carlo error .4 %; with one deviation of caution three of four lie above."""
    random, form = np.random.default_rng(1), np.array([[2.0, 0.5], [0.5, 1.0]])
    truth, noise = np.array([1.0, -0.5]), 0.3
    seen = truth + noise * random.normal(size=(100_000, 2))
    square = float(truth @ form @ truth)
    assert np.mean([Distance(one, noise, 0.0).square(form) for one in seen]) == pytest.approx(square, rel=0.02)
    cautious = np.array([Distance(one, noise, 1.0).square(form) for one in seen[:20_000]])
    assert 0.7 < np.mean(cautious >= square) < 0.85


def test_noise_of_second_moments_moves_an_adjustment_as_far_as_said() -> None:
    """Against 200,000 seeded symmetric matrices: Monte-Carlo error 0.3 %."""
    random, noise = np.random.default_rng(8), 0.3
    slopes = random.normal(size=(3, 3))
    levers = random.normal(size=(3, 3, 3))
    apart = np.array([0.5, -1.0, 0.2])
    drawn = symmetric_noise(random, 200_000, 3, noise)
    moved = np.var(np.einsum("kab,b,nac,kc->n", levers, apart, drawn, slopes, optimize=True))
    distance = Distance(apart, 0.0, 0.0)
    assert moved_by(slopes, levers, apart, distance, noise) == pytest.approx(moved, rel=0.015)
    # Noise of which nothing but that of the mean eigenvalue is left, and half of all other.
    means = np.trace(drawn, axis1=1, axis2=2)[:, None, None] / 3 * np.eye(3)
    moved = np.var(np.einsum("kab,b,nac,kc->n", levers, apart, means + (drawn - means) / 2, slopes, optimize=True))
    found = moved_by(slopes, levers, apart, distance, noise / 2, noise * math.sqrt(2 / 3))
    assert found == pytest.approx(moved, rel=0.015)


def differing(n: int, seed: int) -> Rows:
    """A third has a flag, which most of the treated have; its slope is .5 among them and .1 among controls."""
    random = np.random.default_rng(seed)
    flag = (random.random(n) < 0.3).astype(float)
    z = np.column_stack([2 * flag - 1, random.uniform(-1, 1, n)])
    t = (random.random(n) < np.where(flag == 1, 0.7, 0.2)).astype(np.uint8)
    u = np.where(t == 1, 0.25, 0.05) * z[:, 0] + 0.2 * z[:, 1] + random.uniform(-0.2, 0.2, n)
    return Rows(encode(z), t, u)


def released(made: Recipe, rows: Rows) -> tuple[FloatArray, ArmSummary]:
    pieces = in_memory([rows])
    arms = summary_from(arm_sums(pieces), len(rows), made, 0)
    return slope_sums(pieces, arms, made), arms


def test_a_flag_that_most_of_the_treated_have_leans_by_its_own_second_moments() -> None:
    """100,000 rows, next to no noise. Reference: least squares in each arm; slopes of both arms are off by a tenth."""
    rows, n = differing(100_000, 3), 100_000
    made = plan(2, n=2 * n, epsilon="1000")
    sums, arms = released(made, rows)
    moments = moments_from(sums, arms, n, made, 0)
    _, model = slopes_from(moments, arms, made)
    columns, own = np.column_stack([rows.x[:, :-1], np.ones(n)]), []
    for arm in (1, 0):
        own.append(np.linalg.lstsq(columns[rows.t == arm], rows.u[rows.t == arm], rcond=None)[0][:2])
    share = float(rows.t.mean())
    wanted, wrong = (1 - share) * own[0] + share * own[1], share * own[0] + (1 - share) * own[1]
    scaled = model.slopes / made.radius
    assert abs(scaled[0] - wanted[0]) < 0.02 * abs(wanted[0])
    assert abs(wrong[0] - wanted[0]) > 0.1 * abs(wanted[0])
    # Without their own second moments the arms' slopes miss it.
    shared = replace(moments, arms=alike(moments.values, moments.parts))
    assert abs(shrink(shared).slopes[0] / made.radius - wanted[0]) > 0.05 * abs(wanted[0])


def test_noise_on_the_sums_moves_the_adjustment_as_far_as_its_variance_says() -> None:
    """2,000 seeded draws of noise, Monte-Carlo error 3 %: by all that is released."""
    n = 40_000
    made, rows = plan(2, n=2 * n, epsilon="4"), differing(n, 4)
    sums, arms = released(made, rows)
    noise = Noise.of(made.slopes_mechanism(0), made.slope_numbers).deviation
    random = np.random.default_rng(5)
    exact = moments_from(sums, arms, n, made, 0)
    apart = np.array(exact.difference)
    moved, said = [], []
    for _ in range(2_000):
        drawn = sums + noise * random.normal(size=len(sums))
        moments = moments_from(drawn, arms, n, made, 0)
        _, model = slopes_from(moments, arms, made)
        assert model.leaning_factor == 1
        moved.append(float(model.slopes @ apart))
        said.append(model.variance)
    assert 0.9 < np.mean(said) / np.var(moved) < 1.2


def test_noise_in_centres_moves_an_adjustment_as_far_as_said() -> None:
    """20,000 seeded draws, Monte-Carlo error 1 %; noise in the slopes adds nothing on average."""
    random = np.random.default_rng(8)
    slopes, apart, centres = random.normal(size=(3, 4)), random.normal(size=4), random.normal(size=(2, 4))
    levers, shares = random.normal(size=(3, 4, 4)), random.random((3, 2))
    drawn = 0.3 * random.normal(size=(20_000, 2, 4))
    products = np.einsum("sa,nsb->nsab", centres, drawn)
    lost = np.einsum("ks,nsab->nkab", shares, products + products.swapaxes(-1, -2))
    moved = np.var(np.einsum("kab,b,nkac,kc->n", levers, apart, lost, slopes, optimize=True))
    sure = moved_by_centres(slopes, levers, apart, centres, 0.3, shares, np.zeros((3, 2, 4, 4)))
    assert abs(moved / sure - 1) < 0.04
    noise = random.normal(size=(3, 2, 4, 4)) / 8
    noisy = slopes + np.einsum("ktab,ntb->nka", noise, random.normal(size=(5_000, 2, 4)))
    said = np.mean([moved_by_centres(one, levers, apart, centres, 0.3, shares, noise) for one in noisy])
    kept = np.mean([moved_by_centres(one, levers, apart, centres, 0.3, shares, 0 * noise) for one in noisy])
    assert abs(said / sure - 1) < 0.03
    assert kept > 1.05 * sure


def test_shrunk_second_moments_keep_the_noise_of_their_mean() -> None:
    """2,000 seeded draws, Monte-Carlo error 3 %: columns that are not correlated, of which noise shows nothing but how
    much they vary on average. Without the mean's noise the variance said was two thirds of what is true."""
    n, random = 10_000, np.random.default_rng(6)
    z = random.normal(size=(n, 3)) / 4
    t = (random.random(n) < 1 / (1 + np.exp(-4 * z[:, 0]))).astype(np.uint8)
    rows = Rows(encode(np.clip(z, -1, 1)), t, np.clip(0.1 * t + 0.8 * z[:, 0] + random.normal(size=n) / 5, -1, 1))
    made = plan(3, n=2 * n, epsilon="1")
    sums, arms = released(made, rows)
    noise = Noise.of(made.slopes_mechanism(0), made.slope_numbers).deviation
    apart = np.array(moments_from(sums, arms, n, made, 0).difference)
    moved, said, kept = [], [], []
    for _ in range(2_000):
        moments = moments_from(sums + noise * random.normal(size=len(sums)), arms, n, made, 0)
        _, model = slopes_from(moments, arms, made)
        moved.append(float(model.slopes @ apart))
        said.append(model.variance)
        kept.append(moments.second_factor)
    assert np.mean(kept) < 0.5
    assert 0.85 < np.mean(said) / np.var(moved) < 1.3


def test_signs_are_those_of_treated_and_controls() -> None:
    np.testing.assert_array_equal(SIGNS, [1.0, -1.0])
