"""What a regression would say of a stand-in population: the study's own steps on people who nobody is.

Quasi-random people (Kronecker's sequence of square roots of primes) are equally correlated normal covariates, cut at
the declared ranges or into levels of equal size; one index of them drives treatment and outcome. Their sums are scaled
to the study's number of units and get seeded noise of the study's own mechanisms, a few times over. Nothing is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.study import CategoricalCovariate
from causalveil.tasks.enclave.folds import Pieces
from causalveil.tasks.enclave.normalise import blocks, dimension, scale
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.rehearsal import RehearsalBudget
from causalveil.tasks.regression.decide import choose, recipe
from causalveil.tasks.regression.interval import ThreeReleases, findings
from causalveil.tasks.regression.moments import moment_sums, moments_from
from causalveil.tasks.regression.recipe import EFFECT, MOMENTS, SCALES, RegressionRecipe
from causalveil.tasks.regression.scales import scale_sums, scales_from
from causalveil.tasks.regression.scores import score_sums

PEOPLE, DRAWS = 2048, 6
# A covariate's standard deviation over half its declared range, and what the index adds to log odds per deviation.
SPREAD, LOG_ODDS = 0.35, 1.0
# An outcome that varies more than this, over half its range, is taken to have two values.
TWO_VALUES = 0.7


@dataclass(frozen=True)
class Rehearsed:
    """Means over the draws, in outcome units."""

    half_width: float
    noise: float
    sampling: float
    bias: float


def rehearsed(study: RegressionStudy, sizes: Sizes, stand_in: StandIn, draws: int = DRAWS) -> Rehearsed:
    """What the study says of the stand-in population on average.

    Raises:
        ValueError: the number of units is not known.
    """
    plan = recipe(study, sizes)
    if plan.units is None:
        raise ValueError("what is expected needs the number of units")
    rows = people(study, stand_in)
    found = [_once(study, plan, rows, seed) for seed in range(draws)]
    return Rehearsed(*np.mean(found, axis=0).tolist())


def _once(study: RegressionStudy, plan: RegressionRecipe, rows: Rows, seed: int) -> tuple[float, ...]:
    units = plan.units or 0
    budget, many, pieces = RehearsalBudget(seed), units / len(rows), Pieces(lambda _: rows, 1, len(rows))
    columns = None if plan.moments is None else plan.columns
    released = plan.scales_mechanism().release(scale_sums(pieces, columns) * many, SCALES, budget)
    scales = scales_from(released, units, plan.scales_noise(), columns)
    mechanism, moments = plan.moments_mechanism(), None
    if mechanism is not None:
        features = plan.features(scales)
        released = mechanism.release(moment_sums(pieces, features) * many, MOMENTS, budget)
        moments = moments_from(released, units, plan.moments_noise(features.count), features)
    used, choice, seen = choose(study, plan, scales, moments)
    scores = plan.effect_mechanism().release(score_sums(pieces, scales, used, choice) * many, EFFECT, budget)
    said = findings(study, plan, ThreeReleases(scales, used, choice, seen, scores))
    width = (said.interval.upper - said.interval.lower) / 2
    return width, math.sqrt(said.variance.noise), math.sqrt(said.variance.sampling), said.interval.bias or 0.0


def people(study: RegressionStudy, stand_in: StandIn) -> Rows:
    """The stand-in population, as rows of the unit ball."""
    kept = blocks(study)
    normal = _normal(PEOPLE, len(kept) + 3)
    common, alone = math.sqrt(stand_in.correlation), math.sqrt(1 - stand_in.correlation)
    z = common * normal[:, [0]] + alone * normal[:, 3:]
    index = z.mean(axis=1)
    index /= index.std()
    odds = 0.0 if study.estimator.trial else LOG_ODDS
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
    x = np.zeros((PEOPLE, dimension(study)))
    factor, spread = scale(study), SPREAD if stand_in.spread is None else stand_in.spread
    for place, block in enumerate(kept):
        if isinstance(block.covariate, CategoricalCovariate):
            slots = len(block.covariate.slots)
            level = np.minimum((_uniform(z[:, place]) * slots).astype(np.intp), slots - 1)
            x[np.arange(PEOPLE), block.start + level] = factor
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
