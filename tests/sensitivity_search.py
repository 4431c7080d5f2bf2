"""Search of neighbouring tables that move a release by more than its declared sensitivity.

A case is a study and its public size. Its own flow is run once on rows in memory, with a budget that notes what every
mechanism was handed and answers by itself; from then on every release before the one under attack says the same, as it
may by chance on any table. So stages, encoding, clipping and rounding are those of a run, and a release that an
estimator makes is attacked whether or not anybody thought of it. Tables differ in one row. Both rows are climbed from,
at random and from the corners of what a row may hold, and the best pair goes through the whole flow again.
"""

from __future__ import annotations

import itertools
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from causalveil.flows.engine.engine import DirectEngine, Task
from causalveil.flows.estimators.stage import Run
from causalveil.flows.run.estimators import estimator_of
from causalveil.schemas.columns import ZERO_ONE, CategoricalCovariate, Covariate, Missing
from causalveil.schemas.estimators.direction import DirectionStudy
from causalveil.schemas.estimators.survival import SurvivalStudy, TimeToEvent
from causalveil.schemas.plan import Partition, Sizes
from causalveil.schemas.privacy import Charge, Half, Level, Norm
from causalveil.schemas.study import MissingOutcome, MissingTreatment, Study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.cells import normalise_cells
from causalveil.tasks.data.enclave import Enclave, MemoryEnclave, ranks
from causalveil.tasks.data.normalise import normalise_segment
from causalveil.tasks.data.partitions import LoadedSegment
from causalveil.tasks.data.split import ascending, keyed_hash, sizes_of, training_size
from causalveil.tasks.estimate.models.lattice_sums import BITS
from causalveil.tasks.estimate.papers.direction import stages
from causalveil.tasks.estimate.times.releases import normalise_times
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import distributing_by
from causalveil.tasks.privacy.mechanisms import ProposeTestRelease, StableRelease
from causalveil.tasks.privacy.noise import NoiseSource, SeededNoise

Arrays = dict[str, NDArray[Any]]
TESTED = (ProposeTestRelease.NAME, StableRelease.NAME)
KEY = b"sixteen bytes..."
# Rows that are worth the trouble of evaluating them together.
FEWEST = 20
# Rows that are tried in each slot before the heaviest are chosen.
LOOK = 8
# More than any ratio: something moved that must not move at all.
BROKEN = 1e9


# The lines of tasks that releases were made from.
SITES: set[tuple[str, int]] = set()


