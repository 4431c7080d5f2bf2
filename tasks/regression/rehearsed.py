"""What a regression would say of a stand-in population: the study's own steps on people who nobody is.

Their sums are scaled to the study's number of units and get seeded noise of the study's own mechanisms, a few times
over. Nothing is read.
"""

from __future__ import annotations

import math

import numpy as np

from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.study import CategoricalCovariate, Covariate
from causalveil.tasks.covariates.columns import Columns
from causalveil.tasks.enclave.folds import Pieces
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.inference.people import RARE, Rehearsed, enough, people
from causalveil.tasks.privacy.rehearsal import RehearsalBudget
from causalveil.tasks.regression.basis import features_of
from causalveil.tasks.regression.decide import choose, recipe
from causalveil.tasks.regression.interval import ThreeReleases, findings
from causalveil.tasks.regression.moments import moment_sums, moments_from
from causalveil.tasks.regression.recipe import EFFECT, MOMENTS, SCALES, RegressionRecipe
from causalveil.tasks.regression.scales import scale_sums, scales_from
from causalveil.tasks.regression.scores import score_sums

# Of 18 cells (four and three columns, 5,000 to 250,000 units, epsilon .2 to 4) six draws were within 3 % of twelve in
# 17, where noise alone counts to 11 %.
PEOPLE, DRAWS, FEW = 2048, 6, 3
# More of them where levels are rare.
OF_LEVELS = 8192
# The correlation of covariates at the wide end of what is expected.
ALIKE = 0.7


def rehearsed(study: RegressionStudy, sizes: Sizes, stand_in: StandIn, draws: int = DRAWS) -> Rehearsed:
    """What the study says of the stand-in population on average.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: what its reader assumes.
        draws: of noise.

    Raises:
        ValueError: the number of units is not known.
    """
    return _mean(study, sizes, people(study, stand_in, enough(stand_in, PEOPLE), study.estimator.trial), draws)


def ends(study: RegressionStudy, sizes: Sizes, stand_in: StandIn) -> dict[str, float]:
    """Half-widths of populations that are not as assumed, each by what it is, in words that follow *where*.

    Raises:
        ValueError: the number of units is not known.
    """
    count, trial = enough(stand_in, PEOPLE), study.estimator.trial
    alone = stand_in.model_copy(update={"correlation": 0.0})
    alike = stand_in.model_copy(update={"correlation": ALIKE})
    kinds = {
        "covariates are unrelated": people(study, alone, count, trial),
        f"any two are correlated by {ALIKE:g}": people(study, alike, count, trial),
    }
    if not trial:
        kinds["they have nothing to do with treatment"] = people(study, alone, count, randomised=True)
    if Columns.of(study).unscaled:
        kinds["numbers are log-normal without a declared scale"] = people(study, stand_in, count, trial, skewed=True)
    if any(_has_levels(one) for one in study.covariates.values()):
        many = max(count, OF_LEVELS)
        kinds[f"{RARE:.0%} have a flag and each level is half as frequent as the one before it"] = people(
            study, stand_in, many, trial, uneven=True
        )
    return {words: _mean(study, sizes, rows, FEW).half_width for words, rows in kinds.items()}


def _has_levels(covariate: Covariate) -> bool:
    return isinstance(covariate, CategoricalCovariate) or covariate.codes is not None


def _mean(study: RegressionStudy, sizes: Sizes, rows: Rows, draws: int) -> Rehearsed:
    plan = recipe(study, sizes)
    if plan.units is None:
        raise ValueError("what is expected needs the number of units")
    found = [_once(study, plan, rows, seed) for seed in range(draws)]
    return Rehearsed(*np.mean(found, axis=0).tolist())


def _once(study: RegressionStudy, plan: RegressionRecipe, rows: Rows, seed: int) -> tuple[float, ...]:
    units = plan.units or 0
    budget, many, pieces = RehearsalBudget(seed), units / len(rows), Pieces(lambda _: rows, 1, len(rows))
    columns = None if plan.moments is None else plan.columns
    released = plan.scales_mechanism().release(scale_sums(pieces, columns) * many, SCALES, budget)
    scales = scales_from(released, units, plan.scales_noise(), columns)
    mechanism, moments = plan.moments_mechanism(), None
    if mechanism is not None:
        features = features_of(study, plan, scales)
        released = mechanism.release(moment_sums(pieces, features) * many, MOMENTS, budget)
        noise = plan.moments_noise(features.count, len(features.arm_places))
        moments = moments_from(released, units, noise, features)
    used, choice, seen = choose(study, plan, scales, moments, drawn=min(units, len(rows)))
    scores = plan.effect_mechanism().release(score_sums(pieces, scales, used, choice) * many, EFFECT, budget)
    said = findings(study, plan, ThreeReleases(scales, used, choice, seen, scores))
    width = (said.interval.upper - said.interval.lower) / 2
    return width, math.sqrt(said.variance.noise), math.sqrt(said.variance.sampling), said.interval.bias or 0.0
