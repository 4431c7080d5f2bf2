"""Sensitivities of the regression: constructed pairs of tables attain them, and the inequalities of their proofs.

`test_every_sensitivity.py` searches for pairs that break them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.tasks.covariates.columns import INDICATOR_BESIDE_POWERS, Basis, Columns
from causalveil.tasks.covariates.encoding import dimension, scale
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.enclave.sizes import sizes_of
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.regression.decide import recipe
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.lines.adjustment import Adjustment, ArmLine
from causalveil.tasks.regression.moments import (
    ARM_CROSS,
    ARM_GRAM,
    LINE_FACTOR,
    SENSITIVITY,
    SENSITIVITY_BY_ARM,
    across_factor,
    arm_factors,
    moment_sums,
)
from causalveil.tasks.regression.recipe import RegressionRecipe
from causalveil.tasks.regression.scales import POWER_WEIGHT, Scales, scale_sums
from causalveil.tasks.regression.scores import score_sums
from tests.aipw_help import in_memory
from tests.neighbours import neighbour
from tests.regression_help import make_regression, uneven_scales

UNITS = 1_000_000
KINDS: dict[str, Any] = {
    # Of another range than from one whole number to the next, so that release 1 has its eighth power.
    "age": {"lower": 0, "upper": 80},
    "group": {"levels": ["a", "b", "c"]},
    "half": {"levels": ["a", "b"]},
    "height": {"lower": 0, "upper": 1},
}


def study_of(missing: str = "refuse", **changes: Any) -> RegressionStudy:
    return make_regression(0, covariates=KINDS, missing=missing, **changes)


def plan_of(study: RegressionStudy) -> RegressionRecipe:
    return recipe(study, sizes_of(study, UNITS))


def bound(mechanism: Any) -> float:
    value = mechanism.sensitivity.value
    assert value is not None
    return float(value)


def scales_of(study: RegressionStudy, share: float = 0.3, shift: float = 0.1, deviation: float = 0.2) -> Scales:
    return uneven_scales(len(Columns.of(study).kept), share, shift, deviation)


def moved(sums: Any, rows: Rows, other: Rows) -> FloatArray:
    """By how much a release's exact sums differ between two neighbours."""
    difference: FloatArray = sums(in_memory([rows])) - sums(in_memory([neighbour(rows, other)]))
    return difference


def test_eighth_powers_ride_free_beside_a_number_and_its_square() -> None:
    """Every pair of a fine grid, and of missing ones with the indicator.

    A weight of 1.2 would not, nor an indicator of 1.4. Numbers next to an end matter most, where both are of one size
    and eighth powers part fastest.
    """
    near = 1 - np.geomspace(2.0**-17, 1, 400)
    values = np.concatenate([near, -near, [1.0, -1.0]])
    powers = np.floor(values**8 * 2**18) / 2**18
    steps = [np.subtract.outer(part, part) ** 2 for part in (values, values**2, powers)]

    def moved(weight: float) -> float:
        return float((steps[0] + steps[1] + weight**2 * steps[2]).max())

    def gone(weight: float, indicator: float) -> float:
        return float((values**2 + values**4 + weight**2 * powers**2 + indicator**2).max())

    assert moved(POWER_WEIGHT) == 4.0
    assert gone(POWER_WEIGHT, INDICATOR_BESIDE_POWERS) < 4.0
    assert moved(1.2) > 4.0
    assert gone(POWER_WEIGHT, 1.4) > 4.0
    assert plan_of(study_of("indicator")).columns.eighth == (0,)
    assert plan_of(study_of("indicator", delta="0")).columns.eighth == ()


def row(x: list[float], t: int, u: float) -> Rows:
    return Rows(np.array([[*x, 0.5]]), np.array([t], np.uint8), np.array([u]))


