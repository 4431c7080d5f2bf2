"""Compute the estimate of an adjustment and the law of its error.

The error has four parts: sampling, noise of the releases, slopes and weights as the posterior leaves them possible, and
confounding by what is not adjusted for (hidden columns, curves, values that declared ranges cut). Quantiles of their
sum are the interval (``tasks/estimate/answers.py``). Of a normal number that is cut to its range a line sees a part
r^2, and leaves (1 - r^2)/r^2 of the confounding that it takes off (``tasks/data/covariates.py``). Nothing tells whether
confounding follows the number or what is left of it, so the law has that part on either side of the estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from causalveil.schemas.confounding import (
    AdjustmentMethod,
    ConfoundingPrior,
    ConfoundingStatement,
    of_share,
    of_trial,
)
from causalveil.schemas.limits import Code, Limit, limit
from causalveil.schemas.study import Estimand
from causalveil.tasks.data.covariates import FIT, DeclaredRanges, NarrowRanges, Ranged
from causalveil.tasks.estimate.adjust.features import FeatureMap, Scores
from causalveil.tasks.estimate.adjust.posterior import Learnt, hidden_bias, losses
from causalveil.tasks.estimate.adjust.recipe import AdjustsBy, looks_for_curves, may_curve
from causalveil.tasks.estimate.adjust.released import Public, RandomDraws, ReleasedScores
from causalveil.tasks.estimate.adjust.scales import TAIL_DOUBT, FoundScales
from causalveil.tasks.estimate.adjust.screen import Kept
from causalveil.tasks.estimate.clusters import ClusteredVariance, Contributions
from causalveil.tasks.estimate.interval import Noise
from causalveil.tasks.machine.arrays import FloatArray

if TYPE_CHECKING:
    from causalveil.tasks.estimate.adjust.five_releases import FiveReleases
    from causalveil.tasks.estimate.adjust.questions import Answered, Asked


# No effect is larger, in half ranges of the outcome.
FARTHEST = 2.0
COVERS_UNSEEN = (limit(Code.confounding_hidden),)
COVERS_CURVES = (limit(Code.curves_not_kept),)


class Adjusts(Protocol):
    """A study whose estimator adjusts for covariates."""

    @property
    def estimator(self) -> AdjustsBy:
        """Settings of the estimator."""


def covers_unseen(public: Public) -> tuple[Limit, ...]:
    """Return the limits that name the unadjusted confounding which the interval covers."""
    if public.trial:
        return ()
    return (*COVERS_UNSEEN, *COVERS_CURVES) if looks_for_curves(public) else COVERS_UNSEEN


def not_covered(public: Public) -> tuple[Limit, ...]:
    """Return the limits that name the errors which no interval covers."""
    if public.trial:
        return (limit(Code.not_randomised),)
    return limit(Code.unmeasured), limit(curves_not_covered(public))


def curves_not_covered(public: Public) -> Code:
    """Return the code of the curves that the interval does not cover."""
    if looks_for_curves(public):
        return Code.other_curves
    return Code.other_terms if public.stated else Code.any_curves


def confounding(
    study: Adjusts,
    public: Public,
    share: float,
    left_out: tuple[str, ...],
    explained: float | None = None,
    unseen: float | None = None,
) -> ConfoundingStatement:
    """State how confounding was adjusted for, or in a trial how precision was gained.

    Args:
        study: the study.
        public: public facts of the study.
        share: the part of the expected confounding's variance that adjustment removed.
        left_out: covariates that could not be adjusted for.
        explained: the part of the outcome's variance within arms that slopes explain; None where it is unknown.
        unseen: by how much curves that noise hides, or that were not looked for, may move the estimate, in outcome
            units.
    """
    if study.estimator.trial:
        return of_trial(AdjustmentMethod.regression, explained)
    default = study.estimator.confounding_prior == ConfoundingPrior()
    linear = may_curve(public) and not looks_for_curves(public)
    return of_share(share, linear=linear, default=default, left_out=left_out, unseen=unseen)


def cut_away(public: Public, scales: FoundScales, learnt: Learnt) -> tuple[float, NarrowRanges]:
    """Return the bias by values beyond declared ranges, and numbers with many units at an end.

    The bias is the confounding that lines leave, in deviations of the outcome.
    """
    margins = {place: margin for place, margin in enumerate(scales.margins) if margin is not None}
    if public.trial or not margins:
        return 0.0, FIT
    places, some = tuple(margins), list(margins.values())
    columns = [public.columns[scales.kept[place]] for place in places]
    names, ends = tuple(column.name for column in columns), np.array([margin.shares[[0, -1]] for margin in some]).T
    # A number has a floor, as scores and counts do, where more than half have its lowest value: a cut normal number of
    # which that is true would have its mean beyond the declared range.
    from_zero = tuple(column.from_zero or heap > 1 / 2 for column, heap in zip(columns, ends[0], strict=True))
    means, variances = (np.array([getattr(margin, name) for margin in some]) for name in ("mean", "variance"))
    numbers = Ranged(DeclaredRanges(places, names, from_zero), means, variances, 1.0, ends=(ends[0], ends[1]))
    apart = learnt.draws.apart.mean(axis=0)[list(places)]
    left = numbers.left(apart * scales.deviation[list(places)], scales.arms.share)
    seen = np.array(learnt.lean) @ learnt.slopes[:, list(places)] * apart
    return float(left @ np.abs(seen)), NarrowRanges.of(numbers)


# The square of a mean score less its prediction shows misfit beyond this many of its variances: a bias of either sign.
# An error whose mean square is this many times another's is the larger one (chosen on ISLP's Default; judged on
# docs/figures/accuracy.md, of which 17 of 1,680 runs moved: errors .017 for .027, as many intervals hold; without it
# 90 moved, and errors doubled).
CLEAR = 2.0


@dataclass(frozen=True)
class ErrorLaw:
    """The estimate, and the law of its error: ``error`` + N(0, sampling^2) + noise.

    All is in units of u.

    Attributes:
        value: the estimate.
        error: draws of the error that models leave possible, of mean 0, shape (K,).
        sampling: its standard error.
        scale, mixing: of the noise of release 5, as there.
        adjusted_share: the part of the expected confounding's variance that adjustment removed.
        explained: the part of the outcome's variance within arms that slopes explain; None where noise hides it.
        narrow: numbers whose declared ranges cut many people.
        clustered: the sampling variance where units of one cluster are correlated; of one side of several, that of the
            arm's comparison with the reference.
        unseen: by how much curves that noise hides may move the estimate; None where nothing was adjusted for, and of
            a model that the study states.
    """

    value: float
    error: FloatArray
    sampling: float
    scale: float
    mixing: float | None
    adjusted_share: float
    explained: float | None
    narrow: NarrowRanges = FIT
    clustered: ClusteredVariance | None = None
    unseen: float | None = None

    @property
    def noise(self) -> Noise:
        """The law of release 5's noise."""
        return Noise(self.scale, self.mixing)


