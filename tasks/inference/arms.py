"""Arms that noise hides: where their means are taken to lie, and which of them may be empty.

Outcomes of declared ranges lie anywhere in them, costs near one end of theirs. An arm of which noise hides the mean is
taken to lie where everybody does, and not in the middle of the range: of a rare treatment everybody else tells that.
Post-processing of released sums.
"""

from __future__ import annotations

from scipy.special import ndtr, ndtri

# What is believed of a mean falls so steeply around where half of it is.
POWER = 8
# Everybody's mean is half believed beside noise of this deviation, in half ranges: scores reach as far as it lies from
# the middle of the range, which is what their noise is measured by.
MIDDLE_NOISE = 0.15


def believed(noise: float, half: float) -> float:
    """The part of a mean that is believed beside noise of this standard deviation: a half where it is ``half``."""
    return 1 / (1 + (noise / half) ** POWER)


def everybody(mean: float, noise: float) -> float:
    """Where everybody's outcomes lie in [-1, 1], or 0 where noise hides it.

    Args:
        mean: as released, anywhere.
        noise: standard deviation of its noise.
    """
    return min(max(mean, -1.0), 1.0) * believed(noise, MIDDLE_NOISE)


def from_everybody(total: float, count: float, share: float, middle: float) -> float:
    """How far an arm's mean lies from everybody's, both in [-1, 1].

    Args:
        total: noisy sum of the arm's outcomes, over n.
        count: its share as released, anywhere.
        share: the same away from 0, by which is divided; where it is not ``count`` too little is said.
        middle: of everybody.
    """
    return min(max(middle + (total - middle * count) / share, -1.0), 1.0) - middle


def may_be_empty(share: float, error: float, confidence: float) -> bool:
    """Whether a released treated share does not tell an arm from an empty one, of whose outcomes nobody knows.

    A share of 0 is taken for one with probability 1 - ``confidence`` at most.

    Args:
        share: as released, anywhere.
        error: standard deviation of its noise.
        confidence: in [0.5, 1).
    """
    return min(share, 1 - share) <= _clear(confidence) * error


def chance_of_empty(share: float, error: float, confidence: float) -> float:
    """How often :func:`may_be_empty` says so of arms of this share: of two of one size of either.

    Args:
        share: of the treated, in (0, 1).
        error: standard deviation of the noise with which it is released, above 0.
        confidence: in [0.5, 1).
    """
    return min(sum(float(ndtr(_clear(confidence) - part / error)) for part in (share, 1 - share)), 1.0)


def _clear(confidence: float) -> float:
    """Deviations of noise by which a share is clear of 0."""
    return float(ndtri(confidence))
