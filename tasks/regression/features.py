"""What the regression adjusts for: standardised columns of x, and their squares, products and cubes where they pay.

Columns are centred by what release 1 said of them. Products have means of their own, which a constant takes up where
there is little noise. A row's products and its other features are each cut to a length that few rows reach, and divided
by the root of the sum of both lengths' squares, so that they lie in the unit ball.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from causalveil.tasks.covariates.columns import Basis, Columns
from causalveil.tasks.covariates.narrow_ranges import NarrowRanges
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.models.bounded import bounded
from causalveil.tasks.models.lattice_sums import BITS
from causalveil.tasks.regression.scales import Scales
from causalveil.tasks.regression.skewed import CURVES_UNSEEN, Skewed, beyond, drowned, in_ranges

# Keeps a row that was cut in floats within the ball.
HAIR = 1 - 2.0**-40
# Standardised numbers are cut here before they are squared or multiplied, and squares are divided by their spread.
CURVE_CUT, CURVE_SPREAD = 2.5, 1.3
# Cubes are taken less so many times the number, which leaves little of its line in them: of a normal number, cut there,
# it would be 2.6, of one that is spread evenly 1.8. They are divided by their spread.
CUBE_LINE, CUBE_SPREAD = 2.2, 2.0
# No level is taken to be rarer; a deviation that noise hides is taken to be so much of the declared range.
RARE_LEVEL, TYPICAL = 1e-3, 0.125
# Rows whose features are made at a time: few enough for a processor's cache with products, and enough for a call.
BLOCK = 1_024


@dataclass(frozen=True)
class Features:
    """The features of a row: public functions of it and of what release 1 said.

    ``cut``: c; rows are cut to the length c sqrt(d), where standardised features have sqrt(d) on average. ``constant``:
    whether a constant stands last. ``bent``: whether skewed columns are taken by their logarithm, and what a line has
    beside it stands before the constant. ``by_arm``: the basis of whose features release 2 has moments by arm as well.
    """

    columns: Columns
    scales: Scales
    basis: Basis
    cut: float
    constant: bool = False
    bent: bool = False
    by_arm: Basis | None = None

    @cached_property
    def skewed(self) -> Skewed:
        """The columns that release 1 shows to be skewed."""
        return Skewed.of(self.scales, self.columns)

    @property
    def drowned(self) -> tuple[str, ...]:
        """Names of numbers whose range is so wide that noise hides how much they vary: lines of them are features."""
        skewed = self.skewed.places.tolist()
        places = (place for place in self.columns.curved if place in self.columns.lines_alone)
        return tuple(self.columns.names[place] for place in places if place not in skewed)

    @property
    def narrow(self) -> NarrowRanges:
        """Numbers whose declared ranges seem too narrow."""
        return NarrowRanges.of(in_ranges(self.scales, self.columns))

    @cached_property
    def count(self) -> int:
        """d."""
        return self.columns.features(self.basis) + self.constant + (self.skewed.count if self.bent else 0)

    @cached_property
    def lines(self) -> IntArray:
        """Places of all features but squares, products and cubes."""
        return self.places(Basis.linear)

    def places(self, basis: Basis) -> IntArray:
        """Places of the features of a basis no richer than its own, and of what stands behind them."""
        beside = np.arange(self.columns.features(self.basis), self.count)
        found: IntArray = np.concatenate([np.arange(self.columns.features(basis)), beside])
        return found

    @cached_property
    def arm_places(self) -> IntArray:
        """Places of the features whose moments release 2 has by arm as well: of all, of lines alone, or of none."""
        return np.arange(0) if self.by_arm is None else self.places(min(self.by_arm, self.basis))

    @cached_property
    def other_places(self) -> IntArray:
        """Places of all other features."""
        found: IntArray = np.setdiff1d(np.arange(self.count), self.arm_places)
        return found

    @property
    def arm_radius(self) -> float:
        """No row of these features alone is longer: lines and products are cut apart."""
        lines = len(self.lines) if self.by_arm is Basis.linear else self.count
        return math.sqrt(lines / self.count)

    @cached_property
    def variances(self) -> FloatArray:
        """Expected mean squares of the standardised features after every cut, from release 1 alone, shape (d,).

        1 but for numbers whose deviation noise hides, which are taken to have TYPICAL of the declared range or half of
        what noise leaves possible, and for columns of 0 and c: rare levels lie far out and are cut, with their products
        still more.
        """
        found, lines = np.ones(self.count), self.columns.features(Basis.linear)
        hidden = drowned(self.scales, self.columns)
        typical = TYPICAL * 2 * self.columns.span / self.scales.deviation[hidden]
        found[:lines][hidden] = np.minimum(typical, 0.5) ** 2
        flags = np.setdiff1d(np.arange(lines), self.columns.numbers)
        share = np.clip(self.scales.centre[flags] / self.columns.span, RARE_LEVEL, 1 - RARE_LEVEL)
        ends = np.sqrt(np.stack([(1 - share) / share, share / (1 - share)]))
        parts = np.stack([share, 1 - share])
        # A row's other lines have a square of 1 each.
        longest = self.cut * math.sqrt(len(self.lines))
        within = np.minimum(ends, longest * ends / np.sqrt(ends**2 + len(self.lines) - 1))
        found[flags] = np.sum(parts * within**2, axis=0)
        if self.basis > Basis.linear:
            short = found[:lines].copy()
            found[lines : lines + len(self.columns.squared)] = short[list(self.columns.squared)] ** 2
            short[flags] = np.sum(parts * np.minimum(ends, CURVE_CUT) ** 2, axis=0)
            place = lines + len(self.columns.squared)
            for first, start, stop in self.columns.runs(self.basis):
                found[place : place + stop - start] = short[first] * short[start:stop]
                place += stop - start
            if self.basis is Basis.cubes:
                # Of a number that hardly varies the cube is a line.
                found[place : place + len(self.columns.squared)] = short[list(self.columns.squared)]
        return found

    @cached_property
    def groups(self) -> list[slice | IntArray]:
        """Features that are cut to c times the root of their number together: products, and all others.

        Products of correlated columns are long where columns are; cut with them, lines would bend there.
        """
        first, last = self.columns.features(Basis.linear), self.columns.features(self.basis)
        return [slice(None)] if first == last else [self.lines, slice(first, last)]

    def unseen(self, apart: FloatArray) -> FloatArray:
        """What is left of a feature's confounding over what it shows: of skewed columns, and of narrow ranges; (d,).

        ``apart``: D, means of the features among treated less among controls, shape (d,).
        """
        found, lines = np.zeros(self.count), self.columns.features(Basis.linear)
        of_columns = apart[:lines] * self.radius * self.scales.deviation
        found[:lines] = beyond(self.scales, self.columns, of_columns)
        skewed = self.skewed.places
        found[skewed] = np.maximum(found[skewed], CURVES_UNSEEN if self.bent else self.skewed.unseen)
        if self.bent:
            first = self.columns.features(self.basis)
            found[first : first + self.skewed.count] = CURVES_UNSEEN
        return found

    @cached_property
    def radius(self) -> float:
        """Longer rows are cut to it."""
        return self.cut * math.sqrt(self.count)

    @property
    def shifts(self) -> FloatArray:
        """Standard deviation of what noise in the centres leaves of each feature's mean, shape (d,).

        A constant takes it up; that of other features is not known and small beside them.
        """
        found = np.zeros(self.count)
        if not self.constant:
            found[: len(self.columns.kept)] = self.scales.centre_error / self.scales.deviation / self.radius
        return found

    def of(self, x: FloatArray) -> FloatArray:
        """Features of rows x, shape (rows, d): in the unit ball, multiples of 2^-BITS.

        Each row depends on itself alone: blocks of one size, whose steps go along rows, add up in the same order for
        each (neither BLAS nor a last block of another shape).
        """
        found = np.empty((len(x), self.count))
        for first, block in self.blocks(x):
            found[first : first + block.shape[1]] = block.T
        return found

    def times(self, x: FloatArray, *vectors: FloatArray) -> list[FloatArray]:
        """The features of rows x by each vector of shape (d,): arrays of shape (rows,), each row's of that row alone.

        Block by block, since memory for all features of many rows would be taken afresh from the system each time.
        """
        found = [np.empty(len(x)) for _ in vectors]
        terms = np.empty((self.count, BLOCK))
        for first, rows, block in self._whole_blocks(x):
            for vector, products in zip(vectors, found, strict=True):
                # Feature after feature and not BLAS, so that a row's sum does not depend on where it stands.
                sums = np.add.reduce(np.multiply(block, vector[:, None], out=terms), axis=0)
                products[first : first + rows] = sums[:rows]
        return found

    def blocks(self, x: FloatArray) -> Iterator[tuple[int, FloatArray]]:
        """A first row and the features of rows from there, shape (d, at most BLOCK); the next ones overwrite them."""
        yield from ((first, block[:, :rows]) for first, rows, block in self._whole_blocks(x))

    def _whole_blocks(self, x: FloatArray) -> Iterator[tuple[int, int, FloatArray]]:
        """The same in blocks of one shape, and how many of their BLOCK rows count: others hold anything."""
        block, spare = np.zeros((self.count, BLOCK)), np.empty((self.count, BLOCK))
        x, runs = x[:, list(self.columns.kept)], self.columns.runs(self.basis)
        for first in range(0, len(x), BLOCK):
            rows = x[first : first + BLOCK]
            self._fill(rows, runs, block, spare)
            yield first, len(rows), block

    def _fill(self, x: FloatArray, runs: list[tuple[int, int, int]], block: FloatArray, spare: FloatArray) -> None:
        """The features of the kept columns of rows x, one a row of ``block``, shape (d, BLOCK), every step in place.

        ``runs``: of products, as the columns say them; ``spare``: memory of the same shape.
        """
        lines, last = self.columns.features(Basis.linear), self.columns.features(self.basis)
        z = block[:lines, : len(x)]
        np.subtract(x.T, self.scales.centre[:, None], out=z)
        z /= self.scales.deviation[:, None]
        if self.bent:
            logarithms, beside = self.skewed.curves(x)
            z[self.skewed.places] = logarithms.T
            block[last : last + self.skewed.count, : len(x)] = beside.T
        if self.basis > Basis.linear:
            short = np.clip(block[:lines], -CURVE_CUT, CURVE_CUT)
            place = lines + len(self.columns.squared)
            block[lines:place] = (short[list(self.columns.squared)] ** 2 - 1) / CURVE_SPREAD
            for first, start, stop in runs:
                np.multiply(short[first], short[start:stop], out=block[place : place + stop - start])
                place += stop - start
            if self.basis is Basis.cubes:
                curved = short[list(self.columns.squared)]
                block[place:last] = curved * (curved**2 - CUBE_LINE) / CUBE_SPREAD
        if self.constant:
            block[-1] = 1.0
        step = 2.0**BITS
        for places in self.groups:
            part = block[places]
            length = np.sqrt(np.add.reduce(np.multiply(part, part, out=spare[: len(part)]), axis=0))
            share = self.cut * math.sqrt(len(part)) / self.radius
            # Multiples of 2^-BITS: to scale by a power of two rounds nothing.
            part *= HAIR * step / np.maximum(length / share, self.radius)
            # A row of finite length has entries that are finite and no longer than it, so that they are cut already.
            cut = part if np.isfinite(length).all() else bounded(part / step) * step
            np.trunc(cut, out=cut)
            np.multiply(cut, 1 / step, out=cut)
            if not np.may_share_memory(cut, block):
                block[places] = cut
