"""Tables of an estimator that is judged: beside an old one and least squares, by kind, size and budget, worst first.

Twelve populations were written by an author who had not read it (``replication/benchmarks/judged_populations.py``);
random tables 200 to 399 draw columns, confounding, outcome, size and budget
(``replication/benchmarks/random_tables.py``). Published tables are asked again and again, so that noise alone differs.
Least squares is by arm where the smaller arm has ten people a column.

A cell is a population that a reader knows or a published table at one n and epsilon, or all random tables of one kind
with n times epsilon below 10,000, or at least that (both together where one of them has fewer than three tables).

Of one case: error, the root mean square over runs; width, the median half-width at 95%; score, the mean weighted
interval score of Bracher et al. 2021 at 80, 90 and 95%, which grows with error, width and misses alike. A ratio of a
group is the geometric mean of its cases' ratios; runs count that both answered.

The new estimator is worse in a cell if its score is more than ``MARGIN`` of the old one's, or if it covers less than
``COVERED`` at 95% and ``SHORT`` less than the old one, or if it refuses more than half of the runs that the old one
answers. This was frozen before the new one was run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from causalveil_replication.accuracy.methods import CONFIDENCES

MARGIN, COVERED, SHORT, FEWEST = 1.05, 0.90, 0.05, 3
# `plan` is near if it is within so much of the measured median width; an error is called worse beyond so much.
NEAR, WIDER, LARGER = 0.30, 1.02, 1.5
Kept = Mapping[str, Any]


def score(truth: float, estimate: float, intervals: Sequence[Sequence[float]]) -> float:
    """Return the weighted interval score: with one level, (|error|/2 + (width alpha/2 + distance outside)) / 1.5."""
    found = abs(estimate - truth) / 2
    for (low, high), level in zip(intervals, CONFIDENCES, strict=True):
        found += (1 - level) / 2 * (high - low) + max(low - truth, truth - high, 0.0)
    return found / (len(CONFIDENCES) + 0.5)


@dataclass(frozen=True)
class Case:
    """One case: runs of the new estimator, the old one and least squares that new and old both answered."""

    part: str
    name: str
    cell: str
    kind: str
    units: int
    epsilon: str
    runs: tuple[tuple[Kept, Kept, Kept], ...]
    refused: int
    asked: int

    def error(self, who: int) -> float:
        """Return the root mean square error."""
        return math.sqrt(float(np.mean([(run[who]["estimate"] - run[who]["truth"]) ** 2 for run in self.runs])))

    def width(self, who: int) -> float:
        """Return the median half-width at 95%."""
        ends = [run[who]["intervals"][-1] for run in self.runs]
        return float(np.median([(high - low) / 2 for low, high in ends]))

    def score(self, who: int) -> float:
        """Return the mean score."""
        return float(
            np.mean([score(run[who]["truth"], run[who]["estimate"], run[who]["intervals"]) for run in self.runs])
        )

    def hits(self, who: int, level: int) -> list[bool]:
        """Say of each run whether its interval holds the truth."""
        ends = ((run[who]["truth"], *run[who]["intervals"][level]) for run in self.runs)
        return [low <= truth <= high for truth, low, high in ends]

    def planned(self, who: int) -> float:
        """Return the planned over the measured width; NaN if nothing was planned."""
        plans = [run[who]["planned"] for run in self.runs if not math.isnan(run[who]["planned"])]
        return plans[0] / self.width(who) if plans else math.nan


def paired(new: Iterable[Kept], old: Iterable[Kept], plain: Iterable[Kept]) -> list[Case]:
    """Return the cases that new and old both ran, on the same people.

    Raises:
        ValueError: their people differ.
    """
    mine, others, squares = (
        {(one["part"], one["case"], one["run"]): one for one in some} for some in (new, old, plain)
    )
    grouped: dict[tuple[str, str], list[tuple[Kept, Kept, Kept]]] = defaultdict(list)
    for key in mine.keys() & others.keys() & squares.keys():
        three = mine[key], others[key], squares[key]
        if len({one["people"] for one in three}) > 1:
            raise ValueError(f"{key}: the estimators did not see the same people")
        grouped[key[:2]].append(three)
    found = []
    for (part, name), runs in sorted(grouped.items()):
        answered = [run for run in runs if not math.isnan(run[1]["estimate"])]
        both = tuple(sorted((r for r in answered if not math.isnan(r[0]["estimate"])), key=lambda r: int(r[0]["run"])))
        one = runs[0][0]
        more = one["cell"], one["kind"], one["units"], one["epsilon"], both, len(answered) - len(both), len(answered)
        found.append(Case(part, name, *more))
    return found


@dataclass(frozen=True)
class Group:
    """Several cases together."""

    name: str
    cases: tuple[Case, ...]

    def ratio(self, of: Callable[[Case, int], float], who: int = 0, over: int = 1) -> float:
        """Return the geometric mean of the cases' ratios."""
        pairs = [(of(case, who), of(case, over)) for case in self.cases if case.runs]
        some = [math.log(one / other) for one, other in pairs if one > 0 and other > 0]
        return math.exp(float(np.mean(some))) if some else math.nan

    def coverage(self, who: int, level: int) -> float:
        """Return the share of intervals that hold the truth."""
        hits = [hit for case in self.cases for hit in case.hits(who, level)]
        return float(np.mean(hits)) if hits else math.nan

    @property
    def worse(self) -> bool:
        """Whether the new estimator is worse."""
        short = self.coverage(0, -1) < min(COVERED, self.coverage(1, -1) - SHORT)
        refused, asked = (sum(getattr(case, name) for case in self.cases) for name in ("refused", "asked"))
        return self.ratio(Case.score) > MARGIN or short or 2 * refused > asked

    @property
    def beyond_chance(self) -> float:
        """How many standard errors the new scores lie above the old ones, runs paired."""
        differ = [
            (score(run[0]["truth"], run[0]["estimate"], run[0]["intervals"]) / base)
            - (score(run[1]["truth"], run[1]["estimate"], run[1]["intervals"]) / base)
            for case in self.cases if case.runs
            for base in [case.score(1)]
            for run in case.runs
        ]  # fmt: skip
        spread = float(np.std(differ, ddof=1)) if len(differ) > 1 else math.nan
        return float(np.mean(differ)) / spread * math.sqrt(len(differ)) if spread > 0 else 0.0

    def row(self) -> list[str]:
        """Return the row of a table."""
        cover = [f"{self.coverage(0, level):.2f} ({self.coverage(1, level):.2f})" for level in range(len(CONFIDENCES))]
        found = [self.name, str(sum(len(case.runs) for case in self.cases)), *cover, f"{self.coverage(2, -1):.2f}"]
        for of in (Case.error, Case.width):
            plain = f"{self.ratio(of, 0, 2):.2f} ({self.ratio(of, 1, 2):.2f})"
            # Least squares on a published table says the same in every run.
            found += [f"{self.ratio(of):.2f}", "" if self.cases[0].part == "published" else plain]
        refused = sum(case.refused for case in self.cases)
        return [*found, f"{self.ratio(Case.score):.2f}" + (f", {refused} refused" if refused else "")]