def lines_above() -> Iterator[tuple[str, int]]:
    """The lines of tasks that are at work: file and number."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if "/tasks/" in frame.f_code.co_filename:
            yield frame.f_code.co_filename.rpartition("/tasks/")[2], frame.f_lineno
        frame = frame.f_back


@dataclass(frozen=True)
class Case:
    """A study on `rows` rows, each of them `copies` times.

    `loud`: noise on what earlier releases say, in units of what they declare. `narrow`: the part of each declared range
    that numbers of most rows are in, as release 1 would say: rows at the ends of a range are then far out. `salt`: of
    everything that is random. `skewed`: whether most rows lie near the lower end of a range, with a long tail.
    """

    name: str
    study: Study
    rows: int = 12
    copies: int = 1
    loud: float = 1.0
    narrow: float = 0.1
    salt: int = 0
    skewed: bool = False

    @property
    def units(self) -> int:
        return self.rows * self.copies

    @property
    def sizes(self) -> Sizes:
        return sizes_of(self.study, self.units)


@dataclass(frozen=True)
class Effort:
    """How many rows are tried at a time and how often better ones are looked for.

    Where all are evaluated at once `many` in `rounds`; where each is a run of a stage `few` in `climbs`, of so many
    `slots` in so many `tables`. At label level every slot is looked at, and so many of the `heaviest` climbed from, or
    all of them.
    """

    many: int = 160
    rounds: int = 2
    few: int = 10
    climbs: int = 2
    tables: int = 2
    slots: int = 3
    heaviest: int | None = None


@dataclass(frozen=True)
class Seen:
    """What a mechanism was handed: the charge, the exact arrays, and what it would say."""

    charge: Charge
    values: tuple[NDArray[Any], ...]
    scales: tuple[float, ...]
    out: NDArray[Any]

    @property
    def vector(self) -> FloatArray:
        """All of it in one array; of a tested release its value before the distances."""
        if self.charge.mechanism == StableRelease.NAME:
            return np.concatenate([self.out[:-1], *self.values])
        return np.concatenate([np.ravel(part).astype(np.float64) for part in self.values])

    @property
    def tests(self) -> int:
        return len(self.values[-1]) if self.charge.mechanism in TESTED else 0


class Listener:
    """A source of noise that adds none, remembers what it should add it to, and passes every test."""

    name = "seeded"

    def __init__(self) -> None:
        self.values: list[NDArray[Any]] = []
        self.scales: list[float] = []

    def _hear(self, value: NDArray[Any], scale: float) -> NDArray[Any]:
        self.values.append(np.array(value))
        self.scales.append(scale)
        return np.array(value)

    def gaussian(self, value: FloatArray, scale: float) -> FloatArray:
        return self._hear(value, scale)

    l2_laplace = randomised_response = gaussian

    def laplace(self, value: FloatArray, scale: float) -> FloatArray:
        return self._hear(value, scale) + 1e12

    def lattice_laplace(self, value: FloatArray, scale: float, granularity: float) -> FloatArray:
        del granularity
        return self._hear(value, scale)


class Taken(BaseException):
    """The release under attack was handed its value; what follows is of no interest."""


class Observer:
    """A budget that notes exact values and answers by itself: as it did before, or as the case's noise has it."""

    def __init__(self, case: Case, frozen: Mapping[str, NDArray[Any]] | None = None, stop: str = "") -> None:
        self.frozen = dict(frozen or {})
        self.seen: dict[str, Seen] = {}
        self._stop = stop
        self._noise, self._loud = SeededNoise(case.salt), case.loud
        self._random = np.random.default_rng(case.salt)

    def _note(self, charge: Charge, draw: Callable[[NoiseSource], NDArray[Any]]) -> Seen:
        listener = Listener()
        out = draw(listener)  # type: ignore[arg-type]
        assert charge.name not in self.seen, "drawn twice"
        SITES.update(lines_above())
        seen = self.seen[charge.name] = Seen(charge, tuple(listener.values), tuple(listener.scales), out)
        if charge.name == self._stop:
            raise Taken
        return seen

    def spend(self, charge: Charge, draw: Callable[[NoiseSource], FloatArray]) -> FloatArray:
        seen = self._note(charge, draw)
        if charge.name not in self.frozen:
            if seen.tests:
                value = np.append(seen.vector[: -seen.tests], 1.0)
            else:
                noise = self._random.normal(size=seen.values[0].shape) * (charge.noise_scale or 0.0)
                value = seen.values[0] + self._loud * noise
            self.frozen[charge.name] = value
        return np.array(self.frozen[charge.name])

    def spend_records(self, charge: Charge, draw: Callable[[NoiseSource], NDArray[Any]]) -> NDArray[Any]:
        self._note(charge, draw)
        if charge.name not in self.frozen:
            self.frozen[charge.name] = draw(self._noise)
        return np.array(self.frozen[charge.name])


class Watched(MemoryEnclave):
    """Counts what stages leave."""

    saved = 0

    def save(self, name: str, array: NDArray[Any]) -> None:
        self.saved += 1
        super().save(name, array)


@dataclass(frozen=True)
class Call:
    """A stage that was run: with what, which charges it made, and whether it left anything in the enclave."""

    stage: Callable[..., Any]
    args: tuple[Any, ...]
    named: Mapping[str, Any]
    charges: frozenset[str]
    saves: bool

    def again(self, enclave: Enclave, budget: Observer) -> None:
        """Run it on other rows; all else as it was."""

        def swapped(one: Any) -> Any:
            return replace(one, enclave=enclave, budget=budget) if isinstance(one, Run) else one

        self.stage(*map(swapped, self.args), **{name: swapped(one) for name, one in self.named.items()})


