"""Orthogonal regression adjustment from three joint releases on all units (``docs/proofs/regression.md``).

    1  share, arm means and spreads of outcome and covariates from noisy sums     scales
    2  q = cov(x, y), D = x_1 - x_0 and G = cov(x) from noisy sums of scaled rows     moments
    3  b = G^-1 q, h = G^-1 D, towards each arm's own, or neither where that is narrower     adjustment, public
    4  sum of scores w (y - m_t - b'(x - x_t)), w = 1/p_t -+ h'(x - x_t) balanced     scores
    5  m_1 - m_0 - b'D + mean score, and its interval                             interval, public

Every unit is in all three releases, which compose to the study's total.
"""

from __future__ import annotations

from causalveil.flows.estimators.estimator import Estimator
from causalveil.flows.estimators.shared import ENTRY, EVERYBODY
from causalveil.flows.estimators.stage import Stage, recalled
from causalveil.flows.planning.regression import expected, formula, half_width, warned
from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.regression import decide, recipe, stages
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.interval import ThreeReleases
from causalveil.tasks.regression.lines.adjustment import Adjustment, Seen
from causalveil.tasks.regression.lines.joint import JointMoments
from causalveil.tasks.regression.scales import Scales

plan = recalled(decide.recipe)

SCALES = Stage[RegressionStudy, Scales](
    "scales",
    lambda step: stages.scales_stage(*step.given, step.budget),
    charges=lambda study, sizes: [(recipe.SCALES, plan(study, sizes).scales_mechanism())],
    reads=(EVERYBODY,),
)
MOMENTS = Stage[RegressionStudy, JointMoments | None](
    "moments",
    lambda step: stages.moments_stage(*step.given, step[SCALES], step.budget),
    charges=lambda study, sizes: [(recipe.MOMENTS, plan(study, sizes).moments_mechanism())],
    reads=(EVERYBODY, SCALES),
)
ADJUSTMENT = Stage[RegressionStudy, tuple[Features | None, Adjustment, Seen | None]](
    "adjustment",
    lambda step: stages.adjustment_stage(step.study, step.sizes, step[SCALES], step[MOMENTS]),
    reads=(SCALES, MOMENTS),
)
SCORES = Stage[RegressionStudy, FloatArray](
    "scores",
    lambda step: stages.scores_stage(*step.given, step[SCALES], *step[ADJUSTMENT][:2], step.budget),
    charges=lambda study, sizes: [(recipe.EFFECT, plan(study, sizes).effect_mechanism())],
    reads=(EVERYBODY, SCALES, ADJUSTMENT),
)
INTERVAL = Stage[RegressionStudy, EffectFindings](
    "interval",
    lambda step: stages.interval_stage(
        step.study, step.sizes, ThreeReleases(step[SCALES], *step[ADJUSTMENT], step[SCORES])
    ),
    reads=(SCALES, ADJUSTMENT, SCORES),
)

REGRESSION = Estimator(
    RegressionStudy,
    (*ENTRY, EVERYBODY, SCALES, MOMENTS, ADJUSTMENT, SCORES, INTERVAL),
    expected,
    formula,
    warned,
    wide=half_width,
    slow=True,
)
