"""What `plan` can say of a study before a row is read.

The stand-in for the population is the reader's, never the data's.
"""

from __future__ import annotations

from typing import Any

from causalveil.flows.sequence.estimators import METHODS
from causalveil.schemas.plan import Plan, StandIn
from causalveil.schemas.study import Study


def forecast(study: Study, plan: Plan, stand_in: StandIn, effect: float | None = None) -> dict[str, Any]:
    """What the study's estimator can expect; sentences for people, numbers for scripts.

    Args:
        study: the study.
        plan: its plan; without a number of units there are no numbers.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
    """
    if plan.design.units is None:
        return {
            "sentences": ["The number of units is unknown: give --units N, or put the partitions in place."],
            "warnings": [],
        }
    return dict(METHODS[study.estimator.name].outlook(study, plan, stand_in, effect))