class WatchingEngine(DirectEngine):
    """Notes every stage."""

    def __init__(self, enclave: Watched, budget: Observer) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self._enclave, self._budget = enclave, budget

    def __call__(self, task: Task[Any]) -> Any:
        before, saved = set(self._budget.seen), self._enclave.saved
        result = super().__call__(task)
        new = frozenset(set(self._budget.seen) - before)
        work = cast("partial[Any]", task.call)
        self.calls.append(Call(work.func, work.args, work.keywords, new, self._enclave.saved > saved))
        return result


# What a row may hold.


@dataclass(frozen=True)
class Kind:
    """What a column may hold: its corners, and of a number its range."""

    corners: tuple[Any, ...]
    ends: tuple[float, float] | None = None
    private: bool = True

    def draw(self, random: np.random.Generator, corner: float, narrow: float = 1.0, skewed: bool = False) -> Any:
        """A corner with this chance; else anything within the middle of the range, a part of it that is so large."""
        if self.ends is None or random.random() < corner:
            return self.corners[random.integers(len(self.corners))]
        lower, upper = self.ends
        if skewed:
            return float(lower + random.exponential(narrow) * (upper - lower))
        return float((lower + upper) / 2 + random.uniform(-0.5, 0.5) * narrow * (upper - lower))

    def near(self, value: Any, random: np.random.Generator) -> Any:
        if self.ends is None or value is None or random.random() < 0.4:
            return self.draw(random, 0.7)
        width = self.ends[1] - self.ends[0]
        return float(np.clip(value, *self.ends) + random.normal() * width * 10.0 ** -random.uniform(0.5, 4))


def number(lower: float, upper: float, nulls: bool = False, private: bool = True) -> Kind:
    width = upper - lower
    # In the L1 norm a number and its square move farthest from an end to a quarter of the way.
    inner = [lower + part * width for part in (0.25, 0.5, 0.75)]
    corners = [*[lower, upper] * 3, *inner, upper + 3 * width]
    return Kind((*corners, *([None, None] if nulls else [])), (lower, upper), private)


def kinds_of(study: Study) -> dict[str, Kind]:
    """The columns of a study that one unit has."""
    if isinstance(study, DirectionStudy):
        return {one.name: number(one.lower, one.upper) for one in (study.pair.x, study.pair.y)}
    if isinstance(study, SurvivalStudy):
        return _times(study)
    public = study.privacy.level is Level.label
    found: dict[str, Kind] = {}
    if isinstance(study, EffectStudy):
        one, outcomes = study.questions[0], list(study.outcomes)
        arms = study.arms.ordered if study.arms is not None else one.treatment_codes.pair
        if study.subgroups is not None:
            column = study.subgroups.column
            found[study.subgroups.name] = _covariate(column, column.nulls is Missing.indicator)
    else:
        assert isinstance(study, EffectStudy)
        one, outcomes = study, [study.outcome]  # type: ignore[list-item]
        arms = study.treatment_codes.pair
    found[study.treatment] = Kind((*arms, *([] if study.missing_treatment is MissingTreatment.refuse else [None])))
    found |= {name: _covariate(column, one.indicated(name)) for name, column in sorted(one.covariates.items())}
    found = {name: replace(kind, private=not public) for name, kind in found.items()}
    if study.clusters is not None:
        found[study.clusters.column] = Kind((*range(study.clusters.number), None))
    if study.weights is not None:
        # Missing ones, negative ones and such as are beyond the largest that counts.
        weights = number(0.0, study.weights.upper, nulls=True)
        found[study.weights.column] = replace(weights, corners=(*weights.corners, -1.0, math.inf))
    for out in outcomes:
        left_out = study.missing_outcome is MissingOutcome.leave_out
        missing = study.missing_outcome is not MissingOutcome.refuse and (out.leaves_out or not left_out)
        nulls = [None] if missing else []
        found[out.name] = (
            number(out.lower, out.upper, missing) if out.codes is None else Kind((*out.codes.pair, *nulls))
        )
    return found


