"""What the regression adjusts for: standardised columns of x, and their squares and products where they pay.

Columns are centred by what release 1 said of them. Products have means of their own, which a constant takes up where
there is little noise. A row's products and its other features are each cut to a length that few rows reach, and divided
by the root of the sum of both lengths' squares, so that they lie in the unit ball.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.models.bounded import bounded
from causalveil.tasks.models.lattice_sums import BITS
from causalveil.tasks.regression.columns import Columns
from causalveil.tasks.regression.scales import Scales
from causalveil.tasks.regression.skewed import CURVES_UNSEEN, Skewed, drowned

# Keeps a row that was cut in floats within the ball.
HAIR = 1 - 2.0**-40
# Standardised numbers are cut here before they are squared or multiplied, and squares are divided by their spread.
CURVE_CUT, CURVE_SPREAD = 2.5, 1.3


@dataclass(frozen=True)
class Features:
    """The features of a row: public functions of it and of what release 1 said.

    ``cut``: c; rows are cut to the length c sqrt(d), where standardised features have sqrt(d) on average. ``constant``:
    whether a constant stands last. ``bent``: whether skewed columns are taken by their logarithm, and what a line has
    beside it stands before the constant.
    """

    columns: Columns
    scales: Scales
    pairs: bool
    cut: float
    constant: bool = False
    bent: bool = False

    @cached_property
    def skewed(self) -> Skewed:
        """The columns that release 1 shows to be skewed."""
        return Skewed.of(self.scales, self.columns)

    @property
    def drowned(self) -> tuple[str, ...]:
        """Names of numbers without a declared scale whose range is so wide that noise hides how much they vary."""
        hidden = drowned(self.scales, self.columns)
        skewed = self.skewed.places.tolist()
        places = (place for place in self.columns.unscaled if place not in skewed)
        return tuple(self.columns.names[place] for place in places if hidden[place])

    @property
    def count(self) -> int:
        """d."""
        return self.columns.features(self.pairs) + self.constant + (self.skewed.count if self.bent else 0)

    @property
    def lines(self) -> IntArray:
        """Places of all features but squares and products."""
        beside = np.arange(self.columns.features(self.pairs), self.count)
        places: IntArray = np.concatenate([np.arange(self.columns.features(False)), beside])
        return places

    @property
    def groups(self) -> list[slice | IntArray]:
        """Features that are cut to c times the root of their number together: products, and all others.

        Products of correlated columns are long where columns are; cut with them, lines would bend there.
        """
        first, last = self.columns.features(False), self.columns.features(self.pairs)
        return [slice(None)] if first == last else [self.lines, slice(first, last)]

    @property
    def unseen(self) -> FloatArray:
        """What is left of a feature's confounding over what it shows, for skewed columns alone, shape (d,)."""
        found = np.zeros(self.count)
        found[self.skewed.places] = CURVES_UNSEEN if self.bent else self.skewed.unseen
        if self.bent:
            first = self.columns.features(self.pairs)
            found[first : first + self.skewed.count] = CURVES_UNSEEN
        return found

    @property
    def radius(self) -> float:
        """Longer rows are cut to it."""
        return self.cut * math.sqrt(self.count)

    @property
    def shifts(self) -> FloatArray:
        """Standard deviation of what noise in the centres leaves of each feature's mean, shape (d,).

        A constant takes it up; that of squares and products is not known and small beside them.
        """
        found = np.zeros(self.count)
        if not self.constant:
            found[: len(self.columns.kept)] = self.scales.centre_error / self.scales.deviation / self.radius
        return found

    def of(self, x: FloatArray) -> FloatArray:
        """Features of rows x, shape (rows, d): in the unit ball, multiples of 2^-BITS.

        Each row depends on itself alone (``einsum``, not BLAS).
        """
        x = x[:, list(self.columns.kept)]
        z: FloatArray = (x - self.scales.centre) / self.scales.deviation
        beside = np.empty((len(z), 0))
        if self.bent:
            z[:, self.skewed.places], beside = self.skewed.curves(x)
        if self.pairs:
            short = np.clip(z, -CURVE_CUT, CURVE_CUT)
            squares = (short[:, list(self.columns.curved)] ** 2 - 1) / CURVE_SPREAD
            first, second = np.array(self.columns.pairs, dtype=np.int64).reshape(-1, 2).T
            z = np.concatenate([z, squares, short[:, first] * short[:, second]], axis=1)
        z = np.concatenate([z, beside], axis=1)
        if self.constant:
            z = np.column_stack([z, np.ones(len(z))])
        scaled = np.empty_like(z)
        for places in self.groups:
            part = z[:, places]
            length = np.sqrt(np.einsum("ij,ij->i", part, part))
            share = self.cut * math.sqrt(part.shape[1]) / self.radius
            scaled[:, places] = part * (HAIR / np.maximum(length / share, self.radius))[:, None]
        step = 2.0**BITS
        rounded: FloatArray = np.trunc(bounded(scaled) * step) / step
        return rounded
