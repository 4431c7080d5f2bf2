"""Estimators of the other papers: weighting by a private score (Lee et al. 2019) and DPCI (Schröder et al. 2025)."""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from causalveil.flows.run.estimators import rehearse_effect
from causalveil.schemas.columns import CategoricalCovariate
from causalveil.tasks.data.covariates import blocks
from causalveil.tasks.data.enclave import MemoryEnclave
from causalveil.tasks.estimate.papers.aipw_asymptotic import influence
from causalveil.tasks.estimate.papers.aipw_asymptotic.influence import EFFECT, Domain, Table
from causalveil.tasks.estimate.papers.aipw_asymptotic.learners import Role, learner
from causalveil.tasks.privacy.mechanisms import Budget, gross_error_gaussian
from causalveil_replication.competitors.competitor import (
    ASYMPTOTIC,
    CLIP,
    DELTA,
    PROVED,
    REPLACE_ONE,
    Competitor,
    Fitted,
    Instance,
    cost,
    groups,
    scores,
)

FOLDS = 2
PENALTY = 0.1


def weighting(instance: Instance) -> Fitted:
    """IPW-PP: half of the units train a private score, the other half are weighted by it, clipped to ``CLIP``.

    The paper's noise where its formula is valid, below epsilon 1; from there on the analytic Gaussian's, which is less.
    """
    enclave = MemoryEnclave.of(instance.rows)
    rows, half = instance.rows, instance.width / 2
    score = scores(rows, instance.penalty)
    y = sum(instance.data.outcome) / 2 + rows.u * half
    exact = float(np.mean(np.where(rows.t != 0, y / score, -y / (1 - score))))

    def release(epsilon: str, budget: Budget) -> float:
        estimator = {
            "name": "ipw",
            "weighting": "horvitz_thompson",
            "clip": list(CLIP),
            "penalty": PENALTY,
            "variant": "paper" if Decimal(epsilon) < 1 else "ours",
        }
        return rehearse_effect(instance.study_of(estimator, epsilon, DELTA, "sample"), enclave, budget).estimate

    return Fitted(exact, release)


def doubly_robust(instance: Instance) -> Fitted:
    """DPCI: cross-fitted doubly robust scores, noise scaled to the gross-error sensitivity, all of it on the effect."""
    parts = [_table(instance, part) for part in groups(len(instance.rows), FOLDS)]
    one_hot = [block for block in blocks(instance.study) if isinstance(block.covariate, CategoricalCovariate)]
    domain = Domain(
        features=instance.rows.x.shape[1] - 1,
        lower=instance.data.outcome[0],
        upper=instance.data.outcome[1],
        clip=CLIP,
        categories=tuple((block.start, len(block.features)) for block in one_hot),
    )
    learners = learner(Role.outcome, "kernel_ridge"), learner(Role.propensity, "logistic")
    found = influence.moments(parts, domain, learners, 0)

    def release(epsilon: str, budget: Budget) -> float:
        mechanism = gross_error_gaussian(found.units, cost(epsilon, DELTA))
        return found.gamma * float(mechanism.release(np.array([found.tau / found.gamma]), EFFECT, budget)[0])

    return Fitted(found.tau, release)


COMPETITORS = (
    Competitor("ipw_pp", "IPW-PP", "sample", REPLACE_ONE, PROVED, DELTA, weighting),
    Competitor("dpci", "DPCI", "sample", REPLACE_ONE, ASYMPTOTIC, DELTA, doubly_robust),
)


def _table(instance: Instance, part: slice) -> Table:
    rows = instance.rows[part]
    one_hot = {
        column
        for block in blocks(instance.study)
        if isinstance(block.covariate, CategoricalCovariate)
        for column in range(block.start, block.start + len(block.features))
    }
    x = instance.features[part].copy()
    numeric = [column for column in range(x.shape[1]) if column not in one_hot]
    x[:, numeric] = (x[:, numeric] + 1) / 2
    y = sum(instance.data.outcome) / 2 + rows.u * instance.width / 2
    return Table(np.clip(x, 0.0, 1.0), rows.t.astype(np.float64), y)
