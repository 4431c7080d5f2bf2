"""Orthogonal regression adjustment from three joint releases on all units (``docs/proofs/regression.md``).

    1  share, arm means and spreads of outcome and covariates from noisy sums     scales
    2  q = cov(x, y), D = x_1 - x_0 and G = cov(x) from noisy sums of scaled rows     moments
    3  b = G^-1 q, h = G^-1 D, towards each arm's own, or neither where that is narrower     adjustment, public
    4  sum of scores w (y - m_t - b'(x - x_t)), w = 1/p_t -+ h'(x - x_t) balanced     scores
    5  m_1 - m_0 - b'D + mean score, and its interval                             interval, public

Every unit is in all three releases, which compose to the study's total.
"""

from __future__ import annotations

from causalveil.flows.engine.engine import Engine
from causalveil.flows.planning.regression import expected, formula, warned
from causalveil.flows.sequence.run import Run, enter
from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Charge
from causalveil.tasks.enclave import folds
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.regression import stages
from causalveil.tasks.regression.interval import ThreeReleases

__all__ = ["declare", "estimate", "expected", "formula", "warned"]


def declare(study: RegressionStudy, sizes: Sizes | None) -> tuple[Charge, ...]:
    """Every charge of the study, from public facts alone."""
    return stages.declare(study, sizes)


def estimate(run: Run[RegressionStudy], stage: Engine) -> EffectFindings:
    """The order of the stages. Everybody is one fold."""
    study, sizes, enclave, budget = run.study, run.sizes, run.enclave, run.budget
    enter(run, stage)
    stage(folds.folds_stage, enclave, 1)
    scales = stage(stages.scales_stage, study, sizes, enclave, budget)
    moments = stage(stages.moments_stage, study, sizes, enclave, scales, budget)
    features, choice, seen = stage(stages.adjustment_stage, study, sizes, scales, moments)
    scores = stage(stages.scores_stage, study, sizes, enclave, scales, features, choice, budget)
    return stage(stages.interval_stage, study, sizes, ThreeReleases(scales, features, choice, seen, scores))
