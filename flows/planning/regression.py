"""What `plan` says of a regression before a row is read."""

from __future__ import annotations

from typing import Any

from causalveil.flows.planning.sentences import say_effect, say_interval
from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.regression import expected as regression_expected


def expected(study: RegressionStudy, sizes: Sizes, stand_in: StandIn, effect: float | None) -> dict[str, Any]:
    """Expected half-width and its parts, and what is adjusted for; sentences for people, numbers for scripts.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
    """
    foreseen = regression_expected.expected(study, sizes, stand_in)
    found, recipe = foreseen.findings, foreseen.recipe
    numbers: dict[str, Any] = {
        "treated": stand_in.treated,
        "half_width": foreseen.half_width,
        "noise_standard_error": found.details["noise_standard_error"],
        "sampling_standard_error": found.details["sampling_standard_error"],
        "adjustment": found.details["adjustment"],
        "features": found.details["features"],
        "whole_range": found.interval.whole_range,
        "bias": found.interval.bias,
    }
    features = recipe.columns.features(False)
    sentences = [
        say_interval(study, numbers),
        f"Decided from public sizes: {features} column{'s' if features > 1 else ''} of covariates, "
        f"{found.details['adjustment']}.",
    ]
    if found.interval.bias > 0:
        sentences.append(f"It allows for a bias of {found.interval.bias:.3g} to either side.")
    warnings: list[str] = []
    if recipe.moments is None and not study.estimator.trial:
        warnings.append(
            "at this size and budget covariates would drown in noise and are not used: the estimate is a difference of "
            "arm means, and its interval allows for confounding of the declared size alone. More units or epsilon, or "
            "fewer covariates, let it adjust."
        )
    elif recipe.partly:
        warnings.append(
            "noise hides some directions of the covariates; what they show of confounding is allowed for, and what "
            "lies in one of them alone is not seen."
        )
    elif not recipe.pairs and not study.estimator.trial:
        warnings.append(
            "covariates are adjusted for linearly: squares and products would cost more than they bring at this size."
        )
    least = regression_expected.least_share(study, sizes)
    if least is not None and min(stand_in.treated, 1 - stand_in.treated) < least:
        warnings.append(
            f"the smaller arm needs about {least:.1%} of the units to be adjusted for; with less the estimate is "
            "unadjusted."
        )
    if effect is not None:
        say_effect(effect, numbers, sentences, warnings)
    return {**numbers, "sentences": sentences, "warnings": warnings}
