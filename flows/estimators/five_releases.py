"""The stages of the five releases by which covariates are adjusted for.

They are the same for every estimator that has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from causalveil.flows.estimators.stage import Draws, Stage, StageRun
from causalveil.schemas.plan import Sizes
from causalveil.schemas.study import Study
from causalveil.tasks.adjustment import recipe
from causalveil.tasks.enclave.split import Pieces
from causalveil.tasks.privacy.mechanisms import Mechanism, Slot
from causalveil.tasks.protocols import questions
from causalveil.tasks.protocols.drawn import Asked, JointDraws, JointScales
from causalveil.tasks.protocols.recipe import ProtocolRecipe

S = TypeVar("S", bound=Study)
# What release 1 says, and what is decided between releases.
Scales = TypeVar("Scales")
Decided = TypeVar("Decided")


class Recipe(Protocol):
    """Every draw of a study."""

    def slot(self, slot: Slot) -> Slot:
        """Return what a release is called here, and whom it is charged to."""

    def mechanism(self, slot: Slot) -> Mechanism | None:
        """Return the mechanism of a release; None where there is none."""


@dataclass(frozen=True)
class Steps(Generic[S, Scales, Decided]):
    """The functions of an estimator at the releases and between them.

    Attributes:
        recipe: every draw, by study and sizes.
        drawn: what draws releases: it has ``lines``, ``screen``, ``refit`` and ``scores``, which take what is decided.
        scales: draws release 1.
        begun, with_lines, with_screen, with_refit: decide what the next release asks; read nothing but released values.
    """

    recipe: Callable[[S, Sizes | None], Recipe]
    drawn: Callable[[StageRun[S]], Any]
    scales: Callable[[StageRun[S]], Scales]
    begun: Callable[[StageRun[S], Scales], Decided]
    with_lines: Callable[[StageRun[S], Decided, Any], Decided]
    with_screen: Callable[[Decided, Any], Decided]
    with_refit: Callable[[Decided, Any], Decided]


@dataclass(frozen=True)
class FiveStages(Generic[S, Scales, Decided]):
    """The stages in order; those without charges are public."""

    scales: Stage[S, Scales]
    lines: Stage[S, Any]
    learn: Stage[S, Decided]
    screen: Stage[S, Any]
    choose: Stage[S, Decided]
    refit: Stage[S, Any]
    again: Stage[S, Decided]
    scores: Stage[S, Any]

    @property
    def all(self) -> tuple[Stage[S, Any], ...]:
        """All of them."""
        return tuple(vars(self).values())

    @classmethod
    def of(
        cls, steps: Steps[S, Scales, Decided], rows: tuple[Stage[Any, Any], ...], ending: str = ""
    ) -> FiveStages[S, Scales, Decided]:
        """Return the stages of these steps.

        Args:
            steps: what they do.
            rows: the stages whose results every release reads beside what is decided.
            ending: of their names, where a study has several of a kind.
        """

        def draws(slot: Slot) -> Callable[[S, Sizes | None], Draws]:
            def declared(study: S, sizes: Sizes | None) -> Draws:
                own = steps.recipe(study, sizes)
                return [(own.slot(slot), own.mechanism(slot))]

            return declared

        scales = Stage[S, Scales](f"scales{ending}", steps.scales, charges=draws(recipe.SCALES), reads=rows)

        def begun(step: StageRun[S]) -> Decided:
            return steps.begun(step, step[scales])

        lines = Stage[S, Any](
            f"lines{ending}",
            lambda step: steps.drawn(step).lines(begun(step)),
            charges=draws(recipe.LINES),
            reads=(*rows, scales),
        )
        learn = Stage[S, Decided](
            f"learn{ending}",
            lambda step: steps.with_lines(step, begun(step), step[lines]),
            reads=(scales, lines),
        )
        screen = Stage[S, Any](
            f"screen{ending}",
            lambda step: steps.drawn(step).screen(step[learn]),
            charges=draws(recipe.SCREEN),
            reads=(*rows, learn),
        )
        choose = Stage[S, Decided](
            f"choose{ending}",
            lambda step: steps.with_screen(step[learn], step[screen]),
            reads=(learn, screen),
        )
        refit = Stage[S, Any](
            f"refit{ending}",
            lambda step: steps.drawn(step).refit(step[choose]),
            charges=draws(recipe.REFIT),
            reads=(*rows, choose),
        )
        again = Stage[S, Decided](
            f"learn again{ending}",
            lambda step: steps.with_refit(step[choose], step[refit]),
            reads=(choose, refit),
        )
        scores = Stage[S, Any](
            f"scores{ending}",
            lambda step: steps.drawn(step).scores(step[again]),
            charges=draws(recipe.SCORES),
            reads=(*rows, again),
        )
        return cls(scales, lines, learn, screen, choose, refit, again, scores)


def joint_stages(
    plan: Callable[[S, Sizes | None], ProtocolRecipe],
    pieces: Callable[[StageRun[S]], Pieces],
    rows: tuple[Stage[Any, Any], ...],
    known: Callable[[StageRun[S], JointScales], JointScales] = lambda _, scales: scales,
) -> FiveStages[S, JointScales, Asked]:
    """Return the stages of a table's five releases.

    Args:
        plan: every draw, by study and sizes.
        pieces: all units, with their outcomes.
        rows: the stages whose results every release reads.
        known: release 1 with what is public of it.
    """

    def drawn(step: StageRun[S]) -> JointDraws:
        joint, workers = plan(step.study, step.sizes), step.study.execution.workers
        return JointDraws(joint, pieces(step), step.budget, workers, step.times)

    steps = Steps[S, JointScales, Asked](
        plan,
        drawn,
        lambda step: known(step, drawn(step).scales()),
        lambda step, scales: questions.begun(plan(step.study, step.sizes), scales),
        lambda step, asked, lines: questions.with_lines(plan(step.study, step.sizes).first, asked, lines),
        questions.with_screen,
        questions.with_refit,
    )
    return FiveStages[S, JointScales, Asked].of(steps, rows)
