"""Numbers and sentences that `plan` has on AIPW before a row is read."""

from __future__ import annotations

from statistics import median
from typing import Any

from causalveil.flows.planning.medians import DRAWS, FEW, affordable, median_of, median_width
from causalveil.flows.planning.sentences import say_effect, say_interval
from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Guarantee
from causalveil.tasks.aipw.recipe import known_recipe
from causalveil.tasks.aipw.stages import rehearsed
from causalveil.tasks.aipw_asymptotic import stages
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.report.numbers import confidence_level

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
    found = rehearsals(study, sizes, stand_in, DRAWS)
    recipe, folds = known_recipe(study, sizes), study.estimator.folds
    numbers, said = median_of(found, stand_in)
    numbers |= {
        "treated": recipe.chance,
        "score_range": median(float(one.details["score_range"]) for one in found),
        "slopes": recipe.slopes,
    }
    sentences = [
        say_interval(study, numbers),
        *said,
        f"Cross-fitting: each unit trains the models of {folds - 1} of {folds} folds and is scored in its own, so it "
        f"pays for the models of {folds - 1} fold{'s' if folds > 2 else ''} and one effect.",
        f"Decided from public sizes: the outcome model has {'slopes' if recipe.slopes else 'arm means alone'}.",
    ]
    warnings = warned(study, sizes, stand_in)
    if effect is not None:
        say_effect(effect, numbers, sentences, warnings)
    return {**numbers, "sentences": sentences, "warnings": warnings}


def rehearsals(study: AipwStudy, sizes: Sizes, stand_in: StandIn, many: int) -> list[EffectFindings]:
    """Return what the study would say by so many draws of noise.

    There are fewer draws where it has many covariates.
    """
    return [rehearsed(study, sizes, stand_in, seed) for seed in range(affordable(study, many))]


def drawn(study: AipwStudy, sizes: Sizes, stand_in: StandIn, many: int) -> float:
    """Return the median half-width of so many draws.

    Under the asymptotic guarantee it is that of a formula.
    """
    if study.guarantee is Guarantee.asymptotic:
        return stages.expected_half_width(study, sizes, stand_in)
    return median_width(rehearsals(study, sizes, stand_in, many))


def warned(study: AipwStudy, sizes: Sizes, stand_in: StandIn) -> list[str]:
    """Return the warnings of :func:`expected` without an effect, by few draws."""
    if study.guarantee is Guarantee.asymptotic:
        return _not_protected(study)
    found = rehearsals(study, sizes, stand_in, FEW)
    return [WHOLE_RANGE] if sum(one.interval.whole_range for one in found) * 2 > len(found) else []


def _not_protected(study: AipwStudy) -> list[str]:
    return [f"not protected: {sentence}." for sentence in study.unprotected]


def _asymptotic(study: AipwStudy, sizes: Sizes, stand_in: StandIn, effect: float | None) -> dict[str, Any]:
    """Return the paper's intervals: their caveats are the warnings."""
    half = stages.expected_half_width(study, sizes, stand_in)
    numbers: dict[str, Any] = {"treated": stand_in.treated, "half_width": half}
    sentences = [f"Expected {confidence_level(study.confidence)} interval: estimate ± {half:.4g}."]
    warnings = _not_protected(study)
    if effect is not None:
        say_effect(effect, numbers, sentences, warnings)
    return {**numbers, "sentences": sentences, "warnings": warnings}
