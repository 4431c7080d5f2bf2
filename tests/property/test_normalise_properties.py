"""No row that Parquet can hold leaves the unit ball, in exact arithmetic on the floats that were written."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from causalveil.schemas.columns import LARGEST, sane_range
from causalveil.tasks.data.covariates import dimension, scale
from causalveil.tasks.data.normalise import columns, encode, scaled_outcome
from tests.bad_data import study

FINITE = st.floats(allow_nan=False, allow_infinity=False)
# Plain numbers, and the corners of the format.
VALUES = st.one_of(FINITE, st.floats(-100, 100), st.sampled_from([0.0, -0.0, 5e-324, 1.7976931348623157e308]))


def declarable(ends: tuple[float, float]) -> bool:
    try:
        sane_range(*sorted(ends))
    except ValueError:
        return False
    return True


@st.composite
def bounds(draw) -> dict[str, float]:
    """Any range that a study may declare, up to the largest."""
    ends = st.one_of(st.floats(-LARGEST, LARGEST), st.floats(-100, 100), st.sampled_from([0.0, -LARGEST, LARGEST]))
    low, high = sorted(draw(st.tuples(ends, ends).filter(declarable)))
    return {"lower": low, "upper": high}


LEVELS = ["a", "b", "c", "d"]


@st.composite
def tables(draw):
    """A study with a few covariates, and rows of any values."""
    rows = draw(st.integers(1, 6))
    missing = draw(st.sampled_from(["refuse", "indicator"]))
    covariates, data = {}, {}
    for index in range(draw(st.integers(1, 7))):
        name = f"v{index}"
        if draw(st.booleans()):
            covariates[name] = draw(bounds())
            if covariates[name]["lower"] > 0 and declarable(tuple(map(math.log, covariates[name].values()))):
                covariates[name]["scale"] = draw(st.sampled_from(["linear", "log", "sqrt"]))
            cells: st.SearchStrategy = VALUES
            dtype: type[pl.DataType] = pl.Float64
        else:
            covariates[name] = {"levels": LEVELS[: draw(st.integers(2, 4))]}
            cells, dtype = st.sampled_from(covariates[name]["levels"]), pl.String
        if missing == "indicator":
            cells = st.none() | cells
        data[name] = pl.Series(draw(st.lists(cells, min_size=rows, max_size=rows)), dtype=dtype)
    return study(covariates=covariates, missing=missing), pl.DataFrame(data)


def exact_square(row: np.ndarray) -> Fraction:
    return sum((Fraction(float(value)) ** 2 for value in row), Fraction(0))


@given(tables())
@settings(max_examples=300, deadline=None)
def test_every_row_is_in_the_ball(table):
    given_study, frame = table
    x = encode(given_study, columns(given_study, frame), np.arange(frame.height))
    assert x.shape == (frame.height, dimension(given_study))
    assert np.all(x[:, -1] == scale(given_study))
    for row in x:
        assert exact_square(row) <= 1
        # So is the norm as floating point computes it, in any order.
        assert np.linalg.norm(row) <= 1
        assert np.linalg.norm(row[::-1].copy()) <= 1


@given(tables(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_a_row_depends_on_nothing_but_itself(table, random):
    given_study, frame = table
    order = list(range(frame.height))
    random.shuffle(order)
    prepared = columns(given_study, frame)
    whole = encode(given_study, prepared, np.arange(frame.height))
    assert np.array_equal(encode(given_study, prepared, np.array(order)), whole[order])
    alone = frame[order[0] : order[0] + 1]
    assert np.array_equal(encode(given_study, columns(given_study, alone), np.array([0])), whole[order[:1]])


@given(bounds(), st.lists(VALUES, min_size=1, max_size=8))
@settings(max_examples=300, deadline=None)
def test_outcomes_are_in_the_interval_and_keep_their_order(declared, values):
    given_study = study(outcome={"name": "y", **declared})
    u = scaled_outcome(given_study, pl.Series("y", values, dtype=pl.Float64))
    assert np.all(np.abs(u) <= 1)
    assert np.all(np.diff(u[np.argsort(values, kind="stable")]) >= 0)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(-2, 3))
@settings(max_examples=300, deadline=None)
def test_outcomes_agree_with_the_formula(lower, width, place):
    declared = {"lower": lower, "upper": lower + width}
    given_study = study(outcome={"name": "y", **declared})
    y = lower + place * width
    (u,) = scaled_outcome(given_study, pl.Series("y", [y]))
    low, high = Fraction(declared["lower"]), Fraction(declared["upper"])
    clipped = min(max(Fraction(y), low), high)
    expected = (clipped - (low + high) / 2) / ((high - low) / 2)
    assert abs(u - float(expected)) <= 1e-15 + 4e-16 * abs(float((abs(low) + abs(high)) / (high - low)))


def test_the_corner_of_the_ball_for_many_covariates():
    """All covariates at a bound at once, p up to 2000: the worst row, with a margin that rounding cannot eat."""
    for p in [*range(1, 60), 99, 255, 1000, 2000]:
        given_study = study(covariates={f"v{i}": {"lower": 0, "upper": 1} for i in range(p)})
        frame = pl.DataFrame({f"v{i}": [float(i % 2) * 9 - 4] for i in range(p)})
        (row,) = encode(given_study, columns(given_study, frame), np.array([0]))
        square = exact_square(row)
        assert 1 - 2**-38 < square <= 1
        assert float(np.sum(row * row)) <= 1
        assert sum(float(v) * float(v) for v in row) <= 1
