"""The automatic estimator, and what it may choose from.

``estimator: {name: auto}`` leaves the estimator to public facts. It becomes a study of one of the estimators below
before anything is declared, so no stage and no ledger entry knows it. Which one is decided where the number of units is
known (``flows/sequence/estimators.py``).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from causalveil.schemas.confounding import ConfoundingPrior
from causalveil.schemas.estimators.aipw import AipwEstimator, Propensity
from causalveil.schemas.estimators.balancing import BalancingEstimator
from causalveil.schemas.estimators.difference import DifferenceEstimator
from causalveil.schemas.estimators.ipw import IpwEstimator
from causalveil.schemas.estimators.regression import RegressionEstimator
from causalveil.schemas.privacy import Level
from causalveil.schemas.study import EstimatorSettings, Finite, PrivacyRequest

# What a study file says under ``estimator`` and ``privacy``.
Option = tuple[EstimatorSettings, PrivacyRequest]


class AutoEstimator(EstimatorSettings):
    """The estimator of least expected error, by level, size, budget and design.

    ``trial``: treatment was randomised. ``known``: each unit's known chance of treatment in it.
    """

    name: Literal["auto"]
    trial: bool = False
    known: Annotated[Finite, Field(gt=0, lt=1)] | None = None


def options(auto: AutoEstimator, privacy: PrivacyRequest) -> list[Option]:
    """Return the estimators, with their privacy, that ``auto`` may choose, most usual first.

    All are of one level and design, so that a release identifies its study file. At label level no option spends a
    delta: a draw of two numbers gains nothing by it.
    """
    trial = auto.trial or auto.known is not None
    none = ConfoundingPrior(outcome_r2=0)
    if privacy.level is Level.training_units:
        return [(IpwEstimator(name="ipw", confounding_prior=none) if trial else IpwEstimator(name="ipw"), privacy)]
    if privacy.level is Level.label:
        free = privacy.model_copy(update={"delta": Decimal(0)})
        how = {"allowance": 0.0} if trial else {}
        return [(BalancingEstimator(name="balancing", **how), free)]
    if not trial:
        return [(RegressionEstimator(name="regression"), privacy)]
    found: list[Option] = [
        (RegressionEstimator(name="regression", trial=True), privacy),
        (DifferenceEstimator(name="difference_in_means", trial=True), privacy),
    ]
    if auto.known is not None:
        found.append((AipwEstimator(name="aipw", propensity=Propensity(known=auto.known)), privacy))
    return found
