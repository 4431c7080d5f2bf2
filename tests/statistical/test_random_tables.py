"""Tables that nobody chose: where lines confound the default interval holds the truth as often as it says.

Tables and runs are seeded (``replication/benchmarks/random_tables.py``). Of 10 intervals that each hold the truth with
.95 fewer than 7 do in .001 of tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import pytest

from replication.benchmarks.random_tables import Measured, measured, table

# What an estimate that leaves some confounding says so by.
LINES = ("linearly", "partly", "unadjusted", "with squares")


def of_lines(numbers: Iterable[int]) -> list[Measured]:
    """Those of the tables in which lines alone confound."""
    return [measured(number, plans=0) for number in numbers if table(number).follows == "lines"]


def missed(found: Iterable[Measured]) -> list[Measured]:
    """Return the tables of which fewer than 7 of 10 intervals hold the truth."""
    return [one for one in found if one.fewer(7)]


def warned(found: Iterable[Measured]) -> bool:
    """Return whether all runs of all tables that miss say that confounding is left."""
    return all(any(word in said for word in LINES) for one in missed(found) for said in one.cell.said)


def judge(found: Sequence[Measured], tables: int) -> None:
    """Mean coverage is .93 or more; at most so many tables have fewer than 7 of 10."""
    mean, few = sum(one.cell.coverage for one in found) / len(found), missed(found)
    print(f"{len(found)} tables: mean coverage {mean:.3f}", *(f"{one.words}: {one.cell}" for one in few), sep="\n")
    assert mean >= 0.93
    assert len(few) <= tables


def test_a_dozen_tables() -> None:
    """120 runs of .95 fall below .93 x 120 = 112 once in six; these, seeded, do not."""
    found = of_lines(range(12))
    judge(found, tables=0)
    assert warned(found)


@cache
def two_hundred() -> tuple[Measured, ...]:
    """Return those of lines of the first 200 tables: both tests below read the same runs."""
    return tuple(of_lines(range(200)))


@pytest.mark.long
def test_two_hundred_tables() -> None:
    """About 150 tables of lines: 1,500 runs of .95 have a mean below .93 once in 3,000 times.

    Costs and counts rise as an exponential, which no line follows: 2 tables may have fewer than 7.
    """
    judge(two_hundred(), tables=2)


@pytest.mark.long
@pytest.mark.xfail(
    reason="table 91, counts that rise as an exponential: .6 hold, and all say more than 99%", strict=True
)
def test_tables_that_miss_say_that_confounding_is_left() -> None:
    """A known fault of `regression`: of a curve that noise hides it takes the share that it adjusted for as whole."""
    assert warned(two_hundred())