def wide_of(scales: FoundScales, learnt: Learnt) -> FloatArray:
    """Return the expected mean square of scores that each arm adds, shape (2,)."""
    lean, shares = np.array(learnt.lean), np.array([scales.arms.share, 1 - scales.arms.share])
    blur = (scales.means_sd / scales.arms.spread) ** 2
    squares: FloatArray = learnt.counts * (1 + lean**2 * learnt.distances) / shares * (learnt.residual + blur)
    return squares


def square_of(wide: float, scores: Scores, released: ReleasedScores, few: float = 1.0) -> float:
    """Return the mean square of scores, as expected and as seen, weighted by their doubts.

    ``few``: of survey weights a the mean of a by a, sum a^2/sum a; a score is then squared with its weight.
    """
    square_sd = released.sd if released.square_sd is None else released.square_sd
    wide *= few
    trust = (TAIL_DOUBT * wide) ** 2 / ((TAIL_DOUBT * wide) ** 2 + (scores.cut**2 * square_sd) ** 2)
    return max(wide + trust * (scores.cut**2 * released.square - wide), wide / 4)


def centres_of(question: FiveReleases, released: ReleasedScores, sides: int) -> FloatArray:
    """Return the mean of v in controls and in treated by release 5.

    Of one side of several it is that of its own arm.

    v is off in an arm by the error of its mean in release 1, over the arm's share; release 5 shows the difference of
    these errors.
    """
    p = question.found_scales.arms.share
    return np.array([released.mean / p]) if sides > 1 else released.mean / (2 * np.array([1 - p, p]))


