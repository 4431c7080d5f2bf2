"""The paper's data sets: populations, the trial, and the preparation of right heart catheterisation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from causalveil.schemas.errors import DataError
from causalveil.schemas.studies import parse_study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.covariates import dimension
from causalveil_replication.schroeder2025 import data
from tests import needs

POPULATIONS = [data.DATASET_1, data.DATASET_2, data.DATASET_2_SEPARATE, data.TRIAL]
PRIVACY = {"estimator": {"name": "ipw"}, "privacy": {"epsilon": "0.5", "delta": "1e-5"}}


def study(document: dict) -> EffectStudy:
    made = parse_study({**document, **PRIVACY})
    assert isinstance(made, EffectStudy)
    return made


@pytest.mark.parametrize("population", POPULATIONS, ids=lambda p: p.name)
def test_rows_obey_the_declared_bounds_and_a_seed_fixes_them(population: data.Population) -> None:
    frame = data.draw(population, 3_000, seed=4)
    low, high = population.bounds
    assert frame["outcome"].is_between(low, high).all()
    assert frame["unit"].n_unique() == 3_000
    assert frame.select(population.names).to_numpy().min() >= 0
    assert frame.select(population.names).to_numpy().max() <= 1
    assert frame.equals(data.draw(population, 3_000, seed=4))
    assert not frame.equals(data.draw(population, 3_000, seed=5))
    rows = data.rows_of(study(population.document()), frame)
    assert rows.x.shape == (3_000, population.covariates + 1)
    np.testing.assert_array_equal(rows.t, frame["treated"].to_numpy())
    np.testing.assert_allclose((low + high) / 2 + rows.u * (high - low) / 2, frame["outcome"].to_numpy())


def test_in_the_trial_exactly_half_are_treated() -> None:
    assert data.draw(data.TRIAL, 1_000, seed=1)["treated"].sum() == 500


def least_squares(frame: pl.DataFrame, names: tuple[str, ...]) -> np.ndarray:
    x = np.column_stack([np.ones(frame.height), frame["treated"].to_numpy(), frame.select(names).to_numpy()])
    return np.linalg.lstsq(x, frame["outcome"].to_numpy(), rcond=None)[0]


@pytest.mark.parametrize("population", POPULATIONS, ids=lambda p: p.name)
def test_the_effect_is_one_for_given_covariates(population: data.Population) -> None:
    """Least squares on 20,000 rows: standard error about .009, five of them; false alarm 6e-7."""
    frame = data.draw(population, 20_000, seed=2)
    assert least_squares(frame, population.names)[1] == pytest.approx(1.0, abs=0.045)


def confounding(population: data.Population, count: int = 60) -> float:
    """Mean of the arms' difference minus the truth, over draws of coefficients."""
    gaps = []
    for seed in range(count):
        frame = data.draw(population, 10_000, seed)
        means = [frame.filter(pl.col("treated") == arm)["outcome"].mean() for arm in (1, 0)]
        gaps.append(means[0] - means[1] - 1.0)
    return float(np.mean(gaps))


def test_confounding_is_that_of_the_design() -> None:
    """E[gap] is about E[sum beta gamma]/24 over the variance of treatment: .09 with one support, a quarter with two.

    Sixty draws of 10,000 rows: standard error about .005, measured.
    """
    assert confounding(data.DATASET_2) == pytest.approx(0.093, abs=0.02)
    assert confounding(data.DATASET_2_SEPARATE) == pytest.approx(0.023, abs=0.02)


def test_coefficients_of_dataset_2_have_six_in_the_support() -> None:
    frame = data.draw(data.DATASET_2, 60_000, seed=9)
    gamma = least_squares(frame, data.DATASET_2.names)[2:]
    assert (np.abs(gamma) > 0.06).sum() <= 6
    assert gamma.min() > -0.06


def test_rhc_is_prepared_as_documented() -> None:
    """Counts of the distributed file: 5,735 patients, 2,184 catheterised, 2,829 dead within 180 days of admission."""
    frame = data.rhc(needs.shared(data.RHC_FILE).parent)
    assert frame.height == frame["unit"].n_unique() == 5_735
    assert frame["catheter"].sum() == 2_184
    assert frame["dead_180"].sum() == 2_829
    made = study(data.rhc_document())
    assert len(made.covariates) == 8
    assert frame.select(list(made.covariates)).null_count().sum_horizontal().item() == 0
    rows = data.rows_of(made, frame)
    assert rows.x.shape == (5_735, dimension(made)) == (5_735, 18)
    assert np.linalg.norm(rows.x, axis=1).max() <= 1


def test_another_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        data.rhc(tmp_path)
    (tmp_path / data.RHC_FILE).write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="Vanderbilt"):
        data.rhc(tmp_path)
