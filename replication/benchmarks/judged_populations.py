"""Twelve populations that a reader knows, and five published tables, on which an adjusting estimator is judged.

They were written by an author who had not read the estimators, and no setting may be chosen on them. A steward declares
round ranges that nearly everybody is in; what lies beyond a declared range counts as its end, in the truth too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

from causalveil.tasks.machine.arrays import FloatArray
from causalveil_replication.accuracy.populations import KnownPopulation
from causalveil_replication.accuracy.public_data import PublicTable

SEED = 20261125
# Of so many people, in steps, the effect and the spread of outcomes are known.
PEOPLE, STEPS = 200_000, 5
# Covariates, chance of treatment, outcome without treatment and with it.
Potential = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
Declared = dict[str, dict[str, Any]]
FLAG: Mapping[str, Any] = {"levels": [0, 1]}


@dataclass(frozen=True)
class Written:
    """A population as written; ``kind``: its row in the table of results."""

    title: str
    kind: str
    outcome: tuple[float, float]
    covariates: Declared
    people: Callable[[np.random.Generator, int], Potential]
    trial: bool = False

    def clipped(self, random: np.random.Generator, n: int) -> Potential:
        """Return people whose outcomes end where the declared range does."""
        x, chance, without, with_it = self.people(random, n)
        return x, chance, np.clip(without, *self.outcome), np.clip(with_it, *self.outcome)


def _number(low: float, high: float, **more: Any) -> dict[str, Any]:
    return {"lower": low, "upper": high, **more}


def _flag(random: np.random.Generator, chance: FloatArray | float, n: int) -> FloatArray:
    return (random.random(n) < chance).astype(np.float64)


def _ages(random: np.random.Generator, n: int, mean: float, deviation: float) -> FloatArray:
    return np.clip(mean + deviation * random.normal(size=n), 18, 100)


def _normals(random: np.random.Generator, n: int, p: int, shared: float = 0.0) -> FloatArray:
    """Return standard normals, of which every two have the correlation ``shared``."""
    found: FloatArray = math.sqrt(1 - shared) * random.normal(size=(n, p)) + math.sqrt(shared) * random.normal(
        size=(n, 1)
    )
    return found


def _step_at_65(random: np.random.Generator, n: int) -> Potential:
    age = _ages(random, n, 58, 15)
    female, smoker = _flag(random, 0.52, n), _flag(random, 0.22, n)
    bmi = 27 + 4.5 * random.normal(size=n)
    old = (age >= 65).astype(np.float64)
    chance = expit(-0.7 + 1.0 * old + 0.03 * (age - 58) * (1 - 2 * female) + 0.4 * smoker)
    score = 50 - 0.15 * (age - 58) - 4 * old * (1 - 0.7 * female) - 3 * smoker - 0.3 * (bmi - 27)
    without = score + 6 * random.normal(size=n)
    return np.column_stack([age, female, smoker, bmi]), chance, without, without + 2


def _u_shape(random: np.random.Generator, n: int) -> Potential:
    potassium = 4.2 + 0.6 * random.normal(size=n)
    away = np.minimum((potassium - 4.2) ** 2 / 0.36, 9.0)
    creatinine = np.exp(0.1 + 0.45 * random.normal(size=n))
    age, diuretic = _ages(random, n, 66, 12), _flag(random, 0.35, n)
    chance = expit(-1.1 + 0.5 * away + 0.5 * np.log(creatinine) + 0.3 * diuretic)
    days = 8 + 1.2 * away + 1.5 * np.log(creatinine) + 0.05 * (age - 66) + 2.5 * random.normal(size=n)
    return np.column_stack([potassium, creatinine, age, diuretic]), chance, days, days - 1


def _costs(random: np.random.Generator, n: int) -> Potential:
    z = _normals(random, n, 3, 0.3)
    age, before = np.clip(50 + 16 * z[:, 0], 18, 100), np.exp(7 + 1.2 * z[:, 1])
    illnesses, insured = random.poisson(np.exp(0.3 + 0.4 * z[:, 2])).astype(np.float64), _flag(random, 0.7, n)
    chance = expit(-0.6 + 0.4 * z[:, 0] + 0.5 * z[:, 1] + 0.15 * (illnesses - 1.5) + 0.3 * insured)
    logarithm = 7.2 + 0.35 * z[:, 1] + 0.12 * illnesses + 0.15 * z[:, 0] + 0.9 * random.normal(size=n)
    return np.column_stack([age, before, illnesses, insured]), chance, np.exp(logarithm), np.exp(logarithm + 0.15)


def _hospitals(random: np.random.Generator, n: int) -> Potential:
    own = np.random.default_rng([SEED, 20])
    sizes, custom, quality = own.dirichlet(np.full(20, 3.0)), own.normal(size=20), own.normal(size=20)
    hospital = random.choice(20, n, p=sizes)
    severity, age = random.normal(size=n), _ages(random, n, 62, 14)
    chance = expit(0.7 * custom[hospital] + 0.5 * severity)
    level = 0.5 * custom[hospital] + 0.6 * quality[hospital] + 0.6 * severity + 0.01 * (age - 62)
    without = level + random.normal(size=n)
    return np.column_stack([hospital, severity, age]), chance, without, without + 0.3


def _panel(random: np.random.Generator, n: int) -> Potential:
    load = np.linspace(0.95, 0.6, 16)
    factor = random.normal(size=n)
    labs = load * factor[:, None] + np.sqrt(1 - load**2) * random.normal(size=(n, 16))
    burden = labs.mean(axis=1) / 0.8
    without = 1.2 * burden + random.normal(size=n)
    return labs, expit(-0.4 + 0.9 * burden), without, without + 0.5


def _few_treated(random: np.random.Generator, n: int) -> Potential:
    z, flags = _normals(random, n, 4, 0.2), (random.random((n, 4)) < (0.1, 0.2, 0.3, 0.5)).astype(np.float64)
    index = 0.5 * z[:, 0] + 0.3 * z[:, 1] + 0.5 * flags[:, 0] + 0.3 * flags[:, 1]
    without = 0.7 * z[:, 0] + 0.4 * z[:, 2] + 0.6 * flags[:, 0] + random.normal(size=n)
    return np.column_stack([z, flags]), expit(-3.45 + index), without, without + 0.6 + 0.4 * z[:, 0]


def _rare_deaths(random: np.random.Generator, n: int) -> Potential:
    z, diabetic = _normals(random, n, 3, 0.3), _flag(random, 0.25, n)
    male, smoker = _flag(random, 0.5, n), _flag(random, 0.2, n)
    chance = expit(-0.3 + 0.6 * z[:, 0] + 0.3 * z[:, 1] + 0.4 * diabetic)
    odds = -4.3 + 0.7 * z[:, 0] + 0.3 * z[:, 1] + 0.5 * diabetic + 0.2 * male + 0.3 * smoker
    drawn = random.random(n)
    without, with_it = ((drawn < expit(odds + effect)).astype(np.float64) for effect in (0.0, -0.5))
    x = np.column_stack(
        [np.clip(65 + 11 * z[:, 0], 18, 100), 135 + 20 * z[:, 1], 27 + 5 * z[:, 2], diabetic, male, smoker]
    )
    return x, chance, without, with_it


def _thirty_flags(random: np.random.Generator, n: int) -> Potential:
    flags = (random.random((n, 30)) < np.linspace(0.04, 0.5, 30)).astype(np.float64)
    index = 1.2 * flags[:, 12] + 1.0 * flags[:, 20] + 0.8 * flags[:, 28] - 1.1
    without = 1.2 * index + random.normal(size=n)
    return flags, expit(index), without, without + 0.4


def _pressures(random: np.random.Generator, n: int) -> Potential:
    z = _normals(random, n, 2, 0.75)
    systolic, diastolic = 135 + 19 * z[:, 0], 80 + 11 * z[:, 1]
    mean = (systolic + 2 * diastolic) / 3 + 1.5 * random.normal(size=n)
    age, high = _ages(random, n, 55, 12), (mean - 98.3) / 12
    chance = expit(-0.4 + 1.1 * high + 0.02 * (age - 55))
    without = 70 - 4 * high - 0.2 * (age - 55) + 6 * random.normal(size=n)
    return np.column_stack([systolic, diastolic, mean, age]), chance, without, without + 1.5


def _symptoms(random: np.random.Generator, n: int) -> Potential:
    latent = _normals(random, n, 6, 0.4)
    scores = 1.0 + sum((latent > cut).astype(np.float64) for cut in (0.3, 0.8, 1.3, 1.9))
    total, age = (scores.sum(axis=1) - 10.5) / 4.5, _ages(random, n, 45, 15)
    without = 40 - 6 * total - 0.1 * (age - 45) + 8 * random.normal(size=n)
    return np.column_stack([scores, age]), expit(-0.5 + 0.8 * total), without, without + 3


def _drawn_by_lot(random: np.random.Generator, n: int) -> Potential:
    z, site = _normals(random, n, 4, 0.4), random.integers(0, 5, n)
    without = 1.1 * z[:, 0] + 0.5 * z[:, 1] + 0.2 * site + random.normal(size=n)
    return np.column_stack([z, site]), np.full(n, 0.5), without, without + 0.3 + 0.3 * z[:, 0]


def _varying(random: np.random.Generator, n: int) -> Potential:
    z, flags = _normals(random, n, 4, 0.2), (random.random((n, 2)) < (0.3, 0.5)).astype(np.float64)
    without = 0.8 * z[:, 0] + 0.4 * z[:, 1] + 0.4 * flags[:, 0] + random.normal(size=n)
    chance = expit(-0.8 + 0.9 * z[:, 0] + 0.3 * z[:, 2] + 0.3 * flags[:, 1])
    return np.column_stack([z, flags]), chance, without, without + 1 + 1.5 * z[:, 0]


def _several(name: str, count: int, declared: Mapping[str, Any]) -> Declared:
    return {f"{name}{place:02d}": dict(declared) for place in range(count)}


WRITTEN = {
    "step65": Written(
        "treatment by age and sex, a step at 65", "curves", (0, 100),
        {"age": _number(18, 100), "female": dict(FLAG), "smoker": dict(FLAG), "bmi": _number(10, 60)}, _step_at_65,
    ),
    "ushape": Written(
        "a laboratory value that harms at both ends", "curves", (0, 40),
        {"potassium": _number(2, 7), "creatinine": _number(0, 10), "age": _number(18, 100), "diuretic": dict(FLAG)},
        _u_shape,
    ),
    "costs": Written(
        "costs with a log-normal tail", "heavy tails", (0, 50_000),
        {"age": _number(18, 100), "before": _number(10, 100_000, scale="log"), "illnesses": _number(0, 10),
         "insured": dict(FLAG)}, _costs,
    ),
    "hospitals": Written(
        "twenty hospitals with customs of their own", "many flags", (-6, 6),
        {"hospital": {"levels": list(range(20))}, "severity": _number(-4, 4), "age": _number(18, 100)}, _hospitals,
    ),
    "panel": Written("sixteen laboratory values with a common factor", "collinear", (-8, 8),
                     _several("lab", 16, _number(-4, 4)), _panel),
    "few": Written("five percent treated, effects vary", "few treated", (-6, 8),
                   _several("x", 4, _number(-4, 4)) | _several("flag", 4, FLAG), _few_treated),
    "deaths": Written(
        "a death that is rare", "binary", (0, 1),
        {"age": _number(18, 100), "pressure": _number(60, 220), "bmi": _number(10, 60), "diabetic": dict(FLAG),
         "male": dict(FLAG), "smoker": dict(FLAG)}, _rare_deaths,
    ),
    "flags30": Written("thirty flags of which three matter", "many flags", (-6, 8), _several("flag", 30, FLAG),
                       _thirty_flags),
    "pressures": Written(
        "blood pressures that are nearly collinear", "collinear", (20, 120),
        {"systolic": _number(60, 220), "diastolic": _number(30, 140), "mean": _number(40, 160),
         "age": _number(18, 100)}, _pressures,
    ),
    "symptoms": Written("six symptom scores from 1 to 5, mostly 1", "skewed", (0, 80),
                        _several("score", 6, _number(1, 5)) | {"age": _number(18, 100)}, _symptoms),
    "trial": Written("a trial with prognostic covariates", "trial", (-6, 8),
                     _several("x", 4, _number(-4, 4)) | {"site": {"levels": list(range(5))}}, _drawn_by_lot, True),
    "varying": Written("an effect that varies with a confounder", "lines", (-10, 12),
                       _several("x", 4, _number(-4, 4)) | _several("flag", 2, FLAG), _varying),
}  # fmt: skip


@lru_cache
def population(name: str) -> KnownPopulation:
    """Return a written population, its truth measured of a million people."""
    return known(name, WRITTEN[name])


def known(name: str, one: Written) -> KnownPopulation:
    """Return a population by what is written of it."""
    truths = []
    for step in range(STEPS):
        _, _, without, with_it = one.clipped(np.random.default_rng([SEED, *name.encode(), step]), PEOPLE)
        truths.append(float(np.mean(with_it - without)))

    def draws(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        x, chance, without, with_it = one.clipped(random, n)
        t = _flag(random, chance, n)
        return x, t, np.where(t > 0, with_it, without)

    return KnownPopulation(
        f"judged-{name}", one.title, float(np.mean(truths)), one.outcome, one.covariates, draws, one.trial
    )


@dataclass(frozen=True)
class Published:
    """A table of a package, and what a steward declares of it."""

    file: str
    title: str
    kind: str
    treatment: str
    outcome: str
    span: tuple[float, float]
    covariates: Declared


PUBLISHED = {
    "loanapp": Published(
        "loanapp.parquet", "mortgages approved (loanapp)", "binary", "white", "approve", (0, 1),
        {"hrat": _number(0, 80), "obrat": _number(0, 100), "loanprc": _number(0, 3), "unem": _number(0, 12),
         **{name: dict(FLAG) for name in ("cosign", "chist", "pubrec", "mortlat1", "mortlat2", "vr", "self", "sch")}},
    ),
    "catholic": Published(
        "catholic.parquet", "Catholic schools and mathematics (catholic)", "few treated", "cathhs", "math12", (20, 80),
        {"read12": _number(20, 80), "female": dict(FLAG), "asian": dict(FLAG), "hispan": dict(FLAG),
         "black": dict(FLAG), "motheduc": _number(6, 20), "fatheduc": _number(6, 20), "lfaminc": _number(6, 13),
         "parcath": dict(FLAG)},
    ),
    "k401": Published(
        "k401.csv", "pension plans and net assets (401k)", "heavy tails", "e401k", "nettfa", (-100, 500),
        {"inc": _number(0, 200), "marr": dict(FLAG), "male": dict(FLAG), "age": _number(20, 70),
         "fsize": _number(1, 12), "pira": dict(FLAG)},
    ),
    "randhie": Published(
        "randhie.csv", "deductibles and visits (randhie)", "skewed", "idp", "mdvis", (0, 50),
        {"lpi": _number(0, 8), "physlm": _number(0, 1), "disea": _number(0, 60), "hlthg": dict(FLAG),
         "hlthf": dict(FLAG), "hlthp": dict(FLAG)},
    ),
    "card": Published(
        "card.csv", "colleges nearby and wages (card)", "many flags", "nearc4", "lwage", (4, 8),
        {"educ": _number(0, 20), "age": _number(20, 40),
         **{name: _number(0, 20, nulls="indicator") for name in ("fatheduc", "motheduc")},
         **{name: dict(FLAG) for name in ("momdad14", "sinmom14", "black", "smsa66", "south66", "reg661", "reg662",
                                          "reg663", "reg664", "reg665", "reg666", "reg667", "reg668")}},
    ),
}  # fmt: skip


def published(name: str, folder: Path) -> PublicTable | None:
    """Return a published table, its truth regressions by arm on the same rows; None if its file is not there."""
    one = PUBLISHED[name]
    path = folder / one.file
    if not path.exists():
        return None
    table = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)
    kinds = {column: pl.Int64 if "levels" in kind else pl.Float64 for column, kind in one.covariates.items()}
    frame = table.select(
        pl.int_range(table.height).alias("unit"),
        pl.col(one.treatment).cast(pl.UInt8).alias("t"),
        pl.col(one.outcome).cast(pl.Float64).clip(*one.span).alias("y"),
        *(pl.col(column).cast(kind) for column, kind in kinds.items()),
    )
    truth = curves_by_arm(frame, one.covariates)
    return PublicTable(
        f"judged-{name}", one.title, truth, one.span, one.covariates, _undrawn, False, (frame,), (truth,)
    )


def _undrawn(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    raise NotImplementedError


def design(frame: pl.DataFrame, declared: Mapping[str, Mapping[str, Any]]) -> FloatArray:
    """Return covariates as numbers on their declared scale, a flag a level but the first, one for a missing value."""
    columns: list[FloatArray] = []
    for name, kind in declared.items():
        values = frame[name].cast(pl.Float64).fill_null(0.0).to_numpy()
        if kind.get("scale") == "log":
            values = np.log(np.clip(values, kind["lower"], kind["upper"]))
        levels = kind.get("levels")
        columns += [values] if levels is None else [(values == level).astype(np.float64) for level in levels[1:]]
        if kind.get("nulls") == "indicator":
            columns.append(frame[name].is_null().to_numpy().astype(np.float64))
    return np.column_stack(columns)


def curves_by_arm(frame: pl.DataFrame, declared: Mapping[str, Mapping[str, Any]]) -> float:
    """Return the mean over everybody of the difference of two regressions, one an arm, without privacy.

    Numbers enter with their squares and products. On all five tables it is within two standard errors of cross-fitted
    doubly robust scores by boosted trees; lines alone are three off on pensions.
    """
    x = design(frame, declared)
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9)
    numbers = [column for column in x.T if len(np.unique(column)) > 2]
    products = [one * other for place, one in enumerate(numbers) for other in numbers[: place + 1]]
    x = np.column_stack([np.ones(frame.height), x, *products])
    t, y = frame["t"].to_numpy(), frame["y"].to_numpy()
    one, other = (np.linalg.lstsq(x[t == arm], y[t == arm], rcond=None)[0] for arm in (1, 0))
    return float(np.mean(x @ (one - other)))


# First run in the second round, so that nothing learnt from the first one is judged by them.
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
