"""A study by orthogonal regression adjustment: three joint releases on all units (``docs/proofs/regression.md``)."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from causalveil.schemas.privacy import Frozen, Level
from causalveil.schemas.study import EffectStudy, EstimatorSettings, Finite


class Unadjusted(Frozen):
    """The confounding that an estimate allows for where nothing can be adjusted for.

    The analyst's assumption about the index of the covariates that confounds: ``outcome``, the share of the outcome's
    variance within arms that it explains; ``distance``, by how many of its standard deviations within arms the arms'
    means of it differ. The interval then covers a bias of sqrt(outcome) distance standard deviations of the outcome.
    """

    outcome: Annotated[Finite, Field(ge=0, le=1)] = 0.5
    distance: Annotated[Finite, Field(ge=0, le=10)] = 1.0

    def bias(self, distance: float | None = None) -> float:
        """sqrt(outcome) distance: what is allowed for, in standard deviations of the outcome within arms.

        ``distance``: in place of the declared one, where more than it is left.
        """
        return math.sqrt(self.outcome) * (self.distance if distance is None else distance)


class RegressionEstimator(EstimatorSettings):
    """Outcome slopes and balancing weights from noisy moments, then one pair of orthogonal scores.

    ``trial``: treatment was randomised, so that nothing confounds and nothing needs to be allowed for. ``basis``:
    what the outcome may depend on: covariates, their squares too, their products, or cubes as well; ``auto``
    takes of these what pays by public sizes.
    """

    name: Literal["regression"]
    trial: bool = False
    basis: Literal["auto", "linear", "squares", "pairs", "cubes"] = "auto"
    unadjusted: Unadjusted = Unadjusted()


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
