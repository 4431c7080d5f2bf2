"""The difference of arm means, of a randomised trial or unadjusted, with one release and its own private interval."""

from __future__ import annotations

from typing import Any

from causalveil.flows.engine.engine import Engine
from causalveil.flows.planning.sentences import UNADJUSTED, say_effect, say_interval
from causalveil.flows.sequence.run import Run, enter
from causalveil.schemas.estimators.difference import DifferenceStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Charge, Level
from causalveil.tasks.enclave import folds
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.trial import difference, public_arms


def declare(study: DifferenceStudy, sizes: Sizes | None) -> tuple[Charge, ...]:
    """Every charge of the study, from public facts alone."""
    return public_arms.declare(study) if study.privacy.level is Level.label else difference.declare(study, sizes)


def estimate(run: Run[DifferenceStudy], stage: Engine) -> EffectFindings:
    """The order of the stages. Everybody is one fold."""
    study, enclave = run.study, run.enclave
    enter(run, stage)
    if study.privacy.level is Level.label:
        return stage(public_arms.public_arms_stage, study, enclave, run.budget)
    stage(folds.folds_stage, enclave, 1)
    return stage(difference.difference_stage, study, run.sizes, enclave, run.budget)


def expected(study: DifferenceStudy, sizes: Sizes, stand_in: StandIn, effect: float | None) -> dict[str, Any]:
    """Expected half-width and its parts.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
    """
    if study.privacy.level is Level.label:
        found, half = public_arms.expected(study, sizes, stand_in)
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
