"""The joint releases of a protocol by regression: what each draw costs, and how much noise each question sees.

Every subgroup has a block of its own in each release, and every outcome a part of each block. A row lies in one block,
so blocks cost nothing; outcomes are weighted by w_k, sum w_k^2 = 1, so that together they move as far as one does.
Proofs: ``docs/proofs/questions.md``, sections 1 to 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from causalveil.schemas.protocols.study import ProtocolStudy
from causalveil.tasks.covariates.columns import Basis, Columns
from causalveil.tasks.inference.assemble import Noise
from causalveil.tasks.models.lattice_sums import sums_sensitivity
from causalveil.tasks.privacy.mechanisms import Mechanism, Sensitivity, vector_mechanism
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.moments import SENSITIVITY, SENSITIVITY_BY_ARM, arm_factors, as_halves, moment_numbers
from causalveil.tasks.regression.recipe import RegressionRecipe
from causalveil.tasks.regression.scales import POWER_WEIGHT, Scales, column_numbers

# What the arms' numbers of release 1 have for squared sensitivity: in one block, and between blocks.
ONE_BLOCK, BLOCKS = 4.0, 6.0
# A column of 0 and c may move in two blocks at once.
LARGEST_WEIGHT = math.sqrt(2)
# What each covariate adds between blocks, in units of c^2, and what an eighth power adds to that.
A_COLUMN, EIGHTH_POWER = 4.0, 2 * POWER_WEIGHT**2


def joint_columns(columns: Columns, groups: int) -> Columns:
    """The columns with the weights that release 1 gives them where there are subgroups."""
    if groups == 1:
        return columns
    return replace(columns, weights=tuple(min(weight, LARGEST_WEIGHT) for weight in columns.weights))


@dataclass(frozen=True)
class JointRecipe:
    """Every draw of a protocol.

    Attributes:
        one: costs, columns and what to adjust for, as of a study of one question on all units.
        weights: w_k of the outcomes.
        groups: number of subgroups.
        arms: number of arms, the reference among them.
        all_counted: whether every unit lies in a subgroup, so that counts add up to what is public.
    """

    one: RegressionRecipe
    weights: tuple[float, ...]
    groups: int
    arms: int
    all_counted: bool = True

    @classmethod
    def of(cls, study: ProtocolStudy, one: RegressionRecipe) -> JointRecipe:
        """Of a study, with the decisions of ``one``."""
        groups = len(study.groups)
        one = replace(one, columns=joint_columns(one.columns, groups))
        return cls(one, study.weights, groups, len(study.arm_names), not study.where)

    @property
    def sides(self) -> int:
        """How many scores a unit's block has: two arms share one, of more each has its own."""
        return 1 if self.arms == 2 else self.arms

    @property
    def scale_numbers(self) -> int:
        """Numbers of a block of release 1: sums by arm and outcome, counts by arm, squares by outcome, covariates."""
        outcomes = len(self.weights)
        covariates = 0 if self.one.moments is None else column_numbers(self.one.columns)
        return self.arms * (outcomes + 1) + outcomes + covariates

    def moment_numbers(self, features: int, by_arm: int = 0) -> int:
        """Numbers of a block of release 2 with d features, ``by_arm`` of which are told apart by arm."""
        q, sides = len(self.weights), self.sides
        both = moment_numbers(features) + (q - 1) * (features + 1) + (sides - 1) * features
        return both + sides * (q * by_arm + by_arm * (by_arm + 1) // 2 + by_arm * (features - by_arm))

    @property
    def score_numbers(self) -> int:
        """Numbers of a block of release 3."""
        return 2 * len(self.weights) * self.sides

    def scales_mechanism(self) -> Mechanism:
        """Of sensitivity sqrt(4 + 4 p/(p + 1)), with subgroups sqrt(6 + (4 p + .72 h)/(p + 1)) (section 1).

        Of p covariates h have an eighth power, which is free within a block and not between two. A unit outside all
        subgroups moves it by half of the latter at most (section 8).
        """
        squared = ONE_BLOCK if self.groups == 1 else BLOCKS
        if self.one.moments is not None:
            squared += self._covariates_squared(between=self.groups > 1)
        return vector_mechanism(self._sums(self.scale_numbers, math.sqrt(squared)), self.one.scales)

    @property
    def count_noise(self) -> float:
        """On an arm's number of units, as if all its numbers were released: with fewer subgroups they may be."""
        mechanism, most = self.scales_mechanism(), BLOCKS + self._covariates_squared(between=True)
        return mechanism.known_scale * math.sqrt(most) / (mechanism.sensitivity.value or 1.0)

    def _covariates_squared(self, *, between: bool) -> float:
        """How far covariates move release 1, squared, within a block or between two."""
        columns = self.one.columns
        powers = EIGHTH_POWER * len(columns.eighth) if between else 0.0
        return (A_COLUMN * columns.covariates + powers) / (columns.covariates + 1)

    def moments_mechanism(self) -> Mechanism | None:
        """Of sensitivity sqrt(8), by arm 3 (section 2); None: nothing is adjusted for."""
        if self.one.moments is None:
            return None
        most, by_arm = self.one.columns.features(self.one.basis) + len(self.one.columns.unscaled) + 1, self.one.by_arm
        numbers = self.moment_numbers(most, most if by_arm else 0)
        return vector_mechanism(self._sums(numbers, SENSITIVITY_BY_ARM if by_arm else SENSITIVITY), self.one.moments)

    def effect_mechanism(self) -> Mechanism:
        """Of sensitivity 2 (section 3)."""
        return vector_mechanism(self._sums(self.score_numbers, 2.0), self.one.effect)

    def _sums(self, numbers: int, size: float) -> Sensitivity:
        return sums_sensitivity(self.groups * numbers, self.one.units, size)

    def cell(self, outcome: int, units: float) -> CellRecipe:
        """What one outcome in one subgroup of about ``units`` units looks like to the code of one question."""
        fields = {name: getattr(self.one, name) for name in RegressionRecipe.__dataclass_fields__}
        return CellRecipe(**fields | {"units": max(1, round(units))}, joint=self, weight=self.weights[outcome])


@dataclass(frozen=True)
class CellRecipe(RegressionRecipe):
    """A subgroup and an outcome as a study of one question: its own units, the noise of the joint releases.

    ``units`` is the subgroup's noisy number of units. Noise on what only this outcome has is divided by ``weight``.
    """

    joint: JointRecipe
    weight: float

    def scales_noise(self) -> float:
        """On each number of release 1 that all outcomes share."""
        return self.joint.scales_mechanism().known_scale

    def moments_noise(self, features: int, by_arm: int = 0) -> float:
        """On each number of release 2 that all outcomes share."""
        del features, by_arm
        mechanism = self.joint.moments_mechanism()
        return 0.0 if mechanism is None else mechanism.known_scale

    def features(self, scales: Scales) -> Features:
        """As of one question; lines alone are told apart by arm."""
        found = super().features(scales)
        return replace(found, by_arm=Basis.linear) if self.by_arm else found

    def arm_factors(self, features: Features) -> tuple[float, float]:
        """Lines lie in a ball of their own, whatever stands beside them (section 2)."""
        factors = arm_factors(features)
        return factors if self.joint.arms == 2 else as_halves(factors)

    def own_noise(self, noise: float) -> float:
        """On numbers that only this outcome has."""
        return noise / self.weight

    def effect_noise(self) -> Noise:
        """On this outcome's scores."""
        return Noise(self.joint.effect_mechanism().known_scale / self.weight)
