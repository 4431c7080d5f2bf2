"""The grid of a study of times.

How many intervals until the horizon, and the cells that a person may be in.

Cells of one arm, K kinds of event, J intervals of (0, horizon]:

    [kind 1 in 1..J | ... | kind K in 1..J | censored in 1..J, still at risk at the horizon]       (K + 1) J + 1 numbers
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.privacy import PrivacyCost
from causalveil.tasks.machine.arrays import ByteArray, FloatArray, IntArray
from causalveil.tasks.privacy.gaussian import mu_of, portion

# J = n mu / PEOPLE within FEWEST and MOST: chosen on the trials of docs/figures/survival.md, 1,000 to 5,000 people.
# Late intervals of a finer grid hold fewer people at risk than noise; a curve hardly pays for more of them.
PEOPLE, FEWEST, MOST = 12, 10, 50
ARMS = 2
CellArray = NDArray[np.int32]


@dataclass(frozen=True)
class Grid:
    """The grid of cells: intervals until the horizon, kinds of events, groups and arms.

    ``between``: the ends of the intervals where these are not of equal length, the horizon last.
    ``everybody``: whether each unit has a cell, so that cells add up to n, which is public; the eligible alone do not.
    """

    intervals: int
    kinds: int
    horizon: float
    groups: int = 1
    arms: int = ARMS
    # Named where a grid is made: two of these are of a kind that stands for the other without a word.
    _: KW_ONLY
    between: tuple[float, ...] = ()
    everybody: bool = True

    @property
    def numbers(self) -> int:
        """Cells of all arms of all groups."""
        return self.groups * self.arms * self.cells

    @property
    def cells(self) -> int:
        """Cells of an arm."""
        return (self.kinds + 1) * self.intervals + 1

    @property
    def ends(self) -> FloatArray:
        """Ends of the intervals, shape (J,)."""
        if self.between:
            return np.array(self.between)
        return self.horizon * np.arange(1, self.intervals + 1) / self.intervals

    def cell(self, arm: ByteArray, time: FloatArray, kind: ByteArray, group: ByteArray | None = None) -> CellArray:
        """Return each person's cell among those of all arms and groups.

        Group after group, the cells of the controls come first.

        Args:
            arm: shape (n,), counted from 0.
            time: shape (n,), finite.
            kind: shape (n,), 0 where a person was censored, else which kind of event she had.
            group: shape (n,); None: there is one. Who is not eligible is in one behind all, beyond the cells.
        """
        if self.between:
            own = np.searchsorted(self.ends, time).astype(np.int32)
            at_end = self.ends[np.minimum(own, self.intervals - 1)] == time
            own += 1
        else:
            # The product comes first: of whole numbers it is exact, so an event at an interval's end lies in it.
            place = time * float(self.intervals)
            place /= self.horizon
            # Whole numbers of 32 bits: every pass over the people makes them.
            own = np.clip(np.ceil(place), 0, self.intervals).astype(np.int32)
            at_end = place == own
        # Events come before losses of the same time: who is lost at an interval's end was followed to it.
        own += at_end & (kind == 0)
        late = (own > self.intervals) | (time > self.horizon)
        np.clip(own, 1, self.intervals, out=own)
        first = np.array([self.kinds, *range(self.kinds)], dtype=np.int32) * self.intervals - 1
        own += first[kind]
        own[late] = self.cells - 1
        own += arm.astype(np.int32) * np.int32(self.cells)
        if group is not None:
            own += group.astype(np.int32) * np.int32(self.arms * self.cells)
        return own

    def until(self, intervals: int) -> Grid:
        """Return the grid that ends with an earlier interval."""
        end, between = float(self.ends[intervals - 1]), self.between[:intervals]
        return replace(self, intervals=intervals, horizon=end, between=between)

    def places(self, intervals: int) -> IntArray:
        """Return the place of each cell of an arm on the grid of ``until(intervals)``.

        It is at risk at the end of that grid if its time is later.
        """
        early = np.arange(self.intervals) < intervals
        blocks = [
            np.where(early, block * intervals + np.arange(self.intervals), (self.kinds + 1) * intervals)
            for block in range(self.kinds + 1)
        ]
        return np.append(np.concatenate(blocks), (self.kinds + 1) * intervals)


def cells_cost(study: SurvivalStudy) -> PrivacyCost:
    """Return the budget of the cells.

    It is all of the budget, or their share of it where the rest goes to an adjustment.
    """
    return portion(study.privacy.cost, study.estimator.share) if study.covariates else study.privacy.cost


def budget_of(study: SurvivalStudy) -> float:
    """Return mu of what the cells may cost; 0 where noise is Laplace's."""
    if study.privacy.delta == 0:
        return 0.0
    share = study.estimator.share if study.covariates else 1
    return math.sqrt(share) * float(mu_of(study.privacy.cost))


def grid_of(study: SurvivalStudy, units: int) -> Grid:
    """Return the study's grid: as it declares, else by the rule of public numbers.

    Args:
        study: the study.
        units: n.
    """
    outcome = study.outcome
    intervals = study.intervals
    if intervals is None:
        ruled = round(units / study.censoring.groups * budget_of(study) / PEOPLE)
        steps = int(outcome.horizon / outcome.step)
        intervals = max(min(max(ruled, FEWEST), MOST, steps), 1)
    return Grid(intervals, len(outcome.kinds), outcome.horizon, study.censoring.groups, everybody=not study.where)
