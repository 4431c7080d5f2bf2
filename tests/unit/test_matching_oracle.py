"""The matcher against the oracle: the paper's sorted distance matrices, on thousands of small cases.

Scores lie on a coarse lattice, so that many candidates are equally far, on both sides and at the same place.
"""

from __future__ import annotations

import numpy as np
import pytest

from causalveil.schemas.errors import DataError
from causalveil.schemas.study import Estimand
from causalveil.tasks.estimate.models.nearest import match_capped, most_used
from tests import matching_oracle as oracle

CASES = 6000


def case(random: np.random.Generator) -> dict:
    """A small table: from all scores equal to none, arms of any sizes that can be matched at all."""
    ratio = int(random.integers(1, 5))
    arms = random.integers(ratio, 14, 2)
    n = int(arms.sum())
    treated = random.permutation(np.repeat([0, 1], arms)).astype(np.uint8)
    scores = random.integers(0, random.choice([1, 2, 5, 30, 2**20]) + 1, n) / 2.0**20
    floors = [-(-int(arms[1 - arm]) * ratio // int(arms[arm] - ratio + 1)) for arm in (1, 0)]
    tight = [max(1, int(random.integers(1, floor + 3))) for floor in floors]
    return {
        "scores": scores - random.choice([0.0, 0.5 / 2.0**20 * n]),
        "treated": treated,
        "ratio": ratio,
        "caps": (tight[0], tight[1]),
        "estimand": list(Estimand)[int(random.integers(0, 3))],
        "caliper": random.choice([None, 0.0, 1 / 2.0**20, 4 / 2.0**20]),
    }


def test_neighbours_are_those_of_the_sorted_matrices() -> None:
    """6,000 cases, seed 0; some are infeasible, and then both say so."""
    random = np.random.default_rng(0)
    seen = {"feasible": 0, "exhausted": 0, "capped": 0, "out of caliper": 0}
    for _ in range(CASES):
        arguments = case(random)
        try:
            expected = oracle.match(**arguments)
        except oracle.Exhausted:
            with pytest.raises(DataError):
                match_capped(**arguments)
            seen["exhausted"] += 1
            continue
        found = match_capped(**arguments, keep=True)
        assert found.neighbours is not None
        rows = [row if found.matched[unit] else [] for unit, row in enumerate(found.neighbours.tolist())]
        assert rows == expected.neighbours, arguments
        assert found.uses.tolist() == expected.uses.tolist()
        assert found.matched.tolist() == expected.matched
        seen["feasible"] += 1
        seen["capped"] += expected.uses.max() in arguments["caps"]
        seen["out of caliper"] += arguments["caliper"] is not None and not all(expected.matched)
    assert min(seen.values()) > CASES // 20, seen


def test_without_keeping_neighbours_uses_are_the_same() -> None:
    """2,000 cases, seed 1."""
    random = np.random.default_rng(1)
    for _ in range(2000):
        arguments = case(random) | {"caliper": 4 / 2.0**20}
        kept, dropped = match_capped(**arguments, keep=True), match_capped(**arguments)
        assert dropped.neighbours is None
        assert kept.uses.tolist() == dropped.uses.tolist()
        assert kept.matched.tolist() == dropped.matched.tolist()


def test_most_used_is_the_matrices_own_count() -> None:
    """2,000 cases, seed 2."""
    random = np.random.default_rng(2)
    for _ in range(2000):
        arguments = case(random)
        chosen = {name: arguments[name] for name in ("scores", "treated", "ratio", "estimand")}
        assert most_used(**chosen) == oracle.most_used(**chosen)


def test_a_larger_case_at_full_resolution() -> None:
    """1,200 units, N = 5, scores with 40 bits, tight caps; seed 3."""
    random = np.random.default_rng(3)
    n, ratio = 1200, 5
    treated = (random.random(n) < 0.25).astype(np.uint8)
    scores = np.round(random.beta(2, 4, n) * 2**40) / 2**40
    count = int(treated.sum())
    caps = (-(-(n - count) * ratio // (count - ratio + 1)), -(-count * ratio // (n - count - ratio + 1)))
    found = match_capped(scores, treated, ratio, caps, keep=True)
    expected = oracle.match(scores, treated, ratio, caps)
    assert found.neighbours is not None
    assert found.neighbours.tolist() == expected.neighbours
    assert found.uses.max() == max(caps)
