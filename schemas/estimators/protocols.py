"""The estimators that can answer a protocol of many questions.

Its study is ``schemas/protocols/study.py``.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from causalveil.schemas.estimators.balancing import BalancingEstimator, BalancingStudy
from causalveil.schemas.estimators.difference import DifferenceEstimator, DifferenceStudy
from causalveil.schemas.estimators.ipw import IpwEstimator, IpwStudy, with_free_penalty
from causalveil.schemas.estimators.matching import MatchingEstimator, MatchingStudy
from causalveil.schemas.estimators.regression import RegressionEstimator, RegressionStudy
from causalveil.schemas.privacy import Level
from causalveil.schemas.protocols.study import OutcomeRole, ProtocolOutcome, ProtocolStudy
from causalveil.schemas.study import UNRECORDED, EffectStudy, Estimand, Study, Variant
from causalveil.schemas.terms import MOST_TERM_COLUMNS, DeclaredTerm, refuse_terms

PUBLIC_CELLS = (
    "sizes of subgroups and arms, balance, overlap and sizes of weights in this release: exact functions of those "
    "columns"
)


class RegressionProtocol(ProtocolStudy):
    """Many effects by regression adjustment within each subgroup."""

    SINGLE: ClassVar[type[EffectStudy]] = RegressionStudy

    estimator: RegressionEstimator
    terms: Annotated[tuple[DeclaredTerm, ...], Field(max_length=MOST_TERM_COLUMNS)] = ()

    @model_validator(mode="after")
    def _terms_of_covariates(self) -> Self:
        refuse_terms(self.terms, self.covariates)
        return self

    @property
    def in_l1(self) -> bool:
        """True if scales and scores are bounded in the L1 norm, with Laplace noise on each number."""
        return self.privacy.delta == 0


class BalancingProtocol(ProtocolStudy):
    """Many effects by balancing weights: everything but the outcomes is public."""

    SINGLE: ClassVar[type[EffectStudy]] = BalancingStudy
    LEVELS: ClassVar[tuple[Level, ...]] = (Level.label,)

    estimator: BalancingEstimator

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Columns and results that the release does not protect, in words; printed with it."""
        return (*super().unprotected, PUBLIC_CELLS)


class MatchingProtocol(ProtocolStudy):
    """Many effects by matching on a public propensity score."""

    SINGLE: ClassVar[type[EffectStudy]] = MatchingStudy
    LEVELS: ClassVar[tuple[Level, ...]] = (Level.label,)

    estimator: MatchingEstimator

    @model_validator(mode="after")
    def _as_proved(self) -> Self:
        if self.estimator.variant is not Variant.ours:
            raise ValueError("a protocol by matching is that of variant 'ours'; the paper's answers one question")
        if len(self.arm_names) > 2:
            raise ValueError("matching compares two arms; several are compared by 'balancing' or 'regression'")
        if self.privacy.delta != 0:
            raise ValueError("matching spends no delta at level 'label'; declare delta: 0")
        return self

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Columns and results that the release does not protect, in words; printed with it."""
        return (*super().unprotected, PUBLIC_CELLS)


class DifferenceProtocol(ProtocolStudy):
    """Many effects by differences of arm means, of a randomised trial or unadjusted."""

    SINGLE: ClassVar[type[EffectStudy]] = DifferenceStudy
    LEVELS: ClassVar[tuple[Level, ...]] = (Level.sample, Level.label)
    ARM_MEANS: ClassVar[bool] = True

    estimator: DifferenceEstimator

    @model_validator(mode="after")
    def _of_a_trial(self) -> Self:
        if self.estimand is not Estimand.ATE:
            raise ValueError(
                "estimator 'difference_in_means' estimates the ATE, the effect over all units that it compares"
            )
        if self.gates is not None:
            raise ValueError("'gates' speak of covariates, which estimator 'difference_in_means' does not use")
        return self


class IpwProtocol(ProtocolStudy):
    """Many effects by inverse probability weights of public scores."""

    SINGLE: ClassVar[type[EffectStudy]] = IpwStudy
    LEVELS: ClassVar[tuple[Level, ...]] = (Level.label,)

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

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Columns and results that the release does not protect, in words; printed with it."""
        return (*super().unprotected, PUBLIC_CELLS)


OF_ONE = {
    one.SINGLE: one
    for one in (RegressionProtocol, BalancingProtocol, MatchingProtocol, DifferenceProtocol, IpwProtocol)
}
SHARED = (
    *("name", "data", "estimator", "privacy", "execution", "treatment", "treatment_codes", "confidence"),
    *("covariates", "missing", "estimand", "clusters", *UNRECORDED),
)


def table_of(study: Study) -> Any:
    """Return a study of one outcome as a table of one row, and a table as it is.

    Arms, units and budget are the same.
    """
    if isinstance(study, ProtocolStudy):
        return study
    if not isinstance(study, EffectStudy):
        raise TypeError(f"a {type(study).__name__} asks for no effect on an outcome")
    own = study.outcome
    outcome = ProtocolOutcome(
        name=own.name, lower=own.lower, upper=own.upper, codes=own.codes, role=OutcomeRole.primary
    )
    shared = {key: getattr(study, key) for key in SHARED}
    shared |= {key: getattr(study, key) for key in ("terms",) if hasattr(study, key)}
    return OF_ONE[type(study)](kind="effect", outcomes=(outcome,), **shared)
