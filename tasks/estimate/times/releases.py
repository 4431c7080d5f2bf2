"""Release the cells of several questions of times together, and pool hidden strata.

    cells of all people: subgroup x arm x (interval x kind of event | censored | at risk last)     one release
    a question's cells: of two arms of one subgroup or of all, until its horizon, of its events      sums of cells

Each question has a part of the cells, and all parts have one covariance, so simultaneous intervals come from the joint
normal law of all answers (``docs/proofs/survival.md``, section 10).

A stratum of censoring holds the people of one combination of the levels of ``censoring.by`` in a subgroup; each of its
arms has its own curve of censoring. Where too few people of an arm are seen until the measure ends, strata are pooled
in the order of ``divided``, by noisy counts and public numbers alone (section 8).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import ndtri

from causalveil.schemas.columns import ZERO_ONE, CategoricalCovariate, Missing
from causalveil.schemas.errors import DataError
from causalveil.schemas.estimators.survival import Beyond, SurvivalStudy, TimesQuestion, TimeToEvent
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import PrivacyCost
from causalveil.schemas.questions import ALL_UNITS
from causalveil.tasks.data.cells import arms_of, eligible, groups_of
from causalveil.tasks.data.covariates import Block
from causalveil.tasks.data.enclave import Enclave
from causalveil.tasks.data.normalise import (
    as_codes,
    binary,
    columns,
    hashed_order,
    level_codes,
    write_clusters,
    write_covariates,
)
from causalveil.tasks.data.partitions import LoadedSegment
from causalveil.tasks.estimate.people import check_cells
from causalveil.tasks.estimate.times import curves
from causalveil.tasks.estimate.times.curves import (
    ARMS,
    SLOT,
    Grid,
    NoisyCells,
    cells_mechanism,
    divided,
    measured,
    read_blocks,
)
from causalveil.tasks.estimate.times.effects import SEEN_DEVIATIONS, SEEN_PEOPLE, TwoArms, critical
from causalveil.tasks.machine.arrays import BoolArray, ByteArray, FloatArray, IntArray, save_array, values_of
from causalveil.tasks.machine.distribute import distribute
from causalveil.tasks.privacy.gaussian import mu_of, portion
from causalveil.tasks.privacy.mechanisms import Budget, Mechanism

# J = n mu / PEOPLE within FEWEST and MOST: chosen on the trials of docs/figures/survival.md, 1,000 to 5,000 people.
# Late intervals of a finer grid hold fewer people at risk than noise, and the curve gains little by them.
PEOPLE, FEWEST, MOST = 12, 10, 50
# The number of strata of censoring is n mu / STRATUM, if they have equal sizes: chosen at 1,000 to 10,000 people, so
# that each arm of a stratum, half of it followed, is above four deviations of noise. Without a delta half of epsilon
# takes the place of mu, whose noise hides as many people at the horizon.
STRATUM = 60


def grid_of(study: SurvivalStudy, units: int) -> Grid:
    """Return the grid of all questions, with intervals of nearly equal length.

    Every horizon is the end of an interval. Their number is the study's, or follows from the average number of people
    in two arms of a stratum.

    Args:
        study: the study.
        units: n.
    """
    arms, horizons, strata = len(study.arm_names), study.horizons, strata_of(study, units)
    groups = len(study.groups) * (max(strata) + 1)
    wanted = study.intervals
    if wanted is None:
        wanted = min(max(round(units * ARMS / (groups * arms) * budget_of(study) / PEOPLE), FEWEST), MOST)
    ends: list[float] = []
    start = study.outcomes[0].landmark
    for first, last in zip((start, *horizons), horizons, strict=False):
        steps = int((last - first) / study.outcomes[0].step)
        parts = max(min(math.ceil(wanted * (last - first) / (horizons[-1] - start)), steps), 1)
        ends += [*(first + (last - first) * part / parts for part in range(1, parts)), last]
    return Grid(
        len(ends),
        len(study.kinds),
        horizons[-1],
        groups,
        arms,
        between=tuple(ends),
        strata=strata if len(strata) > 1 else (),
        entries=study.outcomes[0].entry is not None,
        start=start,
    )


def strata_of(study: SurvivalStudy, units: int) -> tuple[int, ...]:
    """Return the stratum in which each combination of levels of ``censoring.by`` is released.

    Combinations, taken to have equal sizes, are pooled until noise would not hide them, by public numbers alone.
    """
    censoring, groups = study.censoring, len(study.groups)
    power = budget_of(study) or float(cells_cost(study).epsilon) / 2
    least = STRATUM * censoring.groups * groups / (units * power)
    strata = np.zeros(censoring.groups, dtype=np.int64)
    for place, stratum in enumerate(divided(censoring.shape, lambda members: len(members) >= least)):
        strata[stratum] = place
    return tuple(strata.tolist())


def budget_of(study: SurvivalStudy) -> float:
    """Return mu of the cells' budget; 0 for Laplace noise."""
    return 0.0 if study.privacy.delta == 0 else math.sqrt(cells_share(study)) * float(mu_of(study.privacy.cost))


