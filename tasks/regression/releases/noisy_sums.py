"""What a draw of noisy sums needs, whether one question asks for it or all questions of a protocol together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from causalveil.schemas.errors import ChargesDiffer
from causalveil.tasks.enclave.folds import Pieces
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Budget, Mechanism, Slot

R = TypeVar("R")


class Names(Protocol):
    """A recipe that says what its releases are called."""

    def slot(self, slot: Slot) -> Slot:
        """Return what a release is called here, and whom it is charged to."""


P = TypeVar("P", bound=Names)


@dataclass(frozen=True)
class NoisySums(Generic[P]):
    """All that a release needs beside what it sums.

    Attributes:
        recipe: costs and sizes.
        pieces: all units.
        budget: of the stage that draws.
        workers: threads; no sum depends on it.
        times: of rehearsals on fewer people than there are units: how many each stands for.
    """

    recipe: P
    pieces: Pieces
    budget: Budget
    workers: int = 1
    times: float = 1.0

    def noisy(self, slot: Slot, mechanism: Mechanism, exact: FloatArray) -> FloatArray:
        """Draw noise on sums, shape (numbers,); a number of 0 where there are none: what is declared is drawn."""
        drawn = mechanism.release(exact if len(exact) else np.zeros(1), self.recipe.slot(slot), self.budget)
        return drawn[: len(exact)]


def made(released: R | None) -> R:
    """Return what a release that every study has said.

    Raises:
        ChargesDiffer: it was not made.
    """
    if released is None:
        raise ChargesDiffer("an adjustment lacks a release that every study has; report this")
    return released
