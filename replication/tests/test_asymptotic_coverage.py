"""Table 1 of Schröder, Hartenstein and Feuerriegel (2025), short in the gate and whole behind the marker.

Coverage over R runs has a Monte-Carlo standard error of sqrt(c (1 - c)/R). The paper's own table has 500 runs, so a
difference from it has sqrt(2) times that of 500. Seeds are the runs' numbers.
"""

from __future__ import annotations

import math

import pytest

from causalveil_replication.schroeder2025 import runs as schroeder2025_runs
from causalveil_replication.schroeder2025.data import DATASET_1, DATASET_2, Population
from causalveil_replication.schroeder2025.runs import FINITE, KERNEL, LEVELS, NETWORK, Analysis, Summary

SHORT = 25
# Coverage at 80, 90 and 95%, epsilon .5, delta 1e-5, n = 3000 (table 1 of the paper).
PRINTED = {
    (DATASET_1, KERNEL): (0.784, 0.912, 0.964),
    (DATASET_1, NETWORK): (0.824, 0.894, 0.962),
    (DATASET_2, KERNEL): (0.848, 0.910, 0.958),
    (DATASET_2, NETWORK): (0.832, 0.904, 0.954),
}


def measure(population: Population, method: Analysis, runs: int) -> list[Summary]:
    study = schroeder2025_runs.study_of(population.document(), method, 3_000, "0.5", "1e-5")
    found = schroeder2025_runs.summarise(
        schroeder2025_runs.synthetic_runs(study, population, 3_000, range(runs)), population.truth
    )
    print(population.title, method.title, *found, sep="\n")
    return found


def test_the_asymptotic_intervals_cover_and_ours_are_a_third_as_wide() -> None:
    """Dataset 1, 25 runs each: coverage within 3.5 errors of nominal; false alarm below 3e-3 over all levels."""
    wide, narrow = (measure(DATASET_1, method, SHORT) for method in (KERNEL, FINITE))
    for summary in wide:
        assert abs(summary.coverage - summary.level) <= 3.5 * math.sqrt(summary.level * (1 - summary.level) / SHORT)
    for one, other in zip(wide, narrow, strict=True):
        assert other.half_width <= one.half_width / 3


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("population", "method"), PRINTED, ids=lambda part: part.name)
def test_table_1_of_the_paper(population: Population, method: Analysis) -> None:
    """500 runs each: within 3.5 Monte-Carlo errors of the difference of two tables of 500 runs."""
    for summary, printed in zip(measure(population, method, 500), PRINTED[population, method], strict=True):
        error = math.sqrt(2 * summary.level * (1 - summary.level) / 500)
        assert abs(summary.coverage - printed) <= 3.5 * error
    assert len(LEVELS) == 3
