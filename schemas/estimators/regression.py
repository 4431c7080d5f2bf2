"""A study by covariate adjustment from noisy moments.

Five releases on all units (``docs/proofs/regression.md``).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from causalveil.schemas.confounding import ConfoundingPrior
from causalveil.schemas.privacy import Amount, Frozen, Level, add
from causalveil.schemas.study import EffectStudy, EstimatorSettings


class BudgetParts(Frozen):
    """Parts of the budget by release, of mu^2 where there is a delta, else of epsilon.

    They add up to 1. Without ``screen`` and ``refit`` no curve is looked for; one of them alone has no use.
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


class RegressionEstimator(EstimatorSettings):
    """Slopes and balancing weights from noisy moments, then one pair of orthogonal scores.

    One posterior reads all.

    ``trial``: treatment was randomised, so that nothing confounds. ``curves``: squares, steps and products are adjusted
    for where a release shows them, or ``none`` is looked for. ``parts: auto`` divides the budget by public sizes.
    """

    name: Literal["regression"]
    trial: bool = False
    confounding_prior: ConfoundingPrior = ConfoundingPrior()
    curves: Literal["auto", "none"] = "auto"
    parts: Literal["auto"] | BudgetParts = "auto"

    @model_validator(mode="after")
    def _no_curves_without_their_parts(self) -> Self:
        if self.curves == "none" and self.parts != "auto" and self.parts.screen > 0:
            raise ValueError("'curves: none' looks for no curve: parts.screen and parts.refit must be 0")
        return self


class RegressionStudy(EffectStudy):
    """A treatment effect by adjustment from noisy moments."""

    TAKES_CLUSTERS: ClassVar[bool] = True

    estimator: RegressionEstimator

    @model_validator(mode="after")
    def _provable(self) -> Self:
        if self.privacy.level is not Level.sample:
            raise ValueError(
                f"estimator 'regression' has no {self.privacy.level} level: every unit is in every release; "
                "use estimator 'ipw'"
            )
        return self
