"""The split is a function of the units and the key; and the coupling that the privacy proof rests on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from causalveil.tasks.data.split import ascending, keyed_hash, leading_rows, training_size

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
