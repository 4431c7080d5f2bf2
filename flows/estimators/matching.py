"""PrivATE: matching on a private propensity score (Yuan et al. 2026, Algorithm 4).

                                                    label level   sample level
    1  w' = w + noise                propensity     w as it is    e11, all units
       e' = e(x; w') + noise         scores         e as it is    e12, all units
    2  t' = RR(t)                    respond        t as it is    e2,  all units
    3  caps k_1, k_0; N nearest      match          public        post-processing of e', t'
       sums of outcomes + noise      perturb        epsilon       e3,  all units

At label level covariates and treatments are public, so only the last step is charged. The corrections are listed in
``docs/privacy.md``.
"""

from __future__ import annotations

from causalveil.flows.engine.engine import Engine
from causalveil.flows.planning.matching import expected
from causalveil.flows.sequence.run import Run
from causalveil.schemas.estimators.matching import MatchingStudy
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Charge
from causalveil.tasks.enclave import normalise, split, validate
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.enclave.sizes import sizes_of
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.matching import interval, perturb, respond, weights
from causalveil.tasks.matching import scores as matching_scores
from causalveil.tasks.privacy.mechanisms import Budget

__all__ = ["declare", "estimate", "expected", "rehearse"]


def declare(study: MatchingStudy, sizes: Sizes | None) -> tuple[Charge, ...]:
    """Every charge of the study, from public facts alone."""
    steps = (
        (matching_scores.MODEL_SLOT, matching_scores.model(study, sizes).mechanism()),
        (matching_scores.SLOT, matching_scores.mechanism(study)),
        (respond.SLOT, respond.mechanism(study)),
        (perturb.SLOT, perturb.mechanism(study)),
    )
    return tuple(mechanism.charge(slot) for slot, mechanism in steps if mechanism is not None)


def estimate(run: Run[MatchingStudy], stage: Engine) -> EffectFindings:
    """The order of the stages."""
    study, sizes, scratch = run.study, run.sizes, run.scratch
    stage(validate.validate_stage, study, run.folder, run.layout, scratch, run.run_id, run.seed)
    stage(normalise.normalise_stage, study, run.folder, run.layout, scratch, run.run_id, run.seed)
    stage(split.split_stage, study, run.layout, scratch)
    coefficients = stage(matching_scores.propensity_stage, study, sizes, scratch, run.budget)
    stage(matching_scores.scores_stage, study, scratch, coefficients, run.budget)
    stage(respond.respond_stage, study, scratch, run.budget)
    reuse = stage(weights.match_stage, study, scratch)
    sums = stage(perturb.perturb_stage, study, scratch, reuse, run.budget)
    return stage(interval.interval_stage, study, sizes, reuse, coefficients, sums)


def rehearse(study: MatchingStudy, rows: Rows, budget: Budget, fitted: FloatArray | None = None) -> EffectFindings:
    """The same steps on rows in memory, already in the order of traversal: for replications and tests.

    ``fitted``: the coefficients of :func:`matching_scores.fitted` for these rows, where they are known already.
    """
    sizes = sizes_of(study, len(rows))
    fitted = matching_scores.fitted(study, sizes, lambda _: rows, 1) if fitted is None else fitted
    coefficients = matching_scores.coefficients(study, sizes, fitted, budget)
    scores = matching_scores.release(study, matching_scores.exact_scores(rows, coefficients), budget)
    arms = respond.release(study, rows.t, budget)
    weighted = weights.weigh(study, scores, arms)
    sums = perturb.release(study, perturb.sums(study, weighted, arms, rows.u), budget)
    return interval.findings(study, sizes, weighted.reuse, sums)
