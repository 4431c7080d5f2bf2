"""Theorem 4(1) and Corollary 3.21 of Kusner et al. (2016): where they hold, against enumeration."""

from __future__ import annotations

import math
from itertools import product

import pytest

from causalveil_replication.kusner2016 import claims


def test_a_range_that_may_leave_its_bin_is_seldom_released_and_or_is_no_and() -> None:
    """2,000 draws a line: within 4.5 errors, which chance exceeds once in 12,000 tables."""
    rows = {(row["distances"], row["epsilon"]): row for row in claims.release_rows(2_000)}
    for row in rows.values():
        assert abs(row["measured"] - row["exact"]) <= 4.5 * row["standard_error"] + 1e-12
    for epsilon in (0.2, 1.0, 3.0):
        assert rows["both 1", epsilon]["exact"] <= 0.01
        assert rows["1 and far", epsilon]["exact"] == pytest.approx(1)
    beyond = [epsilon for epsilon in (0.2, 1.0, 3.0) if rows["both 2", epsilon]["exact"] > 0.015]
    assert beyond == [1.0, 3.0], "from ln 1.5 on"


@pytest.mark.parametrize(("each", "looks", "total"), [(0.1, 1, 0.05), (0.3, 3, 0.5), (1.0, 4, 2.0), (0.2, 5, 0.99)])
def test_composition_is_that_of_every_answer_of_randomised_response(each: float, looks: int, total: float) -> None:
    """The sum over all answers of what one data set makes likelier than exp(total) times the other."""
    keep = 1 / (1 + math.exp(-each))
    excess = 0.0
    for bits in product((0, 1), repeat=looks):
        one = math.prod(keep if bit else 1 - keep for bit in bits)
        other = math.prod(1 - keep if bit else keep for bit in bits)
        excess += max(one - math.exp(total) * other, 0.0)
    assert claims.composed_delta(each, looks, total) == pytest.approx(excess, abs=1e-12)


def test_the_corollary_holds_and_adding_up_allows_more_for_few_looks() -> None:
    for looks in (1, 2, 3, 4, 10, 37, 111, 400):
        for slack in (1e-2, 1e-4, 1e-6):
            by_corollary, limit = claims.corollary(0.99, looks, slack), claims.exact_look(0.99, looks, slack)
            assert by_corollary <= limit
            assert 0.99 / looks <= limit
            assert (by_corollary > 0.99 / looks) == (looks > 8 * math.log(1 / slack))
