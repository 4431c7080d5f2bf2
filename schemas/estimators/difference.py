"""The difference of arm means.

Of a randomised trial (the comparator of Guha & Reiter 2025), else unadjusted.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from causalveil.schemas.confounding import ConfoundingSettings
from causalveil.schemas.privacy import Level
from causalveil.schemas.study import Estimand
from causalveil.schemas.table import EffectStudy


class DifferenceEstimator(ConfoundingSettings):
    """Plain arm means: no covariate is used.

    ``trial``: treatment was randomised, so that nothing confounds. Otherwise the estimate says that it is unadjusted,
    and its interval allows for the confounding that ``confounding_prior`` declares.
    """

    name: Literal["difference_in_means"]


class DifferenceStudy(EffectStudy):
    """Treatment effects by differences of arm means, of a randomised trial or unadjusted."""

    ADJUSTS: ClassVar[bool] = False
    TABLES: ClassVar[tuple[Level, ...]] = (Level.sample, Level.label)
    ARM_MEANS: ClassVar[bool] = True
    TAKES_CLUSTERS: ClassVar[bool] = True
    TAKES_WEIGHTS: ClassVar[bool] = True

    estimator: DifferenceEstimator

    @model_validator(mode="after")
    def _provable(self) -> Self:
        if self.estimand is not Estimand.ATE:
            raise ValueError(
                "estimator 'difference_in_means' estimates the ATE, the effect over all units that it compares"
            )
        if self.privacy.level is Level.training_units:
            raise ValueError("estimator 'difference_in_means' trains nothing: level 'training_units' has no meaning")
        if self.gates is not None:
            raise ValueError("'gates' speak of covariates, which estimator 'difference_in_means' does not use")
        return self
