"""Read release 3 as curves of outcome and treatment along each number.

The curves g of the outcome's residual and m of treatment's are functions of one number, less their mean and line. They
are normal, (g, m) ~ N(0, Sigma x K), of Sigma = [[a^2, r a b], [r a b, b^2]] on a grid whose chances are fitted to all
numbers, and of K as likely one as the other a process (smooth, and a random walk) along the number, its square alone,
or a single step anywhere. Release 3 has seen E c_j g and E c_j m with noise, of each candidate c_j of that number. A
product of two columns is such a curve of one value. Curves confound by E g m, and by what kept features leave of both
where some are kept.

So what candidates do not span, and what noise left of their shape, is in the draws: a curve that is clear is not taken
to be known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np
from scipy.sparse import csc_array
from scipy.special import ndtri

from causalveil.tasks.estimate.adjust.released import RandomDraws
from causalveil.tasks.machine.arrays import FloatArray, IntArray

# Cells of a number end at quantiles: many where most people are, and some in the tails, where squares are.
TAILS = (0.005, 0.01)
QUANTILES = np.array([*TAILS, *np.arange(1, 48) / 48, *(1 - tail for tail in TAILS[::-1])])
CELLS = len(QUANTILES) + 1
# How far the smooth half of the process reaches, in parts of all people; the other half is a random walk.
REACHES = 0.15
# Deviations (a, b) of curves that exist; their correlation, as of slopes of lines with drivers of treatment.
WIDTHS_OUTCOME, WIDTHS_TREATMENT = (0.05, 0.12, 0.3, 0.6), (0.1, 0.25, 0.6, 1.2)
ALONG = (-0.95, -0.7, 0.7, 0.95)
# An outcome's curve of which treatment shows no part may have one of these, which chance, 1/sqrt(n p (1 - p)), hides
# in 30,000 and in 5,000 people.
HIDDEN = (0.0, 0.02, 0.05)
# Prior counts: for each curve 2 without effect, then those that drive outcome or treatment alone, and that confound
# (as of single candidates, which were chosen on random tables 0 to 199).
NULL, ONE_SIDED, BOTH, ROUNDS = 2.0, 3.0, 5.0, 40
# A curve is seen where confounding is as likely as not; one that is, in four of five runs, has readings of outcome and
# treatment that are longer by LONGER, in deviations.
SEEN, LONGER = 0.5, float(ndtri(0.8)) / math.sqrt(2)
NO_HEAPS: Mapping[int, FloatArray] = MappingProxyType({})
NO_HEAP = np.zeros((0, 2))
# Candidates that correlate more count as equal: one has less than APART of its deviation beside the other.
SAME = 0.9
APART = math.sqrt(1 - SAME**2)


def _grid() -> tuple[FloatArray, FloatArray]:
    """Return the grid of Sigma and the prior count of each point.

    (a, b, r) stand in rows, that of no curve first. A width twice as large is half as likely: its logarithm is
    uniform.
    """
    wide = [(a, b, r) for a in WIDTHS_OUTCOME for b in HIDDEN for r in (ALONG if b else (0.0,))]
    apart = [(0.0, b, 0.0) for b in WIDTHS_TREATMENT]
    both = [(a, b, r) for a in WIDTHS_OUTCOME for b in WIDTHS_TREATMENT for r in ALONG]
    rare = [np.array([1 / a if r == 0 else 1 / a / len(ALONG) for a, _, r in wide])]
    rare.append(np.array([1 / b for _, b, _ in apart]))
    rare.append(np.array([1 / (a * b) for a, b, _ in both]))
    counts = [
        part * weights / weights.sum() for part, weights in zip((ONE_SIDED / 2, ONE_SIDED / 2, BOTH), rare, strict=True)
    ]
    return np.array([(0.0, 0.0, 0.0), *wide, *apart, *both]), np.concatenate([[1.0], *counts])


@dataclass(frozen=True)
class CurveGroup:
    """Curves along numbers, or of products, with their moments in a synthetic table.

    Attributes:
        own: places of each curve's candidates, -1 beyond the last, shape (curves, J).
        lines: place of each curve's line; -1 of a product.
        at: of each cell the line's mean, shape (curves, B).
        ends: a function has the cell's value between them: those of heaps, or its mean twice, shape (curves, B, 2).
        share: of rows in each cell, 0 in cells that there are not, shape (curves, B).
        root: of K of the process over cells, shape (curves, B, B).
        alone: shapes of mean square 1: the square, and a step between each two cells, 0 where there is none, shape
            (curves, B, B); none of a product, which is its root.
        moments: E 1_b c_j of each cell and candidate, shape (curves, B, m).
        of_lines: E 1_b f of each cell and line, shape (curves, B, d).
    """

    own: IntArray
    lines: IntArray
    at: FloatArray
    ends: FloatArray
    share: FloatArray
    root: FloatArray
    alone: FloatArray
    moments: FloatArray
    of_lines: FloatArray

    @cached_property
    def readings(self) -> FloatArray:
        """E 1_b c_j of each curve's own candidates, shape (curves, B, J)."""
        places = np.maximum(self.own, 0)[:, None, :]
        readings: FloatArray = np.take_along_axis(self.moments, places, axis=2) * (self.own >= 0)[:, None, :]
        return readings

    @cached_property
    def process(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the process in the eigenbasis of its moments with candidates.

        Eigenvalues (curves, J), directions of candidates (curves, J, J), and covariances of cells with moments along
        these (curves, B, J).
        """
        kernel = self.root @ self.root.swapaxes(1, 2)
        values, vectors = np.linalg.eigh(self.readings.swapaxes(1, 2) @ kernel @ self.readings)
        return np.maximum(values, 0), vectors, kernel @ self.readings @ vectors

    @cached_property
    def single(self) -> tuple[FloatArray, FloatArray]:
        """Return the moments of each shape alone with candidates, as lengths and directions.

        Lengths have the shape (curves, B), directions (curves, B, J).
        """
        seen = self.alone @ self.readings
        length = np.sqrt((seen**2).sum(axis=2))
        return length, seen / np.maximum(length, 1e-12)[..., None]

    @cached_property
    def shapes(self) -> FloatArray:
        """Return the prior probabilities of the process and of each shape alone.

        The shape is (curves, 1 + B).
        """
        present = (self.alone != 0).any(axis=2).astype(np.float64)
        present[:, 1:] /= np.maximum(present[:, 1:].sum(axis=1, keepdims=True), 1)
        relative = np.concatenate([np.ones((len(present), 1)), present], axis=1)
        likely: FloatArray = relative / relative.sum(axis=1, keepdims=True)
        return likely

    def own_of(self, seen: FloatArray) -> FloatArray:
        """Return readings of all candidates, shape (m, 2), by curve, shape (curves, J, 2)."""
        readings: FloatArray = np.where((self.own >= 0)[..., None], seen[np.maximum(self.own, 0)], 0.0)
        return readings


def shapes_of(at: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a root of the K of a number's process over cells, and shapes alone.

    Both have the shape (B, B). They have no mean and no line, and a mean variance of 1.
    """
    sure = share > 0
    lines = np.column_stack([np.ones(len(at)), at])
    off = np.eye(len(at)) - lines @ np.linalg.pinv(lines.T @ (share[:, None] * lines)) @ (lines.T * share)
    off = off * np.outer(sure, sure)
    # Halfway between quantiles and the line itself, both of deviation 1/sqrt(12): squares grow in the tails.
    level = (np.cumsum(share) - share / 2 + (at - at[0]) / math.sqrt(12)) / 2
    smooth = np.exp(-0.5 * ((level[:, None] - level) / REACHES) ** 2)
    kernel = np.zeros((len(at), len(at)))
    for covariance in (smooth, np.minimum(level[:, None], level)):
        left = off @ covariance @ off.T
        kernel += left / 2 / max(float(share @ np.diagonal(left)), 1e-12)
    values, vectors = np.linalg.eigh(kernel)
    alone = np.vstack([at**2, np.triu(np.ones((len(at), len(at))), 1)[:-1] * sure[1:, None]]) @ off.T
    size = np.sqrt(alone**2 @ share)[:, None]
    return vectors * np.sqrt(np.maximum(values, 0)), alone * (size > 1e-6) / np.maximum(size, 1e-6)


def between_heaps(values: FloatArray, heaps: FloatArray, f: FloatArray) -> FloatArray:
    """Move places within a heap along a number to its nearer end, in rows.

    Where in its cell a heap lies is not known: a function has one value there.

    Args:
        values: the places.
        heaps: lower and upper ends, shape (heaps, 2).
        f: the number of the rows, in order.
    """
    moved = values.copy()
    for low, high in heaps:
        within = (values > low) & (values < high)
        rank, first, last = (np.searchsorted(f, value) for value in (values[within], low, high))
        moved[within] = np.where(rank - first < last - rank, low, high)
    return np.unique(moved)


def curves_along(
    places: Sequence[int],
    own: Sequence[Sequence[int]],
    f: FloatArray,
    c: FloatArray,
    heaps: Mapping[int, FloatArray] = NO_HEAPS,
) -> CurveGroup:
    """Return the curves along numbers, of synthetic rows.

    Args:
        places: of the numbers' lines.
        own: places of each number's candidates.
        f, c: lines and candidates of the rows, shape (rows, d) and (rows, m).
        heaps: ends of those along each number, shape (heaps, 2).
    """
    count, most = len(places), max(map(len, own), default=1)
    padded = np.full((count, most), -1, dtype=np.int64)
    at, share, ends = np.zeros((count, CELLS)), np.zeros((count, CELLS)), np.zeros((count, CELLS, 2))
    root, alone = np.zeros((count, CELLS, CELLS)), np.zeros((count, CELLS, CELLS))
    of_row, ordered, starts = np.empty((len(f), count), dtype=np.int64), list[FloatArray](), list[IntArray]()
    for place, line in enumerate(places):
        order = np.argsort(f[:, line], kind="stable")
        ordered.append(f[order, line])
        edges = between_heaps(np.quantile(ordered[-1], QUANTILES), heaps.get(line, NO_HEAP), ordered[-1])
        first = np.unique(np.concatenate([[0], np.searchsorted(ordered[-1], edges)]))
        starts.append(first[first < len(f)])
        rows = np.diff([*starts[-1], len(f)])
        share[place, : len(rows)] = rows / len(f)
        of_row[order, place] = np.repeat(np.arange(len(rows)), rows) + place * CELLS
    # Rows add all of their values to one cell of each number: no copy of them is put in order.
    cells = (np.ones(of_row.size), of_row.ravel(), count * np.arange(len(f) + 1))
    shape = count * CELLS, len(f)
    moments, of_lines = (
        (csc_array(cells, shape) @ np.ascontiguousarray(values) / len(f)).reshape(count, CELLS, values.shape[1])
        for values in (c, f)
    )
    for place, (line, candidates) in enumerate(zip(places, own, strict=True)):
        padded[place, : len(candidates)] = candidates
        filled = slice(None, len(starts[place]))
        at[place, filled] = of_lines[place, filled, line] / share[place, filled]
        ends[place] = at[place, :, None]
        for low, high in heaps.get(line, NO_HEAP):
            cell = np.searchsorted(starts[place], np.searchsorted(ordered[place], low), side="right") - 1
            ends[place, cell] = min(low, ends[place, cell, 0]), max(high, ends[place, cell, 1])
        root[place], alone[place] = shapes_of(at[place], share[place])
    return CurveGroup(padded, np.array(places, dtype=np.int64), at, ends, share, root, alone, moments, of_lines)


def products_alone(places: Sequence[int], f: FloatArray, c: FloatArray) -> CurveGroup:
    """Return products as curves of one value, of synthetic rows."""
    count, at = len(places), np.array(places, dtype=np.int64)
    ones = np.ones((count, 1))
    moments, nothing = (c[:, at].T @ c / len(c))[:, None, :], np.zeros((count, 1, f.shape[1]))
    alone = np.zeros((count, 0, 1))
    none = np.zeros((count, 1, 2))
    return CurveGroup(at[:, None], np.full(count, -1), 0 * ones, none, ones, ones[..., None], alone, moments, nothing)


class Profiles:
    """Posterior of all curves, given noisy moments of candidates.

    Curves along numbers come before products.
    """

    def __init__(
        self,
        own: Sequence[CurveGroup],
        seen: FloatArray | None,
        sds: tuple[float, float],
        random: RandomDraws,
        count: int,
    ) -> None:
        """Fit the chances of the grid.

        Args:
            own: the curves.
            seen: moments of each candidate with outcome and treatment, shape (m, 2); None: nothing was released.
            sds: deviation of the noise on moments with the outcome, and with treatment.
            random: of Monte Carlo draws.
            count: number of draws.
        """
        self.own, self.seen, self.sds, self.sizes = tuple(own), seen, np.array(sds), [len(curves.own) for curves in own]
        self.grid, prior = _grid()
        prior[0] = NULL * max(sum(self.sizes), 1)
        # The same random numbers whatever was kept: what is kept moves draws by what it explains alone. They are put in
        # order by curve, of which a product of matrices then has all draws.
        self.normal = [
            (
                random.random((count, len(curves.own))).T,
                np.ascontiguousarray(random.standard_normal((count, 2, *curves.share.shape)).transpose(1, 2, 0, 3)),
                np.ascontiguousarray(random.standard_normal((count, *curves.own.shape, 2)).transpose(3, 1, 0, 2)),
            )
            for curves in own
        ]
        self.fitted = prior / prior.sum()
        self.likelihood = self._likelihood()
        if seen is not None:
            # Likelihood of each point of the grid, over all shapes.
            likely = [
                (curves.shapes[:, None] * likelihood).sum(axis=2)
                for curves, likelihood in zip(own, self.likelihood, strict=True)
            ]
            points = np.concatenate([np.zeros((0, len(prior))), *likely])
            for _ in range(ROUNDS):
                share = prior + self.fitted * (points / (points @ self.fitted)[:, None]).sum(axis=0)
                self.fitted = share / share.sum()
        self.chances = self._of_grid()

    def take_off(self, explained: FloatArray) -> None:
        """Take off the part of the moments that kept features explain, shape (m, 2)."""
        if self.seen is not None:
            self.seen = self.seen - explained
            self.likelihood = self._likelihood()
            self.chances = self._of_grid()

    def _likelihood(self) -> list[FloatArray]:
        """Return the likelihood of the moments over each curve's largest one.

        Each array has the shape (curves, grid, shapes).
        """
        likelihoods = []
        for curves in self.own:
            log = np.zeros((len(curves.own), len(self.grid), curves.shapes.shape[1]))
            if self.seen is not None:
                (values, vectors, _), (length, along) = curves.process, curves.single
                readings = curves.own_of(self.seen)
                log[..., 0] = self._log(values[:, None], self.grid, vectors.swapaxes(1, 2) @ readings).sum(axis=-1)
                log[..., 1:] = self._log(length[:, None] ** 2, self.grid, along @ readings)
            likelihoods.append(np.exp(log - log.max(axis=(1, 2), keepdims=True)))
        return likelihoods

    def _of_grid(self) -> list[FloatArray]:
        """Return the chances of the grid and of shapes by curve, along numbers and of products."""
        by_curve = []
        for curves, likely in zip(self.own, self.likelihood, strict=True):
            chance = self.fitted[:, None] * curves.shapes[:, None] * likely
            by_curve.append(chance / chance.sum(axis=(1, 2), keepdims=True))
        return by_curve

    def confounds(self) -> FloatArray:
        """Return the probability that each curve drives both outcome and treatment."""
        both = self.grid[:, 0] * self.grid[:, 1] > 0
        return np.concatenate([np.zeros(0), *(chances[:, both].sum(axis=(1, 2)) for chances in self.chances)])

    def unseen(self) -> float:
        """Return the most that one more curve confounds that is not seen in four of five runs.

        Of all curves with readings that are as clear, a^2/sd^2 + b^2/sd^2, the bias a b is largest at a/sd = b/sd.
        """
        lengths = np.linspace(0, 10, 101)
        clear = self._log(np.ones(1), self.grid, lengths[:, None] * self.sds)
        clear += np.log(self.fitted)[:, None]
        chances = np.exp(clear - clear.max(axis=0))
        both = chances[self.grid[:, 0] * self.grid[:, 1] > 0].sum(axis=0) / chances.sum(axis=0)
        least = lengths[np.argmax(both >= SEEN)] if (both >= SEEN).any() else lengths[-1]
        return float((least + LONGER) ** 2 * self.sds.prod())

    def means(self, kind: int, place: int) -> FloatArray:
        """Return the means of g and m over the cells of one curve, shape (B, 2).

        ``kind``: 0 along numbers, 1 of products.
        """
        curves, chances = self.own[kind], self.chances[kind][place]
        if self.seen is None:
            return np.zeros((curves.share.shape[1], 2))
        values, vectors, covariances = (values_of[place] for values_of in curves.process)
        length, along = (values_of[place] for values_of in curves.single)
        readings = curves.own_of(self.seen)[place]
        of_outcome, of_treatment = (
            np.stack(_times_sigma(self.grid, *self._solved(length_square, self.grid, *seen.T)), axis=-1)
            for length_square, seen in ((values, vectors.T @ readings), (length**2, along @ readings))
        )
        sizes = length[:, None] * (chances[:, 1:, None] * of_treatment).sum(axis=0)
        means: FloatArray = (
            covariances @ (chances[:, :1, None] * of_outcome).sum(axis=0) + curves.alone[place].T @ sizes
        )
        return means

    def draws(self) -> list[tuple[FloatArray, FloatArray]]:
        """Draw g and m over cells, shape (count, curves, B) each.

        A draw of the prior is moved by the difference between the released readings and its own.
        """
        drawn_curves = []
        for curves, chances, (even, normal, noise) in zip(self.own, self.chances, self.normal, strict=True):
            shapes = chances.shape[2]
            edges = chances.reshape(len(chances), len(self.grid) * shapes).cumsum(axis=1)
            cells = [np.searchsorted(cumulated, u) for cumulated, u in zip(edges, even, strict=True)]
            chosen = np.minimum(np.array(cells, dtype=np.int64).reshape(even.shape), edges.shape[1] - 1)
            sigma, shape = self.grid[chosen // shapes], chosen % shapes
            function, (length, along) = (
                _chosen(curves.alone, shape),
                (_chosen(shapes_seen, shape) for shapes_seen in curves.single),
            )
            process, (a, b, r) = (shape == 0)[..., None], np.moveaxis(sigma[..., None], -2, 0)
            x = np.where(process, normal @ curves.root.swapaxes(1, 2), function * normal[..., :1])
            g, m = a * x[0], b * (r * x[0] + np.sqrt(1 - r**2) * x[1])
            if self.seen is not None:
                values, vectors, covariances = curves.process
                seen = np.moveaxis(curves.own_of(self.seen), -1, 0)[:, :, None]
                lacks = seen - noise * self.sds[:, None, None, None] - np.stack([g, m]) @ curves.readings
                turned = _times_sigma(sigma, *self._solved(values[:, None], sigma, *(lacks @ vectors)))
                along_it = (lacks * along).sum(axis=-1, keepdims=True)
                sizes = _times_sigma(sigma, *self._solved(length[..., None] ** 2, sigma, *along_it))
                function *= length[..., None]
                for function_draws, all_of_it, size in zip((g, m), turned, sizes, strict=True):
                    function_draws += np.where(process, all_of_it @ covariances.swapaxes(1, 2), function * size)
            drawn_curves.append((g.swapaxes(0, 1), m.swapaxes(0, 1)))
        return drawn_curves

    def _covariance(self, values: FloatArray, sigma: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the entries of the covariance of readings (y, t), shape (..., J) each."""
        a, b, r = np.moveaxis(sigma[..., None], -2, 0)
        return values * a**2 + self.sds[0] ** 2, values * b**2 + self.sds[1] ** 2, values * (r * a * b)

    def _solved(
        self, values: FloatArray, sigma: FloatArray, y: FloatArray, t: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return readings of outcome and treatment, shape (..., J) each, over their covariance.

        Args:
            values: of the process along each reading, shape (..., J).
            sigma: (a, b, r), shape (..., 3).
            y, t: in that basis.
        """
        outcome, treatment, both = self._covariance(values, sigma)
        size = outcome * treatment - both**2
        return (treatment * y - both * t) / size, (outcome * t - both * y) / size

    def _log(self, values: FloatArray, sigma: FloatArray, readings: FloatArray) -> FloatArray:
        """Return the log likelihood of readings over that of noise alone, shape (curves, grid, J).

        Args:
            values: shape (curves, 1, J) or for all alike.
            sigma: of the grid.
            readings: shape (curves, J, 2), or (J, 2) of one curve.
        """
        y, t = np.moveaxis(readings, -1, 0)[..., None, :]
        outcome, treatment, both = self._covariance(values, sigma)
        size = outcome * treatment - both**2
        # The readings' squares over noise, less those over noise and curves.
        log: FloatArray = y**2 * (1 / self.sds[0] ** 2 - treatment / size) + t**2 * (
            1 / self.sds[1] ** 2 - outcome / size
        )
        log += 2 * y * t * both / size - np.log(size / (self.sds**2).prod())
        log *= 0.5
        return log


def _chosen(alone: FloatArray, shape: IntArray) -> FloatArray:
    """Return a quantity of the drawn shapes, by curve and draw; 0 of the process."""
    padded = np.concatenate([np.zeros((len(alone), 1, *alone.shape[2:])), alone], axis=1)
    values: FloatArray = padded[np.arange(len(alone))[:, None], shape]
    return values


def _times_sigma(sigma: FloatArray, y: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return readings of outcome and treatment times Sigma of (a, b, r), shape (..., 3)."""
    a, b, r = np.moveaxis(sigma[..., None], -2, 0)
    both = r * a * b
    return a**2 * y + both * t, both * y + b**2 * t


def directions(curves: CurveGroup, place: int, means: Sequence[FloatArray], most: int) -> FloatArray:
    """Return the one or two functions over its cells by which a curve is kept.

    Their mean square is 1, their shape (kept, B).

    Args:
        curves: those along numbers, or along products.
        place: of the curve.
        means: of g and m of each question, shape (B, 2), weighed by their harm.
        most: largest number of functions.
    """
    root = np.sqrt(curves.share[place])
    rows = np.concatenate([mean.T for mean in means]) * root
    _, sizes, vectors = np.linalg.svd(rows, full_matrices=False)
    kept = min(max(int((sizes > APART * sizes[0]).sum()), 1), most)
    functions: FloatArray = vectors[:kept] / np.where(root > 0, root, np.inf)
    return functions
