"""Rehearsal of a regression study: its own releases and steps on simulated people, and the half-width by formulas.

Sums are scaled to the study's number of units and get seeded noise. Nothing is read.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.tasks.adjustment import draws
from causalveil.tasks.adjustment.decide import leaning
from causalveil.tasks.adjustment.draws import PEOPLE
from causalveil.tasks.adjustment.parts import FULL, MOMENTS, PURE, SCORES, SCORES_L1, noise_sd
from causalveil.tasks.enclave.split import Pieces
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.inference.people import enough, people
from causalveil.tasks.privacy.rehearsal import RehearsalBudget
from causalveil.tasks.regression import stages
from causalveil.tasks.regression.stages import recipe

# Of the formula: where residuals and scores are cut, in deviations; rows in a ball of so many roots of their number.
CUT, BALL = 3.0, 1.4


def rehearsed(study: RegressionStudy, sizes: Sizes, stand_in: StandIn, seed: int) -> EffectFindings:
    """Return what the study would say of the stand-in population with one draw of noise."""
    rows = people(study, stand_in, min(enough(stand_in, PEOPLE), sizes.units), study.estimator.trial)
    plan, pieces = recipe(study, sizes), Pieces(lambda _: rows, 1, len(rows))
    drawn = draws.Drawn(plan, pieces, RehearsalBudget(seed), times=sizes.units / len(rows))
    return stages.findings(study, *draws.in_order(drawn, drawn.scales()))


def formula(study: RegressionStudy, sizes: Sizes, stand_in: StandIn) -> float:
    """Return the half-width by formulas, which fall along budget and size: for curves between rehearsals.

    Of d lines slopes and differences of the arms are N(0, R^2/d) and N(0, D^2/d), seen with the noise of release 2;
    what is left of both, a product in each line, stands beside sampling and the noise of release 5.
    """
    public, p = recipe(study, sizes).public, stand_in.treated
    parts, d, between = PURE if public.pure else FULL, len(public.columns), p * (1 - p)
    moments = noise_sd(public, parts.lines, MOMENTS, 2 * d + d * d) * BALL * math.sqrt(d + 1)
    scores = noise_sd(public, parts.scores, math.sqrt(2) * SCORES_L1 if public.pure else SCORES, 1)
    explained, distance = stand_in.explained, 0.0 if study.estimator.trial else public.prior.distance**2
    gram = moments * BALL * math.sqrt(d + 1)
    slope = _left(explained / d, (CUT * moments) ** 2 + gram**2 * explained)
    arms = _left(distance / d, (moments * max(p, 1 - p) / between) ** 2 + gram**2 * distance)
    lean, parts_of_arms = leaning(public.estimand, p), (p, 1 - p)
    weights = [math.sqrt(1 + k**2 * distance) / part for k, part in zip(lean, parts_of_arms, strict=True)]
    unit = math.sqrt(1 - explained) * max(weights)
    sampling = (1 - explained) * sum(w**2 * part for w, part in zip(weights, parts_of_arms, strict=True)) / sizes.units
    error = math.sqrt(d * slope * arms + sampling + (CUT * unit * scores) ** 2)
    deviation = study.outcome.width / 4 if stand_in.deviation is None else stand_in.deviation
    return min(NormalDist().inv_cdf((1 + study.confidence) / 2) * error * deviation, study.outcome.width)


def _left(prior: float, noise: float) -> float:
    """Return the variance that is left of a number with this one, seen with noise of that one."""
    return prior * noise / (prior + noise) if prior > 0 else 0.0
