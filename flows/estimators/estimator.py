"""An estimator: its stages, in order, and what can be expected of them.

Its budget is the sum over its stages. The stages that several estimators share stand here too: how rows enter, and how
they are cut into halves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from scipy.optimize import brentq
from scipy.special import ndtr

from causalveil.flows.engine.engine import Engine
from causalveil.flows.estimators.rehearsal import DRAWS, FEW, Rehearsal, summary
from causalveil.flows.estimators.stage import Run, Stage, StageRun, carry_out
from causalveil.flows.estimators.table import Rehearsed
from causalveil.flows.estimators.words import (
    Words,
    say_clusters,
    say_curves,
    say_draws,
    say_effect,
    say_interval,
    say_weights,
)
from causalveil.schemas.errors import CausalveilError, DataError
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Charge
from causalveil.schemas.remarks import PlanCode, Remark, in_order, remark
from causalveil.schemas.study import Study
from causalveil.tasks.data import cells, manifests, normalise, split
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.people import PublicPeople

S = TypeVar("S", bound=Study)
Stages = tuple[Stage[Any, Any], ...]
# Facts of the population that a rehearsal depends on, by their names in ``StandIn``.
FACTS = ("treated", "mean", "deviation", "explained", "correlation", "distance")
# More units than this are no advice, and the number that is given is right to one part in a hundred.
MOST_UNITS, NEAR = 1e13, 0.01


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
            where they depend on the study, as on its level.
        rehearsal: how a plan rehearses the stages of a study. None: it has no interval.
        words: what a plan says beside the half-width and its parts.
        warned: warnings of a plan and a release; the last argument returns a few draws, which take a rehearsal.
        facts: of the population that the width depends on, by their names in ``StandIn`` and ``expect``; a plan names
            those that its reader did not state. A function where they depend on the study.
    """

    study: type[S]
    stages: Stages | Callable[[S], Stages]
    rehearsal: Callable[[S], Rehearsal] | None = None
    words: Callable[[S, Sizes, StandIn, Sequence[Rehearsed]], Words] = lambda *_: Words()
    warned: Callable[[S, Sizes, StandIn, Callable[[], Sequence[Rehearsed]]], Sequence[Remark]] = lambda *_: ()
    facts: tuple[str, ...] | Callable[[S], tuple[str, ...]] = FACTS

    def facts_of(self, study: S) -> tuple[str, ...]:
        """Return the names of the facts that the width of a study depends on."""
        return self.facts if isinstance(self.facts, tuple) else self.facts(study)

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
        result: Result = carry_out(stages, run, engine)[stages[-1]]
        return result

    def reads(self, study: S) -> int:
        """Return how many people's public covariates and treatments a plan may read; 0: none."""
        return 0 if self.rehearsal is None else self.rehearsal(study).own

    def affordable(self, study: S, many: int) -> int:
        """Return how many draws are made where so many are wanted."""
        return many if self.rehearsal is None else self.rehearsal(study).affordable(many)

    def draws(
        self,
        study: S,
        sizes: Sizes,
        stand_in: StandIn,
        people: PublicPeople | None = None,
        many: int = DRAWS,
        seeds: Sequence[int] = (),
    ) -> Sequence[Rehearsed]:
        """Return what the study says by so many draws; none where it has no interval.

        The draws of a plan, ``DRAWS``, end once their mean is known.

        Args:
            study: the study.
            sizes: its sizes.
            stand_in: the population that the reader assumes.
            people: the run's own, where their covariates and treatments are public.
            many: how many, of each kind of outcomes.
            seeds: of the draws; empty: from 0 on.

        Raises:
            StudyError: the study cannot be declared at this size.
            DataError: no such people can be analysed.
        """
        if self.rehearsal is None:
            return ()
        return self.rehearsal(study).draws(self.stages_of(study), study, sizes, stand_in, people, many, seeds)

    def width(
        self, study: S, sizes: Sizes, stand_in: StandIn, people: PublicPeople | None = None, many: int = DRAWS
    ) -> float | None:
        """Return the half-width that ``expected`` says; None: the estimator has no interval."""
        draws = self.draws(study, sizes, stand_in, people, many)
        return float(summary(draws)["half_width"]) if draws else None

    def point(self, study: S, sizes: Sizes, stand_in: StandIn, people: PublicPeople | None = None) -> float | None:
        """Return ``width`` by few draws: a point of a curve, which has many."""
        many = FEW if self.rehearsal is None else self.rehearsal(study).point
        return self.width(study, sizes, stand_in, people, many)

    def warnings(self, study: S, sizes: Sizes, stand_in: StandIn) -> tuple[Remark, ...]:
        """Return the warnings that ``expected`` gives where no effect is named.

        Those of what is not protected are left out: a release has a field for it.
        """
        warnings = self.warned(study, sizes, stand_in, lambda: self.draws(study, sizes, stand_in, many=FEW))
        return tuple(in_order(warning for warning in warnings if warning.code is not PlanCode.unprotected))

    def expected(
        self,
        study: S,
        sizes: Sizes,
        stand_in: StandIn,
        effect: float | None = None,
        people: PublicPeople | None = None,
    ) -> dict[str, Any]:
        """Return what can be expected of a study.

        There are ``sentences`` and ``warnings`` for people, and numbers by name for scripts, in outcome units.
        ``half_width`` is among them if the estimator has an interval.

        Args:
            study: the study.
            sizes: its sizes.
            stand_in: the population that the reader assumes.
            effect: an effect that the reader hopes to see.
            people: the run's own, where their covariates and treatments are public.
        """
        try:
            draws = self.draws(study, sizes, stand_in, people)
        except DataError as problem:
            return {
                "sentences": [],
                "warnings": [remark(PlanCode.cannot_plan, treated=stand_in.treated, problem=str(problem))],
            }
        words = self.words(study, sizes, stand_in, draws)
        # Of the first draws alone, which are those of a release's warnings.
        few = draws[: self.affordable(study, FEW)]
        warnings = list(self.warned(study, sizes, stand_in, lambda: few))
        if not draws:
            return {**words.numbers, "sentences": [*words.sentences], "warnings": warnings}
        treated = stand_in.treated if people is None else people.treated
        numbers, sentences = {"treated": treated, **summary(draws), **words.numbers}, list[Remark]()
        if words.name:
            numbers["half_width_of"] = words.name
        adjusts = "explained" in self.facts_of(study)
        drawn = say_draws(draws, numbers, stand_in, people is not None, adjusts, words.name)
        # The answers' intervals come first: what all else is about.
        if words.name:
            sentences += [*words.sentences, *drawn]
        else:
            sentences += [say_interval(draws[0].found.confidence, numbers), *drawn, *words.sentences]
        if (clusters := getattr(study, "clusters", None)) is not None:
            sentences += say_clusters(clusters, sizes.units, stand_in, numbers)
        if (weights := getattr(study, "weights", None)) is not None:
            sentences.append(say_weights(weights))
        sentences += say_curves(draws, numbers)
        if effect is not None:
            numbers |= self._seen(study, sizes, stand_in, abs(effect) * words.left, numbers)
            say_effect(effect, numbers, sentences, warnings, words)
        return {**numbers, "sentences": sentences, "warnings": warnings}

    def _seen(
        self, study: S, sizes: Sizes, stand_in: StandIn, effect: float, numbers: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the chance of the wrong sign, by normal errors, and how many units see an effect of this size."""
        error = math.hypot(numbers["noise_standard_error"], numbers["sampling_standard_error"])
        wrong = float(ndtr(-effect / error)) if error > 0 else 0.0
        if numbers["half_width"] < effect:
            return {"sign_wrong": wrong, "units_needed": sizes.units}
        # Few draws at other sizes are held against as few at this one.
        wanted = effect * (self.point(study, sizes, stand_in) or 0.0) / numbers["half_width"]
        return {"sign_wrong": wrong, "units_needed": self._needed(study, sizes, stand_in, wanted)}

    def _needed(self, study: S, sizes: Sizes, stand_in: StandIn, wanted: float) -> int | None:
        """Return the number of units whose half-width, by few draws, is ``wanted``; None: no number is enough."""

        def excess(log_units: float) -> float:
            try:
                width = self.point(study, sizes_of(study, round(math.exp(log_units))), stand_in)
            except CausalveilError:
                return 1.0
            return math.log(width / wanted) if width and wanted > 0 else 1.0

        low = math.log(sizes.units)
        high = low + math.log(4)
        while excess(high) > 0:
            low, high = high, high + math.log(16)
            if high > math.log(MOST_UNITS):
                return None
        if excess(low) <= 0:
            return sizes.units
        return round(math.exp(brentq(excess, low, high, xtol=NEAR)))


def _validate(step: StageRun[Any]) -> None:
    where = step.source
    manifests.validate_stage(step.study, where.folder, where.layout, where.admission)


VALIDATE = Stage[Study, None]("validate", _validate, from_files=True)


def normalised_by(write: Callable[[], Callable[..., None]]) -> Stage[Any, None]:
    """Return the stage that writes normalised rows into the enclave.

    ``write``: returns the function that writes the rows that an estimator needs of one segment.
    """

    def run(step: StageRun[Any]) -> None:
        where = step.source
        place = (where.folder, where.layout, where.scratch)
        normalise.normalise_stage(step.study, *place, where.run_id, where.seed, write())

    return Stage("normalise", run, reads=(VALIDATE,), from_files=True)


NORMALISE = normalised_by(lambda: normalise.normalise_segment)
CELLS = normalised_by(lambda: cells.normalise_cells)
"""Writes normalised rows of a table: with their subgroup, and several outcomes."""
ENTRY: tuple[Stage[Any, None], ...] = (VALIDATE, NORMALISE)
"""The first two stages of every estimator: hold the partitions to their manifest, normalise them into the enclave."""

HALVES = Stage[Study, None]("split", lambda step: split.split_stage(step.study, step.enclave), reads=(NORMALISE,))
