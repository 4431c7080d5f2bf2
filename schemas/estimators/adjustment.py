"""A study by covariate adjustment from noisy moments: five releases on all units (``docs/proofs/adjustment.md``)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from causalveil.schemas.amounts import Amount, add
from causalveil.schemas.privacy import Frozen, Level
from causalveil.schemas.study import EffectStudy, EstimatorSettings, Finite


class ConfoundingPrior(Frozen):
    """Confounding by the covariates that is expected before anything is released.

    The analyst's assumption: ``outcome_r2``, the share of the outcome's variance within arms that covariates explain;
    ``distance``, by how many of its standard deviations within arms the arms' means of the index differ that drives
    treatment. What the releases show takes its place; what noise hides keeps it.
    """

    outcome_r2: Annotated[Finite, Field(ge=0, le=1)] = 0.5
    distance: Annotated[Finite, Field(ge=0, le=10)] = 1.0


class BudgetParts(Frozen):
    """How the budget is divided: of mu^2 where there is a delta, else of epsilon; the parts add up to 1.

    Without ``screen`` and ``refit`` no curve is looked for; one of them alone has no use.
    """

    scales: Annotated[Amount, Field(gt=0)]
    lines: Annotated[Amount, Field(gt=0)]
    screen: Annotated[Amount, Field(ge=0)]
    refit: Annotated[Amount, Field(ge=0)]
    scores: Annotated[Amount, Field(gt=0)]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if add(self.scales, self.lines, self.screen, self.refit, self.scores) != 1:
            raise ValueError("parts must add up to 1")
        if (self.screen > 0) != (self.refit > 0):
            raise ValueError("parts: screen and refit are both above 0, or both 0")
        return self


class AdjustmentEstimator(EstimatorSettings):
    """Slopes and balancing weights from noisy moments, then one pair of orthogonal scores; one posterior reads all.

    ``trial``: treatment was randomised, so that nothing confounds. ``parts: auto`` divides by public sizes.
    """

    name: Literal["adjustment"]
    trial: bool = False
    confounding_prior: ConfoundingPrior = ConfoundingPrior()
    parts: Literal["auto"] | BudgetParts = "auto"


class AdjustmentStudy(EffectStudy):
    """A treatment effect by adjustment from noisy moments."""

    estimator: AdjustmentEstimator

    @model_validator(mode="after")
    def _provable(self) -> Self:
        if self.privacy.level is not Level.sample:
            raise ValueError(
                f"estimator 'adjustment' has no {self.privacy.level} level: every unit is in every release; "
                "use estimator 'ipw'"
            )
        return self
