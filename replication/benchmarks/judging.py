"""Judge an adjusting estimator beside another and beside least squares, on cells that were frozen before it was built.

Run: python -m replication.benchmarks.judging run ESTIMATORS FOLDER PART [RUNS [DATA [MINUTES]]]
     python -m replication.benchmarks.judging table FOLDER OUT [NEW [OLD]]
Needs the replications: `uv run --package causalveil-replication` comes before it.

ESTIMATORS: some of ``ESTIMATORS`` or ``module:function``, with commas. PART is one of ``RUNS``: tables nobody chose,
populations that a reader knows, published tables from the folder DATA, and checks. Every answer is a line of
FOLDER/ESTIMATOR.jsonl; a second call goes on where the first one ended, after MINUTES at the latest. Everybody sees the
same people and seeds.
"""

from __future__ import annotations

import csv
import importlib
import json
import math
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import norm, skew

from causalveil.flows.run.estimators import estimator_of
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.plan import StandIn
from causalveil.schemas.studies import parse_study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.data.normalise import columns, encode, scaled_outcome
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.start.expected import facts_of
from causalveil_replication.accuracy.measure import at_every_confidence
from causalveil_replication.accuracy.methods import CONFIDENCES
from causalveil_replication.accuracy.populations import STAND_IN_RUN, KnownPopulation
from replication.benchmarks import judged_populations as judged
from replication.benchmarks.judged_populations import AGAIN
from replication.benchmarks.judging_table import tables, verdict
from replication.benchmarks.random_tables import table

FIRST, LAST = 200, 400
RUNS = {"tables": 5, "written": 40, "published": 20, "checks": 10, "again": 20}
SETTINGS = ((1_000, "1"), (5_000, "1"), (30_000, "1"), (30_000, ".5"))
PUBLISHED_EPSILONS = ("1", "4")
# More people at one epsilon, more epsilon for as many people; a column that says nothing.
CHECKED, SIZES, EPSILONS = (
    ("panel", "step65", "varying", "flags30"),
    (1_000, 3_000, 10_000, 30_000),
    (".3", "1", "3", "10"),
)
CONSTANT = {"number": ({"lower": 0, "upper": 10}, 5.0), "flag": ({"levels": [0, 1]}, 0.0)}
# Facts of a population are read off so many people.
LOOKED_AT, FEW, SKEWED, CORRELATED, MANY, PLENTY = 20_000, 0.12, 1.5, 0.6, 12, 10_000
FEWEST = 10
HEAVY = ("cost", "zeros", "t4")


@dataclass(frozen=True)
class Case:
    """What is asked of an estimator: a population, n and a budget, and in which cell the answer counts."""

    name: str
    part: str
    cell: str
    kind: str
    units: int
    epsilon: str
    delta: str
    make: Callable[[], KnownPopulation]


@dataclass(frozen=True)
class Answer:
    """An estimate, its interval at each of ``CONFIDENCES``, and what the estimator says of its adjustment."""

    estimate: float
    intervals: tuple[tuple[float, float], ...]
    words: str = ""


@dataclass(frozen=True)
class Asked:
    """One run: the study, its normalised rows, the people as drawn, facts for a plan, the truth, a seed of noise."""

    study: EffectStudy
    rows: Rows
    frame: pl.DataFrame
    facts: StandIn
    truth: float
    seed: int


def today(one: Asked) -> Answer:
    """Return what the product's `regression` says."""
    found = at_every_confidence(one.study, one.rows, one.seed)
    intervals = tuple((each.interval.lower, each.interval.upper) for each in found)
    return Answer(
        found[-1].estimate, intervals, "" if found[-1].confounding is None else found[-1].confounding.sentence
    )


