"""How far private matching is from matching without privacy: the measure of Yuan et al. 2026, section IV-A."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.estimate.models.nearest import NO_CAP, match_capped
from causalveil.tasks.estimate.papers.matching.scores import exact_scores
from causalveil.tasks.machine.arrays import FloatArray


@dataclass(frozen=True)
class RelativeError:
    """|estimate - truth| / |truth| over independent runs: mean, its standard error, number of runs."""

    mean: float
    standard_error: float
    runs: int

    @classmethod
    def of(cls, estimates: Sequence[float], truth: float) -> RelativeError:
        """From at least one estimate; the standard error of one is infinite."""
        return cls.mean_of((np.abs(np.asarray(estimates) - truth) / abs(truth)).tolist())

    @classmethod
    def mean_of(cls, found: Sequence[float]) -> RelativeError:
        """From at least one relative error; the standard error of one is infinite."""
        errors = np.asarray(found)
        runs = len(errors)
        standard_error = float(errors.std(ddof=1)) / math.sqrt(runs) if runs > 1 else math.inf
        return cls(float(errors.mean()), standard_error, runs)


def penalty(units: int, covariates: int) -> float:
    """The ridge penalty of the common Python packages (C = 1 on covariates in [0, 1]) in our scaling, one digit.

    They minimise sum of losses + ||v||^2/2 in x in [0, 1]^p; we mean of losses + penalty ||w||^2/2 in z = (2x - 1) /
    sqrt(p + 1), so v = 2 w/sqrt(p + 1) and the penalty is 4/(n (p + 1)). At least 1e-6, the least that a study allows.
    """
    return float(f"{max(1e-6, 4 / (units * (covariates + 1))):.0e}")


def non_private_estimate(rows: Rows, coefficients: FloatArray, ratio: int, width: float) -> float:
    """The matching estimate of the average effect without caps and without noise.

    Args:
        rows: in the order of traversal, which decides ties.
        coefficients: of the propensity model without noise, shape (d,).
        ratio: N.
        width: B, so that outcomes are u B/2 plus a constant.
    """
    matching = match_capped(exact_scores(rows, coefficients), rows.t, ratio, (NO_CAP, NO_CAP))
    sign = np.where(rows.t != 0, 1.0, -1.0)
    return float(np.mean(sign * (1 + matching.uses / ratio) * rows.u)) * width / 2
