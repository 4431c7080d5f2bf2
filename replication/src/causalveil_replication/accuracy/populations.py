"""Populations with a known effect of treatment, drawn by declared seeds.

Each declares ranges as a steward would who knows the columns and not the data. Covariates confound through an index of
unit variance, which adds to log odds of treatment and to outcomes; the effect is the same for everybody unless a
generator says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from causalveil.schemas.plan import StandIn
from causalveil.tasks.machine.arrays import FloatArray

SEED = 20261121
# A column of a third standardised moment beyond this has a tail.
SKEWED = 1.5
# No study has so many runs.
STAND_IN_RUN = 10**9
Draw = Callable[[np.random.Generator, int], tuple[FloatArray, FloatArray, FloatArray]]


@dataclass(frozen=True)
class KnownPopulation:
    """A population, and what its steward declares of it.

    Attributes:
        name: unique.
        title: for a table.
        truth: the average effect, in outcome units; the same over everybody, the treated and the controls.
        outcome: declared range.
        covariates: declared, by name, in the order of the columns that are drawn.
        draws: from a generator and n: covariates, shape (n, p), treatment in {0, 1} and outcome, shape (n,).
        trial: whether treatment is randomised.
    """

    name: str
    title: str
    truth: float
    outcome: tuple[float, float]
    covariates: Mapping[str, Mapping[str, Any]]
    draws: Draw
    trial: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """The only numbers of units that there are; empty: any."""
        return ()

    @property
    def chance(self) -> float:
        """Everybody's of treatment, in a trial."""
        return 0.5

    def truth_in(self, run: int) -> float:
        """The effect that intervals of run ``run`` should hold."""
        del run
        return self.truth

    def draw(self, units: int, run: int) -> pl.DataFrame:
        """``units`` people of run ``run``; other runs and populations share no random bits."""
        random = np.random.default_rng([SEED, *self.name.encode(), run])
        x, t, y = self.draws(random, units)
        columns: dict[str, Any] = {"unit": np.arange(units), "t": t.astype(np.uint8), "y": y}
        for place, (name, declared) in enumerate(self.covariates.items()):
            columns[name] = x[:, place].astype(np.int64) if "levels" in declared else x[:, place]
        return pl.DataFrame(columns)

    def stand_in(self) -> StandIn:
        """Return what a planner would have to guess, of 20,000 other people."""
        return self._stand_in_of(self.draw(20_000, run=STAND_IN_RUN))

    def _stand_in_of(self, frame: pl.DataFrame) -> StandIn:
        t, y = frame["t"].to_numpy(), frame["y"].to_numpy()
        share = float(t.mean())
        within = share * float(np.var(y[t == 1])) + (1 - share) * float(np.var(y[t == 0]))
        x = frame.select(list(self.covariates)).to_numpy().astype(np.float64)
        spreads = []
        for place, declared in enumerate(self.covariates.values()):
            if "levels" not in declared:
                low, high = float(declared["lower"]), float(declared["upper"])
                if declared.get("scale") == "log":
                    x[:, place], low, high = np.log(np.clip(x[:, place], low, high)), math.log(low), math.log(high)
                spreads.append(2 * float(x[:, place].std()) / (high - low))
        return StandIn(
            treated=share,
            deviation=math.sqrt(within),
            mean=float(y.mean()),
            explained=_explained(x, t, y),
            correlation=_correlation(x),
            spread=float(np.mean(spreads)) if spreads else None,
        )

    def study(
        self, estimator: Mapping[str, Any], epsilon: str, delta: str, confidence: float = 0.95, level: str = "sample"
    ) -> dict[str, Any]:
        """A study document that asks for the average effect."""
        low, high = self.outcome
        return {
            "kind": "effect",
            "name": self.name,
            "data": {"path": ".", "unit": "unit"},
            "treatment": "t",
            "outcome": {"name": "y", "lower": low, "upper": high},
            "covariates": {name: dict(declared) for name, declared in self.covariates.items()},
            "estimand": "ATE",
            "estimator": dict(estimator),
            "privacy": {"epsilon": epsilon, "delta": delta, "level": level},
            "confidence": confidence,
        }


