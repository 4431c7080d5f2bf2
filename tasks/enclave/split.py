"""Which units train the propensity model: those with the round(f n) smallest keyed hashes, exactly that many.

The choice depends on the units and the key alone, not on the order of rows or on how they are cut into files.
Normalised rows ascend by hash, so the training units of a segment are its first rows and the split is
one number per segment. Why the key must be secret: ``docs/privacy.md``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np

from causalveil.schemas.errors import DataError, StudyError
from causalveil.schemas.study import Study
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.enclave.rows import HashArray, Rows
from causalveil.tasks.enclave.unit_hash import ascending
from causalveil.tasks.machine.arrays import IntArray

SPLIT = "split"
# How far from its expected place the threshold is sought at first; sqrt(n) / 2 is at least one standard error.
STANDARD_ERRORS = 8


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
    """Count each segment's rows that are among the ``size`` smallest hashes of all.

    Keyed hashes are uniform, so the threshold is sought near size / units of their range: a few thousand of 1e8 rows
    are copied and sorted, and one segment is open at a time. A range that turns out too narrow is widened.

    Args:
        hashes: per segment shape (rows, 2), ascending by 128-bit value.
        size: 0 < size <= all rows.

    Raises:
        DataError: a hash stands twice at the threshold, so that a unit has two rows.
    """
    units = sum(map(len, hashes))
    middle, spread = size * 2**64 // units, (isqrt(units) + 1) * STANDARD_ERRORS * 2**64 // units
    while True:
        low, high = max(0, middle - spread), min(2**64, middle + spread)
        below, near = np.zeros(len(hashes), dtype=np.int64), []
        for index, part in enumerate(hashes):
            below[index] = bisect_left(part[:, 0], low)
            # A copy, so that the segment does not stay open.
            near.append(np.array(part[int(below[index]) : bisect_left(part[:, 0], high)]))
        wanted = size - int(below.sum())
        if 0 < wanted <= sum(map(len, near)):
            break
        spread *= STANDARD_ERRORS
    values = np.concatenate(near)
    order = ascending(values)
    if wanted < len(order) and np.array_equal(values[order[wanted - 1]], values[order[wanted]]):
        raise DataError("a unit occurs twice; each unit has one row over all partitions of the run")
    owners = np.repeat(np.arange(len(near)), [len(part) for part in near])
    return below + np.bincount(owners[order[:wanted]], minlength=len(near))


@dataclass(frozen=True)
class Halves:
    """The rows of one run, cut into those that train a model and those that an effect is estimated on.

    ``edges``: shape (2, segments); the leading rows of each segment that train, and the first that is estimated on.
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
    def segments(self) -> int:
        """Number of segments."""
        return len(self.edges[0])

    def train(self, segment: int) -> Rows:
        """The training units of a segment."""
        return self.enclave.rows(segment)[: int(self.edges[0, segment])]

    def estimation(self, segment: int) -> Rows:
        """The estimation units of a segment."""
        return self.enclave.rows(segment)[int(self.edges[1, segment]) :]


def split_stage(study: Study, enclave: Enclave) -> None:
    """Leave in the enclave where each segment is cut: ``Halves.edges``.

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
