"""Stages that several estimators share.

How rows enter, and how they are cut into halves and folds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from causalveil.flows.estimators.stage import Stage, StageRun
from causalveil.schemas.study import Study
from causalveil.tasks.enclave import normalise, split, validate


def _validate(step: StageRun[Any]) -> None:
    where = step.source
    validate.validate_stage(step.study, where.folder, where.layout, where.admission)


VALIDATE = Stage[Study, None]("validate", _validate, from_files=True)


def normalised_by(write: Callable[[], Callable[..., None]]) -> Stage[Any, None]:
    """Return the stage that writes normalised rows into the enclave.

    ``write``: returns the function that writes the rows that an estimator needs of one segment.
    """

    def run(step: StageRun[Any]) -> None:
        where = step.source
        place = (where.folder, where.layout, where.scratch)
        normalise.normalise_stage(step.study, *place, where.run_id, where.seed, write())

    return Stage("normalise", run, reads=(VALIDATE,), from_files=True)


NORMALISE = normalised_by(lambda: normalise.normalise_segment)
ENTRY: tuple[Stage[Any, None], ...] = (VALIDATE, NORMALISE)
"""The first two stages of every estimator: hold the partitions to their manifest, normalise them into the enclave."""

HALVES = Stage[Study, None]("split", lambda step: split.split_stage(step.study, step.enclave), reads=(NORMALISE,))
EVERYBODY = Stage[Study, None]("folds", lambda step: split.folds_stage(step.enclave, 1), reads=(NORMALISE,))
"""Everybody is one fold."""