def contributions(
    estimand: Estimand,
    asked: Asked,
    released: Answered[ReleasedScores],
    arms: int,
    units_of: FloatArray | None = None,
) -> Contributions:
    """Return the contribution of scores to each answer, by the releases before the last.

    ``units_of``: the unit of an outcome in each subgroup, shape (outcomes, groups), where units differ; 0 where an
    outcome has no answer.
    """
    groups = [group for group in asked if group is not None]
    shape = (len(groups[0]) if groups else 1, len(asked), arms)
    units, squares, errors = np.zeros(shape), np.zeros(shape), np.zeros((*shape, arms))
    counts, over = np.zeros(shape[1:]), np.zeros(len(asked))
    for g, (group, answers) in enumerate(zip(asked, released, strict=True)):
        if group is None or answers is None:
            continue
        for k, (row, scores) in enumerate(zip(group, answers, strict=True)):
            for s, (question, release) in enumerate(zip(row, scores, strict=True)):
                here = slice(None) if len(row) == 1 else slice(s, s + 1)
                counts[g, here], units[k, g, here], squares[k, g, here], errors[k, g, here, here] = _added(
                    question, release, len(row)
                )
        over[g] = {Estimand.ATE: counts[g].sum(), Estimand.ATT: counts[g, 1], Estimand.ATC: counts[g, 0]}[estimand]
    shares = np.tile(over / max(over.sum(), 1.0), (shape[0], 1))
    return Contributions(units, squares, counts, errors, shares if units_of is None else shares * units_of)


def _added(
    question: FiveReleases, released: ReleasedScores, sides: int
) -> tuple[FloatArray, float, FloatArray, FloatArray]:
    """Return counts, unit, sums of squares and errors of centres, by arm or of a side's arm."""
    scales, scores, public = question.found_scales, question.scores_asked, question.public
    unit, share = scores.cut * scales.arms.spread / public.units, scales.arms.share
    wide = wide_of(scales, question.second)
    square = public.units * square_of(float(wide.sum()), scores, released) / scores.cut**2
    if sides > 1:
        return np.array([share * public.units]), unit, np.array([square]), np.array([[released.sd / share]])
    shares = np.array([1 - share, share])
    # The arms' means are off in opposite ways by what release 5 tells, and alike by what release 1 leaves.
    common = scales.means_sd[::-1] / scales.arms.spread / math.sqrt(2) / shares / scores.cut * (1, -1)
    errors = np.stack([released.sd / (2 * shares), common], axis=1)
    return public.units * shares, unit, square * wide[::-1] / wide.sum(), errors


# A table that was adjusted has a share of more than 0.
LEAST_ADJUSTED = 0.01


def share_adjusted(public: Public, error: FloatArray) -> float:
    """Return the share of the variance of expected confounding that was taken off, in [0, 1].

    ``error``: draws of the confounding that may be left.
    """
    return 1 - min((float(error.std()) / max(public.prior.bias, 1e-9)) ** 2, 1.0)


def adjusts(public: Public, learnt: Learnt, kept: Kept) -> bool:
    """Return whether less confounding is left than was expected.

    Curves count where they were looked for: of others neither comparison knows more.
    """
    return public.trial or share_adjusted(public, learnt.error + looks_for_curves(public) * kept.left) > 0


