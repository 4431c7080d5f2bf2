"""How right `regression` is on people of kinds that readers know, worst first, beside least squares without privacy.

Run: python -m replication.benchmarks.accuracy run FOLDER [RUNS [MINUTES]]
     python -m replication.benchmarks.accuracy page FOLDER > docs/figures/accuracy.md
     python -m replication.benchmarks.accuracy curves FOLDER [RUNS [MINUTES]]
Needs the replications: `uv run --package causalveil-replication` comes before it.

Eighteen populations whose effect is known, and one whose treated lie in the tails, at 1,000 and 30,000 people; four of
them at 5,000 too; with ``curves`` ten populations of one curve each at three sizes, in a folder of their own. Every
run draws new people and new, seeded noise. A second call goes on where the first ended.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from replication.benchmarks import judged_populations as judged
from replication.benchmarks import judging as bench
from replication.benchmarks.judged_curves import CURVES
from replication.benchmarks.judged_populations import AGAIN, FLAG, Potential, Written

RUNS, MINUTES = "40", "9"
SETTINGS = ((1_000, "1"), (30_000, "1"))
ALSO_AT_5000 = ("hospitals", "flags30", "panel", "step65")
# The regression that is run, and what it is compared with.
NAMES = ("today", "least-squares")


def _tails(random: np.random.Generator, n: int) -> Potential:
    z = np.sqrt(0.7) * random.normal(size=(n, 2)) + np.sqrt(0.3) * random.normal(size=(n, 1))
    x, flags = -norm.logcdf(-z) - 1, (random.random((n, 2)) < [0.3, 0.5]).astype(np.float64)
    both, index = x[:, 0] * x[:, 1], x @ [0.5, 0.4] + 0.3 * flags[:, 0]
    chance = 1 / (1 + np.exp(3.6 - 0.6 * index - 0.25 * both))
    without = index + 0.5 * both + random.normal(size=n)
    return np.column_stack([x, flags]), chance, without, without + 0.2


TAILS = Written(
    "4% treated, in the tails of two exponentials and their product", "few treated", (-8, 12),
    {**{f"x{place}": {"lower": -1, "upper": 8} for place in range(2)},
     **{f"flag{place}": dict(FLAG) for place in range(2)}}, _tails,
)  # fmt: skip
READERS: Mapping[str, Written] = {**judged.WRITTEN, **AGAIN, "tails": TAILS}
POPULATIONS = {**READERS, **CURVES}


def cases(populations: Mapping[str, Written] = READERS) -> Iterator[bench.Case]:
    """Give every cell of the page, or of other populations."""
    for name, one in populations.items():
        make = lru_cache(lambda name=name, one=one: judged.known(name, one))
        for units, epsilon in (*SETTINGS, *([(5_000, "1")] if name in (*ALSO_AT_5000, *CURVES) else [])):
            case = f"{name}-{units}-{epsilon}"
            yield bench.Case(case, "accuracy", case, one.kind, units, epsilon, "1e-6", make)


@dataclass(frozen=True)
class Cell:
    """A row of the page: runs of both estimators on the same people."""

    title: str
    units: int
    runs: int
    held: float
    held80: float
    error: float
    plain_error: float
    width: float
    plain_width: float
    planned: float
    plain_held: float

    @property
    def short(self) -> float:
        """Return by how much it is worse than it says: first coverage below .95, then error over least squares."""
        return max(0.95 - self.held, 0.0)


def cells(ours: Sequence[Mapping[str, Any]], plain: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """Return a cell for each case that both answered, worst first."""
    grouped: dict[str, list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = defaultdict(list)
    other = {(one["case"], one["run"]): one for one in plain}
    for one in ours:
        if (key := (one["case"], one["run"])) in other:
            grouped[one["case"]].append((one, other[key]))
    found = [_cell(name, runs) for name, runs in grouped.items()]
    return sorted(found, key=lambda one: (-one.short, -one.error / one.plain_error))


def _cell(name: str, runs: list[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Cell:
    def error(who: int) -> float:
        return math.sqrt(float(np.mean([(run[who]["estimate"] - run[who]["truth"]) ** 2 for run in runs])))

    def width(who: int) -> float:
        return float(np.median([(run[who]["intervals"][-1][1] - run[who]["intervals"][-1][0]) / 2 for run in runs]))

    def held(who: int, level: int) -> float:
        ends = [(run[who]["truth"], *run[who]["intervals"][level]) for run in runs]
        return float(np.mean([low <= truth <= high for truth, low, high in ends]))

    plans = [run[0]["planned"] for run in runs if not math.isnan(run[0]["planned"])]
    scale = float(runs[0][0]["scale"])
    return Cell(
        POPULATIONS[name.split("-")[0]].title, int(runs[0][0]["units"]), len(runs), held(0, -1), held(0, 0),
        error(0) / scale, error(1) / scale, width(0) / scale, width(1) / scale,
        plans[0] / width(0) if plans else math.nan, held(1, -1),
    )  # fmt: skip


HEAD = """# How right `regression` is

    uv run --package causalveil-replication python -m replication.benchmarks.accuracy run FOLDER
    uv run --package causalveil-replication python -m replication.benchmarks.accuracy page FOLDER

