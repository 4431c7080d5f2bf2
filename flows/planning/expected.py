"""What can be expected of a study before a row is read: what `plan` says beside its charges.

The stand-in for the population is the reader's, never the data's.
"""

from __future__ import annotations

from typing import Any

from causalveil.flows.sequence.estimators import estimator_of
from causalveil.schemas.plan import Plan, StandIn
from causalveil.schemas.study import Study


def expected(study: Study, plan: Plan, stand_in: StandIn, effect: float | None = None) -> dict[str, Any]:
    """What the study's estimator can be expected to give; sentences for people, numbers for scripts.

    Args:
        study: the study.
        plan: its plan; without a number of units there are no numbers.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
    """
    if plan.sizes is None:
        return {
            "sentences": ["The number of units is unknown: give --units N, or put the partitions in place."],
            "warnings": [],
        }
    return dict(estimator_of(study).expected(study, plan.sizes, stand_in, effect))
