"""Facts about the population that a plan was not told, each with what it would change.

A plan that assumes a fact in silence reads as a promise: with 10% treated an interval can be several times as wide as
with half.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from causalveil.flows.sequence.estimators import estimator_of
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.estimators.survival_protocol import SurvivalStudy
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.protocols.study import EffectStudy, TableStudy
from causalveil.schemas.remarks import PlanCode, Remark, remark
from causalveil.schemas.study import Study
from causalveil.tasks.inference.people import PublicPeople, assumed

# Other values of a fact that nobody stated: one in ten is treated, or has the rarer value of an outcome; an outcome
# that varies half as much as assumed, since a quarter of its range is much; half and twice as much of what covariates
# explain, of their correlation, and of the distance between the arms. Round numbers that a reader can place her own
# table between; they decide nothing.
ONE_IN_TEN, HALF, TWICE = 0.1, 0.5, 2.0
# A fact that changes the width by less than this part of it gets no sentence.
MATTERS = 0.05
# Facts that public covariates and treatments say.
SEEN = ("treated", "correlation", "distance")


@dataclass(frozen=True)
class Fact:
    """A fact about the population that a reader may state.

    Attributes:
        name: of the field of ``StandIn`` and of the command's option, or of the key in the study's ``expect``.
        words: how a sentence names it.
        assumed: its value in the plan.
        others: values that are as possible.
        in_study: whether it is stated in the study file, under ``expect``.
    """

    name: str
    words: str
    assumed: float
    others: tuple[float, ...]
    in_study: bool = False

    @classmethod
    def of_strength(cls, name: str, words: str, assumed: float) -> Fact:
        """Return a fact that may be half as strong or twice as strong."""
        return cls(name, words, assumed, (HALF * assumed, TWICE * assumed))

    def in_place(self, study: Study, stand_in: StandIn, other: float) -> tuple[Study, StandIn]:
        """Return study and population with another value of this fact."""
        if self.in_study:
            expect = getattr(study, "expect").model_copy(update={self.name: other})  # noqa: B009
            return study.model_copy(update={"expect": expect}), stand_in
        follows = {"deviation": None} if self.name == "mean" else {}
        return study, assumed(study, stand_in.model_copy(update={self.name: other, **follows}))

    def sentence(self, there: Mapping[float, float]) -> Remark:
        """Return what the fact is assumed to be, and the half-width at its other values."""
        where = (
            f"in the study, as `expect: {{{self.name}: {_plain(self.assumed)}}}`"
            if self.in_study
            else f"with `--{self.name}`"
        )
        each = " and ".join(f"± {_plain(width)} at {_plain(other)}" for other, width in there.items())
        return remark(PlanCode.untold, fact=self.words, assumed=_plain(self.assumed), others=each, where=where)


def untold(study: Study, asked: Collection[str], stand_in: StandIn, told: Collection[str]) -> list[Fact]:
    """Return the facts that decide the width most and were not stated.

    Args:
        study: the study.
        asked: names of those that its estimator's width depends on.
        stand_in: the population of the plan, all its values in place.
        told: names of the values that the reader stated.
    """
    facts = list[Fact]()
    # More than two arms are taken to be equal.
    if not isinstance(study, TableStudy) or study.arms is None:
        facts.append(Fact("treated", "the treated share", stand_in.treated, (ONE_IN_TEN,)))
    facts += [*_of_outcome(study, stand_in, told), *_of_times(study)]
    if getattr(study, "where", ()):
        share = stand_in.eligible_share
        facts.append(Fact("eligible", "the share of units that are eligible", share, (HALF * share, 1.0)))
    facts += [
        Fact.of_strength("explained", "the share of the outcome that covariates explain", stand_in.explained),
        Fact.of_strength("correlation", "the correlation between covariates", stand_in.correlation),
    ]
    if not getattr(study.estimator, "trial", False):
        facts.append(
            Fact.of_strength("distance", "how many standard deviations lie between the arms", stand_in.distance)
        )
    return [fact for fact in facts if fact.name in asked and fact.name not in told]


def _of_outcome(study: Study, stand_in: StandIn, told: Collection[str]) -> list[Fact]:
    """Return the outcome's mean or deviation; several outcomes have not one that could be told."""
    if not isinstance(study, EffectStudy) or len(study.outcomes) > 1:
        return []
    outcome = study.outcome
    if not outcome.two_valued:
        deviation = outcome.width / 4 if stand_in.deviation is None else stand_in.deviation
        return [Fact("deviation", "the outcome's standard deviation", deviation, (HALF * deviation,))]
    # The variance of an outcome of two values follows from its mean.
    if "deviation" in told:
        return []
    mean = outcome.middle if stand_in.mean is None else stand_in.mean
    return [Fact("mean", "the outcome's mean", mean, (outcome.lower + ONE_IN_TEN * outcome.width,))]


def _of_times(study: Study) -> list[Fact]:
    """Return what a study of times expects of all units, as far as it does not say so itself."""
    if not isinstance(study, SurvivalStudy):
        return []
    expect = study.expect
    facts = [
        Fact("risk", "the risk until the last horizon", expect.risk, (ONE_IN_TEN,), in_study=True),
        Fact("lost", "the share lost to follow-up", expect.lost, (HALF * expect.lost, TWICE * expect.lost), True),
    ]
    return [fact for fact in facts if fact.name not in expect.model_fields_set]


def what_matters(
    study: Study,
    sizes: Sizes,
    stand_in: StandIn,
    told: Collection[str],
    found: dict[str, Any],
    people: PublicPeople | None = None,
) -> list[Remark]:
    """Return a sentence for each fact that was not stated and matters.

    What was found is given the half-width at that of its other values which moves it most, by the fact's name, and its
    range is widened to hold all. A change is that between few draws of the same noise, applied to the half-width that
    is expected.

    Args:
        study: the study.
        sizes: its sizes.
        stand_in: the population of the plan.
        told: names of the values of ``StandIn`` that the reader stated.
        found: what the plan expects, in outcome units.
        people: the run's own, where their covariates and treatments are public; what these say is known.
    """
    told = told if people is None else {*told, *SEEN}
    sentences, widths, half_width = list[Remark](), dict[str, float](), float(found["half_width"])
    every = [half_width, *found.get("half_width_range", ())]
    found["half_width_if"] = widths
    try:
        estimator = estimator_of(study)
        facts = untold(study, estimator.facts_of(study), stand_in, told)
        here = estimator.point(study, sizes, stand_in, people) if facts else None
        for fact in facts if here and half_width > 0 else []:
            there = {}
            for other in fact.others:
                asked, population = fact.in_place(study, stand_in, other)
                found_there = estimator.point(asked, sizes, population, people)
                if found_there and here:
                    there[other] = half_width * found_there / here
            if there:
                widths[fact.name] = max(there.values(), key=lambda width: abs(math.log(width / half_width)))
                every += there.values()
                if abs(widths[fact.name] / half_width - 1) > MATTERS:
                    sentences.append(fact.sentence(there))
    except CausalveilError:
        # A population that the estimator cannot be planned for: the plan itself says so.
        return sentences
    if len(every) > 1:
        found["half_width_range"] = [min(every), max(every)]
    if sentences:
        # Each of these facts alone: together they may move it further.
        sentences.append(remark(PlanCode.untold_range, low=float(min(every)), high=float(max(every))))
    return sentences


def _plain(value: float) -> str:
    """Return three significant digits without an exponent, as people write money and shares."""
    return f"{float(f'{value:.3g}'):,.12g}"
