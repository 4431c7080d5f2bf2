"""Coverage and width of private intervals: tables 1 to 3 of Schröder, Hartenstein and Feuerriegel (2025), and ours.

Synthetic data whose effect is known (table 1), right heart catheterisation (table 2), a randomised trial (table 3).
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from causalveil.schemas.table import EffectStudy
from causalveil.tasks.machine.distribute import in_steps
from causalveil.tasks.report.figures import write_table
from causalveil_replication.figures import write_page
from causalveil_replication.schroeder2025 import runs as schroeder2025_runs
from causalveil_replication.schroeder2025.data import (
    DATASET_1,
    DATASET_2,
    DATASET_2_SEPARATE,
    TRIAL,
    Population,
    rhc,
    rhc_document,
)
from causalveil_replication.schroeder2025.page import figures, page
from causalveil_replication.schroeder2025.runs import (
    ADJUSTED,
    DIFFERENCE,
    FINITE,
    IPW,
    KERNEL,
    LEVELS,
    NETWORK,
    Analysis,
    OneInterval,
)

EPSILON, DELTA = "0.5", "1e-5"
RHC_EPSILONS = ("0.1", "0.25", "0.5")
RHC_RUNS = 5
TRIAL_RUNS = 10
# Runs of one task of a worker process.
BATCH = 10
# Methods without an optimiser take so many times the runs: 500 leave a Monte-Carlo error of two points at 80%, too
# much to tell whether coverage is within two points of nominal.
CHEAP = 5
# Coverage at 80, 90 and 95% in tables 1 and 3 of the paper.
PAPER_COVERAGE = {
    ("dataset-1", KERNEL.name): (0.784, 0.912, 0.964),
    ("dataset-1", NETWORK.name): (0.824, 0.894, 0.962),
    ("dataset-2", KERNEL.name): (0.848, 0.910, 0.958),
    ("dataset-2", NETWORK.name): (0.832, 0.904, 0.954),
    ("trial", DIFFERENCE.name): (0.820, 0.920, 0.950),
    ("trial", KERNEL.name): (0.780, 0.900, 0.940),
    ("trial", NETWORK.name): (0.880, 0.890, 0.970),
}
# Half-widths at 95% in table 2 of the paper.
PAPER_RHC = {"0.1": 2.12, "0.25": 0.885, "0.5": 0.432}


@dataclass(frozen=True)
class Cell:
    """One method on one population of one size. ``times`` the runs that were asked for are made."""

    population: Population
    units: int
    method: Analysis
    times: int = 1

    @property
    def study(self) -> EffectStudy:
        """Study of the cell's method."""
        document = self.population.document()
        return schroeder2025_runs.study_of(document, self.method, self.units, EPSILON, DELTA)

    def answers(self, runs: Sequence[int]) -> list[OneInterval]:
        """Return the answers of these runs."""
        return schroeder2025_runs.synthetic_runs(self.study, self.population, self.units, runs)


CELLS = (
    *(Cell(DATASET_1, 3_000, method) for method in (KERNEL, NETWORK)),
    *(Cell(DATASET_1, 3_000, method, CHEAP) for method in (FINITE, IPW)),
    *(Cell(DATASET_2, 3_000, method) for method in (KERNEL, NETWORK)),
    *(Cell(DATASET_2, 3_000, method, CHEAP) for method in (FINITE, IPW)),
    *(Cell(DATASET_2, 30_000, method, CHEAP) for method in (FINITE, IPW)),
    *(Cell(DATASET_2_SEPARATE, 3_000, method) for method in (KERNEL, FINITE, IPW)),
    *(Cell(DATASET_2_SEPARATE, 30_000, method) for method in (FINITE, IPW)),
    *(Cell(TRIAL, 1_000, method) for method in (KERNEL, NETWORK)),
    *(Cell(TRIAL, 1_000, method, CHEAP) for method in (ADJUSTED, DIFFERENCE)),
)