def cells_cost(study: SurvivalStudy) -> PrivacyCost:
    """Return the budget of the cells: all, or their share if arms are adjusted."""
    return portion(study.privacy.cost, study.estimator.share) if study.covariates else study.privacy.cost


def cells_share(study: SurvivalStudy) -> Decimal:
    """Return the cells' share of the budget: all, or a part if arms are adjusted."""
    return study.estimator.share if study.covariates else Decimal(1)


def mechanism(study: SurvivalStudy) -> Mechanism:
    """Return the mechanism of the cells, for any number of questions."""
    return cells_mechanism(cells_cost(study), study.outcomes[0].entry is not None)


def served(study: SurvivalStudy, sizes: Sizes | None) -> Mechanism:
    """Return the mechanism of a study's cells, if the budget can serve its subgroups.

    Raises:
        StudyError: an arm of a subgroup of average size has fewer people than noise hides from the first day on.
    """
    release = mechanism(study)
    if sizes is not None:
        grid = grid_of(study, sizes.units)
        _, noise = read_blocks(np.zeros(grid.numbers), grid, release)
        first = curves.at_risk(np.eye(grid.cells), grid)[:, 0]
        least = max(SEEN_DEVIATIONS * math.sqrt(float(first @ noise @ first) * grid.strata_of_group), SEEN_PEOPLE)
        check_cells(sizes.units, len(study.groups), len(study.arm_names), least)
    return release


# Fields of the grid of two arms of one group.
_ONE_PAIR: dict[str, Any] = {"groups": 1, "arms": ARMS, "strata": ()}


@dataclass(frozen=True)
class QuestionCells:
    """The cells of a question, of one horizon and one set of events, as sums of an arm's cells.

    Attributes:
        grid: of two arms, until the question ends; kinds: events that count, and competing ones if any.
        sums: zeros and ones, and -1 where late entries are subtracted; shape (its cells, cells of an arm).
    """

    grid: Grid
    sums: FloatArray

    @classmethod
    def of(cls, question: TimesQuestion, study: SurvivalStudy, grid: Grid, until: int) -> QuestionCells:
        """Return the part of a question that ends with an interval.

        People at risk after it are one cell, without those who enter later.
        """
        counts = [kind[0] in question.outcome.of for kind in study.kinds]
        question_grid = replace(
            grid,
            intervals=until,
            kinds=1 if all(counts) else 2,
            horizon=grid.between[until - 1],
            between=grid.between[:until],
            **_ONE_PAIR,
        )
        sums, end = np.zeros((question_grid.cells, grid.cells)), question_grid.exits - 1
        sums[end, grid.exits - 1] = 1.0
        for interval in range(grid.intervals * grid.entries):
            to, sign = (question_grid.exits + interval, 1.0) if interval < until else (end, -1.0)
            sums[to, grid.exits + interval] = sign
        kinds = [*(0 if event else 1 for event in counts), question_grid.kinds]
        for kind, place in enumerate(kinds):
            for interval in range(grid.intervals):
                to = place * until + interval if interval < until else end
                sums[to, kind * grid.intervals + interval] = 1.0
        return cls(question_grid, sums)


