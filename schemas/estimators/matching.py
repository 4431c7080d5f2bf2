"""A study by capped nearest-neighbour matching (PrivATE: Yuan et al. 2026)."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from causalveil.schemas.columns import Finite
from causalveil.schemas.confounding import ConfoundingSettings
from causalveil.schemas.privacy import Amount, Frozen, Level, subtract
from causalveil.schemas.study import UNPROTECTED, Estimand, Penalty, Variant
from causalveil.schemas.table import EffectStudy

# The paper's c (label level) and h (sample level).
ERROR_COEFFICIENTS = {Level.label: 0.01, Level.sample: 0.001}


class BudgetShares(Frozen):
    """The division of epsilon at the sample level.

    It has weights of the propensity model, scores, treatment and outcome.
    """

    weights: Amount = Field(default=Decimal("0.05"))
    scores: Amount = Field(default=Decimal("0.05"))
    treatment: Amount = Field(default=Decimal("0.70"))
    outcome: Amount = Field(default=Decimal("0.20"))

    @model_validator(mode="after")
    def _whole(self) -> Self:
        shares = (self.weights, self.scores, self.treatment, self.outcome)
        if min(shares) <= 0:
            raise ValueError("every share must be above 0")
        if sum(shares) != 1:
            raise ValueError(f"the shares add up to {sum(shares)}, not to 1")
        return self

    def divide(self, epsilon: Decimal) -> dict[str, Decimal]:
        """Divide epsilon into four parts that add up to it exactly.

        Three are rounded to 13 digits, the rest is for ``outcome``.
        """
        step = Decimal(1).scaleb(epsilon.adjusted() - 12)
        parts = {name: (epsilon * getattr(self, name)) // step * step for name in ("weights", "scores", "treatment")}
        return {**parts, "outcome": subtract(epsilon, sum(parts.values(), Decimal(0)))}


class MatchingEstimator(ConfoundingSettings):
    """Each unit against the mean of its N nearest units of the other arm by propensity score.

    ``ratio``: N. ``cap``: how often a unit of the smaller arm may serve, in multiples of N; ``adaptive`` weighs noise
    against bias. ``error_coefficient``: the weight of the bias in that; None: 0.01 at label level, 0.001 at sample
    level. ``caliper``: the furthest that a neighbour's score may be. ``variance_share``: the part of the outcome's
    epsilon that measures the sampling variance. ``correct_attenuation``: divide by what randomised treatments leave;
    None: at sample level yes, but as printed in variant ``paper``. ``confounding_prior``: what private scores leave of
    confounding, allowed for at sample level in variant ``ours``. At label level how far the matched arms still differ
    in covariates is public and allowed for, unless its ``outcome_r2`` is 0.
    """

    name: Literal["matching"]
    ratio: Annotated[int, Field(ge=1, le=100)] = 5
    cap: Literal["adaptive"] | Annotated[int, Field(ge=1, le=10**6)] = "adaptive"
    error_coefficient: Annotated[Finite, Field(gt=0, le=100)] | None = None
    caliper: Annotated[Finite, Field(gt=0)] | None = None
    budget_shares: BudgetShares = BudgetShares()
    correct_attenuation: bool | None = None
    penalty: Penalty = 0.001
    variance_share: Annotated[Finite, Field(ge=0.01, le=0.9)] = 0.15
    variant: Variant = Variant.ours


class MatchingStudy(EffectStudy):
    """Treatment effects by matching, several on a public propensity score."""

    TABLES: ClassVar[tuple[Level, ...]] = (Level.label,)

    estimator: MatchingEstimator

    @model_validator(mode="after")
    def _has_a_mechanism(self) -> Self:
        level = self.privacy.level
        if level is Level.training_units:
            raise ValueError("matching has no level 'training_units': every unit's outcome is in the estimate")
        if level is Level.label and self.privacy.delta != 0:
            raise ValueError("matching spends no delta at level 'label'; declare delta: 0")
        if self.estimator.correct_attenuation and level is Level.label:
            raise ValueError("at level 'label' treatments are not randomised, so there is no attenuation to correct")
        if self.estimator.variant is not Variant.ours and not self.asks_one:
            raise ValueError("variant 'paper' answers one question; several are those of variant 'ours'")
        if len(self.arm_names) > 2:
            raise ValueError("matching compares two arms; several are compared by 'balancing' or 'regression'")
        return self

    @model_validator(mode="after")
    def _paper_is_as_printed(self) -> Self:
        settings = self.estimator
        if settings.variant is not Variant.paper:
            return self
        if self.estimand is not Estimand.ATE or settings.caliper is not None or settings.correct_attenuation:
            raise ValueError(
                "variant 'paper' is the average effect over all units (ATE) without caliper and without "
                "correct_attenuation; use variant 'ours' for these"
            )
        if self.privacy.delta != 0:
            raise ValueError("variant 'paper' spends no delta; declare delta: 0")
        return self

    @property
    def corrects_attenuation(self) -> bool:
        """Return whether the estimate is divided by what randomised treatments leave of the effect."""
        declared = self.estimator.correct_attenuation
        if declared is None:
            return self.leaves_confounding
        return declared

    @property
    def leaves_confounding(self) -> bool:
        """Return whether scores are private: what matching adjusts for is then unknown."""
        return self.privacy.level is Level.sample and self.estimator.variant is Variant.ours

    @property
    def error_coefficient(self) -> float:
        """The declared one, or the paper's for this level."""
        declared = self.estimator.error_coefficient
        return ERROR_COEFFICIENTS[self.privacy.level] if declared is None else declared

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Columns and results that the release does not protect, in words; printed with it."""
        if self.privacy.level is not Level.label or not self.asks_one:
            return super().unprotected
        return (
            *UNPROTECTED[Level.label],
            "caps, reuse, effective sample sizes and counts in this release: exact functions of those public columns",
        )
