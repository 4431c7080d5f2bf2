"""Ask for augmented inverse probability weighting with cross-fitting, as its paper has it.

Its interval is that of Schröder, Hartenstein and Feuerriegel (2025), as printed, whose guarantee is asymptotic. A
release must say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from causalveil.schemas.columns import CLIP_MARGIN, Finite
from causalveil.schemas.documents import RuleBroken
from causalveil.schemas.privacy import Amount, Frozen, Guarantee, Level
from causalveil.schemas.study import Clip, Estimand, EstimatorSettings
from causalveil.schemas.table import EffectStudy

# The headline of such a release.
NO_GUARANTEE = "No privacy guarantee but in the limit of many units: exact numbers of the data are printed."
# Read after "Not protected: ".
CAVEATS = (
    "any unit, at this number of units: the guarantee is asymptotic (Avella-Medina's bound on the smooth sensitivity; "
    "the paper's Lemma 4.2)",
    "any unit, if the search for the largest sensitivity missed it: it ran from 10 starts, without a certificate",
    "what the width of the interval reveals: it is made of numbers of the data without noise",
)
# What a study is told that asks for another guarantee.
ASYMPTOTIC_ALONE = (
    "estimator 'aipw' has no guarantee but 'asymptotic'; write {name: regression, trial: true} or "
    "{name: difference_in_means, trial: true} in a trial, {name: regression} elsewhere"
)

# Of a closed registry of installed code, never an import path: a study file travels.
ModelName = Annotated[str, Field(max_length=60, pattern=r"^[a-z][a-z0-9_]*$")]


class Propensity(Frozen):
    """The chance of treatment: ``known``, or a model that is learnt.

    A known chance is the same for all units of a randomised trial.
    """

    model: ModelName = "logistic"
    clip: Clip = (0.1, 0.9)
    known: Annotated[Finite, Field(ge=CLIP_MARGIN, le=1 - CLIP_MARGIN)] | None = None

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Self:
        default = Propensity.model_fields
        if self.known is not None and any(getattr(self, name) != default[name].default for name in ("model", "clip")):
            raise ValueError("a known propensity has no model and no clip")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which values every score lies."""
        return self.clip if self.known is None else (self.known, self.known)


class OutcomeModelSettings(Frozen):
    """The outcome model of each arm, by name."""

    model: ModelName = "kernel_ridge"


class AipwEstimator(EstimatorSettings):
    """Doubly robust scores, cross-fitted over folds.

    ``guarantee`` must be written: no other estimator has this one. ``effect_share`` is the paper's eps1/eps.
    """

    name: Literal["aipw"]
    guarantee: Literal[Guarantee.asymptotic]
    propensity: Propensity = Propensity()
    outcome_model: OutcomeModelSettings = OutcomeModelSettings()
    folds: Annotated[int, Field(ge=2, le=10)] = 2
    effect_share: Annotated[Amount, Field(gt=0, lt=1)] = Decimal("0.9")

    @model_validator(mode="before")
    @classmethod
    def _asymptotic(cls, document: Any) -> Any:
        if isinstance(document, Mapping) and document.get("guarantee") != Guarantee.asymptotic:
            raise RuleBroken(ASYMPTOTIC_ALONE, "guarantee")
        return document


class AipwStudy(EffectStudy):
    """A treatment effect by doubly robust scores."""

    estimator: AipwEstimator

    @model_validator(mode="after")
    def _provable(self) -> Self:
        if self.estimand is not Estimand.ATE:
            raise ValueError("estimator 'aipw' estimates the ATE; for ATT and ATC use estimator 'ipw'")
        if self.privacy.level is not Level.sample:
            raise ValueError(
                f"estimator 'aipw' has no {self.privacy.level} level: every unit trains a model and is scored; "
                "use estimator 'ipw'"
            )
        if self.privacy.delta == 0:
            raise ValueError("guarantee 'asymptotic' needs delta above 0")
        return self

    @property
    def guarantee(self) -> Guarantee:
        """Proved in the limit of many units alone."""
        return self.estimator.guarantee

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Gaps of the privacy level and assumptions of an asymptotic guarantee, in words."""
        return super().unprotected + CAVEATS
