"""Count the cells of a study of times, release them, and read curves off them.

The grid has J intervals of (0, horizon]. An arm with K kinds of event has the cells

    [kind 1 in 1..J | ... | kind K in 1..J | censored in 1..J, still at risk at the horizon]       (K + 1) J + 1 numbers

Where people may enter late, J more cells hold those who entered within each interval.

Curves of an arm are functions of its cells: people at risk, survival, cumulative incidence and restricted mean. All but
counts are homogeneous of degree 0 in the cells; they take any leading axes and end in the cells of an arm. Those who
were censored or entered within an interval are at risk for half of it (the actuarial estimate of Kaplan-Meier's curve).

A curve is made of running sums of cells. Noise on each cell would add up in them; noise on each running sum would need
a sensitivity that grows with their number. R with R R = suffix sums, half of the way in between, keeps both small
(Bennett 1977; Henzinger and Upadhyay 2025). Its columns are scaled to length 1 at most, so that two people are never
farther apart than sqrt(2). Proof: ``docs/proofs/survival.md``, sections 1 to 3; of late entry, section 14.

Where censoring may depend on covariates, combinations of their levels form strata, divided in a public order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, toeplitz
from scipy.optimize import isotonic_regression

from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.privacy import Norm, PrivacyCost, Scope
from causalveil.tasks.machine.arrays import ByteArray, FloatArray, IntArray
from causalveil.tasks.privacy.mechanisms import Laplace, Mechanism, Sensitivity, Slot, vector_mechanism


def divided(levels: Sequence[int], visible: Callable[[IntArray], bool]) -> list[IntArray]:
    """Divide combinations of levels into as many visible strata as possible.

    Levels of the last column are pooled first, each with its neighbours in their declared order; then those of the
    column before it. In the end all combinations may be one stratum.

    Args:
        levels: number of levels of each column.
        visible: whether noise leaves pooled combinations visible; they are numbered from 0, the last column fastest.

    >>> [stratum.tolist() for stratum in divided((2, 3), lambda members: len(members) >= 2)]
    [[0, 1, 2], [3, 4, 5]]
    """
    return _parts(np.arange(math.prod(levels)).reshape(1, *levels), visible)


def _parts(members: IntArray, visible: Callable[[IntArray], bool]) -> list[IntArray]:
    """Divide combinations of shape (combinations of former columns, levels of each later column)."""
    whole = members.reshape(-1)
    if members.ndim == 1 or not visible(whole):
        return [whole]
    ends = [0]
    for end in range(1, members.shape[1] + 1):
        if visible(members[:, ends[-1] : end].reshape(-1)):
            ends.append(end)
    # The remaining levels join those before them.
    ends = [*ends[: max(len(ends) - 1, 1)], members.shape[1]]
    parts = (members[:, first:end].reshape(-1, *members.shape[2:]) for first, end in pairwise(ends))
    return [stratum for part in parts for stratum in _parts(part, visible)]


ARMS = 2
CellArray = NDArray[np.int32]


@dataclass(frozen=True)
class Grid:
    """The grid of cells: intervals until the horizon, kinds of events, groups and arms.

    ``between``: the ends of intervals of unequal lengths, the horizon last.
    ``strata``: the stratum of each combination of the levels of ``censoring.by``, where a subgroup has several; a group
    is then a stratum of a subgroup.
    ``entries``: whether people may enter after the start, so that an arm has J more cells.
    ``start``: the time at which the grid begins.
    """

    intervals: int
    kinds: int
    horizon: float
    groups: int = 1
    arms: int = ARMS
    # By keyword alone: types of these could be confused.
    _: KW_ONLY
    between: tuple[float, ...] = ()
    strata: tuple[int, ...] = ()
    entries: bool = False
    start: float = 0.0

    @property
    def numbers(self) -> int:
        """Number of cells of all arms of all groups."""
        return self.groups * self.arms * self.cells

    @property
    def cells(self) -> int:
        """Number of cells of an arm."""
        return self.exits + self.intervals * self.entries

    @property
    def exits(self) -> int:
        """Number of cells of an arm for the ends of follow-up; each person is in one of them."""
        return (self.kinds + 1) * self.intervals + 1

    @property
    def ends(self) -> FloatArray:
        """Ends of the intervals, shape (J,)."""
        if self.between:
            return np.array(self.between)
        return self.start + (self.horizon - self.start) * np.arange(1, self.intervals + 1) / self.intervals

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
        return tuple(first + stratum for first in range(0, self.groups, self.strata_of_group) for stratum in strata)

    def cell(self, arm: ByteArray, time: FloatArray, kind: ByteArray, group: ByteArray | None = None) -> CellArray:
        """Return each person's cell, numbered by group, then by arm, controls first.

        Args:
            arm: shape (n,), numbered from 0.
            time: shape (n,), finite.
            kind: shape (n,), 0 of censored people, else the number of the kind of event.
            group: shape (n,), the subgroup, or its combination of levels where it has strata; None: there is one.
                Ineligible people are in an extra last group, beyond the cells.
        """
        # 32 bits save memory in every pass over the people.
        cell = np.searchsorted(self.ends, time).astype(np.int32)
        at_end = self.ends[np.minimum(cell, self.intervals - 1)] == time
        cell += 1
        # Events come before losses of the same time: people lost at an interval's end were followed to it.
        cell += at_end & (kind == 0)
        late = (cell > self.intervals) | (time > self.horizon)
        np.clip(cell, 1, self.intervals, out=cell)
        first = np.array([self.kinds, *range(self.kinds)], dtype=np.int32) * self.intervals - 1
        cell += first[kind]
        cell[late] = self.exits - 1
        return self._among_all(cell, arm, group)

    def entered(self, arm: ByteArray, entry: FloatArray, group: ByteArray | None = None) -> CellArray:
        """Return the cell of each person's entry.

        People who entered at the start or before are beyond all cells; those who entered at an interval's end were at
        risk from the next on. Arguments as of ``cell``; no entry is at the horizon or after it.
        """
        cell = np.searchsorted(self.ends, entry, side="right").astype(np.int32)
        cell += np.int32(self.exits)
        cell = self._among_all(cell, arm, group)
        cell[entry <= self.start] = self.numbers
        return cell

    def _among_all(self, cell: CellArray, arm: ByteArray, group: ByteArray | None) -> CellArray:
        cell += arm.astype(np.int32) * np.int32(self.cells)
        if group is not None:
            place = np.array((*self.places, self.groups), dtype=np.int32)[group] if self.strata else group
            cell += place.astype(np.int32) * np.int32(self.arms * self.cells)
        return cell


# The least number at risk as a divisor.
LEAST = 1e-9
# Its square is negligible beside any count of people.
STEP = 1e-40
Curve = Callable[[Any], Any]


def events(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return events by kind and interval, shape (..., K, J)."""
    return cells[..., : grid.kinds * grid.intervals].reshape(*cells.shape[:-1], grid.kinds, grid.intervals)


