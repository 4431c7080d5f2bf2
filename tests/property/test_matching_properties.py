"""What holds for every matching: caps kept, N neighbours for all who ask, no say for the order of rows."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from causalveil.schemas.errors import DataError
from causalveil.schemas.study import Estimand
from causalveil.tasks.data.enclave import MemoryEnclave
from causalveil.tasks.data.split import ascending, keyed_hash
from causalveil.tasks.estimate.models.nearest import (
    Matching,
    adaptive_limit,
    integer_caps,
    match_capped,
    most_used,
    traversal,
)
from tests import matching_oracle as oracle

STEP = 2.0**-20


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """Scores, treatments and N: arms from 1:1 to 1:200 either way, scores from all equal to all different."""
    ratio = draw(st.integers(1, 7))
    small = draw(st.integers(ratio, 24))
    large = min(small * draw(st.integers(1, 200)), 1500)
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    treated = np.repeat([0, 1], (large, small)).astype(np.uint8)
    if draw(st.booleans()):
        treated = 1 - treated
    levels = draw(st.sampled_from([1, 2, 10, 1000, 2**20]))
    # Either arm may lie apart from the other: then everybody wants the same few.
    apart = draw(st.sampled_from([0, 1, levels]))
    scores = (random.integers(0, levels, len(treated)) + apart * treated.astype(np.int64)) * STEP
    order = random.permutation(len(treated))
    return scores[order], treated[order], ratio


ESTIMANDS = st.sampled_from(list(Estimand))
LIMITS = st.fractions(1, 60, max_denominator=7)


def check(found: Matching, treated: np.ndarray, ratio: int, caps: tuple[int, int], estimand: Estimand) -> None:
    asks = {Estimand.ATE: treated >= 0, Estimand.ATT: treated == 1, Estimand.ATC: treated == 0}[estimand]
    assert found.neighbours is not None
    assert found.matched.tolist() == asks.tolist()
    rows = found.neighbours[found.matched]
    assert (treated[rows] != treated[found.matched][:, None]).all(), "a neighbour is of the other arm"
    assert all(len(set(row)) == ratio for row in rows.tolist()), "N different neighbours"
    assert found.uses.tolist() == np.bincount(rows.ravel(), minlength=len(treated)).tolist()
    cap = np.where(treated == 1, caps[0], caps[1])
    assert (found.uses <= cap).all(), "a cap is exceeded"


@given(tables(), LIMITS, ESTIMANDS)
@settings(max_examples=300, deadline=None)
def test_caps_are_kept_and_everybody_is_served(table, limit, estimand):
    """The floor on caps at work: whatever limit is asked for, nobody goes short and no cap is exceeded."""
    scores, treated, ratio = table
    caps = integer_caps(limit, int((treated == 1).sum()), int((treated == 0).sum()), ratio, estimand)
    check(match_capped(scores, treated, ratio, caps, estimand, keep=True), treated, ratio, caps, estimand)


@given(tables(), st.floats(1e-3, 10), st.sampled_from([0.001, 0.01, 0.1]), st.booleans())
@settings(max_examples=200, deadline=None)
def test_adaptive_caps_are_those_of_the_equations_and_feasible(table, epsilon, coefficient, label):
    scores, treated, ratio = table
    sizes = int((treated == 1).sum()), int((treated == 0).sum())
    most = most_used(scores, treated, ratio)
    limit = Fraction(adaptive_limit(epsilon, coefficient, max(sizes), most / ratio))
    if label:
        limit = min(limit, Fraction(most, ratio))
    caps = integer_caps(limit, *sizes, ratio)
    expected = oracle.reuse_limits(sizes, most, ratio, epsilon * coefficient, ceiling=label)
    assert caps == tuple(int(k * ratio) for k in expected)
    check(match_capped(scores, treated, ratio, caps, keep=True), treated, ratio, caps, Estimand.ATE)


@given(tables(), st.integers(0, 2000), ESTIMANDS)
@settings(max_examples=200, deadline=None)
def test_a_caliper_holds_for_every_pair_and_leaves_units_out_whole(table, steps, estimand):
    scores, treated, ratio = table
    sizes = int((treated == 1).sum()), int((treated == 0).sum())
    caps, caliper = integer_caps(Fraction(2), *sizes, ratio, estimand), steps * STEP
    found = match_capped(scores, treated, ratio, caps, estimand, caliper, keep=True)
    assert found.neighbours is not None
    rows = found.neighbours[found.matched]
    assert (np.abs(scores[rows] - scores[found.matched][:, None]) <= caliper).all()
    assert (found.neighbours[~found.matched] == -1).all()
    assert int(found.uses.sum()) == ratio * int(found.matched.sum())
    assert (found.uses <= np.where(treated == 1, caps[0], caps[1])).all()


def test_the_paper_without_the_floor_goes_short() -> None:
    """N = 2, three candidates, three queries at one place, each candidate used once per N at most: the third finds one.

    The naive floor ceil(queries / candidates) = 1 allows it; ours is ceil(3 / (3 - 2 + 1)) = 2.
    """
    scores, treated = np.zeros(6), np.array([0, 0, 0, 1, 1, 1], dtype=np.uint8)
    with pytest.raises(DataError):
        match_capped(scores, treated, 2, (1, 1))
    assert integer_caps(Fraction(1), 3, 3, 2) == (4, 4)
    assert match_capped(scores, treated, 2, (4, 4)).matched.all()


@given(st.integers(1, 7), st.integers(0, 40), st.integers(1, 300), st.fractions(1, 20, max_denominator=7))
@settings(max_examples=200, deadline=None)
@example(ratio=5, extra=0, queries=1000, limit=Fraction(1))
def test_worst_case_of_the_floor(ratio, extra, queries, limit):
    """All candidates at one place: nothing but the caps decides who is taken, and the last query is still served."""
    candidates = ratio + extra
    treated = np.repeat([1, 0], (candidates, queries)).astype(np.uint8)
    caps = integer_caps(limit, candidates, queries, ratio, Estimand.ATC)
    found = match_capped(np.zeros(len(treated)), treated, ratio, caps, Estimand.ATC)
    assert found.matched[treated == 0].all()
    assert found.uses.max() <= caps[0]


UNIT_LISTS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=8, max_size=60, unique=True)


@given(UNIT_LISTS, st.binary(min_size=16, max_size=16), st.randoms(use_true_random=False), st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_order_of_rows_does_not_matter(units, key, random, seed):
    """The same people in another order, under the same key: everybody serves and is served as before."""
    generator = np.random.default_rng(seed)
    count = len(units)
    treated = dict(zip(units, np.arange(count) % 2, strict=True))
    score = dict(zip(units, generator.integers(0, 6, count) * STEP, strict=True))

    def uses(listed: list[int]) -> dict[int, int]:
        order = ascending(keyed_hash(pl.Series(listed, dtype=pl.Int64), key))
        people = [listed[place] for place in order.tolist()]
        arms = np.array([treated[unit] for unit in people], dtype=np.uint8)
        found = match_capped(np.array([score[unit] for unit in people]), arms, 2, (4, 4))
        return dict(zip(people, found.uses.tolist(), strict=True))

    shuffled = list(units)
    random.shuffle(shuffled)
    assert uses(units) == uses(shuffled)


@given(
    UNIT_LISTS,
    st.binary(min_size=16, max_size=16),
    st.lists(st.integers(0, 60), max_size=4),
    st.randoms(use_true_random=False),
)
@settings(max_examples=100, deadline=None)
def test_layout_of_partitions_does_not_matter(units, key, cuts, random):
    """Files of any size, in any order, rows of each ascending by hash as the normalise stage leaves them."""

    def sequence(listed: list[int], places: list[int]) -> list[int]:
        edges = [0, *sorted(place % (len(listed) + 1) for place in places), len(listed)]
        kept: list[int] = []
        parts = []
        for low, high in pairwise(edges):
            hashes = keyed_hash(pl.Series(listed[low:high], dtype=pl.Int64), key)
            order = ascending(hashes)
            parts.append({"h": hashes[order]})
            kept.extend(listed[low + place] for place in order.tolist())
        return [kept[place] for place in traversal(MemoryEnclave(parts)).tolist()]

    shuffled = list(units)
    random.shuffle(shuffled)
    assert sequence(units, []) == sequence(shuffled, cuts)


@pytest.mark.parametrize("most", [61, 115, 122, 230])
def test_the_ceiling_is_m_where_floats_would_lose_a_use(most):
    """(M/7) 7 falls below M in floats for these M."""
    assert int(most / 7 * 7) < most
    assert integer_caps(Fraction(most, 7), 100, 100, 7)[0] == most
