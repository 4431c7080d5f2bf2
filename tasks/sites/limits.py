"""The limits of several releases' intervals as one text, each limit once."""

from __future__ import annotations

import re
from collections.abc import Iterable

from causalveil.tasks.survival.findings import GRID

_OF_A_GRID = re.compile(re.escape(GRID).replace(r"\{\}", r"(\d+)"))


def united(texts: Iterable[str]) -> str:
    """Return what no interval of several releases holds.

    Releases may divide follow-up into different numbers of intervals, which are one limit.

    >>> united(["error of dividing follow-up into 50 intervals", "error of dividing follow-up into 30 intervals"])
    'error of dividing follow-up into 30 to 50 intervals'
    """
    found = dict.fromkeys(part for text in texts for part in text.split("; ") if part)
    grids = sorted({int(one[1]) for part in found if (one := _OF_A_GRID.fullmatch(part))})
    if len(grids) > 1:
        together = GRID.format(f"{grids[0]} to {grids[-1]}")
        found = dict.fromkeys(together if _OF_A_GRID.fullmatch(part) else part for part in found)
    return "; ".join(found)