def least_squares(one: Asked) -> Answer:
    """Return what least squares says without privacy, by arm where the smaller arm has ten people a column.

    Elsewhere it is treatment's coefficient beside all covariates. Errors are White's.
    """
    covariates = {name: kind.model_dump() for name, kind in one.study.covariates.items()}
    t, y = (one.frame[name].to_numpy().astype(np.float64) for name in ("t", "y"))
    x = np.column_stack([np.ones(len(t)), judged.design(one.frame, covariates)])
    if min(t.sum(), len(t) - t.sum()) >= FEWEST * x.shape[1]:
        mean, per_person, slopes = x.mean(axis=0), np.zeros(len(t)), []
        for arm, sign in ((1, 1), (0, -1)):
            some = t == arm
            inverse = np.linalg.pinv(x[some].T @ x[some])
            slopes.append(inverse @ (x[some].T @ y[some]))
            per_person[some] += sign * len(t) * (y[some] - x[some] @ slopes[-1]) * (x[some] @ (inverse @ mean))
        differ = x @ (slopes[0] - slopes[1])
        estimate, error = float(differ.mean()), float(np.std(per_person + differ)) / math.sqrt(len(t))
    else:
        matrix = np.column_stack([t, x])
        inverse = np.linalg.pinv(matrix.T @ matrix)
        pooled = inverse @ (matrix.T @ y)
        meat = matrix * (y - matrix @ pooled)[:, None]
        estimate, error = float(pooled[0]), math.sqrt((inverse @ (meat.T @ meat) @ inverse)[0, 0])
    halves = [float(norm.ppf(0.5 + level / 2)) * error for level in CONFIDENCES]
    return Answer(estimate, tuple((estimate - half, estimate + half) for half in halves))


def adjusted(one: Asked) -> Answer:
    """Return what the new adjusting estimator says, its releases drawn in memory."""
    from replication.benchmarks.adjust_in_memory import adjust

    declared: dict[str, dict[str, Any]] = {}
    for name, kind in one.study.covariates.items():
        known = {key: value for key, value in kind.model_dump(mode="json").items() if value is not None}
        declared[name] = {key: value for key, value in known.items() if (key, value) != ("nulls", "refuse")}
    x = one.frame.select(pl.col(name).cast(pl.Float64).fill_null(math.nan) for name in declared).to_numpy()
    t, y = (one.frame[name].to_numpy().astype(np.float64) for name in ("t", "y"))
    privacy, random = one.study.privacy, np.random.default_rng(one.seed)
    span, trial = (one.study.outcome.lower, one.study.outcome.upper), one.study.estimator.trial
    found = adjust(x, declared, t, y, span, float(privacy.epsilon), float(privacy.delta), random, trial=trial)
    return Answer(float(found.estimate), tuple((float(low), float(high)) for low, high in found.intervals))


ESTIMATORS: Mapping[str, Callable[[Asked], Answer]] = {
    "today": today,
    "adjusted": adjusted,
    "least-squares": least_squares,
}


def estimator(name: str) -> Callable[[Asked], Answer]:
    """Return one of ``ESTIMATORS``, or a function of a module."""
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    module, function = name.split(":")
    found: Callable[[Asked], Answer] = getattr(importlib.import_module(module), function)
    return found


def cases(part: str, data: Path) -> Iterator[Case]:
    """Give every case of a part, always in the same order."""
    if part == "tables":
        for number in range(FIRST, LAST):
            yield of_table(number)
    if part == "written":
        for units, epsilon in SETTINGS:
            yield from (_of_written(name, units, epsilon, part) for name in judged.WRITTEN)
    if part == "again":
        for name, one in AGAIN.items():
            make = lru_cache(lambda name=name, one=one: judged.known(name, one))
            for units, epsilon in SETTINGS[:3]:
                case = f"{name}-{units}-{epsilon}"
                yield Case(case, part, case, one.kind, units, epsilon, "1e-6", make)
    if part == "published":
        for name, one in judged.PUBLISHED.items():
            if (found := _published(name, data)) is not None:
                for epsilon in PUBLISHED_EPSILONS:
                    case, units = f"{name}-{epsilon}", found.sizes[0]
                    yield Case(case, part, case, one.kind, units, epsilon, "1e-6", lambda name=name: _known(name, data))
    if part == "checks":
        for name in CHECKED:
            sizes = [_of_written(name, units, "1", part) for units in SIZES]
            yield from sizes + [_of_written(name, 5_000, epsilon, part) for epsilon in EPSILONS]
            for more in CONSTANT:
                one = _of_written(name, 5_000, "1", part)
                made = lambda name=name, more=more: with_constant(judged.population(name), more)  # noqa: E731
                yield replace(one, name=f"{one.name}-{more}", make=made)


