"""A number whose declared range is far too wide: lines of it alone, and of the others whatever pays."""

from __future__ import annotations

import numpy as np
import pytest

from causalveil.tasks.covariates.columns import Basis, Columns
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.regression.features import Features
from tests.regression_help import analysed, even_scales, in_rows, make_regression

UNITS = 20_000


def squares_confound(wide: float = 15.0) -> Rows:
    """The square of the first number is in odds and outcome; the last is declared ``wide`` times too wide.

    The effect is .1 of half the range, .5 in outcome units.
    """
    random = np.random.default_rng(5)
    z = random.normal(size=(UNITS, 4))
    t = (random.random(UNITS) < 1 / (1 + np.exp(-0.6 * (z[:, 0] ** 2 - 1) - 0.3 * z[:, 1]))).astype(np.uint8)
    u = 0.1 * t + 0.04 * (z[:, 0] ** 2 - 1) + 0.05 * z[:, 1] + 0.08 * random.normal(size=UNITS)
    x = np.clip(z / 4, -1, 1)
    x[:, 3] = z[:, 3] / (4 * wide)
    return in_rows(x, t, np.clip(u, -1, 1))


def test_one_wide_range_keeps_no_squares_of_others_out() -> None:
    """One seeded run, epsilon 4; when lines alone entered it was .672 with +- .015."""
    found = analysed(make_regression(4, epsilon="4"), squares_confound())
    assert "with squares" in str(found.details["adjustment"])
    assert found.estimate == pytest.approx(0.5, abs=0.06)
    assert "non-linear confounding by x03, whose declared ranges are too wide" in str(found.details["not_covered"])


def test_a_range_that_fits_is_not_named() -> None:
    found = analysed(make_regression(4, epsilon="4"), squares_confound(wide=1.0))
    assert found.estimate == pytest.approx(0.5, abs=0.06)
    assert "too wide" not in str(found.details["not_covered"])


@pytest.mark.parametrize("basis", list(Basis))
def test_features_of_columns_of_which_lines_alone_enter(basis: Basis) -> None:
    """Of five numbers two by lines alone: 5 lines, then 3 squares, 3 products and 3 cubes of the others."""
    columns = Columns.of(make_regression(5)).by_lines_alone([1, 3])
    assert columns.squared == (0, 2, 4)
    assert columns.pairs == [(0, 2), (0, 4), (2, 4)]
    assert columns.features(basis) == 5 + 3 * int(basis)
    assert columns.without([0]).lines_alone == (0, 2)
    assert columns.two_valued == ()
    x = np.random.default_rng(1).normal(size=(50, 6)) / 40
    features = Features(columns, even_scales(5, deviation=np.full(5, 1 / 40)), basis, cut=100.0)
    found = features.of(x)
    assert found.shape == (50, columns.features(basis))
    assert len(features.variances) == features.count
    # Nothing beside its line follows the second column.
    x[:, 1] *= -1
    assert np.flatnonzero(np.any(features.of(x) != found, axis=0)).tolist() == [1]
