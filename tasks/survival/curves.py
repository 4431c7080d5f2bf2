"""The grid of a study of times, and curves of one arm as functions of its cells.

The grid says how many intervals there are until the horizon, and which cells a person may be in. Cells of one arm, K
kinds of event, J intervals of (0, horizon]:

    [kind 1 in 1..J | ... | kind K in 1..J | censored in 1..J, still at risk at the horizon]       (K + 1) J + 1 numbers

Curves are people at risk, survival, cumulative incidence and restricted mean. All are homogeneous of degree 0 in the
cells but counts, take any leading axes, and end in the cells of an arm. Those who were censored within an interval are
at risk for half of it (the actuarial estimate of Kaplan-Meier's curve).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from causalveil.tasks.machine.arrays import ByteArray, FloatArray

ARMS = 2
CellArray = NDArray[np.int32]


@dataclass(frozen=True)
class Grid:
    """The grid of cells: intervals until the horizon, kinds of events, groups and arms.

    ``between``: the ends of the intervals where these are not of equal length, the horizon last.
    ``strata``: the stratum of each combination of the levels of ``censoring.by``, where a subgroup has several; a group
    is then a stratum of a subgroup.
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
    strata: tuple[int, ...] = ()

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

    @property
    def strata_of_group(self) -> int:
        """Number of strata of each subgroup."""
        return max(self.strata) + 1 if self.strata else 1

    @property
    def combinations(self) -> int:
        """Number of combinations of levels of each subgroup."""
        return max(len(self.strata), 1)

    @property
    def places(self) -> tuple[int, ...]:
        """The group of each combination of levels of each subgroup."""
        strata = self.strata or (0,)
        return tuple(first + own for first in range(0, self.groups, self.strata_of_group) for own in strata)

    def cell(self, arm: ByteArray, time: FloatArray, kind: ByteArray, group: ByteArray | None = None) -> CellArray:
        """Return each person's cell among those of all arms and groups.

        Group after group, the cells of the controls come first.

        Args:
            arm: shape (n,), counted from 0.
            time: shape (n,), finite.
            kind: shape (n,), 0 where a person was censored, else which kind of event she had.
            group: shape (n,), the subgroup, or its combination of levels where it has strata; None: there is one. Who
                is not eligible is in one behind all, beyond the cells.
        """
        # Whole numbers of 32 bits: every pass over the people makes them.
        own = np.searchsorted(self.ends, time).astype(np.int32)
        at_end = self.ends[np.minimum(own, self.intervals - 1)] == time
        own += 1
        # Events come before losses of the same time: who is lost at an interval's end was followed to it.
        own += at_end & (kind == 0)
        late = (own > self.intervals) | (time > self.horizon)
        np.clip(own, 1, self.intervals, out=own)
        first = np.array([self.kinds, *range(self.kinds)], dtype=np.int32) * self.intervals - 1
        own += first[kind]
        own[late] = self.cells - 1
        own += arm.astype(np.int32) * np.int32(self.cells)
        if group is not None:
            place = np.array((*self.places, self.groups), dtype=np.int32)[group] if self.strata else group
            own += place.astype(np.int32) * np.int32(self.arms * self.cells)
        return own


# Numbers at risk are held above this where they are divided by.
LEAST = 1e-9
# Its square is nothing beside any count of people.
STEP = 1e-40
Curve = Callable[[Any], Any]


