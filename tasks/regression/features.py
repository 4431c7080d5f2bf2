"""What the regression adjusts for: standardised columns of x, and their squares and products where they pay.

A row's features are cut to a length that few rows reach and divided by it, so that they lie in the unit ball.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from causalveil.schemas.study import CategoricalCovariate, EffectStudy
from causalveil.tasks.enclave.normalise import blocks, dimension, feature_names
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.lattice_sums import BITS
from causalveil.tasks.regression.scales import Scales

# Keeps a row that was cut in floats within the ball.
HAIR = 1 - 2.0**-40
# Standardised numbers are cut here before they are squared or multiplied, and squares are divided by their spread.
CURVE_CUT, CURVE_SPREAD = 2.5, 1.3


@dataclass(frozen=True)
class Columns:
    """Which columns of x enter, from the declared covariates alone.

    Attributes:
        covariates: p.
        encoded: columns of x without the intercept.
        kept: positions of the columns that enter. The first level of a category is the one that others are compared
            with: all levels add up to a constant.
        names: of the kept columns.
        numbers: places within ``kept`` of numbers, which have squares.
        owners: of which covariate each kept column is; products are of columns of different covariates.
    """

    covariates: int
    encoded: int
    kept: tuple[int, ...]
    names: tuple[str, ...]
    numbers: tuple[int, ...]
    owners: tuple[int, ...]

    @classmethod
    def of(cls, study: EffectStudy) -> Columns:
        """The columns of a study."""
        kept: list[int] = []
        owners: list[int] = []
        numbers: list[int] = []
        for owner, block in enumerate(blocks(study)):
            category = isinstance(block.covariate, CategoricalCovariate)
            if not category:
                numbers.append(len(kept))
            for offset in range(1 if category else 0, len(block.features)):
                kept.append(block.start + offset)
                owners.append(owner)
        names = feature_names(study)
        return cls(
            covariates=len(study.covariates),
            encoded=dimension(study) - 1,
            kept=tuple(kept),
            names=tuple(names[place] for place in kept),
            numbers=tuple(numbers),
            owners=tuple(owners),
        )

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of places within ``kept`` that have a product."""
        places = range(len(self.kept))
        return [(i, j) for i, j in combinations(places, 2) if self.owners[i] != self.owners[j]]

    def features(self, pairs: bool) -> int:
        """d, the number of features with or without squares and products."""
        if not pairs:
            return len(self.kept)
        alike = sum(math.comb(size, 2) for size in Counter(self.owners).values())
        return len(self.kept) + len(self.numbers) + math.comb(len(self.kept), 2) - alike


@dataclass(frozen=True)
class Features:
    """The features of a row: public functions of it and of what release 1 said.

    ``cut``: c; rows are cut to the length c sqrt(d), where standardised features have sqrt(d) on average.
    """

    columns: Columns
    scales: Scales
    pairs: bool
    cut: float

    @property
    def count(self) -> int:
        """d."""
        return self.columns.features(self.pairs)

    def of(self, x: FloatArray) -> FloatArray:
        """Features of rows x, shape (rows, d): in the unit ball, multiples of 2^-BITS.

        Each row depends on itself alone (``einsum``, not BLAS).
        """
        kept = list(self.columns.kept)
        z: FloatArray = (x[:, kept] - self.scales.centre[kept]) / self.scales.deviation[kept]
        if self.pairs:
            short = np.clip(z, -CURVE_CUT, CURVE_CUT)
            squares = (short[:, list(self.columns.numbers)] ** 2 - 1) / CURVE_SPREAD
            first, second = np.array(self.columns.pairs, dtype=np.int64).reshape(-1, 2).T
            z = np.concatenate([z, squares, short[:, first] * short[:, second]], axis=1)
        length = np.sqrt(np.einsum("ij,ij->i", z, z))
        scaled = z * (HAIR / np.maximum(length, self.cut * math.sqrt(self.count)))[:, None]
        step = 2.0**BITS
        rounded: FloatArray = np.trunc(scaled * step) / step
        return rounded
