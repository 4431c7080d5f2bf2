"""Planning of balancing before a row is read: the weights and interval of a planning population."""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np

from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.study import Estimand
from causalveil.tasks.balancing.dual import Solution, choose, deviation_of_noise, solutions, weighed, weights_of
from causalveil.tasks.balancing.stages import findings
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.weighting.expected import (
    EXPLAINED,
    OVERLAP,
    arms_of,
    square_within,
    stand_in_balance,
    stand_in_people,
    weighted_expected,
)
from causalveil.tasks.weighting.imbalance import Balance


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
    """Return the weights of the stand-in population; ``louder`` as of ``balance``.

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


def expected(study: BalancingStudy, sizes: Sizes, stand_in: StandIn = StandIn()) -> tuple[EffectFindings, float]:
    """Return the findings of the stand-in population, and the expected half-width.

    The findings are those without an effect if no noise happened to be drawn. The half-width is the mean over the noise
    of the sampling variance, which widens more often than it narrows.

    Raises:
        DataError: it has no two arms.
    """
    found = expected_balance(study, sizes, stand_in)
    square = square_within(study, stand_in, EXPLAINED if study.estimator.allowance > 0 else 0.0)
    return weighted_expected(found.weights, square, study.privacy.cost, partial(findings, study, found))
