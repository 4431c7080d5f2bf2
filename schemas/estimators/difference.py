"""A randomised trial by the difference of its arm means (the comparator of Guha & Reiter 2025)."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from causalveil.schemas.privacy import Level
from causalveil.schemas.study import PUBLIC_WEIGHTS, EffectStudy, Estimand, EstimatorSettings


class DifferenceEstimator(EstimatorSettings):
    """Plain arm means: no covariate is used, so treatment must have been randomised."""

    name: Literal["difference_in_means"]


class DifferenceStudy(EffectStudy):
    """A treatment effect by the difference of arm means."""

    estimator: DifferenceEstimator

    @model_validator(mode="after")
    def _provable(self) -> Self:
        if self.estimand is not Estimand.ATE:
            raise ValueError("estimator 'difference_in_means' estimates the ATE of a randomised trial")
        if self.privacy.level is Level.training_units:
            raise ValueError("estimator 'difference_in_means' trains nothing: level 'training_units' has no meaning")
        return self

    @property
    def unprotected(self) -> tuple[str, ...]:
        """What the release leaves public, in words."""
        return super().unprotected + ((PUBLIC_WEIGHTS,) if self.privacy.level is Level.label else ())
