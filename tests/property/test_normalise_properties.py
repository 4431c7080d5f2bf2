"""No row that Parquet can hold leaves the unit ball, in exact arithmetic on the floats that were written."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from causalveil.schemas.columns import LARGEST, sane_range
from causalveil.tasks.data.covariates import dimension, scale
from causalveil.tasks.data.normalise import columns, encode, scaled_outcome
from causalveil.tasks.data.split import ascending, keyed_hash, leading_rows, training_size
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
    u = scaled_outcome(given_study, pl.DataFrame({"y": values}, schema={"y": pl.Float64}))
    assert np.all(np.abs(u) <= 1)
    assert np.all(np.diff(u[np.argsort(values, kind="stable")]) >= 0)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(-2, 3))
@settings(max_examples=300, deadline=None)
def test_outcomes_agree_with_the_formula(lower, width, place):
    declared = {"lower": lower, "upper": lower + width}
    given_study = study(outcome={"name": "y", **declared})
    y = lower + place * width
    (u,) = scaled_outcome(given_study, pl.DataFrame({"y": [y]}))
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


# The split is a function of the units and the key; and the coupling that the privacy proof rests on.
KEYS = st.binary(min_size=16, max_size=16)
UNITS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=60, unique=True),
    st.lists(st.text(max_size=40), min_size=2, max_size=60, unique=True),
)


def training(units: list, cuts: list[int], key: bytes, size: int) -> set:
    """Training units when ``units`` lie in files that end at ``cuts``."""
    edges = [0, *sorted(cut % (len(units) + 1) for cut in cuts), len(units)]
    parts = [units[low:high] for low, high in pairwise(edges)]
    dtype = pl.String if isinstance(units[0], str) else pl.Int64
    hashes = [keyed_hash(pl.Series(part, dtype=dtype), key) for part in parts]
    orders = [ascending(part) for part in hashes]
    counts = leading_rows([part[order] for part, order in zip(hashes, orders, strict=True)], size)
    rows = zip(parts, orders, counts, strict=True)
    return {part[row] for part, order, count in rows for row in order[:count].tolist()}


@given(UNITS, KEYS, st.lists(st.integers(0, 100), max_size=5), st.randoms(use_true_random=False), st.floats(0.05, 0.95))
@settings(max_examples=150, deadline=None)
def test_order_of_rows_and_layout_of_files_do_not_matter(units, key, cuts, random, fraction):
    size = min(max(1, round(fraction * len(units))), len(units) - 1)
    expected = training(units, [], key, size)
    assert len(expected) == size
    shuffled = list(units)
    random.shuffle(shuffled)
    assert training(shuffled, cuts, key, size) == expected


@given(UNITS, KEYS, st.integers(0, 100))
@settings(max_examples=150, deadline=None)
def test_under_one_key_replacing_a_unit_moves_at_most_one_other(units, key, place):
    """Without the secret this is what an adversary sees: the replaced unit's side and one neighbour's may change,
    so both halves change. That is why the coupling below needs a key that nobody knows."""
    dtype_is_text = isinstance(units[0], str)
    new = "new unit " * 6 if dtype_is_text else next(i for i in range(100) if i not in units)
    size = training_size(len(units), 0.5)
    index = place % len(units)
    before = training(units, [], key, size)
    after = training([*units[:index], new, *units[index + 1 :]], [], key, size)
    others = set(units) - {units[index]}
    assert len((before ^ after) & others) <= 1


@given(st.integers(2, 40), st.integers(0, 100), st.integers(0, 2**32), st.integers(1, 100))
@settings(max_examples=150, deadline=None)
def test_coupled_hashes_leave_everybody_else_in_place(n, place, seed, size):
    """The proof's coupling, executed: under H' = H after swapping a and b the new unit takes the old one's side."""
    generator = np.random.default_rng(seed)
    size, index = 1 + size % (n - 1), place % n
    table = generator.integers(0, 2**64, (n, 2), dtype=np.uint64)  # H on the units of D
    coupled = table.copy()  # H' on the units of D': b has a's hash, all others their own

    def chosen(hashes: np.ndarray) -> set[int]:
        order = ascending(hashes)
        return set(order[: int(leading_rows([hashes[order]], size)[0])].tolist())

    assert chosen(table) == chosen(coupled)
    # And H' is as likely as H: it is H itself after exchanging two independent uniform values. A hash of b that is
    # drawn afresh instead moves one more unit in about half of the cases, which is what the coupling avoids.
    coupled[index] = generator.integers(0, 2**64, 2, dtype=np.uint64)
    assert len((chosen(table) ^ chosen(coupled)) - {index}) <= 1
