"""Published tables in place of generators: what an interval should hold is least squares on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from causalveil.schemas.plan import StandIn
from causalveil.tasks.machine.arrays import FloatArray
from causalveil_replication.accuracy.populations import SEED, STAND_IN_RUN, KnownPopulation


def _nobody(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    raise NotImplementedError


@dataclass(frozen=True)
class PublicTable(KnownPopulation):
    """A table, or several draws of one, in place of a generator.

    Attributes:
        frames: columns unit, t, y and the covariates; run k has the k-th of them, again and again.
        truths: what an interval of each should hold.
        simulated: from a generator and the table: treatment and outcome anew, for rows drawn with replacement.
        known: whether the truth is one, not least squares on the same rows.
    """

    frames: tuple[pl.DataFrame, ...] = ()
    truths: tuple[float, ...] = ()
    simulated: Callable[[np.random.Generator, pl.DataFrame], pl.DataFrame] | None = None
    known: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """The table's number of rows."""
        return (self.frames[0].height,)

    @property
    def chance(self) -> float:
        """The share that the trial treated."""
        return float(self.frames[0]["t"].to_numpy().mean())

    def truth_in(self, run: int) -> float:
        """The effect in the draw of run ``run``, or least squares on it."""
        return self.truths[run % len(self.truths)]

    def stand_in(self) -> StandIn:
        """Return what a planner would have to guess, on average over the draws of the runs."""
        if self.simulated is not None:
            return super().stand_in()
        return _average([self._stand_in_of(frame) for frame in self.frames])

    def draw(self, units: int, run: int) -> pl.DataFrame:
        """All rows in an order of the run's own, from which halves and folds are cut; ``units`` is theirs."""
        del units
        random = np.random.default_rng([SEED, *self.name.encode(), run])
        frame = self.frames[0 if run == STAND_IN_RUN else run % len(self.frames)]
        if self.simulated is not None:
            frame = self.simulated(random, frame[random.integers(0, frame.height, frame.height)])
        return frame[random.permutation(frame.height)].with_columns(unit=np.arange(frame.height))


def _average(found: Sequence[StandIn]) -> StandIn:
    """Average the stand-ins of several draws of one table."""
    each = [one.model_dump() for one in found]
    known = {name: [one[name] for one in each] for name in each[0] if each[0][name] is not None}
    return StandIn(**{name: float(np.mean(values)) for name, values in known.items()})
