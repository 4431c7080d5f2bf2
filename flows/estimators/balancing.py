"""Minimal-noise balancing weights on public covariates and treatments.

Outcomes are private (``docs/proofs/balancing.md``); stages are those of ``label.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from causalveil.flows.estimators import label, table_plan
from causalveil.flows.estimators.estimator import Estimator
from causalveil.flows.estimators.rehearsal import rows_balanced
from causalveil.flows.estimators.table import Rehearsed
from causalveil.flows.estimators.words import Words, say_imbalance
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.remarks import PlanCode, Remark, remark


def words(study: BalancingStudy, sizes: Sizes, stand_in: StandIn, found: Sequence[Rehearsed]) -> Words:
    """Return what imbalance the weights leave, and the largest weight of the draws."""
    if not study.asks_one:
        return table_plan.words(study, sizes, stand_in, found)
    weight = max(float(draw.found.details["largest_weight"]) for draw in found)
    return Words(say_imbalance(found) if study.estimator.bias() > 0 else (), {"largest_weight": weight})


def warned(
    study: BalancingStudy, sizes: Sizes, stand_in: StandIn, few: Callable[[], Sequence[Rehearsed]]
) -> list[Remark]:
    """Return the warnings of a plan."""
    if not study.asks_one:
        return table_plan.warned(study, sizes, stand_in, few)
    return [remark(PlanCode.delta_unused)] if study.privacy.delta > 0 else []


BALANCING = Estimator(
    BalancingStudy,
    label.STAGES,
    rehearsal=lambda study: label.rehearsal(study, own=rows_balanced(study), bias_stays=False),
    words=words,
    warned=warned,
)
