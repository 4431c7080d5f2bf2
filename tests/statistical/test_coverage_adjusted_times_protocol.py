"""How often intervals of adjusted questions of times hold, one by one and all together, where the truth is known.

People, studies and seeds are those of ``replication/benchmarks/survival_together.py``: covariates that confound, two
horizons, two measures, two subgroups, twelve answers in a run, epsilon 1. By itself each interval holds in .95 of runs,
and all of a table together in .95.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from replication.benchmarks.survival_adjusted import CONFOUNDED, Confounded
from replication.benchmarks.survival_together import joint_cell

LOST, RARE = CONFOUNDED[0], CONFOUNDED[2]


def test_adjusted_answers_hold_one_by_one_and_all_together() -> None:
    """12 runs of 10,000 people, seeds 0 to 11. All together: at least 9 hold, which .95 misses with probability 2e-3.

    Intervals of half the width leave 7 of them, a subgroup of the wrong sign none.
    One by one: a run's mean of twelve has a standard deviation of .07, so .85 lies 4.5 errors below .95.
    """
    found = joint_cell(LOST, 10_000, "1", 12)
    assert sum(found.together) >= 9
    assert np.mean([hit for own in found.hits.values() for hit in own]) > 0.85
    assert found.unresolved == 0


@pytest.mark.long
@pytest.mark.parametrize("n", [5_000, 30_000])
@pytest.mark.parametrize("one", [LOST, RARE], ids=lambda one: one.name)
def test_every_cell_of_the_table(one: Confounded, n: int) -> None:
    """100 runs, seeds 0 to 99, of each of four cells. A row of .95 fails by chance with probability 1e-4, so one of the
    48 rows with 5e-3; all together with 1e-3 in each cell."""
    count = 100
    found = joint_cell(one, n, "1", count)
    (key, worst), held = found.worst, sum(found.together)
    print(f"{n:,}: worst {key} {worst:.3f}, all together {held / count:.3f}")
    assert round(worst * count) >= binom.ppf(1e-4, count, 0.95)
    assert held >= binom.ppf(1e-3, count, 0.95)