@dataclass(frozen=True)
class TimesContrast:
    """One question of one arm against the reference in one group; group None: over all units."""

    question: TimesQuestion
    group: int | None
    arm: int
    both: TwoArms
    part: QuestionCells

    @property
    def restricted_to(self) -> float | None:
        """The end of the comparison, where it is before the question's horizon."""
        return self.both.grid.horizon if self.both.grid.horizon < self.question.outcome.horizon else None


@dataclass(frozen=True)
class JointCells:
    """Released counts of all cells, with the covariance of their noise.

    Attributes:
        grid: the grid.
        counts: unbiased, by group, arm and cell.
        block: the noise covariance of one arm's cells in any group, shape (cells, cells).
        known: n, where all cells add up to it; None: only noisy counts tell how many people are eligible.
    """

    grid: Grid
    counts: FloatArray
    block: FloatArray
    known: int | None

    @classmethod
    def read(cls, released: FloatArray, study: SurvivalStudy, sizes: Sizes) -> JointCells:
        """Return the cells by released numbers; if all people are eligible they add up to n."""
        grid = grid_of(study, sizes.units)
        counts, block = read_blocks(released, grid, mechanism(study))
        if study.counted_by_noise:
            return cls(grid, counts, block, None)
        whole = float(block.sum()) * grid.groups * grid.arms
        counts = counts - block.sum(axis=1) * ((counts.sum() - sizes.units) / whole)
        return cls(grid, counts, block, sizes.units)

    @cached_property
    def shared(self) -> FloatArray:
        """Loadings of each cell of an arm on the error of the sum of all cells.

        The constant sum removes this error: the covariance of two cells is ``block`` within an arm of a group, less the
        product of their loadings.
        """
        if self.known is None:
            return np.zeros(self.grid.cells)
        sums = self.block.sum(axis=1)
        return np.asarray(sums / math.sqrt(sums.sum() * self.grid.groups * self.grid.arms))

    def members(self, group: int | None) -> Sequence[int]:
        """Return the groups of cells of a subgroup, its strata; None: all."""
        strata = self.grid.strata_of_group
        return range(self.grid.groups) if group is None else range(group * strata, (group + 1) * strata)

    def two_arms(self, places: Sequence[int], arm: int, part: QuestionCells | None = None) -> TwoArms:
        """Return the reference and an arm in the sum of some groups of cells; part None: all cells."""
        groups = len(places)
        sums = np.eye(self.grid.cells) if part is None else part.sums
        grid = replace(self.grid, **_ONE_PAIR)
        counts = self.counts[list(places)][:, [0, arm]].sum(axis=0) @ sums.T
        loadings = np.tile(sums @ self.shared, ARMS) * groups
        noise = np.kron(np.eye(ARMS), sums @ self.block @ sums.T) * groups - np.outer(loadings, loadings)
        return TwoArms(NoisyCells(grid if part is None else part.grid, counts, noise))

    def followed_to(self, floor: float, places: Sequence[int]) -> int:
        """Return the number of intervals in which all arms of these groups are seen and followed."""
        return min(self.two_arms(places, arm).followed_to(floor) for arm in range(1, self.grid.arms))

    def last_of(self, study: SurvivalStudy, question: TimesQuestion, strata: Sequence[Sequence[int]] = ()) -> int:
        """Return the interval with which a question ends.

        It is that of its horizon; where the study allows an earlier one, the last in which all are seen, if any is.

        Args:
            study: the study.
            question: the question.
            strata: of censoring, all of which must be seen; empty: all people together.
        """
        last = self.grid.between.index(question.outcome.horizon) + 1
        if study.censoring.beyond is Beyond.refuse:
            return last
        floor = study.censoring.floor if study.covariates else 0.0
        return min(*(self.followed_to(floor, places) for places in strata or [self.members(None)]), last) or last

    def contrast(self, question: TimesQuestion, group: int | None, arm: int, part: QuestionCells) -> TimesContrast:
        """Return a question of an arm in a subgroup, or over all units."""
        return TimesContrast(question, group, arm, self.two_arms(self.members(group), arm, part), part)

    def contrasts(self, study: SurvivalStudy) -> tuple[TimesContrast, ...]:
        """Return contrasts in the table's order: by question and arm over all units, then subgroups."""
        groups: list[int | None] = [None, *([] if study.subgroups is None else range(len(study.groups)))]
        contrasts = []
        for question in study.questions:
            part = QuestionCells.of(question, study, self.grid, self.last_of(study, question))
            for arm in range(1, self.grid.arms):
                contrasts += [self.contrast(question, group, arm, part) for group in groups]
        return tuple(contrasts)

    def covariance(self, contrasts: Sequence[TimesContrast]) -> FloatArray:
        """Return the first-order covariance of all answers by sampling and noise, at tidied cells."""
        size = len(contrasts)
        covariance, common = np.zeros((size, size)), np.zeros(size)
        slopes = [[row @ each.part.sums for row in each.both.slopes(each.question.measure)] for each in contrasts]
        for group in range(self.grid.groups):
            for arm in range(self.grid.arms):
                touched = [
                    place
                    for place, contrast in enumerate(contrasts)
                    if group in self.members(contrast.group) and arm in (0, contrast.arm)
                ]
                if not touched:
                    continue
                rows = np.array([slopes[place][1] if arm else -slopes[place][0] for place in touched])
                people = curves.tidied(self.counts[group, arm], self.grid)
                sampling = curves.sampled(rows, people, self.grid)
                covariance[np.ix_(touched, touched)] += sampling + rows @ self.block @ rows.T
                common[touched] += rows @ self.shared
        return np.asarray(covariance - np.outer(common, common))

    def critical_value(self, contrasts: Sequence[TimesContrast], resolved: BoolArray, confidence: float) -> float:
        """Return the critical value of simultaneous intervals of resolved answers.

        It is the quantile of the largest of as many correlated normal numbers, at most Bonferroni's.
        """
        if not resolved.any():
            return 0.0
        chosen = [contrast for contrast, use in zip(contrasts, resolved, strict=True) if use]
        covariance = self.covariance(chosen)
        errors = np.sqrt(np.maximum(np.diag(covariance), curves.LEAST**2))
        # Bonferroni's holds for any correlations, and bounds the error of the draws.
        most = -float(ndtri((1 - confidence) / (2 * len(chosen))))
        return min(critical(covariance, errors, confidence), most)


