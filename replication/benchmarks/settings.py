"""Halve and double every setting of the adjusting estimator, one at a time, on the same random tables.

Run: python -m replication.benchmarks.settings run FOLDER [TABLES [MINUTES]]
     python -m replication.benchmarks.settings table FOLDER > docs/figures/settings.csv
Needs the replications: `uv run --package causalveil-replication` comes before it.

Tables 400 and on: settings were chosen on 0 to 199 and judged on 200 to 399. Releases are drawn in memory. Every
setting sees the same people and the same seeds of noise, so rows differ by the setting alone. A second call of ``run``
goes on where the first ended. Nothing may be chosen on this table: a better value would have to be found on tables 0 to
199. ``holds``: intervals more or fewer that hold; ``width`` and ``error``: half-width, and root mean square of the
error in half-widths as set, over those as it is set.
"""

from __future__ import annotations

import ast
import csv
import json
import math
import pkgutil
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from causalveil.tasks.estimate import adjust
from causalveil.tasks.estimate.adjust.posterior import Sweeps
from causalveil.tasks.estimate.adjust.recipe import Parts
from causalveil.tasks.machine.distribute import one_thread
from replication.benchmarks import adjust_in_memory
from replication.benchmarks import judging as bench

FIRST, TABLES, MINUTES = 400, "60", "9"
Value = float | tuple[float, ...]


@dataclass(frozen=True)
class Setting:
    """A number that was chosen; ``least`` and ``most``: what it may be set to instead of half and double."""

    module: str
    name: str
    what: str
    place: int | None = None
    least: float | None = None
    most: float | None = None

    @property
    def title(self) -> str:
        """Return its name, with its place in a row of numbers."""
        return self.name if self.place is None else f"{self.name}[{self.place}]"

    def value(self) -> float:
        """Return what it is set to."""
        kept = getattr(_module(self.module), self.name)
        return float(kept if self.place is None else kept[self.place])

    def values(self) -> tuple[float, float]:
        """Return the two other values."""
        usual = self.value()
        return (
            usual / 2 if self.least is None else self.least,
            usual * 2 if self.most is None else self.most,
        )

    def as_kept(self, value: float) -> Any:
        """Return the object that holds another value."""
        kept = getattr(_module(self.module), self.name)
        number = type(kept if self.place is None else kept[self.place])(value)
        if self.place is None:
            return number
        if isinstance(kept, np.ndarray):
            moved = kept.copy()
            moved[self.place] = number
            return moved
        return (*kept[: self.place], number, *kept[self.place + 1 :])


SETTINGS = (
    Setting("recipe", "RADIUS", "least radius of the ball over sqrt(d + 1)"),
    Setting("recipe", "BLIND", "noise of a candidate beyond which no curves are looked for"),
    Setting("recipe", "MOST_CANDIDATES", "candidates of a screen, at most"),
    Setting("recipe", "MOST_KEPT", "curves that are kept, at most"),
    Setting("scales", "USUAL_DEVIATION", "an outcome's deviation over half its range, before it is seen"),
    Setting("scales", "USUAL_RATIO", "factor by which that may be off", None, 1.5, 4),
    Setting("scales", "SHAPE_OFF", "by how much a shape's shares are off"),
    Setting("scales", "CLEAR_CELL", "noise deviations from which a cell is believed"),
    Setting("features", "LINE_CUT", "deviations at which a line or a curve is cut"),
    Setting("scales", "SKEWED", "skewness from which a number has its normal score"),
    Setting("scales", "SCORED_NOISE", "noise of a cell up to which it may have one"),
    Setting("scales", "TAIL_DOUBT", "relative doubt in variances by tails, and in what cuts of scores take away"),
    Setting("scales", "SKEWED_END", "deviations from an end within which the mean of a skewed outcome lies"),
    Setting("scales", "BEYOND_END", "share of units whose outcome lies beyond its declared end"),
    Setting("scales", "TAIL_FROM", "share of units from which a tail falls off as a power"),
    Setting("scales", "LEAST_SHARE", "share of a flag below which it is not adjusted for"),
    Setting("scales", "LEAST_DOUBT", "least doubt in a variance and in a centre, of a cell's width; in a curve's"),
    Setting("posterior", "LEAST_EIGENVALUE", "least eigenvalue of a drawn correlation matrix"),
    Setting("posterior", "LEAST_PART", "part of it that an arm's covariances keep, and residuals of their variance"),
    Setting("posterior", "HIDDEN", "noise deviations below which a variance is hidden"),
    Setting("posterior", "PRIOR_FEATURES", "features that the prior of Sigma counts as"),
    Setting("posterior", "ALIKE", "correlation of the arms' slopes, before", None, 0.82, 0.97),
    Setting("posterior", "MOSTLY_SMALL", "count of small differences of arms, before", 0),
    Setting("recipe", "CLUSTERS_SHARE", "part of the scores' budget that totals of clusters have"),
    Setting("terms", "LEAST_OWN", "part of its deviation that a term keeps beside others"),
    Setting("screen", "BENT", "skewness from which line and score are both candidates"),
    Setting("screen", "RIDGE", "ridge of that regression"),
    Setting("profiles", "SAME", "correlation from which candidates are the same", None, 0.8, 0.97),
    Setting("screen", "REACH", "cut of residuals of treatment"),
    Setting("profiles", "NULL", "prior count of curves that do nothing"),
    Setting("profiles", "ONE_SIDED", "prior count of those that drive one of both"),
    Setting("profiles", "BOTH", "prior count of those that confound"),
    Setting("profiles", "REACHES", "how far a smooth curve reaches, in parts of all people"),
    Setting("screen", "LIKELY", "chance from which a candidate is kept"),
    Setting("posterior", "DISCREPANCY", "part of the residual variance by which slopes are off"),
    Setting("posterior", "TAIL", "tail beyond which scores are cut", None, 0.6, 1.0),
    Setting("interval", "CLEAR", "variances from which a mean score is a misfit, or one error the larger"),
)

