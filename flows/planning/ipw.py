"""Numbers and sentences that `plan` has on inverse probability weighting.

No row is read.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from causalveil.flows.planning.sentences import put_into, say_imbalance, say_interval, say_people
from causalveil.schemas.estimators.ipw import IpwStudy, Weighting
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Level
from causalveil.schemas.study import Variant
from causalveil.tasks.inference.people import Foreseen, Rehearsed
from causalveil.tasks.ipw import expected as ipw_expected
from causalveil.tasks.ipw import public_scores
from causalveil.tasks.ipw.interval import ENOUGH
from causalveil.tasks.models.logistic import coefficient_bound


def expected(
    study: IpwStudy,
    sizes: Sizes,
    stand_in: StandIn,
    effect: float | None,
    rehearsed: Rehearsed | None = None,
    *,
    alternatives: bool = True,
) -> dict[str, Any]:
    """Return the expected half-width and its parts, and a bias.

    The result has sentences for people and numbers for scripts.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
        rehearsed: widths in place of those of formulas.
        alternatives: whether to say what another privacy cost would give; no warning speaks of it.
    """
    foreseen = ipw_expected.expected(study, sizes, stand_in)
    numbers: dict[str, Any] = {
        "treated": stand_in.treated,
        "half_width": foreseen.half_width,
        "noise_standard_error": foreseen.noise_standard_error,
        "sampling_standard_error": foreseen.sampling_standard_error,
        "propensity_noise": foreseen.propensity_noise,
        "whole_range": foreseen.whole_range,
    }
    if rehearsed is not None:
        put_into(numbers, rehearsed)
    sentences = [
        say_interval(study, numbers),
    ]
    if isinstance(rehearsed, Foreseen):
        sentences.append(say_people(rehearsed, stand_in))
    if rehearsed is not None and public_scores.has_public_scores(study) and public_scores.allows_imbalance(study):
        numbers["bias"] = rehearsed.bias
        sentences.append(say_imbalance(rehearsed))
    warnings: list[str] = []
    if study.privacy.level is not Level.label:
        norm = coefficient_bound(study.estimator.penalty)
        numbers["adjustment"] = foreseen.adjustment
        allows = study.estimator.confounding_prior.outcome_r2 > 0
        covered = "The interval covers neither this noise nor the shrinkage."
        if allows:
            covered = "What both leave of confounding is allowed for up to the declared size."
        sentences.append(
            f"Propensity model: noise of standard deviation {foreseen.propensity_noise:.3g} on each coefficient; "
            f"penalty {study.estimator.penalty:g} keeps their norm below {norm:.3g} and about "
            f"{foreseen.adjustment:.0%} of each. {covered}"
        )
        if foreseen.adjustment < ENOUGH:
            said = "and no interval says so: unless treatment was randomised, lower it as far as the noise on the "
            said += "coefficients allows."
            if allows:
                said = "and the interval allows for all that 'confounding_prior' declares; estimator 'auto' picks one "
                said += "that adjusts if any can."
            kept = f"{foreseen.adjustment:.0%}"
            warnings.append(
                f"penalty {study.estimator.penalty:g} keeps about {kept} of what adjusts for confounding, {said}"
            )
        if study.estimator.weighting is Weighting.horvitz_thompson:
            bias = ipw_expected.lemma3_bound(study, sizes, stand_in)
            numbers["propensity_bias_bound"] = bias if bias != float("inf") else None
            sentences.append(
                f"Bias from the propensity noise: at most {bias:.3g}, if fitted scores are right and none is clipped "
                "(Lemma 3, corrected)."
            )
    if foreseen.whole_range:
        warnings.append("the noise exceeds the weight of an arm: expect the whole declared range as interval.")
    pure = _half_width_of_pure_epsilon(study, sizes, stand_in) if alternatives else None
    if pure is not None:
        numbers["half_width_without_delta"] = pure
        if pure < 0.98 * foreseen.half_width:
            sentences.append(
                f"With delta: 0 the L2-Laplace mechanism would be narrower here: ± {pure:.4g}, and spend no delta."
            )
    if effect is not None:
        numbers |= _effect(study, sizes, effect, stand_in, sentences, warnings)
    return {**numbers, "sentences": sentences, "warnings": warnings}


def _half_width_of_pure_epsilon(study: IpwStudy, sizes: Sizes, stand_in: StandIn) -> float | None:
    """Return the expected half-width if the study asked for delta = 0; None where that is no alternative."""
    if study.privacy.delta == 0 or study.privacy.level is Level.training_units:
        return None
    if study.estimator.variant is Variant.paper:
        return None
    privacy = study.privacy.model_copy(update={"delta": Decimal(0)})
    return ipw_expected.expected(study.model_copy(update={"privacy": privacy}), sizes, stand_in).half_width


def _effect(
    study: IpwStudy,
    sizes: Sizes,
    effect: float,
    stand_in: StandIn,
    sentences: list[str],
    warnings: list[str],
) -> dict[str, Any]:
    """Tell whether an effect of this size will be seen, and return the numbers.

    Adds to ``sentences`` and ``warnings``.
    """
    verdict = ipw_expected.drowned(study, sizes, effect, stand_in)
    (warnings if verdict.drowned else sentences).append(verdict.message + ".")
    return {
        "effect": effect,
        "drowned": verdict.drowned,
        "sign_wrong": verdict.sign_wrong,
        "units_needed": verdict.units_needed,
    }
