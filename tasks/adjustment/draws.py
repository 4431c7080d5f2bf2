"""Draw the five releases: exact sums over rows, noise by the recipe's mechanisms, and what noisy sums say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from causalveil.schemas.errors import ChargesDiffer
from causalveil.tasks.adjustment.features import FeatureMap
from causalveil.tasks.adjustment.five_releases import FiveReleases, begun, with_lines, with_refit, with_screen
from causalveil.tasks.adjustment.recipe import LINES, REFIT, SCALES, SCORES, SCREEN, AdjustmentRecipe
from causalveil.tasks.adjustment.released import ReleasedMoments, ReleasedScales, ReleasedScores, ReleasedScreen
from causalveil.tasks.adjustment.sums import MomentSums, ScoreSums, ScreenSums
from causalveil.tasks.enclave.enclave import Rows
from causalveil.tasks.enclave.split import Pieces
from causalveil.tasks.inference.assemble import Noise
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.lattice_sums import exact_sums
from causalveil.tasks.privacy.mechanisms import Budget, Laplace, Mechanism, Slot

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
        return made(self._release(SCORES, ScoreSums(self.recipe.encoding, asked.scores_asked)))

    def _moments(self, asked: FiveReleases, features: FeatureMap) -> MomentSums:
        return MomentSums(self.recipe.encoding, features, asked.found_scales.arms, self.recipe.by_arm)

    def _release(self, slot: Slot, sums: Sums[R]) -> R | None:
        mechanism, numbers = self.recipe.mechanism(slot), sums.numbers
        if mechanism is None:
            return None
        exact = exact_sums(self.pieces, sums.of, numbers, self.workers) * sums.weights * self.times
        released = self.noisy(slot, mechanism, exact)
        noise = Noise.of(mechanism, max(numbers, 1))
        # Independent Laplace noise on each number is that of one dimension.
        noise = Noise(noise.scale, 1.0) if isinstance(mechanism, Laplace) else noise
        return sums.read(released, self.recipe.public.units, noise)


def in_order(drawn: Drawn, scales: ReleasedScales) -> tuple[FiveReleases, ReleasedScores]:
    """Draw releases 2 to 5 one after the other, as the stages of a flow do; for rehearsals."""
    asked = begun(drawn.recipe, scales)
    asked = with_lines(asked, drawn.lines(asked))
    asked = with_screen(asked, drawn.screen(asked))
    asked = with_refit(asked, drawn.refit(asked))
    return asked, drawn.scores(asked)