{count} cells, worst first: populations of kinds that readers know, at epsilon 1 and delta 1e-6. The effect is known, so
errors and misses can be counted. Every run draws new people and new noise. The estimator's settings were chosen on
other people; [how it was judged](../evidence.md#how-regression-is-judged) tells of random tables, other
budgets and published data.

Errors and half-widths are in standard deviations of the outcome within arms; least squares, without privacy, stands in
brackets. *Holds*: the share of 95% intervals (80%) that hold the effect; of {runs} runs .95 has a standard error of
{error}. *Plan*: the half-width that `plan` expects, told what `init` writes of rows that are public
(`expect`), over the measured one.

At 1,000 people and this budget no curves and products are looked for. Releases say so there, and by how much those of
the size that is expected of all confounding could move the estimate: by .68 to 1.07 deviations, more than the error in
nine of ten runs or more of each cell that is adjusted in most runs, also of those that hold least. Elsewhere they say
by how much curves and products that noise hides could move it: at 5,000 people by .03 to .12, and by .6 and .7 where
thirty flags or sixteen values share the budget; at 30,000 mostly by less than the half-width, and of hospitals and the
skewed value by less than the error in most runs (10 or 12 runs a cell).

{said}

| people | n | runs | holds, 95% | 80% | error | half-width | plan |
|---|---:|---:|---:|---:|---:|---:|---:|
"""


def page(found: Sequence[Cell]) -> str:
    """Return the page."""
    runs = min(one.runs for one in found)
    near = [one for one in found if 1 / 1.3 <= one.planned <= 1.3]
    ratio = np.exp(np.mean([math.log(one.error / one.plain_error) for one in found]))
    wide = np.exp(np.mean([math.log(one.width / one.plain_width) for one in found]))
    large = [one for one in found if one.units >= 30_000]
    wide_large = np.exp(np.mean([math.log(one.width / one.plain_width) for one in large]))
    said = (
        f"In all, {np.mean([one.held for one in found]):.2f} of 95% intervals hold the effect and "
        f"{np.mean([one.held80 for one in found]):.2f} of 80% intervals; in {sum(one.held < 0.9 for one in found)} "
        f"cells fewer than .90 do. The error is {ratio:.2f} times that of least squares in the geometric mean, the "
        f"half-width {wide:.1f} times ({wide_large:.1f} times at 30,000 people). Least squares, whose curves were "
        f"not told to it, holds {np.mean([one.plain_held for one in found]):.2f}. `plan` is within 30% in "
        f"{len(near)} of {len(found)} cells."
    )
    head = HEAD.format(count=len(found), runs=runs, error=f"{math.sqrt(0.95 * 0.05 / runs):.2f}", said=said)
    rows = [
        f"| {one.title} | {one.units:,} | {one.runs} | {one.held:.2f} ({one.plain_held:.2f}) | {one.held80:.2f} | "
        f"{one.error:.3f} ({one.plain_error:.3f}) | {one.width:.3f} ({one.plain_width:.3f}) | {one.planned:.2f} |"
        for one in found
    ]
    return head + "\n".join(rows) + "\n"


def main(what: str, folder: str, runs: str = RUNS, minutes: str = MINUTES) -> int:
    """Run what is missing, or write the page; 75 where runs are left."""
    if what != "page":
        Path(folder).mkdir(parents=True, exist_ok=True)
        every = list(cases(CURVES if what == "curves" else READERS))
        return 0 if bench.run_cases(every, NAMES, folder, int(runs), float(minutes)) else 75
    ours, plain = (bench.lines(bench.kept_in(folder, name)) for name in NAMES)
    sys.stdout.write(page(cells(ours, plain)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
