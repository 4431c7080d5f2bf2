"""What an AIPW study does with its budget: every draw, its mechanism and its charge, as the plan states them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from causalveil.schemas.privacy import Norm, PrivacyCost, Scope
from causalveil.tasks.covariates.narrow_ranges import NO_RANGES, DeclaredRanges
from causalveil.tasks.models.lattice_sums import lattice_exponent, sums_sensitivity
from causalveil.tasks.models.logistic import PropensityModel
from causalveil.tasks.privacy.mechanisms import Mechanism, Sensitivity, Slot, vector_mechanism

# Weight of the arms' means in the slopes' release: a larger one makes the noise of the cross moments larger.
MEANS_WEIGHT = 0.3
# Weight of the difference of the arms' second moments beside their sum.
APART_WEIGHT = 0.5
# Weight of what numbers leave of the squares that their declared ranges allow.
INSIDE_WEIGHT = 0.2

EFFECT = Slot(name="effect", scope=Scope.all)


@dataclass(frozen=True)
class Recipe:
    """Every draw of a study, and what is learnt by it.

    Attributes:
        folds: K.
        sizes: units of each fold; None while the number of units is unknown.
        columns: d, the columns of a row.
        radius: rows of covariates are cut to it in the outcome model.
        residuals: standard deviations at which residuals are cut while slopes are learnt.
        arms_cost: cost of one fold's arm sums.
        slopes_cost: cost of one fold's slopes; None: arm means only.
        propensity_cost: cost of one fold's propensity model; None: known, or the treated share among the arm sums.
        penalty: of the logistic model; None: a constant score.
        effect_cost: cost of the scores' sums.
        constant: in how many directions covariates never vary: the levels of each category sum to one.
        ranges: of numbers of more than two values, which may be too narrow; places are columns of x.
    """

    folds: int
    sizes: tuple[int, ...] | None
    columns: int
    radius: float
    residuals: float
    arms_cost: PrivacyCost
    slopes_cost: PrivacyCost | None
    propensity_cost: PrivacyCost | None
    penalty: float | None
    effect_cost: PrivacyCost
    constant: int = 0
    ranges: DeclaredRanges = NO_RANGES

    @property
    def known_sizes(self) -> tuple[int, ...]:
        """Units of each fold of a run.

        Raises:
            ValueError: the number of units is unknown.
        """
        if self.sizes is None:
            raise ValueError("this needs the number of units")
        return self.sizes

    def trained_on(self, fold: int) -> int:
        """Number of units outside ``fold``, in a run."""
        return sum(self.known_sizes) - self.known_sizes[fold]

    def trained_or_unknown(self, fold: int) -> int | None:
        """The same; None while the number of units is unknown."""
        return None if self.sizes is None else self.trained_on(fold)

    @property
    def gram(self) -> bool:
        """Whether second moments of the covariates are released with the slopes. Under pure epsilon noise grows with
        the number of entries, and only their trace is."""
        return self.slopes_cost is not None and self.slopes_cost.delta > 0

    @property
    def slope_numbers(self) -> int:
        """How many numbers the slopes' release has."""
        d = self.columns - 1
        return 4 * d + 2 + (d * (d + 1) + len(self.ranges.places) if self.gram else 1)

    def slot(self, name: str, fold: int) -> Slot:
        """Where a draw for one fold belongs: all other folds' units are read."""
        return Slot(f"{name}-{fold + 1}", Scope.without_fold(fold + 1, self.folds))

    def arm_sums_mechanism(self, fold: int) -> Mechanism:
        """Four numbers of sensitivity 2 (``docs/proofs/aipw.md``, section 1)."""
        return vector_mechanism(sums_sensitivity(4, self.trained_or_unknown(fold)), self.arms_cost)

    def slopes_mechanism(self, fold: int) -> Mechanism | None:
        """Cross moments, first and second moments, what lies within ranges (section 2); None: arm means only."""
        if self.slopes_cost is None:
            return None
        size, apart = 2 + MEANS_WEIGHT**2, APART_WEIGHT**2
        if self.gram:
            square = 3 + apart + 6 * MEANS_WEIGHT**2 + (1 - MEANS_WEIGHT**2) ** 2 / (1 + apart)
            size = math.sqrt(square + (INSIDE_WEIGHT**2 if self.ranges.places else 0.0))
        return vector_mechanism(
            sums_sensitivity(self.slope_numbers, self.trained_or_unknown(fold), size), self.slopes_cost
        )

    def propensity_model(self, fold: int) -> PropensityModel | None:
        """The logistic model; None: a constant score."""
        if self.propensity_cost is None or self.penalty is None:
            return None
        slot = self.slot("propensity", fold)
        return PropensityModel(self.penalty, self.columns, self.trained_or_unknown(fold), self.propensity_cost, slot)

    def treated_count_mechanism(self, fold: int) -> Mechanism | None:
        """The number of treated units, of sensitivity 1, where a study pays for a model that is a constant."""
        if self.propensity_cost is None or self.penalty is not None:
            return None
        bound = Sensitivity(None if self.trained_or_unknown(fold) is None else 1.0, Norm.l2, "1")
        return vector_mechanism(bound, self.propensity_cost)

    def effect_mechanism(self) -> Mechanism:
        """Scores and their squares, of sensitivity 2 (section 4)."""
        if self.sizes is None:
            return vector_mechanism(Sensitivity(None, Norm.l2, "2 + sqrt(2) 2^-G"), self.effect_cost)
        step = 2.0 ** -lattice_exponent(sum(self.sizes))
        value = (2 + math.sqrt(2) * step * (1 + 2.0**-10)) * (1 + 1e-12)
        return vector_mechanism(Sensitivity(value, Norm.l2, "2 + sqrt(2) 2^-G"), self.effect_cost)

    @property
    def rounding(self) -> float:
        """How far rounding scores to their lattice can move either of the released sums."""
        units = sum(self.known_sizes)
        return units * 2.0 ** -lattice_exponent(units) / 2
