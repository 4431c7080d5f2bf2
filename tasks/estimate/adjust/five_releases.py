"""Draw the five releases of an adjustment, each once those before it are set.

A release is exact sums over rows with noise by the recipe's mechanisms: scales, moments of lines, a search for curves,
moments with curves, scores (``sums.py`` has what each sums, ``recipe.py`` its budget). Balance and overlap of the arms
are read off them at no cost: standardised mean differences and effective sample sizes as cobalt reports them (Greifer
2024), of weights that are linear in the features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from scipy.special import ndtri

from causalveil.schemas.confounding import CovariateBalance
from causalveil.tasks.estimate.adjust.features import FeatureMap, Scores, Screen
from causalveil.tasks.estimate.adjust.interval import CLEAR, ErrorLaw, adjusts, law_of
from causalveil.tasks.estimate.adjust.posterior import CurvePrior, Learnt, Posterior, as_they_are, learn, scores_of
from causalveil.tasks.estimate.adjust.released import (
    ColumnKind,
    Public,
    RandomDraws,
    ReleasedMoments,
    ReleasedScales,
    ReleasedScores,
    ReleasedScreen,
    generator,
)
from causalveil.tasks.estimate.adjust.scales import FoundScales, lines_of, moments_of, scales_of
from causalveil.tasks.estimate.adjust.screen import Candidates, Kept, Screening, kept_of, screen_of
from causalveil.tasks.estimate.clusters import ClusteredVariance

# A value that fewer units lack is taken not to matter: the rule of thumb of Jakobsen et al. (2017, BMC Medical Research
# Methodology 17:162).
FEW_MISSING = 0.05
# Of balanced trials, fewer than one in a thousand are reported as out of balance, as by `init` of public rows.
UNLIKE = 1e-3

Released = TypeVar("Released")


@dataclass
class FiveReleases:
    """The requests of the five releases, and the estimates that they determine.

    Releases are set as they come.
    """

    public: Public
    scales: ReleasedScales | None = None
    lines: ReleasedMoments | None = None
    screen: ReleasedScreen | None = None
    refit: ReleasedMoments | None = None
    scores: ReleasedScores | None = None
    clustered: ClusteredVariance | None = None

    @cached_property
    def found_scales(self) -> FoundScales:
        """Scales that release 1 gives."""
        return scales_of(self.public, _given(self.scales))

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the columns that could not be adjusted for, as noise hides whether they vary.

        A null indicator is not one of them where the release shows that few units lack the value, or none.
        """
        released, columns = _given(self.scales), self.public.columns
        return tuple(
            columns[place].name
            for place in self.found_scales.left_out.tolist()
            if columns[place].kind is not ColumnKind.missing
            or released.columns[place][0] + 2 * released.cells_sd[place] > FEW_MISSING
        )

    @cached_property
    def lines_asked(self) -> FeatureMap:
        """Features of release 2."""
        return lines_of(self.public, self.found_scales)

    @cached_property
    def first(self) -> Learnt:
        """Estimates that releases 1 and 2 determine."""
        return self._learnt("first", [(self.lines_asked, _given(self.lines))], self.lines_asked)

    @cached_property
    def candidates(self) -> tuple[Screen, Candidates]:
        """Candidate curves of release 3, and their moments in a synthetic table."""
        return screen_of(self.public, self.found_scales, self.first, self._random("screen"))

    @property
    def screen_asked(self) -> Screen:
        """Candidate curves that release 3 sums."""
        return self.candidates[0]

    @cached_property
    def kept(self) -> Kept:
        """Curves that are kept, and draws of the bias of those that are left out."""
        return kept_of([self.screening])[0]

    @property
    def screening(self) -> Screening:
        """Candidates with the sums that release 3 gives of them."""
        random = self._random("kept")
        return Screening(self.public, self.found_scales, self.first, *self.candidates, self.screen, random)

    @property
    def refit_asked(self) -> FeatureMap:
        """Features of release 4."""
        return self.kept.features

    @cached_property
    def adjustments(self) -> list[tuple[Learnt, Kept]]:
        """Estimates by releases 1 to 4: with the curves that are kept, and by lines alone.

        The list has one entry where no curve is kept.
        """
        if self.refit is None:
            return [(self.first, self.kept)]
        releases, lines = [(self.lines_asked, _given(self.lines))], self.kept.lines
        curved = self._learnt("second", [*releases, (self.refit_asked, self.refit)], self.refit_asked), self.kept
        if lines is None:
            return [curved]
        again = replace(self.refit_asked, curves=()), self.refit.leading(self.lines_asked.count)
        return [curved, (self._learnt("lines", [*releases, again], self.lines_asked), lines)]

    def square_of_error(self, adjustment: tuple[Learnt, Kept]) -> float:
        """Return the mean square of an adjustment's error.

        The error's mean is taken off, but for that of curves that are left out.
        """
        learnt, kept = adjustment
        error = learnt.error - learnt.error.mean() + kept.left
        return float(np.mean(error**2)) * self.found_scales.arms.spread**2

    @cached_property
    def adjustment(self) -> tuple[Learnt, Kept]:
        """The adjustment that is taken."""
        return self.adjustments[least_error([self])]

    @cached_property
    def second(self) -> Learnt:
        """Estimates that releases 1 to 4 determine.

        Where these leave as much confounding possible as was expected, the arms are compared as they are.
        """
        learnt, kept = self.adjustment
        return learnt if adjusts(self.public, learnt, kept) else self.unadjusted(learnt)

    def unadjusted(self, learnt: Learnt) -> Learnt:
        """Return the comparison of the arms as they are."""
        return as_they_are(learnt, self.found_scales, self._random("unadjusted"))

    @cached_property
    def scores_asked(self) -> Scores:
        """Scores that release 5 sums."""
        return scores_of(self.public, self.found_scales, self.second)

    @cached_property
    def law(self) -> ErrorLaw:
        """The estimate and the law of its error, as all releases determine them."""
        random, scores, kept = self._random("interval"), _given(self.scores), self.adjustment[1]
        return law_of(
            self.public, self.found_scales, self.second, kept, self.scores_asked, scores, random, self.clustered
        )

    def _learnt(self, label: str, releases: list[tuple[FeatureMap, ReleasedMoments]], features: FeatureMap) -> Learnt:
        random, moments = self._random(label), moments_of(self.found_scales, releases)
        curves = None
        if features.curves:
            differ = self.candidates[1].arms_differ(features, moments.apart, self.found_scales.arms.share)
            curves = CurvePrior(differ, self.kept.sizes)
        draws = Posterior(self.public, self.found_scales, moments, random, curves).draws()
        return learn(self.public, self.found_scales, features, moments, draws, random)

    def _random(self, label: str) -> RandomDraws:
        parts = (self.scales, self.lines, self.screen, self.refit, self.scores)
        return generator(label, *(release for release in parts if release is not None))