def _known(name: str, data: Path) -> KnownPopulation:
    found = _published(name, data)
    if found is None:
        raise FileNotFoundError(judged.PUBLISHED[name].file)
    return found


_published = lru_cache(judged.published)


def _of_written(name: str, units: int, epsilon: str, part: str) -> Case:
    cell = f"{name}-{units}-{epsilon}"
    return Case(cell, part, cell, judged.WRITTEN[name].kind, units, epsilon, "1e-6", lambda: judged.population(name))


def of_table(number: int) -> Case:
    """Return the case of a random table."""
    one = _table(number)
    kind = _kind(one.population, one.follows, one.outcome)
    plenty = "10,000 and more" if one.units * float(one.epsilon) >= PLENTY else "below 10,000"
    made = lambda: one.population  # noqa: E731
    return Case(f"table-{number}", "tables", f"{kind}, n eps {plenty}", kind, one.units, one.epsilon, one.delta, made)


_table = lru_cache(maxsize=2)(table)


def _kind(population: KnownPopulation, follows: str, outcome: str) -> str:
    """Return the first of the kinds that fits."""
    x, t, _ = population.draws(np.random.default_rng(judged.SEED), LOOKED_AT)
    numbers = [place for place, kind in enumerate(population.covariates.values()) if "lower" in kind]
    plain = [place for place in numbers if "scale" not in list(population.covariates.values())[place]]
    alike = np.abs(np.corrcoef(x[:, numbers].T) - np.eye(len(numbers))) if len(numbers) > 1 else np.zeros(1)
    width = sum(len(kind.get("levels", (0, 1))) - 1 for kind in population.covariates.values())
    tests = {
        "trial": population.trial,
        "curves": follows != "lines",
        "few treated": t.mean() < FEW,
        "binary": outcome == "binary",
        "heavy tails": outcome in HEAVY,
        "collinear": alike.max() > CORRELATED,
        "many flags": width >= MANY,
        "skewed": any(abs(skew(x[:, place])) > SKEWED for place in plain),
    }
    return next((kind for kind, fits in tests.items() if fits), "lines")


