"""From released scores to the estimate, its interval, and what the releases show of the arms.

Post-processing of released values. Derivations: ``docs/proofs/regression.md``, sections 5 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.protocols.regression import RegressionStudy
from causalveil.schemas.release import Variance
from causalveil.tasks.covariates.columns import Basis
from causalveil.tasks.covariates.narrow_ranges import NarrowRanges
from causalveil.tasks.inference.arms import may_be_empty
from causalveil.tasks.inference.assemble import NOISY, EffectFindings, around
from causalveil.tasks.inference.confounding import (
    COVERS_DECLARED,
    COVERS_MODELS,
    LINEAR,
    NOT_COVERED_DECLARED,
    NOT_COVERED_TRIAL,
    PARTLY,
    SWITCHED,
    UNADJUSTED,
    UNMEASURED,
)
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.lines.adjustment import Adjustment, Seen
from causalveil.tasks.regression.recipe import RegressionRecipe
from causalveil.tasks.regression.scales import Scales

# No mean square of scores over their cut is taken to be smaller than this, and no variance than this part of that of
# scores with one deviation.
LEAST_SQUARE = 1e-6
LEAST_VARIANCE = 0.25
# What scores add counts by what its square exceeds so many variances of its noise by.
CLEAR = 2.0
# Less than this part is not worth saying.
LEAST_LEFT = 0.005
COVERS_HIDDEN = "confounding in combinations of covariates that noise hides"
COVERS_LINES = "non-linear confounding by skewed covariates, as far as it is seen"
COVERS_DIFFERING = "bias from effect modification, as far as it is seen"
COVERS_UNEVEN = "bias from unequal variances of the covariates in the arms, as far as it is seen"
COVERS_RARE = "confounding by rare categories"
COVERS_CHANCES = "error of a linear model for a binary outcome"

# What no released number shows, and the interval does not hold (proof, section 8).
VARYING = "effect modification, as far as covariances of the covariates differ between arms"
VARYING_LEFT = "about {:.0%} of the bias from effect modification, which was modelled only in part"
VARYING_PRODUCTS = "modification of the effect by curves or products of covariates"
UNDECLARED = "confounding by {}, most of whose values are not among the declared levels (check their spelling)"
BEYOND = {
    Basis.linear: "dependence of the outcome on covariates beyond linear terms, unless treatment is linear in them",
    Basis.squares: "dependence of the outcome on covariates beyond lines and squares, unless treatment follows them",
    Basis.pairs: "dependence of the outcome on covariates beyond squares and products, unless treatment follows them",
    Basis.cubes: "dependence of the outcome on covariates beyond products and cubes, unless treatment follows them",
}

# What was done beside what any estimator says of it.
RICHER = {
    Basis.squares: "adjusted linearly, with squares",
    Basis.pairs: "adjusted, with squares and products",
    Basis.cubes: "adjusted, with squares, products and cubes",
}
CURVED = "adjusted linearly, skewed columns by two curves each"


@dataclass(frozen=True)
class ThreeReleases:
    """Everything that a study released, and what it was taken for.

    Attributes:
        scales: of release 1.
        features: what the moments are of; None: there was no release 2.
        choice: what release 3 was made of.
        seen: what release 2 shows; None: there was none.
        scores: the noisy sums of release 3, shape (2,).
    """

    scales: Scales
    features: Features | None
    choice: Adjustment
    seen: Seen | None
    scores: FloatArray


def in_words(recipe: RegressionRecipe, found: ThreeReleases) -> str:
    """What was done."""
    if found.features is None:
        return UNADJUSTED
    if not found.choice.adjusted:
        return SWITCHED
    if found.seen is not None and found.seen.hidden:
        return PARTLY
    basis = used_basis(found)
    if basis in RICHER:
        return RICHER[basis]
    if recipe.partly:
        return PARTLY
    return CURVED if found.features.bent else LINEAR


def used_basis(found: ThreeReleases) -> Basis:
    """The plainest basis that holds all slopes: released squares and products that widen the interval have none."""
    if found.features is None:
        return Basis.linear
    sloped = np.flatnonzero(np.abs([line.slopes for line in found.choice.lines]).sum(axis=0))
    return next(basis for basis in Basis if np.isin(sloped, found.features.places(basis)).all())


@dataclass(frozen=True)
class Effect:
    """An estimate with the parts of its error, in outcome units.

    Attributes:
        value: the estimate.
        sampling: variance of sampling.
        models: variance by noise in slopes, weights and arms' means.
        bias: largest bias that is allowed for.
        unit: by how much one unit of noise on the mean score moves the estimate.
        uneven: what of ``models`` is for what scores add where arms vary unlike each other.
    """

    value: float
    sampling: float
    models: float
    bias: float
    unit: float
    uneven: float = 0.0


def effect_of(
    half: float, units: float, noise: float, scales: Scales, choice: Adjustment, scores: FloatArray, side: bool = False
) -> Effect:
    """The estimate from released scores, and what is known of its error.

    Args:
        half: half the outcome's declared width.
        units: n.
        noise: standard deviation of the noise on each number of ``scores``.
        scales: of release 1.
        choice: what the scores are made of.
        scores: noisy sums of v and v^2, shape (2,).
        side: the scores are of treated units alone, and the estimate is their mean had everybody been treated.
    """
    mean, square = float(scores[0]) / units, max(float(scores[1]) / units, LEAST_SQUARE)
    # One deviation of a score's noise moves the estimate by this much, in outcome units.
    unit = scales.limit * choice.reach * half
    start = scales.means[0] if side else scales.means[0] - scales.means[1]
    value = start * half + unit * mean
    value -= scales.limit * half * choice.taken_off
    # Half a deviation of its noise is added to the mean square.
    spread = max(square + noise / units / 2 - mean**2, LEAST_VARIANCE / choice.cut**2)
    sampling = unit**2 * spread / units
    models = (scales.limit * half) ** 2 * choice.second_order
    # What scores add beyond noise is as well known as how far the weights are to move each arm.
    noisy = (unit * noise / units) ** 2 + sampling + (scales.limit * half * choice.made_good) ** 2
    uneven = choice.uneven**2 * max((unit * mean) ** 2 - CLEAR * noisy, 0.0)
    errors = list(zip(scales.mean_errors, (scales.share, 1 - scales.share), strict=True))[: 1 if side else 2]
    arms = sum((scales.share_error * error / part) ** 2 for error, part in errors)
    models += uneven + arms * half**2
    return Effect(value, sampling, models, choice.bias * scales.limit * half, unit, uneven)


def findings(study: RegressionStudy, recipe: RegressionRecipe, found: ThreeReleases) -> EffectFindings:
    """Estimate and interval.

    Args:
        study: the study.
        recipe: its charges and sizes.
        found: what was released.

    Raises:
        ValueError: the number of units is not known.
    """
    if recipe.units is None:
        raise ValueError("an interval needs the number of units")
    scales, choice, half = found.scales, found.choice, study.outcome.width / 2
    noise = recipe.effect_noise()
    effect = effect_of(half, recipe.units, noise.deviation, scales, choice, found.scores)
    value, sampling, models, bias = effect.value, effect.sampling, effect.models, effect.bias
    reach, width = noise.critical(1 - study.confidence, bias, sampling + models, effect.unit / recipe.units), 2 * half
    if scales.observed_share is not None and may_be_empty(scales.observed_share, scales.share_error, study.confidence):
        # The variance says so too, for those who pool.
        reach, models = math.inf, models + width**2
    value, interval = around(value, reach, study.confidence, (-width, width))
    also = [COVERS_MODELS] if choice.adjusted else []
    if bias > 0 and not choice.adjusted:
        also.append(COVERS_DECLARED)
    if bias > 0 and choice.adjusted and found.seen is not None and found.seen.floored:
        also.append(COVERS_HIDDEN)
    if bias > 0 and choice.adjusted and scales.rare:
        also.append(COVERS_RARE)
    if bias > 0 and choice.adjusted and found.features is not None and found.features.skewed.count:
        also.append(COVERS_LINES)
    if choice.adjusted and choice.differing > 0:
        also.append(COVERS_DIFFERING)
    if effect.uneven > 0:
        also.append(COVERS_UNEVEN)
    if bias > 0 and choice.adjusted and scales.at_ends:
        also.append(COVERS_CHANCES)
    interval = interval.model_copy(update={"bias": bias, "covers": (*NOISY[:2], *also)})
    effect_noise = noise.deviation * effect.unit / recipe.units
    details: dict[str, float | int | str | bool] = {
        "adjustment": in_words(recipe, found),
        "effect_noise_standard_error": effect_noise,
        "noise_standard_error": math.sqrt(effect_noise**2 + models),
        "sampling_standard_error": math.sqrt(sampling),
        "treated_share": scales.share,
        "mean_treated": study.outcome.middle + half * scales.means[0],
        "mean_control": study.outcome.middle + half * scales.means[1],
        "spread": half * scales.spread,
        "slopes_by_arm": found.choice.own,
        "features": 0 if found.features is None else found.features.count,
        "not_covered": not_covered(study, recipe, found),
    }
    variance = Variance(sampling=sampling, noise=effect_noise**2 + models)
    return EffectFindings(value, interval, variance, details | _diagnostics(recipe, found))


def not_covered(study: RegressionStudy, recipe: RegressionRecipe, found: ThreeReleases) -> str:
    """What the interval does not hold."""
    if study.estimator.trial:
        return NOT_COVERED_TRIAL
    narrow = too_narrow([found.features])
    if not found.choice.adjusted:
        return "; ".join([NOT_COVERED_DECLARED, *narrow])
    parts = [UNMEASURED, *undeclared(recipe, [found.scales]), *narrow]
    parts.extend(varying([(found.features, found.choice)]))
    parts.append(BEYOND[used_basis(found)])
    wide = () if found.features is None else found.features.drowned
    if wide:
        parts.append(
            f"non-linear confounding by {', '.join(wide)}, whose declared ranges are too wide (declare narrower ones)"
        )
    floor = 0.0 if found.seen is None else found.seen.floor
    parts.append(
        f"confounding in combinations of covariates with less than {floor:.1%} of the average variance (collinear, or "
        "hidden by privacy noise)"
    )
    return "; ".join(parts)


def undeclared(recipe: RegressionRecipe, scales: Sequence[Scales]) -> list[str]:
    """What covariates most people have a value of that nobody declared, by any of some first releases."""
    places = dict.fromkeys(place for one in scales for place in one.undeclared)
    names = [recipe.columns.names[place].rpartition("=")[0] for place in places]
    return [UNDECLARED.format(", ".join(names))] if names else []


def too_narrow(several: Sequence[Features | None]) -> list[str]:
    """Which numbers have many people at the ends of their declared ranges, by any of some first releases."""
    return NarrowRanges.together(features.narrow for features in several if features is not None).words


def varying(answers: Sequence[tuple[Features | None, Adjustment]]) -> list[str]:
    """What stays of effects that differ with covariates, in that of some answers in which most does."""
    if any(features is None or choice.controls is None for features, choice in answers):
        return [VARYING]
    left, said = max((1 - choice.own) ** 2 for _, choice in answers), list[str]()
    if left >= LEAST_LEFT:
        said.append(VARYING_LEFT.format(left))
    if any(_shares_products(features, choice) for features, choice in answers):
        said.append(VARYING_PRODUCTS)
    return said


def _shares_products(features: Features | None, choice: Adjustment) -> bool:
    """Whether squares, products or cubes have slopes that serve both arms."""
    if features is None:
        return False
    others = np.setdiff1d(np.arange(features.count), features.lines)
    treated, control = (line.slopes[others] for line in choice.lines)
    return bool(treated.any()) and np.array_equal(treated, control)


def _diagnostics(recipe: RegressionRecipe, found: ThreeReleases) -> dict[str, float | int | str | bool]:
    """What release 2 shows of the arms: distances of columns before and after, overlap, explained variance."""
    seen, choice, p = found.seen, found.choice, found.scales.share
    if seen is None:
        return {}
    treated, control = (1 / (1 + lean**2 * seen.distance) for lean in choice.leaning)
    details: dict[str, float | int | str | bool] = {}
    if found.features is not None and found.features.skewed.count:
        skewed = ", ".join(found.features.columns.names[place] for place in found.features.skewed.places.tolist())
        details["curved_columns" if found.features.bent else "skewed_columns"] = skewed
    if found.scales.rare:
        details["rare_columns"] = ", ".join(recipe.columns.names[place] for place in found.scales.rare)
        details["rare_share"] = found.scales.rare_share
    details |= {
        "arms_distance": math.sqrt(seen.distance),
        "effective_treated": treated * p,
        "effective_control": control * (1 - p),
        "outcome_variance_explained": seen.explained,
        "smallest_resolved_variance": seen.floor,
        "unresolved_directions": seen.floored,
    }
    names = () if found.features is None else found.features.columns.names
    numbers = zip(names, seen.before.tolist(), seen.after.tolist(), seen.error.tolist(), strict=False)
    for name, before, after, error in numbers:
        details[f"difference_before[{name}]"] = before
        details[f"difference_after[{name}]"] = after
        details[f"difference_noise[{name}]"] = error
    return details
