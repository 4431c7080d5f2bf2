"""Numbers and sentences that `plan` has on matching before a row is read."""

from __future__ import annotations

from typing import Any

from causalveil.flows.planning.sentences import put_into, say_effects, say_imbalance, say_interval, say_people
from causalveil.schemas.errors import DataError
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Level
from causalveil.tasks.inference.people import Foreseen, Rehearsed
from causalveil.tasks.matching import expected as matching_expected

# Noise on a score, against its range of 1, beyond which neighbours are hardly near each other.
BLURRED = 0.1


def expected(
    study: MatchingStudy, sizes: Sizes, stand_in: StandIn, effect: float | None, rehearsed: Rehearsed | None = None
) -> dict[str, Any]:
    """Return the expected half-width and its parts, caps, and what randomised treatments leave.

    The result has sentences and numbers.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
        rehearsed: widths in place of those of formulas.
    """
    try:
        foreseen = matching_expected.expected(study, sizes, stand_in)
    except DataError as problem:
        return {"sentences": [], "warnings": [f"for a treated share of {stand_in.treated:g} {problem}."]}
    reuse = foreseen.reuse
    numbers: dict[str, Any] = {
        "treated": stand_in.treated,
        "half_width": foreseen.half_width,
        "noise_standard_error": foreseen.noise_standard_error,
        "sampling_standard_error": foreseen.sampling_standard_error,
        "whole_range": foreseen.whole_range,
        "cap_treated": reuse.caps[0],
        "cap_controls": reuse.caps[1],
        "largest_weight": float(reuse.largest_weight),
    }
    if rehearsed is not None:
        put_into(numbers, rehearsed)
    sentences = [say_interval(study, numbers)]
    if isinstance(rehearsed, Foreseen):
        sentences.append(say_people(rehearsed, stand_in))
    else:
        sentences.append(
            f"A treated unit may serve {reuse.caps[0]} times, a control {reuse.caps[1]} times, if scores have nothing "
            f"to do with treatment; the busiest would then weigh {float(reuse.largest_weight):.3g}, and noise grows "
            "with that: the release prints the weight that it used."
        )
    if rehearsed is not None and study.allows_imbalance:
        numbers["bias"] = rehearsed.bias
        sentences.append(say_imbalance(rehearsed))
    warnings: list[str] = []
    if study.privacy.level is not Level.label:
        if rehearsed is not None:
            sentences.insert(1, say_effects(rehearsed))
        numbers |= _sample_level(study, foreseen, sentences, warnings)
    if foreseen.whole_range:
        warnings.append("expect the whole declared range as interval.")
    if effect is not None:
        numbers |= _effect(study, sizes, foreseen, numbers["half_width"], effect, stand_in, sentences, warnings)
    return {**numbers, "sentences": sentences, "warnings": warnings}


def _sample_level(
    study: MatchingStudy, foreseen: matching_expected.ExpectedMatching, sentences: list[str], warnings: list[str]
) -> dict[str, Any]:
    """Add sentences and warnings on noisy scores and treatments; return their numbers."""
    parts = study.estimator.budget_shares.divide(study.privacy.epsilon)
    listed = ", ".join(f"{name} {part.normalize():f}" for name, part in parts.items())
    sentences.append(f"Epsilon is divided into {listed}.")
    corrected = study.corrects_attenuation
    sentences.append(
        f"A treatment is flipped with probability {1 - foreseen.keep:.3g}, which leaves {foreseen.attenuation:.3g} of "
        + ("the effect; the estimate is divided by that." if corrected else "the effect in the estimate.")
    )
    if not corrected and foreseen.attenuation < 1 - BLURRED:
        warnings.append(
            f"the estimate is about {foreseen.attenuation:.3g} of the effect; with correct_attenuation: true it is "
            "about the effect, and wider."
        )
    if foreseen.score_noise > BLURRED:
        warnings.append(
            f"each score gets noise of standard deviation {foreseen.score_noise:.3g} against a range of 1: neighbours "
            "are near by chance, so unless treatment was randomised most confounding stays."
        )
    return {
        "budget_shares": {name: float(part) for name, part in parts.items()},
        "flip_probability": 1 - foreseen.keep,
        "attenuation_factor": foreseen.attenuation,
        "score_noise": foreseen.score_noise,
    }


def _effect(
    study: MatchingStudy,
    sizes: Sizes,
    foreseen: matching_expected.ExpectedMatching,
    half_width: float,
    effect: float,
    stand_in: StandIn,
    sentences: list[str],
    warnings: list[str],
) -> dict[str, Any]:
    """Tell whether an effect of this size will be seen, and return the numbers.

    Adds to ``sentences`` and ``warnings``.
    """
    left = 1.0 if study.corrects_attenuation else foreseen.attenuation
    wrong = matching_expected.sign_wrong(study, sizes, effect, stand_in)
    drowned = half_width >= abs(effect) * left
    # Formulas search over units; where a rehearsal is wider than they are here, so it is there.
    seen = effect * foreseen.half_width / half_width
    needed = matching_expected.units_needed(study, seen, stand_in) if drowned else sizes.units
    if drowned:
        cause = "noise" if foreseen.noise_standard_error > foreseen.sampling_standard_error else "sampling error"
        enough = f"about {needed:,} units would be needed" if needed else "no number of units would do"
        warnings.append(
            f"because of {cause} the expected half-width, {half_width:.3g}, is larger than an effect of {effect:g} "
            f"(wrong sign with probability {wrong:.2g}); {enough}."
        )
    else:
        sentences.append(
            f"An effect of {effect:g} is larger than the expected half-width, {half_width:.3g} (wrong sign with "
            f"probability {wrong:.2g})."
        )
    return {"effect": effect, "drowned": drowned, "sign_wrong": wrong, "units_needed": needed}