def label_of(study: SurvivalStudy, group: int | None) -> str:
    """Return a group's name."""
    return ALL_UNITS if group is None else study.groups[group]


# The least number of people of a stratum's arm, in deviations of noise. At 2 or 3 noise moves curves of censoring below
# the floor, which costs up to half and a fifteenth of the answers; from 6 on strata with usable curves are pooled.
POOL_DEVIATIONS = 4.0


@dataclass(frozen=True)
class Stratum:
    """A stratum of censoring after pooling.

    Attributes:
        members: its combinations of levels.
        places: its groups of cells.
    """

    members: IntArray
    places: tuple[int, ...]


def pool_strata(study: SurvivalStudy, cells: JointCells, group: int, until: int) -> tuple[Stratum, ...]:
    """Pool strata in which too few people of an arm are seen until an interval ends.

    Args:
        study: the study.
        cells: as they were released.
        group: the subgroup.
        until: the interval.
    """
    release_groups = np.array(cells.grid.strata or (0,)) + cells.members(group)[0]

    def stratum_of(members: IntArray) -> Stratum:
        return Stratum(members, tuple(np.unique(release_groups[members]).tolist()))

    def visible(members: IntArray) -> bool:
        # Cells of a released stratum cannot be divided.
        whole = np.count_nonzero(np.isin(release_groups, release_groups[members])) == len(members)
        pairs = (cells.two_arms(stratum_of(members).places, arm) for arm in range(1, cells.grid.arms))
        return whole and all(both.seen_by(POOL_DEVIATIONS) >= until for both in pairs)

    return tuple(map(stratum_of, divided(study.censoring.shape, visible)))