# Numbers that are not varied, and why.
DERIVED: Mapping[str, str] = {
    "five_releases.FEW_MISSING": "a rule of thumb of Jakobsen et al. (2017)",
    "five_releases.UNLIKE": "the false alarms of telling a trial's arms apart, one in a thousand; it moves no estimate",
    "posterior.CUTS": "cuts that are compared",
    "posterior.NODES": "Gauss-Hermite quadrature",
    "posterior.NODE_WEIGHTS": "Gauss-Hermite quadrature",
    "features.BLOCK": "rows at a time",
    "features.PART": "rows at a time",
    "features.FAR": "a bound under which sums are exact in any order (proofs/regression.md)",
    "features.EXACT_SLOPES": "a bound under which sums are exact in any order (proofs/regression.md)",
    "features.HAIR": "rounding",
    "features.OF_NO_COVARIATE": "a place that no column has",
    "features.TWO": "levels of a flag",
    "interval.LEAST_ADJUSTED": "of a sentence; it moves no estimate",
    "interval.FARTHEST": "no effect is larger than the outcome's range",
    "posterior.CORRELATIONS": "grid of a prior, chosen on tables 0 to 199 and populations of levels and flags",
    "posterior.EVEN": "counts of a prior that tells nothing apart",
    "posterior.LARGE": "features from which fewer sweeps are drawn, for speed",
    "posterior.LEAST_SLOPE": "keeps a density from having no width",
    "posterior.LEAST_VARIANCE": "keeps a division from 0",
    "posterior.ROUNDS": "iterations until convergence",
    "posterior.SWEEPS": "draws of a simulation",
    "posterior.SWEEPS_OF_LARGE": "draws of a simulation",
    "posterior.WIDTHS": "grid of a mixture",
    "profiles.APART": "what curves have beside each other that correlate as SAME",
    "profiles.ALONG": "grid of a mixture, as posterior.CORRELATIONS",
    "profiles.CELLS": "counted",
    "profiles.HIDDEN": "grid of a mixture: what chance hides, 1/sqrt(n p (1 - p)), of 30,000 and 5,000 people",
    "profiles.NO_HEAP": "of an array without rows",
    "profiles.QUANTILES": "cells of a simulation, which no release pays for",
    "profiles.LONGER": "a power of four fifths, as is usual, of a sentence; it moves no estimate",
    "profiles.ROUNDS": "iterations until convergence",
    "profiles.SEEN": "as likely as not, of a sentence; it moves no estimate",
    "profiles.TAILS": "cells of a simulation, which no release pays for",
    "profiles.WIDTHS_OUTCOME": "grid of a mixture",
    "profiles.WIDTHS_TREATMENT": "grid of a mixture",
    "recipe.CLUSTERS_L2": "proof",
    "recipe.FULL": "parts of the budget, chosen on tables 0 to 199; a study may write others",
    "recipe.LEAST_SHOWN": "of a refusal; it moves no estimate",
    "recipe.LINES_ALONE": "parts of the budget, chosen on tables 0 to 199; a study may write others",
    "recipe.MOMENTS_L2": "proof",
    "recipe.OF_A_NUMBER": "a square, a bend and five steps",
    "recipe.PURE": "near the roots of the parts of FULL",
    "recipe.PURE_LINES_ALONE": "near the roots of the parts of LINES_ALONE",
    "recipe.RESIDUALS_CUT": "as release 1 cuts them",
    "recipe.SCALES_L1_COUNTED": "proof",
    "recipe.SCALES_L1_OF_GROUPS": "proof",
    "recipe.SCALES_L2": "proof",
    "recipe.SCALES_OF_WEIGHTED_GROUPS": "proof",
    "recipe.SCORES_L2": "proof",
    "recipe.SCREEN_L2": "proof",
    "recipe.SQUARED_WEIGHT": "proof",
    "recipe.UNKNOWN": "any large number of people",
    "released.CELLS": "counted",
    "released.EDGES": "twelfths of half a range, and halves again towards its ends",
    "released._OUTER": "twelfths of half a range, and halves again towards its ends",
    "scales.HEAVIEST": "the power of the heaviest incomes and wealth (Gabaix 2009)",
    "scales.LEAST_VARIANCE": "keeps a division from 0",
    "scales.MIDDLE": "of the cells",
    "scales.NORMAL": "grid of a quadrature",
    "scales.RANKS": "grid of a quadrature",
    "scales.WIDTH": "of the cells",
    "scales.WITHIN_CELL": "of the cells",
    "scales._COARSE": "quarters of the cells",
    "screen.NEWTON": "steps of Newton's method, each of which squares the error",
    "screen.MOST_ROWS": "of a simulation: its memory",
    "screen.ROWS": "of a simulation: a correlation is off by a fortieth",
    "screen.STEPS": "sixths, thirds and the median",
    "screen.UNITS_PER_ROW": "of a simulation: so many that sampling hides what its correlations are off by",
    "sums.ARM_CROSS": "proof",
    "sums.ARM_GRAM": "proof",
    "sums.ARM_NUMBERS": "counted",
    "sums.BELOW": "rounding",
    "terms.BESIDE": "rounding",
    "terms.LEAST_DEVIATION": "keeps a division from 0",
    "terms.LEAST_SIDE": "as of a flag: scales.LEAST_SHARE",
    "terms.NODES": "places in the cells, and their ends",
    "terms.PER_CELL": "of a quadrature",
    "terms.PLACES": "of a quadrature",
    "terms.SQUARED_CORRELATION": "of a number that is even on [-1, 1]",
    "terms.UNKNOWN_CORRELATION": "of a number that is even on [-1, 1]",
    "terms.USUAL_OUTER": "Harrell's quantile of an outer knot",
    "terms._PARTS": "of a quadrature",
    "recipe.SCALES_OF_GROUPS": "proof",
    "recipe.SCORES_L1_OF_BLOCKS": "proof",
    "recipe.TWO_ARMS": "counted",
    "questions.FEWEST_UNITS": "of which there is a variance",
    "sums.COUNT_L1": "proof",
    "sums.MOMENTS_ALIKE": "proof",
    "sums.SCALES_L1": "proof",
    "sums.SCORES_L1": "proof",
    "sums.SQUARE_L1": "proof",
    "sums.STEPS": "of the grid on which cells' edges lie",
    "sums._CELL": "of the grid on which cells' edges lie",
}


