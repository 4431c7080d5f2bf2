"""The people of whom `plan` speaks where covariates and treatments are public: those of the run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from causalveil.tasks.enclave.enclave import MemoryEnclave, Rows

# People of a smaller arm that are rehearsed at least, as far as there are as many.
SMALLER = 256


@dataclass(frozen=True)
class PublicPeople:
    """Covariates and treatments of a run's people, or of an even part of them.

    Their outcomes are not included.

    Attributes:
        rows: shape (n, d) and (n,), as a run normalises them.
    """

    rows: Rows
    _kept: dict[int, MemoryEnclave] = field(default_factory=dict, repr=False, compare=False)

    @property
    def treated(self) -> float:
        """The share of the treated."""
        return float(np.count_nonzero(self.rows.t)) / len(self.rows)

    def enclave(self, most: int) -> MemoryEnclave:
        """Return an enclave of at most so many of them, evenly, or more where an arm is rare."""
        rare = min(self.treated, 1 - self.treated)
        count = min(len(self.rows), max(most, math.ceil(SMALLER / rare) if rare > 0 else most))
        if count not in self._kept:
            self._kept[count] = MemoryEnclave.of(thinned(self.rows, count))
        return self._kept[count]


def thinned(rows: Rows, most: int) -> Rows:
    """Return at most so many rows, evenly, without their outcomes."""
    count = min(len(rows), most)
    chosen = np.arange(count) * len(rows) // count
    return Rows(rows.x[chosen], rows.t[chosen], np.zeros(count))
