"""What a regression study does with its budget: decided before a row is read, from public sizes alone.

Noise on the Gram matrix's eigenvalues over the mean one,

    rho = sqrt(2) s2 sqrt(d) c^2 d/n  at c = 1.25,

says what can be learnt: up to ADJUSTED the arms are adjusted for all d features, up to PARTLY the smaller eigenvalues
drown and what they hide is allowed for, beyond it nothing is adjusted for and the whole budget goes into arm means.
Squares, and products too, enter where rho stays below PAIRS with them, cubes where it stays below CUBES.
Derivation: ``docs/proofs/regression.md``, section 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Norm, PrivacyCost, Scope
from causalveil.schemas.protocols.regression import RegressionStudy
from causalveil.tasks.covariates.columns import Basis, Columns
from causalveil.tasks.inference.assemble import Noise
from causalveil.tasks.models.lattice_sums import sums_sensitivity
from causalveil.tasks.privacy.division import divide
from causalveil.tasks.privacy.mechanisms import Laplace, Mechanism, Sensitivity, Slot, vector_mechanism
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.moments import SENSITIVITY, SENSITIVITY_BY_ARM, arm_factors, moment_numbers
from causalveil.tasks.regression.scales import ARM_NUMBERS, Scales, column_numbers
from causalveil.tasks.regression.skewed import Skewed, drowned

# Shares of scales, moments and scores: of mu^2 where there is a delta, of epsilon without one. All later noise is a
# multiple of what release 1 says of spreads, which its own noise raises: where people or budget are few, it has more.
GAUSSIAN_SHARES = (Decimal("0.12"), Decimal("0.48"), Decimal("0.40"))
PURE_SHARES = (Decimal("0.15"), Decimal("0.55"), Decimal("0.30"))
GAUSSIAN_SHARES_OF_FEW = (Decimal("0.20"), Decimal("0.45"), Decimal("0.35"))
PURE_SHARES_OF_FEW = (Decimal("0.25"), Decimal("0.50"), Decimal("0.25"))
# Share of the scales where nothing is adjusted for: scores are cut at a multiple of the spread, which noise raises, so
# little of it costs more in the scores than it saves.
ARMS_SHARE = Decimal("0.25")
ADJUSTED, PARTLY, PAIRS = 0.7, 2.5, 0.6
# With squares alone rho of the lines beside them has to stay below this, and rho^2 sqrt(n) below the second: what noise
# does to slopes and weights together is about rho^2, what sampling does 1/sqrt(n).
BESIDE, BESIDE_SAMPLING = 0.2, 7.0
# Rows are cut at c sqrt(d): c is larger where there is little noise, up to the second number.
CUTS = (1.25, 2.0)
# Rows with products are cut so much further out.
PAIRS_CUT = 1.2
# A constant stands beside products where rho is below this: with more noise it costs more than their means do harm.
CONSTANT = 0.03
# Cubes enter below this: where intervals are so narrow that what products leave can be wider than they.
CUBES = 0.1
# Skewed columns have two features each, with a constant, where rho is below this with them; with products too below
# the second.
BENT, BENT_PAIRS = 0.3, 0.1
# The wider cut is for rho below this.
QUIET = 0.12
# Noise on the arms' distance, in deviations of a feature times sqrt(d), that an adjustment bears.
RARE = 0.5
# |v| + |v^2| of two scores differ by at most 3a - a^2 <= 2.25 in the L1 norm, a = |v - v'|.
PAIR_L1 = 2.25

SCALES = Slot(name="scales", scope=Scope.all)
MOMENTS = Slot(name="moments", scope=Scope.all)
EFFECT = Slot(name="effect", scope=Scope.all)


@dataclass(frozen=True)
class RegressionRecipe:
    """Every draw of a study, and what it is for.

    Attributes:
        units: n; None while it is unknown.
        columns: of the covariates.
        scales: cost of release 1.
        moments: cost of release 2; None: nothing is adjusted for.
        effect: cost of release 3.
        basis: the richest that may enter, if the arms' sizes allow it.
        partly: whether the smaller eigenvalues are expected to drown.
        by_arm: whether release 2 may tell the arms apart, so that each may have slopes and weights of its own.
    """

    units: int | None
    columns: Columns
    scales: PrivacyCost
    moments: PrivacyCost | None
    effect: PrivacyCost
    basis: Basis
    partly: bool
    by_arm: bool

    def scales_mechanism(self) -> Mechanism:
        """Of sensitivity sqrt(4 + 4 p/(p + 1)), or 2 for the arms alone (section 1)."""
        p = self.columns.covariates
        size = 2.0 if self.moments is None else math.sqrt(4 + 4 * p / (p + 1))
        return vector_mechanism(sums_sensitivity(self.scale_numbers, self.units, size), self.scales)

    @property
    def scale_numbers(self) -> int:
        """How many numbers release 1 has."""
        return ARM_NUMBERS if self.moments is None else ARM_NUMBERS + column_numbers(self.columns)

    def moments_mechanism(self) -> Mechanism | None:
        """Of sensitivity sqrt(8), by arm 3 (section 2), and rounding for as many numbers as there may be."""
        if self.moments is None:
            return None
        most = self.columns.features(self.basis) + len(self.columns.unscaled) + 1
        numbers = moment_numbers(most, most if self.by_arm else 0)
        size = SENSITIVITY_BY_ARM if self.by_arm else SENSITIVITY
        return vector_mechanism(sums_sensitivity(numbers, self.units, size), self.moments)

    def effect_mechanism(self) -> Mechanism:
        """A pair: of sensitivity 2 in the L2, 2.25 in the L1 norm (section 3)."""
        if self.effect.delta > 0:
            return vector_mechanism(sums_sensitivity(2, self.units), self.effect)
        rounded = sums_sensitivity(4, self.units, PAIR_L1)
        return Laplace(Sensitivity(rounded.value, Norm.l1, rounded.formula), self.effect)

    def scales_noise(self) -> float:
        """Standard deviation of the noise on each number of release 1."""
        return Noise.of(self.scales_mechanism(), self.scale_numbers).deviation

    def moments_noise(self, features: int, by_arm: int = 0) -> float:
        """Standard deviation of the noise on each number of release 2 with d features, so many by arm; 0 for none."""
        return Noise.of(self.moments_mechanism(), moment_numbers(features, by_arm)).deviation

    def arm_factors(self, features: Features) -> tuple[float, float]:
        """By what the arms' differences are multiplied: of cross moments, and of Gram matrices."""
        return arm_factors(features)

    def own_noise(self, noise: float) -> float:
        """``noise`` on numbers that only this outcome has: here there is no other."""
        return noise

    def effect_noise(self) -> Noise:
        """Noise on each number of release 3."""
        mechanism = self.effect_mechanism()
        noise = Noise.of(mechanism, 1)
        # One number's Laplace noise is L2-Laplace noise in one dimension.
        return Noise(noise.scale, 1.0) if isinstance(mechanism, Laplace) else noise

    def features(self, scales: Scales) -> Features:
        """The richest basis that the smaller arm bears too; no cubes where columns are skewed."""
        columns = self.seen_in(scales)
        bases = [
            basis
            for basis in columns.bases(self.basis)
            if basis is Basis.linear or self.bears(scales, columns.features(basis), CUTS[0])
        ]
        skewed = Skewed.of(scales, columns).count
        if skewed:
            # Skewed columns have curves of their own, beside which noise hides cubes.
            bases = [basis for basis in bases if basis is not Basis.cubes]
        for basis in bases if skewed else []:
            count = columns.features(basis) + skewed + 1
            most = BENT if basis is Basis.linear else BENT_PAIRS
            if self.noise_ratio(count) <= most and self.bears(scales, count, CUTS[0]):
                return Features(columns, scales, basis, self.cut(count, long=True), constant=True, bent=True)
        features = columns.features(bases[0])
        constant = bases[0] > Basis.linear and self.noise_ratio(features) <= CONSTANT
        cut = self.cut(features, long=bases[0] >= Basis.pairs)
        return Features(columns, scales, bases[0], cut, constant)

    def seen_in(self, scales: Scales) -> Columns:
        """The columns that are features: all but those of which hardly anybody has one of two values.

        Of a number whose deviation noise hides a line alone: its square is a constant, which moves the arms' means.
        """
        columns = self.columns.without(scales.rare)
        return columns.by_lines_alone(np.flatnonzero(drowned(scales, columns)).tolist())

    def bears(self, scales: Scales, features: int, cut: float) -> bool:
        """Whether noise on the arms' distance leaves something to adjust by."""
        if self.units is None or self.moments is None:
            return False
        error = self.moments_noise(features) * scales.larger / (self.units * scales.between)
        return error * cut * features <= RARE

    def cut(self, features: int, long: bool = False) -> float:
        """c of rows with d features; ``long``: products or curves are among them, whose rows a cut would bend."""
        narrow = min(max(CUTS[0] * math.sqrt(QUIET / self.noise_ratio(features)), CUTS[0]), CUTS[1])
        return PAIRS_CUT * narrow if long else narrow

    def allows(self, basis: Basis) -> bool:
        """Whether noise is small enough for a basis.

        Each column has less of a row that holds squares too. Where these are left out again, as of correlated columns,
        that is all that they bring, so lines have to bear it. Products enter where noise is so small that they do.
        """
        if basis is Basis.linear:
            return True
        features = self.columns.features(basis)
        if basis is Basis.squares:
            beside = self.noise_ratio(features, self.columns.features(Basis.linear))
            if beside > BESIDE or beside**2 * math.sqrt(self.units or 0) > BESIDE_SAMPLING:
                return False
        return self.noise_ratio(features) <= (CUBES if basis is Basis.cubes else PAIRS)

    def noise_ratio(self, features: int, of: int | None = None) -> float:
        """rho of d features; infinite where there is no release 2. ``of``: of so many among them alone."""
        if self.moments is None:
            return math.inf
        if self.units is None:
            return 0.0
        noise = math.sqrt(2) * self.moments_noise(features) * CUTS[0] ** 2 * features / self.units
        return noise * math.sqrt(features if of is None else of)


