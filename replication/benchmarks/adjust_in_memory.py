"""The new adjusting estimator on arrays in memory: releases drawn by numpy at their declared sensitivities.

For judging and tuning alone: noise of floats is no release. What the product does on partitions is the same sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from causalveil.tasks.estimate.adjust.features import FeatureMap, Scores, Screen, curve_values, line_values
from causalveil.tasks.estimate.adjust.five_releases import FiveReleases
from causalveil.tasks.estimate.adjust.recipe import (
    LINES_ALONE,
    MOMENTS_L2,
    PURE_LINES_ALONE,
    SCALES_L2,
    SCORES_L2,
    SCREEN_L2,
    asked_of,
    parts_of,
)
from causalveil.tasks.estimate.adjust.released import (
    EDGES,
    ColumnKind,
    EncodedColumn,
    Prior,
    Public,
    ReleasedMoments,
    ReleasedScales,
    ReleasedScores,
    ReleasedScreen,
)
from causalveil.tasks.estimate.adjust.scales import FoundScales
from causalveil.tasks.estimate.adjust.sums import SCORES_L1, SQUARE_L1
from causalveil.tasks.estimate.answers import Part, limits
from causalveil.tasks.estimate.people import FLOOR_DEVIATIONS

Array = NDArray[np.float64]
LEVELS = (0.8, 0.9, 0.95)
# Of the arms' differences in releases 2 and 4 (docs/proofs/regression.md, section 2).
ARM_GRAM, ARM_CROSS = 0.5, 0.49


def feature_values(features: FeatureMap, z: Array) -> Array:
    """Return v of rows z, shape (rows, 1 + count), cut to a ball.

    Its columns are the constant, lines and curves.
    """
    f = line_values(features.lines, z)
    one, c = np.column_stack([np.ones(len(z)), f]), curve_values(features.curves, f)
    if features.lines_radius is None:
        return shortened(np.column_stack([one, c]), features.radius)
    one = shortened(one, features.lines_radius)
    return np.column_stack([one, shortened(c, np.sqrt(np.maximum(features.radius**2 - (one * one).sum(axis=1), 0)))])


def shortened(v: Array, most: Array | float) -> Array:
    """Return rows of v cut to a length."""
    found: Array = v * np.minimum(1.0, most / np.maximum(np.sqrt((v * v).sum(axis=1)), 1e-300))[:, None]
    return found


def in_cells(values: Array) -> Array:
    """Return how many values lie in each cell, its upper end in it, as release 1 counts."""
    found: Array = np.bincount(np.maximum(np.searchsorted(EDGES + 1e-9, values) - 1, 0), minlength=len(EDGES) - 1)
    return found


@dataclass(frozen=True)
class Answer:
    """In outcome units: estimate, intervals at LEVELS, and what was found on the way."""

    estimate: float
    intervals: tuple[tuple[float, float], ...]
    found: FiveReleases


def mu_of(epsilon: float, delta: float) -> float:
    """The mu of Gaussian differential privacy that is (epsilon, delta)."""
    phi, low, high = NormalDist().cdf, 1e-6, 100.0
    for _ in range(100):
        mu = (low + high) / 2
        over = phi(-epsilon / mu + mu / 2) - math.exp(min(epsilon, 600)) * phi(-epsilon / mu - mu / 2) > delta
        low, high = (low, mu) if over else (mu, high)
    return low


def encode(x: Array, declared: Mapping[str, Mapping[str, Any]]) -> tuple[Array, tuple[EncodedColumn, ...]]:
    """Columns z and what they are; x: a column for each declared one, levels as they are, nan: missing."""
    z: list[Array] = []
    columns: list[EncodedColumn] = []
    for place, (name, one) in enumerate(declared.items()):
        values = x[:, place]
        if "levels" in one:
            levels = list(one["levels"])
            if len(levels) == 1:
                levels.append(None)
            for level in levels[1:] if len(levels) == 2 else levels:
                kind = ColumnKind.flag if len(levels) == 2 else ColumnKind.level
                z.append((values == level).astype(float) if level is not None else np.zeros(len(values)))
                columns.append(EncodedColumn(f"{name}={level}", place, kind))
            continue
        low, high, scale = float(one["lower"]), float(one["upper"]), one.get("scale")
        move = {"log": np.log, "sqrt": np.sqrt}.get(str(scale), lambda v: v)
        low_, high_ = float(move(low)), float(move(high))
        moved = (2 * move(np.clip(np.nan_to_num(values, nan=low), low, high)) - low_ - high_) / max(high_ - low_, 1e-12)
        absent = np.isnan(values)
        z.append(np.where(absent, 0.0, np.clip(moved, -1, 1)))
        columns.append(EncodedColumn(name, place, ColumnKind.number))
        if absent.any():
            z.append(absent.astype(float))
            columns.append(EncodedColumn(f"{name} missing", place, ColumnKind.missing))
    return np.column_stack(z) if z else np.zeros((len(x), 0)), tuple(columns)


class InMemory:
    """The five releases of arrays z, t, u."""

    def __init__(self, z: Array, t: Array, u: Array, public: Public, random: np.random.Generator) -> None:
        self.z, self.t, self.u, self.public, self.random, self.n = z, t, u, public, random, len(t)

    def _sd(self, part: Any, sensitivity: float, numbers: int) -> float:
        """Of L2 noise on a mean."""
        if self.public.pure:
            return sensitivity * math.sqrt(numbers + 1) / (float(part) * self.public.mu * self.n)
        return sensitivity / (math.sqrt(part) * self.public.mu * self.n)

    def _noisy(self, sums: Array, sd: float) -> Array:
        """Means with noise; without a delta L2-Laplace: its length is Gamma(numbers), its direction even."""
        normal = self.random.standard_normal(len(sums))
        if self.public.pure and len(sums):
            length = self.random.gamma(len(sums)) / math.sqrt(len(sums) + 1)
            normal *= length / np.linalg.norm(normal)
        return sums / self.n + sd * normal

    def scales(self, part: Any) -> ReleasedScales:
        t, u, columns = self.t, self.u, self.public.encoded
        histograms = len({column.covariate for column in columns}) + 1
        weight = math.sqrt(2 / histograms)
        cells = [np.array([t @ u, (1 - t) @ u, math.sqrt(2) * t.sum(), u @ u]), weight * in_cells(u)]
        for place, column in enumerate(columns):
            values = self.z[:, place]
            if column.kind is ColumnKind.number:
                beside = [
                    self.z[:, other] for other, one in enumerate(columns)
                    if one.covariate == column.covariate and one.kind is ColumnKind.missing
                ]  # fmt: skip
                there = values[beside[0] == 0] if beside else values
                cells.append(weight * in_cells(there))
            else:
                twice = math.sqrt(2) if column.kind is ColumnKind.flag else 1.0
                cells.append(weight * twice * np.array([values.sum()]))
        sums = np.concatenate(cells)
        if self.public.pure:
            # Laplace noise: the arms' four numbers move by 2 + sqrt(2) + 1 in the L1 norm, a histogram by 2.
            scale = (3 + math.sqrt(2) + 2 * histograms * weight) / (float(part) * self.public.mu * self.n)
            noisy, sd = sums / self.n + self.random.laplace(size=len(sums)) * scale, math.sqrt(2) * scale
        else:
            sd = self._sd(part, SCALES_L2, len(sums))
            noisy = self._noisy(sums, sd)
        arms = noisy[:4] / np.array([1, 1, math.sqrt(2), 1])
        at, found, sds, wide = 4 + len(EDGES) - 1, [], [], len(EDGES) - 1
        for column in columns:
            size = wide if column.kind is ColumnKind.number else 1
            own = weight * (math.sqrt(2) if column.kind is ColumnKind.flag else 1.0)
            found.append(noisy[at : at + size] / own)
            sds.append(sd / own)
            at += size
        return ReleasedScales(
            arms, sd / np.array([1, 1, math.sqrt(2), 1]), noisy[4 : 4 + wide] / weight, tuple(found),
            np.array([*sds, sd / weight]),
        )  # fmt: skip

    def moments(self, features: FeatureMap, scales: FoundScales, part: Any) -> ReleasedMoments:
        arms, t = scales.arms, self.t
        x = feature_values(features, self.z) / features.radius
        rho = np.clip((self.u - np.where(t > 0, *arms.means)) / arms.limit, -1, 1)
        tau = (t - arms.share) / max(arms.share, 1 - arms.share)
        s, k = 2 * t - 1, x.shape[1]
        upper = np.triu_indices(k)
        weigh = np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
        parts = [x.T @ rho, x.T @ tau, [rho @ rho], (x.T @ x)[upper] * weigh]
        if not self.public.pure:
            parts += [ARM_CROSS * (x.T @ (s * rho)), ARM_GRAM * ((x.T * s) @ x)[upper] * weigh]
        sums = np.concatenate(parts)
        sd = self._sd(part, SCREEN_L2 if self.public.pure else MOMENTS_L2, len(sums))
        noisy = self._noisy(sums, sd)
        cuts = np.cumsum([k, k, 1, len(upper[0]), k])
        cross, apart, square, gram, arm_cross, arm_gram = np.split(noisy, cuts)

        def whole(triangle: Array) -> Array:
            matrix = np.zeros((k, k))
            matrix[upper] = triangle / weigh
            return matrix + matrix.T - np.diag(np.diagonal(matrix))

        of_gram = sd / math.sqrt(2)
        if self.public.pure:
            zero, none = (np.zeros(k), math.inf), (np.zeros((k, k)), math.inf)
        else:
            zero, none = (arm_cross / ARM_CROSS, sd / ARM_CROSS), (whole(arm_gram) / ARM_GRAM, of_gram / ARM_GRAM)
        return ReleasedMoments(cross, sd, apart, sd, float(square[0]), sd, whole(gram), of_gram, *zero, *none)

    def screen(self, screen: Screen, part: Any) -> ReleasedScreen:
        arms, t = screen.arms, self.t
        f = line_values(screen.lines, self.z)
        c = curve_values(screen.curves, f) / screen.radius
        c /= np.maximum(1, np.sqrt((c * c).sum(axis=1)))[:, None]
        f = shortened(np.column_stack([np.ones(len(f)), f]), screen.lines_radius)[:, 1:] - screen.middle
        side = np.where(t > 0, 1 - arms.share, -arms.share)
        own = np.where(t > 0, *(f @ screen.slopes.T).T) - side * np.where(t > 0, *(screen.slopes @ screen.apart))
        y = (self.u - np.where(t > 0, *arms.means)) / arms.limit
        r = np.clip(y - own * arms.spread / arms.limit, -1, 1)
        left = t - arms.share - arms.share * (1 - arms.share) * (f @ screen.weights)
        a = np.clip(left / screen.reach, -1, 1)
        sums = np.concatenate([c.T @ r, c.T @ a])
        sd = self._sd(part, SCREEN_L2, len(sums))
        noisy = self._noisy(sums, sd)
        return ReleasedScreen(noisy[: c.shape[1]], noisy[c.shape[1] :], sd)

    def scores(self, scores: Scores, part: Any) -> ReleasedScores:
        arms, t = scores.arms, self.t
        cut = feature_values(scores.features, self.z)[:, 1:] - scores.middle
        f = line_values(scores.features.lines, self.z)
        x = np.column_stack([f - scores.middle[: f.shape[1]], cut[:, f.shape[1] :]])
        side = np.where(t > 0, 1 - arms.share, -arms.share)
        y = (self.u - np.where(t > 0, *arms.means)) / arms.spread
        by_slopes, by_weights = x @ scores.slopes.T, cut @ scores.weights.T
        moved = np.where(t > 0, *by_slopes.T) - side * np.where(t > 0, *(scores.slopes @ scores.apart))
        index = np.where(t > 0, *by_weights.T) - side * np.where(t > 0, *scores.index)
        k1, k0 = scores.lean
        w = np.where(t > 0, (1 - k1 * index) / arms.share, -(1 + k0 * index) / (1 - arms.share))
        v = np.clip((by_slopes[:, 0] - by_slopes[:, 1] + w * (y - moved)) / scores.cut, -1, 1)
        sums = np.array([v.sum(), v @ v]) / self.n
        if self.public.pure:
            scale = SCORES_L1 / (float(part) * self.public.mu * self.n)
            mean, square = sums + scale * self.random.laplace(size=2) / np.array([1.0, SQUARE_L1])
            sd = math.sqrt(2) * scale
            return ReleasedScores(float(mean), float(square), sd, scale, 1.0, sd / SQUARE_L1)
        sd = self._sd(part, SCORES_L2, 2)
        mean, square = sums + sd * self.random.standard_normal(2)
        return ReleasedScores(float(mean), float(square), sd, sd)


def four_releases(public: Public, source: InMemory) -> FiveReleases:
    """Releases 1 to 4 of people in memory, each asked for by those before it."""
    asked, parts = FiveReleases(public), parts_of(public)
    asked.scales = source.scales(parts.scales)
    asked.lines = source.moments(asked.lines_asked, asked.found_scales, parts.lines)
    if parts.screen:
        asked.screen = source.screen(asked.screen_asked, parts.screen)
        asked.refit = source.moments(asked.refit_asked, asked.found_scales, parts.refit)
    return asked


def adjust(
    x: Array,
    declared: Mapping[str, Mapping[str, Any]],
    t: Array,
    y: Array,
    span: tuple[float, float],
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    estimand: str = "ATE",
    trial: bool = False,
    prior: Prior | None = None,
    levels: tuple[float, ...] = LEVELS,
    stated: tuple[EncodedColumn, ...] = (),
) -> Answer:
    """Estimate and intervals at ``levels``, in outcome units.

    Args:
        x: a column for each declared covariate, in its order; levels as they are, nan: missing.
        declared: by name {"lower", "upper", "scale"} of a number or {"levels"} of a category.
        t, y: treatment 0/1 and the outcome.
        span: declared range of the outcome.
        epsilon, delta: of all releases; delta 0: Laplace noise.
        rng: of the noise.
        estimand, trial, prior: as in ``Public``.
        levels: of the intervals.
        stated: declared terms, of a study that looks for no other curve.
    """
    z, columns = encode(np.asarray(x, dtype=float), declared)
    half, middle = (span[1] - span[0]) / 2, (span[1] + span[0]) / 2
    u = np.clip((np.asarray(y, dtype=float) - middle) / half, -1, 1)
    mu = epsilon if delta == 0 else mu_of(epsilon, delta)
    lines_alone = PURE_LINES_ALONE if delta == 0 else LINES_ALONE
    public = Public(
        len(t),
        (*columns, *stated),
        estimand,
        trial,
        prior or Prior(),
        mu,
        delta == 0,
        asked=asked_of(lines_alone) if stated else None,
        stated=bool(stated),
    )
    source = InMemory(z, np.asarray(t, dtype=float), u, public, rng)
    estimator = four_releases(public, source)
    estimator.scores = source.scores(estimator.scores_asked, parts_of(public).scores)
    assert estimator.scales is not None
    law = estimator.law
    noise = float(law.error.var()) + law.noise.deviation**2
    share, sd = float(estimator.scales.arms[2]), float(estimator.scales.arms_sd[2])
    answered = min(share, 1 - share) >= FLOOR_DEVIATIONS * sd
    sizes = law.value, law.sampling**2, noise, 0.0, 0.0
    part = Part(0, "", "", answered, *sizes, None, mixing=law.mixing, error=law.error)
    ends = [limits(part, 2.0, 1 - level)[1] for level in levels]
    return Answer(law.value * half, tuple((one.lower * half, one.upper * half) for one in ends), estimator)
