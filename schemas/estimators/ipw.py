"""A study by inverse probability weighting."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from causalveil.schemas.columns import Finite
from causalveil.schemas.confounding import ConfoundingSettings
from causalveil.schemas.privacy import Level
from causalveil.schemas.study import Clip, Penalty, Variant
from causalveil.schemas.table import EffectStudy


class Weighting(StrEnum):
    """Per-arm normalised (Hajek) or divided by the number of units (Horvitz-Thompson)."""

    hajek = "hajek"
    horvitz_thompson = "horvitz_thompson"


class IpwEstimator(ConfoundingSettings):
    """Inverse probability weighting with a private propensity model (Lee et al. 2019a, 2019b).

    ``confounding_prior``: what the model's penalty, its noise and the clip may leave of confounding. At label level
    scores are exact, and the imbalance that they leave is allowed for, unless its ``outcome_r2`` is 0.
    """

    name: Literal["ipw"]
    weighting: Weighting = Weighting.hajek
    clip: Clip = (0.1, 0.9)
    train_fraction: Annotated[Finite, Field(gt=0, lt=1)] = 0.5
    penalty: Penalty = 0.1
    variant: Variant = Variant.ours


# The penalty where none is declared and the fit costs nothing: it is there for a unique minimiser alone.
FREE_PENALTY = 1e-4


def with_free_penalty(document: Any) -> Any:
    """Return a study document with FREE_PENALTY, if it may have one, and others unchanged.

    It may if its propensity model is public and it declares no penalty.

    A larger penalty shrinks what adjusts for confounding. At other levels it buys less noise, here nothing.
    """
    if not isinstance(document, Mapping):
        return document
    estimator, privacy = document.get("estimator"), document.get("privacy")
    if not (isinstance(estimator, Mapping) and isinstance(privacy, Mapping)):
        return document
    if estimator.get("name") != "ipw" or privacy.get("level") != Level.label or "penalty" in estimator:
        return document
    return {**document, "estimator": {**estimator, "penalty": FREE_PENALTY}}


class IpwStudy(EffectStudy):
    """Treatment effects by inverse probability weighting, several by public scores."""

    TABLES: ClassVar[tuple[Level, ...]] = (Level.label,)

    estimator: IpwEstimator

    @model_validator(mode="before")
    @classmethod
    def _free_penalty(cls, document: Any) -> Any:
        return with_free_penalty(document)

    @model_validator(mode="after")
    def _of_two_arms(self) -> Self:
        if len(self.arm_names) > 2:
            raise ValueError("scores are of two arms; several are compared by 'balancing' or 'regression'")
        return self

    @model_validator(mode="after")
    def _weights_add_up(self) -> Self:
        if self.privacy.level is Level.label and self.estimator.weighting is not Weighting.hajek:
            raise ValueError("at level 'label' the weights of an arm add up to 1: leave 'weighting' out")
        return self

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
        """The share of units that train the propensity model, as declared.

        At label level that model costs nothing, so every unit serves both.
        """
        return None if self.privacy.level is Level.label else self.estimator.train_fraction
