"""The stages of a regression: three releases, what is learnt between them, and the interval."""

from __future__ import annotations

from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.plan import Sizes
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.enclave.folds import Folds, Pieces
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Budget
from causalveil.tasks.regression import interval
from causalveil.tasks.regression.basis import features_of
from causalveil.tasks.regression.decide import choose, recipe
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.interval import ThreeReleases
from causalveil.tasks.regression.lines.adjustment import Adjustment, Seen
from causalveil.tasks.regression.lines.joint import JointMoments
from causalveil.tasks.regression.moments import moment_sums, moments_from
from causalveil.tasks.regression.recipe import EFFECT, MOMENTS, SCALES, RegressionRecipe
from causalveil.tasks.regression.scales import Scales, scale_sums, scales_from
from causalveil.tasks.regression.scores import score_sums


def release_scales(study: RegressionStudy, plan: RegressionRecipe, pieces: Pieces, budget: Budget) -> Scales:
    """Release 1."""
    columns = None if plan.moments is None else plan.columns
    sums = scale_sums(pieces, columns, study.execution.workers)
    released = plan.scales_mechanism().release(sums, SCALES, budget)
    return scales_from(released, pieces.units, plan.scales_noise(), columns)


def release_moments(
    study: RegressionStudy, plan: RegressionRecipe, scales: Scales, pieces: Pieces, budget: Budget
) -> JointMoments | None:
    """Release 2; None where nothing is adjusted for."""
    mechanism = plan.moments_mechanism()
    if mechanism is None:
        return None
    features = features_of(study, plan, scales)
    released = mechanism.release(moment_sums(pieces, features, study.execution.workers), MOMENTS, budget)
    return moments_from(released, pieces.units, plan.moments_noise(features.count, len(features.arm_places)), features)


def release_scores(
    study: RegressionStudy,
    plan: RegressionRecipe,
    scales: Scales,
    features: Features | None,
    choice: Adjustment,
    pieces: Pieces,
    budget: Budget,
) -> FloatArray:
    """Release 3."""
    sums = score_sums(pieces, scales, features, choice, study.execution.workers)
    return plan.effect_mechanism().release(sums, EFFECT, budget)


def scales_stage(study: RegressionStudy, sizes: Sizes, enclave: Enclave, budget: Budget) -> Scales:
    """Release where covariates and outcomes lie, from all units."""
    return release_scales(study, recipe(study, sizes), Folds.open(enclave).fold(0), budget)


def moments_stage(
    study: RegressionStudy, sizes: Sizes, enclave: Enclave, scales: Scales, budget: Budget
) -> JointMoments | None:
    """Release the moments, from all units; None where nothing is adjusted for."""
    return release_moments(study, recipe(study, sizes), scales, Folds.open(enclave).fold(0), budget)


def adjustment_stage(
    study: RegressionStudy, sizes: Sizes, scales: Scales, moments: JointMoments | None
) -> tuple[Features | None, Adjustment, Seen | None]:
    """Decide what is adjusted for; reads nothing but released and public values."""
    return choose(study, recipe(study, sizes), scales, moments)


def scores_stage(
    study: RegressionStudy,
    sizes: Sizes,
    enclave: Enclave,
    scales: Scales,
    features: Features | None,
    choice: Adjustment,
    budget: Budget,
) -> FloatArray:
    """Release the sums of scores, from all units."""
    pieces = Folds.open(enclave).fold(0)
    return release_scores(study, recipe(study, sizes), scales, features, choice, pieces, budget)


def interval_stage(study: RegressionStudy, sizes: Sizes, found: ThreeReleases) -> EffectFindings:
    """The last stage: reads nothing but released and public values."""
    return interval.findings(study, recipe(study, sizes), found)
