"""What `plan` says of AIPW before a row is read."""

from __future__ import annotations

from typing import Any

from causalveil.flows.planning.sentences import Widths, say_effect, say_interval
from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Guarantee
from causalveil.tasks.aipw import expected as aipw_expected
from causalveil.tasks.aipw.interval import propensity_kind
from causalveil.tasks.aipw_asymptotic import stages

# Slopes of which noise leaves less than this are near it.
CLEAR = 0.9


def expected(
    study: AipwStudy, sizes: Sizes, stand_in: StandIn, effect: float | None, rehearsed: Widths | None = None
) -> dict[str, Any]:
    """Expected half-width and its parts, and what the budget can learn; sentences for people, numbers for scripts.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
        rehearsed: widths in place of those of formulas.
    """
    if study.guarantee is Guarantee.asymptotic:
        return _asymptotic(study, sizes, stand_in, effect)
    foreseen = aipw_expected.expected(study, sizes, stand_in)
    found, recipe, folds = foreseen.findings, foreseen.recipe, study.estimator.folds
    kind = propensity_kind(study, recipe)
    numbers: dict[str, Any] = {
        "treated": stand_in.treated,
        "half_width": foreseen.half_width,
        "noise_standard_error": found.details["noise_standard_error"],
        "sampling_standard_error": found.details["sampling_standard_error"],
        "score_range": found.details["score_range"],
        "propensity_model": kind,
        "slopes": recipe.slopes_cost is not None,
        "whole_range": found.interval.whole_range,
        "bias": found.interval.bias,
        "adjustment": found.details.get("adjustment"),
    }
    if rehearsed is not None:
        rehearsed.put_into(numbers)
    sentences = [
        say_interval(study, numbers),
        f"Cross-fitting: each unit trains the models of {folds - 1} of {folds} folds and is scored in its own, so it "
        f"pays for the models of {folds - 1} fold{'s' if folds > 2 else ''} and one effect: the total is what these "
        "cost together.",
        f"Decided from public sizes: propensity score by {kind}, outcome model "
        + ("with slopes." if recipe.slopes_cost is not None else "of arm means alone."),
    ]
    if found.interval.bias > 0:
        declared = "omitted confounding" if study.estimator.omitted_confounding else "size of confounding"
        sentences.insert(
            1, f"It allows for the declared {declared}, which may move the estimate by {found.interval.bias:.3g}."
        )
    warnings: list[str] = []
    done = str(found.details.get("adjustment", ""))
    if done.startswith("unadjusted"):
        warnings.append(
            "at this size and budget covariates would drown in noise and are not used: the estimate is a difference of "
            "arm means, and its interval allows for confounding of the declared size alone. More units or epsilon, or "
            "fewer covariates, let it adjust."
        )
    elif 0 < foreseen.slopes_kept < CLEAR and kind == "treated share":
        warnings.append(
            "slopes are little larger than their noise here: where covariates lie more unevenly within their bounds "
            "than assumed, the interval is several times wider, or the estimate ends unadjusted."
        )
    if found.interval.whole_range:
        warnings.append("the noise exceeds the declared range: expect all of it as interval.")
    if effect is not None:
        say_effect(effect, numbers, sentences, warnings)
    return {**numbers, "sentences": sentences, "warnings": warnings}


def _asymptotic(study: AipwStudy, sizes: Sizes, stand_in: StandIn, effect: float | None) -> dict[str, Any]:
    """The paper's intervals: their caveats are the warnings."""
    half = stages.expected_half_width(study, sizes, stand_in)
    numbers: dict[str, Any] = {"treated": stand_in.treated, "half_width": half}
    sentences = [f"Expected {study.confidence:.0%} interval: estimate ± {half:.4g}."]
    warnings = [f"not protected: {sentence}." for sentence in study.unprotected]
    if effect is not None:
        say_effect(effect, numbers, sentences, warnings)
    return {**numbers, "sentences": sentences, "warnings": warnings}
