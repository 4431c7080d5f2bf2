"""The one place where a contribution that is no number becomes one, before it is rounded to an integer."""

from __future__ import annotations

import numpy as np

from causalveil.tasks.machine.arrays import FloatArray


def bounded(values: FloatArray) -> FloatArray:
    """Values cut to [-1, 1]; NaN and infinities become 0, which every contribution may be and lengthens none.

    Declared numbers are checked (``schemas/columns.py``), so nothing here is ever infinite or NaN. If it were,
    an integer made of it would be the smallest there is, and one row would move a sum by 2^63.
    """
    cut: FloatArray = np.clip(values, -1.0, 1.0)
    finite = np.isfinite(values)
    return cut if finite.all() else np.where(finite, cut, 0.0)
