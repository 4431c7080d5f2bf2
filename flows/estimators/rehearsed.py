"""What a study says of people who nobody is, on average: its own stages, a few times over, with seeded noise.

A study of more units than are rehearsed has fewer with more epsilon. At label level epsilon grows with the square root:
noise over sampling error is then the same, by which weights are chosen, and the interval is narrower by that root. At
other levels it grows in proportion: noise is then the same in every release, and sampling error alone is scaled. What
is allowed for bias stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np

from causalveil.flows.engine.engine import DirectEngine, Engine
from causalveil.flows.sequence.run import Run
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Level
from causalveil.schemas.study import EffectStudy
from causalveil.tasks.enclave.enclave import MemoryEnclave
from causalveil.tasks.enclave.normalise import dimension
from causalveil.tasks.enclave.sizes import sizes_of
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.inference.people import Rehearsed, enough, people
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.rehearsal import RehearsalBudget

S = TypeVar("S", bound=EffectStudy)
W = TypeVar("W")
# Each sample of people is drawn for so many times: weights of one are slow.
MOST, DRAWS, OF_ONE = 8_000, 8, 4
# Units of a rehearsal of an estimator that is quick, or slow.
QUICK, SLOW = 30_000, 2_500
# Of one whose public weights serve all draws, and how many numbers they may have in all.
PUBLIC, NUMBERS = 300_000, 3_000_000


def rehearsed(
    estimate: Callable[[Run[Any], DirectEngine], EffectFindings],
    study: EffectStudy,
    sizes: Sizes,
    stand_in: StandIn,
    randomised: bool,
    most: int = MOST,
    bias_stays: bool = False,
    by_chance: bool = False,
) -> Rehearsed | None:
    """What the estimator says of the stand-in population on average; None where it has no answer there.

    Args:
        estimate: the order of its stages.
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        randomised: whether covariates have nothing to do with treatment.
        most: units of a rehearsal, unless one arm is rare.
        bias_stays: whether the allowance for bias is the same for any number of units.
        by_chance: whether people are samples, whose arms differ by chance too, not one quasi-random population.
    """
    count = min(sizes.units, enough(stand_in, most))
    more = sizes.units / count
    label = study.privacy.level is Level.label
    asked = asked_of(study, more)
    try:
        found = []
        for seed in range(DRAWS):
            if seed == 0 or (by_chance and seed % OF_ONE == 0):
                rows = people(asked, stand_in, count, randomised, sample=seed if by_chance else None)
                enclave = MemoryEnclave.of(rows)
            run = Run(asked, sizes_of(asked, count), enclave, RehearsalBudget(seed), source=None, rehearsal_seed=seed)
            one = estimate(run, DirectEngine())
            found.append(smaller(one, more, bias_stays) if label else _scaled(one, more))
    except CausalveilError:
        return None
    return Rehearsed(*np.mean(found, axis=0).tolist())


def weighed_once(
    weigh: Callable[[Run[S], Engine], W], answer: Callable[[Run[S], Engine, W], EffectFindings]
) -> Callable[[Run[S], Engine], EffectFindings]:
    """The order of the stages, public weights computed once for all draws of the same people.

    Args:
        weigh: what needs no draw and is slow.
        answer: what is drawn, and said.
    """
    last: list[tuple[FloatArray, W]] = []

    def again(run: Run[S], stage: Engine) -> EffectFindings:
        x = run.enclave.load("x", 0)
        if not last or last[0][0] is not x:
            last[:] = [(x, weigh(run, stage))]
        return answer(run, stage, last[0][1])

    return again


def most_public(study: EffectStudy) -> int:
    """Units of a rehearsal whose weights are public and computed once."""
    return min(PUBLIC, NUMBERS // dimension(study))


def asked_of(study: EffectStudy, more: float) -> EffectStudy:
    """What fewer units are asked, that ``more`` times as many may be foreseen by them."""
    return _with_epsilon(study, math.sqrt(more) if study.privacy.level is Level.label else more)


def _with_epsilon(study: EffectStudy, more: float) -> EffectStudy:
    """So much more epsilon that each unit's noise is as if there were ``more`` times the units."""
    if more <= 1:
        return study
    epsilon = Decimal(f"{float(study.privacy.epsilon) * more:.8g}")
    return study.model_copy(update={"privacy": study.privacy.model_copy(update={"epsilon": epsilon})})


def smaller(found: EffectFindings, more: float, bias_stays: bool) -> tuple[float, ...]:
    """The same numbers where noise and sampling error fall alike."""
    interval, variance, root = found.interval, found.variance, math.sqrt(more)
    half = (interval.upper - interval.lower) / 2
    fixed = interval.bias if bias_stays else 0.0
    noise, sampling = math.sqrt(variance.noise), math.sqrt(variance.sampling)
    return fixed + (half - fixed) / root, noise / root, sampling / root, fixed + (interval.bias - fixed) / root


def _scaled(found: EffectFindings, more: float) -> tuple[float, ...]:
    """Half-width, standard errors of noise and sampling, and bias, for ``more`` times the units."""
    interval, variance = found.interval, found.variance
    half = (interval.upper - interval.lower) / 2
    noise, sampling = math.sqrt(variance.noise), math.sqrt(variance.sampling)
    total = math.hypot(noise, sampling)
    less = sampling / math.sqrt(more)
    if not interval.whole_range and total > 0:
        half = interval.bias + (half - interval.bias) * math.hypot(noise, less) / total
    return half, noise, less, interval.bias
