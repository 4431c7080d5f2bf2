"""Separate levels for scores and effect (Lee et al. 2019a, section 3.2): their cost by enumeration, and the table."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import product

import pytest

from causalveil_replication.lee2019.runs import EPSILONS, TableDraw
from causalveil_replication.lee2019.tables import level_rows, noise_factor

Table = tuple[int, ...]


def law(table: Table, trains: Table, levels: tuple[float, float]) -> dict[Table, float]:
    """Every output of a small algorithm of that shape, and its chance.

    The training half releases one noisy bit, the others' parity is released by a noise that depends on it.
    """
    found: dict[Table, float] = defaultdict(float)
    for first, second in product((0, 1), repeat=2):
        bit = sum(table[place] for place in trains) % 2
        others = [table[place] for place in range(len(table)) if place not in trains]
        parity = (sum(others) + first) % 2
        chance = 1.0
        for value, noisy, level in ((bit, first, levels[0]), (parity, second, levels[1])):
            keep = 1 / (1 + math.exp(-level))
            chance *= keep if value == noisy else 1 - keep
        found[first, second] += chance
    return found


def excess(one: dict[Table, float], other: dict[Table, float], epsilon: float) -> float:
    return sum(max(chance - math.exp(epsilon) * other[output], 0.0) for output, chance in one.items())


@pytest.mark.parametrize("levels", [(0.2, 0.9), (0.9, 0.2), (0.5, 0.5)])
def test_a_person_has_the_level_of_the_own_half_and_the_whole_costs_the_larger(levels: tuple[float, float]) -> None:
    """All tables of four bits, all neighbours, all halves: exact chances."""
    halves = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    largest = [0.0, 0.0]
    for table in product((0, 1), repeat=4):
        for place in range(4):
            other = tuple(1 - bit if k == place else bit for k, bit in enumerate(table))
            mixed: tuple[dict[Table, float], dict[Table, float]] = defaultdict(float), defaultdict(float)
            for trains in halves:
                laws = law(table, trains, levels), law(other, trains, levels)
                loss = max(abs(math.log(laws[0][o] / laws[1][o])) for o in laws[0])
                side = 0 if place in trains else 1
                assert loss <= levels[side] + 1e-12
                largest[side] = max(largest[side], loss)
                for into, one in zip(mixed, laws, strict=True):
                    for output, chance in one.items():
                        into[output] += chance / len(halves)
            assert max(abs(math.log(mixed[0][o] / mixed[1][o])) for o in mixed[0]) <= max(levels) + 1e-12
            for epsilon in (0.1, 0.3, 0.7):
                each = [max(math.exp(level) - math.exp(epsilon), 0) / (1 + math.exp(level)) for level in levels]
                assert excess(mixed[0], mixed[1], epsilon) <= sum(each) / 2 + 1e-12
    assert largest == pytest.approx(list(levels)), "either level is reached"


def test_rows_of_levels_by_hand() -> None:
    """The scores' noise is that of the run's epsilon, the effect's has a level of its own."""
    draws = [TableDraw(0, float(e), 10.0, 12.0, 4.0, -1.0, 10.0, 9.0 + float(e), 1.0, 1.0, 1.0, -1.0) for e in EPSILONS]
    rows = {(row["scores_epsilon"], row["effect_epsilon"]): row for row in level_rows(draws, 100, 5.0)}
    assert len(rows) == len(EPSILONS) ** 2
    row = rows[0.2, 0.8]
    assert row["whole_epsilon"] == 0.8
    assert row["median_error"] == pytest.approx(abs(9.2 - noise_factor(0.8, "1e-6") - 10), abs=0.01)
    assert row["flips"] == 0
