"""Pseudo-outcomes: a table of public numbers whose means are the curves', with a range that follow-up decides."""

from __future__ import annotations

import numpy as np
import pytest

from causalveil.schemas.estimators.survival import Measure
from causalveil.tasks.estimate.times import curves
from causalveil.tasks.estimate.times.curves import Grid
from causalveil.tasks.estimate.times.effects import TwoArms
from tests.survival_help import People, by_cell, exact_cells, outcomes_of


def people(n: int, lost: float, seed: int = 1) -> People:
    """A trial of exponential times; half have the event by the horizon of 1, a share is lost."""
    random = np.random.default_rng(seed)
    arm = (np.arange(n) % 2).astype(np.uint8)
    event = random.exponential(1 / np.log(2), n) * np.where(arm, 1.5, 1.0)
    gone = random.exponential(-1 / np.log1p(-lost), n) if lost else np.full(n, 9.0)
    return People(arm, np.minimum(event, gone), (event <= gone).astype(np.uint8))


@pytest.mark.parametrize("measure", list(Measure))
@pytest.mark.parametrize("lost", [0.0, 0.3, 0.6])
def test_means_over_an_arm_are_its_curve(measure: Measure, lost: float) -> None:
    grid = Grid(20, 1, 1.0)
    both = TwoArms(exact_cells(people(4_000, lost).counts(grid), grid))
    table = by_cell(both, measure)
    for arm in (0, 1):
        cells = both.tidy[arm]
        value = float(both.function(measure)(cells))
        assert cells @ table[arm] / cells.sum() == pytest.approx(value, abs=1e-9)


def test_without_censoring_they_are_the_outcomes_themselves() -> None:
    """Whether the event came, and the time without it, up to half an interval."""
    grid = Grid(20, 1, 1.0)
    both = TwoArms(exact_cells(people(4_000, 0.0).counts(grid), grid))
    risk, mean = (by_cell(both, one) for one in (Measure.risk, Measure.rmst))
    came = np.append(np.ones(20), 0.0)
    middles = np.append((np.arange(20) + 0.5) / 20, 1.0)
    own = [*range(20), 40]
    for arm in (0, 1):
        assert risk[arm][own] == pytest.approx(came, abs=1e-9)
        assert mean[arm][own] == pytest.approx(middles, abs=1e-9)


@pytest.mark.parametrize(("lost", "wide"), [(0.3, 1.7), (0.6, 4.5)])
def test_their_range_is_what_follow_up_leaves(lost: float, wide: float) -> None:
    """About 1/G(tau) of a risk, about tau of a restricted mean."""
    grid = Grid(20, 1, 1.0)
    counts = people(40_000, lost).counts(grid)
    risk, mean = (outcomes_of(grid, counts, one) for one in (Measure.risk, Measure.rmst))
    assert float(risk.followed[0, 0]) == pytest.approx(1 - lost, abs=0.02)
    assert 1 / (1 - lost) - 0.1 < 2 * float(risk.half[0, 0]) < 1.2 * wide
    assert 2 * float(mean.half[0, 0]) < 1.3


def test_they_move_with_a_person_as_the_curve_does() -> None:
    """One more person in a cell moves the curve by (z - f)/n, to first order (n = 40,000)."""
    grid = Grid(10, 2, 1.0)
    random = np.random.default_rng(2)
    counts = random.multinomial(40_000, random.dirichlet(np.full(2 * grid.cells, 5.0))).reshape(2, -1).astype(float)
    both = TwoArms(exact_cells(counts, grid))
    table, cells = by_cell(both, Measure.risk), both.tidy[1]
    for place in (0, 7, 15, 24, 30):
        more = cells.copy()
        more[place] += 1
        moved = (curves.risk(more, grid) - curves.risk(cells, grid)) * cells.sum()
        assert table[1][place] - curves.risk(cells, grid) == pytest.approx(moved, rel=2e-3, abs=1e-4)
