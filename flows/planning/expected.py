"""What can be expected of a study before a row is read: what `plan` says beside its charges.

The stand-in for the population is the reader's, never the data's.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from causalveil.flows.sequence.estimators import estimator_of
from causalveil.schemas.amounts import amount_text
from causalveil.schemas.documents import validate
from causalveil.schemas.errors import StudyError
from causalveil.schemas.plan import Plan, Sizes, StandIn
from causalveil.schemas.study import Study
from causalveil.tasks.inference.people import assumed

# What a study without a delta is compared with: small enough for a million units.
SUGGESTED_DELTA = Decimal("1e-6")
NOT_WORTH = 1.05


def expected(study: Study, plan: Plan, stand_in: StandIn, effect: float | None = None) -> dict[str, Any]:
    """What the study's estimator can be expected to give; sentences for people, numbers for scripts.

    Args:
        study: the study.
        plan: its plan; without a number of units there are no numbers.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
    """
    why = [] if study.choice is None else [f"{study.choice}."]
    if plan.sizes is None:
        return {
            "sentences": [
                *why,
                "The number of units is unknown: give --units N, or put the partitions in place.",
            ],
            "warnings": [],
        }
    stand_in = assumed(study, stand_in)
    found = dict(estimator_of(study).expected(study, plan.sizes, stand_in, effect))
    found["sentences"] = [*why, *found["sentences"]]
    width = None if study.privacy.delta > 0 else _half_width_with_delta(study, plan.sizes, stand_in)
    if width is not None and found.get("half_width") is not None:
        found["half_width_with_delta"] = width
        # Where a delta would clearly widen the interval there is nothing to think about.
        if width > NOT_WORTH * found["half_width"]:
            return found
        found["sentences"] = [
            *found["sentences"],
            f"With delta: {amount_text(SUGGESTED_DELTA)} the half-width would be ± {width:.4g}, by Gaussian noise.",
        ]
    return found


def _half_width_with_delta(study: Study, sizes: Sizes, stand_in: StandIn) -> float | None:
    """Expected half-width if the study asked for a delta; None where it could not spend one, or has no interval."""
    privacy = study.privacy.model_copy(update={"delta": SUGGESTED_DELTA})
    try:
        asked = validate(type(study), {**study.model_dump(), "privacy": privacy.model_dump()}, "study")
        estimator = estimator_of(asked)
        estimator.declare(asked, sizes)
        return estimator.expected(asked, sizes, stand_in, None).get("half_width")
    except StudyError:
        return None
