"""An estimator: its stages, in order, and what can be expected of them.

Its budget is the sum over its stages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from causalveil.flows.engine.engine import Engine
from causalveil.flows.estimators.stage import Run, Stage, carry_out
from causalveil.flows.planning.medians import DRAWS, FEW
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Charge
from causalveil.schemas.study import Study
from causalveil.tasks.inference.people import PublicPeople

S = TypeVar("S", bound=Study)
Stages = tuple[Stage[Any, Any], ...]


class Result(Protocol):
    """The findings of an estimator.

    They are the fields that its kind of release has beside those of every release.
    """

    def fields(self, study: Any) -> dict[str, Any]:
        """Return the fields by name, as the release's model expects them."""
        ...


@dataclass(frozen=True)
class Estimator(Generic[S]):
    """An estimator.

    Attributes:
        study: what a study file declares for it.
        stages: in order, the same on every engine, on files and in memory; the last returns a ``Result``. A function
            where they depend on the study: on how many folds it has, or on its level.
        expected: what can be expected of sizes, a stand-in population and the effect that the reader hopes to see:
            ``sentences`` and ``warnings`` for people, numbers by name for scripts. ``half_width`` is among them if the
            estimator has an interval. Of a study whose covariates and treatments are public, the run's own people too.
        formula: the expected half-width by formulas alone, where ``expected`` rehearses: for a choice among estimators.
        drawn: the median half-width of so many draws, where ``expected`` says that of ``DRAWS``.
        most_read: how many people of such a study ``expected`` wants at most; None: it knows nothing of them.
        warned: the warnings of ``expected`` alone, without an effect, where it has numbers that no warning speaks of: a
            run says nothing else of them.
        facts: of the population that the width depends on, by their names in ``StandIn``; a plan names those that its
            reader did not state.
    """

    study: type[S]
    stages: Stages | Callable[[S], Stages]
    expected: Callable[..., Mapping[str, Any]]
    formula: Callable[[S, Sizes, StandIn], float | None] | None = None
    warned: Callable[[S, Sizes, StandIn], Sequence[str]] | None = None
    most_read: Callable[[S], int] | None = None
    drawn: Callable[[S, Sizes, StandIn, int], float] | None = None
    facts: tuple[str, ...] = ("treated", "mean", "deviation")

    def stages_of(self, study: S) -> Stages:
        """Return the stages of a study, in order."""
        return self.stages if isinstance(self.stages, tuple) else self.stages(study)

    def declare(self, study: S, sizes: Sizes | None) -> tuple[Charge, ...]:
        """Return every charge of a study, from public facts alone: what its stages declare.

        Without sizes charges carry formulas in n.
        """
        return tuple(charge for stage in self.stages_of(study) for charge in stage.declare(study, sizes))

    def estimate(self, run: Run[S], engine: Engine) -> Result:
        """Run the stages, and return what the last one found."""
        stages = self.stages_of(run.study)
        found: Result = carry_out(stages, run, engine)[stages[-1]]
        return found

    def width(self, study: S, sizes: Sizes, stand_in: StandIn, people: PublicPeople | None = None) -> float | None:
        """Return the half-width that ``foresee`` says; None: the estimator has no interval."""
        if self.drawn is not None:
            return self.drawn(study, sizes, stand_in, DRAWS)
        found: float | None = self.foresee(study, sizes, stand_in, None, people).get("half_width")
        return found

    def foresee(
        self, study: S, sizes: Sizes, stand_in: StandIn, effect: float | None, people: PublicPeople | None = None
    ) -> Mapping[str, Any]:
        """Return what ``expected`` does, for the run's own people where there are any."""
        if people is None:
            return self.expected(study, sizes, stand_in, effect)
        return self.expected(study, sizes, stand_in, effect, people)

    def reads(self, study: S) -> int:
        """Return how many people's covariates and treatments a plan may read; 0: none."""
        return 0 if self.most_read is None else self.most_read(study)

    def warnings(self, study: S, sizes: Sizes, stand_in: StandIn) -> tuple[str, ...]:
        """Return the warnings that ``expected`` gives where no effect is named."""
        if self.warned is not None:
            return tuple(self.warned(study, sizes, stand_in))
        return tuple(self.expected(study, sizes, stand_in, None)["warnings"])

    def half_width(self, study: S, sizes: Sizes, stand_in: StandIn) -> float | None:
        """Return the expected half-width, by the formula or by few draws if there are such.

        Returns None if there is no interval.
        """
        if self.formula is not None:
            return self.formula(study, sizes, stand_in)
        return self.point(study, sizes, stand_in)

    def point(self, study: S, sizes: Sizes, stand_in: StandIn, people: PublicPeople | None = None) -> float | None:
        """Return ``width``, of few draws where it is of draws: a point of a curve, which has many."""
        if self.drawn is not None:
            return self.drawn(study, sizes, stand_in, FEW)
        return self.width(study, sizes, stand_in, people)
