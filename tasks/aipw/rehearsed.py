"""Rehearsal of AIPW with a known propensity: its own releases on simulated people, with seeded noise."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Coverage
from causalveil.tasks.adjustment.draws import Drawn
from causalveil.tasks.adjustment.recipe import SCORES
from causalveil.tasks.aipw import stages
from causalveil.tasks.aipw.recipe import expected_of, known_recipe
from causalveil.tasks.aipw.scores import common_range, ends
from causalveil.tasks.enclave.split import Pieces
from causalveil.tasks.inference import bernstein
from causalveil.tasks.inference.assemble import EffectFindings, Noise
from causalveil.tasks.inference.people import enough, people
from causalveil.tasks.privacy.mechanisms import Laplace
from causalveil.tasks.privacy.rehearsal import RehearsalBudget

# People who stand for all units.
PEOPLE = 4_096


def rehearsed(study: AipwStudy, sizes: Sizes, stand_in: StandIn, seed: int) -> EffectFindings:
    """Return what the study would say of the stand-in population with one draw of noise; nothing is read."""
    recipe = known_recipe(study, sizes)
    told = stand_in.model_copy(update={"treated": recipe.chance})
    rows, units = people(study, told, min(enough(told, PEOPLE), sizes.units), True), sizes.units
    budget, times = RehearsalBudget(seed), units / len(rows)
    everybody = Pieces(lambda _: rows, 1, len(rows))
    # Outside each fold people are alike: its model differs from the others by noise alone.
    drawn = [Drawn(one, everybody, budget, times=one.public.units / len(rows)) for one in recipe.folds]
    models = [stages.learnt(recipe, one) for one in drawn]
    exact = stages.summed(recipe, [everybody] * len(models), models, 1) * times / len(models)
    return stages.findings(study, recipe, models, recipe.effect.release(exact, SCORES, budget))


def formula(study: AipwStudy, sizes: Sizes, stand_in: StandIn) -> float:
    """Return the expected half-width by formulas, which fall along budget and size."""
    recipe, width = known_recipe(study, sizes), study.outcome.width
    variance = expected_of(study, recipe, stand_in)
    if study.estimator.coverage is Coverage.normal_approximation:
        return min(NormalDist().inv_cdf((1 + study.confidence) / 2) * math.sqrt(variance) * width / 2, width)
    effect, bound = recipe.effect, common_range([ends(recipe.chance, (0.0, 0.0), 0.0)])
    noise = Noise(effect.known_scale, 1.0 if isinstance(effect, Laplace) else None)
    square = sizes.units**2 * max(variance / bound.half**2 - recipe.precision.noise**2, 0.0)
    half = bernstein.half_width(np.array([0.0, square]), noise, recipe.known_sizes, study.confidence)
    return min(half * bound.half * width / 2, width)
