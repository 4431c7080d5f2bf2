"""How far noisy moments are believed: shrinkage by what the public noise level says, and what it takes off.

Post-processing of released values; proofs and measurements: ``docs/proofs/aipw.md``, section 3.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.triangles import symmetric

# Eigenvalues of the second moments below this part of their mean say nothing.
SMALLEST_EIGENVALUE = 0.2
# The signal is guessed so low that what is observed exceeds its mean by so many standard deviations.
CAUTION = 1.0
# A signal that is left out although something is seen of it is guessed so high that this lies so many below its mean.
WIDE_CAUTION = 2.0
# Keep 1.5 times the textbook shrinkage factor signal/(signal + noise). Factors up to 2 never increase the error
# (section 3); more than 1 is deliberate, because shrinkage also removes adjustment for confounding.
TEXTBOOK_MULTIPLE = 1.5
# Of what adjusts, the part that the cuts of rows, residuals and slopes take off: measured, one to two in a hundred.
CUTS = 0.015
# An eigenvalue is below the floor if it is by so many deviations of the noise.
NOISE_DEVIATIONS = 2.0
# No standard deviation is taken to be smaller, in units of what it is bounded by.
LEAST_DEVIATION = 0.02


class SecondMoments(NamedTuple):
    """Second moments within arms, as far as noise lets them be known.

    Attributes:
        values: eigenvalues, above 0, shape (d,).
        vectors: their eigenvectors, in columns.
        raised: 1/raw - 1/value of each eigenvalue that the floor raised, 0 of others, shape (d,).
        factor: by which what is not a multiple of the identity was shrunk, in [0, 1].
        loose: the part of an adjustment by slopes that may be missing or too much, in [CUTS, 1].
    """

    values: FloatArray
    vectors: FloatArray
    raised: FloatArray
    factor: float
    loose: float


def positive_part(vector: FloatArray, noise: float) -> FloatArray:
    """A noisy vector, shape (d,), shrunk so that its square loses what noise adds to it on average.

    ``noise`` is the deviation of the noise on each entry.
    """
    square = float(vector @ vector)
    return vector * math.sqrt(max(0.0, 1 - len(vector) * noise**2 / square)) if square > 0 else vector


def shrinkage_factor(cross: FloatArray, values: FloatArray, noise: float) -> float:
    """TEXTBOOK_MULTIPLE signal/(signal + noise) at a cautious guess of the signal, at most 1.

    With slopes b = cross/values along eigenvectors, the error b'Gb of leaving them out is the signal S, and N =
    s^2 tr(G^-1) that of their noise. S + N is what b'Gb of the noisy slopes is on average, with standard deviation
    sqrt((2 N^2 + 4 S N)/k), k = tr(G^-1)^2/tr(G^-2); the guess is the S from which the observed one is CAUTION such
    deviations away. Keeping 2 S/(S + N) or less is never worse than keeping nothing (section 3).

    Args:
        cross: noisy cross moments along eigenvectors, shape (d,).
        values: eigenvalues, above 0, shape (d,).
        noise: s, deviation of the noise on each entry of ``cross``.
    """
    observed = float(np.sum(cross**2 / values))
    added = noise**2 * float(np.sum(1 / values))
    if added == 0:
        return 1.0
    k = float(np.sum(1 / values) ** 2 / np.sum(1 / values**2))
    # S + c sqrt(2 N^2 + 4 S N) = observed - N, squared: S^2 - 2 (excess + a) S + excess^2 - b = 0, smaller root.
    excess, c = observed - added, CAUTION / math.sqrt(k)
    half, rest = excess + 2 * c * c * added, excess**2 - 2 * (c * added) ** 2
    if excess <= 0 or rest <= 0:
        return 0.0
    signal = half - math.sqrt(half**2 - rest)
    return min(1.0, TEXTBOOK_MULTIPLE * signal / (signal + added))


def plausible_signal(cross: FloatArray, values: FloatArray, noise: float, caution: float = CAUTION) -> float:
    """The signal at which what is observed lies ``caution`` deviations below its mean, or above it if that is negative:
    both roots of the equation of :func:`shrinkage_factor`. 0 where even no signal makes it so low.

    Args:
        cross: noisy cross moments along eigenvectors, shape (d,).
        values: eigenvalues, above 0, shape (d,).
        noise: deviation of the noise on each entry of ``cross``.
    """
    observed = float(np.sum(cross**2 / values))
    added = noise**2 * float(np.sum(1 / values))
    c = caution * math.sqrt(float(np.sum(1 / values**2)) / float(np.sum(1 / values)) ** 2)
    excess = observed - added
    half, rest = excess + 2 * c * c * added, excess**2 - 2 * (c * added) ** 2
    if caution < 0 and (excess <= 0 or rest <= 0):
        return 0.0
    return max(0.0, half + math.copysign(math.sqrt(max(0.0, half**2 - rest)), caution))


def signal_ratio(cross: FloatArray, values: FloatArray, noise: float) -> float:
    """Signal over signal and noise as observed, in [0, 1], without :func:`shrinkage_factor`'s caution.

    Args:
        cross: noisy cross moments along eigenvectors, shape (d,).
        values: eigenvalues, above 0, shape (d,).
        noise: deviation of the noise on each entry of ``cross``.
    """
    observed = float(np.sum(cross**2 / values))
    return max(0.0, 1 - noise**2 * float(np.sum(1 / values)) / observed) if observed > 0 else 0.0


def taken_off(factor: float, signal: float, seen: float, noise: float) -> float:
    """Mean square of what shrinkage takes off a number: (1 - factor)^2 (signal^2 seen^2 + signal noise).

    Of a normal signal that is the part ``signal`` of what is ``seen``, with noise of variance ``noise``: its mean and
    variance given what is seen. ``factor``, in [0, 1], is what it was shrunk by.
    """
    return (1 - factor) ** 2 * ((signal * seen) ** 2 + signal * noise)


def second_moments(
    released: FloatArray, d: int, noise: float, units: int, centre: FloatArray, apart: FloatArray, constant: int = 0
) -> SecondMoments:
    """What the released second moments say.

    Around ``centre`` they are their mean eigenvalue times the identity, and of the rest the part that exceeds the
    noise's own square (positive part). Then ``apart``, the arms' distance, is taken off, and eigenvalues are raised to
    SMALLEST_EIGENVALUE of the mean.

    Args:
        released: upper triangle, weighted, or the trace alone.
        d: columns.
        noise: deviation of the noise on each number of it.
        units: in training.
        centre: mean of x, shape (d,).
        apart: the arms' distance, shape (d,).
        constant: in how many directions x never varies, publicly.
    """
    factor = 0.0
    middle, between = units * np.outer(centre, centre), units * np.outer(apart, apart)
    if len(released) == 1:
        trace, rest = float(released[0]) - float(np.trace(middle)), np.zeros((d, d))
    else:
        matrix = second_moment_matrix(released, d) - middle
        trace = float(np.trace(matrix))
        rest = matrix - mean_eigenvalue(trace, d, units) * np.eye(d)
        square = float(np.sum(rest**2))
        factor = max(0.0, 1 - noise**2 * d * (d + 1) / square) if square > 0 else 0.0
    mean = mean_eigenvalue(trace, d, units)
    raw, vectors = np.linalg.eigh(mean * np.eye(d) + factor * rest - between)
    values = np.maximum(raw, SMALLEST_EIGENVALUE * mean)
    told = are_told(trace, d, units, len(released) > 1)
    loose = loose_part(float(raw[min(constant, d - 1)]), mean, d, noise) if told else 1.0
    return SecondMoments(values, vectors, raised_by(raw, values, constant), factor, loose)


def second_moment_matrix(released: FloatArray, d: int) -> FloatArray:
    """The matrix, shape (d, d), of its released upper triangle: row by row, diagonal entries over sqrt(2)."""
    upper = np.triu_indices(d)
    return symmetric(released * np.where(upper[0] == upper[1], math.sqrt(2), 1.0), d)


def mean_eigenvalue(trace: float, d: int, units: int) -> float:
    """Of second moments with this trace, no less than rows of LEAST_DEVIATION have."""
    return max(trace, LEAST_DEVIATION * units) / d


def mean_eigenvalue_noise(noise: float, d: int, gram: bool) -> float:
    """Deviation of the noise in it, of this deviation on every released number: of d diagonal entries, or a trace."""
    return noise * (math.sqrt(2 / d) if gram else 1 / d)


def are_told(trace: float, d: int, units: int, gram: bool) -> bool:
    """Whether released moments tell the directions apart: more than the trace was released, and it is not too small."""
    return trace >= LEAST_DEVIATION * units and (d == 1 or gram)


def raised_by(raw: FloatArray, values: FloatArray, constant: int) -> FloatArray:
    """1/raw - 1/value of each eigenvalue, ascending: by how much less slopes adjust along it than they would.

    0 in directions in which x never varies, and where ``raw`` is not positive: :func:`loose_part` speaks of these.
    """
    counts = (raw > 0) & (np.arange(len(raw)) >= constant)
    found: FloatArray = np.where(counts, 1 / np.where(counts, raw, 1.0) - 1 / values, 0.0)
    return found


def noise_reach(noise: float, d: int) -> float:
    """How far the eigenvalues of symmetric noise reach, of this deviation an entry: 2 noise sqrt(d), Wigner's edge."""
    return 2 * noise * math.sqrt(d)


def loose_part(lowest: float, mean: float, d: int, noise: float) -> float:
    """The part of an adjustment by slopes that noise on the second moments, or the floor below them, may spoil.

    All of it where a direction lies clearly below the floor and is not clear of the noise, whose eigenvalues reach
    2 noise sqrt(d): nobody can tell what confounds along it. Else what the inverse of a noisy matrix adds on average,
    E G^-1 E G^-1 = noise^2 d/lowest^2; two directions of it are in the variance already
    (``tasks/aipw/leaning.py``).

    Args:
        lowest: smallest eigenvalue of a direction in which x varies.
        mean: of all eigenvalues.
        d: columns.
        noise: deviation of the noise on each entry.
    """
    floor = SMALLEST_EIGENVALUE * mean
    if lowest < floor - NOISE_DEVIATIONS * noise and lowest <= noise_reach(noise, d):
        return 1.0
    return min(1.0, CUTS + noise**2 * max(d - 2, 0) / max(lowest, floor) ** 2)
