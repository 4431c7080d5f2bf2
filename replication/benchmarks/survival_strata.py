"""Coverage and width of adjusted effects on times where losses follow one or two columns, declared or not.

python -m replication.benchmarks.survival_strata [RUNS [PEOPLE..]]

Four standard normal covariates, cut at 3; two of them drive treatment (log odds .7 each) and hazard (log .5 each), half
of the controls have the event. Columns of ``censoring.by`` cut covariates into levels, so strata are confounded and of
unequal size. Where losses are informative their log rate rises with the levels among treated, and falls among controls.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from scipy.special import ndtr

from causalveil.flows.estimators.survival import SURVIVAL
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.plan import StandIn
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.interval import Findings
from replication.benchmarks.survival import Cell
from tests.survival_help import HORIZON, People, found_of, make_survival

COVARIATES: dict[str, Any] = {f"x{place}": {"lower": -3, "upper": 3} for place in (1, 2, 3, 4)}
RUNS, SIZES, FIRST = 100, (1_000, 5_000, 30_000), 5_000


@dataclass(frozen=True)
class Stratified:
    """A population: columns as name, the covariate that each cuts, and shares of its levels; how losses follow them."""

    name: str
    columns: tuple[tuple[str, int, tuple[float, ...]], ...]
    follow: float
    risk: float = 0.5
    lost: float = 0.3

    @property
    def by(self) -> dict[str, Any]:
        """The columns, as a study in full declares them."""
        return {name: {"levels": [f"l{place}" for place in range(len(shares))]} for name, _, shares in self.columns}

    def people(self, random: np.random.Generator, n: int) -> People:
        """So many people."""
        x = np.clip(random.standard_normal((n, 4)), -3, 3)
        index, follows = x[:, 0] + x[:, 1], np.zeros(n)
        arm = (random.random(n) < 1 / (1 + np.exp(-0.7 * index))).astype(np.uint8)
        beside: dict[str, Any] = {name: x[:, place] for place, name in enumerate(COVARIATES)}
        for name, place, shares in self.columns:
            level = np.searchsorted(np.cumsum(shares)[:-1], ndtr(x[:, place]))
            beside[name] = [f"l{one}" for one in level]
            follows += self.follow * (level / (len(shares) - 1) - 0.5)
        losses = -np.log1p(-self.lost) / HORIZON * np.exp(follows * np.where(arm, 2, -1))
        event = random.exponential(1 / self._rate(index, arm))
        gone = random.exponential(1 / losses)
        return People(arm, np.minimum(event, gone), (event <= gone).astype(np.uint8), pl.DataFrame(beside))

    def _rate(self, index: Any, arm: Any) -> Any:
        return -np.log1p(-self.risk) / HORIZON * np.exp(0.5 * index) * np.where(arm, 0.7, 1.0)

    @cached_property
    def truth(self) -> float:
        """The true difference of risks: a mean over a million people."""
        index = np.clip(np.random.default_rng(12).standard_normal((1_000_000, 2)), -3, 3).sum(axis=1)
        control, treated = (float(np.mean(1 - np.exp(-self._rate(index, arm) * HORIZON))) for arm in (0, 1))
        return treated - control

    def study(self, declared: bool, **changes: Any) -> SurvivalStudy:
        """The study that is asked, with its columns in ``censoring.by`` or among the covariates alone."""
        asked = {"trial": False, "covariates": {**COVARIATES, **self.by}, "measure": ["risk"], **changes}
        censoring = {"by": self.by, **asked.pop("censoring", {})} if declared else {}
        return make_survival(competing=False, censoring=censoring, **asked)

    def found(self, n: int, seed: int, declared: bool, **changes: Any) -> Findings:
        """What one table of this seed says."""
        people = self.people(np.random.default_rng([seed, n, sum(self.name.encode())]), n)
        return found_of(self.study(declared, **changes), people, seed)

    def cell(self, n: int, declared: bool, runs: int) -> tuple[Cell, list[int]]:
        """Runs at epsilon 1, and how many strata each told apart."""
        cell, strata = Cell([], [], []), list[int]()
        for seed in range(FIRST, FIRST + runs):
            found = self.found(n, seed, declared)
            interval = found.interval
            cell.halves.append((interval.upper - interval.lower) / 2)
            cell.hits.append(interval.lower <= self.truth <= interval.upper)
            cell.errors.append(found.estimate - self.truth)
            cell.whole += interval.whole_range
            strata.append(int(found.details.get("strata", 1)))
        return cell, strata


FIVE, TEN = (("c1", 0, (0.3, 0.3, 0.2, 0.15, 0.05)),), (("c1", 1, (0.7, 0.3)), ("c2", 0, (0.4, 0.3, 0.2, 0.1, 0.0)))
NINE = (("c1", 0, (0.2, 0.6, 0.2)), ("c2", 2, (0.5, 0.25, 0.25)))
# Other populations than those by which the rule was chosen (two to twelve strata, losses that follow more strongly).
CELLS = (
    Stratified("1 col of 5, informative", FIVE, 0.5),
    Stratified("2x5, informative, last empty", TEN, 0.4),
    Stratified("3x3, 50% lost, informative", NINE, 0.4, lost=0.5),
    Stratified("1 col of 5, uninformative", FIVE, 0.0),
    Stratified("2x5, uninformative, last empty", TEN, 0.0),
    Stratified("3x3, 10% events, informative", (NINE[0], ("c2", 1, NINE[1][2])), 0.5, risk=0.1),
)


def main(arguments: list[str]) -> None:
    """Print the table of ``docs/proofs/survival.md``."""
    runs, *sizes = [int(one) for one in arguments] or [RUNS]
    say = sys.stdout.write
    say("| population | n | plan | declared | strata | not declared |\n|---|---|---|---|---|---|\n")
    for one in CELLS:
        for n in sizes or SIZES:
            study = one.study(declared=True, expect={"risk": one.risk, "lost": one.lost})
            planned = SURVIVAL.expected(study, sizes_of(study, n), StandIn(), None)["half_width"]
            own, strata = one.cell(n, True, runs)
            other, _ = one.cell(n, False, runs)
            many = study.censoring.groups
            say(f"| {one.name} | {n:,} | {planned:.3g} | {own} | {np.mean(strata):.1f} of {many} | {other} |\n")


if __name__ == "__main__":
    main(sys.argv[1:])
