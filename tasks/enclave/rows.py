"""Rows of one segment, and where a segment's files lie in a run's scratch folder (``enclave.py`` reads them)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from causalveil.tasks.machine.arrays import ByteArray, FloatArray

HashArray = NDArray[np.uint64]


@dataclass(frozen=True)
class Rows:
    """Aligned rows of one segment: x (rows, d), t (rows,) in {0, 1}, u (rows,) in [-1, 1]."""

    x: FloatArray
    t: ByteArray
    u: FloatArray

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.t)

    def __getitem__(self, part: slice) -> Rows:
        """A view of some of them."""
        return Rows(self.x[part], self.t[part], self.u[part])


def segment_folder(scratch: Path, index: int) -> Path:
    """Return the folder of segment ``index``."""
    return scratch / "enclave" / f"part-{index:05d}"
