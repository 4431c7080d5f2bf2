"""Curves and log-rank tests of estimator `survival` on the table of two published private Kaplan-Meier methods.

uv run --with lifelines==0.30.3 python -m replication.benchmarks.survival_published [RUNS]

The NCCTG lung cancer table of survival, 228 people. Printed numbers are those of the papers' abstracts; their code was
not run, so what else differs between the runs is said on the page and not measured.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.tasks.estimate.times import curves
from causalveil.tasks.estimate.times.curves import Grid, NoisyCells, measured
from causalveil.tasks.estimate.times.effects import TwoArms
from causalveil.tasks.estimate.times.releases import grid_of, mechanism
from causalveil.tasks.estimate.times.strata import Strata
from causalveil.tasks.machine.arrays import FloatArray
from tests.survival_help import People, make_survival, read_cells

PAGE = Path(__file__).parents[2] / "docs" / "figures" / "survival_published.md"
RUNS, HORIZON = 200, 1_000.0
EPSILONS, DELTAS = ("0.5", "1", "3", "10"), ("0", "1e-5")


def lung() -> People:
    """The table, everybody in one arm."""
    from lifelines.datasets import load_lung  # type: ignore[import-not-found]

    table = load_lung()
    time, dead = table["time"].to_numpy(float), table["status"].to_numpy()
    kind = (dead == dead.max()).astype(np.uint8)
    return People(np.zeros(len(time), np.uint8), time, kind)


def asked(epsilon: str, delta: str) -> SurvivalStudy:
    """The study at one budget."""
    outcome = {"horizon": HORIZON, "upper": 1_100}
    return make_survival(competing=False, epsilon=epsilon, delta=delta, outcome=outcome)


def released(study: SurvivalStudy, people: People, grid: Grid, random: np.random.Generator) -> NoisyCells:
    """The cells with noise by numpy, which is quicker than the product's exact sampler."""
    draw, plain = mechanism(study), study.privacy.delta == 0
    exact = measured(people.counts(grid).reshape(-1).astype(np.int64), grid, plain)
    noise = random.laplace if plain else random.normal
    return read_cells(exact + noise(0, draw.known_scale, len(exact)), study, len(people))


def curve_error(people: People, epsilon: str, delta: str, runs: int) -> float:
    """Root mean square distance of the drawn curve from Kaplan-Meier's over the days at which somebody died."""
    from lifelines import KaplanMeierFitter  # type: ignore[import-not-found]

    study = asked(epsilon, delta)
    grid, exact = grid_of(study, len(people)), KaplanMeierFitter().fit(people.time, people.kind)
    days = np.unique(people.time[(people.kind == 1) & (people.time <= HORIZON)])
    truth = exact.predict(days).to_numpy()
    errors = []
    for seed in range(runs):
        cells = released(study, people, grid, np.random.default_rng(seed))
        raw = curves.survival(cells.counts[0], grid)
        drawn = 1 - np.clip(curves.never_falling(1 - raw), 0, 1)
        found = np.interp(days, np.append(0.0, grid.ends), np.append(1.0, drawn))
        errors.append(float(np.mean((found - truth) ** 2)))
    return float(np.sqrt(np.mean(errors)))


def rejected(people: People, epsilon: str, delta: str, runs: int) -> float:
    """How often the log-rank test rejects at .05 where arms are drawn by lot, so that nothing differs."""
    study, limit, found = asked(epsilon, delta), -float(ndtri(0.025)), 0
    grid = grid_of(study, len(people))
    for seed in range(runs):
        random = np.random.default_rng([seed, 5])
        arm = random.permutation(np.arange(len(people)) % 2).astype(np.uint8)
        both = TwoArms(released(study, People(arm, people.time, people.kind), grid, random))
        test = Strata.of(both).log_rank(0.95)
        found += test is not None and abs(test.statistic) > limit
    return found / runs


def tables(people: People, runs: int) -> list[str]:
    """Both tables."""

    def row(name: str, values: list[FloatArray | float]) -> str:
        return f"| {name} | " + " | ".join(f"{value:.3f}" for value in values) + " |"

    names = {"0": "pure", "1e-5": "delta 1e-5"}
    head = ["| epsilon | " + " | ".join(EPSILONS) + " |", "|---|" + "---|" * len(EPSILONS)]
    lines = ["\n## Curve of all 228: root mean square distance from Kaplan-Meier's\n", *head]
    for delta in DELTAS:
        lines.append(row(f"ours, {names[delta]}", [curve_error(people, one, delta, runs) for one in EPSILONS]))
    lines.append("| arXiv 2412.05164, abstract | | | | 0.04 |")
    lines += ["\n## Log-rank test at .05 of two randomised arms: share of runs that reject\n", *head]
    for delta in DELTAS:
        lines.append(row(f"ours, {names[delta]}", [rejected(people, one, delta, runs) for one in EPSILONS]))
    lines.append('| arXiv 2509.00615, abstract | "below fifteen percent" | same | same | same |')
    return lines


def page(runs: int) -> str:
    """The whole page."""
    said = (
        "By `uv run --with lifelines==0.30.3 python -m replication.benchmarks.survival_published "
        f"{runs}`: {runs} runs, horizon 1,000 days. The table is `lung` of the R package survival, which both papers "
        "use: 228 people, so noise rules at small budgets."
        "\n\n"
        "**What can be compared.** The distance of a released curve from Kaplan-Meier's of the same people, and how "
        "often a test rejects where nothing differs. **What cannot.** Both papers add Laplace noise to the curve and "
        "have no delta; the row *pure* has none either. Over which days they take the mean, and for which neighbours "
        "the noise holds, their abstracts do not say; their code was not run. The second paper's curves come from "
        "several sites. Neither abstract speaks of intervals, so coverage has nothing beside it."
    )
    return "\n".join(["# Time to event: published private curves", "", said, *tables(lung(), runs), ""])


def main(arguments: list[str]) -> None:
    """Write the page."""
    PAGE.write_text(page(int(arguments[0]) if arguments else RUNS))


if __name__ == "__main__":
    main(sys.argv[1:])
