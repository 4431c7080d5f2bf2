"""Cells of coarse covariates: units that agree in every covariate of few values.

Columns and products leave out what three covariates do together. Where covariates of few values have few combinations,
an indicator of each is a feature, so that whatever function of them outcomes follow is balanced as far as noise and
sampling error pay for it: exact matching's cells, in which nobody has to be left out. All of it is a function of public
columns. Derivation: ``docs/proofs/balancing.md``, section 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.study import EffectStudy
from causalveil.tasks.covariates.encoding import blocks
from causalveil.tasks.machine.arrays import ByteArray, FloatArray, IntArray

# A covariate is coarse with at most so many values, and at least so many rows of the sample to each.
MOST_VALUES, ROWS_A_VALUE = 16, 10
FIRST = 100
# There are no cells where there would be more; of fewer covariates products say all.
MOST_CELLS, FEWEST_COVARIATES = 128, 3


@dataclass(frozen=True)
class Cells:
    """How rows become indicators of cells; none where there are no cells.

    Attributes:
        places: the columns of x of each coarse covariate.
        values: the values of each in the sample, each shape (values, columns).
        kept: numbers of the combinations that the sample holds, ascending, shape (cells,).
    """

    places: tuple[slice, ...]
    values: tuple[FloatArray, ...]
    kept: IntArray

    @classmethod
    def of(cls, study: EffectStudy, x: FloatArray) -> Cells:
        """Find the cells of a sample of encoded covariates, shape (rows, d)."""
        places: list[slice] = []
        values: list[FloatArray] = []
        for block in blocks(study):
            place = slice(block.start, block.start + len(block.features))
            most = min(MOST_VALUES, len(x) // ROWS_A_VALUE)
            # The first rows of a number that is not coarse tell, and save sorting the others.
            if len(np.unique(x[:FIRST, place], axis=0)) > most:
                continue
            found: FloatArray = np.unique(x[:, place], axis=0)
            if 1 < len(found) <= most:
                places.append(place)
                values.append(found)
        none: IntArray = np.empty(0, dtype=np.int64)
        if len(places) < FEWEST_COVARIATES or math.prod(map(len, values)) > MOST_CELLS:
            return cls((), (), none)
        kept: IntArray = np.unique(cls(tuple(places), tuple(values), none).numbers(x))
        return cls(tuple(places), tuple(values), kept)

    @property
    def count(self) -> int:
        """Number of cells."""
        return len(self.kept)

    def numbers(self, x: FloatArray) -> IntArray:
        """The number of each row's combination, shape (rows,); a value that the sample lacks counts as the nearest."""
        found: IntArray = np.zeros(len(x), dtype=np.int64)
        for place, values in zip(self.places, self.values, strict=True):
            found *= len(values)
            found += np.abs(x[:, None, place] - values).sum(axis=2).argmin(axis=1)
        return found

    def __call__(self, x: FloatArray) -> FloatArray:
        """Indicators, shape (rows, cells)."""
        if not self.count:
            return np.empty((len(x), 0))
        found: FloatArray = (self.numbers(x)[:, None] == self.kept).astype(np.float64)
        return found


def spread(indicators: FloatArray, index: FloatArray, t: ByteArray) -> float:
    """Variance of the log odds of treatment between cells, beyond an index; 0 where nothing speaks for any.

    By moments, as DerSimonian and Laird (1986) do it between trials: with o_c treated of a cell beside e_c expected and
    v_c their variance under the index, E (o_c - e_c)^2 is about v_c + spread v_c^2.

    Args:
        indicators: shape (rows, cells).
        index: log odds of treatment without cells, shape (rows,).
        t: shape (rows,).
    """
    chance = 1 / (1 + np.exp(-np.clip(index, -500, 500)))
    off = (t - chance) @ indicators
    variances = (chance * (1 - chance)) @ indicators
    squares = float(variances @ variances)
    return max(float(off @ off - variances.sum()) / squares, 0.0) if squares > 0 else 0.0
