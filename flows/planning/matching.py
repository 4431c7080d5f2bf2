"""What `plan` says of matching before a row is read."""

from __future__ import annotations

from typing import Any

from causalveil.flows.planning.sentences import say_interval
from causalveil.schemas.errors import DataError
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.plan import Plan, StandIn
from causalveil.schemas.privacy import Level
from causalveil.tasks.matching import expected as theory

# Noise on a score, against its range of 1, beyond which neighbours are hardly near each other.
BLURRED = 0.1


def outlook(study: MatchingStudy, plan: Plan, stand_in: StandIn, effect: float | None) -> dict[str, Any]:
    """Expected half-width and its parts, caps, what randomised treatments leave; sentences and numbers.

    Args:
        study: the study.
        plan: its plan, with a known number of units.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
    """
    try:
        expected = theory.outlook(study, plan.design, stand_in)
    except DataError as problem:
        return {"sentences": [], "warnings": [f"for a treated share of {stand_in.treated:g} {problem}."]}
    reuse = expected.reuse
    numbers: dict[str, Any] = {
        "treated": stand_in.treated,
        "half_width": expected.half_width,
        "noise_standard_error": expected.noise_standard_error,
        "sampling_standard_error": expected.sampling_standard_error,
        "whole_range": expected.whole_range,
        "cap_treated": reuse.caps[0],
        "cap_controls": reuse.caps[1],
        "largest_weight": float(reuse.largest_weight),
    }
    sentences = [
        say_interval(study, numbers),
        f"A treated unit may serve {reuse.caps[0]} times, a control {reuse.caps[1]} times, if scores have nothing to "
        f"do with treatment; the busiest would then weigh {float(reuse.largest_weight):.3g}, and noise grows with "
        "that: the release prints the weight that it used.",
    ]
    warnings: list[str] = []
    if study.privacy.level is not Level.label:
        numbers |= _sample_level(study, expected, sentences, warnings)
    if expected.whole_range:
        warnings.append("expect the whole declared range as interval.")
    if effect is not None:
        numbers |= _effect(study, plan, expected, effect, stand_in, sentences, warnings)
    return {**numbers, "sentences": sentences, "warnings": warnings}


def _sample_level(
    study: MatchingStudy, expected: theory.MatchingOutlook, sentences: list[str], warnings: list[str]
) -> dict[str, Any]:
    """What noisy scores and treatments do; adds to ``sentences`` and ``warnings``, returns the numbers."""
    parts = study.estimator.budget_shares.divide(study.privacy.epsilon)
    listed = ", ".join(f"{name} {part.normalize():f}" for name, part in parts.items())
    sentences.append(f"Epsilon is divided into {listed}.")
    corrected = study.estimator.correct_attenuation
    sentences.append(
        f"A treatment is flipped with probability {1 - expected.keep:.3g}, which leaves {expected.attenuation:.3g} of "
        + ("the effect; the estimate is divided by that." if corrected else "the effect in the estimate.")
    )
    if not corrected and expected.attenuation < 1 - BLURRED:
        warnings.append(
            f"the estimate is about {expected.attenuation:.3g} of the effect; with correct_attenuation: true it is "
            "about the effect, and wider."
        )
    if expected.score_noise > BLURRED:
        warnings.append(
            f"each score gets noise of standard deviation {expected.score_noise:.3g} against a range of 1: neighbours "
            "are near by chance, so unless treatment was randomised most confounding stays."
        )
    return {
        "budget_shares": {name: float(part) for name, part in parts.items()},
        "flip_probability": 1 - expected.keep,
        "attenuation_factor": expected.attenuation,
        "score_noise": expected.score_noise,
    }


def _effect(
    study: MatchingStudy,
    plan: Plan,
    expected: theory.MatchingOutlook,
    effect: float,
    stand_in: StandIn,
    sentences: list[str],
    warnings: list[str],
) -> dict[str, Any]:
    """Will an effect of this size be seen? Adds to ``sentences`` and ``warnings``; returns the numbers."""
    left = 1.0 if study.estimator.correct_attenuation else expected.attenuation
    wrong = theory.sign_wrong(study, plan.design, effect, stand_in)
    drowned = expected.half_width >= abs(effect) * left
    needed = theory.units_needed(study, effect, stand_in) if drowned else plan.design.units
    if drowned:
        cause = "noise" if expected.noise_standard_error > expected.sampling_standard_error else "sampling error"
        enough = f"about {needed:,} units would be needed" if needed else "no number of units would do"
        warnings.append(
            f"{cause} will drown an effect of {effect:g}: expected half-width {expected.half_width:.3g}, wrong sign "
            f"with probability {wrong:.2g}; {enough}."
        )
    else:
        sentences.append(
            f"an effect of {effect:g} stands out: expected half-width {expected.half_width:.3g}, wrong sign with "
            f"probability {wrong:.2g}."
        )
    return {"effect": effect, "drowned": drowned, "sign_wrong": wrong, "units_needed": needed}
