"""Store units in the order of traversal, each with its propensity score and arm.

At sample level scores and arms are noisy. The order is that of the secret keyed hash: under replace-one the new person
takes the old one's place in it and no other moves (``docs/proofs/data.md``). Scores lie on a public lattice, where the
distance of two scores is exact. At
sample level treatments are randomised (Warner 1965), and the arms of a matching are those of the randomised treatments
t': given them, the arms are disjoint sets that no neighbour changes.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Level, Norm, PrivacyCost, Scope
from causalveil.tasks.data.covariates import dimension
from causalveil.tasks.data.enclave import Enclave, Rows
from causalveil.tasks.estimate.models.lattice_sums import bounded
from causalveil.tasks.estimate.models.logistic import PropensityModel, clipped_scores, fit
from causalveil.tasks.estimate.models.nearest import traversal
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import map_partitions
from causalveil.tasks.privacy.mechanisms import Budget, LatticeLaplace, RandomisedResponse, Sensitivity, Slot

MODEL_SLOT = Slot(name="propensity", scope=Scope.all)
SLOT = Slot(name="scores", scope=Scope.all)
SCORES, TREATED, OUTCOME = "scores", "treated", "outcome"
LATTICE = 2.0**40
# Its steps are far below the sampling error with a million units.
COEFFICIENT_LATTICE = 2.0**16
CHUNK = 8_192
RANGE = Sensitivity(value=1.0, norm=Norm.l1, formula="1: a unit's own score, in [0, 1]")


def model(study: MatchingStudy, sizes: Sizes | None) -> PropensityModel:
    """Return the propensity model of all units, on its share of epsilon and all of delta."""
    label = study.privacy.level is Level.label
    part = study.privacy.epsilon if label else study.estimator.budget_shares.divide(study.privacy.epsilon)["weights"]
    return PropensityModel(
        penalty=study.estimator.penalty,
        dimension=dimension(study),
        units=None if sizes is None else sizes.train,
        cost=PrivacyCost(epsilon=part, delta=study.privacy.delta),
        slot=MODEL_SLOT,
        variant=study.estimator.variant,
        exact=label,
    )


def mechanism(study: MatchingStudy) -> LatticeLaplace | None:
    """Return the mechanism of scores; None at label level, where they are public."""
    if study.privacy.level is Level.label:
        return None
    part = study.estimator.budget_shares.divide(study.privacy.epsilon)["scores"]
    return LatticeLaplace(RANGE, PrivacyCost(epsilon=part, delta=Decimal(0)))


def exact_scores(rows: Rows, w: FloatArray) -> FloatArray:
    """Return sigmoid(x w) rounded to the lattice, shape (rows,), in [0, 1]."""
    parts = [
        clipped_scores(rows.x[first : first + CHUNK], w, (0.0, 1.0)) for first in range(0, max(len(rows), 1), CHUNK)
    ]
    scores = bounded(np.concatenate(parts))
    scores *= LATTICE
    np.rint(scores, out=scores)
    scores /= LATTICE
    return scores


def rounded(w: FloatArray) -> FloatArray:
    """Return public coefficients on a lattice.

    The solver's result depends on the order of rows in the eleventh digit, and near ties between scores would show it.
    """
    return np.rint(w * COEFFICIENT_LATTICE) / COEFFICIENT_LATTICE


def fitted(study: MatchingStudy, units: int, enclave: Enclave) -> FloatArray:
    """Return coefficients fitted to all units, shape (d,), still private at sample level.

    Raises:
        ConvergenceError: before anything is drawn.
    """
    penalty, workers = study.estimator.penalty, study.execution.workers
    return enclave.once(("propensity", penalty), lambda: fit(enclave.rows, enclave.segments, units, penalty, workers))


def propensity_stage(study: MatchingStudy, sizes: Sizes, enclave: Enclave, budget: Budget) -> FloatArray:
    """Fit the propensity model to all units and release its coefficients, shape (d,).

    They are exact, but rounded, at label level.

    Raises:
        ConvergenceError: before anything is drawn.
    """
    w, release_by = fitted(study, sizes.units, enclave), model(study, sizes)
    return rounded(w) if release_by.exact else release_by.perturb(w, budget)


def scores_stage(study: MatchingStudy, enclave: Enclave, w: FloatArray, budget: Budget) -> None:
    """Store scores to match on, treatments and scaled outcomes of all units in traversal order.

    Scores are exact at label level; else each has its own noise.
    """
    order, release_by = traversal(enclave), mechanism(study)

    def segment_scores(index: int) -> FloatArray:
        return exact_scores(enclave.rows(index), w)

    scores = np.concatenate(map_partitions(segment_scores, enclave.segments, study.execution.workers))[order]
    enclave.save(SCORES, scores if release_by is None else release_by.release(scores, SLOT, budget))
    for name, column in ((TREATED, "t"), (OUTCOME, "u")):
        enclave.save(name, enclave.gather(column)[order])


TREATMENT_SLOT = Slot(name="treatment", scope=Scope.all)
IN_TREATED = "in_treated"


def treatment_mechanism(study: MatchingStudy) -> RandomisedResponse | None:
    """Return the mechanism of randomised treatments; None at label level, where they are public."""
    if study.privacy.level is Level.label:
        return None
    part = study.estimator.budget_shares.divide(study.privacy.epsilon)["treatment"]
    return RandomisedResponse(cost=PrivacyCost(epsilon=part, delta=Decimal(0)))


def respond_stage(study: MatchingStudy, enclave: Enclave, budget: Budget) -> None:
    """Store the arms to match between, in traversal order: treatments, noisy at sample level."""
    treated, release_by = np.array(enclave.load(TREATED)), treatment_mechanism(study)
    enclave.save(IN_TREATED, treated if release_by is None else release_by.release(treated, TREATMENT_SLOT, budget))
