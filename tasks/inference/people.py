"""The people of whom `plan` speaks: a population that nobody is, as the planner's reader assumes it.

Quasi-random (Kronecker's sequence of square roots of primes): equally correlated normal covariates, cut at the declared
ranges or into levels of equal size; one index of them drives treatment and outcome. Nothing is read.
"""

from __future__ import annotations

import math

import numpy as np

from causalveil.schemas.plan import StandIn
from causalveil.schemas.study import CategoricalCovariate, EffectStudy, Study
from causalveil.tasks.enclave.normalise import blocks, dimension, scale
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.machine.arrays import FloatArray

# A covariate's standard deviation over half its declared range, and what the index adds to log odds per deviation.
SPREAD, LOG_ODDS = 0.35, 1.0
# An outcome that varies more than this, over half its range, is taken to have two values.
TWO_VALUES = 0.7


def assumed(study: Study, stand_in: StandIn) -> StandIn:
    """The same, with the deviation of an outcome of two values where the reader states none: half of its range."""
    if stand_in.deviation is not None or not isinstance(study, EffectStudy) or not study.outcome.two_valued:
        return stand_in
    return stand_in.model_copy(update={"deviation": study.outcome.width / 2})


def people(study: EffectStudy, stand_in: StandIn, count: int, randomised: bool) -> Rows:
    """The stand-in population, as rows of the unit ball.

    Args:
        study: the study.
        stand_in: what its reader assumes.
        count: how many.
        randomised: whether covariates have nothing to do with treatment.
    """
    kept = blocks(study)
    normal = _normal(count, len(kept) + 3)
    common, alone = math.sqrt(stand_in.correlation), math.sqrt(1 - stand_in.correlation)
    z = common * normal[:, [0]] + alone * normal[:, 3:]
    index = z.mean(axis=1)
    index /= index.std()
    odds = 0.0 if randomised else LOG_ODDS
    chance = 1 / (1 + np.exp(-odds * index - _intercept(odds * index, stand_in.treated)))
    treated = (_uniform(normal[:, 1]) < chance).astype(np.uint8)
    half = study.outcome.width / 2
    deviation = half / 2 if stand_in.deviation is None else stand_in.deviation
    explained = stand_in.explained
    # Treatment takes part of the index's variance out of the arms.
    within = sum(float(np.var(index[treated == arm])) * float(np.mean(treated == arm)) for arm in (0, 1))
    u = math.sqrt(explained / within) * index + math.sqrt(1 - explained) * normal[:, 2]
    if deviation > TWO_VALUES * half:
        # A normal outcome of this deviation would not fit into the range; one of two values does.
        u = np.sign(u)
    x = np.zeros((count, dimension(study)))
    factor, spread = scale(study), SPREAD if stand_in.spread is None else stand_in.spread
    for place, block in enumerate(kept):
        if isinstance(block.covariate, CategoricalCovariate):
            slots = len(block.covariate.slots)
            level = np.minimum((_uniform(z[:, place]) * slots).astype(np.intp), slots - 1)
            x[np.arange(count), block.start + level] = factor
        elif block.covariate.codes is not None:
            x[:, block.start] = np.where(z[:, place] > 0, factor, -factor)
        else:
            x[:, block.start] = np.clip(spread * z[:, place], -1, 1) * factor
    x[:, -1] = factor
    return Rows(x, treated, np.clip(u * deviation / half, -1, 1))


def _intercept(log_odds: FloatArray, share: float) -> float:
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if float(np.mean(1 / (1 + np.exp(-log_odds - middle)))) < share else (low, middle)
    return (low + high) / 2


def _uniform(normal: FloatArray) -> FloatArray:
    from scipy.special import ndtr

    found: FloatArray = ndtr(normal)
    return found


def _normal(count: int, dimensions: int) -> FloatArray:
    """Quasi-random standard normals, shape (count, dimensions)."""
    from scipy.special import ndtri

    steps = np.sqrt(np.array(_primes(dimensions), dtype=np.float64))
    found: FloatArray = ndtri((np.outer(np.arange(1, count + 1), steps) % 1.0 * (1 - 2e-9)) + 1e-9)
    return found


def _primes(count: int) -> list[int]:
    sieve = np.ones(max(20, int(count * (math.log(count + 2) + 3))), dtype=bool)
    sieve[:2] = False
    for number in range(2, int(math.sqrt(len(sieve))) + 1):
        if sieve[number]:
            sieve[number * number :: number] = False
    found: list[int] = np.flatnonzero(sieve)[:count].tolist()
    return found
