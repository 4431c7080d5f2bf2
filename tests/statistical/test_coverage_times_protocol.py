"""How often intervals of a protocol of times hold by themselves and all together, on people whose truth is known.

Events come at constant rates: deaths the slower the higher the arm, relapses, losses. Seeds are fixed. By itself each
interval holds in .95 of runs, and all of a table together in .95.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from causalveil.schemas.estimators.survival import Measure
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.times.answers import compare, half_together
from causalveil.tasks.estimate.times.releases import JointCells, TimesContrast, release_stage
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.privacy.budget import RehearsalBudget
from tests.survival_help import People, make_times

DEATH, RELAPSE, LOST = 500.0, 1200.0, 1500.0
SITES = {"name": "site", "column": {"levels": ["north", "south", "east"]}}
ARMS = {"levels": ["none", "low", "high"], "reference": "none"}
# people, epsilon, changes: groups, arms.
CELLS: dict[str, tuple[int, str, dict[str, Any]]] = {
    "2,000 people, 3 sites": (2_000, "1", {"subgroups": SITES}),
    "6,000 people, 3 sites": (6_000, "1", {"subgroups": SITES}),
    "6,000 people, 3 sites, 3 arms": (6_000, "1", {"subgroups": SITES, "arms": ARMS}),
    "6,000 people, 3 arms, epsilon .5": (6_000, "0.5", {"arms": ARMS}),
    "6,000 people, 3 sites, epsilon 3": (6_000, "3", {"subgroups": SITES}),
}


def crowd(n: int, seed: int, arms: int, groups: int) -> People:
    """The people of one run; sites are of different sizes."""
    random = np.random.default_rng([seed, 7])
    arm, group = random.integers(0, arms, n).astype(np.uint8), random.binomial(groups - 1, 0.4, n).astype(np.uint8)
    death, relapse, lost = (random.exponential(mean, n) for mean in (DEATH, RELAPSE, LOST))
    death = death * (1 + 0.4 * arm)
    first = np.minimum(np.minimum(death, relapse), lost)
    kind = np.where(first == death, 1, np.where(first == relapse, 2, 0)).astype(np.uint8)
    return People(arm, first, kind, group=group)


def truth(one: TimesContrast) -> float:
    """The difference between the arms in the population."""

    def of(arm: int) -> float:
        rates = {"death": 1 / (DEATH * (1 + 0.4 * arm)), "relapse": 1 / RELAPSE}
        total, until = sum(rates.values()), one.question.outcome.horizon
        gone = 1 - math.exp(-total * until)
        if one.question.measure is Measure.rmst:
            return gone / total
        return sum(rates[name] for name in one.question.outcome.of) / total * gone

    return of(one.arm) - of(0)


def runs(n: int, epsilon: str, changes: dict[str, Any], count: int) -> tuple[float, list[bool], float]:
    """Return how often single intervals hold, by run whether all hold together, and the share of whole ranges."""
    study = make_times(epsilon=epsilon, **changes)
    sizes, single, whole, together = sizes_of(study, n), [], [], []
    for seed in range(count):
        people = crowd(n, seed, len(study.arm_names), len(study.groups))
        released = release_stage(study, sizes, people.enclave(), RehearsalBudget(seed))
        with one_thread():
            cells = JointCells.read(released, study, sizes)
            asked = cells.asked(study)
            found, factor = compare(study, cells, asked)
        true = [truth(one) for one in asked]
        single += [one.lower <= value <= one.upper for one, value in zip(found, true, strict=True)]
        whole += [one.whole_range for one in found]
        together.append(
            all(
                one.whole_range or abs(one.estimate - value) <= half_together(one, factor)
                for one, value in zip(found, true, strict=True)
            )
        )
    return float(np.mean(single)), together, float(np.mean(whole))


def test_intervals_hold_one_by_one_and_all_together() -> None:
    """30 runs of 20 answers, seeds 0 to 29. All together: at least 25 of 30 hold, which .95 misses with probability
    3e-3; noise of half the size would leave 8. One by one: .95 of 600 answers, which lie together, within .06."""
    single, together, _ = runs(*CELLS["6,000 people, 3 sites"], 30)
    assert sum(together) >= 25
    assert single > 0.89


@pytest.mark.long
@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_of_the_table(cell: str) -> None:
    """300 runs a cell: all together at least .92 (a false alarm of .95 below 1e-2), one by one at least .93."""
    count = 300
    single, together, whole = runs(*CELLS[cell], count)
    held = sum(together)
    print(f"{cell}: one by one {single:.3f}, all together {held / count:.3f}, whole range {whole:.3f}")
    assert held >= binom.ppf(1e-3, count, 0.95) - 0.01 * count
    assert single >= 0.93