def pooled_words(study: SurvivalStudy, strata: Sequence[Stratum]) -> tuple[list[str], list[str]]:
    """Return each pooled stratum in words, and the columns whose levels are pooled.

    Args:
        study: the study.
        strata: of a subgroup.
    """
    censoring, texts, columns = study.censoring, list[str](), dict[str, None]()
    for stratum in strata:
        if len(stratum.members) == 1:
            continue
        parts = []
        # Strata are products of adjacent levels of each column.
        for name, places in zip(censoring.by, np.unravel_index(stratum.members, censoring.shape), strict=True):
            levels, names = np.unique(places).tolist(), censoring.names(name)
            if len(levels) > 1:
                columns[name] = None
            words = "any" if len(levels) == len(names) > 1 else " or ".join(names[level] for level in levels)
            parts.append(f"{name}: {words}")
        texts.append(", ".join(parts))
    return texts, list(columns)


# Rows whose cells are in memory at a time.
CHUNK_ROWS = 1 << 18


def normalise_times(study: SurvivalStudy, segment: LoadedSegment, place: Path, key: bytes) -> None:
    """Write t, u, k, g and h of one segment as .npy files; rows ascending by keyed hash.

    With late entries also e, with covariates x.

    Raises:
        DataError: a value that admission refuses.
    """
    frame, first = segment.frame, study.outcomes[0]
    order = hashed_order(values_of(frame, study.data.unit), place, key)
    save_array(place / "t.npy", arms_of(study, values_of(frame, study.treatment))[order])
    time, kind = followed(first, study.kinds, values_of(frame, first.time), values_of(frame, first.event))
    group = strata_of_rows(study, frame)
    if first.entry is not None:
        entry = entered(first, values_of(frame, first.entry))
        # People at risk at no time of the study are in none of its groups, like ineligible people.
        group[(entry >= np.minimum(time, study.horizons[-1])) | (time <= first.landmark)] = study.beyond_groups
        save_array(place / "e.npy", entry[order])
    save_array(place / "u.npy", time[order])
    save_array(place / "k.npy", kind[order])
    save_array(place / "g.npy", group[order])
    write_clusters(study.clusters, frame, order, place, key)
    if study.covariates:
        rows = study.bounded.questions[0]
        write_covariates(rows, columns(rows, frame), order, place / "x.npy")


def strata_of_rows(study: SurvivalStudy, frame: pl.DataFrame) -> ByteArray:
    """Return each person's subgroup and combination of levels of ``censoring.by``, shape (n,).

    They are numbered from 0; ineligible people have a number after all.

    Raises:
        DataError: a value that admission refuses.
    """
    strata: IntArray = groups_of(study, frame).astype(np.int64)
    for name, column in study.censoring.by.items():
        series = values_of(frame, name)
        if series.null_count() and column.nulls is not Missing.indicator:
            raise DataError(f"column '{name}' holds nulls")
        levels = study.censoring.levels(name)
        classes = study.censoring.classes.get(name)
        if classes is not None:
            level = _classes_of(series, classes, levels)
        elif isinstance(column, CategoricalCovariate):
            level = level_codes(series, Block(name, column, 0, tuple(map(str, range(levels)))))
        else:
            codes = binary(series, column.codes or ZERO_ONE)
            if codes.null_count() != series.null_count():
                raise DataError(f"column '{name}' holds something that is not one of its two codes")
            level = codes.cast(pl.Int64).fill_null(levels - 1).to_numpy()
        strata = strata * levels + level
    return np.where(eligible(study.where, frame), strata, study.beyond_groups).astype(np.uint8)


def _classes_of(series: pl.Series, classes: Sequence[float], levels: int) -> IntArray:
    """Return the class of each number, counted from 0; missing numbers have the last."""
    numbers = series.cast(pl.Float64, strict=False).fill_nan(None)
    places = np.searchsorted(np.asarray(classes), numbers.fill_null(0.0).to_numpy(), side="right")
    return np.where(numbers.is_null().to_numpy(), levels - 1, places)


