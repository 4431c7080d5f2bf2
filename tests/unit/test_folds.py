"""Folds have exact public sizes, cover everybody once, and depend on units and key alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.tasks.data.enclave import FileEnclave, segment_folder
from causalveil.tasks.data.split import Folds, fold_sizes, folds_stage
from causalveil.tasks.machine.arrays import save_array


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
        inside, outside = cut.fold(fold), cut.without(fold)
        assert ranks(inside) == list(range(start, start + size))
        assert sorted(ranks(inside) + ranks(outside)) == list(range(sum(sizes)))
        assert (inside.units, outside.units) == (size, sum(sizes) - size)
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
