"""Error, coverage and width of estimators on populations whose effect is known, as a Markdown table.

Run: python -m replication.benchmarks.known [RUNS]          (level sample)
     python -m replication.benchmarks.known [RUNS] label    (covariates and treatments public, delta 0)
Needs the replications: `uv run --package causalveil-replication` comes before it.

Every run draws new people and new, seeded noise (``replication/``); delta is 1e-6. A coverage of .95 over 100 runs
has a standard error of .02.
"""

from __future__ import annotations

import sys

from causalveil_replication.accuracy.cells import ESTIMATORS, AccuracyCell, least_squares_error, run_cell
from causalveil_replication.accuracy.populations import POPULATIONS

CELLS = (
    ("toeplitz18", 10_000, "1"),
    ("flags15", 3_000, "1"),
    ("binary11", 3_000, "1"),
    ("curved8", 30_000, "1"),
    ("rare10", 10_000, "1"),
    ("rare5", 10_000, "1"),
    ("trial6", 3_000, "1"),
    ("skewed6", 10_000, "1"),
    ("logged6", 10_000, "1"),
)
LABEL_CELLS = (
    *((name, 3_000, "1") for name in ("toeplitz18", "flags15", "binary11", "curved8", "rare10", "trial6", "skewed6")),
    *(("rare10", 3_000, epsilon) for epsilon in ("0.1", "4")),
    *(("toeplitz18", 3_000, epsilon) for epsilon in ("0.1", "4")),
    ("mixed14", 3_000, "1"),
)
LABEL_ESTIMATORS = ("balancing", "matching", "ipw")


def main(runs: int) -> None:
    """Measure and print."""
    sys.stdout.write(f"| population, units, epsilon | {' | '.join(ESTIMATORS)} | least squares, not private |\n")
    sys.stdout.write("|---" * (len(ESTIMATORS) + 2) + "|\n")
    for name, units, epsilon in CELLS:
        population = POPULATIONS[name]
        found = [run_cell(population, each(population), units, epsilon, runs=runs) for each in ESTIMATORS.values()]
        plain = f"{least_squares_error(population, units, runs):.3f}"
        cells = " | ".join([f"{population.title}, {units:,}, {epsilon}", *map(said, found), plain])
        sys.stdout.write(f"| {cells} |\n")
        sys.stdout.flush()


def main_label(runs: int) -> None:
    """The same where outcomes alone are private; beside balancing's interval what `plan` expects of it."""
    sys.stdout.write(f"| population, units, epsilon | {' | '.join(LABEL_ESTIMATORS)} | error over matching's |\n")
    sys.stdout.write("|---" * (len(LABEL_ESTIMATORS) + 2) + "|\n")
    for name, units, epsilon in LABEL_CELLS:
        population = POPULATIONS[name]
        settings = [{"name": each} for each in LABEL_ESTIMATORS]
        found = [run_cell(population, one, units, epsilon, "0", runs, level="label") for one in settings]
        first = f"{said(found[0])} (plan {found[0].planned:.3f})"
        cells = [first, *map(said, found[1:]), f"{found[0].error / found[1].error:.2f}"]
        sys.stdout.write(f"| {population.title}, {units:,}, {epsilon} | {' | '.join(cells)} |\n")
        sys.stdout.flush()


def said(cell: AccuracyCell) -> str:
    """Root mean square error, coverage of the 95% interval, mean half-width."""
    return f"{cell.error:.3f} / {cell.coverage:.2f} / {cell.half_width:.3f}"


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    (main_label if "label" in sys.argv else main)(number)
