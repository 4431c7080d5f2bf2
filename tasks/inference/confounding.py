"""Words about confounding, and what declared or hidden confounding asks of an interval. All of it post-processing."""

from __future__ import annotations

import math

from causalveil.schemas.confounding import AdjustmentMethod, ConfoundingStatement, Shortfall, by

COVERS_DECLARED = "confounding up to the size that `confounding_prior` assumes"
COVERS_MODELS = "noise of slopes and weights"
COVERS_IMBALANCE = "imbalance that is left, up to the declared allowance"
# What no covariate holds is seen by no released number.
UNMEASURED = "confounding by variables that are not among the covariates"
NOT_COVERED_DECLARED = "confounding larger than the size that `confounding_prior` assumes"
NOT_COVERED_TRIAL = "confounding, if treatment was not randomised as the study declares"
# Of arms that are compared as they are.
NOT_COVERED_ARMS = "confounding: the arms are compared as if treatment had been randomised"

# What was done about confounding, as ``details["adjustment"]`` says it.
UNADJUSTED = "unadjusted"
RANDOMISED = "not adjusted: treatment was randomised"
# Of public weights that leave more than so much of what may confound, in deviations of the outcome, as is usual of
# differences in covariates (Austin 2009).
ENOUGH_LEFT = 0.1


def partly_if_left(method: AdjustmentMethod, left: float) -> ConfoundingStatement:
    """Return how far public weights adjust: in part where much imbalance is left.

    Args:
        method: whose weights they are.
        left: what they leave of the arms' differences, in standard deviations of the outcome.
    """
    return by(method, Shortfall.imbalance if left > ENOUGH_LEFT else None)


def part_hidden(hidden: int, columns: int) -> float:
    """Return the part, 0 to 1, of the declared confounding that hidden columns may have.

    Noise shows some columns by chance: where most are hidden, all are taken to be.
    """
    return 1.0 if hidden and 2 * hidden >= columns else math.sqrt(hidden / max(columns, 1))


def effect_in_twins(value: float, bias: float, square: float) -> float:
    """Return the least squared effect in differences of twins, for outcomes in [-1, 1].

    Differences of twins hold it beside the variance.

    An estimate that is off by a bias says so much less of twins, who are near each other: they would take off more
    than they hold, and leave the variance too small.

    Args:
        value: the estimate.
        bias: what it may be off by, in standard errors of sampling.
        square: the sampling variance before anything is taken off.
    """
    return max(min(abs(value), 2.0) - bias * math.sqrt(max(square, 0.0)), 0.0) ** 2
