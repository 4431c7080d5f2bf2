"""AIPW: what was done about confounding, and what released values say that it leaves.

Post-processing of released or public values. Derivations: ``docs/proofs/aipw.md``, sections 6 and 9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.tasks.aipw.outcome_model import ArmSummary
from causalveil.tasks.aipw.recipe import Recipe
from causalveil.tasks.aipw.scores import Nuisances
from causalveil.tasks.aipw.shrinkage import CUTS
from causalveil.tasks.covariates.narrow_ranges import FIT, NarrowRanges
from causalveil.tasks.inference.arms import may_be_empty
from causalveil.tasks.inference.confounding import (
    LINEAR,
    NOT_COVERED_DECLARED,
    PARTLY,
    SWITCHED,
    UNADJUSTED,
    part_hidden,
)

_MODELS = "clipping, misspecification and shrinkage of the nuisance models, noise of a propensity model"
NOT_COVERED = f"confounding; {_MODELS}"
NOT_COVERED_EFFECTS = f"confounding; effect modification, where noise hides the slopes of each arm; {_MODELS}"
NOT_COVERED_BEYOND = "confounding, clipping, misspecification and shrinkage that leave more than the declared shares"
NOT_COVERED_KNOWN = "treatment that was not randomised as the known propensity says"
BOTH = "adjusted by a model of treatment, and linearly"
WEIGHTED = "partly adjusted, by a model of treatment alone"
# Slopes of which shrinkage kept so much are mostly signal: what was taken off is in their variance.
MOSTLY_KEPT = 0.5
# Of an adjustment: "partly" if more of it is open.
LOOSE = 0.1


@dataclass(frozen=True)
class OpenFold:
    """How far a fold adjusts for confounding. Scaled outcomes.

    Attributes:
        units: scored in it.
        adjusts: whether it has slopes.
        leans: whether its slopes are those of each arm, as far as noise tells at least half of what sets them apart.
        left: the difference of the arms' means that may be left of confounding, as far as moments tell.
        declared: all that the study declares for the case that nothing adjusts them.
        narrow: numbers whose declared ranges seem too narrow.
    """

    units: int
    adjusts: bool
    leans: bool
    left: float
    declared: float
    narrow: NarrowRanges = FIT

    @property
    def lines_suffice(self) -> bool:
        """Whether lines adjust it, or its released moments show that they have next to nothing to adjust for."""
        return self.adjusts or self.left < self.declared


@dataclass(frozen=True)
class AipwAdjustment:
    """What was done about confounding, and what it leaves.

    Attributes:
        study: the study.
        folds: how far each adjusts.
        weighted: whether a model of treatment weighs the scores.
        asked: whether anything was to adjust, by the recipe.
        drowned: whether the released treated share does not tell an arm from an empty one, whose mean nobody has seen.
    """

    study: AipwStudy
    folds: tuple[OpenFold, ...]
    weighted: bool
    asked: bool
    drowned: bool

    @property
    def bias(self) -> float:
        """What the interval allows for, scaled outcomes, 0 or more.

        Nothing where treatment was randomised, or where ``omitted_confounding`` speaks of all that is left.
        """
        if self._randomised or self.study.estimator.omitted_confounding:
            return 0.0
        return sum(fold.units * fold.left for fold in self.folds) / sum(fold.units for fold in self.folds)

    @property
    def allows_for_all(self) -> bool:
        """Whether confounding of the declared size lies within the interval, whatever its form."""
        return all(fold.left >= fold.declared for fold in self.folds)

    @property
    def words(self) -> str | None:
        """What was done about confounding; None where the propensity is known."""
        if self._randomised:
            return None
        lines = [fold.lines_suffice for fold in self.folds]
        if not any(lines):
            if self.weighted:
                return WEIGHTED
            return SWITCHED if self.asked else UNADJUSTED
        if not all(lines) or any(fold.left > LOOSE * fold.declared for fold in self.folds):
            return PARTLY
        return BOTH if self.weighted else LINEAR

    @property
    def not_covered(self) -> str:
        """What may move the estimate beyond its interval."""
        narrow = NarrowRanges.together(fold.narrow for fold in self.folds).words
        return self._not_covered if self._randomised else "; ".join([self._not_covered, *narrow])

    @property
    def _not_covered(self) -> str:
        if self._randomised:
            return NOT_COVERED_KNOWN
        if self.study.estimator.omitted_confounding is not None:
            return NOT_COVERED_BEYOND
        if self.allows_for_all:
            return NOT_COVERED_DECLARED
        return NOT_COVERED if all(fold.leans for fold in self.folds if fold.adjusts) else NOT_COVERED_EFFECTS

    @property
    def _randomised(self) -> bool:
        return self.study.estimator.propensity.known is not None


def adjustment(
    study: AipwStudy,
    recipe: Recipe,
    summaries: Sequence[ArmSummary],
    nuisances: Sequence[Nuisances],
    deviation: float | None = None,
) -> AipwAdjustment:
    """What these released models do about confounding.

    Args:
        study: the study.
        recipe: its charges and sizes.
        summaries: of each fold's training units.
        nuisances: by which each fold is scored.
        deviation: of the outcome within arms, where it is known better than by the summaries.
    """
    if deviation is not None:
        summaries = [replace(found, deviation=deviation) for found in summaries]
    # What moments that say nothing leave is measured by this alone, and noise has made the smaller ones small.
    largest = max(found.deviation for found in summaries)
    parts = zip(recipe.known_sizes, summaries, nuisances, strict=True)
    return AipwAdjustment(
        study=study,
        folds=tuple(_open_fold(study, units, found, models, largest) for units, found, models in parts),
        weighted=are_weighted(nuisances),
        asked=recipe.slopes_cost is not None or recipe.penalty is not None,
        drowned=_an_arm_may_be_empty(study, summaries),
    )


def are_weighted(nuisances: Sequence[Nuisances]) -> bool:
    """Whether a model of treatment weighs the scores."""
    return any(models.coefficients is not None for models in nuisances)


def is_rare(study: AipwStudy, summary: ArmSummary) -> bool:
    """Whether an arm is so small that the clip cuts many scores of a model of treatment, which then balance little."""
    low, high = study.estimator.propensity.bounds
    return not 2 * low <= summary.treated_share <= 1 - 2 * (1 - high)


def _open_fold(study: AipwStudy, units: int, found: ArmSummary, models: Nuisances, largest: float) -> OpenFold:
    """What a fold leaves. All that is declared counts, in standard deviations of the outcome within arms.

    With slopes it counts as far as released moments leave the adjustment open, and with it what they tell is missing.
    Without slopes all counts; if released moments are believed, more if they show more, and no more than these can
    hide. Numbers that are cut away may confound as much as so many of all columns may. A model of treatment alone
    takes off a part of it that its penalty, its noise and the clip of scores make unknown, so none is counted.
    """
    outcome = models.outcome
    loose = _open_part(study, found, outcome.loose)
    left = declared = study.estimator.confounding_prior.bias() * (largest if loose == 1.0 else found.deviation)
    cut_away = declared * part_hidden(len(outcome.narrow.clipped), len(outcome.slopes))
    if outcome.adjusts:
        # Of what shrinkage took off nothing is known where noise drowns most of it.
        missing = outcome.missing + outcome.beyond + cut_away
        left = min(left, left * max(loose, 1 - outcome.common_factor / MOSTLY_KEPT) + missing)
    elif loose < 1.0:
        left = min(max(left, outcome.seen), outcome.hidden + cut_away)
    return OpenFold(units, outcome.adjusts, outcome.leaning_factor >= MOSTLY_KEPT, left, declared, outcome.narrow)


def _open_part(study: AipwStudy, summary: ArmSummary, loose: float) -> float:
    """``loose``, and what cuts take off beyond it where an arm is small, for its rows lie further out.

    All of it where the share is not seen to be at least half of its clip: scores then say little of the smaller arm.
    """
    low, high = study.estimator.propensity.bounds
    far = 2 * math.sqrt(summary.treated_share_variance)
    if not low / 2 <= summary.observed_share - far <= summary.observed_share + far <= (1 + high) / 2:
        return 1.0
    return min(1.0, loose + CUTS * (0.5 / float(summary.parts.min()) - 1))


def _an_arm_may_be_empty(study: AipwStudy, summaries: Sequence[ArmSummary]) -> bool:
    """By the mean share of all folds. Not asked where it is known."""
    if study.estimator.propensity.known is not None:
        return False
    share = sum(found.observed_share for found in summaries) / len(summaries)
    variance = sum(found.treated_share_variance for found in summaries) / len(summaries) ** 2
    return may_be_empty(share, math.sqrt(variance), study.confidence)
