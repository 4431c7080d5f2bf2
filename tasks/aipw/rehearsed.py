"""Rehearsal of AIPW with a known propensity: its own releases on simulated people, with seeded noise."""

from __future__ import annotations

from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.adjustment.draws import Drawn
from causalveil.tasks.adjustment.recipe import SCORES
from causalveil.tasks.aipw import stages
from causalveil.tasks.aipw.recipe import known_recipe
from causalveil.tasks.enclave.split import Pieces
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.inference.people import standing_for
from causalveil.tasks.privacy.rehearsal import RehearsalBudget


def rehearsed(study: AipwStudy, sizes: Sizes, stand_in: StandIn, seed: int) -> EffectFindings:
    """Return what the study would say of the stand-in population with one draw of noise.

    Nothing is read.
    """
    recipe = known_recipe(study, sizes)
    told = stand_in.model_copy(update={"treated": recipe.chance})
    rows, units = standing_for(study, told, sizes.units, True, seed), sizes.units
    budget, times = RehearsalBudget(seed), units / len(rows)
    everybody = Pieces(lambda _: rows, 1, len(rows))
    # Outside each fold people are alike: its model differs from the others by noise alone.
    drawn = [Drawn(one, everybody, budget, times=one.public.units / len(rows)) for one in recipe.folds]
    models = [stages.learnt(recipe, one) for one in drawn]
    exact = stages.summed(recipe, [everybody] * len(models), models, 1) * times / len(models)
    return stages.findings(study, recipe, models, recipe.effect.release(exact, SCORES, budget))
