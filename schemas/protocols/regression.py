"""What a protocol by regression asks of each outcome in each subgroup (``docs/proofs/regression.md``)."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from causalveil.schemas.estimators.confounding import ConfoundingPrior
from causalveil.schemas.privacy import Level
from causalveil.schemas.study import EffectStudy, EstimatorSettings


class RegressionEstimator(EstimatorSettings):
    """Outcome slopes and balancing weights from noisy moments, then one pair of orthogonal scores.

    ``trial``: treatment was randomised, so that nothing confounds and nothing needs to be allowed for. ``basis``:
    what the outcome may depend on: covariates, their squares too, their products, or cubes as well; ``auto``
    takes of these what pays by public sizes.
    """

    name: Literal["regression"]
    trial: bool = False
    basis: Literal["auto", "linear", "squares", "pairs", "cubes"] = "auto"
    confounding_prior: ConfoundingPrior = ConfoundingPrior()


class RegressionStudy(EffectStudy):
    """A treatment effect by regression adjustment."""

    estimator: RegressionEstimator

    @model_validator(mode="after")
    def _provable(self) -> Self:
        if self.privacy.level is not Level.sample:
            raise ValueError(
                f"estimator 'regression' has no {self.privacy.level} level: every unit is in every release; "
                "use estimator 'ipw'"
            )
        return self