def law_of(
    public: Public,
    scales: FoundScales,
    learnt: Learnt,
    kept: Kept,
    scores: Scores,
    released: ReleasedScores,
    random: RandomDraws,
    clustered: ClusteredVariance | None = None,
) -> ErrorLaw:
    """Read release 5.

    The estimate is m_1 - m_0 plus the mean score, less what slopes take off: sum_t k_t b_t'D. Its error is that of
    the posterior and of curves that are left, with sampling, noise, the treated share's noise times that of the arms'
    means, what the cut of scores takes off and, where shares differ, what the mean score shows beyond its prediction.
    """
    arms, draws, count = scales.arms, learnt.draws, len(learnt.error)
    lean, shares = np.array(learnt.lean), np.array([arms.share, 1 - arms.share])
    error = learnt.error + kept.left + hidden_bias(public, scales, count, random)
    bias = 0.0
    if not learnt.adjusts:
        # The plain difference is reported: the bias that the posterior expects of it widens the interval on both sides.
        bias = abs(float(error.mean()))
        error = error - float(error.mean())
    mean, noise = scores.cut * released.mean, scores.cut * released.sd
    taken, signs = lean @ (learnt.slopes @ scores.apart), learnt.counts * (1, -1)
    value = float(signs @ arms.means) / arms.spread + mean - float(taken)
    few = public.units / public.effective_units
    sampling = math.sqrt(square_of(float(wide_of(scales, learnt).sum()), scores, released, few) / public.units)
    if clustered is not None:
        sampling *= math.sqrt(clustered.design_effect)
    # An error of the treated share adds this part of an arm's error to the effect.
    error = error + scales.share_sd * random.standard_normal(count) * (draws.errors @ (learnt.counts / shares))
    if not public.trial:
        slopes = np.einsum("t,ktj,kj->k", lean, draws.slopes, draws.apart)
        foreseen = draws.errors @ signs + float(taken) - slopes + learnt.error
        variance = float(foreseen.var()) + sampling**2 + noise**2
        beyond = math.sqrt(max((mean - float(foreseen.mean())) ** 2 - CLEAR * variance, 0.0))
        bias += abs(1 - 2 * arms.share) * beyond
    left, narrow = cut_away(public, scales, learnt)
    bias += left
    error = error + bias * np.where(np.arange(count) % 2, 1.0, -1.0)
    lost = losses(scales, learnt, scores.cut)
    error = error - float(lost[0] - lost[1]) + TAIL_DOUBT * np.hypot(*lost) * random.standard_normal(count)
    middle = float(error.mean())
    return ErrorLaw(
        (value - middle) * arms.spread,
        (error - middle) * arms.spread,
        sampling * arms.spread,
        released.scale * scores.cut * arms.spread,
        released.mixing,
        # Where noise hides every column, no confounding is expected of those that are left, and none is taken off.
        max(share_adjusted(public, learnt.error + kept.left), LEAST_ADJUSTED)
        if learnt.adjusts and len(scales.kept)
        else 0.0,
        _explained(learnt, shares) if len(scales.kept) else 0.0,
        narrow,
        clustered,
        kept.unseen * arms.spread if kept.unseen is not None and learnt.adjusts else None,
    )


def _explained(learnt: Learnt, shares: FloatArray) -> float | None:
    """Return the share of the outcome's variance that slopes are seen to explain.

    None where noise hides it: unless two standard deviations of the posterior's draws are within a quarter of it. Among
    445 people whose covariates explain nothing, slopes seem to explain a tenth.
    """
    slopes = learnt.draws.slopes
    explained = (slopes * (learnt.draws.grams @ slopes[..., None])[..., 0]).sum(axis=-1) @ shares
    seen = min(max(1 - learnt.residual, 0.0), 1.0)
    return seen if 8 * float(explained.std()) <= seen else None


def curve_names(public: Public, features: FeatureMap) -> tuple[str, ...]:
    """Return each curve's name: its shape and its covariates."""
    owner = [public.columns[line.column].name for line in features.lines]
    return tuple(
        f"{curve.shape.value} of {' and '.join(dict.fromkeys((owner[curve.first], owner[curve.second])))}"
        for curve in features.curves
    )
