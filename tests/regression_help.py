"""Tables and whole analyses for tests of regression."""

from __future__ import annotations

import numpy as np

from causalveil.flows.sequence.rehearse import rehearse_effect
from causalveil.schemas.estimators.adjustment import AdjustmentStudy
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.privacy.rehearsal import RehearsalBudget
from tests.adjustment_help import make_adjustment

make_regression = make_adjustment


def analysed(study: AdjustmentStudy, rows: Rows, seed: int = 0) -> EffectFindings:
    """The whole estimator with seeded noise."""
    return rehearse_effect(study, rows, RehearsalBudget(seed))


def in_rows(z: np.ndarray, t: np.ndarray, u: np.ndarray) -> Rows:
    """Covariates in [-1, 1], shape (n, p), with their intercept as rows of the unit ball."""
    x = np.column_stack([z, np.ones(len(z))]) / np.sqrt(z.shape[1] + 1) * (1 - 2.0**-40)
    return Rows(x, np.asarray(t, dtype=np.uint8), np.asarray(u, dtype=np.float64))