def _times(study: SurvivalStudy) -> dict[str, Kind]:
    unknown = [None] if study.missing_treatment is MissingTreatment.control else []
    arms = study.arms.ordered if study.arms is not None else (study.treatment_codes or ZERO_ONE).pair
    found = {study.treatment: Kind((*arms, *unknown))} | _follow_up(study.outcomes[-1])
    if study.subgroups is not None:
        column = study.subgroups.column
        found[study.subgroups.name] = _covariate(column, column.nulls is Missing.indicator)
    if study.clusters is not None:
        found[study.clusters.column] = Kind((*range(study.clusters.number), None))
    for name, own in sorted((study.censoring.by | study.covariates).items()):
        found[name] = _covariate(own, Missing.indicator in (study.missing, own.nulls))
    return {one.column: _covariate(one.holds, nulls=True) for one in study.where} | found


def _follow_up(out: TimeToEvent) -> dict[str, Kind]:
    known = [None] if out.event_nulls is Missing.indicator else []
    time = number(0.0, out.horizon, nulls=out.time_nulls is Missing.indicator)
    # Below the origin, at an interval's end, and beyond what the contract admits.
    time = replace(time, corners=(*time.corners, -1.0, out.horizon / 10, 2 * out.upper))
    found = {out.time: time, out.event: Kind((*out.codes.values(), *known))}
    if out.entry is None:
        return found
    # At the origin, at an interval's end, and when others leave; beyond all.
    missing = [None] if out.entry_nulls is Missing.indicator else []
    return found | {out.entry: replace(time, corners=(*time.corners, out.landmark, out.horizon / 2, *missing))}


def _covariate(column: Covariate, nulls: bool) -> Kind:
    if isinstance(column, CategoricalCovariate):
        unknown = ["never declared"] if column.admitted is None else []
        return Kind((*column.levels, *unknown, *([None] if nulls else [])))
    if column.codes is not None:
        return Kind((*column.codes.pair, *([None] if nulls else [])))
    return number(column.lower, column.upper, nulls)


Table = dict[str, list[Any]]


def encoded(study: Study, table: Table) -> Arrays:
    """The rows as a run would have them, in the order in which they stand here."""
    kinds, n = kinds_of(study), len(next(iter(table.values())))
    series = [pl.Series(study.data.unit, np.arange(n))]
    for name, kind in kinds.items():
        holds = pl.Float64 if kind.ends is not None else None
        series.append(pl.Series(name, table[name], dtype=holds, strict=False))
    frame = pl.DataFrame(series)
    segment = LoadedSegment(0, ((Partition(path="x", rows=n, block="all"), frame),))
    write: Any = normalise_segment
    if isinstance(study, DirectionStudy):
        write = stages.normalise_segment
    elif isinstance(study, EffectStudy) and study.privacy.level in study.TABLES:
        write = normalise_cells
    elif isinstance(study, SurvivalStudy):
        write = normalise_times
    back = np.argsort(ascending(keyed_hash(frame[study.data.unit], KEY)))
    with tempfile.TemporaryDirectory() as folder:
        write(study, segment, Path(folder) / "part", KEY)
        files = [file for file in (Path(folder) / "part").iterdir() if file.stem != "h"]
        return {file.stem: np.load(file)[back] for file in files}


def enclave_of(rows: Arrays, cuts: Sequence[int] = ()) -> Watched:
    """Rows ascend by hash as they stand, in segments that begin at these places."""
    hashes = ranks(len(next(iter(rows.values()))))
    whole = {**rows, "h": hashes}
    edges = sorted({0, *cuts, len(hashes)})
    return Watched([{name: array[a:b] for name, array in whole.items()} for a, b in itertools.pairwise(edges)])


