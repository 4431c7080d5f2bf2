"""A study by minimal-noise balancing weights.

Covariates and treatments public, outcomes private.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from causalveil.schemas.columns import Finite
from causalveil.schemas.privacy import Level
from causalveil.schemas.study import EstimatorSettings
from causalveil.schemas.table import EffectStudy


class BalancingEstimator(EstimatorSettings):
    """Weights that make the arms alike in public covariates.

    They do so at the least noise, sampling error and imbalance.

    ``trial``: treatment was randomised, so that imbalance is chance. ``allowance``: how much of what is left of the
    imbalance the interval allows for otherwise, in deviations of what covariates may explain of the outcome.
    """

    name: Literal["balancing"]
    trial: bool = False
    allowance: Annotated[Finite, Field(ge=0, le=10)] = 1.0

    def bias(self) -> float:
        """Return the factor on the imbalance that is allowed for."""
        return 0.0 if self.trial else self.allowance


class BalancingStudy(EffectStudy):
    """Treatment effects by balancing weights."""

    TABLES: ClassVar[tuple[Level, ...]] = (Level.label,)

    estimator: BalancingEstimator

    @model_validator(mode="after")
    def _public_columns(self) -> Self:
        if self.privacy.level is not Level.label:
            raise ValueError(
                "estimator 'balancing' needs public covariates and treatments: declare level 'label', or use estimator "
                "'regression'"
            )
        return self
