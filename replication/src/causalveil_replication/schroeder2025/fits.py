"""Tables from fits: other columns of Table 1, Table 2 at every level, Figures 4 and 5, the grouped trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from causalveil.tasks.report.figures import write_table
from causalveil_replication.figures import write_page
from causalveil_replication.kept import kept_rows
from causalveil_replication.schroeder2025.data import (
    DATASET_1,
    DATASET_2,
    TRIAL,
    Population,
    rhc,
    rhc_document,
)
from causalveil_replication.schroeder2025.grouped import grouped_difference
from causalveil_replication.schroeder2025.moments import (
    BOOTSTRAP,
    NAIVE,
    PRIVATE,
    SHARE,
    STANDARD,
    VALID,
    FitMoments,
    coverage,
    effect_noise,
    half_width,
    shuffled_moments,
    synthetic_moments,
)
from causalveil_replication.schroeder2025.networks import STEPS, StepRun, step_rows, step_runs
from causalveil_replication.schroeder2025.page_fits import draw_fits, page_fits
from causalveil_replication.schroeder2025.runs import (
    FINITE,
    KERNEL,
    LEVELS,
    NETWORK,
    Analysis,
    study_of,
    summarise,
    synthetic_runs,
)

Row = dict[str, Any]
EPSILON, DELTA = 0.5, "1e-5"
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0)
UNITS, MAIN = (1_000, 2_000, 3_000, 5_000), 3_000
FEW = 10
PATIENT_FITS = 5
PATIENT_EPSILONS = (0.1, 0.25, 0.5)
# Weight of privacy in the utility of Figure 5.
WEIGHTS = (0.25, 0.5, 0.75)
TRIAL_RUNS = 500
# Runs of the network without privacy, by its step, and of one task of a worker process.
STEP_RUNS, STEP_BATCH = 100, 10
# Fits of one task of a worker process.
BATCH = 2
VARIANCE_EPSILONS = (0.1, 0.5, 2.0)


def write_fits(out: Path, data: Path | None, fits: int, workers: int) -> None:
    """Fit, and write tables, page and figures into ``out``.

    Args:
        out: the folder; fits are kept in ``out/runs``.
        data: a folder with ``rhc.csv``; None: Table 2 is left out.
        fits: of each learner on each synthetic data set at n = 3,000; ten at other sizes, five on the patients.
        workers: processes.

    Raises:
        DataError: the patients' file is not there or is another one.
        StudyError: a file cannot be written.
    """
    frame = None if data is None else rhc(data)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        patients = [] if frame is None else _patients(pool, out / "runs", frame)
        sizes = {
            (method, units): _synthetic(pool, out / "runs", DATASET_1, method, units, FEW if units != MAIN else fits)
            for method in (KERNEL, NETWORK)
            for units in UNITS
        }
        second = {method: _synthetic(pool, out / "runs", DATASET_2, method, MAIN, fits) for method in (KERNEL, NETWORK)}
        steps = [
            row
            for population in (DATASET_1, DATASET_2)
            for step in STEPS
            for row in step_rows(population, step, _stepped(pool, out / "runs", population, step))
        ]
    first = {method: sizes[method, MAIN] for method in (KERNEL, NETWORK)}
    tables = {
        "interval-columns": [
            row
            for population, found in ((DATASET_1, first), (DATASET_2, second))
            for method, some in found.items()
            for row in column_rows(population, method, some)
        ],
        "interval-network": steps,
        "interval-variance": [
            row
            for title, found in (
                *((f"{DATASET_1.title}, {method.title}", some) for method, some in first.items()),
                *((f"{DATASET_2.title}, {method.title}", some) for method, some in second.items()),
                ("right heart catheterisation", patients),
            )
            for row in variance_rows(title, found)
        ],
        "interval-widths": width_rows(sizes, FEW),
        "interval-utility": utility_rows(first[KERNEL][:FEW]),
        "interval-grouped": grouped_rows(TRIAL_RUNS),
        "interval-rhc-levels": level_rows(patients),
    }
    for name, rows in tables.items():
        if rows:
            write_table(out / f"{name}.csv", rows)
    write_page(out / "interval-fits.md", page_fits(tables, draw_fits(out, tables)))


def column_rows(population: Population, method: Analysis, found: Sequence[FitMoments]) -> list[Row]:
    """Coverage of Table 1's columns; the naive one at the table's share of epsilon and at the paper's default."""
    rows = []
    for column, kind, share in (
        ("standard", STANDARD, SHARE),
        ("naive", NAIVE, SHARE),
        ("naive, half of epsilon", NAIVE, 0.5),
        ("private", PRIVATE, SHARE),
    ):
        for level in LEVELS:
            values = [coverage(kind, one, level, EPSILON, population.truth, share) for one in found]
            widths = [half_width(kind, one, level, EPSILON, share) for one in found]
            rows.append(
                {
                    "data": population.title,
                    "method": method.title,
                    "column": column,
                    "level": level,
                    "fits": len(found),
                    "coverage": round(float(np.mean(values)), 5),
                    # A share of fits that cover; with noise integrated out its error is smaller than a share's.
                    "error": round(float(np.std(values, ddof=1)) / len(found) ** 0.5, 5),
                    "half_width": round(float(np.mean(widths)), 5),
                }
            )
    return rows


