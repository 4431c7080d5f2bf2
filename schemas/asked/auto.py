"""``estimator: {name: auto}``: a study file that leaves the estimator to public facts.

It becomes a study of one of the estimators below before anything is declared, so no stage and no ledger entry knows
it. Which one is decided where the number of units is known (``flows/sequence/choose.py``).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field

from causalveil.schemas.privacy import Level
from causalveil.schemas.study import EstimatorSettings, Finite, PrivacyRequest

# What a study file says under ``estimator`` and ``privacy``.
Option = tuple[dict[str, Any], PrivacyRequest]


class AutoEstimator(EstimatorSettings):
    """The estimator of least expected error, by level, size, budget and design.

    ``trial``: treatment was randomised. ``known``: everybody's known chance of treatment in it.
    """

    name: Literal["auto"]
    trial: bool = False
    known: Annotated[Finite, Field(gt=0, lt=1)] | None = None


def options(auto: AutoEstimator, privacy: PrivacyRequest) -> list[Option]:
    """Return the estimators, with their privacy, that ``auto`` may choose, most usual first.

    They are of one level and design alone, so that a release tells which file.

    At label level no option spends a delta: a draw of two numbers gains nothing by it.
    """
    trial = auto.trial or auto.known is not None
    if privacy.level is Level.training_units:
        return [({"name": "ipw", "confounding_prior": {"outcome_r2": 0.0}} if trial else {"name": "ipw"}, privacy)]
    if privacy.level is Level.label:
        free = privacy.model_copy(update={"delta": Decimal(0)})
        return [({"name": "balancing", "allowance": 0.0} if trial else {"name": "balancing"}, free)]
    if not trial:
        return [({"name": "regression"}, privacy)]
    found: list[Option] = [
        ({"name": "regression", "trial": True}, privacy),
        ({"name": "difference_in_means", "trial": True}, privacy),
    ]
    if auto.known is not None:
        found.append(({"name": "aipw", "propensity": {"known": auto.known}}, privacy))
    return found