def with_constant(population: KnownPopulation, more: str) -> KnownPopulation:
    """Return the same people with one more column that is the same for all of them."""
    declared, value = CONSTANT[more]

    def draws(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        x, t, y = population.draws(random, n)
        return np.column_stack([x, np.full(n, value)]), t, y

    return replace(population, covariates={**population.covariates, "same": declared}, draws=draws)


@dataclass(frozen=True)
class Line:
    """One run of an estimator on a case, as it is kept; ``people``: a checksum, the same for every estimator."""

    case: str
    run: int
    part: str
    cell: str
    kind: str
    units: int
    epsilon: str
    delta: str
    columns: int
    truth: float
    scale: float
    estimate: float
    intervals: tuple[tuple[float, float], ...]
    words: str
    seconds: float
    people: int
    planned: float


@lru_cache(maxsize=256)
def _facts(case: Case) -> StandIn:
    """Return what a study expects of these people whose draft `init` writes, from rows of many of them."""
    population = case.make()
    frame = population.draw(LOOKED_AT, STAND_IN_RUN)
    t, y = (frame[name].to_numpy().astype(np.float64) for name in ("t", "y"))
    share, numbers = float(t.mean()), [(name, one) for name, one in population.covariates.items() if "lower" in one]
    within = share * float(np.var(y[t == 1])) + (1 - share) * float(np.var(y[t == 0]))
    known = facts_of(judged.design(frame, population.covariates), np.column_stack([t == 0, t == 1]).astype(float), y)
    spreads = [2 * float(np.nanstd(frame[name].to_numpy())) / (one["upper"] - one["lower"]) for name, one in numbers]
    if population.trial:
        known.pop("distance")
    spread = {"spread": float(np.median(spreads))} if spreads else {}
    return StandIn.told(treated=share, mean=float(y.mean()), deviation=math.sqrt(within), **known, **spread)


def asked(case: Case, number: int) -> Asked:
    """Return the people of a run, with a seed of noise that no other run has."""
    population = case.make()
    setting = {"name": "regression", "trial": population.trial}
    study = parse_study(population.study(setting, case.epsilon, case.delta))
    if not isinstance(study, EffectStudy):
        raise TypeError("effects are judged")
    seed = zlib.crc32(f"{case.name} {number}".encode())
    frame = population.draw(case.units, number)
    rows = Rows(
        encode(study, columns(study, frame), np.arange(len(frame))),
        frame["t"].to_numpy(),
        scaled_outcome(study, frame),
    )
    return Asked(study, rows, frame, _facts(case), population.truth_in(number), seed)


def planned(one: Asked) -> float:
    """Return the half-width that the product's `plan` expects of a draft by `init`."""
    sizes = sizes_of(one.study, len(one.frame))
    return float(estimator_of(one.study).expected(one.study, sizes, one.facts)["half_width"])


def line(case: Case, number: int, one: Asked, name: str) -> Line:
    """Run an estimator once; a refusal is an answer without numbers."""
    begun = time.process_time()
    try:
        found = estimator(name)(one)
    except CausalveilError as problem:
        found = Answer(math.nan, ((math.nan, math.nan),) * len(CONFIDENCES), f"refused: {problem}")
    seconds = time.process_time() - begun
    kept = {key: value for key, value in asdict(case).items() if key not in ("name", "make")}
    return Line(
        case=case.name, run=number, **kept, columns=one.rows.x.shape[1], truth=one.truth,
        scale=float(one.facts.deviation or math.nan), estimate=found.estimate, intervals=found.intervals,
        words=found.words, seconds=round(seconds, 3), people=zlib.crc32(one.frame["y"].to_numpy().tobytes()),
        planned=planned(one) if name == "today" and number == 0 else math.nan,
    )  # fmt: skip


def work(part: str, runs: int, data: Path) -> Iterator[tuple[Case, int]]:
    """Give runs of tables one table after another, since a table is dear to make; of others one run of each in turn."""
    if part == "tables":
        yield from ((case, run) for case in cases(part, data) for run in range(runs))
    else:
        every = list(cases(part, data))
        yield from ((case, run) for run in range(runs) for case in every)


def run(names: str, folder: str, part: str, runs: str = "0", data: str = ".", minutes: str = "9") -> bool:
    """Append what is missing of a part, and return whether nothing is missing any more."""
    every = work(part, int(runs) or RUNS[part], Path(data))
    return append(every, names.split(","), folder, float(minutes))


def run_cases(every: list[Case], names: Sequence[str], folder: str, runs: int, minutes: float) -> bool:
    """Append what is missing of some cases, one run of each in turn."""
    return append(((case, number) for number in range(runs) for case in every), names, folder, minutes)


def append(every: Iterable[tuple[Case, int]], names: Sequence[str], folder: str, minutes: float) -> bool:
    """Append what is missing, and return whether nothing is missing any more."""
    end = time.monotonic() + 60 * minutes
    paths = {name: kept_in(folder, name) for name in names}
    done = {name: {(one["case"], one["run"], one["part"]) for one in lines(path)} for name, path in paths.items()}
    with one_thread():
        for case, number in every:
            missing = [name for name in paths if (case.name, number, case.part) not in done[name]]
            if missing and time.monotonic() > end:
                return False
            people = asked(case, number) if missing else None
            for name in missing:
                with paths[name].open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(asdict(line(case, number, people, name))) + "\n")
    return True


def kept_in(folder: str, name: str) -> Path:
    """Return where the answers of an estimator are kept."""
    return Path(folder) / f"{name.replace(':', '-')}.jsonl"


def lines(path: Path) -> list[dict[str, Any]]:
    """Return what is kept; none if there is no file."""
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def show(folder: str, out: str, new: str = "adjusted", old: str = "today") -> None:
    """Write tables of a new estimator beside an old one into a folder, as CSV, and print the verdict."""
    found = [lines(kept_in(folder, name)) for name in (new, old, "least-squares")]
    for name, rows in tables(*found).items():
        with (Path(out) / f"judging-{name}.csv").open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows(rows)
    sys.stdout.write(f"{verdict(*found)}\n")


if __name__ == "__main__":
    if sys.argv[1] == "run":
        sys.exit(0 if run(*sys.argv[2:]) else 75)
    show(*sys.argv[2:])
