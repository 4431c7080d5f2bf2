"""What `plan` says of AIPW before a row is read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from causalveil.flows.planning.sentences import say_effect, say_interval
from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Guarantee
from causalveil.tasks.aipw import rehearsed
from causalveil.tasks.aipw.recipe import known_recipe
from causalveil.tasks.aipw_asymptotic import stages

# Draws of noise of which a plan says the median.
DRAWS = 5
WHOLE_RANGE = "the noise exceeds the declared range: expect all of it as interval."


def expected(study: AipwStudy, sizes: Sizes, stand_in: StandIn, effect: float | None) -> dict[str, Any]:
    """Return the expected half-width and its parts; sentences for people, numbers for scripts.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        effect: an effect in outcome units that the reader hopes to see.
    """
    if study.guarantee is Guarantee.asymptotic:
        return _asymptotic(study, sizes, stand_in, effect)
    found = [rehearsed.rehearsed(study, sizes, stand_in, seed) for seed in range(DRAWS)]
    widths = [(one.interval.upper - one.interval.lower) / 2 for one in found]
    recipe, folds = known_recipe(study, sizes), study.estimator.folds
    numbers: dict[str, Any] = {
        "treated": recipe.chance,
        "half_width": float(np.median(widths)),
        "noise_standard_error": math.sqrt(float(np.median([one.variance.noise for one in found]))),
        "sampling_standard_error": math.sqrt(float(np.median([one.variance.sampling for one in found]))),
        "score_range": float(np.median([float(one.details["score_range"]) for one in found])),
        "slopes": recipe.slopes,
        "whole_range": sum(one.interval.whole_range for one in found) * 2 > DRAWS,
    }
    sentences = [
        say_interval(study, numbers),
        f"Cross-fitting: each unit trains the models of {folds - 1} of {folds} folds and is scored in its own, so it "
        f"pays for the models of {folds - 1} fold{'s' if folds > 2 else ''} and one effect.",
        f"Decided from public sizes: the outcome model has {'slopes' if recipe.slopes else 'arm means alone'}.",
    ]
    warnings = warned(study, sizes, stand_in)
    if effect is not None:
        say_effect(effect, numbers, sentences, warnings)
    return {**numbers, "sentences": sentences, "warnings": warnings}


def formula(study: AipwStudy, sizes: Sizes, stand_in: StandIn) -> float:
    """Return the expected half-width by formulas alone."""
    if study.guarantee is Guarantee.asymptotic:
        return stages.expected_half_width(study, sizes, stand_in)
    return rehearsed.formula(study, sizes, stand_in)


def warned(study: AipwStudy, sizes: Sizes, stand_in: StandIn) -> list[str]:
    """Return the warnings of :func:`expected` without an effect, by formulas."""
    if study.guarantee is Guarantee.asymptotic:
        return _not_protected(study)
    whole = rehearsed.formula(study, sizes, stand_in) >= study.outcome.width
    return [WHOLE_RANGE] if whole else []


def _not_protected(study: AipwStudy) -> list[str]:
    return [f"not protected: {sentence}." for sentence in study.unprotected]


def _asymptotic(study: AipwStudy, sizes: Sizes, stand_in: StandIn, effect: float | None) -> dict[str, Any]:
    """The paper's intervals: their caveats are the warnings."""
    half = stages.expected_half_width(study, sizes, stand_in)
    numbers: dict[str, Any] = {"treated": stand_in.treated, "half_width": half}
    sentences = [f"Expected {study.confidence:.0%} interval: estimate ± {half:.4g}."]
    warnings = _not_protected(study)
    if effect is not None:
        say_effect(effect, numbers, sentences, warnings)
    return {**numbers, "sentences": sentences, "warnings": warnings}
