"""The estimators that can answer a protocol of many questions (``schemas/protocols/study.py``)."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import model_validator

from causalveil.schemas.estimators.difference import DifferenceEstimator, DifferenceStudy
from causalveil.schemas.estimators.regression import RegressionEstimator, RegressionStudy
from causalveil.schemas.protocols.study import ProtocolStudy
from causalveil.schemas.study import EffectStudy, Estimand


class RegressionProtocol(ProtocolStudy):
    """Many effects by regression adjustment within each subgroup."""

    SINGLE: ClassVar[type[EffectStudy]] = RegressionStudy

    estimator: RegressionEstimator


class DifferenceProtocol(ProtocolStudy):
    """Many effects of a randomised trial by differences of arm means."""

    SINGLE: ClassVar[type[EffectStudy]] = DifferenceStudy

    estimator: DifferenceEstimator

    @model_validator(mode="after")
    def _of_a_trial(self) -> Self:
        if self.estimand is not Estimand.ATE:
            raise ValueError("estimator 'difference_in_means' estimates the ATE of a randomised trial")
        if self.gates is not None:
            raise ValueError("'gates' speak of covariates, which estimator 'difference_in_means' does not use")
        return self