def followed(
    outcome: TimeToEvent, kinds_of_events: Sequence[Sequence[str]], times: pl.Series, events: pl.Series
) -> tuple[FloatArray, ByteArray]:
    """Return each person's time and kind of event, 0 for censored; shapes (n,).

    A person without a time, with a negative one, or without an event code is censored at 0, in the first interval. The
    time of a person followed for longer than ``upper`` is the next float above it: at risk to the end.

    Raises:
        DataError: a code that the contract does not declare, or nulls where it declares none.
    """
    for name, series, nulls in (
        (outcome.time, times, outcome.time_nulls),
        (outcome.event, events, outcome.event_nulls),
    ):
        if series.null_count() and nulls != "indicator":
            raise DataError(f"column '{name}' holds nulls")
    place_of = {name: place + 1 for place, kind in enumerate(kinds_of_events) for name in kind}
    place_of[outcome.censoring] = 0
    codes = {name: code for name, code in outcome.codes.items() if code is not None}
    text = isinstance(next(iter(codes.values())), str)
    of_code = {(code if isinstance(code, str) else int(code)): place_of[name] for name, code in codes.items()}
    kinds = as_codes(events, text).replace_strict(of_code, default=None, return_dtype=pl.UInt8)
    # One name may have no code of its own: it stands for every code that the contract does not declare.
    for name in outcome.codes.keys() - codes:
        kinds = kinds.fill_null(place_of[name]).set(events.is_null(), None)
    if kinds.null_count() != events.null_count():
        raise DataError(f"column '{outcome.event}' holds a code that is not declared")
    number = times.cast(pl.Float64(), strict=False).fill_nan(None)
    known = (number.is_not_null() & (number >= 0).fill_null(value=False) & kinds.is_not_null()).to_numpy()
    longest = float(np.nextafter(outcome.upper, np.inf))
    time = np.where(known, np.clip(number.fill_null(0.0).to_numpy(), 0.0, longest), 0.0)
    return time, np.where(known, kinds.fill_null(0).to_numpy(), 0).astype(np.uint8)


def entered(outcome: TimeToEvent, entries: pl.Series) -> FloatArray:
    """Return each person's time of entry, at least 0 and infinite without an entry, shape (n,).

    Raises:
        DataError: nulls where the contract declares none.
    """
    if entries.null_count() and outcome.entry_nulls is not Missing.indicator:
        raise DataError(f"column '{outcome.entry}' holds nulls")
    time = entries.cast(pl.Float64(), strict=False).fill_nan(None).fill_null(math.inf)
    return np.asarray(np.maximum(time.to_numpy(), 0.0))


# The arrays of a person's cell, in the order of the arguments of ``Grid.cell``.
CELL = ("t", "u", "k", "g")


def count_cells(enclave: Enclave, grid: Grid, workers: int) -> IntArray:
    """Return the exact number of people in each cell, shape (numbers,), chunk by chunk."""
    size = grid.numbers

    def counts_of_segment(index: int) -> list[int]:
        rows = [enclave.load(name, index) for name in CELL]
        entry = enclave.load("e", index) if grid.entries else None
        counts = np.zeros(size, dtype=np.int64)
        for first in range(0, len(rows[0]), CHUNK_ROWS):
            part = slice(first, first + CHUNK_ROWS)
            # People in none of the groups have numbers after all cells.
            counts += np.bincount(grid.cell(*(array[part] for array in rows)), minlength=size)[:size]
            if entry is not None:
                entered = grid.entered(rows[0][part], entry[part], rows[-1][part])
                counts += np.bincount(entered, minlength=size)[:size]
        return counts.tolist()

    parts = distribute(counts_of_segment, enclave.segments, workers)
    return np.asarray(np.array(parts, dtype=np.int64).reshape(-1, size).sum(axis=0))


def release_stage(
    study: SurvivalStudy, sizes: Sizes, enclave: Enclave, budget: Budget, times: float = 1.0
) -> FloatArray:
    """Release the cells of all eligible people, shape (numbers,); in rehearsals ``times`` a row."""
    grid = grid_of(study, sizes.units)
    counts = count_cells(enclave, grid, study.execution.workers)
    exact = measured(counts, grid, plain=study.privacy.delta == 0)
    return mechanism(study).release(exact * times, SLOT, budget)