def events(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return events by kind and interval, shape (..., K, J)."""
    return cells[..., : grid.kinds * grid.intervals].reshape(*cells.shape[:-1], grid.kinds, grid.intervals)


def censored(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return those who were censored within each interval, shape (..., J)."""
    return cells[..., grid.kinds * grid.intervals : -1]


def at_risk(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return people at risk where intervals begin, shape (..., J)."""
    left = events(cells, grid).sum(axis=-2) + censored(cells, grid)
    return np.asarray(cells.sum(axis=-1, keepdims=True) - np.cumsum(left, axis=-1) + left)


def not_lost(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return people who begin intervals and are not censored within them, shape (..., J)."""
    return np.asarray(at_risk(cells, grid) - censored(cells, grid))


def hazards(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return the chance of each kind of event within each interval, shape (..., K, J).

    It is the chance of those at risk, within [-1, 1]: noise may leave less than nobody at risk, and no product of such
    chances may leave the floats.
    """
    exposed = at_risk(cells, grid) - censored(cells, grid) / 2
    return np.clip(events(cells, grid) / np.maximum(exposed, LEAST)[..., None, :], -1, 1)


def survival(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return the chance of no event of any kind until each interval's end, shape (..., J)."""
    return np.cumprod(1 - hazards(cells, grid).sum(axis=-2), axis=-1)


def incidence(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return the cumulative incidence of each kind of event, shape (..., K, J).

    It is the chance of the event until each interval's end (Aalen and Johansen).
    """
    after = survival(cells, grid)
    before = np.concatenate([np.ones_like(after[..., :1]), after[..., :-1]], axis=-1)
    return np.cumsum(before[..., None, :] * hazards(cells, grid), axis=-1)


def risk(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return the chance of an event that counts until the horizon, shape (...)."""
    return incidence(cells, grid)[..., 0, -1]


def restricted_mean(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return the mean time without an event until the horizon, shape (...).

    It is the area under the curve by trapezoids.
    """
    after = survival(cells, grid)
    before = np.concatenate([np.ones_like(after[..., :1]), after[..., :-1]], axis=-1)
    return np.asarray((before + after) / 2 @ np.diff(grid.ends, prepend=0.0))


def still_followed(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return the share whom censoring leaves until each interval's end.

    It is a survival curve with events and losses in each other's place.
    """
    lost = censored(cells, grid)
    exposed = at_risk(cells, grid) - events(cells, grid).sum(axis=-2) / 2
    return np.asarray(np.cumprod(1 - np.clip(lost / np.maximum(exposed, LEAST), 0, 1), axis=-1))


def spread_of_times(cells: FloatArray, grid: Grid) -> float:
    """Return the variance of the time without an event until the horizon, by trapezoids.

    It is taken at an arm's tidied cells.
    """
    after = np.concatenate([[1.0], survival(cells, grid)])
    times = np.concatenate([[0.0], grid.ends])
    return max(2 * float(np.trapezoid(times * after, times)) - float(restricted_mean(cells, grid)) ** 2, 0.0)


def gradient(function: Curve, cells: FloatArray) -> FloatArray:
    """Return the derivative by each cell, shape (cells, ...).

    It is exact, by a step along the imaginary axis. Squire and Trapp 1998: f(x + i h) = f(x) + i h f'(x) + O(h^2) has
    no difference that rounding could hide, however few people a cell holds beside the others. Clips compare real parts.
    """
    moved = np.asarray(cells + 1j * STEP * np.eye(len(cells)))
    return np.asarray(np.imag(function(moved)) / STEP)


def never_falling(values: FloatArray) -> FloatArray:
    """Return the nearest sequence that does not fall (pool adjacent violators)."""
    return np.asarray(isotonic_regression(values).x)


def tidied(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return cells of an arm that people could make up.

    Cumulated counts never fall, and one at least is at risk last. Variances are taken at these; estimates are not,
    since tidying has a bias.
    """
    total = max(float(cells.sum()), 2.0)
    blocks = cells[:-1].reshape(grid.kinds + 1, grid.intervals)
    sums = [np.clip(never_falling(np.cumsum(block)), 0, total) for block in blocks]
    found = np.concatenate([np.diff(one, prepend=0.0) for one in sums])
    found = found * min(1.0, (total - 1) / max(float(found.sum()), LEAST))
    return np.append(found, max(total - float(found.sum()), 1.0))
