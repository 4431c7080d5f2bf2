from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from causalveil.schemas.contract import DataClass, load_contract
from causalveil.schemas.errors import StudyError
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.enclave import FileEnclave
from causalveil.tasks.data.normalise import normalise_stage
from causalveil.tasks.data.partitions import read_layout
from causalveil.tasks.data.simulate import penalty, simulate, simulated_rows, unit_ids
from causalveil.tasks.data.split import Halves, split_stage
from tests.studies import resolved


def test_what_it_writes_runs_through_the_stages(tmp_path):
    folder = tmp_path / "new" / "study"
    simulate(folder, 1003, 4, 3, 5, 0.2)
    contract = load_contract(folder / "dataset.yaml")
    assert contract.data_class is DataClass.synthetic
    assert "0.2" in (folder / "PROVENANCE.md").read_text()
    assert "estimator: {name: auto}" in (folder / "study.yaml").read_text()
    # An estimator whose stages split the units.
    (folder / "study.yaml").write_text((folder / "study.yaml").read_text().replace("name: auto", "name: ipw"))
    given = resolved(folder / "study.yaml")
    layout = read_layout(given, DataFolder(folder))
    assert layout.units == 1003
    assert len(layout.partitions) == 3
    scratch = tmp_path / "scratch"
    normalise_stage(given, DataFolder(folder), layout, scratch, "run")
    enclave = FileEnclave(scratch, 3)
    split_stage(given, enclave)
    halves = Halves.open(enclave)
    assert sum(len(halves.train(index)) for index in range(3)) == 502


def test_same_arguments_same_values_other_seed_other_values(tmp_path):
    frames = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        simulate(tmp_path / name, 100, 2, 3, seed, 0.1)
        frames.append(pl.read_parquet(tmp_path / name / "*.parquet"))
    assert frames[0].equals(frames[1])
    assert not frames[0].equals(frames[2])
    assert (tmp_path / "a" / "study.yaml").read_text() == (tmp_path / "b" / "study.yaml").read_text()


@pytest.mark.parametrize("effect", [-0.4, 0.0, 0.1, 0.4])
@pytest.mark.parametrize("covariates", [1, 3, 20])
def test_bounds_overlap_and_effect_hold_for_every_unit(effect, covariates):
    frame = simulated_rows(0, 20_000, covariates, 7, 0, effect)
    names = frame.columns[3:]
    assert len(names) == covariates
    x = frame.select(names).to_numpy()
    assert np.all(np.abs(x) <= 1)
    y, t = frame["outcome"].to_numpy(), frame["treated"].to_numpy()
    assert y.min() >= 0
    assert y.max() <= 1
    # Unconfounded contrast: what is left after the outcome model differs by the effect between the arms.
    # 20,000 uniforms of sd 0.0577: five sd of the difference of means are 0.0042 (false alarm below 1e-6).
    left = y - 0.2 * x[:, : min(5, covariates)].mean(axis=1)
    assert abs(left[t == 1].mean() - left[t == 0].mean() - effect) < 0.0042
    # Overlap inside the default clip.
    propensity = 1 / (1 + np.exp(-2 * x[:, : min(5, covariates)].mean(axis=1)))
    assert propensity.min() >= 0.1
    assert propensity.max() <= 0.9
    # There is confounding to remove: the naive contrast is off by far more than its sd (0.0025).
    assert y[t == 1].mean() - y[t == 0].mean() - effect > 0.015


def test_an_oracle_recovers_the_effect():
    """Hajek weights from the true propensity at n = 200,000, seed 3: within 5 sd (sd about 0.0007)."""
    frame = simulated_rows(0, 200_000, 6, 3, 0, 0.1)
    mean = frame.select(frame.columns[3:8]).to_numpy().mean(axis=1)
    propensity = 1 / (1 + np.exp(-2 * mean))
    t, y = frame["treated"].to_numpy(), frame["outcome"].to_numpy()
    one, zero = t / propensity, (1 - t) / (1 - propensity)
    assert abs(one @ y / one.sum() - zero @ y / zero.sum() - 0.1) < 0.0035


def test_unit_ids_are_distinct_and_look_random():
    ids = unit_ids(0, 300_000, 1)
    assert len(np.unique(ids)) == 300_000
    assert np.array_equal(unit_ids(1000, 1010, 1), ids[1000:1010])
    bits = np.unpackbits(ids.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
    assert np.all(np.abs(bits - 0.5) < 0.006)
    assert abs(np.corrcoef(np.argsort(np.argsort(ids)), np.arange(300_000))[0, 1]) < 0.02


def test_unit_ids_can_be_undone_so_no_two_are_equal():
    """The inverse of splitmix64's finaliser, in plain integers, gives consecutive numbers back."""

    def undo(word: int, shift: int) -> int:
        result = word
        for _ in range(64 // shift):
            result = word ^ (result >> shift)
        return result

    found = []
    for unit in unit_ids(5, 105, 9).view(np.uint64).tolist():
        word = undo(unit, 31) * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
        word = undo(word, 27) * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
        found.append(undo(word, 30))
    assert [word - found[0] for word in found] == list(range(100))


def test_penalty_shrinks_with_n_and_is_one_digit():
    assert penalty(1_000_000, 20) == 1e-4
    assert penalty(100_000, 20) == 4e-4
    assert 1e-6 <= penalty(10**15, 1000) <= penalty(2, 1) == 0.1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"units": 1}, "2 are needed"),
        ({"covariates": 0}, "1 to 1000"),
        ({"partitions": 0}, "partitions"),
        ({"partitions": 11}, "1 to 10"),
        ({"seed": -1}, "seed"),
        ({"effect": 0.41}, "0.4"),
        ({"effect": float("nan")}, "0.4"),
    ],
)
def test_arguments_out_of_range_are_refused_and_nothing_is_written(changes, says, tmp_path):
    arguments = {"units": 10, "covariates": 2, "partitions": 2, "seed": 1, "effect": 0.1, **changes}
    with pytest.raises(StudyError, match=says):
        simulate(tmp_path / "s", **arguments)
    assert not (tmp_path / "s").exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StudyError, match="not an empty folder"):
        simulate(tmp_path, 10, 2, 2, 1, 0.1)
    with pytest.raises(StudyError, match="cannot be written"):
        simulate(tmp_path / "notes.txt" / "x", 10, 2, 2, 1, 0.1)