def least_error(questions: Sequence[FiveReleases]) -> int:
    """Return the place of the adjustment to take, over the sides of a comparison.

    Lines alone are taken where the mean square of their error is less than half of that with curves, so that a small
    difference between draws drops no curve. Where the arms overlap little a curve may be nearly a line within an arm:
    noise in its moments then harms more than its bias.
    """
    squares = np.sum([[side.square_of_error(choice) for choice in side.adjustments] for side in questions], axis=0)
    return int(squares[-1] * CLEAR < squares[0])


def _given(released: Released | None) -> Released:
    """Return a release that has come."""
    if released is None:
        raise RuntimeError("a release was asked of before it came")
    return released


def differences(question: FiveReleases) -> tuple[CovariateBalance, ...]:
    """Return each covariate's difference between the arms, before and after weighting.

    Declared terms come after covariates.

    Differences are in deviations within arms. After weighting they are D - sum_t k_t G_t h_t, averaged over posterior
    draws; k_t add up to 1 for two arms.
    """
    learnt = question.second
    lines, lean = learnt.features.lines, np.array(learnt.lean) / sum(learnt.lean)
    moved = np.einsum("t,ktde,te->kd", lean, learnt.draws.grams, learnt.weights)
    shares = np.array([question.found_scales.arms.share, 1 - question.found_scales.arms.share])
    size = np.sqrt(np.einsum("t,ktdd->d", shares, learnt.draws.grams) / len(learnt.draws.grams))[: len(lines)]
    left = (learnt.draws.apart - moved)[:, : len(lines)] / size
    numbers = np.stack([learnt.moments.apart[: len(lines)] / size, left.mean(axis=0), left.std(axis=0)], axis=1)
    scales = question.found_scales
    names = [question.public.columns[place].name for place in (*scales.kept.tolist(), *scales.terms.places)]
    return tuple(
        CovariateBalance(covariate=name, before=before, after=after, noise_error=error)
        for name, (before, after, error) in zip(names, numbers.tolist(), strict=True)
    )


def unlike(question: FiveReleases) -> tuple[str, ...]:
    """Return the lines in which arms differ by more than randomisation and noise explain.

    Chance parts the arms by 1/sqrt(n p (1 - p)) deviations; the error of UNLIKE is divided among all lines.
    """
    learnt, share, lines = question.second, question.found_scales.arms.share, len(question.second.features.lines)
    size = np.sqrt(np.maximum(np.diagonal(learnt.moments.gram)[:lines], 0))
    chance = size / np.sqrt(question.public.effective_units * share * (1 - share))
    error = np.hypot(chance, learnt.moments.apart_sd[:lines])
    # A feature that noise hides may look as if it did not vary.
    error = np.hypot(error, np.where(np.diagonal(learnt.moments.gram_sd)[:lines] > size**2, np.inf, 0.0))
    quantile = -float(ndtri(UNLIKE / 2 / max(lines, 1)))
    scales = question.found_scales
    names = [question.public.columns[place].name for place in (*scales.kept.tolist(), *scales.terms.places)]
    far = np.abs(learnt.moments.apart[:lines]) > quantile * error
    return tuple(name for name, beyond in zip(names, far.tolist(), strict=True) if beyond)


def effective(question: FiveReleases) -> tuple[float, float]:
    """Return the least effective share of an arm's units under weights, and its deviation.

    The share of an arm is 1/(1 + k^2 h'G h).
    """
    learnt = question.second
    squares = np.einsum("td,ktde,te->kt", learnt.weights, learnt.draws.grams, learnt.weights)
    shares = (1 / (1 + np.array(learnt.lean) ** 2 * squares)).min(axis=1)
    return float(shares.mean()), float(shares.std())
