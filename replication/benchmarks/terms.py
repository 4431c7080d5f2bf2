"""Measure `regression` with declared terms beside none, where curves or products confound and where nothing does.

Run: python -m replication.benchmarks.terms [RUNS [CPS1988.csv]]

Noise is numpy's at the declared sensitivities. Each cell's people and noise are those of its seed, and the same with
and without terms. No setting was chosen on them. The last cell is a published table: AER's CPS1988 (28,155 men), the
effect of part-time work on the logarithm of wages; part-time workers are at both ends of experience, and wages rise and
fall with it. What stands for its truth is augmented inverse probability weighting with fourth powers, without
privacy; its runs differ in noise alone.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from causalveil.schemas.asked.resolve import resolve
from causalveil.schemas.asked.study_file import parse_study_file
from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.tasks.estimate.adjust.features import Encoding
from causalveil.tasks.machine.distribute import one_thread
from replication.benchmarks.adjust_in_memory import Array, adjust

EPSILON, DELTA, SEED = 1.0, 1e-6, 541
People = tuple[dict[str, Array], Array, Array, float]


@dataclass(frozen=True)
class Cell:
    """People of whom the effect is known, and the terms by which they are confounded."""

    what: str
    units: int
    terms: tuple[str, ...]
    columns: Mapping[str, Mapping[str, Any]]
    outcome: tuple[float, float]
    draw: Callable[[np.random.Generator, int], People]


def _number(lower: float, upper: float) -> dict[str, float]:
    return {"lower": lower, "upper": upper}


FLAG: dict[str, Any] = {"levels": [0, 1]}
BODY = {"age": _number(18, 90), "bmi": _number(12, 55), "sex": FLAG}


def _body(r: np.random.Generator, n: int) -> dict[str, Array]:
    age, bmi = np.clip(r.normal(52, 14, n), 18, 90), np.clip(r.normal(27, 5, n), 12, 55)
    return {"age": age, "bmi": bmi, "sex": (r.random(n) < 0.5).astype(float)}


def _drawn(r: np.random.Generator, x: dict[str, Array], index: Array, drive: Array, effect: float) -> People:
    t = (r.random(len(index)) < expit(drive)).astype(float)
    return x, t, index + r.normal(size=len(index)) + effect * t, effect


def _crossing(r: np.random.Generator, n: int) -> People:
    """Slopes of opposite sign by sex, of outcome and treatment."""
    x = _body(r, n)
    age, bmi, side = (x["age"] - 52) / 14, (x["bmi"] - 27) / 5, 2 * x["sex"] - 1
    return _drawn(r, x, 0.8 * side * age + 0.5 * bmi, -0.2 + 0.8 * side * age + 0.4 * bmi, 0.5)


def _u_shapes(r: np.random.Generator, n: int) -> People:
    """The old and the young, the thin and the stout are treated more, and have more of the outcome."""
    x = _body(r, n)
    bent = (((x["age"] - 52) / 14) ** 2 + ((x["bmi"] - 27) / 5) ** 2 - 2) / 2
    return _drawn(r, x, 0.7 * bent, -0.2 + 0.6 * bent, 0.4)


def _threshold(at: float) -> Callable[[np.random.Generator, int], People]:
    def draw(r: np.random.Generator, n: int) -> People:
        x = _body(r, n)
        old = (x["age"] > at).astype(float)
        return _drawn(r, x, old + 0.3 * (x["bmi"] - 27) / 5, -0.6 + 1.2 * old, 0.4)

    return draw


def _waves(r: np.random.Generator, n: int) -> People:
    """Up, down and up with age."""
    x = _body(r, n)
    wave = np.sin((x["age"] - 52) / 14 * 1.8)
    return _drawn(r, x, 0.8 * wave, -0.2 + 0.9 * wave, 0.4)


def _incomes(r: np.random.Generator, n: int) -> People:
    x = {"income": np.clip(np.exp(r.normal(10.2, 0.8, n)), 1000, 400_000), "age": _body(r, n)["age"]}
    low = (np.log(x["income"]) - 10.2) / 0.8
    return _drawn(r, x, 0.7 * low + 0.2 * (x["age"] - 52) / 14, -0.2 + 0.7 * low, 0.4)


def _lines(r: np.random.Generator, n: int) -> People:
    """Lines alone confound: what terms that are not needed cost."""
    x = _body(r, n)
    line = 0.5 * (x["age"] - 52) / 14 + 0.4 * (x["bmi"] - 27) / 5 + 0.4 * x["sex"]
    return _drawn(r, x, line, -0.2 + line, 0.4)


SPAN = (-6.0, 8.0)
INCOME = {"income": _number(1000, 400_000), "age": _number(18, 90)}
CELLS = (
    Cell("slopes of opposite sign by sex", 1_000, ("sex:age",), BODY, SPAN, _crossing),
    Cell("slopes of opposite sign by sex", 5_000, ("sex:age",), BODY, SPAN, _crossing),
    Cell("two U-shapes", 5_000, ("age^2", "bmi^2"), BODY, (-6, 12), _u_shapes),
    Cell("two U-shapes", 1_000, ("age^2", "bmi^2"), BODY, (-6, 12), _u_shapes),
    Cell("a threshold at 62", 30_000, ("age > 62",), BODY, SPAN, _threshold(62)),
    Cell("a threshold at 50, a spline declared", 30_000, ("ns(age, 4)",), BODY, SPAN, _threshold(50)),
    Cell("waves of age", 5_000, ("ns(age, 4)",), BODY, SPAN, _waves),
    Cell("logarithm of an income", 5_000, ("log(income)",), INCOME, SPAN, _incomes),
    Cell("lines alone", 1_000, ("age^2", "sex:age"), BODY, SPAN, _lines),
    Cell("lines alone", 5_000, ("age^2", "bmi^2", "sex:age", "sex:bmi"), BODY, SPAN, _lines),
)


def published(path: Path) -> Cell:
    """Return the cell of CPS1988."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    wage, experience = (np.array([float(row[name]) for row in rows]) for name in ("wage", "experience"))
    x = {
        "education": np.array([float(row["education"]) for row in rows]),
        "experience": experience,
        "black": np.array([float(row["ethnicity"] == "afam") for row in rows]),
        "city": np.array([float(row["smsa"] == "yes") for row in rows]),
    }
    t, y = np.array([float(row["parttime"] == "yes") for row in rows]), np.log(wage)
    columns = {"education": _number(0, 18), "experience": _number(-4, 63), "black": FLAG, "city": FLAG}
    truth = doubly_robust(_powers(x), t, y)
    return Cell(
        "CPS1988: part-time work and log wages", len(t), ("experience^2", "education^2"), columns, (3.5, 10.0),
        lambda r, n: (x, t, y, truth),
    )  # fmt: skip


