"""Division of combinations of levels into strata, in a public order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from causalveil.tasks.machine.arrays import IntArray


def divided(levels: Sequence[int], seen: Callable[[IntArray], bool]) -> list[IntArray]:
    """Divide combinations of levels into as many strata as are seen.

    Levels of the last column are pooled first, each with its neighbours in their declared order; then those of the
    column before it. In the end all combinations may be one stratum.

    Args:
        levels: how many each column has.
        seen: whether combinations are seen together; they are counted from 0, those of the last column side by side.

    >>> [one.tolist() for one in divided((2, 3), lambda members: len(members) >= 2)]
    [[0, 1, 2], [3, 4, 5]]
    """
    return _parts(np.arange(math.prod(levels)).reshape(1, *levels), seen)


def _parts(members: IntArray, seen: Callable[[IntArray], bool]) -> list[IntArray]:
    """Divide combinations of shape (those of columns before, levels of each column behind)."""
    whole = members.reshape(-1)
    if members.ndim == 1 or not seen(whole):
        return [whole]
    ends = [0]
    for end in range(1, members.shape[1] + 1):
        if seen(members[:, ends[-1] : end].reshape(-1)):
            ends.append(end)
    # Levels that are left over join those before them.
    ends = [*ends[: max(len(ends) - 1, 1)], members.shape[1]]
    parts = (members[:, first:end].reshape(-1, *members.shape[2:]) for first, end in pairwise(ends))
    return [stratum for part in parts for stratum in _parts(part, seen)]
