"""What a paper printed beside what our tables say of it: one item of the evidence page.

Printed numbers stand here and in the papers' own ``items.py``; ours are read from the tables (CSV) that the
replications wrote, so that a number has one place. Two numbers agree if they are no further apart than
``ERRORS`` standard errors of their difference, which two runs of one experiment exceed about once in 16,000 times.
That shows no equality: what a difference would have to exceed to be seen is ``Beside.unseen``.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ERRORS = 4.0


@dataclass(frozen=True)
class SeededRuns:
    """Tables that were read off the same seeded runs, so that their rows agree or differ together.

    Attributes:
        letter: what the evidence page calls them.
        tables: names of CSV files.
        shared: what rows of these tables have in common.
    """

    letter: str
    tables: tuple[str, ...]
    shared: str


@dataclass(frozen=True)
class Paper:
    """A paper and its experiments.

    Attributes:
        citation: how it is cited.
        tables: what the names of its tables begin with.
        summary: a sentence on the main numbers; ``{0}`` and on are ours of ``main``.
        main: the name of an item.
        items: its experiments.
        runs: seeded runs that several items were read off.
    """

    citation: str
    tables: str
    summary: str
    main: str
    items: tuple[Item, ...]
    runs: tuple[SeededRuns, ...] = ()

    def runs_of(self, item: Item) -> SeededRuns | None:
        """Return the runs that ``item`` was read off; None for what no seed decides."""
        return next((runs for runs in self.runs if item.table in runs.tables), None)


@dataclass(frozen=True)
class Item:
    """A table, a figure or a part of one.

    Attributes:
        name: where it stands in the paper, and what it is.
        command: what makes our numbers.
        table: name of our CSV file; empty while the item is not made.
        where: what the columns of our rows are.
        over: a column, and its value in each of the rows, in the order of ``printed``; empty: one row.
        column: where our number stands.
        error: the column of its standard error; empty if there is none or the number is a counted share.
        runs: the column of our number of runs.
        share: numbers are shares of runs.
        printed: the paper's numbers; empty if it prints none.
        printed_runs: the runs behind each; 0: exact or not known.
        reason: why numbers differ; what a figure without numbers shows; why an item is missing.
        proved: what stands in place of numbers where the item is a statement: where it is proved.
        form: format of numbers.
    """

    name: str
    command: str = ""
    table: str = ""
    where: Mapping[str, str] = field(default_factory=dict, hash=False)
    over: tuple[str, tuple[str, ...]] = ("", ())
    column: str = ""
    error: str = ""
    runs: str = "runs"
    share: bool = False
    printed: tuple[float, ...] = ()
    printed_runs: int = 0
    reason: str = ""
    proved: str = ""
    form: str = ".3g"


@dataclass(frozen=True)
class Beside:
    """An item read against our tables.

    Attributes:
        ours: our numbers, in order; shorter than asked where the table lacks a row.
        complete: every number was found.
        apart: distance from the printed number in standard errors of the difference, of each; empty without errors.
        unseen: the difference that each number would have to exceed to count as one; empty without errors.
    """

    ours: tuple[float, ...]
    complete: bool
    apart: tuple[float, ...]
    unseen: tuple[float, ...] = ()

    @property
    def beyond(self) -> int:
        """Number of values that are further apart than Monte-Carlo error explains."""
        return sum(not abs(distance) <= ERRORS for distance in self.apart)


def read(item: Item, tables: Path) -> Beside:
    """Our numbers of ``item`` from the folder ``tables``."""
    path = tables / item.table
    if not item.table or not path.is_file():
        return Beside((), False, ())
    column, values = item.over
    wanted = [{**item.where, column: value} for value in values] if column else [dict(item.where)]
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    chosen = [next((row for row in rows if _is(row, one)), None) for one in wanted]
    found = [row for row in chosen if row is not None and row.get(item.column)]
    ours = tuple(float(row[item.column]) for row in found)
    complete = len(found) == len(wanted)
    if not (complete and item.printed and (item.share or item.error)):
        return Beside(ours, complete, ())
    errors = [_error(item, *one) for one in zip(found, ours, item.printed, strict=True)]
    apart = [_apart(one - printed, error) for one, printed, error in zip(ours, item.printed, errors, strict=True)]
    return Beside(ours, True, tuple(apart), tuple(ERRORS * error for error in errors))


def _is(row: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(_same(row.get(name, ""), value) for name, value in wanted.items())


def _same(text: str, value: str) -> bool:
    """Equal as text, or as numbers: 1 and 1.0 name one epsilon."""
    try:
        return float(text) == float(value)
    except ValueError:
        return text == value


def _error(item: Item, row: Mapping[str, str], ours: float, printed: float) -> float:
    """Return the standard error of the difference of ours and the printed number."""
    runs = int(row[item.runs]) if row.get(item.runs) else 0
    if item.share:
        # One success and one failure more than were seen: a share of 0 has an error too.
        seen = ours * runs + printed * item.printed_runs
        pooled = (seen + 1) / (runs + item.printed_runs + 2)
        spread = pooled * (1 - pooled)
        # A share that is a mean of probabilities has a smaller error than one that was counted.
        own = float(row[item.error]) ** 2 if item.error else spread / runs
        return math.sqrt(own + (spread / item.printed_runs if item.printed_runs else 0.0))
    # The paper's estimate has our standard deviation and its own number of runs.
    ratio = runs / item.printed_runs if item.printed_runs else 0.0
    return float(row[item.error]) * math.sqrt(1 + ratio)


def _apart(difference: float, error: float) -> float:
    if error > 0:
        return difference / error
    return 0.0 if difference == 0 else math.inf
