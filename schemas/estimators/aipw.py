"""Ask for augmented inverse probability weighting with cross-fitting.

With a known chance of treatment its interval holds at the study's own number of units. With ``guarantee: asymptotic``
it is that of Schröder, Hartenstein and Feuerriegel (2025), as printed; a release must then say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from causalveil.schemas.columns import CLIP_MARGIN
from causalveil.schemas.privacy import Amount, Coverage, Frozen, Guarantee, Level, add
from causalveil.schemas.study import Clip, Estimand, EstimatorSettings, Finite
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


Auto = Literal["auto"]
# Of a closed registry of installed code, never an import path: a study file travels.
ModelName = Annotated[str, Field(max_length=60, pattern=r"^[a-z][a-z0-9_]*$")]
# The outcome model that needs no installed code, and the one that is learnt where none is named.
SLOPES, LEARNT = "slopes", "kernel_ridge"
UNKNOWN_CHANCE = (
    "estimator 'aipw' needs a known chance of treatment, propensity: {known: P}; without one use estimator "
    "'regression', or ask for guarantee: asymptotic"
)


class Propensity(Frozen):
    """The chance of treatment: ``known``, or a model that is learnt.

    A known chance is the same for all units of a randomised trial.

    A model is learnt under ``guarantee: asymptotic`` alone. Nothing is spent on a known chance.
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
    """The outcome model: slopes of each arm from noisy moments, or a model by name.

    A model by name needs ``guarantee: asymptotic``, which takes ``kernel_ridge`` where none is named.
    """

    model: ModelName = SLOPES


class Shares(Frozen):
    """The division of a unit's budget; the parts add up to 1."""

    outcome_model: Amount
    effect: Amount

    @model_validator(mode="after")
    def _whole(self) -> Shares:
        if add(self.outcome_model, self.effect) != 1:
            raise ValueError("budget_shares must add up to 1")
        if not (self.outcome_model > 0 and self.effect > 0):
            raise ValueError("budget_shares: both parts must be above 0")
        return self


class AipwEstimator(EstimatorSettings):
    """Doubly robust scores, cross-fitted over folds.

    ``guarantee: finite_sample`` needs a known propensity. ``effect_share`` is the paper's eps1/eps and belongs to
    ``guarantee: asymptotic``; ``budget_shares`` and ``coverage`` belong to ``finite_sample``. ``coverage`` speaks of
    the interval as ``guarantee`` does of privacy: ``finite_sample`` needs no normal approximation.
    """

    name: Literal["aipw"]
    guarantee: Guarantee = Guarantee.finite_sample
    propensity: Propensity = Propensity()
    outcome_model: OutcomeModelSettings = OutcomeModelSettings()
    folds: Annotated[int, Field(ge=2, le=10)] = 2
    budget_shares: Auto | Shares = "auto"
    effect_share: Annotated[Amount, Field(gt=0, lt=1)] = Decimal("0.9")
    coverage: Coverage = Coverage.normal_approximation

    @model_validator(mode="before")
    @classmethod
    def _model_that_the_guarantee_can_have(cls, document: Any) -> Any:
        """Take a model that is learnt where an asymptotic study names none: 'slopes' belong to the other guarantee."""
        if isinstance(document, Mapping) and document.get("guarantee") == Guarantee.asymptotic:
            given = document.get("outcome_model", {})
            return {**document, "outcome_model": {"model": LEARNT, **given} if isinstance(given, Mapping) else given}
        return document


class AipwStudy(EffectStudy):
    """A treatment effect by doubly robust scores."""

    estimator: AipwEstimator

    @model_validator(mode="after")
    def _provable(self) -> Self:
        estimator = self.estimator
        if self.estimand is not Estimand.ATE:
            raise ValueError("estimator 'aipw' estimates the ATE; for ATT and ATC use estimator 'ipw'")
        if self.privacy.level is not Level.sample:
            raise ValueError(
                f"estimator 'aipw' has no {self.privacy.level} level: every unit trains a model and is scored; "
                "use estimator 'ipw'"
            )
        if estimator.guarantee is Guarantee.asymptotic:
            if self.privacy.delta == 0:
                raise ValueError("guarantee 'asymptotic' needs delta above 0")
            if estimator.coverage is Coverage.finite_sample:
                raise ValueError("coverage 'finite_sample' belongs to guarantee 'finite_sample'")
        elif estimator.propensity.known is None:
            raise ValueError(UNKNOWN_CHANCE)
        elif estimator.outcome_model.model != SLOPES:
            raise ValueError(f"guarantee 'finite_sample' is proved for outcome model '{SLOPES}'")
        return self

    @property
    def guarantee(self) -> Guarantee:
        """As declared: proved at this sample size, or in the limit."""
        return self.estimator.guarantee

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Gaps of the privacy level and assumptions of an asymptotic guarantee, in words."""
        return super().unprotected + (CAVEATS if self.guarantee is Guarantee.asymptotic else ())