def variance_rows(title: str, found: Sequence[FitMoments]) -> list[Row]:
    """Half-widths at 95%: the paper's; with the exact variance; and the effect's noise alone, all budget spent on it,
    below which equation 16 puts no interval, whatever its variance."""
    rows = []
    for epsilon in VARIANCE_EPSILONS if found else ():
        ways: dict[str, Callable[[FitMoments, float, float], float]] = {
            "half_width": partial(half_width, PRIVATE),
            "exact_variance": partial(half_width, VALID),
            "variance_of_zero": lambda one, level, epsilon: float(
                stats.norm.ppf((1 + level) / 2) * effect_noise(one, epsilon, share=1.0)
            ),
        }
        widths = {name: float(np.mean([way(one, 0.95, epsilon) for one in found])) for name, way in ways.items()}
        rows.append(
            {"data": title, "epsilon": epsilon, "fits": len(found)}
            | {name: float(f"{width:.4g}") for name, width in widths.items()}
            | {"narrower_at_most": round(1 - widths["variance_of_zero"] / widths["half_width"], 4)}
        )
    return rows


def width_rows(sizes: dict[tuple[Analysis, int], list[FitMoments]], few: int = FEW) -> list[Row]:
    """Figure 4: half-widths at 95% over epsilon at n = 3,000 and over n at epsilon 0.5, of the first ``few`` fits."""
    places = [(MAIN, epsilon) for epsilon in EPSILONS] + [(n, EPSILON) for n in UNITS if n != MAIN]
    rows = []
    for units, epsilon in places:
        widths: dict[str, list[float]] = {}
        for method in (KERNEL, NETWORK):
            some = sizes[method, units][:FEW]
            widths[method.title] = [half_width(PRIVATE, one, 0.95, epsilon) for one in some]
        widths["standard"] = [half_width(STANDARD, one, 0.95, epsilon) for one in sizes[KERNEL, units][:FEW]]
        study = study_of(DATASET_1.document(), FINITE, units, str(epsilon), DELTA)
        answers = [one for one in synthetic_runs(study, DATASET_1, units, range(few)) if one.level == LEVELS[-1]]
        widths[FINITE.title] = [(one.upper - one.lower) / 2 for one in answers]
        for method_title, values in widths.items():
            mean, error = float(np.mean(values)), float(np.std(values, ddof=1)) / len(values) ** 0.5
            rows.append(
                {"units": units, "epsilon": epsilon, "method": method_title, "runs": len(values)}
                | {"half_width": round(mean, 5), "error": round(error, 5)}
            )
    return rows


def utility_rows(found: Sequence[FitMoments]) -> list[Row]:
    """Figure 5: utility w (1 - epsilon/2) + (1 - w) (1 - min(1, half-width/half the outcome's range)) by weight w.

    The paper says a weighted sum of privacy and width and no more. A naive or standard interval keeps no privacy: its
    first term is 0.
    """
    rows = []
    whole = (DATASET_1.bounds[1] - DATASET_1.bounds[0]) / 2
    for weight in WEIGHTS:
        for epsilon in EPSILONS:
            for kind in (PRIVATE, BOOTSTRAP, NAIVE):
                width = float(np.mean([half_width(kind, one, 0.95, epsilon) for one in found]))
                privacy = 0.0 if kind == NAIVE else 1 - epsilon / EPSILONS[-1]
                utility = weight * privacy + (1 - weight) * (1 - min(1.0, width / whole))
                rows.append(
                    {"weight": weight, "epsilon": epsilon, "method": kind, "runs": len(found)}
                    | {"half_width": round(width, 5), "utility": round(utility, 5)}
                )
    return rows


