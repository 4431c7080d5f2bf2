"""The accuracy study: which jobs there are, and their rows, computed once and kept."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatch
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.machine.progress import in_steps
from causalveil.tasks.report.plots import write_table
from causalveil_replication.accuracy import drawn, page
from causalveil_replication.accuracy.later import LATER
from causalveil_replication.accuracy.measure import Job, Row, measure, planned, sees_people
from causalveil_replication.accuracy.methods import METHODS, UNITS
from causalveil_replication.accuracy.populations import POPULATIONS
from causalveil_replication.accuracy.public_data import TITLES, PublicTable
from causalveil_replication.figures import write_page

# Generators of the page: two near twins of others are left to the benchmark.
GENERATORS = tuple(name for name in POPULATIONS if name not in ("rare5", "curved4"))
# Words in files stay words; all else is a number.
TEXTS = ("population", "method", "says")


def jobs(
    tables: dict[str, PublicTable], folders: tuple[Path, ...], runs: int, seed: int, only: Sequence[str] = ()
) -> list[Job]:
    """Every job, small tables first, the methods that readers meet first before others.

    Args:
        tables: public tables that were found.
        folders: where they lie.
        runs: of the quickest method on the smallest tables; others get a share.
        seed: of people and noise.
        only: patterns as of a shell; a job whose name fits none is left out.
    """
    found = []
    names = (*GENERATORS, *LATER)
    for size in UNITS:
        for method in METHODS.values():
            found += [Job(name, size, method.name, method.runs(runs, size), seed, folders) for name in names]
    for method in METHODS.values():
        for name, table in tables.items():
            size = table.sizes[0]
            found.append(Job(name, size, method.name, method.runs(runs, size), seed, folders))
    return [job for job in found if not only or any(fnmatch(job.name, pattern) for pattern in only)]


def kept(folder: Path, job: Job, what: Callable[[Job], list[Row]]) -> Path:
    """Where the rows of a job are kept; other runs and seeds have other files.

    A plan depends on neither unless it sees the runs' people.
    """
    if what is planned:
        if sees_people(job):
            return folder / f"plan-{job.name}-{job.runs}-{job.seed}.csv"
        return folder / f"plan-{job.name}.csv"
    return folder / f"{job.name}-{job.runs}-{job.seed}.csv"


def compute(folder: Path, work: Iterable[Job], workers: int, what: Callable[[Job], list[Row]] = measure) -> None:
    """Do the jobs that have no file in ``folder`` yet; each writes its own when it is done.

    Raises:
        StudyError: a file cannot be written.
    """
    missing = [job for job in work if not kept(folder, job, what).exists()]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for _ in in_steps(pool.map(partial(_done, folder, what), missing), len(missing)):
            pass


def _done(folder: Path, what: Callable[[Job], list[Row]], job: Job) -> None:
    """On a worker: do a job and write its file, whatever became of the jobs before it."""
    with one_thread():
        write_table(kept(folder, job, what), what(job))


def write_accuracy(out: Path, work: Sequence[Job], absent: Sequence[str]) -> int:
    """Table (CSV), page (Markdown) and figures (SVG) of the cells that are kept in ``out/runs``.

    Returns:
        How many jobs have no cells there.

    Raises:
        StudyError: a file cannot be written.
    """
    rows, missing = rows_kept(out / "runs", work)
    write_table(out / "accuracy.csv", rows)
    # What was written is what is shown: to the same digits.
    shown = with_plain(read_rows(out / "accuracy.csv"))
    titles = every_title()
    write_page(out / "accuracy.md", page.parts(shown, missing, absent, titles, drawn.draw(out, shown, titles)))
    return len(missing)


def every_title() -> dict[str, str]:
    """Of each population, by its name."""
    return {name: one.title for name, one in {**POPULATIONS, **LATER}.items()} | TITLES


def with_plain(rows: list[Row]) -> list[Row]:
    """Each row beside the error of least squares on the same population and size."""
    plain = {(row["population"], row["units"]): row["error"] for row in rows if row["method"] == "least-squares"}
    return [row | {"plain": plain.get((row["population"], row["units"]), math.nan)} for row in rows]


def rows_kept(folder: Path, work: Iterable[Job]) -> tuple[list[Row], list[Job]]:
    """The rows of all jobs that were done, what `plan` expected beside them, and the jobs that were not."""
    rows: list[Row] = []
    missing = []
    for job in work:
        path = kept(folder, job, measure)
        if not path.exists():
            missing.append(job)
            continue
        plans = {row["epsilon"]: row for row in read_rows(kept(folder, job, planned))}
        for row in read_rows(path):
            plan = plans.get(row["epsilon"], {})
            whole = {name: int(row[name]) for name in ("units", "runs")}
            expected = {
                "planned": plan.get("planned", math.nan),
                "planned_low": plan.get("low", math.nan),
                "planned_high": plan.get("high", math.nan),
                "warned": int(plan.get("warned", 0)),
            }
            rows.append(row | whole | expected)
    return rows, missing


def read_rows(path: Path) -> list[Row]:
    """A table as it was written; empty if there is none."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return [
            {key: value if key in TEXTS else float(value or "nan") for key, value in row.items()}
            for row in csv.DictReader(stream)
        ]
