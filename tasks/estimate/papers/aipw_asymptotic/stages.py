"""Run the asymptotic guarantee for a study: charges, stage, interval.

The mathematics is in ``tasks/estimate/papers/aipw_asymptotic/influence.py``.
"""

from __future__ import annotations

import math

import numpy as np

from causalveil.schemas.columns import CategoricalCovariate
from causalveil.schemas.confounding import AdjustmentMethod, ConfoundingStatement, by, of_trial
from causalveil.schemas.errors import StudyError
from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.schemas.limits import Code, limit
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import PrivacyCost
from causalveil.tasks.data.covariates import blocks, dimension, scale
from causalveil.tasks.data.enclave import Enclave, Rows
from causalveil.tasks.data.split import Folds, Pieces
from causalveil.tasks.estimate.interval import Estimate, Findings, Noise, assemble
from causalveil.tasks.estimate.papers.aipw_asymptotic import influence as asymptotic
from causalveil.tasks.estimate.papers.aipw_asymptotic.influence import EFFECT, VARIANCE, Domain, InfluenceMoments, Table
from causalveil.tasks.estimate.papers.aipw_asymptotic.learners import Learner, Role, constant, learner
from causalveil.tasks.privacy.mechanisms import Budget, GrossErrorGaussian, Slot

SEED_LABEL = "learners"
NOT_COVERED = (limit(Code.unmeasured), limit(Code.nuisance_models), limit(Code.noise_in_variance))


def mechanisms(study: AipwStudy, units: int | None) -> tuple[GrossErrorGaussian, GrossErrorGaussian]:
    """Return the mechanisms of the effect, on its share, and of the variance, on the rest."""
    share, cost = study.estimator.effect_share, study.privacy.cost
    effect = PrivacyCost(epsilon=cost.epsilon * share, delta=cost.delta * share)
    return asymptotic.mechanisms(units, cost, effect)


def learners(study: AipwStudy, units: int | None) -> tuple[Learner, Learner]:
    """Return the study's models of the outcome and of the propensity.

    Raises:
        StudyError: a model is not in the registry, or takes fewer units.
    """
    score = study.estimator.propensity
    outcome = learner(Role.outcome, study.estimator.outcome_model.model)
    propensity = learner(Role.propensity, score.model) if score.known is None else _known(score.known)
    for name, model in (("outcome_model", outcome), ("propensity", propensity)):
        if model.largest is not None and units is not None and units > model.largest:
            raise StudyError(f"{name}: this model takes at most {model.largest:,} units; choose another one")
    return outcome, propensity


def draws(study: AipwStudy, sizes: Sizes | None) -> tuple[tuple[Slot, GrossErrorGaussian], ...]:
    """Return the draws of effect and variance, from public facts alone.

    Raises:
        StudyError: a model is not in the registry, or takes fewer units.
    """
    units = None if sizes is None else sizes.units
    learners(study, units)
    effect, variance = mechanisms(study, units)
    return (EFFECT, effect), (VARIANCE, variance)


def domain(study: AipwStudy) -> Domain:
    """Return the domain of the suprema: everything within the study's bounds."""
    one_hot = [block for block in blocks(study) if isinstance(block.covariate, CategoricalCovariate)]
    return Domain(
        features=dimension(study) - 1,
        lower=study.outcome.lower,
        upper=study.outcome.upper,
        clip=study.estimator.propensity.bounds,
        categories=tuple((block.start, len(block.features)) for block in one_hot),
    )


def table(study: AipwStudy, rows: Rows) -> Table:
    """Return normalised rows as a table for the learners, without the intercept."""
    x = rows.x[:, :-1] / scale(study)
    for block in blocks(study):
        if not isinstance(block.covariate, CategoricalCovariate):
            x[:, block.start] = (x[:, block.start] + 1) / 2
    y = study.outcome.middle + rows.u * (study.outcome.width / 2)
    # The division may leave the unit cube by an ulp.
    return Table(np.clip(x, 0.0, 1.0), rows.t.astype(np.float64), y)


def findings(study: AipwStudy, moments: InfluenceMoments, released: tuple[float, float]) -> Findings:
    """Return the findings by equations 15 and 16: ``assemble`` without noise of the variance."""
    effect, _ = mechanisms(study, moments.units)
    tau, sigma2 = released
    estimate = Estimate(value=tau, variance=sigma2 / moments.units, noise=moments.gamma, variance_noise=0.0)
    value, interval, variance, _ = assemble(estimate, Noise.of(effect, 1), study.confidence, None)
    details: dict[str, float | int | str | bool] = {
        "noise_standard_error": math.sqrt(variance.noise),
        "sampling_standard_error": math.sqrt(variance.sampling),
        "gross_error_sensitivity": moments.gamma,
        "outcome_model": study.estimator.outcome_model.model,
        "folds": study.estimator.folds,
    }
    interval = interval.model_copy(update={"covers": interval.covers[:2]})
    return Findings.of_one(study, value, interval, variance, details, adjustment(study), not_covered=NOT_COVERED)


def adjustment(study: AipwStudy) -> ConfoundingStatement:
    """Return the confounding statement; in a trial the adjustment is for precision."""
    if study.estimator.propensity.known is None:
        return by(AdjustmentMethod.doubly_robust)
    # Without covariates the outcome models are the arms' means.
    return of_trial(AdjustmentMethod.doubly_robust if study.covariates else None)


def asymptotic_stage(study: AipwStudy, enclave: Enclave, seed: int, budget: Budget) -> Findings:
    """Fit the folds' models, make both releases, and return the interval, all rows in memory.

    Args:
        study: of guarantee ``asymptotic``.
        enclave: with the rows in folds.
        seed: of stochastic learners, from the run's key, so that a resumed run fits the same models.
        budget: of both releases.

    Raises:
        StudyError: a model is not in the registry.
    """
    folds = Folds.open(enclave)

    def exact() -> InfluenceMoments:
        tables = [table(study, _all_rows(folds.fold(index))) for index in range(folds.count)]
        units = sum(map(len, tables))
        return asymptotic.moments(tables, domain(study), learners(study, units), seed)

    moments = enclave.once((study.estimator.model_dump_json(), seed), exact)
    return findings(study, moments, asymptotic.release(moments, mechanisms(study, moments.units), budget))


def _all_rows(pieces: Pieces) -> Rows:
    """Return all rows in memory, copied piece by piece: an open piece takes a file and a map."""
    width = pieces.rows(0).x.shape[1]
    x, t, u = np.empty((pieces.units, width)), np.empty(pieces.units, dtype=np.uint8), np.empty(pieces.units)
    start = 0
    for index in range(pieces.count):
        rows = pieces.rows(index)
        part = slice(start, start + len(rows))
        x[part], t[part], u[part] = rows.x, rows.t, rows.u
        start += len(rows)
    return Rows(x, t, u)


def _known(score: float) -> Learner:
    """Return the propensity model of a randomised trial, whose score is declared."""
    return Learner(lambda x, t, seed: constant(score))  # noqa: ARG005  (nothing is learnt)
