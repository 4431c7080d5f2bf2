"""The data sets of Yuan et al. 2026: sizes as the paper prints them, ranges that hold, rows as the stages make them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from causalveil.schemas.errors import DataError
from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.schemas.table import EffectStudy
from causalveil_replication.yuan2026.data import NAMES, SOURCES, PublishedData, load, rows_of, synth
from tests.needs import FOLDERS

# Table II: treated, all.
SIZES = {"IHDP": (139, 747), "LaLonde": (185, 445), "ACIC": (858, 4802), "Synth": (489, 1000)}


def get(name: str, folders: tuple[Path, ...] = FOLDERS) -> PublishedData:
    data = load(name, folders)
    if data is None:
        pytest.skip(f"{name} is not beside the checkout ({SOURCES[name]})")
    return data


def a_study(data: PublishedData) -> EffectStudy:
    return IpwStudy.model_validate(data.document({"name": "ipw"}, {"epsilon": 1, "level": "label"}))


@pytest.mark.parametrize("name", NAMES)
def test_sizes_are_those_of_table_2_and_nothing_is_clipped(name: str) -> None:
    data = get(name)
    treated, units = SIZES[name]
    assert data.frame.height == units
    assert int(data.frame["treated"].sum()) == treated
    assert data.frame["outcome"].is_between(*data.outcome).all()
    for column, covariate in data.covariates.items():
        values = data.frame[column]
        if "levels" in covariate:
            assert set(values.unique()) == set(covariate["levels"])
        else:
            assert values.cast(pl.Float64).is_between(covariate["lower"], covariate["upper"]).all(), column


@pytest.mark.parametrize("name", ["LaLonde", "Synth"])
def test_rows_come_in_the_order_of_their_hash(name: str) -> None:
    data = get(name)
    study = a_study(data)
    first, again, other = (rows_of(study, frame, key) for frame, key in (
        (data.frame, b"k" * 16), (data.frame.reverse(), b"k" * 16), (data.frame, b"l" * 16)))  # fmt: skip
    np.testing.assert_array_equal(first.x, again.x)
    np.testing.assert_array_equal(first.u, again.u)
    assert not np.array_equal(first.u, other.u)
    assert np.linalg.norm(first.x, axis=1).max() <= 1
    assert np.abs(first.u).max() <= 1
    assert first.u.sum() == pytest.approx(other.u.sum())


def test_synth_has_the_effect_it_says() -> None:
    """With the true coefficients taken out by least squares, seed 12; the noise is U(0, 1), standard error 0.019."""
    frame = synth().frame
    design = np.column_stack([frame["treated"], *[frame[f"x{j:02d}"] for j in range(1, 21)], np.ones(1000)])
    fitted = np.linalg.lstsq(design, frame["outcome"].to_numpy(), rcond=None)[0]
    assert abs(fitted[0] - 0.5) < 4 * 0.02


def test_lalonde_non_private_anchor() -> None:
    """Difference of means: 1,794 dollars."""
    frame = get("LaLonde").frame
    t, y = frame["treated"].to_numpy(), frame["outcome"].to_numpy()
    assert round(y[t == 1].mean() - y[t == 0].mean()) == 1794


def test_missing_files_are_missing_and_foreign_ones_an_error(tmp_path: Path) -> None:
    assert [load(name, (tmp_path,)) for name in ("IHDP", "LaLonde", "ACIC")] == [None, None, None]
    (tmp_path / "ihdp_1.csv").write_text("1,2,three\n")
    with pytest.raises(DataError, match="IHDP: the files are not as published"):
        load("IHDP", (tmp_path,))


def test_acic_joins_covariates_and_the_outcome_of_the_arm(tmp_path: Path) -> None:
    """Three made-up rows in the published format."""
    folder = tmp_path / "anywhere" / "acic_challenge_2016"
    folder.mkdir(parents=True)
    text = {"x_2": "A", "x_21": "P", "x_24": "C"}
    names = [f"x_{index}" for index in range(1, 59)]
    x = pl.DataFrame({name: [text.get(name, 1)] * 3 for name in names})
    x.write_csv(folder / "x.csv")
    pl.DataFrame({"z": [0, 1, 1], "y0": [1.0, 2, 3], "y1": [4.0, 5, 6]}).write_csv(folder / "zymu_1.csv")
    data = get("ACIC", (tmp_path,))
    assert data.frame["outcome"].to_list() == [1, 5, 6]
    assert set(names) == set(data.covariates) == set(data.frame.columns) - {"unit", "treated", "outcome"}
    assert rows_of(a_study(data), data.frame, b"k" * 16).x.shape == (3, 83)
