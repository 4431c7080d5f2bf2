"""Coverage and width of estimator `survival` on trials whose truth is known, beside the same without privacy.

uv run python -m replication.benchmarks.survival [RUNS]    # writes docs/figures/survival.md; 200 runs take 15 minutes

Three populations, arms of equal size: half have the event and 30% are lost, hazards proportional (ratio .7); 60% are
lost and curves cross (Weibull, shapes .8 and 1.6); 3% have the event and 10% are lost (ratio .6). A cell is 200 runs
of one seed; with a true coverage of .95 it falls below .91 once in a hundred cells.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from causalveil.schemas.estimators.survival import Measure, SurvivalStudy
from causalveil.tasks.estimate.times.curves import Grid, NoisyCells, measured
from causalveil.tasks.estimate.times.effects import TwoArms
from causalveil.tasks.estimate.times.releases import grid_of, mechanism
from causalveil.tasks.estimate.times.strata import Strata
from causalveil.tasks.machine.arrays import FloatArray
from tests.survival_help import HORIZON, People, exact_cells, make_survival, read_cells

PAGE = Path(__file__).parents[2] / "docs" / "figures" / "survival.md"
RUNS, CONFIDENCE = 200, 0.95
EPSILONS = (None, "0.5", "1", "3")
Draw = Callable[[np.random.Generator, int], FloatArray]


@dataclass(frozen=True)
class Trial:
    """A population: times to the event of controls and treated, each as scale and shape, and to being lost."""

    name: str
    control: tuple[float, float]
    treated: tuple[float, float]
    lost: float
    sizes: tuple[int, ...]

    def people(self, random: np.random.Generator, n: int) -> People:
        """So many people, half of them treated."""
        arm = random.permutation(np.arange(n) % 2).astype(np.uint8)
        event = np.where(arm, *(scale * random.weibull(shape, n) for scale, shape in (self.treated, self.control)))
        lost = random.exponential(self.lost, n)
        return People(arm, np.minimum(event, lost), (event <= lost).astype(np.uint8))

    def curve(self, arm: int, at: FloatArray) -> FloatArray:
        """The true curve."""
        scale, shape = (self.control, self.treated)[arm]
        return np.asarray(np.exp(-((at / scale) ** shape)))

    def truth(self, measure: Measure) -> float:
        """The true difference."""
        at = np.linspace(0, HORIZON, 20_001)
        control, treated = (self.curve(arm, at) for arm in (0, 1))
        if measure is Measure.risk:
            return float(control[-1] - treated[-1])
        return float(np.trapezoid(treated - control, at))


def scale(risk: float, shape: float = 1.0) -> float:
    """Of a Weibull law of which this share has come by the horizon."""
    return float(HORIZON / (-np.log1p(-risk)) ** (1 / shape))


TRIALS = (
    Trial("30% lost, proportional", (scale(0.5), 1), (scale(0.5) / 0.7, 1), scale(0.3), (1_000, 5_000)),
    Trial("60% lost, crossing", (scale(0.5, 0.8), 0.8), (scale(0.45, 1.6), 1.6), scale(0.6), (1_000, 5_000)),
    Trial("3% events, 10% lost", (scale(0.03), 1), (scale(0.03) / 0.6, 1), scale(0.1), (5_000, 50_000)),
)


def released(study: SurvivalStudy, grid: Grid, counts: FloatArray, random: np.random.Generator) -> NoisyCells:
    """The cells as a run would release them; noise by numpy, which is quicker than the product's exact sampler."""
    draw = mechanism(study)
    exact = measured(counts.reshape(-1).astype(np.int64), grid, plain=False)
    return read_cells(exact + random.normal(0, draw.known_scale, len(exact)), study, round(counts.sum()))


def histogram(study: SurvivalStudy, grid: Grid, counts: FloatArray, random: np.random.Generator) -> NoisyCells:
    """The same budget on a plain histogram of 20 intervals, whose sensitivity is the root of two as well."""
    noise = mechanism(study).known_scale
    size = counts.size
    found = counts.reshape(-1) + random.normal(0, noise, size)
    found += (counts.sum() - found.sum()) / size
    covariance = noise**2 * (np.eye(size) - 1 / size)
    return NoisyCells(grid, found.reshape(counts.shape), covariance)


@dataclass
class Cell:
    """What runs of one population, size and budget came to."""

    halves: list[float]
    hits: list[bool]
    errors: list[float]
    whole: int = 0

    def __str__(self) -> str:
        """Half-width, in brackets the coverage."""
        half = np.mean(self.halves)
        return f"{half:.3g} ({np.mean(self.hits):.3f})" + (f", {self.whole} whole" if self.whole else "")


def run(trial: Trial, n: int, epsilon: str | None, runs: int, plain: bool = False) -> dict[str, Cell]:
    """Cells by measure, beside `bands` (the share of runs whose bands hold both whole curves)."""
    study = make_survival(competing=False, epsilon=epsilon or "3", intervals=20 if plain else None)
    grid = Grid(50, 1, HORIZON) if epsilon is None else grid_of(study, n)
    found = {str(one): Cell([], [], []) for one in (*Measure, "bands")}
    true = np.array([trial.curve(arm, grid.ends) for arm in (0, 1)])
    for number in range(runs):
        random = np.random.default_rng([number, n, sum(trial.name.encode()), len(epsilon or "")])
        counts = trial.people(random, n).counts(grid)
        if epsilon is None:
            cells = exact_cells(counts, grid)
        else:
            cells = (histogram if plain else released)(study, grid, counts, random)
        both = TwoArms(cells)
        for measure in Measure:
            one, truth, cell = both.contrast(measure, CONFIDENCE, 0.0), trial.truth(measure), found[str(measure)]
            cell.halves.append((one.upper - one.lower) / 2)
            cell.hits.append(one.lower <= truth <= one.upper)
            cell.errors.append(one.estimate - truth)
            cell.whole += one.whole_range
        if not plain:
            bands = Strata.of(both).bands(CONFIDENCE)
            found["bands"].hits.append(bool(((bands.lower <= true + 1e-12) & (true - 1e-12 <= bands.upper)).all()))
            found["bands"].halves.append(float((bands.upper - bands.lower).mean() / 2))
    return found


