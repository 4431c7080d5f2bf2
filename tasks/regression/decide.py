"""Whether a study adjusts at all: by public rules before a row is read, and by the first two releases.

A study whose expected interval is narrower without slopes and weights, allowances in it, does not pay for them. What is
expected is that of a stand-in population (``stand_in.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.protocols.regression import RegressionStudy
from causalveil.tasks.covariates.columns import Basis
from causalveil.tasks.regression.basis import expected_adjustment, features_of, told_apart
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.lines.adjust import unadjusted
from causalveil.tasks.regression.lines.adjustment import Adjustment, Seen, expected_width, judged_width
from causalveil.tasks.regression.lines.joint import JointMoments
from causalveil.tasks.regression.lines.kept import ENTER_WIDTH, adjusted_by, richest
from causalveil.tasks.regression.recipe import PARTLY, Judged, RegressionRecipe, arms_recipe, full_recipe, itself
from causalveil.tasks.regression.scales import Scales
from causalveil.tasks.regression.stand_in import expected_scales

# Deviation of outcomes of the stand-in population, of the declared range: it has room for the few far out.
SPREAD = 1 / 16


def recipe(study: RegressionStudy, sizes: Sizes | None, judged: Judged = itself) -> RegressionRecipe:
    """What the study does with its budget.

    Args:
        study: the study.
        sizes: its sizes; None: unknown.
        judged: by what a recipe is judged: itself, or the part of it that one question of a protocol has.

    Raises:
        StudyError: a budget of so many digits that it cannot be divided exactly.
    """
    return _recipe(_Asked(study, sizes, judged))


@dataclass(frozen=True)
class _Asked:
    """Arguments of :func:`recipe`, which every stage asks for anew; a study holds mappings and has no hash itself."""

    study: RegressionStudy
    sizes: Sizes | None
    judged: Judged

    def __hash__(self) -> int:
        return hash((self.sizes, self.judged))


@lru_cache(maxsize=32)
def _recipe(asked: _Asked) -> RegressionRecipe:
    study, sizes, judged = asked.study, asked.sizes, asked.judged
    full = full_recipe(study, sizes, judged)
    if sizes is None:
        return full
    arms = arms_recipe(study, sizes, judged)
    # A protocol's subgroups are counted by release 1, whatever it has.
    ways = [full, full_recipe(study, sizes, judged, few=True)] if judged is itself else [full]
    possible = [way for way in ways if judged(way).noise_ratio(way.columns.features(Basis.linear)) <= PARTLY]
    if not possible:
        return arms
    # By lines alone, which any basis has.
    full = min(possible, key=lambda way: _expected_choice(study, judged(replace(way, basis=Basis.linear)))[1])
    # Judged as if products stay: where they would be left out again, their noise is not worth it.
    bases = full.columns.bases(full.basis) if study.estimator.basis == "auto" else [full.basis]
    found = [_expected_choice(study, judged(replace(full, basis=basis)), keep=True) for basis in bases]
    place = richest([width for _, width in found], ENTER_WIDTH)
    full, (choice, width) = replace(full, basis=bases[place]), found[place]
    if not choice.adjusted:
        return arms
    # In a trial the arms' covariates are alike, and their slopes need not differ.
    if not study.estimator.trial and not full.partly:
        own = replace(full, by_arm=True)
        apart, wide = _expected_choice(study, judged(own), keep=True)
        units, noise = judged(own).units or 1, judged(own).effect_noise().deviation
        if judged_width(apart, units, noise) < judged_width(choice, units, noise):
            full, width = own, wide
    # The scores of a study that adjusts have less than half of the budget that they would have alone.
    _, alone = _expected_choice(study, judged(arms))
    return full if width <= alone else arms


def _expected_choice(study: RegressionStudy, plan: RegressionRecipe, keep: bool = False) -> tuple[Adjustment, float]:
    """What a recipe would come to in the stand-in population, and how wide its interval would be; outcomes in [-1, 1].

    ``keep``: squares and products stay even if the interval is narrower without.
    """
    units = plan.units or 1
    scales = expected_scales(study, plan, units, StandIn(deviation=SPREAD * study.outcome.width))
    noise = plan.effect_noise().deviation
    if plan.moments is None:
        choice = unadjusted(study.estimator, scales, study.estimand, units, noise)
    else:
        features = told_apart(study, plan, scales, plan.features(scales))
        choice = expected_adjustment(study, plan, scales, features, keep)
    return choice, scales.limit * expected_width(choice, units, noise)


def choose(
    study: RegressionStudy,
    plan: RegressionRecipe,
    scales: Scales,
    moments: JointMoments | None,
    drawn: int | None = None,
) -> tuple[Features | None, Adjustment, Seen | None]:
    """What is adjusted for: post-processing of the first two releases.

    ``drawn``: of how many people the moments are, where these stand for more.

    Raises:
        ValueError: the number of units is not known.
    """
    if plan.units is None:
        raise ValueError("an adjustment needs the number of units")
    noise = plan.effect_noise().deviation
    if moments is None:
        plain = unadjusted(study.estimator, scales, study.estimand, plan.units, noise)
        return None, plain, None
    features = features_of(study, plan, scales)
    return features, *adjusted_by(study, plan, scales, features, moments, drawn=drawn)
