"""What randomised treatments leave of an effect, and the treated share behind them."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri


def attenuation(share: float, keep: float) -> float:
    """A = P(t = 1 | t' = 1) - P(t = 1 | t' = 0): what a difference between randomised arms keeps of an effect.

    Args:
        share: p, the share of treated units, in [0, 1]; 0 and 1 have A = 0.
        keep: the probability that a treatment is kept, in (1/2, 1).
    """
    if not 0 < share < 1:
        return 0.0
    treated = keep * share + (1 - keep) * (1 - share)
    return keep * share / treated - (1 - keep) * share / (1 - treated)


def treated_share(responses: int, units: int, keep: float, tail: float) -> tuple[float, float, float]:
    """The share of treated units behind randomised responses: estimate, and bounds that each miss it by ``tail``.

    The number of responses "treated" has mean n (1 - keep + (2 keep - 1) p) and, given the treatments, variance
    n keep (1 - keep) exactly; the bounds are normal. All three are cut to [0, 1].

    Args:
        responses: units whose randomised treatment is 1.
        units: n.
        keep: the probability that a treatment is kept, in (1/2, 1).
        tail: in (0, 1/2].
    """
    contrast = 2 * keep - 1
    share = (responses / units - (1 - keep)) / contrast
    reach = -float(ndtri(tail)) * math.sqrt(keep * (1 - keep) / units) / contrast
    low, middle, high = np.clip([share - reach, share, share + reach], 0.0, 1.0).tolist()
    return middle, low, high


def attenuation_range(low: float, high: float, keep: float) -> tuple[float, float]:
    """Least and largest attenuation factor for shares in [low, high]; largest of all at p = 1/2."""
    ends = (attenuation(low, keep), attenuation(high, keep))
    return min(ends), attenuation(0.5, keep) if low <= 0.5 <= high else max(ends)