def _explained(x: FloatArray, t: Any, y: Any) -> float:
    """Share of the outcome's variance within arms that lines, squares, products and logarithms of tails explain."""
    products = [x[:, i] * x[:, j] for i in range(x.shape[1]) for j in range(i + 1)]
    logarithms = [_logarithm(column) for column in x.T if abs(_third(column)) > SKEWED]
    basis = np.column_stack([np.ones(len(x)), t, x, *products, *logarithms])
    arms = np.column_stack([np.ones(len(x)), t])
    left, plain = (y - one @ np.linalg.lstsq(one, y, rcond=None)[0] for one in (basis, arms))
    return float(1 - np.var(left) / np.var(plain))


def _third(column: FloatArray) -> float:
    deviation = float(column.std())
    return float(np.mean((column - column.mean()) ** 3)) / deviation**3 if deviation > 0 else 0.0


def _logarithm(column: FloatArray) -> FloatArray:
    distance = column - column.min() if _third(column) > 0 else column.max() - column
    found: FloatArray = np.log1p(20 * distance / distance.mean())
    return found


def _correlation(x: FloatArray) -> float:
    """The common correlation at which covariates would explain each other as well as they do."""
    d = x.shape[1]
    inflation = float(np.mean(np.diagonal(np.linalg.inv(np.corrcoef(x.T))))) if d > 1 else 1.0
    grid = np.linspace(0.0, 0.95, 96)
    # Of equal correlations r: (1 + (d - 2) r)/((1 - r)(1 + (d - 1) r)).
    found = (1 + (d - 2) * grid) / ((1 - grid) * (1 + (d - 1) * grid))
    return float(grid[np.argmin(np.abs(found - inflation))])


def _numbers(p: int, low: float, high: float, **declared: Any) -> dict[str, dict[str, Any]]:
    return {f"x{place:02d}": {"lower": low, "upper": high, **declared} for place in range(p)}


def _flags(p: int) -> dict[str, dict[str, Any]]:
    return {f"flag{place:02d}": {"levels": [0, 1]} for place in range(p)}


def _toeplitz(p: int, correlation: float) -> FloatArray:
    places = np.arange(p)
    found: FloatArray = np.linalg.cholesky(correlation ** np.abs(places[:, None] - places[None, :]))
    return found


def _treated(random: np.random.Generator, log_odds: FloatArray) -> FloatArray:
    found: FloatArray = (random.random(len(log_odds)) < 1 / (1 + np.exp(-log_odds))).astype(np.float64)
    return found


def _unit(s: FloatArray) -> FloatArray:
    """An index by its own standard deviation in the sample."""
    found: FloatArray = (s - s.mean()) / s.std()
    return found


