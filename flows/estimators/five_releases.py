"""The stages of a table's five releases, by which covariates are adjusted for.

They are the same for every estimator that has them; a study of one outcome is a table of one row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from causalveil.flows.estimators.stage import Draws, Stage, StageRun
from causalveil.schemas.plan import Sizes
from causalveil.schemas.study import Study
from causalveil.tasks.adjustment import questions, recipe
from causalveil.tasks.adjustment.drawn import Asked, JointDraws, JointScales
from causalveil.tasks.adjustment.recipe import TableRecipe
from causalveil.tasks.adjustment.releases import codes_of
from causalveil.tasks.enclave.split import Pieces
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
) -> Stage[S, Any]:
    """Return the stage of release 6, which studies with clusters have.

    Arguments are those of :func:`joint_stages`.
    """

    def run(step: StageRun[S]) -> Any:
        joint, workers = plan(step.study, step.sizes), step.study.execution.workers
        draws = JointDraws(joint, pieces(step), step.budget, workers, step.times)
        return draws.clusters(step[five.again], step[five.scores], codes_of(step.study, step.enclave))

    def declared(study: S, sizes: Sizes | None) -> Draws:
        own = plan(study, sizes)
        return [(own.slot(recipe.CLUSTERS), own.mechanism(recipe.CLUSTERS))]

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
            return [(own.slot(slot), own.mechanism(slot))]

        return declared

    def drawn(step: StageRun[S]) -> JointDraws:
        joint, workers = plan(step.study, step.sizes), step.study.execution.workers
        return JointDraws(joint, pieces(step), step.budget, workers, step.times)

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
        lambda step: questions.with_lines(plan(step.study, step.sizes).first, begun(step), step[lines]),
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
