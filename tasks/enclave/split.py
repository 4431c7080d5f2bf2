"""Which units train the propensity model: those with the round(f n) smallest keyed hashes, exactly that many.

The choice depends on the units and the key alone, not on the order of rows or on how they are cut into files.
Normalised rows ascend by hash, so the training units of a partition are its first rows and the split is
one number per partition. Why the key must be secret: ``docs/privacy.md``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.errors import DataError, StudyError
from causalveil.schemas.study import Study
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.enclave.rows import HashArray, Rows
from causalveil.tasks.machine.arrays import IntArray

SPLIT = "split"


def training_size(units: int, fraction: float) -> int:
    """round(fraction * units), the public number of training units.

    Args:
        units: n >= 1.
        fraction: in (0, 1).

    Raises:
        StudyError: a half would be empty.
    """
    size = round(fraction * units)
    if not 0 < size < units:
        raise StudyError(
            f"train_fraction {fraction:g} of {units} units leaves one half of the split empty; "
            "change 'train_fraction' or bring more units"
        )
    return size


def leading_rows(hashes: Sequence[HashArray], size: int) -> IntArray:
    """How many of each partition's rows are among the ``size`` smallest hashes of all.

    Bisects the 128-bit threshold; each step counts by bisection within the partitions and narrows the
    rows that are still open, so the cost is a few hundred look-ups per partition whatever its size.

    Args:
        hashes: per partition shape (rows, 2), ascending by 128-bit value.
        size: 0 < size <= all rows.

    Raises:
        DataError: a hash stands twice at the threshold, so that a unit has two rows.
    """
    low, high = 0, 2**128 - 1
    below = [0] * len(hashes)
    above = [len(part) for part in hashes]
    while low < high and sum(above) != size:
        middle = (low + high) // 2
        counts = [_count(part, middle, start, stop) for part, start, stop in zip(hashes, below, above, strict=True)]
        if sum(counts) >= size:
            high, above = middle, counts
        else:
            low, below = middle + 1, counts
    if sum(above) != size:
        raise DataError("a unit occurs twice; each unit has one row over all partitions of the run")
    return np.array(above, dtype=np.int64)


@dataclass(frozen=True)
class Halves:
    """The rows of one run, cut into those that train a model and those that an effect is estimated on.

    ``edges``: shape (2, partitions); the leading rows of each partition that train, and the first that is estimated on.
    """

    enclave: Enclave
    edges: IntArray

    @classmethod
    def open(cls, enclave: Enclave) -> Halves:
        """Open what ``split`` left.

        Raises:
            CausalveilError: it has not run.
        """
        return cls(enclave, np.array(enclave.load(SPLIT)))

    @property
    def partitions(self) -> int:
        """How many there are."""
        return len(self.edges[0])

    def train(self, partition: int) -> Rows:
        """The training units of a partition."""
        return self.enclave.rows(partition)[: int(self.edges[0, partition])]

    def estimation(self, partition: int) -> Rows:
        """The estimation units of a partition."""
        return self.enclave.rows(partition)[int(self.edges[1, partition]) :]


def split_stage(study: Study, enclave: Enclave) -> None:
    """Leave in the enclave where each partition is cut: ``Halves.edges``.

    Where every unit serves every purpose both halves are all rows.

    Raises:
        StudyError: a half would be empty.
        DataError: a unit occurs twice.
    """
    hashes = enclave.hashes()
    lengths = np.array([len(part) for part in hashes], dtype=np.int64)
    if study.training_share is None:
        enclave.save(SPLIT, np.stack([lengths, np.zeros_like(lengths)]))
        return
    leading = leading_rows(hashes, training_size(int(lengths.sum()), study.training_share))
    enclave.save(SPLIT, np.stack([leading, leading]))


def _count(part: HashArray, threshold: int, start: int, stop: int) -> int:
    """Number of rows with a 128-bit value up to ``threshold``, known to be in [start, stop]."""
    return bisect_right(
        range(len(part)),
        threshold,
        lo=start,
        hi=stop,
        key=lambda row: (int(part[row, 0]) << 64) | int(part[row, 1]),
    )
