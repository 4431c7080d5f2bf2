"""How often intervals hold the truth on tables that nobody chose, as a Markdown table; the worst are named below it.

Run: python -m tests.benchmarks.bench_tables [ESTIMATOR] [LEVEL] [FIRST] [LAST] [RUNS]     (regression sample 0 400 10)
Needs the replications: `uv run --package causalveil-replication` comes before it.

Every run draws new people and new, seeded noise. Of 10 intervals that each hold the truth with .95 fewer than 9 do in
.086 of tables, fewer than 7 in .001.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import Pool

from causalveil.tasks.machine.distribute import one_thread
from causalveil_replication.accuracy.cells import ESTIMATORS, PLANS, AccuracyCell, run_cell
from tests.benchmarks.random_tables import FOLLOWS, table

# Where outcomes alone are private more people than this take no part: balancing, matching and ipw cost most there.
MOST_PUBLIC = 10_000
# What `plan` expects is near what is measured.
NEAR = 0.15


@dataclass(frozen=True)
class Measured:
    """What many runs on a table say; ``follows`` and ``words``: what confounds there, and of whom it is."""

    follows: str
    words: str
    cell: AccuracyCell

    def fewer(self, hits: int) -> bool:
        """Whether fewer intervals than this of each ten hold the truth."""
        return round(self.cell.coverage * self.cell.runs) < hits * self.cell.runs / 10


def measured(
    number: int, estimator: str = "regression", level: str = "sample", runs: int = 10, plans: int = PLANS
) -> Measured:
    """One table by one estimator."""
    one = table(number)
    setting = ESTIMATORS[estimator](one.population) if estimator in ESTIMATORS else {"name": estimator}
    units, delta = (one.units, one.delta) if level == "sample" else (min(one.units, MOST_PUBLIC), "0")
    with one_thread():
        cell = run_cell(one.population, setting, units, one.epsilon, delta, runs=runs, level=level, plans=plans)
    words = f"table {number}: {units:,} people, epsilon {one.epsilon}, delta {delta}, {one.follows}, {one.outcome}"
    return Measured(one.follows, words, cell)


def summary(found: Sequence[Measured]) -> list[str]:
    """Rows of a Markdown table by what confounds, and a line for each table of which hardly any interval holds."""
    names = [
        "what confounds",
        "tables",
        "mean coverage",
        "fewer than 9 of 10",
        "fewer than 7",
        "which say",
        "`plan` within 15%",
    ]
    rows = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for follows in FOLLOWS:
        some = [one for one in found if one.follows == follows]
        few = [one for one in some if one.fewer(7)]
        said = Counter(max(one.cell.said, key=one.cell.said.__getitem__) for one in few)
        mean = sum(one.cell.coverage for one in some) / max(len(some), 1)
        words = "; ".join(f"*{word}* ({count})" for word, count in said.most_common())
        near = sum(abs(one.cell.planned / one.cell.half_width - 1) <= NEAR for one in some) / max(len(some), 1)
        cells = [follows, len(some), f"{mean:.3f}", sum(one.fewer(9) for one in some), len(few), words, f"{near:.2f}"]
        rows.append(f"| {' | '.join(map(str, cells))} |")
    worst = sorted((one for one in found if one.fewer(7)), key=lambda one: one.cell.coverage)
    return [*rows, "", *map(_line, worst)]


def _line(one: Measured) -> str:
    cell = one.cell
    errs = f"error {cell.error:.3g}, bias {cell.bias:.3g}, half-width {cell.half_width:.3g}"
    return f"{one.words}: {cell.coverage:.2f}, {errs}, {dict(cell.said)}"


def main(
    estimator: str = "regression", level: str = "sample", first: str = "0", last: str = "400", runs: str = "10"
) -> None:
    """Measure and print; the last table is not among them."""
    with Pool() as pool:
        work = ((number, estimator, level, int(runs)) for number in range(int(first), int(last)))
        found = pool.starmap(measured, work, chunksize=1)
    sys.stdout.write("\n".join(summary(found)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