def tests(runs: int) -> Iterator[str]:
    """The log-rank test: how often it rejects at .05 where nothing differs, and at a ratio of .7."""
    yield "| n | epsilon | rejected where nothing differs | at a hazard ratio of .7 | hazard ratio's interval holds |"
    yield "|---|---|---|---|---|"
    one = TRIALS[0]
    same = Trial("nothing differs", one.control, one.control, one.lost, one.sizes)
    for n in one.sizes:
        for epsilon in EPSILONS:
            study = make_survival(competing=False, epsilon=epsilon or "3")
            grid = Grid(50, 1, HORIZON) if epsilon is None else grid_of(study, n)
            rates, holds = [], []
            for trial in (same, one):
                rejected = 0
                for number in range(runs):
                    random = np.random.default_rng([number, n, 99, len(epsilon or "")])
                    counts = trial.people(random, n).counts(grid)
                    exact = exact_cells(counts, grid)
                    cells = exact if epsilon is None else released(study, grid, counts, random)
                    found = Strata.of(TwoArms(cells)).log_rank(CONFIDENCE)
                    rejected += found is not None and abs(found.statistic) > 1.959964
                    if trial is one and found is not None and found.lower is not None and found.upper is not None:
                        holds.append(found.lower <= 0.7 <= found.upper)
                rates.append(rejected / runs)
            yield f"| {n:,} | {epsilon or 'none'} | {rates[0]:.3f} | {rates[1]:.3f} | {np.mean(holds):.3f} |"


def tables(runs: int) -> Iterator[str]:
    """The page's tables."""
    names = {"risk": "Risk difference", "rmst": "Restricted mean survival time, days of 365", "bands": "Bands"}
    found: dict[tuple[str, int], list[dict[str, Cell]]] = {}
    for trial in TRIALS:
        for n in trial.sizes:
            columns = [run(trial, n, epsilon, runs) for epsilon in EPSILONS]
            found[trial.name, n] = [*columns, run(trial, n, "1", runs, plain=True)]
            sys.stderr.write(f"{trial.name}, {n}\n")
    for key, title in names.items():
        yield f"\n## {title}\n"
        last = "" if key == "bands" else " plain histogram of 20 intervals, epsilon 1 |"
        yield f"| trial | n | not private | epsilon .5 | 1 | 3 |{last}"
        yield "|---|---|---|---|---|---|" + ("" if key == "bands" else "---|")
        for (name, n), cells in found.items():
            shown = [str(one[key]) for one in (cells if last else cells[:-1])]
            yield f"| {name} | {n:,} | {' | '.join(shown)} |"
    yield "\n## Root mean square error of the risk difference at epsilon 1, by the grid\n"
    yield "| trial | n | 20 | 50 | plain, 20 | plain, 50 |"
    yield "|---|---|---|---|---|---|"
    for trial in TRIALS:
        for n in trial.sizes:
            shown = [f"{one:.4f}" for one in errors(trial, n, runs)]
            yield f"| {trial.name} | {n:,} | {' | '.join(shown)} |"


def errors(trial: Trial, n: int, runs: int) -> list[float]:
    """By the released numbers and the grid."""
    result = []
    for way in (released, histogram):
        for intervals in (20, 50):
            study = make_survival(competing=False, intervals=intervals)
            grid, found = grid_of(study, n), []
            for number in range(runs):
                random = np.random.default_rng([number, n, 7])
                both = TwoArms(way(study, grid, trial.people(random, n).counts(grid), random))
                found.append(both.contrast(Measure.risk, CONFIDENCE, 0.0).estimate - trial.truth(Measure.risk))
            result.append(float(np.sqrt(np.mean(np.square(found)))))
    return result


def page(runs: int) -> str:
    """The whole page."""
    said = (
        f"By `uv run python -m replication.benchmarks.survival {runs}`: {runs} runs a cell, seeds fixed, delta 1e-6, "
        "half-width of 95% intervals with their coverage in brackets. *Whole* counts runs whose interval is "
        "the whole range, since too few are seen at risk at the horizon. Half of the people are treated; "
        "hazards of the first and the last trial are proportional (.7 and .6), curves of the second cross "
        "(Weibull, shapes .8 and 1.6)."
        "\n\n"
        "Sampling is part of every number: where people are many or epsilon is large, it is what is left. "
        "Bands without noise run short where events are few, since their normal approximation does."
    )
    head = ["# Time to event: coverage and width", said]
    return "\n".join(["\n\n".join(head), *tables(runs), "\n## Log-rank test and hazard ratio\n", *tests(runs), ""])


def main(arguments: list[str]) -> None:
    """Write the page."""
    PAGE.write_text(page(int(arguments[0]) if arguments else RUNS))


if __name__ == "__main__":
    main(sys.argv[1:])