def _joined(*parts: Arrays) -> Arrays:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _rows(rows: Arrays, places: Any) -> Arrays:
    return {name: array[places] for name, array in rows.items()}


# The search.


@dataclass(frozen=True)
class Found:
    """The farthest pair of one release: how far, in units of the declared sensitivity, and how many were tried."""

    ratio: float = 0.0
    tries: int = 0
    pair: tuple[Arrays, Arrays] | None = None
    slot: int = 0
    table: Arrays = field(default_factory=dict)

    def better(self, other: Found) -> Found:
        best = max(self, other, key=lambda one: one.ratio)
        return replace(best, tries=self.tries + other.tries)


def ratios(seen: Seen, vectors: FloatArray, slot: int | None = None) -> FloatArray:
    """How far each pair of vectors is apart, in units of the declared sensitivity, shape (k, k).

    Args:
        seen: whose vectors they are.
        vectors: shape (k, numbers).
        slot: the place of the row that differs, for releases of a number per unit.
    """
    charge = seen.charge
    size = charge.sensitivity or 0.0
    if charge.mechanism in TESTED:
        values, distances = np.split(vectors, [vectors.shape[1] - seen.tests], axis=1)
        moved = cdist(distances, distances, "chebyshev")
        stable = distances.max(axis=1) > 1
        either = stable[:, None] | stable[None, :]
        apart = cdist(values, values, "cityblock")
        exact = charge.mechanism == StableRelease.NAME
        return np.maximum(moved, np.where(either, np.where(apart > 0, BROKEN, 0) if exact else apart / size, 0))
    if charge.mechanism in ("lattice laplace", "randomised response"):
        assert slot is not None
        own = cdist(vectors[:, [slot]], vectors[:, [slot]], "cityblock") / size
        others = np.delete(vectors, slot, axis=1)
        return np.where(cdist(others, others, "chebyshev") > 0, BROKEN, own)
    return cdist(vectors, vectors, "euclidean" if charge.norm is Norm.l2 else "cityblock") / size


