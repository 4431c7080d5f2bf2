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

from flows.figures import figure, legend, markdown_table, picture, series, write_page, write_table
from schemas.study import EffectStudy
from tasks import interval_runs
from tasks.interval_runs import DIFFERENCE, FINITE, IPW, KERNEL, KNOWN, LEVELS, NETWORK, Answer, Method
from tasks.replication_data import DATASET_1, DATASET_2, DATASET_2_SEPARATE, TRIAL, Population, rhc, rhc_document

EPSILON, DELTA = "0.5", "1e-5"
RHC_EPSILONS = ("0.1", "0.25", "0.5")
RHC_RUNS = 20
TRIAL_RUNS = 10
# Runs of one task of a worker process.
BATCH = 10
# Coverage at 80, 90 and 95 % in tables 1 and 3 of the paper.
PAPER_COVERAGE = {
    ("dataset-1", KERNEL.name): (0.784, 0.912, 0.964),
    ("dataset-1", NETWORK.name): (0.824, 0.894, 0.962),
    ("dataset-2", KERNEL.name): (0.848, 0.910, 0.958),
    ("dataset-2", NETWORK.name): (0.832, 0.904, 0.954),
    ("trial", DIFFERENCE.name): (0.820, 0.920, 0.950),
    ("trial", KERNEL.name): (0.780, 0.900, 0.940),
    ("trial", NETWORK.name): (0.880, 0.890, 0.970),
}
# Half-widths at 95 % in table 2 of the paper.
PAPER_RHC = {"0.1": 2.12, "0.25": 0.885, "0.5": 0.432}


@dataclass(frozen=True)
class Cell:
    """One method on one population of one size."""

    population: Population
    units: int
    method: Method

    @property
    def study(self) -> EffectStudy:
        """What is asked."""
        document = self.population.document()
        return interval_runs.study_of(document, self.method, self.units, EPSILON, DELTA)

    def answers(self, runs: Sequence[int]) -> list[Answer]:
        """What these runs say."""
        return interval_runs.synthetic_runs(self.study, self.population, self.units, runs)


CELLS = (
    *(Cell(DATASET_1, 3_000, method) for method in (KERNEL, NETWORK, FINITE, IPW)),
    *(Cell(DATASET_2, 3_000, method) for method in (KERNEL, NETWORK, FINITE, IPW)),
    *(Cell(DATASET_2, 30_000, method) for method in (FINITE, IPW)),
    *(Cell(DATASET_2_SEPARATE, 3_000, method) for method in (KERNEL, FINITE, IPW)),
    *(Cell(DATASET_2_SEPARATE, 30_000, method) for method in (FINITE, IPW)),
    *(Cell(TRIAL, 1_000, method) for method in (KERNEL, NETWORK, KNOWN, DIFFERENCE)),
)


def write_intervals(out: Path, data: Path | None, runs: int, workers: int, cells: Sequence[Cell] = CELLS) -> None:
    """Run every cell and write tables (CSV), a page (Markdown) and figures (SVG) into ``out``.

    Args:
        out: the folder; answers of runs are kept in ``out/runs``, and those found there are not computed again.
        data: a folder with ``rhc.csv``; None: table 2 is left out.
        runs: of each cell.
        workers: processes.
        cells: what to run.

    Raises:
        DataError: the patients' file is not there or is another one.
        StudyError: a file cannot be written.
    """
    frame = None if data is None else rhc(data)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        answers = {cell: _answers(pool, out, cell, runs) for cell in cells}
        patients = [] if frame is None else _patients(pool, frame, min(runs, RHC_RUNS))
    table = [row for cell in cells for row in _coverage(cell, answers[cell])]
    trial = {cell: answers[cell][: TRIAL_RUNS * len(LEVELS)] for cell in cells if cell.population is TRIAL}
    few = [row for cell, some in trial.items() for row in _coverage(cell, some)]
    for name, rows in (("intervals", table), ("trial", few), ("rhc", patients)):
        if rows:
            write_table(out / f"{name}.csv", rows)
    write_page(out / "intervals.md", _page(table, few, patients, _figures(out, table, trial, patients)))


