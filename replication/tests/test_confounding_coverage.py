"""Where covariates drown in noise an estimate is biased; an interval that allows for so much still covers."""

from __future__ import annotations

import numpy as np
import pytest

from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil_replication.schroeder2025 import runs
from causalveil_replication.schroeder2025.data import DATASET_2
from causalveil_replication.schroeder2025.runs import ALLOWING, FINITE, Analysis

UNITS = 3_000
# The assumption that treatment is as good as random, whatever cannot be adjusted for.
NOTHING = Analysis("nothing", "nothing", {**FINITE.estimator, "confounding_prior": {"outcome_r2": 0, "distance": 0}})


@pytest.fixture(scope="module")
def covered() -> dict[str, dict[float, float]]:
    """Coverage of 250 runs with and without declared shares, seeds 0 to 249: Monte-Carlo error 2.5 % at 80 %."""
    found = {}
    for method in (FINITE, ALLOWING, NOTHING):
        study = runs.study_of(DATASET_2.document(), method, UNITS, "0.5", "1e-5")
        assert isinstance(study, AipwStudy)
        answers = runs.synthetic_runs(study, DATASET_2, UNITS, range(250))
        found[method.name] = {row.level: row.coverage for row in runs.summarise(answers, 1.0)}
    print(found)
    return found


def test_declared_shares_restore_coverage(covered: dict[str, dict[float, float]]) -> None:
    """Shares near the population's mean cover at least what they say; false alarm below 1e-3 at 3.1 errors."""
    for level, share in covered[ALLOWING.name].items():
        assert share >= level - 3.1 * np.sqrt(level * (1 - level) / 250)


def test_what_is_allowed_for_by_default_covers(covered: dict[str, dict[float, float]]) -> None:
    """An estimate that adjusts for nothing: its default allowance is above this population's confounding."""
    for level, share in covered[FINITE.name].items():
        assert share >= level - 3.1 * np.sqrt(level * (1 - level) / 250)


def test_without_them_the_bias_is_seen(covered: dict[str, dict[float, float]]) -> None:
    """Test of the test: the same runs cover 6 to 10 points less."""
    for level in (0.8, 0.9):
        assert covered[NOTHING.name][level] < covered[ALLOWING.name][level] - 0.04