def test_bounds_are_attained() -> None:
    study = study_of()
    plan, s = plan_of(study), scale(study)
    # age, three groups, two halves, height: each moves as far as it can, and an outcome or an arm with them.
    near, far = [s, 0.0, s, 0.0, 0.0, s, s], [-s, 0.0, 0.0, s, s, 0.0, -s]
    for one, other in (((1, 1.0), (1, -1.0)), ((1, 1.0), (0, 1.0))):
        difference = moved(lambda p: scale_sums(p, plan.columns), row(near, *one), row(far, *other))
        assert np.linalg.norm(difference) == pytest.approx(bound(plan.scales_mechanism()), rel=1e-3)
    # Opposite rows beyond the cut, in one arm, with residuals of one sign: the products and tau.
    share = 0.5
    scales = replace(scales_of(study, share, shift=0.0, deviation=0.01), spread=0.2)
    features = Features(plan.columns, scales, Basis.linear, 1.25)
    difference = moved(
        lambda p: moment_sums(p, features), row([s, 0, 0, 0, 0, 0, s], 1, -1.0), row([-s, 0, 0, 0, 0, 0, -s], 1, -1.0)
    )
    pooled, by_arm = (replace(plan, by_arm=whether).moments_mechanism() for whether in (False, True))
    assert np.linalg.norm(difference) == pytest.approx(bound(pooled), rel=1e-3)
    # One row in either arm, with residuals of both signs: the products, tau, and what differs between the arms.
    twins = row([s, 0, 0, 0, 0, 0, s], 1, 1.0), row([s, 0, 0, 0, 0, 0, s], 0, -1.0)
    difference = moved(lambda p: moment_sums(p, replace(features, by_arm=Basis.linear)), *twins)
    assert np.linalg.norm(difference) == pytest.approx(bound(by_arm), rel=1e-3)
    nothing = np.zeros(features.count)
    choice = Adjustment(nothing, nothing, nothing, 0.0, 0.0, (0.5, 0.5), 0.1, 4.0, 0.0, 0.0, False)
    ends = row(near, 1, 1.0), row(near, 1, -1.0)
    difference = moved(lambda p: score_sums(p, scales, None, choice), *ends)
    assert np.linalg.norm(difference) == pytest.approx(bound(plan.effect_mechanism()), rel=1e-3)
    # In L1 the furthest are 1 and -1/2: two scores cut at 1, one of them half way.
    pure = plan_of(study_of(delta="0"))
    scales = scales_of(study, share)
    half = scales.means[1] + scales.limit * 0.5 * 0.1 * share
    difference = moved(lambda p: score_sums(p, scales, None, choice), row(near, 1, 1.0), row(near, 0, half))
    assert np.linalg.norm(difference, 1) == pytest.approx(bound(pure.effect_mechanism()), rel=1e-2)


@pytest.mark.parametrize("by_arm", [False, True])
def test_no_pair_of_rows_beats_the_moments_bound(by_arm: bool) -> None:
    """The proof's inequality by search: 40,000 random pairs in 1 to 4 dimensions, corners preferred, seed 1."""
    random, largest = np.random.default_rng(1), 0.0
    bound = (SENSITIVITY_BY_ARM if by_arm else SENSITIVITY) ** 2

    def vectors(m: int, d: int) -> FloatArray:
        x = random.normal(size=(m, d))
        lengths = random.random(m) ** 0.25
        return x / np.linalg.norm(x, axis=1, keepdims=True) * lengths[:, None]

    def numbers(m: int) -> FloatArray:
        return np.clip(random.normal(size=m) * 1.5, -1, 1)

    for d in (1, 2, 3, 4):
        x, y = vectors(10_000, d), vectors(10_000, d)
        # Half of the pairs are opposite or, by arm, the same: there the bounds are attained.
        y[::2] = (1 if by_arm else -1) * x[::2] * random.random((5_000, 1)) ** 0.1
        one, two = (numbers(10_000), numbers(10_000)), (numbers(10_000), numbers(10_000))
        square = sum(np.sum((x * a[:, None] - y * b[:, None]) ** 2, axis=1) for a, b in zip(one, two, strict=True))
        square = square + (one[0] ** 2 - two[0] ** 2) ** 2
        squares = [vector[:, :, None] * vector[:, None, :] for vector in (x, y)]
        square = square + np.sum((squares[0] - squares[1]) ** 2, axis=(1, 2))
        if by_arm:
            # tau has the sign of the arm.
            s, other = np.sign(one[1]), np.sign(two[1])
            apart = s[:, None] * x * one[0][:, None] - other[:, None] * y * two[0][:, None]
            square = square + ARM_CROSS**2 * np.sum(apart**2, axis=1)
            grams = s[:, None, None] * squares[0] - other[:, None, None] * squares[1]
            square = square + ARM_GRAM**2 * np.sum(grams**2, axis=(1, 2))
        largest = max(largest, float(square.max()))
    assert 0.98 * bound <= largest <= bound + 1e-12