def _answers(pool: ProcessPoolExecutor, out: Path, cell: Cell, runs: int) -> list[Answer]:
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


def _read(path: Path) -> list[Answer]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [Answer(int(row["run"]), *(float(row[name]) for name in Answer._fields[1:])) for row in rows]


def _patients(pool: ProcessPoolExecutor, frame: Any, runs: int) -> list[dict[str, Any]]:
    """Table 2: mean estimate and half-width at 95 % by epsilon and method, and the ratio to the asymptotic one."""
    rows = []
    for epsilon in RHC_EPSILONS:
        wide = None
        for method in (KERNEL, FINITE, IPW):
            study = interval_runs.study_of(rhc_document(), method, frame.height, epsilon, DELTA)
            work = partial(interval_runs.shuffled_runs, study, frame)
            done = [answer for part in pool.map(work, [[run] for run in range(runs)]) for answer in part]
            some = [answer for answer in done if answer.level == LEVELS[-1]]
            width = sum(answer.upper - answer.lower for answer in some) / len(some) / 2
            wide = width if wide is None else wide
            rows.append(
                {
                    "epsilon": float(epsilon),
                    "method": method.title,
                    "runs": runs,
                    "estimate": sum(answer.estimate for answer in some) / len(some),
                    "half_width": width,
                    "share_of_asymptotic": width / wide,
                    "paper_half_width": PAPER_RHC[epsilon] if method is KERNEL else None,
                }
            )
    return rows


def _coverage(cell: Cell, answers: Sequence[Answer]) -> list[dict[str, Any]]:
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
        for summary in interval_runs.summarise(answers, cell.population.truth)
    ]


def _figures(
    out: Path, table: Sequence[dict[str, Any]], trial: dict[Cell, list[Answer]], patients: Sequence[dict[str, Any]]
) -> list[str]:
    """Draw what there are numbers for; Markdown for the page."""
    pictures = [_draw_widths(out / "interval-width-and-coverage.svg", table)]
    if trial:
        pictures.append(_draw_trial(out / "interval-trial.svg", trial))
    if patients:
        pictures.append(_draw_patients(out / "interval-rhc.svg", patients))
    return pictures


def _draw_widths(path: Path, table: Sequence[dict[str, Any]]) -> str:
    """Half-width and coverage side by side against the confidence level, a row of panels per population."""
    shown = [(p, n) for p in (DATASET_1, DATASET_2) for n in (3_000,)]
    alt = "Mean half-width, on a logarithmic scale, and coverage of intervals against the confidence level, by method."
    with figure(path, alt=alt, down=len(shown), across=2) as axes:
        for (population, units), (width, coverage) in zip(shown, axes, strict=True):
            for index, method in enumerate((KERNEL, NETWORK, FINITE, IPW)):
                some = [
                    row
                    for row in table
                    if (row["data"], row["units"], row["method"]) == (population.title, units, method.title)
                ]
                if not some:
                    continue
                levels = [row["level"] for row in some]
                series(width, levels, [row["half_width"] for row in some], method.title, index)
                errors = [2 * row["coverage_error"] for row in some]
                series(coverage, levels, [row["coverage"] for row in some], method.title, index, errors)
            coverage.plot(LEVELS, LEVELS, color="black", linewidth=0.8)
            width.set(yscale="log", ylabel="mean half-width", title=f"{population.title}, n = {units:,}")
            coverage.set(ylabel="coverage", title="black: nominal")
            for panel in (width, coverage):
                panel.set(xticks=LEVELS, xlabel="confidence")
        legend(axes)
    caption = f"Left: mean half-width. Right: coverage with two Monte-Carlo errors. Epsilon {EPSILON}, delta {DELTA}."
    return picture(path.name, alt, caption)


