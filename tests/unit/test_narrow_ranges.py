"""Numbers that their declared ranges cut: how much is found to be left unseen, and what numbers are left alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from causalveil.tasks.data.covariates import DeclaredRanges, NarrowRanges, Ranged
from causalveil.tasks.machine.arrays import FloatArray

MANY = 400_000


def of(k: int, from_zero: bool = False) -> DeclaredRanges:
    return DeclaredRanges(tuple(range(k)), ("x",) * k, (from_zero,) * k)


def moments(values: FloatArray, lower: float, upper: float, from_zero: bool = False) -> Ranged:
    """Of values cut to a range, as if they were released without noise."""
    cut, span = np.clip(values, lower, upper) - (lower + upper) / 2, (upper - lower) / 2
    ends = tuple(np.array([np.mean(cut == side)]) for side in (cut.min(), cut.max()))
    return Ranged(of(1, from_zero), np.array([cut.mean()]), np.array([cut.var()]), span, (ends[0], ends[1]))


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        (-3, 0),
        (-3, 0.5),
        (-3, 1),
        (-8, 0.5),
        (-200, 0.5),
        (-1, 3),
        (-1, 1),
        (-0.5, 0.5),
        (-0.3, 0.3),
        (-1, 0.5),
        (-0.5, 2.5),
    ],
)
def test_what_a_cut_normal_number_hides_is_found(lower: float, upper: float) -> None:
    """(1 - r^2)/r^2 of 400,000 seeded normals, which is known to two hundredths of itself."""
    values = np.random.default_rng(1).normal(size=MANY)
    square = np.corrcoef(values, np.clip(values, lower, upper))[0, 1] ** 2
    found = moments(values, lower, upper)
    assert found.unseen[0] == pytest.approx((1 - square) / square, rel=0.03, abs=0.002)
    assert len(NarrowRanges.of(found).limits) == 1


def test_numbers_whose_ranges_fit_hide_nothing() -> None:
    """Normal to three deviations and more, spread evenly, seven steps in a bell, and ranges far too wide."""
    random = np.random.default_rng(2)
    normal, even = random.normal(size=MANY), random.uniform(-1, 1, MANY)
    bell = random.binomial(6, 0.5, MANY).astype(np.float64)
    for values, lower, upper in ((normal, -3, 3), (normal, -2.5, 6), (even, -1, 1), (bell, 0, 6), (normal, -500, 900)):
        found = moments(values, lower, upper)
        assert found.unseen[0] == 0
        assert NarrowRanges.of(found) == NarrowRanges()


def test_people_at_a_lower_end_of_zero_are_no_sign_of_a_narrow_range() -> None:
    """Earnings of which two thirds are 0: nobody earns less. Were the same numbers to start at 1, they might."""
    random = np.random.default_rng(3)
    earnings = np.where(random.random(MANY) < 2 / 3, 0.0, random.uniform(0, 1, MANY))
    assert moments(earnings, 0, 1.2, from_zero=True).unseen[0] == 0
    assert moments(earnings, 0, 1.2).unseen[0] > 0.1
    # Costs from 2 on: nobody lies at an end.
    assert moments(2 + np.exp(random.normal(size=MANY)), 2, 60).unseen[0] == 0
    # Beside an upper end that cuts as many it does not count.
    assert moments(random.normal(0.5, 1, MANY), 0, 1.0, from_zero=True).unseen[0] > 0.2


def test_most_people_at_the_ends_are_named_as_such() -> None:
    values = np.random.default_rng(4).normal(size=MANY)
    assert NarrowRanges.of(moments(values, -0.01, 0.01)).clipped == ("x",)
    assert NarrowRanges.of(moments(values, -1, 1)).cut == ("x",)


def test_no_moments_make_it_infinite_or_less_than_nothing() -> None:
    """Whatever noise makes of mean and variance, and of ranges that are hardly wider than nothing."""
    mean, variance = (
        grid.ravel() for grid in np.meshgrid([-1.0, -0.999, -0.3, 0.0, 0.7, 1.0], [-5.0, 0, 1e-30, 0.2, 1, 9])
    )
    ends = np.full(len(mean), 0.3), np.full(len(mean), 0.4)
    for span in (1e-300, 1e-6, 1.0):
        found = Ranged(of(len(mean)), mean * span, variance * span**2, span, ends).unseen
        assert np.all(np.isfinite(found))
        assert found.min() >= 0


def test_the_share_at_the_ends_says_how_much_counts() -> None:
    """Of a range that one in eight lie beyond all, of one at whose ends nobody is nothing, of few in between a part."""
    values = np.random.default_rng(6).normal(size=MANY)
    found, nobody = moments(values, -1.5, 1.5), np.zeros(1)
    assert found.unseen[0] == pytest.approx(0.037, abs=0.003)
    assert replace(found, ends=(nobody, nobody)).unseen[0] == 0
    few = np.full(1, 0.0125)
    assert replace(found, ends=(few, few)).unseen[0] == pytest.approx(found.unseen[0] / 2)
    # Scores of which most are 0 and a few the highest: coma, of patients.
    scores = np.where(values > 1.5, 1.0, np.maximum(0.0, values - 1.0))
    assert moments(scores, 0, 1.0, from_zero=True).unseen[0] == 0


@pytest.mark.parametrize(("lower", "upper"), [(-1, 1), (-1.5, 1.5), (-3, 1.5), (-3, 0.5), (-1, 3), (-0.5, 0.5)])
@pytest.mark.parametrize(("slope", "intercept"), [(0.5, 0), (1, 0), (1, -1.5), (-1, -1.5), (1.5, -3)])
def test_what_lines_and_squares_leave_of_arms_that_lie_apart(
    lower: float, upper: float, slope: float, intercept: float
) -> None:
    """No way of least squares leaves a tenth more than is allowed for, and some way a half of it; 300,000 people.

    Lines and squares, of both arms together and of each; outcomes are the number before it was cut, so that all that
    is found between the arms confounds.
    """
    random = np.random.default_rng(9)
    z = random.normal(size=300_000)
    t = random.random(len(z)) < 1 / (1 + np.exp(-slope * z - intercept))
    y = np.clip(z, lower, upper)
    apart = np.array([y[t].mean() - y[~t].mean()])
    allowed = moments(z, lower, upper).left(apart, float(t.mean()))[0]
    whole, left = z[t].mean() - z[~t].mean(), []
    for degree in (1, 2):
        x = np.vander(y, degree + 1)
        treated, controls = (np.linalg.lstsq(x[arm], z[arm], rcond=None)[0] for arm in (t, ~t))
        both = np.linalg.lstsq(np.column_stack([t, x]), z, rcond=None)[0][0]
        left += [part / (whole - part) for part in (both, float(np.mean(x @ (treated - controls))))]
    assert max(left) < 1.1 * allowed + 0.002
    assert max(left) > 0.5 * allowed


def test_arms_that_cannot_be_are_no_reason_for_anything_but_a_number() -> None:
    """Whatever noise makes of the arms' distance and of the treated share."""
    values = np.random.default_rng(10).normal(size=MANY)
    for range_ in ((-1, 1), (-3, 0.5), (-0.01, 0.01)):
        cut = moments(values, *range_)
        for apart in (-1e300, -1.0, 0.0, 1e-9, 0.4, 1e9):
            for share in (0.0, 1e-9, 0.5, 1.0):
                found = cut.left(np.array([apart]), share)
                assert np.isfinite(found).all()
                assert found[0] >= cut.unseen[0] > 0
