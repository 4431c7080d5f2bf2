"""Covariate adjustment from noisy moments: stages of five releases, and their plan.

They are the same for every estimator that has them; a study of one outcome is a table of one row. Five releases on all
units, by subgroup, are read by one posterior that knows their noise.

    1  arms' sums of every outcome, histograms of covariates and outcomes                   scales
    2  cross moments of lines with every outcome and the arms, Gram matrices by arm               lines
       slopes and balancing weights of every outcome, candidates of curves                 learn, public
    3  cross moments of candidates with what lines leave of outcomes and arms                 screen
       which are kept                                                                  choose, public
    4  as 2, of lines and kept curves                                                    refit
       slopes, weights, and where scores are cut                                         learn again, public
    5  sums of every outcome's scores and of their squares                               scores
    6  with clusters: absolute totals of scores by cluster                               clusters
       the table: estimates, intervals one by one and all together                      answers, public

Where public facts say that no curve could be seen there are no releases 3 and 4. Proofs: ``docs/proofs/regression.md``
and ``docs/proofs/questions.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from causalveil.flows.estimators import table_plan
from causalveil.flows.estimators.estimator import CELLS, VALIDATE, Estimator, Stages
from causalveil.flows.estimators.rehearsal import QUESTIONS, Rehearsal, Results, summed
from causalveil.flows.estimators.stage import Draws, Stage, StageRun, recalled
from causalveil.flows.estimators.table import Rehearsed
from causalveil.flows.estimators.words import Words, stated_terms
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.plan import FEWER_HELPS, MANY_COVARIATES, Sizes, StandIn
from causalveil.schemas.remarks import PlanCode, Remark, remark
from causalveil.schemas.study import Study
from causalveil.tasks.data.cells import all_units
from causalveil.tasks.data.split import Pieces
from causalveil.tasks.estimate.adjust import questions, recipe
from causalveil.tasks.estimate.adjust.questions import Asked, JointDraws, JointScales
from causalveil.tasks.estimate.adjust.recipe import TableRecipe, candidates_of, joint_recipe
from causalveil.tasks.estimate.clusters import ClusteredVariances, ReleasedTotals, codes_of
from causalveil.tasks.estimate.findings import regression_findings
from causalveil.tasks.estimate.interval import Findings
from causalveil.tasks.estimate.people import PEOPLE
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Slot

S = TypeVar("S", bound=Study)


@dataclass(frozen=True)
class FiveStages(Generic[S]):
    """The stages in order; those without charges are public."""

    scales: Stage[S, JointScales]
    lines: Stage[S, Any]
    learn: Stage[S, Asked]
    screen: Stage[S, Any]
    choose: Stage[S, Asked]
    refit: Stage[S, Any]
    again: Stage[S, Asked]
    scores: Stage[S, Any]

    @property
    def all(self) -> tuple[Stage[S, Any], ...]:
        """All of them."""
        return tuple(vars(self).values())


def clusters_stage(
    plan: Callable[[S, Sizes | None], TableRecipe],
    pieces: Callable[[StageRun[S]], Pieces],
    rows: tuple[Stage[Any, Any], ...],
    five: FiveStages[S],
    units_of: Callable[[StageRun[Any]], FloatArray | None] = lambda _: None,
) -> Stage[S, ReleasedTotals]:
    """Return the stage of release 6, which studies with clusters have.

    Arguments are those of :func:`joint_stages`; ``units_of``: what 1 of each outcome is in each subgroup.
    """

    def run(step: StageRun[Any]) -> ReleasedTotals:
        joint, workers = plan(step.study, step.sizes), step.study.execution.workers
        draws = JointDraws(joint, pieces(step), step.budget, workers, step.times)
        estimand, codes = step.study.estimand, codes_of(step.enclave)
        return draws.clusters(step[five.again], step[five.scores], estimand, codes, units_of(step))

    def declared(study: S, sizes: Sizes | None) -> Draws:
        own = plan(study, sizes)
        return [(recipe.CLUSTERS, own.mechanism(recipe.CLUSTERS))]

    return Stage("clusters", run, charges=declared, reads=(*rows, five.again, five.scores))


def joint_stages(
    plan: Callable[[S, Sizes | None], TableRecipe],
    pieces: Callable[[StageRun[S]], Pieces],
    rows: tuple[Stage[Any, Any], ...],
    known: Callable[[StageRun[S], JointScales], JointScales] = lambda _, scales: scales,
) -> FiveStages[S]:
    """Return the stages of a table's five releases.

    Args:
        plan: every draw, by study and sizes.
        pieces: all units, with their outcomes.
        rows: the stages whose results every release reads.
        known: release 1 with what is public of it.
    """

    def draws(slot: Slot) -> Callable[[S, Sizes | None], Draws]:
        def declared(study: S, sizes: Sizes | None) -> Draws:
            own = plan(study, sizes)
            return [(slot, own.mechanism(slot))]

        return declared

    def drawn(step: StageRun[S]) -> JointDraws:
        joint, workers = plan(step.study, step.sizes), step.study.execution.workers
        return JointDraws(joint, pieces(step), step.budget, workers, step.times, step.enclave)

    def begun(step: StageRun[S]) -> Asked:
        return questions.begun(plan(step.study, step.sizes), step[scales])

    scales = Stage[S, JointScales](
        "scales", lambda step: known(step, drawn(step).scales()), charges=draws(recipe.SCALES), reads=rows
    )
    lines = Stage[S, Any](
        "lines",
        lambda step: drawn(step).lines(begun(step)),
        charges=draws(recipe.LINES),
        reads=(*rows, scales),
    )
    learn = Stage[S, Asked](
        "learn",
        lambda step: questions.with_lines(plan(step.study, step.sizes), begun(step), step[lines]),
        reads=(scales, lines),
    )
    screen = Stage[S, Any](
        "screen",
        lambda step: drawn(step).screen(step[learn]),
        charges=draws(recipe.SCREEN),
        reads=(*rows, learn),
    )
    choose = Stage[S, Asked](
        "choose", lambda step: questions.with_screen(step[learn], step[screen]), reads=(learn, screen)
    )
    refit = Stage[S, Any](
        "refit",
        lambda step: drawn(step).refit(step[choose]),
        charges=draws(recipe.REFIT),
        reads=(*rows, choose),
    )
    again = Stage[S, Asked](
        "learn again", lambda step: questions.with_refit(step[choose], step[refit]), reads=(choose, refit)
    )
    scores = Stage[S, Any](
        "scores",
        lambda step: drawn(step).scores(step[again]),
        charges=draws(recipe.SCORES),
        reads=(*rows, again),
    )
    return FiveStages(scales, lines, learn, screen, choose, refit, again, scores)


plan = recalled(joint_recipe)
FIVE = joint_stages(plan, lambda step: all_units(step.enclave, step.study.weights is not None), rows=(CELLS,))
CLUSTERS = clusters_stage(plan, lambda step: all_units(step.enclave), (CELLS,), FIVE)


def clustered_in(
    step: StageRun[Any],
    joint: TableRecipe,
    five: FiveStages[Any],
    totals: Stage[Any, ReleasedTotals],
    units_of: FloatArray | None = None,
) -> ClusteredVariances | None:
    """Return what release 6 says of the sampling variance of each answer.

    None of a study without clusters.
    """
    if step.study.clusters is None:
        return None
    scores, estimand = step[five.scores], step.study.estimand
    return questions.clustered_variances(joint, estimand, step[five.again], scores, step[totals], units_of)


def _answers(step: StageRun[RegressionStudy]) -> Findings:
    clustered = clustered_in(step, plan(step.study, step.sizes), FIVE, CLUSTERS)
    asked = questions.with_scores(step[FIVE.again], step[FIVE.scores], clustered)
    return regression_findings(*step.given[:2], asked, step[FIVE.scales], clustered)


ANSWERS = Stage[RegressionStudy, Findings]("answers", _answers, reads=(FIVE.scales, FIVE.again, FIVE.scores, CLUSTERS))


def _stages(study: RegressionStudy) -> Stages:
    return (VALIDATE, CELLS, *FIVE.all, *([] if study.clusters is None else [CLUSTERS]), ANSWERS)


def _with_fewer(study: RegressionStudy, sizes: Sizes, stand_in: StandIn) -> list[Remark]:
    """Return what half as many covariates would give, where there are many and that is narrower."""
    names = list(study.covariates)
    if len(names) < MANY_COVARIATES or study.terms:
        return []
    half = study.model_copy(update={"covariates": {name: study.covariates[name] for name in names[: len(names) // 2]}})
    try:
        here, there = (REGRESSION.point(asked, sizes, stand_in) for asked in (study, half))
    except CausalveilError:
        return []
    if not here or not there or there >= FEWER_HELPS * here:
        return []
    return [remark(PlanCode.fewer_covariates, many=len(names), half=len(half.covariates), half_width=there)]


def warned(
    study: RegressionStudy, sizes: Sizes, stand_in: StandIn, few: Callable[[], Sequence[Rehearsed]]
) -> list[Remark]:
    """Return the warnings of a plan."""
    return [*_of_form(study, sizes, stand_in, few), *_with_fewer(study, sizes, stand_in)]


def _of_form(
    study: RegressionStudy, sizes: Sizes, stand_in: StandIn, few: Callable[[], Sequence[Rehearsed]]
) -> list[Remark]:
    """Return warnings of curves that are not looked for, and those of a table."""
    if not study.asks_one:
        return table_plan.warned(study, sizes, stand_in, few)
    if stated := stated_terms(study):
        return stated
    recipe = plan(study, sizes)
    # Where no covariate has a non-linear term nothing is lost.
    if "screen" in recipe.costs or study.estimator.trial or not candidates_of(recipe.everybody):
        return []
    return [remark(PlanCode.curves_not_asked if study.estimator.curves == "none" else PlanCode.no_curves)]


def _alike(study: RegressionStudy, results: Results) -> Results:
    """Let the one subgroup that has people stand for all of them."""
    many, scales = len(study.groups), results[FIVE.scales]
    if many == 1:
        return results
    counts = np.repeat(scales.counts[:1], many, axis=0)
    count_sd = np.repeat(scales.count_sd[:1], many)
    of_all = replace(
        scales,
        counts=counts,
        count_sd=count_sd,
        units=scales.units[:1] * many,
        effective=scales.effective[:1] * many,
        questions=scales.questions[:1] * many,
    )
    same = {stage: results[stage][:1] * many for stage in (FIVE.again, FIVE.scores)}
    return {**results, **same, FIVE.scales: of_all}


def rehearsal(study: RegressionStudy) -> Rehearsal:
    """Return how a plan rehearses a study: one subgroup has people, and stands for all."""
    arms = len(study.arm_names)
    many = QUESTIONS if study.asks_one else len(study.outcomes) * (1 if arms == 2 else arms)
    return table_plan.rehearsal_of(study, PEOPLE, summed, alike=_alike, questions=many)


REGRESSION = Estimator(
    RegressionStudy,
    _stages,
    rehearsal=rehearsal,
    words=lambda study, *told: Words() if study.asks_one else table_plan.words(study, *told),
    warned=warned,
)
