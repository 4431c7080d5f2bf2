"""Rehearsal of a regression study: its own releases and steps on simulated people.

Sums are scaled to the study's number of units and get seeded noise. Nothing is read.
"""

from __future__ import annotations

from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.adjustment import draws
from causalveil.tasks.enclave.split import Pieces
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.inference.people import standing_for
from causalveil.tasks.privacy.rehearsal import RehearsalBudget
from causalveil.tasks.regression import stages
from causalveil.tasks.regression.stages import recipe


def rehearsed(study: RegressionStudy, sizes: Sizes, stand_in: StandIn, seed: int) -> EffectFindings:
    """Return what the study would say of the stand-in population with one draw of noise."""
    rows = standing_for(study, stand_in, sizes.units, study.estimator.trial, seed)
    plan, pieces = recipe(study, sizes), Pieces(lambda _: rows, 1, len(rows))
    drawn = draws.Drawn(plan, pieces, RehearsalBudget(seed), times=sizes.units / len(rows))
    return stages.findings(study, *draws.in_order(drawn, drawn.scales()))
