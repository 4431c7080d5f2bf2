"""A budget for rehearsals: seeded noise, a list of charges, no ledger.

For replicating papers' tables on public or synthetic data, where thousands of draws are wanted and none is a release.
It keeps no promise to anybody: it has no reservation, so no release document can be made from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from causalveil.schemas.privacy import Charge
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.noise import NoiseSource, SeededNoise


class RehearsalBudget:
    """Grants every charge, remembers it, and draws from a seed."""

    def __init__(self, seed: int) -> None:
        """Start from ``seed``, which fixes every draw."""
        self._noise: NoiseSource = SeededNoise(seed)
        self.charges: list[Charge] = []

    def spend(self, charge: Charge, draw: Callable[[NoiseSource], FloatArray]) -> FloatArray:
        """Remember the charge and draw, shape (d,)."""
        self.charges.append(charge)
        return draw(self._noise)

    def spend_records(self, charge: Charge, draw: Callable[[NoiseSource], NDArray[Any]]) -> NDArray[Any]:
        """Remember the charge and draw an entry per unit, shape (n,)."""
        self.charges.append(charge)
        return draw(self._noise)
