from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from causalveil.schemas.errors import CausalveilError, DataError, StudyError
from causalveil.schemas.privacy import Level
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.enclave import FileEnclave, segment_folder
from causalveil.tasks.data.normalise import normalise_stage
from causalveil.tasks.data.partitions import read_layout
from causalveil.tasks.data.split import (
    CHUNK_ROWS,
    Folds,
    Halves,
    ascending,
    fold_sizes,
    folds_stage,
    keyed_hash,
    leading_rows,
    split_stage,
    training_size,
)
from causalveil.tasks.machine.arrays import save_array
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


# Folds have exact public sizes, cover everybody once, and depend on units and key alone.
def enclave(scratch: Path, sizes: list[int], seed: int = 0) -> FileEnclave:
    """Partitions whose hashes ascend and are known: u holds the rank of each unit among all."""
    random = np.random.default_rng(seed)
    high = random.permutation(sum(sizes)).astype(np.uint64)
    start = 0
    for index, size in enumerate(sizes):
        folder = segment_folder(scratch, index)
        folder.mkdir(parents=True)
        part = np.sort(high[start : start + size])
        save_array(folder / "h.npy", np.column_stack([part, part]))
        save_array(folder / "x.npy", np.zeros((size, 2)))
        save_array(folder / "t.npy", np.zeros(size, np.uint8))
        save_array(folder / "u.npy", part.astype(np.float64))
        start += size
    return FileEnclave(scratch, len(sizes))


def ranks(pieces: object) -> list[float]:
    return sorted(u for index in range(pieces.count) for u in pieces.rows(index).u.tolist())


@pytest.mark.parametrize("folds", [1, 2, 3, 5])
@pytest.mark.parametrize("sizes", [[30], [7, 0, 24], [1, 11, 19, 3]])
def test_folds_are_spans_of_rank_and_cover_everybody_once(tmp_path: Path, folds: int, sizes: list[int]) -> None:
    made = enclave(tmp_path, sizes)
    folds_stage(made, folds)
    cut, start = Folds.open(made), 0
    for fold, size in enumerate(fold_sizes(sum(sizes), folds)):
        inside = cut.fold(fold)
        assert ranks(inside) == list(range(start, start + size))
        assert inside.units == size
        start += size
    assert (tmp_path / "folds.npy").stat().st_mode & 0o777 == 0o600


def test_sizes_are_as_equal_as_can_be() -> None:
    assert fold_sizes(11, 3) == (4, 4, 3)
    assert fold_sizes(10, 2) == (5, 5)
    with pytest.raises(StudyError, match="too few for 5 folds"):
        fold_sizes(9, 5)


def test_folds_come_after_their_stage(tmp_path: Path) -> None:
    with pytest.raises(CausalveilError, match="has not run"):
        Folds.open(FileEnclave(tmp_path, 1))


KEY = bytes(range(16))


def reference(unit: int | str) -> tuple[int, int]:
    """The definition, one unit at a time, in plain integers and bytes."""
    if isinstance(unit, int):
        sign = b"\x01" if unit < 0 else b"\x00"
        blocks = [(unit % 2**64).to_bytes(8, "little") + sign + b"regetni"]
    else:
        content = unit.encode()
        blocks = [len(content).to_bytes(8, "little") + b"\0\0\0\0txet"]
        blocks += [content[i : i + 16].ljust(16, b"\0") for i in range(0, len(content), 16)]
    state = bytes(16)
    for block in blocks:
        mixed = bytes(a ^ b for a, b in zip(state, block, strict=True))
        state = Cipher(algorithms.AES128(KEY), modes.ECB()).encryptor().update(mixed)
    return int.from_bytes(state[:8], "big"), int.from_bytes(state[8:], "big")


def hashed(values, dtype=None) -> list[tuple[int, int]]:
    return [tuple(pair) for pair in keyed_hash(pl.Series(values, dtype=dtype), KEY).tolist()]


TEXTS = ["", "a", "b", "ab", "a\0", "\0", "x" * 15, "x" * 16, "x" * 17, "x" * 32, "x" * 100, "émile", "日本" * 9, "5"]


def test_text_agrees_with_the_definition():
    assert hashed(TEXTS) == [reference(text) for text in TEXTS]


def test_integers_agree_with_the_definition():
    values = [0, 1, -1, 5, 2**63 - 1, -(2**63)]
    assert hashed(values, pl.Int64) == [reference(value) for value in values]
    large = [0, 2**63, 2**64 - 1]
    assert hashed(large, pl.UInt64) == [reference(value) for value in large]


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64])
def test_width_does_not_matter(dtype):
    assert hashed([0, 5, 127], dtype) == hashed([0, 5, 127], pl.Int64)


def test_text_and_dictionaries_agree_and_differ_from_integers():
    assert hashed(["5", "6"], pl.Categorical) == hashed(["5", "6"])
    assert not set(hashed(["5", "6"])) & set(hashed([5, 6]))
    # Minus one and 2^64 - 1 share their 64 bits.
    assert hashed([-1], pl.Int64) != hashed([2**64 - 1], pl.UInt64)


def test_everything_is_distinct_and_key_dependent():
    values = pl.Series(range(-5000, 5000))
    whole = hashed(values) + hashed([str(value) for value in values]) + hashed(TEXTS[:-1])
    assert len(set(whole)) == len(whole)
    assert not np.any(keyed_hash(values, KEY) == keyed_hash(values, bytes(16)))


def test_chunks_and_slices_do_not_matter():
    rows = CHUNK_ROWS + 100
    for values in (pl.Series(range(rows)), pl.Series([f"{i:x}" * (i % 9) + str(i) for i in range(rows)])):
        whole = keyed_hash(values, KEY)
        assert np.array_equal(whole[CHUNK_ROWS - 50 :], keyed_hash(values[CHUNK_ROWS - 50 :], KEY))
        chunked = pl.concat([values[:77], values[77:]], rechunk=False)
        assert np.array_equal(whole, keyed_hash(chunked, KEY))


def test_no_rows():
    assert keyed_hash(pl.Series([], dtype=pl.Int64), KEY).shape == (0, 2)
    assert keyed_hash(pl.Series([], dtype=pl.String), KEY).shape == (0, 2)


def test_bits_are_balanced():
    """Each of the 128 bits of 20,000 hashes is set half of the time; false alarms below 1e-6 (5.9 sd, 128 bits)."""
    bits = np.unpackbits(keyed_hash(pl.Series(range(20_000)), KEY).view(np.uint8).reshape(-1, 16), axis=1)
    assert np.all(np.abs(bits.mean(axis=0) - 0.5) < 5.9 * 0.5 / np.sqrt(20_000))


@pytest.mark.parametrize("values", [[1, None], ["a", None], [1.0, 2.0], [True, False]])
def test_refuses_what_is_no_unit(values):
    with pytest.raises(DataError):
        keyed_hash(pl.Series(values), KEY)


def test_ascending_sorts_by_128_bits():
    generator = np.random.default_rng(1)
    hashes = generator.integers(0, 2**64, (500, 2), dtype=np.uint64)
    hashes[:100, 0] = hashes[0, 0]
    values = [(int(high) << 64) | int(low) for high, low in hashes[ascending(hashes)]]
    assert values == sorted(values)
