"""What can be expected of a difference of weighted means before a row is read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from causalveil.schemas.privacy import PrivacyCost
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.models.weighted.perturb import mechanism, shares, variance_unit
from causalveil.tasks.models.weighted.public_weights import PublicWeights

# Quantiles at which noise in the variance is looked at.
LOOKS = 16


def weighted_expected(
    weights: PublicWeights, square: float, cost: PrivacyCost, findings: Callable[[FloatArray], EffectFindings]
) -> tuple[EffectFindings, float]:
    """The findings if no noise happened to be drawn and there were no effect, and the mean half-width over the noise.

    Args:
        weights: the weighting.
        square: the outcome's variance within arms that pairs see, for outcomes in [-1, 1].
        cost: of the draw.
        findings: from the two numbers.
    """
    if not weights.measurable:
        found = findings(np.zeros(2))
        return found, _half(found)
    second = float(shares(weights, cost)[1]) * float(sum(weights.weight_squares)) * square
    second /= float(variance_unit(weights))
    scale = mechanism(cost).known_scale
    found = findings(np.array([0.0, second]))
    halves = [_half(findings(np.array([0.0, second + scale * look]))) for look in _looks(cost)]
    return found, float(np.mean(halves))


def _looks(cost: PrivacyCost) -> list[float]:
    """Noise at its quantiles, in scales."""
    places = (np.arange(LOOKS) + 0.5) / LOOKS
    if cost.delta > 0:
        return [float(value) for value in ndtri(places)]
    return [float(value) for value in np.where(places < 0.5, np.log(2 * places), -np.log(2 * (1 - places)))]


def _half(found: EffectFindings) -> float:
    return (found.interval.upper - found.interval.lower) / 2