Judged = Callable[[RegressionRecipe], RegressionRecipe]


def itself(recipe: RegressionRecipe) -> RegressionRecipe:
    """By what a recipe of one question is judged."""
    return recipe


def full_recipe(
    study: RegressionStudy, sizes: Sizes | None, judged: Judged = itself, few: bool = False
) -> RegressionRecipe:
    """Three releases. A study whose number of units is unknown is taken for a large one.

    Args:
        study: the study.
        sizes: its sizes.
        judged: as for :func:`~causalveil.tasks.regression.decide.recipe`.
        few: whether the shares are those of few people, or little budget.

    Raises:
        StudyError: a budget of so many digits that it cannot be divided exactly.
    """
    total, columns = study.privacy.cost, Columns.of(study)
    shares = dict(zip(("scales", "moments", "effect"), _shares(total, few), strict=True))
    units = None if sizes is None else sizes.units
    costs = divide(total, shares)
    full = RegressionRecipe(units, columns, **costs, basis=Basis.linear, partly=False, by_arm=False)
    if study.estimator.basis == "auto":
        basis = next(basis for basis in columns.bases(max(Basis)) if judged(full).allows(basis))
    else:
        basis = columns.bases(Basis[study.estimator.basis])[0]
    return replace(full, basis=basis, partly=judged(full).noise_ratio(columns.features(Basis.linear)) > ADJUSTED)


def arms_recipe(study: RegressionStudy, sizes: Sizes, judged: Judged = itself) -> RegressionRecipe:
    """Arms and scores alone: nothing is adjusted for.

    ``judged``: as for :func:`full_recipe`. In a protocol the arms have what they would have beside moments: how many
    subgroups a budget serves must not depend on whether it adjusts.

    Raises:
        StudyError: a budget of so many digits that it cannot be divided exactly.
    """
    total = study.privacy.cost
    first = ARMS_SHARE if judged is itself else _shares(total, few=False)[0]
    costs = divide(total, {"scales": first, "effect": 1 - first})
    return RegressionRecipe(
        sizes.units, Columns.of(study), **costs, moments=None, basis=Basis.linear, partly=False, by_arm=False
    )


def _shares(total: PrivacyCost, few: bool) -> tuple[Decimal, Decimal, Decimal]:
    if total.delta > 0:
        return GAUSSIAN_SHARES_OF_FEW if few else GAUSSIAN_SHARES
    return PURE_SHARES_OF_FEW if few else PURE_SHARES
