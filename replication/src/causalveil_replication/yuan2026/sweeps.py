"""Figures 4, 6, 9, 11 and 12 of Yuan et al. 2026: the error coefficients c and h, and how the budget is divided."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from causalveil.flows.run.estimators import rehearse_effect
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil_replication.yuan2026.errors import RelativeError

if TYPE_CHECKING:
    from causalveil_replication.yuan2026.runs import Prepared

RATIOS = (1, 3, 5, 7)
COEFFICIENTS = {
    "label": ("0.0001", "0.001", "0.01", "0.1", "1"),
    "sample": ("0.00001", "0.0001", "0.001", "0.01", "0.1"),
}
COEFFICIENT_EPSILONS = ("0.5", "1", "2", "4")
ALLOCATION_EPSILONS = ("1.5", "2.5", "3.5")
TENTHS = tuple(Decimal(tenths) / 10 for tenths in range(1, 9))


def coefficients(prepared: Prepared, level: str) -> Iterator[dict[str, object]]:
    """Relative error over c (label level) or h (sample level), N and epsilon; caps adaptive, mechanism the paper's."""
    for ratio in RATIOS:
        for coefficient in COEFFICIENTS[level]:
            settings = {"ratio": ratio, "error_coefficient": float(coefficient), "variant": "paper"}
            for epsilon in COEFFICIENT_EPSILONS:
                error, caps = _runs(prepared, settings, level, epsilon, ratio)
                yield {
                    "data": prepared.data.name,
                    "level": level,
                    "neighbours": ratio,
                    "coefficient": float(coefficient),
                    "epsilon": float(epsilon),
                    **error,
                    "uses_of_a_treated_unit_at_most": caps[0],
                    "uses_of_a_control_at_most": caps[1],
                }


def allocations(prepared: Prepared) -> Iterator[dict[str, object]]:
    """Relative error over the shares of scores (half model, half scores) and treatments; the rest is the outcome's."""
    for scores in TENTHS:
        for treatment in TENTHS:
            outcome = 1 - scores - treatment
            if outcome <= 0:
                continue
            shares = {"weights": scores / 2, "scores": scores / 2, "treatment": treatment, "outcome": outcome}
            settings = {"budget_shares": {name: str(share) for name, share in shares.items()}, "variant": "paper"}
            for epsilon in ALLOCATION_EPSILONS:
                error, _ = _runs(prepared, settings, "sample", epsilon, 5)
                yield {
                    "data": prepared.data.name,
                    "scores_share": float(scores),
                    "treatment_share": float(treatment),
                    "outcome_share": float(outcome),
                    "epsilon": float(epsilon),
                    **error,
                }


def _runs(
    prepared: Prepared, settings: dict[str, Any], level: str, epsilon: str, ratio: int
) -> tuple[dict[str, object], tuple[int, int]]:
    """Error over the runs, and the largest caps."""
    from causalveil.schemas.estimators.matching import MatchingStudy

    document = prepared.data.document(
        {"name": "matching", "penalty": prepared.penalty, **settings}, {"epsilon": epsilon, "delta": 0, "level": level}
    )
    study = MatchingStudy.model_validate(document)
    found = [rehearse_effect(study, rows, RehearsalBudget(seed)) for seed, rows in enumerate(prepared.rows)]
    error = RelativeError.of([one.estimate for one in found], prepared.truth[ratio])
    most = [max(int(one.details[name]) for one in found) for name in ("cap_treated", "cap_controls")]
    numbers: dict[str, object] = {
        "relative_error": round(error.mean, 6),
        "standard_error": round(error.standard_error, 6),
        "runs": error.runs,
    }
    return numbers, (most[0], most[1])
