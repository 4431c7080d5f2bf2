"""The order of the five releases: each is asked for once the ones before it are set, and decides what comes next."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from causalveil.tasks.adjustment.decide import Learnt, learn, scores_of
from causalveil.tasks.adjustment.features import FeatureMap, Scores, Screen
from causalveil.tasks.adjustment.interval import AdjustedEffect, ErrorLaw, found_of, law_of
from causalveil.tasks.adjustment.moments import moments_of
from causalveil.tasks.adjustment.parts import Parts, parts_of
from causalveil.tasks.adjustment.posterior import Posterior
from causalveil.tasks.adjustment.recipe import AdjustmentRecipe
from causalveil.tasks.adjustment.released import (
    Public,
    RandomDraws,
    ReleasedMoments,
    ReleasedScales,
    ReleasedScores,
    ReleasedScreen,
    generator,
)
from causalveil.tasks.adjustment.scales import FoundScales, lines_of, scales_of
from causalveil.tasks.adjustment.screen import Kept, Screening, kept_of, screen_of
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread

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

    @property
    def parts(self) -> Parts:
        """Parts of the budget."""
        return parts_of(self.public)

    @cached_property
    def found_scales(self) -> FoundScales:
        """Scales that release 1 gives."""
        return scales_of(self.public, _given(self.scales))

    @cached_property
    def lines_asked(self) -> FeatureMap:
        """Features of release 2."""
        return lines_of(self.public, self.found_scales)

    @cached_property
    def first(self) -> Learnt:
        """Estimates that releases 1 and 2 determine."""
        return self._learnt("first", [(self.lines_asked, _given(self.lines))], self.lines_asked)

    @cached_property
    def candidates(self) -> tuple[Screen, FloatArray]:
        """Candidates of release 3 and their correlations."""
        return screen_of(self.public, self.found_scales, self.first, self._random("screen"))

    @property
    def screen_asked(self) -> Screen:
        """Candidate curves that release 3 sums."""
        return self.candidates[0]

    @cached_property
    def kept(self) -> Kept:
        """Curves that are kept, and what the others leave."""
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
    def second(self) -> Learnt:
        """Estimates that releases 1 to 4 determine."""
        if self.refit is None:
            return self.first
        both = [(self.lines_asked, _given(self.lines)), (self.refit_asked, self.refit)]
        return self._learnt("second", both, self.refit_asked)

    @cached_property
    def scores_asked(self) -> Scores:
        """Scores that release 5 sums."""
        return scores_of(self.public, self.found_scales, self.second)

    def found(self, levels: tuple[float, ...]) -> AdjustedEffect:
        """Return the estimate and its intervals."""
        random = self._random("interval")
        return found_of(self.public, self.found_scales, self.second, self.law(random), levels, random)

    def law(self, random: RandomDraws | None = None) -> ErrorLaw:
        """Return the estimate and the law of its error."""
        random, scores = random or self._random("interval"), _given(self.scores)
        return law_of(self.public, self.found_scales, self.second, self.kept, self.scores_asked, scores, random)

    def _learnt(self, label: str, releases: list[tuple[FeatureMap, ReleasedMoments]], features: FeatureMap) -> Learnt:
        random, moments = self._random(label), moments_of(self.found_scales, releases)
        draws = Posterior(self.public, self.found_scales, moments, random).draws()
        return learn(self.public, self.found_scales, features, moments, draws, random)

    def _random(self, label: str) -> RandomDraws:
        parts = (self.scales, self.lines, self.screen, self.refit, self.scores)
        return generator(label, *(one for one in parts if one is not None))


def _given(released: Released | None) -> Released:
    """Return a release that has come."""
    if released is None:
        raise RuntimeError("a release was asked of before it came")
    return released


def begun(recipe: AdjustmentRecipe, scales: ReleasedScales) -> FiveReleases:
    """Return what release 1 decides."""
    return FiveReleases(recipe.public, scales)


def with_lines(asked: FiveReleases, lines: ReleasedMoments) -> FiveReleases:
    """Return what releases 1 and 2 decide.

    Here and below all is decided at once and not where it is first read: its random numbers are those of the releases
    that there are.
    """
    found = copy(asked)
    found.lines = lines
    return _decided(found, "first", "screen_asked")


def with_screen(asked: FiveReleases, screen: ReleasedScreen | None) -> FiveReleases:
    """Return which curves release 3 keeps."""
    found = copy(asked)
    found.screen = screen
    return _decided(found, "kept")


def with_refit(asked: FiveReleases, refit: ReleasedMoments | None) -> FiveReleases:
    """Return what release 5 sums."""
    found = copy(asked)
    found.refit = refit
    return _decided(found, "second", "scores_asked")


def _decided(asked: FiveReleases, *names: str) -> FiveReleases:
    # Small matrices: threads of BLAS would wait for each other, and its sums would depend on how many there are.
    with one_thread():
        for name in names:
            getattr(asked, name)
    return asked
