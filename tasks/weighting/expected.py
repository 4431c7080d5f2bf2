"""Planning of public weights before a row is read.

A planning population, and a difference of its means.

Its log odds of treatment are normal with deviation OVERLAP, and the index behind them explains EXPLAINED of outcomes'
variance within arms; where a study allows for no imbalance, as in a trial, it does neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtri

from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import StandIn
from causalveil.schemas.privacy import PrivacyCost
from causalveil.schemas.study import EffectStudy, Estimand
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.machine.arrays import ByteArray, FloatArray
from causalveil.tasks.weighting.features import BINS, CONSTANT_PENALTY, INDEX, NUMBER_OF_BINS
from causalveil.tasks.weighting.imbalance import Balance
from causalveil.tasks.weighting.weighted_means import PublicWeights, mechanism, shares, variance_unit

OVERLAP = 1.1
EXPLAINED = 0.45
# People of the stand-in population, whatever the study's size; weights scale with n.
PEOPLE = 4_000
WHOLE = 2**12


class People(NamedTuple):
    """A stand-in population: features, arms, their chances of treatment, and penalties.

    Features have shape (PEOPLE, features).
    """

    features: FloatArray
    t: ByteArray
    chances: FloatArray
    penalties: FloatArray


@lru_cache(maxsize=64)
def stand_in_people(treated: float, overlap: float) -> People:
    """Return people at the quantiles of a normal index.

    A share of treated that leaves an arm empty is moved inwards.
    """
    treated = min(max(treated, 2 / PEOPLE), 1 - 2 / PEOPLE)
    index: FloatArray = ndtri((np.arange(PEOPLE) + 0.5) / PEOPLE)
    constant = brentq(lambda a: float(np.mean(expit(a + overlap * index))) - treated, -40.0, 40.0)
    # One treated person whenever the chances add up to one more.
    chances: FloatArray = expit(constant + overlap * index)
    passed = np.floor(np.cumsum(chances) + 0.5)
    t: ByteArray = np.diff(passed, prepend=0.0).astype(np.uint8)
    bins = np.eye(NUMBER_OF_BINS)[np.arange(PEOPLE) * NUMBER_OF_BINS // PEOPLE]
    bins = (bins - bins.mean(axis=0)) / bins.std(axis=0)
    features = np.column_stack([np.ones(PEOPLE), index, bins])
    return People(
        features, t, chances, np.array([CONSTANT_PENALTY, 1 / INDEX, *[NUMBER_OF_BINS / BINS] * NUMBER_OF_BINS])
    )


def arms_of(units: int, share: float) -> tuple[int, int]:
    """Return treated and controls.

    Raises:
        DataError: there are no two arms.
    """
    if units < 2:
        raise DataError("one unit has no other to be compared with")
    treated = min(max(round(units * share), 1), units - 1)
    return treated, units - treated


def stand_in_balance(
    people: People, arms: tuple[int, int], estimand: Estimand, weights: list[FloatArray], caps: tuple[float, float]
) -> Balance:
    """Summarise weights of a stand-in population as if its arms had the study's units.

    Args:
        people: the stand-in population.
        arms: units of the study's arms.
        estimand: whom the effect is averaged over.
        weights: of the treated and of the controls.
        caps: what they were allowed.
    """
    largest, squares, means = [], [], []
    for place, v in enumerate(weights):
        share = v / v.mean()
        largest.append(float(share.max()))
        squares.append(float(np.mean(share * share)))
        means.append(share @ people.features[people.t == 1 - place] / len(share))
    found = PublicWeights(
        arms=arms,
        queries={Estimand.ATE: sum(arms), Estimand.ATT: arms[0], Estimand.ATC: arms[1]}[estimand],
        totals=(WHOLE * arms[0], WHOLE * arms[1]),
        largest=(round(WHOLE * largest[0]), round(WHOLE * largest[1])),
        squares=(round(WHOLE**2 * arms[0] * squares[0]), round(WHOLE**2 * arms[1] * squares[1])),
        pairs=(arms[0] // 2, arms[1] // 2, -(-2 * min(arms) // 3)),
    )
    off = np.square(means[0] - means[1])[1:] @ (1 / people.penalties[1:])
    bias = math.sqrt(float(off) / float(sum(found.weight_squares)))
    return Balance(found, bias, len(people.penalties), 0.0, 0.0, caps)


def square_within(study: EffectStudy, stand_in: StandIn, explained: float) -> float:
    """Return the outcome's variance within arms that pairs of near units see.

    Outcomes are in [-1, 1].
    """
    deviation = stand_in.deviation if stand_in.deviation is not None else study.outcome.width / 4
    return (deviation / (study.outcome.width / 2)) ** 2 * (1 - explained)


# Quantiles at which noise in the variance is looked at.
LOOKS = 16


def weighted_expected(
    weights: PublicWeights, square: float, cost: PrivacyCost, findings: Callable[[FloatArray], EffectFindings]
) -> tuple[EffectFindings, float]:
    """Return the findings without an effect or drawn noise, and the mean half-width.

    The half-width is the mean over the noise.

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
