"""Tables and whole analyses for tests of regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from causalveil.flows.sequence.rehearse import rehearse_effect
from causalveil.schemas.estimators.adjustment import AdjustmentStudy
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.privacy.rehearsal import RehearsalBudget
from causalveil.tasks.regression.scales import Scales
from tests.adjustment_help import make_adjustment

make_regression = make_adjustment


def analysed(study: AdjustmentStudy, rows: Rows, seed: int = 0) -> EffectFindings:
    """The whole estimator with seeded noise."""
    return rehearse_effect(study, rows, RehearsalBudget(seed))


def in_rows(z: np.ndarray, t: np.ndarray, u: np.ndarray) -> Rows:
    """Covariates in [-1, 1], shape (n, p), with their intercept as rows of the unit ball."""
    x = np.column_stack([z, np.ones(len(z))]) / np.sqrt(z.shape[1] + 1) * (1 - 2.0**-40)
    return Rows(x, np.asarray(t, dtype=np.uint8), np.asarray(u, dtype=np.float64))


def even_scales(columns: int, **changes: Any) -> Scales:
    """Release 1 without noise, of so many columns around 0 and of two arms of one size."""
    known: dict[str, Any] = {
        "share": 0.5,
        "share_error": 0.0,
        "means": (0.0, 0.0),
        "mean_errors": (0.0, 0.0),
        "mean_noises": (0.0, 0.0),
        "noise": 0.0,
        "spread": 0.2,
        "centre": np.zeros(columns),
        "deviation": np.full(columns, 0.1),
        "centre_error": np.zeros(columns),
        "powers": np.zeros(columns),
    }
    return Scales(**known | changes)


def uneven_scales(columns: int, share: float = 0.3, shift: float = 0.1, deviation: float = 0.2) -> Scales:
    """Arms of two sizes, means off the middle, and columns of deviations up to twice as large."""
    return even_scales(
        columns,
        share=share,
        means=(0.2, -0.3),
        spread=0.3,
        centre=np.full(columns, shift),
        deviation=np.linspace(deviation, 2 * deviation, columns),
    )