def test_no_pair_of_rows_beats_the_bound_where_lines_alone_are_told_apart() -> None:
    """The same with lines z in a ball of their own: rows are (a z, b w), a^2 + b^2 = 1. 40,000 pairs a share of the
    lines, half of them alike but for lines or others that turn around, where the largest lie. Seed 2.
    """
    random, largest = np.random.default_rng(2), 0.0

    def ball(m: int, d: int) -> FloatArray:
        x = random.normal(size=(m, d))
        return x / np.linalg.norm(x, axis=1, keepdims=True) * (random.random(m) ** 0.05)[:, None]

    def outer(x: FloatArray) -> FloatArray:
        return x[:, :, None] * x[:, None, :]

    for share in (0.02, 0.1, 0.3, 0.6, 0.9):
        m = 40_000
        zs, ws = [ball(m, 2), ball(m, 2)], [ball(m, 2), ball(m, 2)]
        turned = random.choice([-1, 1], (2, m // 2, 1))
        zs[1][::2], ws[1][::2] = turned[0] * zs[0][::2], turned[1] * ws[0][::2]
        x, y = (np.hstack([math.sqrt(share) * z, math.sqrt(1 - share) * w]) for z, w in zip(zs, ws, strict=True))
        rho, arm = np.clip(random.normal(size=(2, m)) * 1.5, -1, 1), random.choice([-1, 1], (2, m))
        tau = arm * random.random((2, m)) ** 0.1
        square = sum(np.sum((x * one[:, None] - y * two[:, None]) ** 2, axis=1) for one, two in (rho, tau))
        square = square + (rho[0] ** 2 - rho[1] ** 2) ** 2 + np.sum((outer(x) - outer(y)) ** 2, axis=(1, 2))
        crosses = [(s * r)[:, None] * z for s, r, z in zip(arm, rho, zs, strict=True)]
        grams = [s[:, None, None] * outer(z) for s, z in zip(arm, zs, strict=True)]
        square = square + LINE_FACTOR**2 * np.sum((crosses[0] - crosses[1]) ** 2, axis=1)
        square = square + LINE_FACTOR**2 * np.sum((grams[0] - grams[1]) ** 2, axis=(1, 2))
        across = [s[:, None, None] * z[:, :, None] * w[:, None, :] for s, z, w in zip(arm, zs, ws, strict=True)]
        square = square + LINE_FACTOR**2 * np.sum((across[0] - across[1]) ** 2, axis=(1, 2))
        largest = max(largest, float(square.max()))
    print(f"largest squared distance {largest:.3f} of {SENSITIVITY_BY_ARM**2}")
    assert 0.97 * SENSITIVITY_BY_ARM**2 <= largest <= SENSITIVITY_BY_ARM**2 + 1e-12


@pytest.mark.parametrize("basis", Basis)
def test_lines_alone_stay_in_a_ball_of_their_own(basis: Basis) -> None:
    """Whatever products and a constant stand beside them; their differences by arm are multiplied by what that is."""
    study = study_of("indicator", basis="cubes")
    plan, x = plan_of(study), np.random.default_rng(0).uniform(-1, 1, (2_000, dimension(study)))
    for constant in (False, True):
        features = Features(plan.columns, scales_of(study, deviation=0.001), basis, 1.25, constant, by_arm=Basis.linear)
        length = np.linalg.norm(features.of(x)[:, features.arm_places], axis=1)
        assert 0.99 * features.arm_radius < length.max() <= features.arm_radius
        of_cross, of_gram = arm_factors(features)
        assert LINE_FACTOR**2 <= 1 / 8 + 1e-15
        if basis is Basis.linear:
            assert (of_cross, of_gram, features.arm_radius) == (ARM_CROSS, ARM_GRAM, 1)
        else:
            assert of_cross == pytest.approx(LINE_FACTOR / features.arm_radius)
            assert of_gram == pytest.approx(LINE_FACTOR / features.arm_radius**2)
            rest = np.setdiff1d(np.arange(features.count), features.arm_places)
            radius = np.linalg.norm(features.of(x)[:, rest], axis=1).max()
            assert across_factor(features) * features.arm_radius * radius <= LINE_FACTOR * (1 + 1e-12)
            assert across_factor(features) * features.arm_radius * radius > 0.99 * LINE_FACTOR


@pytest.mark.parametrize("basis", Basis)
def test_features_stay_in_the_unit_ball(basis: Basis) -> None:
    study = study_of("indicator", basis="cubes")
    plan = plan_of(study)
    features = Features(plan.columns, scales_of(study, deviation=0.001), basis, 1.25)
    x = np.random.default_rng(0).uniform(-1, 1, (2_000, dimension(study)))
    length = np.linalg.norm(features.of(x), axis=1)
    assert 0.99 < length.max() <= 1.0


def test_sums_do_not_depend_on_order_or_partition() -> None:
    study = study_of()
    plan, scales = plan_of(study), scales_of(study)
    random, n = np.random.default_rng(2), 20_000
    x = random.uniform(-1, 1, (n, dimension(study))) * scale(study)
    rows = Rows(x, random.integers(0, 2, n).astype(np.uint8), random.uniform(-1, 1, n))
    order = random.permutation(n)
    other = Rows(rows.x[order], rows.t[order], rows.u[order])
    features = Features(plan.columns, scales, Basis.linear, 1.25)
    choice = Adjustment(
        np.full(features.count, 0.3), np.full(features.count, 0.7), np.zeros(features.count), 0.0, 0.0, (0.7, 0.3), 3.0,
        5.0, 0.0, 0.0, True,
    )  # fmt: skip
    for sums in (
        lambda p: scale_sums(p, plan.columns),
        lambda p: moment_sums(p, features),
        lambda p: moment_sums(p, replace(features, by_arm=Basis.linear)),
        lambda p: moment_sums(p, replace(features, basis=Basis.squares, by_arm=Basis.linear)),
        lambda p: score_sums(p, scales, features, choice),
        lambda p: score_sums(
            p, scales, features, replace(choice, controls=ArmLine(choice.weights, choice.slopes, 0.1))
        ),
    ):
        assert np.array_equal(sums(in_memory([rows])), sums(in_memory([other])))
        cut = [Rows(part.x[:7_777], part.t[:7_777], part.u[:7_777]) for part in (rows,)] + [
            Rows(rows.x[7_777:], rows.t[7_777:], rows.u[7_777:])
        ]
        assert np.array_equal(sums(in_memory([rows])), sums(in_memory(cut)))
    assert math.isfinite(plan.noise_ratio(features.count))