def _module(name: str) -> ModuleType:
    return import_module(f"{adjust.__name__}.{name}")


@lru_cache(maxsize=1)
def _modules() -> tuple[ModuleType, ...]:
    return (*(_module(one.name) for one in pkgutil.iter_modules(adjust.__path__)), adjust_in_memory)


def every_number() -> set[str]:
    """Return the names of all numbers, and rows of them, that modules of the estimator assign."""
    found = set()
    for module in _modules():
        short = module.__name__.rpartition(".")[2]
        if module.__name__.startswith(adjust.__name__):
            found |= {f"{short}.{name}" for name in _own(module) if _is_number(getattr(module, name))}
    return found


def _is_number(value: Any) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(_is_number(one) for one in value)
    return isinstance(value, int | float | Decimal | np.ndarray | Sweeps | Parts)


@lru_cache(maxsize=64)
def _own(module: ModuleType) -> frozenset[str]:
    """Return the names that a module assigns itself."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    targets = [one for node in tree.body if isinstance(node, ast.Assign) for one in node.targets]
    targets += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    return frozenset(name.id for one in targets for name in ast.walk(one) if isinstance(name, ast.Name))


@contextmanager
def set_to(setting: Setting, value: float) -> Iterator[None]:
    """Set it to a value in its module and wherever it is imported."""
    owner = _module(setting.module)
    usual, other = getattr(owner, setting.name), setting.as_kept(value)
    places = [
        module
        for module in _modules()
        if module is owner or (hasattr(module, setting.name) and setting.name not in _own(module))
    ]
    for module in places:
        setattr(module, setting.name, other)
    _forget()
    try:
        yield
    finally:
        for module in places:
            setattr(module, setting.name, usual)
        _forget()


def _forget() -> None:
    for module in _modules():
        for one in vars(module).values():
            if hasattr(one, "cache_clear"):
                one.cache_clear()


def run(folder: str, tables: str = TABLES, minutes: str = MINUTES) -> bool:
    """Append what is missing, table by table, and return whether nothing is missing any more."""
    end = time.monotonic() + 60 * float(minutes)
    path = Path(folder) / "settings.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    done = {(one["table"], one["setting"], one["value"]) for one in bench.lines(path)}
    answer: Callable[[bench.Asked], bench.Answer] = bench.ESTIMATORS["adjusted"]
    with one_thread(), path.open("a", encoding="utf-8") as stream:
        for number in range(FIRST, FIRST + int(tables)):
            every = [(None, math.nan), *((one, value) for one in SETTINGS for value in one.values())]
            missing = [(one, value) for one, value in every if _key(number, one, value) not in done]
            if missing and time.monotonic() > end:
                return False
            people = bench.asked(bench.of_table(number), 0) if missing else None
            for one, value in missing:
                if one is None:
                    found = answer(people)
                else:
                    with set_to(one, value):
                        found = answer(people)
                table, setting, kept = _key(number, one, value)
                line = {"table": table, "setting": setting, "value": kept, "truth": people.truth}
                line |= {"estimate": found.estimate, "interval": found.intervals[-1]}
                stream.write(json.dumps(line) + "\n")
            stream.flush()
    return True


def _key(number: int, one: Setting | None, value: float) -> tuple[int, str, float]:
    return (number, "none", 0.0) if one is None else (number, f"{one.module}.{one.title}", round(value, 6))


def table(folder: str) -> list[list[str]]:
    """Return a row for each value of each setting, the largest change first."""
    found: dict[tuple[str, float], dict[int, dict[str, Any]]] = defaultdict(dict)
    for one in bench.lines(Path(folder) / "settings.jsonl"):
        found[one["setting"], one["value"]][one["table"]] = one
    usual = found["none", 0.0]
    whole = sorted(set.intersection(*(set(one) for one in found.values())))
    usual = {table: usual[table] for table in whole}
    rows = []
    for one in SETTINGS:
        sides = [_compared(found[_key(0, one, value)[1:]], usual) for value in one.values()]
        change = max(
            abs(held) / len(whole) + abs(math.log(width)) + abs(math.log(error)) for held, width, error in sides
        )
        what = [f"{one.module}.{one.title}", one.what, f"{one.value():g}"]
        rows += [
            (-change, [*what, f"{value:g}", f"{held:+d}", f"{width:.2f}", f"{error:.2f}"])
            for value, (held, width, error) in zip(one.values(), sides, strict=True)
        ]
    names = ["setting", "what it is", "as set", "set to", "holds", "width", "error"]
    return [names, *(row for _, row in sorted(rows, key=lambda row: row[0]))]


def _holds(one: dict[str, Any]) -> bool:
    return bool(one["interval"][0] <= one["truth"] <= one["interval"][1])


def _half(one: dict[str, Any]) -> float:
    return float(one["interval"][1] - one["interval"][0]) / 2


def _compared(other: dict[int, dict[str, Any]], usual: dict[int, dict[str, Any]]) -> tuple[int, float, float]:
    """Return how many more hold, the geometric mean of the ratio of half-widths, and the ratio of errors."""
    held = sum(_holds(other[table]) - _holds(one) for table, one in usual.items())
    width = math.exp(float(np.mean([math.log(_half(other[table]) / _half(one)) for table, one in usual.items()])))
    off = np.array(
        [
            [(side[table]["estimate"] - one["truth"]) / _half(one) for table, one in usual.items()]
            for side in (other, usual)
        ]
    )
    errors = np.sqrt((off**2).mean(axis=1))
    return held, width, float(errors[0] / errors[1])


if __name__ == "__main__":
    if sys.argv[1] == "run":
        sys.exit(0 if run(*sys.argv[2:]) else 75)
    csv.writer(sys.stdout, lineterminator="\n").writerows(table(*sys.argv[2:]))
