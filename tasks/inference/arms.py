"""Arms that noise hides: which of them may be empty."""

from __future__ import annotations

from scipy.special import ndtri


def may_be_empty(share: float, error: float, confidence: float) -> bool:
    """Return whether noise may hide that the arm with a released treated share is empty.

    An empty arm, whose outcomes nobody knows, is overlooked with probability 1 - ``confidence`` at most.

    Args:
        share: as released, anywhere.
        error: standard deviation of its noise.
        confidence: in [0.5, 1).
    """
    return min(share, 1 - share) <= float(ndtri(confidence)) * error