def write_intervals(out: Path, data: Path | None, runs: int, workers: int, cells: Sequence[Cell] = CELLS) -> None:
    """Run every cell and write tables (CSV), a page (Markdown) and figures (SVG) into ``out``.

    Args:
        out: the folder; answers of runs are kept in ``out/runs``, and those found there are not computed again.
        data: a folder with ``rhc.csv``; None: table 2 is left out.
        runs: of each cell, but five times as many of methods that are quick.
        workers: processes.
        cells: what to run.

    Raises:
        DataError: the patients' file is not there or is another one.
        StudyError: a file cannot be written.
    """
    frame = None if data is None else rhc(data)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        answers = {cell: _answers(pool, out, cell, runs * cell.times) for cell in in_steps(cells, len(cells))}
        patients = [] if frame is None else _patients(pool, frame, min(runs, RHC_RUNS))
    table = [row for cell in cells for row in _coverage(cell, answers[cell])]
    trial = {cell: answers[cell][: TRIAL_RUNS * len(LEVELS)] for cell in cells if cell.population == TRIAL}
    few = [row for cell, some in trial.items() for row in _coverage(cell, some)]
    drawn = {cell.method.title: some for cell, some in trial.items()}
    for name, rows in (("intervals", table), ("interval-trial", few), ("interval-rhc", patients)):
        if rows:
            write_table(out / f"{name}.csv", rows)
    write_page(out / "intervals.md", page(table, few, patients, figures(out, table, drawn, patients)))


def _answers(pool: ProcessPoolExecutor, out: Path, cell: Cell, runs: int) -> list[OneInterval]:
    """All answers of a cell, in order of runs."""
    path = out / "runs" / f"{cell.population.name}-{cell.units}-{cell.method.name}-{cell.study.digest[:12]}.csv"
    known = _read(path)
    missing = sorted(set(range(runs)) - {answer.run for answer in known})
    batches = [missing[first : first + BATCH] for first in range(0, len(missing), BATCH)]
    if batches:
        sys.stderr.write(f"{cell.population.title}, {cell.units} units, {cell.method.title}: {len(missing)} runs\n")
    for done in pool.map(cell.answers, batches):
        known += done
        write_table(path, [answer._asdict() for answer in known])
    return sorted(answer for answer in known if answer.run < runs)


def _read(path: Path) -> list[OneInterval]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [OneInterval(int(row["run"]), *(float(row[name]) for name in OneInterval._fields[1:])) for row in rows]


def _patients(pool: ProcessPoolExecutor, frame: Any, runs: int) -> list[dict[str, Any]]:
    """Table 2: mean estimate and half-width at 95% by epsilon and method, and the ratio to the asymptotic one."""
    rows = []
    for epsilon in RHC_EPSILONS:
        wide = None
        for method in (KERNEL, FINITE, IPW):
            study = schroeder2025_runs.study_of(rhc_document(), method, frame.height, epsilon, DELTA)
            work = partial(schroeder2025_runs.shuffled_runs, study, frame)
            done = [answer for part in pool.map(work, [[run] for run in range(runs)]) for answer in part]
            some = [answer for answer in done if answer.level == LEVELS[-1]]
            width = sum(answer.upper - answer.lower for answer in some) / len(some) / 2
            wide = width if wide is None else wide
            rows.append(
                {
                    "epsilon": float(epsilon),
                    "method": method.title,
                    "runs": runs,
                    "estimate": float(sum(answer.estimate for answer in some) / len(some)),
                    "half_width": width,
                    "share_of_asymptotic": width / wide,
                    "paper_half_width": PAPER_RHC[epsilon] if method == KERNEL else None,
                }
            )
    return rows


def _coverage(cell: Cell, answers: Sequence[OneInterval]) -> list[dict[str, Any]]:
    """A cell's rows of the table, one per level."""
    printed = dict(zip(LEVELS, PAPER_COVERAGE.get((cell.population.name, cell.method.name), ()), strict=False))
    return [
        {
            "data": cell.population.title,
            "units": cell.units,
            "method": cell.method.title,
            "level": summary.level,
            "runs": summary.runs,
            "coverage": summary.coverage,
            "coverage_error": summary.coverage_error,
            "paper_coverage": printed.get(summary.level) if cell.units < 30_000 else None,
            "bias": summary.bias,
            "bias_error": summary.bias_error,
            "half_width": summary.half_width,
        }
        for summary in schroeder2025_runs.summarise(answers, cell.population.truth)
    ]
