"""What `plan` says of a regression before a row is read."""

from __future__ import annotations

from typing import Any

from causalveil.flows.planning.sentences import say_effect, say_interval
from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.covariates.columns import Basis
from causalveil.tasks.inference.confounding import LINEAR
from causalveil.tasks.regression import expected as regression_expected
from causalveil.tasks.regression.decide import recipe as decided
from causalveil.tasks.regression.interval import RICHER
from causalveil.tasks.regression.recipe import RegressionRecipe
from causalveil.tasks.regression.rehearsed import ends, rehearsed

# A whole range is expected as often as an interval misses, or more often.
OFTEN_EMPTY = 0.05
SHARED_SLOPES = (
    "at this size and budget both arms share slopes: if effects differ with covariates that vary more in one arm than "
    "in the other, the estimate is then off by what its interval does not hold."
)
PART_OF_THE_WAY = (
    "noise lets slopes go about {:.0%} of the way from both arms' to each arm's own: if effects differ with covariates "
    "that vary more in one arm than in the other, about {:.0%} of what that does to shared slopes stays, and the "
    "interval holds it where release 2 shows it."
)
BASIS_IN_WORDS = {
    Basis.linear: "covariates are adjusted for linearly: squares, or products, would cost more than they bring at this "
    "size.",
    Basis.squares: "covariates are adjusted for by lines and squares: products would cost more than they bring at this "
    "size. What treatment and outcome both follow beyond lines and squares stays in the estimate.",
    Basis.pairs: "covariates are adjusted for by lines, squares and products: what treatment and outcome both follow "
    "beyond these stays in the estimate, and more units or epsilon do not take it out.",
    Basis.cubes: "covariates are adjusted for by lines, squares, products and cubes: what treatment and outcome both "
    "follow beyond these stays in the estimate, and more units or epsilon do not take it out.",
}


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
    mean, others = rehearsed(study, sizes, stand_in), ends(study, sizes, stand_in)
    every = (*others.values(), mean.half_width)
    numbers: dict[str, Any] = {
        "treated": stand_in.treated,
        "half_width": mean.half_width,
        "half_width_range": [min(every), max(every)],
        "noise_standard_error": mean.noise,
        "sampling_standard_error": mean.sampling,
        "adjustment": found.details["adjustment"],
        "features": found.details["features"],
        "whole_range": found.interval.whole_range,
        "bias": mean.bias,
    }
    features = recipe.columns.features(Basis.linear)
    sentences = [
        say_interval(study, numbers),
        f"It depends on people of whom nothing is known yet, from ± {min(every):.3g} to ± {max(every):.3g}: "
        + ", ".join(f"{width:.3g} where {where}" for where, width in others.items())
        + f". Assumed is a correlation of {stand_in.correlation:g}, and that they explain {stand_in.explained:.0%} of "
        "the outcome (`--correlation`, `--explained`, `--deviation`, `--mean`, `--spread`). Heavy tails widen it "
        "further.",
        f"Decided from public sizes: {features} column{'s' if features > 1 else ''} of covariates, "
        f"{_decided(recipe, str(found.details['adjustment']))}.",
    ]
    if mean.bias > 0:
        sentences.append(f"It allows for a bias of {mean.bias:.3g} to either side.")
    warnings = warned(study, sizes, stand_in)
    if effect is not None:
        say_effect(effect, numbers, sentences, warnings)
    return {**numbers, "sentences": sentences, "warnings": warnings}


def half_width(study: RegressionStudy, sizes: Sizes, stand_in: StandIn) -> float:
    """Return the half-width of :func:`expected`, without the others that it names beside it."""
    return rehearsed(study, sizes, stand_in).half_width


def formula(study: RegressionStudy, sizes: Sizes, stand_in: StandIn) -> float:
    """Expected half-width without a rehearsal."""
    return regression_expected.expected(study, sizes, stand_in).half_width


def warned(study: RegressionStudy, sizes: Sizes, stand_in: StandIn) -> list[str]:
    """The warnings of :func:`expected` without an effect: they need no rehearsal."""
    recipe, warnings = decided(study, sizes), list[str]()
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
    elif not study.estimator.trial:
        warnings.append(BASIS_IN_WORDS[recipe.basis])
    if recipe.moments is not None and not study.estimator.trial:
        own = float(regression_expected.expected(study, sizes, stand_in).findings.details["slopes_by_arm"])
        if own == 0:
            warnings.append(SHARED_SLOPES)
        elif own < 1:
            warnings.append(PART_OF_THE_WAY.format(own, (1 - own) ** 2))
    empty = regression_expected.chance_of_whole_range(study, sizes, stand_in)
    if empty > OFTEN_EMPTY:
        warnings.append(
            f"in {empty:.0%} of runs noise does not tell the smaller arm from an empty one: the interval is then the "
            "declared range. More units or epsilon help, or more treated."
        )
    least = regression_expected.least_share(study, sizes)
    if least is not None and min(stand_in.treated, 1 - stand_in.treated) < least:
        warnings.append(
            f"the smaller arm needs about {least:.1%} of the units to be adjusted for; with less the estimate is "
            "unadjusted."
        )
    return warnings


def _decided(recipe: RegressionRecipe, expected: str) -> str:
    """What the recipe allows, where the stand-in population alone would be adjusted linearly."""
    if recipe.basis in RICHER and expected == LINEAR:
        return f"{RICHER[recipe.basis]} unless released moments say that these widen the interval"
    return expected
