"""The average answer of a study on people who do not exist.

Its own stages, a few times over, with seeded noise.

A study of more units than are rehearsed has fewer with more epsilon. At label level epsilon grows with the square root:
noise over sampling error is then the same, by which weights are chosen, and the interval is narrower by that root. At
other levels it grows in proportion: noise is then the same in every release, and sampling error alone is scaled, unless
epsilon is also what each unit's own treatment is randomised by. What is allowed for bias stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from causalveil.flows.engine.engine import DirectEngine, Engine
from causalveil.flows.estimators.estimator import Stages
from causalveil.flows.estimators.stage import Run, Stage, carry_out
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Level
from causalveil.schemas.study import EffectStudy
from causalveil.tasks.covariates import dimension
from causalveil.tasks.enclave.enclave import MemoryEnclave
from causalveil.tasks.enclave.split import sizes_of
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.inference.people import Rehearsed, enough, people
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.rehearsal import RehearsalBudget

# Each sample of people is drawn for so many times: weights of one are slow.
MOST, DRAWS, OF_ONE, FEWEST = 8_000, 8, 4, 2
# Effects, in deviations of the outcome within arms: where arms are mixed, or compared, an effect looks like spread.
EFFECTS = (0.0, 1.0)
# Units of a rehearsal of an estimator that is quick, or slow.
QUICK, SLOW = 30_000, 2_500
# Of one whose public weights serve all draws, and how many numbers they may have in all.
PUBLIC, NUMBERS = 300_000, 3_000_000


def rehearsed(
    estimate: Callable[[Run[Any], DirectEngine], Any],
    study: EffectStudy,
    sizes: Sizes,
    stand_in: StandIn,
    randomised: bool,
    most: int = MOST,
    bias_stays: bool = False,
    by_chance: bool = False,
    epsilon_stays: bool = False,
) -> Rehearsed | None:
    """Return the mean half-width, errors and bias rehearsed on a stand-in population.

    None where the estimator has no answer there.

    Args:
        estimate: the order of its stages.
        study: the study.
        sizes: its sizes.
        stand_in: the population that the reader assumes.
        randomised: whether covariates have nothing to do with treatment.
        most: units of a rehearsal, unless one arm is rare.
        bias_stays: whether the allowance for bias is the same for any number of units.
        by_chance: whether people are samples, whose arms differ by chance too, not one quasi-random population.
        epsilon_stays: whether epsilon stays as it is since each unit's treatment is randomised by a part of it.
    """
    count = min(sizes.units, enough(stand_in, most))
    more = sizes.units / count
    asked = study if epsilon_stays else asked_of(study, more)
    # A draw of many people differs little from the next.
    draws = max(FEWEST, min(DRAWS, DRAWS * QUICK // count))
    means = []
    try:
        for effect in EFFECTS if epsilon_stays else EFFECTS[:1]:
            found = []
            for seed in range(draws):
                if seed == 0 or (by_chance and seed % OF_ONE == 0):
                    sample = seed if by_chance else None
                    enclave = MemoryEnclave.of(people(asked, stand_in, count, randomised, sample=sample, effect=effect))
                run = Run(asked, sizes_of(asked, count), enclave, RehearsalBudget(seed), None, rehearsal_seed=seed)
                one = estimate(run, DirectEngine())
                if study.privacy.level is Level.label:
                    found.append(smaller(one, more, bias_stays))
                else:
                    found.append(_scaled(one, more, more if epsilon_stays else 1.0))
            means.append(np.mean(found, axis=0))
    except CausalveilError:
        return None
    mean, widths = Rehearsed(*np.mean(means, axis=0).tolist()), [float(one[0]) for one in means]
    return replace(mean, low=min(widths), high=max(widths)) if epsilon_stays else mean


def weighed_once(
    stages: Stages, first: Stage[Any, Any], anew: Callable[[Run[Any]], None] = lambda _: None
) -> Callable[[Run[Any], Engine], EffectFindings]:
    """Return the stages, those before ``first`` run once for all draws of the same people.

    Args:
        stages: all, in order.
        first: what is drawn; what comes before needs no draw and is slow.
        anew: done before ``first`` each time.
    """
    place = stages.index(first)
    last: list[tuple[FloatArray, dict[Stage[Any, Any], Any]]] = []

    def again(run: Run[Any], engine: Engine) -> EffectFindings:
        x = run.enclave.load("x", 0)
        if not last or last[0][0] is not x:
            last[:] = [(x, carry_out(stages[:place], run, engine))]
        anew(run)
        found: EffectFindings = carry_out(stages[place:], run, engine, last[0][1])[stages[-1]]
        return found

    return again


def most_public(study: EffectStudy) -> int:
    """Return the units of a rehearsal whose weights are public and computed once."""
    return min(PUBLIC, NUMBERS // dimension(study))


def asked_of(study: EffectStudy, more: float) -> EffectStudy:
    """Return the study for fewer units, its epsilon raised to stand for ``more`` times as many."""
    return _with_epsilon(study, math.sqrt(more) if study.privacy.level is Level.label else more)


def _with_epsilon(study: EffectStudy, more: float) -> EffectStudy:
    """Return the study with ``more`` times its epsilon; unchanged if ``more`` is at most 1."""
    if more <= 1:
        return study
    epsilon = Decimal(f"{float(study.privacy.epsilon) * more:.8g}")
    return study.model_copy(update={"privacy": study.privacy.model_copy(update={"epsilon": epsilon})})


def smaller(found: EffectFindings, more: float, bias_stays: bool) -> tuple[float, ...]:
    """Return half-width, standard errors and bias scaled to ``more`` times the units.

    All fall by the square root of ``more``; the allowance for bias does not if ``bias_stays``.
    """
    interval, variance, root = found.interval, found.variance, math.sqrt(more)
    half = (interval.upper - interval.lower) / 2
    fixed = interval.bias if bias_stays else 0.0
    noise, sampling = math.sqrt(variance.noise), math.sqrt(variance.sampling)
    return fixed + (half - fixed) / root, noise / root, sampling / root, fixed + (interval.bias - fixed) / root


def _scaled(found: EffectFindings, more: float, quieter: float) -> tuple[float, ...]:
    """Half-width, standard errors of noise and sampling, and bias, for ``more`` times the units.

    Args:
        found: by what was rehearsed.
        more: units of the study over those.
        quieter: the noise of the rehearsal over that of the study.
    """
    interval, variance = found.interval, found.variance
    half = (interval.upper - interval.lower) / 2
    noise, sampling = math.sqrt(variance.noise), math.sqrt(variance.sampling)
    total = math.hypot(noise, sampling)
    soft, less = noise / quieter, sampling / math.sqrt(more)
    if not interval.whole_range and total > 0:
        half = interval.bias + (half - interval.bias) * math.hypot(soft, less) / total
    return half, soft, less, interval.bias