def _powers(x: Mapping[str, Array]) -> Array:
    numbers = [(one - one.mean()) / one.std() for one in x.values()]
    bent = [one**power for one in numbers[:2] for power in (2, 3, 4)]
    return np.column_stack([*numbers, *bent, numbers[0] * numbers[1]])


def doubly_robust(features: Array, t: Array, y: Array) -> float:
    """Return the effect by augmented inverse probability weighting, of logistic chances and lines by arm."""
    x = np.column_stack([np.ones(len(t)), features])
    b = np.zeros(x.shape[1])
    for _ in range(25):
        p = expit(x @ b)
        hessian = (x * (p * (1 - p))[:, None]).T @ x + 1e-6 * len(t) * np.eye(x.shape[1])
        b = b + np.linalg.solve(hessian, x.T @ (t - p))
    p = np.clip(expit(x @ b), 0.005, 0.995)
    one, none = (x @ np.linalg.lstsq(x[t == arm], y[t == arm], rcond=None)[0] for arm in (1, 0))
    return float(np.mean(one - none + t * (y - one) / p - (1 - t) * (y - none) / (1 - p)))


def answers(cell: Cell, terms: Sequence[str], runs: int) -> Array:
    """Return estimate less truth, half-width and whether the 95 % interval holds, by run, shape (runs, 3)."""
    names = sorted(cell.columns)
    document = {
        "kind": "effect", "name": "terms", "estimator": {"name": "regression"}, "treatment": "t",
        "outcome": {"name": "y", "lower": cell.outcome[0], "upper": cell.outcome[1]},
        "covariates": {name: dict(cell.columns[name]) for name in names}, "terms": list(terms),
        "privacy": {"epsilon": str(EPSILON), "delta": "1e-6"},
    }  # fmt: skip
    study = resolve(parse_study_file(document), None)
    assert isinstance(study, RegressionStudy)
    stated = tuple(one for one in Encoding.of(study).columns if one.parts)
    declared, found = {name: cell.columns[name] for name in names}, []
    for run in range(runs):
        x, t, y, truth = cell.draw(np.random.default_rng([SEED, run]), cell.units)
        rows, noise = np.column_stack([x[name] for name in names]), np.random.default_rng([SEED, run, 1])
        with one_thread():
            one = adjust(rows, declared, t, y, cell.outcome, EPSILON, DELTA, noise, levels=(0.95,), stated=stated)
        lower, upper = one.intervals[0]
        found.append((one.estimate - truth, (upper - lower) / 2, lower <= truth <= upper))
    return np.array(found)


def main() -> None:
    """Print the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    cells = [*CELLS, *([published(Path(sys.argv[2]))] if len(sys.argv) > 2 else [])]
    print("| what confounds | people | terms | runs | hold | error | half-width | hold | error | half-width |")
    print("|---|---:|---|---:|---|---|---|---|---|---|")
    for cell in cells:
        said = []
        for terms in ((), cell.terms):
            found = answers(cell, terms, runs)
            error = math.sqrt(float((found[:, 0] ** 2).mean()))
            said.append(f"{found[:, 2].mean():.3g} | {error:.3g} | {np.median(found[:, 1]):.3g}")
        print(f"| {cell.what} | {cell.units:,} | `{', '.join(cell.terms)}` | {runs} | {' | '.join(said)} |", flush=True)


if __name__ == "__main__":
    main()
