"""Arms that noise hides: which of them may be empty."""

from __future__ import annotations

from scipy.special import ndtri


def may_be_empty(share: float, error: float, confidence: float) -> bool:
    """Whether a released treated share does not tell an arm from an empty one, of whose outcomes nobody knows.

    A share of 0 is taken for one with probability 1 - ``confidence`` at most.

    Args:
        share: as released, anywhere.
        error: standard deviation of its noise.
        confidence: in [0.5, 1).
    """
    return min(share, 1 - share) <= float(ndtri(confidence)) * error