def censored(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return those who were censored within each interval, shape (..., J)."""
    return cells[..., grid.kinds * grid.intervals : grid.exits - 1]


def late(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return those who entered within each interval, shape (..., J)."""
    return cells[..., grid.exits :] if grid.entries else np.zeros_like(cells[..., : grid.intervals])


def at_risk(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return people at risk where intervals begin, entered less gone before, shape (..., J)."""
    moved = events(cells, grid).sum(axis=-2) + censored(cells, grid)
    whole = cells[..., : grid.exits].sum(axis=-1, keepdims=True)
    if grid.entries:
        moved = moved - late(cells, grid)
        whole = whole - late(cells, grid).sum(axis=-1, keepdims=True)
    return np.asarray(whole - np.cumsum(moved, axis=-1) + moved)


def exposed(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return people at risk within intervals, of whom some entered late, shape (..., J)."""
    return np.asarray(at_risk(cells, grid) + late(cells, grid) / 2) if grid.entries else at_risk(cells, grid)


def not_lost(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return people who begin intervals and are not censored within them, shape (..., J)."""
    return np.asarray(at_risk(cells, grid) - censored(cells, grid))


def hazards(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return the hazard of each kind of event within each interval, shape (..., K, J).

    It is cut to [-1, 1]: noise may make numbers at risk negative, and no product of hazards may overflow.
    """
    among = exposed(cells, grid) - censored(cells, grid) / 2
    return np.clip(events(cells, grid) / np.maximum(among, LEAST)[..., None, :], -1, 1)


def survival(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return the chance of no event of any kind until each interval's end, shape (..., J)."""
    return np.cumprod(1 - hazards(cells, grid).sum(axis=-2), axis=-1)


def incidence(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return the cumulative incidence of each kind of event (Aalen-Johansen), shape (..., K, J)."""
    after = survival(cells, grid)
    before = np.concatenate([np.ones_like(after[..., :1]), after[..., :-1]], axis=-1)
    return np.cumsum(before[..., None, :] * hazards(cells, grid), axis=-1)


def risk(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return the chance of an event that counts until the horizon, shape (...)."""
    return incidence(cells, grid)[..., 0, -1]


def restricted_mean(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return the mean time without an event until the horizon, by trapezoids, shape (...)."""
    after = survival(cells, grid)
    before = np.concatenate([np.ones_like(after[..., :1]), after[..., :-1]], axis=-1)
    return np.asarray((before + after) / 2 @ np.diff(grid.ends, prepend=grid.start))


def still_followed(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return the share not censored until each interval's end: a survival curve of losses."""
    lost = censored(cells, grid)
    among = exposed(cells, grid) - events(cells, grid).sum(axis=-2) / 2
    return np.asarray(np.cumprod(1 - np.clip(lost / np.maximum(among, LEAST), 0, 1), axis=-1))


def spread_of_times(cells: FloatArray, grid: Grid) -> float:
    """Return the variance of the time without an event until the horizon, at tidied cells."""
    after = np.concatenate([[1.0], survival(cells, grid)])
    times = np.concatenate([[0.0], grid.ends - grid.start])
    return max(2 * float(np.trapezoid(times * after, times)) - float(restricted_mean(cells, grid)) ** 2, 0.0)


def gradient(function: Curve, cells: FloatArray) -> FloatArray:
    """Return the derivative by each cell, shape (cells, ...).

    It is exact up to rounding, by a step along the imaginary axis (Squire and Trapp 1998): f(x + i h) = f(x) + i h
    f'(x) + O(h^2) takes no difference of near numbers, however small a cell is. Clips compare real parts.
    """
    moved = np.asarray(cells + 1j * STEP * np.eye(len(cells)))
    return np.asarray(np.imag(function(moved)) / STEP)


def never_falling(values: FloatArray) -> FloatArray:
    """Return the nearest sequence that does not fall (pool adjacent violators)."""
    return np.asarray(isotonic_regression(values).x)


def tidied(cells: FloatArray, grid: Grid) -> FloatArray:
    """Return cells of an arm that real people could have.

    Cumulated counts never fall, and at least one person is at risk last. Variances are taken at these; estimates are
    not, since tidying has a bias.
    """
    total = max(float(cells[: grid.exits].sum()), 2.0)
    blocks = cells[: grid.exits - 1].reshape(grid.kinds + 1, grid.intervals)
    sums = [np.clip(never_falling(np.cumsum(block)), 0, total) for block in blocks]
    counts = np.concatenate([np.diff(cumulated, prepend=0.0) for cumulated in sums])
    counts = counts * min(1.0, (total - 1) / max(float(counts.sum()), LEAST))
    counts = np.append(counts, max(total - float(counts.sum()), 1.0))
    if not grid.entries:
        return counts
    # Of people at risk after an interval at least one was there before it: all others may have entered since.
    gone = counts[: grid.exits - 1].reshape(grid.kinds + 1, grid.intervals).sum(axis=0)
    behind = np.maximum(counts.sum() - np.cumsum(gone) - 1, 0.0)
    since = never_falling(np.cumsum(late(cells, grid)[::-1]))[::-1]
    return np.concatenate([counts, -np.diff(np.clip(since, 0, behind), append=0.0)])


def sampled(slopes: FloatArray, cells: FloatArray, grid: Grid) -> FloatArray:
    """Return the first-order sampling covariance of functions of an arm's cells, shape (m, m).

    Where people enter late it is Greenwood's: each interval's events are drawn from those at risk in it
    (``docs/proofs/survival.md``, section 14).

    Args:
        slopes: derivatives by the cells, shape (m, cells).
        cells: tidied, shape (cells,).
        grid: the grid.
    """
    if not grid.entries:
        return np.asarray((slopes * cells) @ slopes.T)
    # People who enter within an interval miss the contributions of all intervals before and of half of it.
    turn = (-1.0) ** np.arange(grid.intervals)
    added = 2 * turn * np.cumsum(turn * late(slopes, grid), axis=-1)
    each = (events(slopes, grid) + added[:, None, :]).reshape(len(slopes), -1)
    mean = np.diff(added, axis=-1, prepend=0.0)
    among = exposed(cells, grid) - censored(cells, grid) / 2
    return np.asarray((each * events(cells, grid).reshape(-1)) @ each.T - (mean * among) @ mean.T)


SLOT = Slot(name="cells", scope=Scope.all)
# Entries are multiples of 2^-BITS, so that sums over up to 2^35 people are exact in float64.
BITS = 18


def cells_mechanism(cost: PrivacyCost, entries: bool = False) -> Mechanism:
    """Return Gaussian noise for the square root of cells; without delta Laplace noise for cells.

    With late entries a person is in two cells.
    """
    if cost.delta > 0:
        far = Sensitivity(2.0, Norm.l2, "2") if entries else Sensitivity(math.sqrt(2), Norm.l2, "sqrt(2)")
        return vector_mechanism(far, cost)
    return Laplace(Sensitivity(4.0, Norm.l1, "4") if entries else Sensitivity(2.0, Norm.l1, "2"), cost)


@lru_cache(maxsize=16)
def _block(length: int) -> IntArray:
    """Return the square root of suffix sums, columns of length at most 1, in units of 2^-BITS.

    Raises:
        CausalveilError: a column is longer, which rounding towards 0 excludes.
    """
    entries = np.cumprod([1.0, *((2 * k - 1) / (2 * k) for k in range(1, length))])
    root = toeplitz(np.eye(1, length)[0], entries)
    whole: IntArray = np.trunc(root / np.linalg.norm(root, axis=0) * 2**BITS).astype(np.int64)
    if int((whole * whole).sum(axis=0).max()) > 4**BITS:
        raise CausalveilError("a column of the strategy is longer than 1; report this")
    return whole


@lru_cache(maxsize=16)
def strategy(grid: Grid, plain: bool) -> IntArray:
    """Return the map from an arm's cells to released numbers, in 2^-BITS, shape (cells, cells).

    Args:
        grid: the grid.
        plain: whether the cells themselves are released, with Laplace noise.
    """
    if plain:
        return np.eye(grid.cells, dtype=np.int64) << BITS
    blocks = [_block(grid.intervals)] * grid.kinds + [_block(grid.intervals + 1)]
    blocks += [_block(grid.intervals)] * grid.entries
    return np.asarray(block_diag(*blocks), dtype=np.int64)


def measured(counts: IntArray, grid: Grid, plain: bool) -> FloatArray:
    """Return exact numbers before noise, shape (numbers,), from counts of all arms and groups."""
    whole = counts.reshape(-1, grid.cells) @ strategy(grid, plain).T
    return np.asarray(whole.reshape(-1) / 2**BITS)


@dataclass(frozen=True)
class NoisyCells:
    """Released counts of the cells of both arms, with the covariance of their noise.

    Attributes:
        grid: the grid.
        counts: unbiased estimates, shape (2, cells), which add up to n if it is public; they may be negative.
        noise: the covariance of their noise, shape (2 cells, 2 cells).
    """

    grid: Grid
    counts: FloatArray
    noise: FloatArray

    def part(self, arm: int, second: int | None = None) -> FloatArray:
        """Return the covariance of noise of one arm's cells, or between them and a second arm's."""
        size = self.grid.cells
        second = arm if second is None else second
        return self.noise[arm * size : (arm + 1) * size, second * size : (second + 1) * size]


def read_blocks(released: FloatArray, grid: Grid, draw: Mechanism) -> tuple[FloatArray, FloatArray]:
    """Return unbiased counts by group, arm and cell, and the noise covariance of an arm's cells.

    Noise of arms and groups is independent and identically distributed.
    """
    plain = isinstance(draw, Laplace)
    back: FloatArray = np.linalg.inv(strategy(grid, plain) / 2**BITS)
    variance = draw.known_scale**2 * (2 if plain else 1)
    counts = (released.reshape(-1, grid.cells) @ back.T).reshape(grid.groups, grid.arms, grid.cells)
    return counts, back @ back.T * variance
