"""The five releases.

What each asks for, how it is drawn, and what comes next once it is set.

Each is asked for once the ones before it are set. It is drawn as exact sums over rows with noise by the recipe's
mechanisms.

What the releases leave possible of balance and overlap of the arms is read off them at no cost. Standardised mean
differences and effective sample sizes are those that cobalt reports (Greifer 2024), of weights that are linear in the
features.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Protocol, TypeVar

import numpy as np

from causalveil.schemas.confounding import CovariateBalance
from causalveil.schemas.errors import ChargesDiffer
from causalveil.tasks.adjustment.decide import Learnt, learn, scores_of
from causalveil.tasks.adjustment.features import FeatureMap, Scores, Screen
from causalveil.tasks.adjustment.interval import AdjustedEffect, ErrorLaw, found_of, law_of
from causalveil.tasks.adjustment.moments import moments_of
from causalveil.tasks.adjustment.posterior import Posterior
from causalveil.tasks.adjustment.recipe import LINES, REFIT, SCALES, SCORES, SCREEN, AdjustmentRecipe
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
from causalveil.tasks.adjustment.sums import MomentSums, ScoreSums, ScreenSums
from causalveil.tasks.enclave.enclave import Rows
from causalveil.tasks.enclave.split import Pieces
from causalveil.tasks.inference.assemble import Noise
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.models.lattice_sums import exact_sums
from causalveil.tasks.privacy.mechanisms import Budget, Laplace, Mechanism, Slot

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


R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Names(Protocol):
    """A recipe that says what its releases are called."""

    def slot(self, slot: Slot) -> Slot:
        """Return what a release is called here, and whom it is charged to."""


P = TypeVar("P", bound=Names)


@dataclass(frozen=True)
class NoisySums(Generic[P]):
    """All that a release needs beside what it sums.

    Attributes:
        recipe: costs and sizes.
        pieces: all units.
        budget: of the stage that draws.
        workers: threads; no sum depends on it.
        times: of rehearsals on fewer people than there are units: how many each stands for.
    """

    recipe: P
    pieces: Pieces
    budget: Budget
    workers: int = 1
    times: float = 1.0

    def noisy(self, slot: Slot, mechanism: Mechanism, exact: FloatArray) -> FloatArray:
        """Draw noise on sums, shape (numbers,).

        Where there are none, a number of 0 has noise: what is declared is drawn.
        """
        drawn = mechanism.release(exact if len(exact) else np.zeros(1), self.recipe.slot(slot), self.budget)
        return drawn[: len(exact)]


def noise_on(mechanism: Mechanism, numbers: int) -> Noise:
    """Return the law of the noise on each of some numbers of a release."""
    if isinstance(mechanism, Laplace):
        # Independent Laplace noise on each number is that of one dimension.
        return Noise(mechanism.known_scale, 1.0)
    return Noise.of(mechanism, max(numbers, 1))


def made(released: R | None) -> R:
    """Return what a release that every study has said.

    Raises:
        ChargesDiffer: it was not made.
    """
    if released is None:
        raise ChargesDiffer("an adjustment lacks a release that every study has; report this")
    return released


class Sums(Protocol[R_co]):
    """The sums of one release over rows, and how their noisy values are read."""

    @property
    def numbers(self) -> int:
        """Number of sums."""

    @property
    def weights(self) -> FloatArray:
        """Factor of each sum, shape (numbers,)."""

    def of(self, rows: Rows) -> FloatArray:
        """Return the sums of some rows, before their weights, shape (numbers,)."""

    def read(self, released: FloatArray, units: int, noise: Noise) -> R_co:
        """Read estimates off noisy sums."""


class Drawn(NoisySums[AdjustmentRecipe]):
    """The five releases of one question."""

    def scales(self) -> ReleasedScales:
        """Release 1."""
        return made(self._release(SCALES, self.recipe.scale_sums))

    def lines(self, asked: FiveReleases) -> ReleasedMoments:
        """Release 2."""
        return made(self._release(LINES, self._moments(asked, asked.lines_asked)))

    def screen(self, asked: FiveReleases) -> ReleasedScreen | None:
        """Release 3; None where public facts say that no curve could be seen."""
        return self._release(SCREEN, ScreenSums(self.recipe.encoding, asked.screen_asked))

    def refit(self, asked: FiveReleases) -> ReleasedMoments | None:
        """Release 4; None likewise."""
        return self._release(REFIT, self._moments(asked, asked.refit_asked))

    def scores(self, asked: FiveReleases) -> ReleasedScores:
        """Release 5."""
        return made(self._release(SCORES, ScoreSums(self.recipe.encoding, asked.scores_asked, self.recipe.public.pure)))

    def _moments(self, asked: FiveReleases, features: FeatureMap) -> MomentSums:
        return MomentSums(self.recipe.encoding, features, asked.found_scales.arms, self.recipe.by_arm)

    def _release(self, slot: Slot, sums: Sums[R]) -> R | None:
        mechanism, numbers = self.recipe.mechanism(slot), sums.numbers
        if mechanism is None:
            return None
        exact = exact_sums(self.pieces, sums.of, numbers, self.workers) * sums.weights * self.times
        released = self.noisy(slot, mechanism, exact)
        return sums.read(released, self.recipe.public.units, noise_on(mechanism, numbers))


def in_order(drawn: Drawn, scales: ReleasedScales) -> tuple[FiveReleases, ReleasedScores]:
    """Draw releases 2 to 5 one after the other, as the stages of a flow do; for rehearsals."""
    asked = begun(drawn.recipe, scales)
    asked = with_lines(asked, drawn.lines(asked))
    asked = with_screen(asked, drawn.screen(asked))
    asked = with_refit(asked, drawn.refit(asked))
    return asked, drawn.scores(asked)


def differences(question: FiveReleases) -> tuple[CovariateBalance, ...]:
    """Return how far the arms lie apart in each covariate, and what weights leave of it.

    All are in deviations within arms. What is left is D - sum_t k_t G_t h_t, by the draws that releases leave possible;
    k_t add up to 1 for two arms.
    """
    learnt = question.second
    lines, lean = learnt.features.lines, np.array(learnt.lean) / sum(learnt.lean)
    moved = np.einsum("t,ktde,te->kd", lean, learnt.draws.grams, learnt.weights)
    shares = np.array([question.found_scales.arms.share, 1 - question.found_scales.arms.share])
    size = np.sqrt(np.einsum("t,ktdd->d", shares, learnt.draws.grams) / len(learnt.draws.grams))[: len(lines)]
    left = (learnt.draws.apart - moved)[:, : len(lines)] / size
    numbers = np.stack([learnt.moments.apart[: len(lines)] / size, left.mean(axis=0), left.std(axis=0)], axis=1)
    names = [question.public.columns[line.column].name for line in lines]
    return tuple(
        CovariateBalance(covariate=name, before=before, after=after, noise_error=error)
        for name, (before, after, error) in zip(names, numbers.tolist(), strict=True)
    )


def effective(question: FiveReleases) -> tuple[float, float]:
    """Return the smaller share of an arm's units that weights leave effective, and its doubt.

    The share of an arm is 1/(1 + k^2 h'G h).
    """
    learnt = question.second
    squares = np.einsum("td,ktde,te->kt", learnt.weights, learnt.draws.grams, learnt.weights)
    found = (1 / (1 + np.array(learnt.lean) ** 2 * squares)).min(axis=1)
    return float(found.mean()), float(found.std())