def normals(p: int, correlation: float, odds: float = 1.0, constant: float = 0.0, heavy: bool = False) -> Draw:
    """Normal covariates (or Student's t with 5 degrees of freedom), correlation^|i-j|; effect 1."""
    root = _toeplitz(p, correlation)

    def draws(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        z = random.standard_t(5, (n, p)) if heavy else random.normal(size=(n, p))
        x = z @ root.T
        s = _unit(x @ np.linspace(1.0, 0.2, p))
        t = _treated(random, constant + odds * s)
        return x, t, t + s + random.normal(size=n)

    return draws


def flags(p: int, numbers: int = 0) -> Draw:
    """Flags that are set for 5 to 50% of people, and normal numbers behind them; effect 1."""
    chances = np.linspace(0.05, 0.5, p)

    def draws(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        set_ = (random.random((n, p)) < chances).astype(np.float64)
        x = np.column_stack([set_, random.normal(size=(n, numbers))])
        spread = np.concatenate([np.sqrt(chances * (1 - chances)), np.ones(numbers)])
        s = _unit((x / spread) @ np.linspace(1.0, 0.4, p + numbers))
        t = _treated(random, s)
        return x, t, t + s + random.normal(size=n)

    return draws


def binary(p: int) -> Draw:
    """A binary outcome of chance .5 + .15 sin(s) + .1 t, whose mean effect is .1; correlated normal covariates."""
    root = _toeplitz(p, 0.3)

    def draws(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        x = random.normal(size=(n, p)) @ root.T
        s = _unit(x.sum(axis=1))
        t = _treated(random, s)
        y = (random.random(n) < 0.45 + 0.15 * np.sin(s) + 0.1 * t).astype(np.float64)
        return x, t, y

    return draws


def curved(p: int, correlation: float) -> Draw:
    """Treatment and outcome both follow squares and a product of covariates; effect 1."""
    root = _toeplitz(p, correlation)

    def draws(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        x = random.normal(size=(n, p)) @ root.T
        s = _unit(x[:, 0] ** 2 / 2 + x[:, 0] * x[:, 1] + x[:, 2])
        t = _treated(random, np.clip(0.8 * s, -2.5, 2.5))
        return x, t, t + s + random.normal(size=n)

    return draws


def skewed(p: int) -> Draw:
    """Log-normal covariates, and an outcome with exponential errors; effect 1."""

    def draws(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        z = random.normal(size=(n, p))
        s = _unit(z.sum(axis=1))
        t = _treated(random, s)
        return np.exp(z), t, t + s + random.exponential(size=n) - 1

    return draws


def weibull(p: int) -> Draw:
    """Errors with a Weibull tail of shape 1/2, whose kurtosis is 88; effect 1."""
    deviation = math.sqrt(20.0)

    def draws(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        x = random.normal(size=(n, p))
        s = _unit(x.sum(axis=1))
        t = _treated(random, s)
        return x, t, t + s + (random.weibull(0.5, n) - 2) / deviation

    return draws


WIDE = (-10.0, 10.0)
FOUR = (-4.0, 4.0)
POPULATIONS: dict[str, KnownPopulation] = {
    found.name: found
    for found in (
        KnownPopulation("normals2", "2 normals", 1, WIDE, _numbers(2, *FOUR), normals(2, 0.5)),
        KnownPopulation("toeplitz18", "18 correlated normals", 1, WIDE, _numbers(18, *FOUR), normals(18, 0.7)),
        KnownPopulation("flags15", "15 flags", 1, WIDE, _flags(15), flags(15)),
        KnownPopulation(
            "mixed14", "10 flags, 4 wide numbers", 1, WIDE, _flags(10) | _numbers(4, -20, 20), flags(10, 4)
        ),
        KnownPopulation("binary11", "binary outcome, 11 normals", 0.1, (0.0, 1.0), _numbers(11, *FOUR), binary(11)),
        KnownPopulation("heavy24", "24 of Student's t", 1, WIDE, _numbers(24, -10, 10), normals(24, 0.3, heavy=True)),
        KnownPopulation("rare10", "10% treated", 1, WIDE, _numbers(6, *FOUR), normals(6, 0.3, 1.0, -2.6)),
        KnownPopulation("rare5", "5% treated", 1, WIDE, _numbers(6, *FOUR), normals(6, 0.3, 1.0, -3.4)),
        KnownPopulation("trial6", "trial, 6 normals", 1, WIDE, _numbers(6, *FOUR), normals(6, 0.3, 0.0), trial=True),
        KnownPopulation("curved8", "curved, 8 normals", 1, WIDE, _numbers(8, *FOUR), curved(8, 0.0)),
        KnownPopulation("curved4", "curved, 4 correlated", 1, WIDE, _numbers(4, *FOUR), curved(4, 0.7)),
        KnownPopulation("skewed6", "6 log-normals", 1, WIDE, _numbers(6, 0, 50), skewed(6)),
        KnownPopulation(
            "logged6", "6 log-normals, `scale: log`", 1, WIDE, _numbers(6, 0.02, 50, scale="log"), skewed(6)
        ),
        KnownPopulation("normals50", "50 correlated normals", 1, WIDE, _numbers(50, *FOUR), normals(50, 0.3)),
        KnownPopulation("wide6", "ranges a hundred times too wide", 1, WIDE, _numbers(6, -400, 400), normals(6, 0.3)),
        KnownPopulation("rare1", "1% treated", 1, WIDE, _numbers(6, *FOUR), normals(6, 0.3, 1.0, -5.0)),
        KnownPopulation("weibull6", "Weibull tail", 1, (-10.0, 50.0), _numbers(6, *FOUR), weibull(6)),
    )
}
