"""What a planner can say of balancing before a row is read: the weights and interval of a stand-in population.

Its log odds of treatment are normal with deviation OVERLAP, and the index behind them explains EXPLAINED of outcomes'
variance within arms; where the study allows for no imbalance, as in a trial, it does neither.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial

import numpy as np

from causalveil.schemas.errors import DataError
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.study import Estimand
from causalveil.tasks.balancing.cap import Solution, choose, deviation_of_noise, solutions, weighed
from causalveil.tasks.balancing.dual import weights_of
from causalveil.tasks.balancing.features import BINS, CONSTANT_PENALTY, INDEX, NUMBER_OF_BINS
from causalveil.tasks.balancing.stages import findings
from causalveil.tasks.balancing.weights import Balance
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.machine.arrays import ByteArray, FloatArray
from causalveil.tasks.weighted.expected import weighted_expected
from causalveil.tasks.weighted.public_weights import PublicWeights

OVERLAP = 1.1
EXPLAINED = 0.45
# People of the stand-in population, whatever the study's size; weights scale with n.
PEOPLE = 4_000
WHOLE = 2**12


@lru_cache(maxsize=64)
def stand_in_people(treated: float, overlap: float) -> tuple[FloatArray, ByteArray, FloatArray]:
    """Features of people at the quantiles of a normal index, shape (PEOPLE, features), arms, and penalties."""
    from scipy.optimize import brentq
    from scipy.special import expit, ndtri

    index: FloatArray = ndtri((np.arange(PEOPLE) + 0.5) / PEOPLE)
    constant = brentq(lambda a: float(np.mean(expit(a + overlap * index))) - treated, -40.0, 40.0)
    # One treated person whenever the chances add up to one more.
    passed = np.floor(np.cumsum(expit(constant + overlap * index)) + 0.5)
    t: ByteArray = np.diff(passed, prepend=0.0).astype(np.uint8)
    bins = np.eye(NUMBER_OF_BINS)[np.arange(PEOPLE) * NUMBER_OF_BINS // PEOPLE]
    bins = (bins - bins.mean(axis=0)) / bins.std(axis=0)
    features = np.column_stack([np.ones(PEOPLE), index, bins])
    return features, t, np.array([CONSTANT_PENALTY, 1 / INDEX, *[NUMBER_OF_BINS / BINS] * NUMBER_OF_BINS])


@lru_cache(maxsize=256)
def _paths(treated: float, overlap: float, arms: tuple[int, int], estimand: Estimand) -> list[list[Solution]]:
    """Solutions of each arm that is weighed, the treated first."""
    features, t, penalties = stand_in_people(treated, overlap)
    target = features[{Estimand.ATE: t < 2, Estimand.ATT: t == 1, Estimand.ATC: t == 0}[estimand]].mean(axis=0)
    return [
        solutions(features[t == 1 - place], target, penalties, arms[place])
        for place in (0, 1)
        if weighed(estimand)[place]
    ]


def expected_balance(study: BalancingStudy, sizes: Sizes, stand_in: StandIn = StandIn()) -> Balance:
    """The weights of the stand-in population.

    Raises:
        DataError: it has no two arms.
    """
    n, estimand = sizes.units, study.estimand
    if n < 2:
        raise DataError("one unit has no other to be compared with")
    treated = min(max(round(n * stand_in.treated), 1), n - 1)
    arms = treated, n - treated
    share = min(max(stand_in.treated, 2 / PEOPLE), 1 - 2 / PEOPLE)
    overlap = OVERLAP if study.estimator.allowance > 0 else 0.0
    features, t, penalties = stand_in_people(share, overlap)
    active = [place for place in (0, 1) if weighed(estimand)[place]]
    least = max([1 / arms[place] for place in (0, 1) if place not in active], default=0.0)
    chosen = choose(_paths(share, overlap, arms, estimand), least, deviation_of_noise(study.privacy.cost))
    largest, squares, caps, means = [1.0, 1.0], [1.0, 1.0], [1.0, 1.0], []
    for place in (0, 1):
        own = features[t == 1 - place]
        v = np.ones(len(own))
        if place in active:
            one = chosen[active.index(place)]
            v = weights_of(own, one.multipliers, one.cap)
            v, caps[place] = v / v.mean(), one.cap
        largest[place], squares[place] = float(v.max()), float(np.mean(v * v))
        means.append(v @ own / len(own))
    weights = PublicWeights(
        arms=arms,
        queries={Estimand.ATE: n, Estimand.ATT: arms[0], Estimand.ATC: arms[1]}[estimand],
        totals=(WHOLE * arms[0], WHOLE * arms[1]),
        largest=(round(WHOLE * largest[0]), round(WHOLE * largest[1])),
        squares=(round(WHOLE**2 * arms[0] * squares[0]), round(WHOLE**2 * arms[1] * squares[1])),
        pairs=(arms[0] // 2, arms[1] // 2, -(-2 * min(arms) // 3)),
    )
    off = np.square(means[0] - means[1])[1:] @ (1 / penalties[1:])
    bias = math.sqrt(float(off) / float(sum(weights.weight_squares)))
    return Balance(weights, bias, len(penalties), 0.0, 0.0, (caps[0], caps[1]))


def expected(study: BalancingStudy, sizes: Sizes, stand_in: StandIn = StandIn()) -> tuple[EffectFindings, float]:
    """The findings of the stand-in population without an effect if no noise happened to be drawn, and the half-width.

    The half-width is the mean over the noise of the sampling variance, which widens more often than it narrows.

    Raises:
        DataError: it has no two arms.
    """
    found = expected_balance(study, sizes, stand_in)
    deviation = stand_in.deviation if stand_in.deviation is not None else study.outcome.width / 4
    left = 1 - EXPLAINED if study.estimator.allowance > 0 else 1.0
    square = (deviation / (study.outcome.width / 2)) ** 2 * left
    return weighted_expected(found.weights, square, study.privacy.cost, partial(findings, study, found))
