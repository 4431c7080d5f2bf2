"""Randomised response of the treatment (Warner 1965), and what it leaves of an effect.

At sample level the arms of a matching are those of the randomised treatments t': given them, the arms are disjoint
sets that no neighbour changes.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.privacy import Level, PrivacyCost, Scope
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.machine.arrays import ByteArray
from causalveil.tasks.matching.scores import TREATED
from causalveil.tasks.privacy.mechanisms import Budget, RandomisedResponse, Slot

SLOT = Slot(name="treatment", scope=Scope.all)
IN_TREATED = "in_treated"


def mechanism(study: MatchingStudy) -> RandomisedResponse | None:
    """Return the mechanism that releases treatments into the enclave; None at label level.

    At that level they are public.
    """
    if study.privacy.level is Level.label:
        return None
    part = study.estimator.budget_shares.divide(study.privacy.epsilon)["treatment"]
    return RandomisedResponse(cost=PrivacyCost(epsilon=part, delta=Decimal(0)))


def release(study: MatchingStudy, treated: ByteArray, budget: Budget) -> ByteArray:
    """The arms to match between, shape (n,): treatments as they are at label level, else randomised."""
    release_by = mechanism(study)
    return treated if release_by is None else release_by.release(treated, SLOT, budget)


def respond_stage(study: MatchingStudy, enclave: Enclave, budget: Budget) -> None:
    """Leave the arms to match between, in the order of traversal."""
    enclave.save(IN_TREATED, release(study, np.array(enclave.load(TREATED)), budget))