PARTS = {
    "tables": "random tables",
    "written": "known populations",
    "again": "known populations, first run on round two",
}
# So many random tables are shown that are worst, and as many that are best.
SHOWN = 8
NAMES = (
    "runs", "80% new (old)", "90%", "95%", "95% least squares", "error new / old", "error over least squares",
    "width new / old", "width over least squares", "score new / old",
)  # fmt: skip


def cells(cases: Iterable[Case]) -> list[Group]:
    """Return the cells, as frozen."""
    found: dict[str, list[Case]] = defaultdict(list)
    tables: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if case.part in ("written", "published", "again"):
            found[case.cell].append(case)
        elif case.part == "tables":
            tables[case.cell].append(case)
    for cell, some in tables.items():
        small = any(len(other) < FEWEST for other in tables.values() if other[0].kind == some[0].kind)
        found[f"tables: {some[0].kind}" if small else f"tables: {cell}"] += some
    return [Group(name, tuple(some)) for name, some in found.items()]


def by(cases: Iterable[Case], key: Callable[[Case], str]) -> list[Group]:
    """Return cases grouped, in the order of their key."""
    found: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        found[key(case)].append(case)
    return [Group(name, tuple(some)) for name, some in sorted(found.items())]


Table = list[Sequence[str]]


def tables(new: Iterable[Kept], old: Iterable[Kept], plain: Iterable[Kept]) -> dict[str, Table]:
    """Return every table by its name, its header first."""
    cases = paired(new, old, plain)
    drawn = [case for case in cases if case.part in PARTS]
    groups = [Group("all", tuple(drawn)), *by(drawn, lambda case: PARTS[case.part]), *by(drawn, lambda case: case.kind)]
    groups += by(drawn, lambda case: f"n = {case.units:,}".rjust(12)) + by(
        drawn, lambda case: f"epsilon {float(case.epsilon)}"
    )
    groups += by(
        (c for c in cases if c.part == "published"), lambda case: "published tables (coverage: of noise alone)"
    )
    every = sorted(cells(cases), key=lambda group: -group.ratio(Case.score))
    named = lambda case: f"{case.name}: {case.kind}, n {case.units:,}, epsilon {case.epsilon}"  # noqa: E731
    random = sorted(by((c for c in cases if c.part == "tables"), named), key=lambda group: -group.ratio(Case.score))
    if len(random) > 2 * SHOWN:
        random = random[:SHOWN] + random[-SHOWN:]
    return {
        "groups": [["group", *NAMES], *(group.row() for group in groups if group.cases)],
        "cells": [["cell", *NAMES, "worse"], *([*group.row(), "yes" if group.worse else ""] for group in every)],
        "tables": [["table", *NAMES], *(one.row() for one in random)],
        **checks(cases),
        "plans": plans(cases),
        "seconds": times(cases),
    }


