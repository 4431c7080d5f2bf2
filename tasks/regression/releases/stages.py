"""The five releases of an adjustment, and what its last stage says; what is decided between them is of ``flow.py``."""

from __future__ import annotations

import math
from copy import copy
from typing import Protocol, TypeVar

from causalveil.schemas.confounding import RANDOMISED, ConfoundingStatement, of_share
from causalveil.schemas.estimators.confounding import ConfoundingPrior
from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.privacy import Coverage
from causalveil.schemas.release import Interval, Variance
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.inference.assemble import NOISY, EffectFindings, Noise
from causalveil.tasks.inference.confounding import (
    COVERS_MODELS,
    NOT_COVERED_TRIAL,
    UNMEASURED,
)
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.models.lattice_sums import exact_sums
from causalveil.tasks.privacy.mechanisms import Laplace, Slot
from causalveil.tasks.regression.features import FeatureMap
from causalveil.tasks.regression.flow import FiveReleases
from causalveil.tasks.regression.interval import AdjustedEffect
from causalveil.tasks.regression.parts import looks_for_curves
from causalveil.tasks.regression.released import Public, ReleasedMoments, ReleasedScales, ReleasedScores, ReleasedScreen
from causalveil.tasks.regression.releases.noisy_sums import NoisySums, made
from causalveil.tasks.regression.releases.recipe import (
    LINES,
    REFIT,
    SCALES,
    SCORES,
    SCREEN,
    AdjustsBy,
    RegressionRecipe,
)
from causalveil.tasks.regression.releases.sums import MomentSums, ScoreSums, ScreenSums

# No effect is larger, in half ranges of the outcome.
FARTHEST = 2.0
COVERS_UNSEEN = ("confounding of the prior's size where noise hides it",)
COVERS_CURVES = ("curves that were looked for and not kept",)
NOT_COVERED = f"{UNMEASURED}; non-linear confounding other than by squares, bends, steps and products of two covariates"
NOT_COVERED_LINES = f"{UNMEASURED}; non-linear confounding: no squares, steps or products of covariates were looked for"


class Adjusts(Protocol):
    """A study that has such an estimator."""

    @property
    def estimator(self) -> AdjustsBy:
        """Its settings."""


R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Sums(Protocol[R_co]):
    """What one release sums over rows, and what its noisy sums say."""

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


class Drawn(NoisySums[RegressionRecipe]):
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


def begun(recipe: RegressionRecipe, scales: ReleasedScales) -> FiveReleases:
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


def in_order(drawn: Drawn, scales: ReleasedScales) -> tuple[FiveReleases, ReleasedScores]:
    """Draw releases 2 to 5 one after the other, as the stages of a flow do; for rehearsals."""
    asked = begun(drawn.recipe, scales)
    asked = with_lines(asked, drawn.lines(asked))
    asked = with_screen(asked, drawn.screen(asked))
    asked = with_refit(asked, drawn.refit(asked))
    return asked, drawn.scores(asked)


def findings(study: RegressionStudy, asked: FiveReleases, scores: ReleasedScores) -> EffectFindings:
    """Estimate and interval, in outcome units."""
    last = copy(asked)
    last.scores = scores
    with one_thread():
        found, half = last.found((study.confidence,)), study.outcome.width / 2
    (low, high), arms = found.intervals[0], last.found_scales.arms
    interval = Interval(
        lower=low * half,
        upper=high * half,
        confidence=study.confidence,
        covers=(*NOISY[:2], COVERS_MODELS, *covers_unseen(asked.public)),
        coverage=Coverage.normal_approximation,
        whole_range=low <= -FARTHEST and high >= FARTHEST,
    )
    sampling = (found.sampling * half) ** 2
    noise = max((found.standard_error * half) ** 2 - sampling, 0.0)
    details: dict[str, float | int | str | bool] = {
        "noise_standard_error": math.sqrt(noise),
        "sampling_standard_error": math.sqrt(sampling),
        "treated_share": arms.share,
        "spread": half * arms.spread,
        "features": last.refit_asked.count,
        "confounding_adjusted_for": found.adjusted_share,
        "curves": ", ".join(found.kept_curves) or "none",
        "not_covered": "; ".join((not_covered(asked.public), *found.narrow.words)),
    }
    variance = Variance(sampling=sampling, noise=noise)
    return EffectFindings(found.value * half, interval, variance, details, confounding(study, asked.public, found))


def covers_unseen(public: Public) -> tuple[str, ...]:
    """Return what the interval holds of confounding that was not adjusted for."""
    if public.trial:
        return ()
    return (*COVERS_UNSEEN, *COVERS_CURVES) if looks_for_curves(public) else COVERS_UNSEEN


def not_covered(public: Public) -> str:
    """Return what the interval does not hold, whatever was released."""
    if public.trial:
        return NOT_COVERED_TRIAL
    return NOT_COVERED if looks_for_curves(public) else NOT_COVERED_LINES


def confounding(study: Adjusts, public: Public, found: AdjustedEffect) -> ConfoundingStatement:
    """Return what was done about confounding."""
    if study.estimator.trial:
        return RANDOMISED
    default = study.estimator.confounding_prior == ConfoundingPrior()
    linear = not looks_for_curves(public)
    return of_share(found.adjusted_share, linear=linear, default=default, left_out=found.left_out)
