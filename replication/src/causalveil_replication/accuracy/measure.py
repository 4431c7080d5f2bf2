"""One job of the accuracy study: one method on one population at one size, over all budgets.

Each run is the study's own stages on rows in memory, with seeded noise and no ledger. A second confidence level reads
the same releases again: only the last stage, which says the interval, is run anew.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from causalveil.flows.engine.engine import DirectEngine, Task
from causalveil.flows.engine.guard import R
from causalveil.flows.sequence.estimators import estimator_of
from causalveil.flows.sequence.run import Run
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.plan import StandIn
from causalveil.schemas.studies import parse_study
from causalveil.schemas.study import EffectStudy
from causalveil.tasks.enclave.enclave import MemoryEnclave
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.enclave.sizes import sizes_of
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.privacy.rehearsal import RehearsalBudget
from causalveil_replication.accuracy.cells import NOISE_SEED, people_read, rows_of, seen_people
from causalveil_replication.accuracy.later import LATER
from causalveil_replication.accuracy.methods import CONFIDENCES, EPSILONS, METHODS, Method
from causalveil_replication.accuracy.not_private import PLAIN
from causalveil_replication.accuracy.populations import POPULATIONS, KnownPopulation
from causalveil_replication.accuracy.public_data import public_tables

Row = dict[str, Any]
# What an estimator without words of its own says of its adjustment.
SILENT = "says nothing"


@dataclass(frozen=True)
class Job:
    """A piece of work whose rows are kept in one file.

    Attributes:
        population: its name.
        units: n.
        method: its name.
        runs: how many.
        seed: added to all noise, and to the numbers of runs from which people are drawn.
        folders: where public tables lie.
    """

    population: str
    units: int
    method: str
    runs: int
    seed: int
    folders: tuple[Path, ...]

    @property
    def name(self) -> str:
        """Of its file, and what ``--only`` is held against."""
        return f"{self.population}-{self.units}-{self.method}"


class Recorded(DirectEngine):
    """Runs stages and keeps what each returned; ``again`` hands out what was kept for all but the last stage.

    Stages are the same whatever the confidence, and the last alone reads it.
    """

    def __init__(self) -> None:
        """Nothing is kept yet."""
        super().__init__()
        self._kept: list[Any] = []
        self._place: int | None = None

    def again(self) -> Recorded:
        """From the first stage on, with what was kept."""
        self._place = 0
        return self

    def __call__(self, task: Task[R]) -> R:
        """Run ``task``, or hand out what it returned before."""
        if self._place is None:
            self._kept.append(super().__call__(task))
            found: R = self._kept[-1]
            return found
        self._place += 1
        if self._place < len(self._kept):
            known: R = self._kept[self._place - 1]
            return known
        return super().__call__(task)


def at_every_confidence(study: EffectStudy, rows: Rows, seed: int) -> list[EffectFindings]:
    """One run, its interval said at each of ``CONFIDENCES``.

    Raises:
        CausalveilError: the estimator refuses, from public facts.
    """
    enclave, engine, found = MemoryEnclave.of(rows), Recorded(), []
    for place, confidence in enumerate(CONFIDENCES):
        asked = study.model_copy(update={"confidence": confidence})
        run = Run(asked, sizes_of(asked, enclave.units), enclave, RehearsalBudget(seed), None, rehearsal_seed=seed)
        one = estimator_of(asked).estimate(run, engine if place == 0 else engine.again())
        if not isinstance(one, EffectFindings):
            raise TypeError(f"'{study.estimator.name}' finds no effect")
        found.append(one)
    return found


@lru_cache(maxsize=4)
def tables(folders: tuple[Path, ...]) -> dict[str, KnownPopulation]:
    """Every population by name, public tables among them."""
    return {**POPULATIONS, **LATER, **public_tables(folders)[0]}


@lru_cache(maxsize=64)
def stand_in_of(population: str, folders: tuple[Path, ...]) -> StandIn:
    """What a planner would have to guess of a population."""
    return tables(folders)[population].stand_in()


def measure(job: Job) -> list[Row]:
    """The rows of a job: one an epsilon, or one if its method is not private."""
    return _plain(job) if job.method in PLAIN else _private(job)


def sees_people(job: Job) -> bool:
    """Whether `plan` sees covariates and treatments of the people of a run: of each run others."""
    method = METHODS[job.method]
    return bool(method.level) and people_read(study_of(tables(job.folders)[job.population], method, EPSILONS[0])) > 0


def planned(job: Job) -> list[Row]:
    """What `plan` expects of each row of a job if the reader's assumptions are right, and how often it warns.

    Where it sees public columns, it sees those of each run, and its mean stands beside that of the runs.
    """
    method, population = METHODS[job.method], tables(job.folders)[job.population]
    told: dict[str, list[Row]] = {epsilon: [] for epsilon in EPSILONS if method.level}
    runs = range(job.seed, job.seed + job.runs)
    first = study_of(population, method, EPSILONS[0]) if method.level else None
    for people in () if first is None else seen_people(first, population, job.units, runs):
        for epsilon, rows in told.items():
            row: Row = {"planned": math.nan, "low": math.nan, "high": math.nan, "warned": 1}
            with suppress(CausalveilError):
                study, stand_in = study_of(population, method, epsilon), stand_in_of(job.population, job.folders)
                said = estimator_of(study).foresee(study, sizes_of(study, job.units), stand_in, None, people)
                row |= {"planned": said["half_width"], "warned": len(said["warnings"])}
                row |= dict(zip(("low", "high"), said.get("half_width_range", ()), strict=False))
            rows.append(row)
    return [
        {"epsilon": float(epsilon), "warned": max(row["warned"] for row in rows)}
        | {name: _number(float(np.mean([row[name] for row in rows]))) for name in ("planned", "low", "high")}
        for epsilon, rows in told.items()
    ]


def study_of(population: KnownPopulation, method: Method, epsilon: str) -> EffectStudy:
    """What a run asks.

    Raises:
        TypeError: it asks for no effect.
    """
    study = parse_study(population.study(method.estimator(population), epsilon, method.delta, 0.95, method.level))
    if not isinstance(study, EffectStudy):
        raise TypeError("accuracy is measured of effects")
    return study


def _private(job: Job) -> list[Row]:
    population, method = tables(job.folders)[job.population], METHODS[job.method]
    studies = {epsilon: study_of(population, method, epsilon) for epsilon in EPSILONS}
    found: dict[str, list[list[EffectFindings]]] = {epsilon: [] for epsilon in EPSILONS}
    refused: dict[str, str] = {}
    truths = []
    for run in range(job.seed, job.seed + job.runs):
        rows = rows_of(next(iter(studies.values())), population, job.units, run)
        truths.append(population.truth_in(run))
        for epsilon, study in studies.items():
            if epsilon in refused:
                continue
            try:
                found[epsilon].append(at_every_confidence(study, rows, NOISE_SEED + run))
            except CausalveilError as problem:
                refused[epsilon] = str(problem)
    return [_row(job, epsilon, found[epsilon], truths, refused.get(epsilon, "")) for epsilon in EPSILONS]


def _row(job: Job, epsilon: str, found: list[list[EffectFindings]], truths: list[float], refused: str) -> Row:
    if refused:
        return _shared(job, [], [], []) | {"epsilon": float(epsilon), "says": f"refused: {refused}", "share": 1.0}
    truth = truths[: len(found)]
    intervals = [[(one.interval.lower, one.interval.upper) for one in some] for some in found]
    words = Counter(str(some[-1].details.get("adjustment", SILENT)) for some in found)
    says, times = words.most_common(1)[0]
    row = _shared(job, [some[-1].estimate for some in found], intervals, truth)
    return row | {"epsilon": float(epsilon), "says": says, "share": times / len(found)}


def _plain(job: Job) -> list[Row]:
    population = tables(job.folders)[job.population]
    estimates, intervals, truths = [], [], []
    for run in range(job.seed, job.seed + job.runs):
        said = PLAIN[job.method](population.draw(job.units, run), population.covariates, run)
        half = [NormalDist().inv_cdf((1 + level) / 2) * said.standard_error for level in CONFIDENCES]
        estimates.append(said.estimate)
        intervals.append([(said.estimate - one, said.estimate + one) for one in half])
        truths.append(population.truth_in(run))
    return [_shared(job, estimates, intervals, truths)]


def _shared(
    job: Job, estimates: Sequence[float], intervals: Sequence[Sequence[tuple[float, float]]], truths: Sequence[float]
) -> Row:
    """The columns of every row; NaN where nothing was answered. The last interval is that of the highest level."""
    row: Row = {"population": job.population, "units": job.units, "method": job.method, "epsilon": math.nan}
    row |= dict.fromkeys(
        (
            "runs",
            "error",
            "error_mc",
            "median_error",
            "bias",
            "coverage_80",
            "coverage_90",
            "coverage_95",
            "half_width",
        ),
        math.nan,
    ) | {"says": "", "share": math.nan}
    if not estimates:
        return row | {"runs": 0}
    errors = np.array(estimates) - np.array(truths)
    squares = np.square(errors)
    root = math.sqrt(float(squares.mean()))
    spread = float(squares.std(ddof=1)) / math.sqrt(len(errors)) if len(errors) > 1 else math.nan
    row |= {
        "runs": len(errors),
        "error": _number(root),
        "error_mc": _number(spread / (2 * root) if root > 0 else 0.0),
        "median_error": _number(float(np.median(np.abs(errors)))),
        "bias": _number(float(errors.mean())),
        "half_width": _number(float(np.mean([(some[-1][1] - some[-1][0]) / 2 for some in intervals]))),
    }
    for place, level in enumerate(CONFIDENCES):
        hits = [some[place][0] <= truth <= some[place][1] for some, truth in zip(intervals, truths, strict=True)]
        row[f"coverage_{level * 100:.0f}"] = round(sum(hits) / len(hits), 4)
    return row


def _number(value: float) -> float:
    """To five digits, which are more than runs can tell apart."""
    return float(f"{value:.5g}")
