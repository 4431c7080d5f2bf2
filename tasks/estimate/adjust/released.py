"""Hold what the five releases say: noisy means, and deviations of their noise.

Every field is public. Rows are made of encoded columns z: a number in [-1, 1] by its declared range, 0 where missing;
an indicator in {0, 1} for a category of two levels, for each level of a larger one, and for a number that is missing.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any

import numpy as np

from causalveil.schemas.columns import NumericCovariate
from causalveil.schemas.terms import TermFactor
from causalveil.tasks.machine.arrays import FloatArray

# Of Monte Carlo draws, which are post-processing and protect nothing.
RandomDraws = np.random.Generator
# Edges of a histogram's cells: twelfths of half the range, and halves again and again towards both ends.
_OUTER = 1 - np.unique(np.concatenate([2.0 ** -np.arange(8), np.arange(12) / 12]))
EDGES: FloatArray = np.unique(np.concatenate([-_OUTER, _OUTER, [-1.0, 1.0]]).round(12))
CELLS = len(EDGES) - 1


class ColumnKind(StrEnum):
    """The kind of an encoded column."""

    number = "number"
    flag = "flag"
    level = "level"
    missing = "missing"
    term = "term"


@dataclass(frozen=True)
class TermPart:
    """A function of one column z, of which a declared term is made.

    ``covariate``: of a number, else None. ``basis``: which column of a spline.
    """

    column: int
    factor: TermFactor
    covariate: NumericCovariate | None = None
    basis: int = 0


@dataclass(frozen=True)
class EncodedColumn:
    """An encoded column: its name, its covariate's place and its kind.

    ``from_zero``: whether its declared range starts at 0. ``parts``: of a declared term, which is made of other columns
    and so has none of its own in a row.
    """

    name: str
    covariate: int
    kind: ColumnKind
    from_zero: bool = False
    parts: tuple[TermPart, ...] = ()


@dataclass(frozen=True)
class Prior:
    """Confounding that is expected before anything is seen.

    ``outcome_r2``: the share of the outcome's variance within arms that covariates explain; ``distance``: by how many
    of its standard deviations within arms the arms' means of the index of treatment differ.
    """

    outcome_r2: float = 0.5
    distance: float = 1.0

    @property
    def bias(self) -> float:
        """The bias of it, in standard deviations of the outcome within arms."""
        return math.sqrt(self.outcome_r2) * self.distance


@dataclass(frozen=True)
class Public:
    """Public facts of a study, known before a row is read.

    Attributes:
        units: n.
        columns: the encoded columns z, and after them the declared terms.
        estimand: "ATE", "ATT" or "ATC"; "ARM": the mean of the treated's outcomes over everybody, of which only the
            treated have scores.
        trial: whether treatment was randomised.
        prior: confounding that is expected.
        mu: of all releases together, as Gaussian differential privacy counts; epsilon where ``pure``.
        pure: whether there is no delta.
        asked: parts of the budget that the study asks for, in the order of releases.
        weight: by what the noise on numbers of this outcome alone is divided; below 1 where others share its budget.
        scores_weight: the same of release 5.
        blocks: as many numbers as those of so many questions share L2-Laplace noise, where ``pure``.
        stated: whether the study declares its non-linear terms, so that nothing is allowed for others.
        tilted: whether cuts of scores allow for weights that are larger where the outcome is far out, as those of rare
            events are; else they are taken to be independent.
        effective: as many units of equal weight as tell as much, where they have survey weights: n is then the sum of
            these.
    """

    units: int
    columns: tuple[EncodedColumn, ...]
    estimand: str = "ATE"
    trial: bool = False
    prior: Prior = Prior()
    mu: float = 1.0
    pure: bool = False
    asked: tuple[Decimal, ...] | None = None
    weight: float = 1.0
    scores_weight: float = 1.0
    blocks: int = 1
    tilted: bool = False
    stated: bool = False
    effective: float | None = None

    @property
    def effective_units(self) -> float:
        """Effective sample size: all units, or (sum a)^2/sum a^2 of survey weights a."""
        return self.units if self.effective is None else self.effective

    @property
    def terms(self) -> tuple[int, ...]:
        """Places of the declared terms among the columns."""
        return tuple(place for place, column in enumerate(self.columns) if column.kind is ColumnKind.term)

    @property
    def encoded(self) -> tuple[EncodedColumn, ...]:
        """The columns that rows have: all but declared terms."""
        return self.columns[: len(self.columns) - len(self.terms)]


@dataclass(frozen=True)
class ReleasedScales:
    """Release 1, over n.

    Attributes:
        arms: means of (t u, (1 - t) u, t, u^2), shape (4,).
        arms_sd: of the noise on each, shape (4,).
        outcome: share of the units with u in each cell between EDGES, shape (CELLS,); the first cell has -1 as well.
        columns: of each encoded column: these of a number that is not missing, else its one share.
        cells_sd: of the noise on each share, by column, and the outcome's last, shape (columns + 1,).
    """

    arms: FloatArray
    arms_sd: FloatArray
    outcome: FloatArray
    columns: tuple[FloatArray, ...]
    cells_sd: FloatArray


@dataclass(frozen=True)
class ReleasedMoments:
    """Releases 2 and 4: means over n, by rows x in the unit ball.

    The first entry of x is the constant. rho = (u - m_t)/limit and tau = (t - p)/max(p, 1 - p), cut to [-1, 1]; s = 1
    for treated, -1 for controls. What was not released is 0 with infinite ``*_sd``. Diagonals of symmetric matrices
    have sqrt(2) times their ``*_sd``.

    Attributes:
        cross, apart, arm_cross: means of x rho, x tau and s x rho, shape (k,).
        gram, arm_gram: means of x x' and s x x', shape (k, k).
        square: mean of rho^2.
    """

    cross: FloatArray
    cross_sd: float
    apart: FloatArray
    apart_sd: float
    square: float
    square_sd: float
    gram: FloatArray
    gram_sd: float
    arm_cross: FloatArray
    arm_cross_sd: float
    arm_gram: FloatArray
    arm_gram_sd: float

    def leading(self, features: int) -> ReleasedMoments:
        """Return the moments of the constant and of the first features alone."""
        k = features + 1
        return replace(
            self,
            cross=self.cross[:k],
            apart=self.apart[:k],
            gram=self.gram[:k, :k],
            arm_cross=self.arm_cross[:k],
            arm_gram=self.arm_gram[:k, :k],
        )


@dataclass(frozen=True)
class ReleasedScreen:
    """Release 3: means over n of c r and c a, shape (m,) each.

    c is the candidates' row in the unit ball. ``outcome_sd``: of the noise on ``outcome`` where it is not ``sd``.
    """

    outcome: FloatArray
    treatment: FloatArray
    sd: float
    outcome_sd: float | None = None


@dataclass(frozen=True)
class ReleasedScores:
    """Release 5: means over n of v and of v^2.

    ``mixing``: None where noise is normal; else noise is normal of a random variance, sqrt(2 Gamma(mixing)) ``scale``.
    ``square_sd``: of the noise on ``square`` where it is not ``sd``.
    """

    mean: float
    square: float
    sd: float
    scale: float
    mixing: float | None = None
    square_sd: float | None = None


@dataclass(frozen=True)
class ReleasedProducts(ReleasedScores):
    """Release 5 with means over n of the products of v with that of each outcome.

    ``errors``: deviations of the noise on them.
    """

    products: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()


def generator(label: str, *released: Any) -> RandomDraws:
    """Return the generator of Monte Carlo draws, seeded by released numbers.

    The same numbers have the same draws. Such draws are post-processing and protect nothing.
    """
    digest = hashlib.blake2b(label.encode(), digest_size=16)
    for release in released:
        for field in fields(release):
            value = getattr(release, field.name)
            for part in value if isinstance(value, tuple) else (value,):
                if part is not None:
                    digest.update(np.ascontiguousarray(part, dtype=np.float64).tobytes())
    return np.random.default_rng(int.from_bytes(digest.digest()))
