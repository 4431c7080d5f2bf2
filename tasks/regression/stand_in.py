"""The stand-in population by which a study is planned: what the first two releases would say of it. Nothing is read."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from causalveil.schemas.plan import StandIn
from causalveil.schemas.protocols.regression import RegressionStudy
from causalveil.tasks.covariates.columns import Columns
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.lines.joint import JointMoments
from causalveil.tasks.regression.moments import across_factor, of_arm
from causalveil.tasks.regression.recipe import RegressionRecipe
from causalveil.tasks.regression.scales import Scales, scales_from

# Of the stand-in population: the share of an arm's variance that covariates explain, and the arms' distance in their
# metric. In a trial the distance is 0, and covariates are declared for nothing but what they explain, which is little
# of an outcome of two values.
EXPLAINED, EXPLAINED_IN_TRIAL, EXPLAINED_OF_EVENTS, DISTANCE = 0.3, 0.5, 0.1, 1.0
# Cosine between what explains the outcome and what parts the arms.
ALIKE = 0.5


def expected_scales(study: RegressionStudy, plan: RegressionRecipe, units: int, stand_in: StandIn) -> Scales:
    """What release 1 says of the stand-in population."""
    half = study.outcome.width / 2
    deviation = min(1.0, (stand_in.deviation if stand_in.deviation is not None else half / 2) / half)
    arms = np.array([0.0, 0.0, math.sqrt(2) * stand_in.treated, deviation**2])
    columns = None if plan.moments is None else plan.columns
    released = np.concatenate([arms, _expected_columns(columns)]) if columns is not None else arms
    return scales_from(released * units, units, plan.scales_noise(), columns)


def _expected_columns(columns: Columns) -> FloatArray:
    """Released means of columns that have a standard deviation of a quarter of their declared width, none cut."""
    first = np.array(columns.weights) * columns.span / 2
    first[list(columns.numbers)] = 0.0
    square = columns.span**2 / 4 * math.sqrt(columns.covariates + 1)
    return np.concatenate([first, np.full(len(columns.numbers), square), np.zeros(len(columns.eighth))])


def expected_moments(
    study: RegressionStudy, plan: RegressionRecipe, units: int, scales: Scales, features: Features
) -> JointMoments:
    """What release 2 says of it: lengths with their noise, so that what is taken off later is there."""
    d, noise = features.count, plan.moments_noise(features.count, len(features.arm_places))
    variance = 1 / (features.cut**2 * d)
    square = (scales.spread / scales.limit) ** 2
    cross_error = plan.own_noise(noise) / units
    apart_error = noise / units * scales.larger / scales.between
    trial = study.estimator.trial
    distance, explained = DISTANCE**2, EXPLAINED
    if trial:
        distance, explained = 0.0, EXPLAINED_OF_EVENTS if study.outcome.two_valued else EXPLAINED_IN_TRIAL
    # In the metric of all units, which the arms' distance widens.
    apart = math.sqrt(variance * distance / (1 + scales.between * distance) + d * apart_error**2)
    cross = math.sqrt(variance * explained * square + d * cross_error**2)
    one, other = np.zeros(d), np.zeros(d)
    one[0] = 1.0
    other[:2] = (ALIKE, math.sqrt(1 - ALIKE**2)) if d > 1 else 1.0
    found = JointMoments(
        cross=cross * other,
        apart=apart * one,
        square=square,
        gram=variance * np.diag(features.variances),
        cross_error=cross_error,
        apart_error=apart_error,
        gram_error=noise / units * math.sqrt(0.5),
        shifts=features.shifts,
        unseen=features.unseen(apart * one),
    )
    own = features.arm_places
    if not len(own):
        return found

    def alone(share: float) -> JointMoments:
        """An arm whose covariances and slopes are those of the other."""
        arm = of_arm(found.of(own), share, plan.arm_factors(features))
        noisy = math.sqrt(variance * explained * square + d * arm.cross_error**2)
        apart_square = variance * distance / (1 + scales.between * distance)
        means = ((1 - share) ** 2 - scales.between) * apart_square * np.outer(one, one)
        return replace(arm, cross=(noisy * other)[own], gram=(found.gram + means)[np.ix_(own, own)])

    arms = replace(found, arms=(alone(scales.share), alone(1 - scales.share)), arm_places=own)
    if not len(arms.others):
        return arms
    return arms.with_across(
        (2 * scales.share - 1) * found.gram[np.ix_(own, arms.others)],
        scales.share,
        noise / units / across_factor(features),
    )
