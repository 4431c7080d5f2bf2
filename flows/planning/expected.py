"""What can be expected of a study before it runs: what `plan` says beside its charges.

The stand-in for what is private is the reader's, never the data's.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from causalveil.flows.sequence.estimators import estimator_of
from causalveil.flows.sequence.study import data_folder
from causalveil.schemas.amounts import amount_text
from causalveil.schemas.contract import find_contract
from causalveil.schemas.documents import validate
from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.plan import Plan, Sizes, StandIn
from causalveil.schemas.study import EffectStudy, Study
from causalveil.tasks.enclave.partitions import read_layout
from causalveil.tasks.enclave.public_columns import public_rows
from causalveil.tasks.inference.people import assumed
from causalveil.tasks.inference.public_people import PublicPeople

# What a study without a delta is compared with: small enough for a million units.
SUGGESTED_DELTA = Decimal("1e-6")
NOT_WORTH = 1.05


def people_of(path: Path, study: Study, plan: Plan) -> PublicPeople | None:
    """Covariates and treatments of the study's units where the contract lists them as public and they lie in place.

    None elsewhere, and where a file does not hold what is declared: a run would say so. No outcome is read.

    Args:
        path: of the study file.
        study: the study.
        plan: its plan.
    """
    most = estimator_of(study).reads(study)
    if plan.sizes is None or most == 0 or not isinstance(study, EffectStudy):
        return None
    folder = data_folder(path, study)
    try:
        contract = find_contract(folder)
        if (
            contract is None
            or contract.rows is not None
            or not {study.treatment, *study.covariates} <= set(contract.public)
        ):
            return None
        layout = read_layout(study, folder)
        if layout.units != plan.sizes.units:
            return None
        people = PublicPeople(public_rows(study, folder, layout, most))
        # A run refuses people of one arm.
        return people if 0 < people.treated < 1 else None
    except CausalveilError:
        return None


def expected(
    study: Study, plan: Plan, stand_in: StandIn, effect: float | None = None, people: PublicPeople | None = None
) -> dict[str, Any]:
    """What the study's estimator can be expected to give; sentences for people, numbers for scripts.

    Args:
        study: the study.
        plan: its plan; without a number of units there are no numbers.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
        people: the run's own, where their covariates and treatments are public.
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
    found = dict(estimator_of(study).foresee(study, plan.sizes, stand_in, effect, people))
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
