"""A study by augmented inverse probability weighting with cross-fitting (Schroeder, Hartenstein & Feuerriegel 2025)."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from causalveil.schemas.amounts import Amount, add
from causalveil.schemas.asked.numbers import CLIP_MARGIN
from causalveil.schemas.estimators.asymptotic import CAVEATS
from causalveil.schemas.estimators.confounding import ConfoundingPrior
from causalveil.schemas.privacy import Coverage, Frozen, Guarantee, Level
from causalveil.schemas.study import Clip, EffectStudy, Estimand, EstimatorSettings, Finite, Penalty

Auto = Literal["auto"]
# Of a closed registry of installed code, never an import path: a study file travels.
ModelName = Annotated[str, Field(max_length=60, pattern=r"^[a-z][a-z0-9_]*$")]


class Propensity(Frozen):
    """A propensity model that is learnt, or ``known``: everybody in a randomised trial was treated with this chance.

    ``penalty: auto`` chooses it, or a constant score, from public sizes. Nothing is spent on a known one.
    """

    model: ModelName = "logistic"
    penalty: Auto | Penalty = "auto"
    clip: Clip = (0.1, 0.9)
    known: Annotated[Finite, Field(ge=CLIP_MARGIN, le=1 - CLIP_MARGIN)] | None = None

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Self:
        default = Propensity.model_fields
        if self.known is not None and any(
            getattr(self, name) != default[name].default for name in ("model", "penalty", "clip")
        ):
            raise ValueError("a known propensity has no model, penalty or clip")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which values every score lies."""
        return self.clip if self.known is None else (self.known, self.known)

    def clipped(self, score: float) -> float:
        """``score``, or the nearer of these bounds."""
        low, high = self.bounds
        return min(max(score, low), high)


class OutcomeModelSettings(Frozen):
    """The outcome model. Rows of covariates longer than ``radius`` are cut to it while the model is learnt and used:
    few rows of the unit ball are as long as 1, and what is cut away buys signal. ``auto``: from public sizes."""

    model: ModelName = "ridge"
    radius: Auto | Annotated[Finite, Field(gt=0, le=1)] = "auto"


class Shares(Frozen):
    """How a unit's budget is divided; the parts add up to 1."""

    propensity: Amount
    outcome_model: Amount
    effect: Amount

    @model_validator(mode="after")
    def _whole(self) -> Shares:
        if add(self.propensity, self.outcome_model, self.effect) != 1:
            raise ValueError("budget_shares must add up to 1")
        if not (self.outcome_model > 0 and self.effect > 0):
            raise ValueError("budget_shares: outcome_model and effect must be above 0")
        return self


class OmittedConfounding(Frozen):
    """How much confounding the released models may leave, in covariates that they shrank or in what nobody recorded.

    The analyst's assumption, in shares (``docs/proofs/aipw.md``, section 9): ``outcome``, of the scores' variance, is
    the outcome's variance within arms that the outcome model leaves unexplained and confounders would explain;
    ``treatment`` the same of treatment. The interval is then as wide as the bias that follows asks for.
    """

    outcome: Annotated[Finite, Field(gt=0, le=1)]
    treatment: Annotated[Finite, Field(gt=0, le=1)]


class AipwEstimator(EstimatorSettings):
    """Doubly robust scores from private nuisance models, cross-fitted over folds.

    What noise keeps from being adjusted for is allowed for as ``confounding_prior`` says, unless ``propensity`` is
    known or ``omitted_confounding`` is declared, which speaks of all that is left.
    ``effect_share`` is the paper's eps1/eps and belongs to ``guarantee: asymptotic``; ``budget_shares`` and
    ``outcome_model.radius`` belong to ``finite_sample``. With ``omitted_confounding`` the interval also covers what
    the nuisance models leave of confounding, up to the declared shares. ``coverage`` speaks of the interval as
    ``guarantee`` does of privacy: ``finite_sample`` gives a randomised trial one without a normal approximation.
    """

    name: Literal["aipw"]
    guarantee: Guarantee = Guarantee.finite_sample
    propensity: Propensity = Propensity()
    outcome_model: OutcomeModelSettings = OutcomeModelSettings()
    folds: Annotated[int, Field(ge=2, le=10)] = 2
    budget_shares: Auto | Shares = "auto"
    effect_share: Annotated[Amount, Field(gt=0, lt=1)] = Decimal("0.9")
    omitted_confounding: OmittedConfounding | None = None
    confounding_prior: ConfoundingPrior = ConfoundingPrior()
    coverage: Coverage = Coverage.normal_approximation


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
        known = estimator.propensity.known is not None
        if known and estimator.budget_shares != "auto" and estimator.budget_shares.propensity > 0:
            raise ValueError("a known propensity spends nothing: budget_shares.propensity must be 0")
        if known and estimator.omitted_confounding is not None:
            raise ValueError("omitted_confounding: a known propensity leaves none")
        if estimator.coverage is Coverage.finite_sample and not known:
            raise ValueError(
                "coverage 'finite_sample' needs a known propensity: the error of a learnt one has no such bound"
            )
        if estimator.guarantee is Guarantee.asymptotic:
            if self.privacy.delta == 0:
                raise ValueError("guarantee 'asymptotic' needs delta above 0")
            if estimator.omitted_confounding is not None:
                raise ValueError("omitted_confounding belongs to guarantee 'finite_sample': the paper's has no bias")
            if estimator.coverage is Coverage.finite_sample:
                raise ValueError("coverage 'finite_sample' belongs to guarantee 'finite_sample'")
        elif estimator.outcome_model.model != "ridge" or estimator.propensity.model != "logistic":
            raise ValueError("guarantee 'finite_sample' is proved for outcome model 'ridge' and propensity 'logistic'")
        return self

    @property
    def guarantee(self) -> Guarantee:
        """As declared: proved at this sample size, or in the limit."""
        return self.estimator.guarantee

    @property
    def unprotected(self) -> tuple[str, ...]:
        """What the level leaves open, and what an asymptotic guarantee rests on."""
        return super().unprotected + (CAVEATS if self.guarantee is Guarantee.asymptotic else ())
