"""A study's own estimate on rows in memory: what coverage studies and replications run, thousands of times.

No file, no ledger, no release: the stages and their order are those of a run of record.
"""

from __future__ import annotations

from typing import Any

from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.sequence.estimators import estimator_of
from causalveil.flows.sequence.run import Run
from causalveil.schemas.study import EffectStudy, Study
from causalveil.tasks.enclave.enclave import MemoryEnclave, Rows
from causalveil.tasks.enclave.split import sizes_of
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.privacy.mechanisms import Budget


def rehearse(study: Study, enclave: MemoryEnclave, budget: Budget, seed: int = 0) -> Any:
    """Run the study's estimator on rows in memory and return its findings.

    Args:
        study: the study.
        enclave: its rows. The same enclave may serve again: what is fitted exactly is fitted once.
        budget: where noise is drawn; ``RehearsalBudget`` for all but tests of budgets.
        seed: of learners that are stochastic.
    """
    run = Run(study, sizes_of(study, enclave.units), enclave, budget, source=None, rehearsal_seed=seed)
    return estimator_of(study).estimate(run, DirectEngine())


def rehearse_effect(study: EffectStudy, rows: Rows | MemoryEnclave, budget: Budget, seed: int = 0) -> EffectFindings:
    """Run the estimator of an effect on rows in memory and return its findings.

    Rows stand in the order of their hashes, from which halves and folds are cut.

    Raises:
        TypeError: the study's estimator finds no effect.
    """
    found = rehearse(study, MemoryEnclave.of(rows) if isinstance(rows, Rows) else rows, budget, seed)
    if not isinstance(found, EffectFindings):
        raise TypeError(f"'{study.estimator.name}' finds no effect")
    return found
