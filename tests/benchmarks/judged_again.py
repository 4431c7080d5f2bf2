"""Six populations first run in the second round, so that nothing learnt from the first one is judged by them."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from tests.benchmarks.judged_populations import (
    FLAG,
    SEED,
    Potential,
    Written,
    _ages,
    _flag,
    _normals,
    _number,
    _several,
)


def _wards(random: np.random.Generator, n: int) -> Potential:
    own = np.random.default_rng([SEED, 70])
    wards, illnesses = own.dirichlet(np.full(12, 2.0)), own.dirichlet(np.full(8, 2.0))
    custom, level = 0.8 * own.normal(size=12), own.normal(size=8)
    ward, illness = random.choice(12, n, p=wards), random.choice(8, n, p=illnesses)
    age, frail = _ages(random, n, 64, 13), random.normal(size=n)
    chance = expit(-0.2 + custom[ward] + 0.5 * level[illness] + 0.3 * frail)
    without = 5 + 0.6 * custom[ward] + 0.7 * level[illness] + 0.5 * frail + 1.2 * random.normal(size=n)
    return np.column_stack([ward, illness, age, frail]), chance, without, without + 0.4


def _ferritin(random: np.random.Generator, n: int) -> Potential:
    logarithm, female = random.normal(size=n), _flag(random, 0.5, n)
    crp = np.exp(0.5 + 0.9 * random.normal(size=n))
    chance = expit(-0.3 - 0.8 * logarithm + 0.3 * female + 0.3 * np.log(crp))
    without = 130 + 7 * logarithm - 6 * female - 2 * np.log(crp) + 8 * random.normal(size=n)
    return np.column_stack([80 * np.exp(0.8 * logarithm), crp, female]), chance, without, without + 3


def _crossing(random: np.random.Generator, n: int) -> Potential:
    z, female = _normals(random, n, 3, 0.2), _flag(random, 0.5, n)
    cross = z[:, 0] * (2 * female - 1)
    without = 0.8 * cross + 0.5 * z[:, 1] + random.normal(size=n)
    return np.column_stack([z, female]), expit(-0.2 + 0.8 * cross + 0.4 * z[:, 1]), without, without + 0.5


def _questions(random: np.random.Generator, n: int) -> Potential:
    factors = random.normal(size=(n, 2))
    answers = np.repeat(factors, 6, axis=1) * 0.75 + 0.66 * random.normal(size=(n, 12))
    low, anxious = answers[:, :6].mean(axis=1) / 0.8, answers[:, 6:].mean(axis=1) / 0.8
    without = 20 + 4 * low + 2 * anxious + 5 * random.normal(size=n)
    return answers, expit(-0.5 + 0.8 * low - 0.5 * anxious), without, without - 2 - 1.5 * low


def _readmitted(random: np.random.Generator, n: int) -> Potential:
    z, flags = _normals(random, n, 3, 0.3), (random.random((n, 5)) < (0.06, 0.12, 0.2, 0.35, 0.5)).astype(np.float64)
    burden = 0.5 * z[:, 0] + 0.5 * flags[:, 1] + 0.4 * flags[:, 3] - 0.2
    drawn = random.random(n)
    without, with_it = ((drawn < expit(-0.9 + 0.9 * burden + move)).astype(np.float64) for move in (0.0, -0.35))
    return np.column_stack([z, flags]), expit(-2.8 + 1.1 * burden + 0.3 * z[:, 1]), without, with_it


def _visits(random: np.random.Generator, n: int) -> Potential:
    z, rural, children = _normals(random, n, 2, 0.0), _flag(random, 0.3, n), np.minimum(random.poisson(1.2, n), 8)
    rate = np.exp(0.9 + 0.35 * z[:, 0] + 0.1 * children - 0.3 * rural) * random.gamma(1.0, 1.0, n)
    chance = expit(0.2 + 0.5 * z[:, 0] + 0.15 * (children - 1.2) - 0.5 * rural)
    without = random.poisson(rate).astype(np.float64)
    return np.column_stack([z, rural, children]), chance, without, without + random.poisson(0.25 * rate)


AGAIN = {
    "wards": Written(
        "twelve wards and eight illnesses", "many flags", (-5, 15),
        {"ward": {"levels": list(range(12))}, "illness": {"levels": list(range(8))}, "age": _number(18, 100),
         "frail": _number(-4, 4)}, _wards,
    ),
    "ferritin": Written("a skewed value whose logarithm counts", "curves", (60, 200),
                        {"ferritin": _number(0, 1_500), "crp": _number(0, 50), "female": dict(FLAG)}, _ferritin),
    "crossing": Written("slopes that differ in sign by sex", "curves", (-6, 7),
                        _several("x", 3, _number(-4, 4)) | {"female": dict(FLAG)}, _crossing),
    "questions": Written("twelve questions of two scales, effects vary", "collinear", (-10, 60),
                         _several("answer", 12, _number(-4, 4)), _questions),
    "readmitted": Written("a common binary outcome, eight percent treated", "few treated", (0, 1),
                          _several("x", 3, _number(-4, 4)) | _several("flag", 5, FLAG), _readmitted),
    "visits": Written("visits counted, many of them none", "heavy tails", (0, 60),
                      _several("x", 2, _number(-4, 4)) | {"rural": dict(FLAG), "children": _number(0, 8)}, _visits),
}  # fmt: skip
