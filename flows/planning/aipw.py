"""What `plan` says of AIPW before a row is read."""

from __future__ import annotations

from typing import Any

from causalveil.flows.planning.sentences import put_into, say_effect, say_interval
from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Guarantee
from causalveil.tasks.aipw import expected as aipw_expected
from causalveil.tasks.aipw.adjustment import WEIGHTED
from causalveil.tasks.aipw.rehearsed import ends, rehearsed
from causalveil.tasks.aipw_asymptotic import stages

# Slopes of which noise leaves less than this are near it.
CLEAR = 0.9


def expected(
    study: AipwStudy, sizes: Sizes, stand_in: StandIn, effect: float | None, rehearses: bool = True
) -> dict[str, Any]:
    """Expected half-width and its parts, and what the budget can learn; sentences for people, numbers for scripts.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
        rehearses: widths of a rehearsal in place of those of formulas, which tell what is done.
    """
    if study.guarantee is Guarantee.asymptotic:
        return _asymptotic(study, sizes, stand_in, effect)
    foreseen = aipw_expected.expected(study, sizes, stand_in)
    found, recipe, folds = foreseen.findings, foreseen.recipe, study.estimator.folds
    kind = str(found.details["propensity_model"])
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
    if rehearses:
        mean = rehearsed(study, sizes, stand_in)
        put_into(numbers, mean)
        numbers["bias"] = mean.bias
    sentences = [
        say_interval(study, numbers),
        f"Cross-fitting: each unit trains the models of {folds - 1} of {folds} folds and is scored in its own, so it "
        f"pays for the models of {folds - 1} fold{'s' if folds > 2 else ''} and one effect: the total is what these "
        "cost together.",
        f"Decided from public sizes: propensity score by {kind}, outcome model "
        + ("with slopes." if recipe.slopes_cost is not None else "of arm means alone."),
    ]
    done = str(found.details.get("adjustment", ""))
    if numbers["bias"] > 0:
        sentences.insert(1, _say_bias(study, done.startswith("unadjusted"), numbers["bias"]))
    if rehearses and study.estimator.propensity.known is None and study.estimator.omitted_confounding is None:
        # What released moments will tell of confounding no public number says.
        low, high = ends(study, sizes, stand_in)
        low, high = min(low, numbers["half_width"]), max(high, numbers["half_width"])
        numbers["half_width_range"] = [low, high]
        sentences.insert(
            1,
            f"It depends on covariates of which nothing is known yet: from ± {low:.3g} where they confound nothing to "
            f"± {high:.3g} where released moments do not tell how far they do, so that all of the declared size is "
            f"allowed for; assumed is a correlation of {stand_in.correlation:g}, and that one index of them drives "
            "treatment and outcome.",
        )
    warnings: list[str] = []
    if done.startswith("unadjusted"):
        warnings.append(
            "at this size and budget covariates would drown in noise and are not used: the estimate is a difference of "
            "arm means, and its interval allows for confounding of the declared size alone. More units or epsilon, or "
            "fewer covariates, let it adjust."
        )
    elif done == WEIGHTED:
        warnings.append(
            "a model of treatment alone adjusts: what its penalty, its noise and the clip of scores leave of "
            "confounding no released number tells, so the interval allows for all that is declared at any number of "
            "units and epsilon"
            + (". With a delta above 0 released moments can tell." if study.privacy.delta == 0 else ".")
        )
    elif done:
        warnings.append(
            "covariates are adjusted for linearly: curves and products of them that confound stay in the estimate, and "
            "the interval makes no allowance for them. Slopes are those of each arm as far as noise tells them apart: "
            "what it hides of effects that differ with covariates which drive treatment stays in the estimate, too."
        )
    if 0 < foreseen.slopes_kept < CLEAR and kind == "treated share":
        warnings.append(
            "slopes are little larger than their noise here: where covariates lie more unevenly within their bounds "
            "than assumed, the interval is several times wider, or the estimate ends unadjusted."
        )
    if found.interval.whole_range:
        warnings.append("the noise exceeds the declared range: expect all of it as interval.")
    if effect is not None:
        say_effect(effect, numbers, sentences, warnings)
    return {**numbers, "sentences": sentences, "warnings": warnings}


def half_width(study: AipwStudy, sizes: Sizes, stand_in: StandIn) -> float:
    """Return the half-width of :func:`expected`, without the others that it names beside it."""
    if study.guarantee is Guarantee.asymptotic:
        return stages.expected_half_width(study, sizes, stand_in)
    return rehearsed(study, sizes, stand_in).half_width


def _say_bias(study: AipwStudy, unadjusted: bool, bias: float) -> str:
    if study.estimator.omitted_confounding or unadjusted:
        declared = "omitted confounding" if study.estimator.omitted_confounding else "size of confounding"
        return f"It allows for the declared {declared}, which may move the estimate by {bias:.3g}."
    return f"It allows for a bias of {bias:.3g} by what the adjustment leaves open."


def _asymptotic(study: AipwStudy, sizes: Sizes, stand_in: StandIn, effect: float | None) -> dict[str, Any]:
    """The paper's intervals: their caveats are the warnings."""
    half = stages.expected_half_width(study, sizes, stand_in)
    numbers: dict[str, Any] = {"treated": stand_in.treated, "half_width": half}
    sentences = [f"Expected {study.confidence:.0%} interval: estimate ± {half:.4g}."]
    warnings = [f"not protected: {sentence}." for sentence in study.unprotected]
    if effect is not None:
        say_effect(effect, numbers, sentences, warnings)
    return {**numbers, "sentences": sentences, "warnings": warnings}
