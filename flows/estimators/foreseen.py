"""A plan from public covariates and treatments of the study's own people.

Outcomes are stand-ins.

Weights, their noise and the imbalance that they leave are then those of the run. Outcomes are stood in for, of several
kinds, since how far they follow what treatment follows is known to nobody yet.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.estimators.rehearsed import EFFECTS, PUBLIC, QUICK, SLOW, asked_of, smaller
from causalveil.flows.estimators.stage import Run
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.study import EffectStudy
from causalveil.tasks.covariates import dimension
from causalveil.tasks.enclave.enclave import MemoryEnclave
from causalveil.tasks.enclave.split import sizes_of
from causalveil.tasks.inference.people import Foreseen, PublicPeople, stand_in_outcomes
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.rehearsal import RehearsalBudget
from causalveil.tasks.weighting.features import features_of, learn_features

# Draws of each kind of outcomes, and how much more those count that follow what treatment follows: covariates that
# nobody thought to confound would not have been declared.
DRAWS, FOLLOW = 6, 2.0
CHUNK, WORK, NUMBERS = 8_192, 5 * 10**8, 6_000_000


def foreseen(
    estimate: Callable[[Run[Any], DirectEngine], Any],
    study: EffectStudy,
    sizes: Sizes,
    stand_in: StandIn,
    people: PublicPeople,
    most: int,
    randomised: bool,
    bias_stays: bool = False,
) -> Foreseen | None:
    """Return the mean half-width, errors and bias rehearsed for these people; None if it fails.

    Args:
        estimate: the order of its stages, public weights computed once.
        study: the study.
        sizes: its sizes.
        stand_in: what the reader assumes of the outcome.
        people: whom the run has.
        most: how many are rehearsed.
        randomised: whether treatment follows nothing, so that what it seems to follow is chance.
        bias_stays: whether the allowance for bias is the same for any number of units.
    """
    public = people.enclave(most)
    more = sizes.units / public.units
    asked = asked_of(study, more)
    try:
        index = public.once(("index", study.name), lambda: _index(study, public))
        treated = public.load("t", 0)
        means, kinds = [], list(product((False,) if randomised else (True, False), EFFECTS))
        for place, (followed, effect) in enumerate(kinds):
            found = []
            for seed in range(DRAWS * place, DRAWS * (place + 1)):
                outcomes = stand_in_outcomes(study, stand_in, index, treated, seed, followed, effect)
                enclave = public.with_outcomes(outcomes)
                budget = RehearsalBudget(seed)
                run = Run(asked, sizes_of(asked, public.units), enclave, budget, source=None, rehearsal_seed=seed)
                found.append(smaller(estimate(run, DirectEngine()), more, bias_stays))
            means.append(np.mean(found, axis=0))
    except CausalveilError:
        return None
    widths = [float(one[0]) for one in means]
    counts = [FOLLOW if followed else 1.0 for followed, _ in kinds]
    half_width, noise, sampling, bias = np.average(means, axis=0, weights=counts)
    return Foreseen(
        float(half_width), float(noise), float(sampling), float(bias), min(widths), max(widths), people.treated
    )


def most_read(study: EffectStudy) -> int:
    """Return how many people's public columns are read for a plan at most."""
    return max(rows_balanced(study), rows_weighed(study))


def rows_balanced(study: EffectStudy) -> int:
    """Return how many people a rehearsal balances: rows times features squared stay below WORK."""
    wide = features_of(study)
    return min(max(WORK // wide**2, SLOW), QUICK)


def rows_weighed(study: EffectStudy) -> int:
    """Return how many people are weighted one by one, of at most NUMBERS numbers in all."""
    return min(PUBLIC, NUMBERS // dimension(study))


def _index(study: EffectStudy, public: MemoryEnclave) -> FloatArray:
    features, _ = learn_features(study, public, public.units)
    x = public.load("x", 0)
    return np.concatenate([features(x[first : first + CHUNK])[1] for first in range(0, len(x), CHUNK)])
