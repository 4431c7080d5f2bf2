"""The difference of arm means, of a randomised trial or unadjusted.

One release and its own private interval.
"""

from __future__ import annotations

from typing import Any

from causalveil.flows.estimators.estimator import Estimator, Stages
from causalveil.flows.estimators.shared import ENTRY, EVERYBODY, NORMALISE
from causalveil.flows.estimators.stage import Stage
from causalveil.flows.planning.sentences import UNADJUSTED, say_effect, say_interval
from causalveil.schemas.estimators.difference import DifferenceStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Level
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.trial import difference
from causalveil.tasks.weighting import weighted_means as weighted

PUBLIC_ARMS = Stage[DifferenceStudy, EffectFindings](
    "public_arms",
    lambda step: difference.public_arms_stage(step.study, step.enclave, step.budget),
    charges=lambda study, _: [(weighted.SLOT, weighted.mechanism(study.privacy.cost))],
    reads=(NORMALISE,),
)
DIFFERENCE = Stage[DifferenceStudy, EffectFindings](
    "difference",
    lambda step: difference.difference_stage(*step.given, step.budget),
    charges=lambda study, sizes: [(weighted.SLOT, difference.mechanism(study, sizes))],
    reads=(EVERYBODY,),
)


def _stages(study: DifferenceStudy) -> Stages:
    return (*ENTRY, PUBLIC_ARMS) if study.privacy.level is Level.label else (*ENTRY, EVERYBODY, DIFFERENCE)


def expected(study: DifferenceStudy, sizes: Sizes, stand_in: StandIn, effect: float | None) -> dict[str, Any]:
    """Return the expected half-width and its parts.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
    """
    if study.privacy.level is Level.label:
        found, half = difference.expected_public_findings(study, sizes, stand_in)
    else:
        found = difference.expected_findings(study, sizes, stand_in)
        half = (found.interval.upper - found.interval.lower) / 2
    numbers: dict[str, Any] = {
        "treated": stand_in.treated,
        "half_width": half,
        "noise_standard_error": found.details["noise_standard_error"],
        "sampling_standard_error": found.details["sampling_standard_error"],
        "whole_range": found.interval.whole_range,
    }
    sentences = [
        say_interval(study, numbers),
    ]
    warnings = [] if study.estimator.trial else [UNADJUSTED]
    if effect is not None:
        say_effect(effect, numbers, sentences, warnings)
    return {**numbers, "sentences": sentences, "warnings": warnings}


DIFFERENCE_IN_MEANS = Estimator(DifferenceStudy, _stages, expected)
