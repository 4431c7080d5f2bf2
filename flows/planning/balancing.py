"""Numbers and sentences that `plan` has on balancing weights before a row is read."""

from __future__ import annotations

from typing import Any

from causalveil.flows.planning.sentences import put_into, say_effect, say_imbalance, say_interval, say_people
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.balancing.stages import expected as expected_findings
from causalveil.tasks.inference.people import Foreseen, Rehearsed
from causalveil.tasks.weighting.expected import EXPLAINED, OVERLAP


def expected(
    study: BalancingStudy, sizes: Sizes, stand_in: StandIn, effect: float | None, rehearsed: Rehearsed | None = None
) -> dict[str, Any]:
    """Return the expected half-width and its parts.

    The result has sentences for people and numbers for scripts.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
        rehearsed: widths in place of those of formulas.
    """
    found, half_width = expected_findings(study, sizes, stand_in)
    numbers: dict[str, Any] = {
        "treated": stand_in.treated,
        "half_width": half_width,
        "noise_standard_error": found.details["noise_standard_error"],
        "sampling_standard_error": found.details["sampling_standard_error"],
        "largest_weight": found.details["largest_weight"],
        "whole_range": found.interval.whole_range,
        "bias": found.interval.bias,
    }
    if rehearsed is not None:
        put_into(numbers, rehearsed)
    sentences = [say_interval(study, numbers)]
    if isinstance(rehearsed, Foreseen):
        numbers["bias"] = rehearsed.bias
        sentences.append(say_people(rehearsed, stand_in))
        if rehearsed.bias > 0:
            sentences.append(say_imbalance(rehearsed))
    elif study.estimator.allowance > 0:
        sentences.append(
            f"Weights as of covariates that move log odds of treatment by a deviation of "
            f"{OVERLAP:g} and explain {EXPLAINED:.0%} of the outcome's variance "
            f"within arms; it allows for a bias of {found.interval.bias:.3g} by what imbalance is left."
        )
    warnings: list[str] = []
    if study.privacy.delta > 0:
        warnings.append("a draw of two numbers gains nothing by a delta: with delta: 0 the interval is narrower.")
    if effect is not None:
        say_effect(effect, numbers, sentences, warnings)
    return {**numbers, "sentences": sentences, "warnings": warnings}