def _draw_trial(path: Path, trial: dict[Cell, list[Answer]]) -> str:
    """The intervals of ten runs, as figure 6 of the paper."""
    alt = "95 % intervals of ten runs on a randomised trial of 1,000 units, one panel per method, the truth at 1."
    with figure(path, alt=alt, across=len(trial), sharey=True) as axes:
        for index, ((cell, answers), panel) in enumerate(zip(trial.items(), axes[0], strict=True)):
            some = [answer for answer in answers if answer.level == LEVELS[-1]]
            middle = [(answer.lower + answer.upper) / 2 for answer in some]
            half = [(answer.upper - answer.lower) / 2 for answer in some]
            series(panel, [answer.run + 1 for answer in some], middle, cell.method.title, index, half)
            panel.axhline(cell.population.truth, color="black", linewidth=0.8)
            panel.set(xlabel="run", title=cell.method.title)
        axes[0][0].set_ylabel("effect")
    return picture(
        path.name, alt, f"Intervals at 95 % of ten runs, epsilon {EPSILON}, delta {DELTA}; black: the truth."
    )


def _draw_patients(path: Path, patients: Sequence[dict[str, Any]]) -> str:
    """Half-width against epsilon on right heart catheterisation."""
    alt = "Half-width of 95 % intervals against epsilon on right heart catheterisation: the paper's, and ours."
    with figure(path, alt=alt) as axes:
        panel = axes[0][0]
        epsilons = [float(epsilon) for epsilon in RHC_EPSILONS]
        series(panel, epsilons, list(PAPER_RHC.values()), "the paper's table 2", 0)
        for index, method in enumerate((KERNEL, FINITE, IPW), start=1):
            widths = [row["half_width"] for row in patients if row["method"] == method.title]
            series(panel, epsilons, widths, method.title, index)
        panel.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="half-width at 95 %")
        panel.set_xticks(epsilons, RHC_EPSILONS, minor=False)
        legend(axes)
    return picture(
        path.name, alt, f"Right heart catheterisation, 5,735 patients, death within 180 days; delta {DELTA}."
    )


def _page(
    table: Sequence[dict[str, Any]],
    few: Sequence[dict[str, Any]],
    patients: Sequence[dict[str, Any]],
    pictures: Sequence[str],
) -> list[str]:
    """The Markdown page."""
    formats = {"units": ",d", "level": ".2f", "coverage": ".3f", "coverage_error": ".3f", "paper_coverage": ".3f"}
    formats |= {
        "bias": ".3f",
        "bias_error": ".3f",
        "half_width": ".3f",
        "estimate": ".3f",
        "share_of_asymptotic": ".2f",
    }
    parts = [
        "# Private intervals: coverage and width",
        "Made by `causalveil replicate intervals`, after M. Schröder, J. Hartenstein and S. Feuerriegel, *PrivATE: "
        "Differentially Private Confidence Intervals for Average Treatment Effects* (2025). `asymptotic` is their "
        "method as printed, whose privacy proof holds in the limit of large n; `finite sample` is ours, proved at this "
        f"n. Epsilon {EPSILON}, delta {DELTA} unless a table says otherwise; errors are Monte-Carlo standard errors.",
        "## Table 1: coverage where the effect is known",
        "Coefficients are new in every run. Dataset 2 has one support for treatment and outcome, as the design's "
        "source has; with separate supports arm means are confounded a quarter as much. The paper prints no widths.",
        markdown_table(table, formats) if table else "",
        *pictures,
        "## Table 3: a randomised trial, ten runs of 1,000 units",
        "Ten runs as in the paper: a coverage is a multiple of 0.1 and errs by about 0.1. Table 1 has more runs.",
        markdown_table(few, formats) if few else "",
    ]
    if patients:
        parts += [
            "## Table 2: right heart catheterisation",
            "5,735 patients, eight confounders of which the paper names three; `tasks/replication_data.py` says how "
            "the file is prepared. Mean of runs that differ in folds and noise; 95 % intervals.",
            markdown_table(patients, {**formats, "epsilon": "g"}),
        ]
    return [part for part in parts if part]
