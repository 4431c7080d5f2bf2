"""One run of a study's own stages on rows in memory, with seeded noise and no ledger, at several levels of confidence.

A second level reads the same releases again: only the last stage, which says the interval, is run anew.
"""

from __future__ import annotations

from typing import Any

from causalveil.flows.engine.engine import DirectEngine, R, Task
from causalveil.flows.estimators.stage import Run
from causalveil.flows.run.estimators import estimator_of
from causalveil.schemas.studies import parse_study
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.enclave import MemoryEnclave, Rows
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil_replication.accuracy.methods import CONFIDENCES, Method
from causalveil_replication.accuracy.populations import KnownPopulation


class Recorded(DirectEngine):
    """Runs stages and keeps what each returned; ``again`` hands out what was kept for all but the last stage.

    Stages are the same whatever the confidence, and the last alone reads it.
    """

    def __init__(self) -> None:
        """Nothing is kept yet."""
        super().__init__()
        self._kept: list[Any] = []
        self._place: int | None = None

    def again(self) -> Recorded:
        """From the first stage on, with what was kept."""
        self._place = 0
        return self

    def __call__(self, task: Task[R]) -> R:
        """Run ``task``, or hand out what it returned before."""
        if self._place is None:
            self._kept.append(super().__call__(task))
            found: R = self._kept[-1]
            return found
        self._place += 1
        if self._place < len(self._kept):
            known: R = self._kept[self._place - 1]
            return known
        return super().__call__(task)


def at_every_confidence(study: EffectStudy, rows: Rows, seed: int) -> list[Findings]:
    """One run, its interval said at each of ``CONFIDENCES``.

    Raises:
        CausalveilError: the estimator refuses, from public facts.
    """
    enclave, engine, found = MemoryEnclave.of(rows), Recorded(), []
    for place, confidence in enumerate(CONFIDENCES):
        asked = study.model_copy(update={"confidence": confidence})
        run = Run(asked, sizes_of(asked, enclave.units), enclave, RehearsalBudget(seed), None, rehearsal_seed=seed)
        one = estimator_of(asked).estimate(run, engine if place == 0 else engine.again())
        if not isinstance(one, Findings):
            raise TypeError(f"'{study.estimator.name}' finds no effect")
        found.append(one)
    return found


def study_of(population: KnownPopulation, method: Method, epsilon: str) -> EffectStudy:
    """Return the study of a run.

    Raises:
        TypeError: it asks for no effect.
    """
    study = parse_study(population.study(method.estimator(population), epsilon, method.delta, 0.95, method.level))
    if not isinstance(study, EffectStudy):
        raise TypeError("accuracy is measured of effects")
    return study
