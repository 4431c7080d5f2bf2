"""What an adjustment would say of a stand-in population: the study's own releases and steps on people who nobody is.

Their sums are scaled to the study's number of units and get seeded noise. Nothing is read.
"""

from __future__ import annotations

from causalveil.schemas.estimators.adjustment import AdjustmentStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.adjustment.releases import stages
from causalveil.tasks.adjustment.releases.recipe import recipe
from causalveil.tasks.enclave.folds import Pieces
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.inference.people import enough, people
from causalveil.tasks.privacy.rehearsal import RehearsalBudget

# People who stand for all units.
PEOPLE = 4_096


def rehearsed(study: AdjustmentStudy, sizes: Sizes, stand_in: StandIn, seed: int) -> EffectFindings:
    """Return what the study would say of the stand-in population with one draw of noise."""
    rows = people(study, stand_in, min(enough(stand_in, PEOPLE), sizes.units), study.estimator.trial)
    plan, pieces = recipe(study, sizes), Pieces(lambda _: rows, 1, len(rows))
    drawn = stages.Drawn(plan, pieces, RehearsalBudget(seed), times=sizes.units / len(rows))
    scales = drawn.scales()
    asked = stages.with_lines(plan, scales, drawn.lines(stages.begun(plan, scales)))
    asked = stages.with_screen(asked, drawn.screen(asked))
    asked = stages.with_refit(asked, drawn.refit(asked))
    return stages.findings(study, asked, drawn.scores(asked))
