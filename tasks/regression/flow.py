"""The order of the five releases: each is asked for once the ones before it are set."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.regression.decide import Learnt, learn, scores_of
from causalveil.tasks.regression.features import FeatureMap, Scores, Screen
from causalveil.tasks.regression.interval import AdjustedEffect, ErrorLaw, found_of, law_of
from causalveil.tasks.regression.moments import moments_of
from causalveil.tasks.regression.parts import Parts, parts_of
from causalveil.tasks.regression.posterior import Posterior
from causalveil.tasks.regression.released import (
    Public,
    RandomDraws,
    ReleasedMoments,
    ReleasedScales,
    ReleasedScores,
    ReleasedScreen,
    generator,
)
from causalveil.tasks.regression.scales import FoundScales, lines_of, scales_of
from causalveil.tasks.regression.screen import Kept, Screening, kept_of, screen_of

Released = TypeVar("Released")


@dataclass
class FiveReleases:
    """What is asked of each release, and what all say together; releases are set as they come."""

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
