"""A study by inverse probability weighting."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from causalveil.schemas.privacy import Level
from causalveil.schemas.study import Clip, EffectStudy, EstimatorSettings, Finite, Penalty, Variant


class Weighting(StrEnum):
    """Per-arm normalised (Hajek) or divided by the number of units (Horvitz-Thompson)."""

    hajek = "hajek"
    horvitz_thompson = "horvitz_thompson"


class IpwEstimator(EstimatorSettings):
    """Inverse probability weighting with a private propensity model (Lee et al. 2019a, 2019b)."""

    name: Literal["ipw"]
    weighting: Weighting = Weighting.hajek
    clip: Clip = (0.1, 0.9)
    train_fraction: Annotated[Finite, Field(gt=0, lt=1)] = 0.5
    penalty: Penalty = 0.1
    variant: Variant = Variant.ours


class IpwStudy(EffectStudy):
    """A treatment effect by inverse probability weighting."""

    estimator: IpwEstimator

    @model_validator(mode="after")
    def _paper_is_provable(self) -> Self:
        if self.estimator.variant is not Variant.paper:
            return self
        if self.estimator.weighting is not Weighting.horvitz_thompson:
            raise ValueError("variant 'paper' is defined for weighting 'horvitz_thompson' only")
        if self.privacy.level is Level.label:
            raise ValueError("variant 'paper' has no label level; use variant 'ours'")
        if not (self.privacy.epsilon < 1 and self.privacy.delta > 0):
            raise ValueError(
                "variant 'paper' calibrates noise by the classic Gaussian formula, which is only valid for "
                "epsilon < 1 and delta > 0; lower epsilon or use variant 'ours'"
            )
        return self

    @property
    def training_share(self) -> float | None:
        """The declared share; at label level the propensity model costs nothing, so every unit serves both."""
        return None if self.privacy.level is Level.label else self.estimator.train_fraction
