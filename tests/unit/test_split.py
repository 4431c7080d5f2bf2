from __future__ import annotations

import numpy as np
import pytest

from causalveil.schemas.errors import DataError, StudyError
from causalveil.schemas.privacy import Level
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.enclave import FileEnclave
from causalveil.tasks.data.normalise import normalise_stage
from causalveil.tasks.data.partitions import read_layout
from causalveil.tasks.data.split import Halves, leading_rows, split_stage, training_size
from tests.bad_data import UNIT, good, study, write


def prepared(given, folder, scratch, run_id="run"):
    layout = read_layout(given, DataFolder(folder))
    normalise_stage(given, DataFolder(folder), layout, scratch, run_id)
    enclave = FileEnclave(scratch, len(layout.partitions))
    split_stage(given, enclave)
    return Halves.open(enclave)


@pytest.mark.parametrize(
    ("units", "fraction", "expected"),
    [(2, 0.5, 1), (3, 0.5, 2), (5, 0.5, 2), (10, 0.3, 3), (10**7, 0.5, 5 * 10**6), (254_654, 0.25, 63_664)],
)
def test_training_size(units, fraction, expected):
    assert training_size(units, fraction) == expected


@pytest.mark.parametrize(("units", "fraction"), [(1, 0.5), (10, 0.01), (10, 0.99), (2, 0.9), (0, 0.5)])
def test_an_empty_half_is_refused_with_the_public_size(units, fraction):
    with pytest.raises(StudyError, match=f"{units} units"):
        training_size(units, fraction)


def test_stage_halves_exactly_and_disjointly(tmp_path):
    folder = write(tmp_path / "data", good(37), good(0), good(64, 37))
    halves = prepared(study(), folder, tmp_path / "scratch")
    train = sum(len(halves.train(index)) for index in range(3))
    assert train == training_size(101, 0.5)
    for index in range(3):
        both = np.concatenate([halves.train(index).u, halves.estimation(index).u])
        assert np.array_equal(both, halves.enclave.rows(index).u)
    assert (tmp_path / "scratch" / "split.npy").stat().st_mode & 0o777 == 0o600


def test_label_level_writes_a_split_that_nobody_follows(tmp_path):
    given = study(privacy={"epsilon": 1, "level": "label"})
    halves = prepared(given, write(tmp_path / "data", good(20)), tmp_path / "scratch")
    assert given.privacy.level is Level.label
    assert len(halves.train(0)) == len(halves.estimation(0)) == 20


def test_runs_have_different_splits_and_a_resumed_run_the_same(tmp_path):
    folder = write(tmp_path / "data", good(200))
    train = [
        prepared(study(), folder, tmp_path / f"scratch-{index}", run_id).train(0).x.tobytes()
        for index, run_id in enumerate(["one", "two", "one"])
    ]
    assert train[0] == train[2]
    assert train[0] != train[1]


def test_every_size_agrees_with_sorting():
    generator = np.random.default_rng(4)
    hashes = generator.integers(0, 2**64, (60, 2), dtype=np.uint64)
    hashes[5:25, 0] = hashes[5, 0]  # equal high words: the low word decides
    hashes[25], hashes[26] = 0, 2**64 - 1
    parts = [part[np.lexsort((part[:, 1], part[:, 0]))] for part in np.array_split(hashes, [7, 7, 40])]
    values = sorted((int(high) << 64) | int(low) for high, low in hashes)
    for size in range(1, 61):
        counts = leading_rows(parts, size)
        assert counts.sum() == size
        taken = [(int(high) << 64) | int(low) for part, n in zip(parts, counts, strict=True) for high, low in part[:n]]
        assert sorted(taken) == values[:size]


def test_a_tie_at_the_threshold_is_a_unit_twice():
    hashes = np.array([[1, 1], [2, 2], [2, 2], [3, 3]], dtype=np.uint64)
    assert leading_rows([hashes], 1).tolist() == [1]
    assert leading_rows([hashes], 3).tolist() == [3]
    with pytest.raises(DataError, match="twice"):
        leading_rows([hashes], 2)


def test_membership_is_a_fair_draw(tmp_path):
    """Over 400 run ids each of 20 units trains half of the time: chi-square on 20 counts, false alarm 1e-6."""
    from scipy.stats import chi2

    from causalveil.tasks.data.split import ascending, keyed_hash
    from causalveil.tasks.privacy.keys import run_key

    runs, units = 400, good(20)[UNIT]
    counts = np.zeros(20)
    for run in range(runs):
        hashes = keyed_hash(units, run_key(f"run-{run}", bytes(32)).subkey("unit hash"))
        counts[ascending(hashes)[: training_size(20, 0.5)]] += 1
    # Exactly half are drawn, so counts have variance runs / 4 and correlation -1/19.
    statistic = np.sum((counts - runs / 2) ** 2) / (runs / 4) * 19 / 20
    assert statistic < chi2.isf(1e-6, 19)
