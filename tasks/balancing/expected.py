"""What a planner can say of balancing before a row is read: the weights and interval of a stand-in population.

Its log odds of treatment are normal with deviation OVERLAP, and the index behind them explains EXPLAINED of outcomes'
variance within arms; where the study allows for no imbalance, as in a trial, it does neither.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtri

from causalveil.schemas.errors import DataError
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.study import EffectStudy, Estimand
from causalveil.tasks.balancing.cap import Solution, choose, deviation_of_noise, solutions, weighed
from causalveil.tasks.balancing.dual import weights_of
from causalveil.tasks.balancing.features import BINS, CONSTANT_PENALTY, INDEX, NUMBER_OF_BINS
from causalveil.tasks.balancing.stages import findings
from causalveil.tasks.balancing.weights import Balance
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.machine.arrays import ByteArray, FloatArray
from causalveil.tasks.models.weighted.expected import weighted_expected
from causalveil.tasks.models.weighted.public_weights import PublicWeights

OVERLAP = 1.1
EXPLAINED = 0.45
# People of the stand-in population, whatever the study's size; weights scale with n.
PEOPLE = 4_000
WHOLE = 2**12


class People(NamedTuple):
    """A stand-in population: features, shape (PEOPLE, features), arms, their chances of treatment, and penalties."""

    features: FloatArray
    t: ByteArray
    chances: FloatArray
    penalties: FloatArray


@lru_cache(maxsize=64)
def stand_in_people(treated: float, overlap: float) -> People:
    """People at the quantiles of a normal index; a share of treated that leaves an arm empty is moved inwards."""
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


@lru_cache(maxsize=256)
def _paths(treated: float, overlap: float, arms: tuple[int, int], estimand: Estimand) -> list[list[Solution]]:
    """Solutions of each arm that is weighed, the treated first."""
    features, t, _, penalties = stand_in_people(treated, overlap)
    target = features[{Estimand.ATE: t < 2, Estimand.ATT: t == 1, Estimand.ATC: t == 0}[estimand]].mean(axis=0)
    return [
        solutions(features[t == 1 - place], target, penalties, arms[place])
        for place in (0, 1)
        if weighed(estimand)[place]
    ]


def expected_balance(
    study: BalancingStudy, sizes: Sizes, stand_in: StandIn = StandIn(), louder: float = 1.0
) -> Balance:
    """The weights of the stand-in population; ``louder`` as of ``balance``.

    Raises:
        DataError: it has no two arms.
    """
    estimand = study.estimand
    arms = arms_of(sizes.units, stand_in.treated)
    overlap = OVERLAP if study.estimator.allowance > 0 else 0.0
    people = stand_in_people(stand_in.treated, overlap)
    active = [place for place in (0, 1) if weighed(estimand)[place]]
    least = max([1 / arms[place] for place in (0, 1) if place not in active], default=0.0)
    paths = _paths(stand_in.treated, overlap, arms, estimand)
    chosen = choose(paths, least, louder * deviation_of_noise(study.privacy.cost))
    caps, weights = [1.0, 1.0], []
    for place in (0, 1):
        own = people.features[people.t == 1 - place]
        v = np.ones(len(own))
        if place in active:
            one = chosen[active.index(place)]
            v, caps[place] = weights_of(own, one.multipliers, one.cap), one.cap
        weights.append(v)
    return stand_in_balance(people, arms, estimand, weights, (caps[0], caps[1]))


def arms_of(units: int, share: float) -> tuple[int, int]:
    """Treated and controls.

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
    """The outcome's variance within arms that pairs of near units see, for outcomes in [-1, 1]."""
    deviation = stand_in.deviation if stand_in.deviation is not None else study.outcome.width / 4
    return (deviation / (study.outcome.width / 2)) ** 2 * (1 - explained)


def expected(study: BalancingStudy, sizes: Sizes, stand_in: StandIn = StandIn()) -> tuple[EffectFindings, float]:
    """The findings of the stand-in population without an effect if no noise happened to be drawn, and the half-width.

    The half-width is the mean over the noise of the sampling variance, which widens more often than it narrows.

    Raises:
        DataError: it has no two arms.
    """
    found = expected_balance(study, sizes, stand_in)
    square = square_within(study, stand_in, EXPLAINED if study.estimator.allowance > 0 else 0.0)
    return weighted_expected(found.weights, square, study.privacy.cost, partial(findings, study, found))