def grouped_rows(runs: int = TRIAL_RUNS) -> list[Row]:
    """Table 3's difference of means by disjoint groups."""
    answers = [answer for run in range(runs) for answer in grouped_difference(TRIAL, 1_000, str(EPSILON), run)]
    return [
        {
            "level": one.level,
            "runs": one.runs,
            "coverage": one.coverage,
            "coverage_error": round(one.coverage_error, 5),
            "half_width": round(one.half_width, 5),
        }
        for one in summarise(answers, TRIAL.truth)
    ]


def level_rows(found: Sequence[FitMoments]) -> list[Row]:
    """Table 2: half-widths by level and epsilon, over the declared domain and over the patients at hand."""
    rows = []
    for level in LEVELS if found else ():
        for epsilon in PATIENT_EPSILONS:
            ways: dict[str, Callable[[FitMoments], float]] = {
                "private": partial(half_width, PRIVATE, level=level, epsilon=epsilon),
                "valid naive": partial(half_width, VALID, level=level, epsilon=epsilon),
                "private, gamma over the patients": partial(
                    half_width, PRIVATE, level=level, epsilon=epsilon, own=True
                ),
                "valid naive, gamma over the patients": partial(
                    half_width, VALID, level=level, epsilon=epsilon, own=True
                ),
            }
            for method, width in ways.items():
                values = [width(one) for one in found]
                rows.append(
                    {"level": level, "epsilon": epsilon, "method": method, "runs": len(found)}
                    | {"half_width": round(float(np.mean(values)), 5)}
                    | {"error": round(float(np.std(values, ddof=1)) / len(values) ** 0.5, 5)}
                    | {"estimate_without_noise": round(float(np.mean([one.tau for one in found])), 5)}
                )
    return rows


def _synthetic(
    pool: ProcessPoolExecutor, kept: Path, population: Population, method: Analysis, units: int, fits: int
) -> list[FitMoments]:
    study = study_of(population.document(), method, units, str(EPSILON), DELTA)
    work = partial(synthetic_moments, study, population, units)
    return _fitted(pool, kept / f"fits-{population.name}-{units}-{method.name}-{study.digest[:12]}", work, fits)


def _stepped(pool: ProcessPoolExecutor, kept: Path, population: Population, step: float) -> list[StepRun]:
    work = partial(step_runs, population, MAIN, step)
    name = kept / f"network-{population.name}-{MAIN}-{step:g}"
    return [StepRun(**row) for row in _rows(pool, name, work, STEP_RUNS, STEP_BATCH)]


def _patients(pool: ProcessPoolExecutor, kept: Path, frame: Any) -> list[FitMoments]:
    study = study_of(rhc_document(), KERNEL, frame.height, str(EPSILON), DELTA)
    return _fitted(pool, kept / f"fits-rhc-{study.digest[:12]}", partial(shuffled_moments, study, frame), PATIENT_FITS)


def _fitted(
    pool: ProcessPoolExecutor, name: Path, work: Callable[[range], list[FitMoments]], fits: int
) -> list[FitMoments]:
    return [FitMoments(**row) for row in _rows(pool, name, work, fits, BATCH)]


def _rows(
    pool: ProcessPoolExecutor, name: Path, work: Callable[[range], Sequence[Any]], number: int, batch: int
) -> list[Row]:
    """All runs, a batch a file; batches that are there are not run again."""
    batches = [range(first, min(first + batch, number)) for first in range(0, number, batch)]
    paths = [name.with_name(f"{name.name}-{some.start}-{some.stop}.json") for some in batches]
    waiting = {path: pool.submit(work, some) for path, some in zip(paths, batches, strict=True) if not path.exists()}

    def made(path: Path) -> list[Row]:
        return [found._asdict() for found in waiting[path].result()]

    return [row for path in paths for row in kept_rows(path, partial(made, path))]