class Attack:
    """The search for one case."""

    def __init__(self, case: Case) -> None:
        self.case, self.study = case, case.study
        self.kinds = kinds_of(case.study)
        self.random = np.random.default_rng([case.salt, sum(case.name.encode())])
        self.base = self.rows(0.05, case.narrow, case.skewed)
        self.public = enclave_of(self.base)
        self.budget, self.calls = self._flow(self.public, None)
        declared = estimator_of(case.study).declare(case.study, case.sizes)
        assert {one.name: one for one in declared} == {name: one.charge for name, one in self.budget.seen.items()}

    def _flow(self, enclave: Watched, frozen: Mapping[str, NDArray[Any]] | None) -> tuple[Observer, list[Call]]:
        """The study's own estimate."""
        budget = Observer(self.case, frozen)
        run = Run(self.study, self.case.sizes, enclave, budget, source=None)
        engine = WatchingEngine(enclave, budget)
        estimator_of(self.study).estimate(run, engine)
        return budget, engine.calls

    def draw(self, count: int, corner: float, narrow: float = 1.0, skewed: bool = False) -> Table:
        """So many rows at random."""
        return {
            name: [kind.draw(self.random, corner, narrow, skewed) for _ in range(count)]
            for name, kind in self.kinds.items()
        }

    def rows(self, corner: float, narrow: float = 1.0, skewed: bool = False) -> Arrays:
        """A table of the case's size at random, encoded."""
        once = encoded(self.study, self.draw(self.case.rows, corner, narrow, skewed))
        return {name: np.repeat(array, self.case.copies, axis=0) for name, array in once.items()}

    def children(self, table: Table, places: Sequence[int], count: int) -> Table:
        """Rows near those at these places."""
        chosen = self.random.choice(list(places), count)
        found: Table = {}
        for name, kind in self.kinds.items():
            moves = self.random.random(count) < 0.4
            found[name] = [
                kind.near(table[name][place], self.random) if move else table[name][place]
                for place, move in zip(chosen, moves, strict=True)
            ]
        return found

    def at_label(self, rows: Arrays, slot: Arrays) -> Arrays:
        """Of rows nothing but outcomes, where all else is public."""
        if self.study.privacy.level is not Level.label:
            return rows
        many = len(next(iter(rows.values())))
        return {name: array if name == "u" else np.repeat(slot[name], many, axis=0) for name, array in rows.items()}

    @cached_property
    def of_public(self) -> list[Call]:
        """At label level, the stages that leave the same whatever outcomes are: they need not run again."""
        if self.study.privacy.level is not Level.label:
            return []
        found, other = [], self.public.with_outcomes(-self.base["u"])
        for call in self.calls:
            if call.saves and not call.charges:
                before = dict(self.public._of_run)
                call.again(other, Observer(self.case, self.budget.frozen))
                if all(name in before and np.array_equal(before[name], array) for name, array in other._of_run.items()):
                    found.append(call)
        return found

    # One run of a stage for a table.

    def value(self, name: str, enclave: Enclave) -> Seen:
        """What a release is handed on these rows if all earlier ones say what they said."""
        budget = Observer(self.case, self.budget.frozen, stop=name)
        for call in self.calls:
            if name in call.charges:
                with _quiet():
                    call.again(enclave, budget)
                break
            if call.saves and call not in self.of_public:
                call.again(enclave, budget)
        return budget.seen[name]

    @cached_property
    def spans(self) -> list[tuple[str, int, int]]:
        """The parts of a run's units by their ranks: halves, or all of them."""
        n = self.case.units
        share = self.study.training_share
        if isinstance(self.study, DirectionStudy):
            share = self.study.estimator.train_fraction
        if share is not None:
            edges, names = [0, training_size(n, share), n], ["train", "estimation"]
        else:
            edges, names = [0, n], [""]
        return [(name, a, b) for name, (a, b) in zip(names, itertools.pairwise(edges), strict=True)]

    def part(self, place: int) -> str:
        """In which of them the row of a rank is."""
        return next(name for name, _, stop in self.spans if place < stop)

    def protects(self, place: int) -> bool:
        """Whether the study has a bound for the row of this rank: some protect one half alone, and say so."""
        half = {"train": Half.train, "estimation": Half.test}.get(self.part(place))
        return half not in self.study.unbounded

    def touches(self, charge: Charge, place: int) -> bool:
        """Whether a release reads the row of this rank."""
        return charge.scope == "all" or self.part(place) == charge.scope

    def one_by_one(self, name: str, effort: Effort) -> Found:
        """Tables of few rows, each a run of the release's stage."""
        best, asked = Found(), effort
        for number in range(asked.tables):
            effort = asked
            n = self.case.units
            base = self.rows(float(self.random.choice([0.3, 1.0])))
            if self.study.privacy.level is Level.label:
                # Public columns are those that the weights were made of.
                # Pairs of units move farthest where one leaves outcomes that are all at one end.
                base = {**self.base, "u": base["u"] if number else np.ones_like(base["u"])}
            charge = self.budget.seen[name].charge
            slots = [slot for slot in range(n) if self.touches(charge, slot)]
            outside = [slot for slot in range(n) if not self.touches(charge, slot) and self.protects(slot)]
            chosen = self.random.permutation(slots)[: effort.slots].tolist()
            if self.study.privacy.level is Level.label:
                # A row moves a release by its own weight: the heaviest is looked for. It is a quick look.
                effort = replace(effort, few=effort.few + 6, climbs=effort.climbs + 1)
                chosen = slots
                if effort.heaviest is not None:
                    look = {
                        slot: self._climb(name, base, slot, replace(effort, few=LOOK, climbs=1), True) for slot in slots
                    }
                    best = best.better(max(look.values(), key=lambda one: one.ratio))
                    chosen = sorted(slots, key=lambda slot: -look[slot].ratio)[: effort.heaviest]
            for slot in [*chosen, *outside[-1:]]:
                best = best.better(self._climb(name, base, slot, effort, slot in slots))
        return best

    def _climb(self, name: str, base: Arrays, slot: int, effort: Effort, inside: bool) -> Found:
        table, best = self.draw(effort.few, 0.7), Found()
        rows = self.at_label(encoded(self.study, table), _rows(base, slice(slot, slot + 1)))
        seen = [self._with(name, base, slot, _rows(rows, slice(i, i + 1))) for i in range(effort.few)]
        for climb in range(effort.climbs):
            vectors = np.array([one.vector for one in seen])
            apart = ratios(seen[0], vectors, slot) if inside else np.where(cdist(vectors, vectors) > 0, BROKEN, 0.0)
            i, j = np.unravel_index(int(apart.argmax()), apart.shape)
            best = best.better(
                Found(
                    float(apart[i, j]),
                    apart.size // 2,
                    (_rows(rows, slice(i, i + 1)), _rows(rows, slice(j, j + 1))),
                    slot,
                    base,
                )
            )
            if climb + 1 == effort.climbs:
                break
            more = self.children(table, [int(i), int(j)], effort.few // 2)
            new = self.at_label(encoded(self.study, more), _rows(base, slice(slot, slot + 1)))
            seen += [self._with(name, base, slot, _rows(new, slice(k, k + 1))) for k in range(effort.few // 2)]
            table = {column: [*table[column], *more[column]] for column in table}
            rows = _joined(rows, new)
        return best

    def _with(self, name: str, base: Arrays, slot: int, row: Arrays) -> Seen:
        if self.study.privacy.level is Level.label:
            # What was made of public columns alone stays, if stages keep it.
            return self.value(name, self.public.with_outcomes(_replaced(base["u"], slot, row["u"])))
        return self.value(name, enclave_of({key: _replaced(array, slot, row[key]) for key, array in base.items()}))

    # All rows at once, for releases that are sums over rows.

    def at_once(self, name: str, effort: Effort) -> Found | None:
        """Rows of which each adds its own numbers to a release; None: it is no such sum."""
        charge = self.budget.seen[name].charge
        first, stop = next((a, b) for _, a, b in self.spans if self.touches(charge, a))
        many = min(effort.many, stop - first)
        if many < FEWEST:
            return None
        table, best = self.draw(many, 0.8), Found()
        for step in range(effort.rounds):
            rows = encoded(self.study, table)
            vectors = self.contributions(name, rows, first)
            if vectors is None:
                return None
            apart = ratios(self.budget.seen[name], vectors)
            order = np.argsort(apart, axis=None)[::-1]
            i, j = (int(k) for k in np.unravel_index(int(order[0]), apart.shape))
            pair = _rows(rows, slice(i, i + 1)), _rows(rows, slice(j, j + 1))
            best = best.better(Found(float(apart[i, j]), apart.size // 2, pair, first))
            if step + 1 < effort.rounds:
                kept = np.unique(np.array(np.unravel_index(order[:24], apart.shape)))[: many // 2].tolist()
                new = self.children(table, kept, many - len(kept))
                table = {column: [*[table[column][place] for place in kept], *new[column]] for column in table}
        return best

    def contributions(self, name: str, rows: Arrays, first: int) -> FloatArray | None:
        """What each of these rows adds to a release if they stand at and behind a place; None: it is no sum of rows."""
        many, n = len(next(iter(rows.values()))), self.case.units
        table = {
            key: np.concatenate([array[:first], rows[key], array[first + many :]]) for key, array in self.base.items()
        }
        cuts = [*range(first, first + many + 1), *(start for _, start, _ in self.spans)]
        enclave = enclave_of(table, cuts)
        heard: list[list[Any]] = []

        def hear(function: Callable[[int], Any], count: int) -> list[Any]:
            heard.append([function(index) for index in range(count)])
            return heard[-1]

        with distributing_by(hear):
            total = self.value(name, enclave).vector
        fits = [k for k, parts in enumerate(heard) if _whole_numbers(parts, len(total))]
        if not fits:
            return None
        last, calls = fits[-1], [0]

        def ones(function: Callable[[int], Any], count: int) -> list[Any]:
            calls[0] += 1
            if calls[0] - 1 == last:
                return [[2 ** (2 * BITS)] * len(total)]
            return [function(index) for index in range(count)]

        with distributing_by(ones):
            weights = self.value(name, enclave_of(table, cuts)).vector
        lattice = np.array([[float(entry) for entry in part] for part in heard[last]]) / 2 ** (2 * BITS)
        if not np.allclose(lattice.sum(axis=0) * weights, total, rtol=1e-9, atol=1e-9):
            return None
        charge = self.budget.seen[name].charge
        edges = sorted({*cuts, 0, n})
        read = [start for start in edges[:-1] if self.touches(charge, start)]
        if len(read) != len(lattice):
            return None
        found: FloatArray = lattice[read.index(first) :][:many] * weights
        return found

    def moved_by_others(self, name: str) -> float:
        """How far what rows add to a release moves if all other people are exchanged, over what is declared.

        It is 0 where every scale comes from study, contract and earlier releases, whose answers stay; 0 also of what is
        no sum of rows, and at label level, where weights are of all people's public columns.
        """
        seen, base = self.budget.seen[name], self.base
        first, stop = next((a, b) for _, a, b in self.spans if self.touches(seen.charge, a))
        many = min(2 * FEWEST, stop - first)
        if self.study.privacy.level is Level.label or many < FEWEST:
            return 0.0
        rows, added = encoded(self.study, self.draw(many, 0.5)), []
        for others in (base, self.rows(0.5)):
            self.base = others
            added.append(self.contributions(name, rows, first))
        self.base = base
        if added[0] is None or added[1] is None:
            return 0.0
        # Nor does a sum depend on who stands in a piece with whom.
        cuts = range(3, self.case.units, 7)[:12]
        pieces = [self.value(name, enclave_of(base, some)).vector for some in ((), cuts)]
        if not np.array_equal(*pieces):
            return BROKEN
        return float(np.abs(added[0] - added[1]).max()) / (seen.charge.sensitivity or math.nan)

    # Both.

    def found(self, name: str, effort: Effort) -> Found:
        """The farthest pair of a release; rows at random are this release's own, whatever was searched before it."""
        self.random = np.random.default_rng([self.case.salt, sum(self.case.name.encode()), *name.encode()])
        label = self.study.privacy.level is Level.label
        best = None if label else self.at_once(name, effort)
        return self.one_by_one(name, effort) if best is None else best

    def confirmed(self, name: str, found: Found) -> dict[str, float]:
        """Through the whole flow, with what earlier releases said: how far each release moves."""
        if found.pair is None:
            return {}
        base, slot = found.table or self.base, found.slot
        seen = []
        for row in found.pair:
            rows = {key: _replaced(array, slot, row[key]) for key, array in base.items()}
            seen.append(self._flow(enclave_of(rows), self.budget.frozen)[0].seen)
        moved = {}
        for one, first in seen[0].items():
            vectors = np.array([first.vector, seen[1][one].vector])
            inside = self.touches(first.charge, slot)
            moved[one] = (
                float(ratios(first, vectors, slot)[0, 1]) if inside else BROKEN * bool(np.any(vectors[0] != vectors[1]))
            )
        return moved


def _replaced(array: NDArray[Any], slot: int, row: NDArray[Any]) -> NDArray[Any]:
    found = array.copy()
    found[slot] = row[0]
    return found


def _whole_numbers(parts: Sequence[Any], count: int) -> bool:
    return bool(parts) and all(
        isinstance(part, list) and len(part) == count and all(isinstance(entry, int) for entry in part)
        for part in parts
    )


@contextmanager
def _quiet() -> Iterator[None]:
    try:
        yield
    except Taken:
        return