def verdict(new: Iterable[Kept], old: Iterable[Kept], plain: Iterable[Kept]) -> str:
    """Return in how many cells the new estimator is worse, and better."""
    every = cells(paired(new, old, plain))
    worse, clear = sum(group.worse for group in every), sum(group.beyond_chance > 2 for group in every)
    better, larger = (
        sum(group.beyond_chance < -2 for group in every),
        sum(group.ratio(Case.error) > 1 for group in every),
    )
    narrow = float(np.median([group.ratio(Case.width) for group in every])) if every else math.nan
    return (
        f"Worse in {worse} of {len(every)} cells; beyond two standard errors worse in {clear}, better in {better}. "
        f"Error above the old one's in {larger} cells; median ratio of widths {narrow:.2f}."
    )


def checks(cases: Sequence[Case]) -> dict[str, Table]:
    """Return what a column that says nothing costs, and where more people or more budget make it worse."""
    known = {case.name: case for case in cases if case.part == "checks" and case.runs}
    constant: Table = [["case", "new", "old", "least squares"]]
    for name, case in known.items():
        base = known.get(name.rsplit("-", 1)[0])
        if base is not None:
            constant.append([name] + [f"{case.width(who) / base.width(who):.2f}" for who in (0, 1, 2)])
    rows: Table = [["chain", "who", "widths", "errors", f"width up by {WIDER - 1:.0%}, error by {LARGER - 1:.0%}"]]
    for chain in chains(known.values()):
        for who, title in ((0, "new"), (1, "old")):
            widths, errors = ([of(case, who) for case in chain] for of in (Case.width, Case.error))
            steps = [
                f"{mine} at {case.units:,}, {case.epsilon}"
                for mine, values, limit in (("width", widths, WIDER), ("error", errors, LARGER))
                for case, before, after in zip(chain[1:], values[:-1], values[1:], strict=True)
                if after > limit * before
            ]
            shown = [" ".join(f"{value:.3g}" for value in values) for values in (widths, errors)]
            rows.append([f"{chain[0].name} to {chain[-1].name}", title, *shown, "; ".join(steps)])
    return {"constant": constant, "chains": rows}


def chains(known: Iterable[Case]) -> list[list[Case]]:
    """Return checked cases in order: more people at epsilon 1, more epsilon for 5,000 people."""
    found: dict[tuple[str, bool], list[Case]] = defaultdict(list)
    for case in known:
        if case.name.count("-") == 2:
            found[case.name.split("-")[0], case.units == 5_000].append(case)
    return [sorted(some, key=lambda case: (case.units, float(case.epsilon))) for _, some in sorted(found.items())]


def plans(cases: Iterable[Case]) -> Table:
    """Return how near `plan` is to the measured median width when it is told treated share and deviation."""
    rows = []
    for group in by((case for case in cases if case.part != "checks"), lambda case: f"{case.part}: {case.kind}"):
        row = [group.name]
        for who in (0, 1):
            ratios = [case.planned(who) for case in group.cases if case.runs]
            ratios = [ratio for ratio in ratios if not math.isnan(ratio)]
            near = np.mean([1 / (1 + NEAR) <= ratio <= 1 + NEAR for ratio in ratios]) if ratios else math.nan
            row += [str(len(ratios)), f"{near:.2f}", f"{np.median(ratios):.2f}" if ratios else ""]
        rows.append(row)
    names = [
        f"{who}: {what}" for who in ("new", "old") for what in ("cases", "within 30%", "planned / measured, median")
    ]
    return [["part: kind", *names], *rows]


def times(cases: Iterable[Case]) -> Table:
    """Return processor time by the number of columns."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for case in cases:
        for mine, other, _ in case.runs:
            limit = next((most for most in (8, 16, 32) if mine["columns"] <= most), 999)
            found[f"columns up to {limit:03d}, n {case.units:>7,}"].append((mine["seconds"], other["seconds"]))
    rows = []
    for name, pairs in sorted(found.items()):
        both = np.array(pairs)
        rows.append([name, *(f"{np.median(both[:, who]):.2f}, {both[:, who].max():.2f}" for who in (0, 1))])
    return [["case", "new", "old"], *rows]
