"""Expectations of a study before it runs: the part of `plan` beside its charges.

The stand-in for what is private is the reader's, never the data's. A plan that assumes a fact in silence reads as a
promise (with 10 % treated an interval can be several times as wide as with half): facts that were not told are named,
each with what it would change.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from causalveil.flows.sequence.declare import find_data
from causalveil.flows.sequence.estimators import estimator_of
from causalveil.schemas.documents import validate
from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.plan import Plan, Sizes, StandIn
from causalveil.schemas.privacy import amount_text
from causalveil.schemas.protocols.study import ProtocolStudy
from causalveil.schemas.study import EffectStudy, Study, unrecorded_words
from causalveil.tasks.enclave.partitions import read_layout
from causalveil.tasks.enclave.public_columns import public_rows
from causalveil.tasks.enclave.split import sizes_of
from causalveil.tasks.inference.people import PublicPeople, assumed

# What a study without a delta is compared with: small enough for a million units.
SUGGESTED_DELTA = Decimal("1e-6")
NOT_WORTH = 1.05
# Other values of a fact that nobody stated: one in ten is treated, or has the rarer value of an outcome; an outcome
# that varies half as much as assumed, since a quarter of its range is much; half and twice as much of what covariates
# explain, of their correlation, and of the distance between the arms. Round numbers that a reader can place her own
# table between; they decide nothing.
ONE_IN_TEN, HALF, TWICE = 0.1, 0.5, 2.0
# A fact that changes the width by less than this part of it gets no sentence.
MATTERS = 0.05


def people_of(path: Path, study: Study, plan: Plan) -> PublicPeople | None:
    """Return the public covariates and treatments of the study's units.

    Their columns are public by the contract and their files lie in place.

    None elsewhere, and where a file does not hold what is declared: a run would say so. No outcome is read.

    Args:
        path: of the study file.
        study: the study.
        plan: its plan.
    """
    most = estimator_of(study).reads(study)
    if plan.sizes is None or most == 0 or not isinstance(study, EffectStudy):
        return None
    try:
        folder = find_data(path, study)
        contract = None if folder is None else folder.find_contract()
        if (
            folder is None
            or contract is None
            or contract.rows is not None
            or not {study.treatment, *study.covariates} <= set(contract.public)
        ):
            return None
        layout = read_layout(study, folder)
        if layout.units != plan.sizes.units:
            return None
        people = PublicPeople(public_rows(study, folder, layout, most))
        # A run refuses people of one arm.
        return people if 0 < people.treated < 1 else None
    except CausalveilError:
        return None


def expected(
    study: Study, plan: Plan, stand_in: StandIn, effect: float | None = None, people: PublicPeople | None = None
) -> dict[str, Any]:
    """Return the expected result of a study: sentences for people, numbers for scripts.

    Args:
        study: the study.
        plan: its plan; without a number of units there are no numbers.
        stand_in: the population that the reader assumes; what it was given by name counts as told, the rest is named
            with what it would change.
        effect: an effect in outcome units that the reader hopes to see.
        people: the run's own, where their covariates and treatments are public.
    """
    why = [] if study.choice is None else [f"{study.choice}."]
    unrecorded = [f"{one}." for one in unrecorded_words(study.specification())]
    if plan.sizes is None:
        return {
            "sentences": [
                *why,
                "The number of units is unknown: give --units N, or put the partitions in place.",
            ],
            "warnings": unrecorded,
        }
    told, stand_in = stand_in.model_fields_set, assumed(study, stand_in)
    found = dict(estimator_of(study).foresee(study, plan.sizes, stand_in, effect, people))
    found["warnings"] = [*unrecorded, *found["warnings"]]
    if found.get("half_width") is not None:
        # Whose columns are public is seen: nothing is assumed of their treatments.
        known = told if people is None else {*told, "treated"}
        facts = what_matters(study, plan.sizes, stand_in, known, found)
        # After the interval itself, which is the first sentence.
        found["sentences"] = [found["sentences"][0], *facts, *found["sentences"][1:]]
    found["sentences"] = [*why, *found["sentences"]]
    width = None if study.privacy.delta > 0 else _half_width_with_delta(study, plan.sizes, stand_in)
    if width is not None and found.get("half_width") is not None:
        found["half_width_with_delta"] = width
        # Where a delta would clearly widen the interval there is nothing to think about.
        if width > NOT_WORTH * found["half_width"]:
            return found
        found["sentences"] = [
            *found["sentences"],
            f"With delta: {amount_text(SUGGESTED_DELTA)} the half-width would be ± {width:.4g}, by Gaussian noise.",
        ]
    return found


def _half_width_with_delta(study: Study, sizes: Sizes, stand_in: StandIn) -> float | None:
    """Return the expected half-width if the study asked for a delta.

    Returns None where it could not spend one, or has no interval.
    """
    privacy = study.privacy.model_copy(update={"delta": SUGGESTED_DELTA})
    try:
        asked = validate(type(study), {**study.model_dump(), "privacy": privacy.model_dump()}, "study")
        estimator = estimator_of(asked)
        estimator.declare(asked, sizes)
        return estimator.width(asked, sizes, stand_in)
    except StudyError:
        return None


@dataclass(frozen=True)
class Fact:
    """A fact about the population that a reader may state.

    Attributes:
        name: of the field of ``StandIn``, and of the command's option.
        words: how a sentence names it.
        assumed: its value in the plan.
        others: values that are as possible.
    """

    name: str
    words: str
    assumed: float
    others: tuple[float, ...]

    @classmethod
    def of_strength(cls, name: str, words: str, assumed: float) -> Fact:
        """Return a fact that may be half as strong or twice as strong."""
        return cls(name, words, assumed, (HALF * assumed, TWICE * assumed))

    def in_place(self, study: Study, stand_in: StandIn, other: float) -> StandIn:
        """Return the population with another value of this fact, and what follows from that."""
        follows = {"deviation": None} if self.name == "mean" else {}
        return assumed(study, stand_in.model_copy(update={self.name: other, **follows}))

    def sentence(self, there: Mapping[float, float]) -> str:
        """Return what the fact is assumed to be, and the half-width at its other values."""
        each = " and ".join(f"± {_plain(width)} at {_plain(other)}" for other, width in there.items())
        return (
            f"Not told: {self.words}, assumed to be {_plain(self.assumed)}. The half-width would be about {each}: "
            f"state it with `--{self.name}`."
        )


def untold(study: Study, asked: Collection[str], stand_in: StandIn, told: Collection[str]) -> list[Fact]:
    """Return the facts that decide the width most and were not stated.

    Args:
        study: the study.
        asked: names of those that its estimator's width depends on.
        stand_in: the population of the plan, all its values in place.
        told: names of the values that the reader stated.
    """
    facts = [Fact("treated", "the treated share", stand_in.treated, (ONE_IN_TEN,))]
    if isinstance(study, EffectStudy) and study.outcome.two_valued:
        # The variance of an outcome of two values follows from its mean.
        low, width = study.outcome.lower, study.outcome.width
        if "deviation" not in told and stand_in.mean is not None:
            facts.append(Fact("mean", "the outcome's mean", stand_in.mean, (low + ONE_IN_TEN * width,)))
    elif isinstance(study, EffectStudy):
        deviation = study.outcome.width / 4 if stand_in.deviation is None else stand_in.deviation
        facts.append(Fact("deviation", "the outcome's standard deviation", deviation, (HALF * deviation,)))
    facts += [
        Fact.of_strength("explained", "the share of the outcome that covariates explain", stand_in.explained),
        Fact.of_strength("correlation", "the correlation between covariates", stand_in.correlation),
    ]
    if not getattr(study.estimator, "trial", False):
        facts.append(
            Fact.of_strength("distance", "how many standard deviations lie between the arms", stand_in.distance)
        )
    return [fact for fact in facts if fact.name in asked and fact.name not in told]


def _alone(study: Study, sizes: Sizes) -> tuple[Study, Sizes, Collection[str]]:
    """Return the study by which facts are weighed, its sizes, and facts that it need not be told.

    A protocol is weighed by its first question in a subgroup of average size, as if nothing else were asked. Several
    outcomes have not one mean and deviation that could be told, and more than two arms are taken to be equal.
    """
    if not isinstance(study, ProtocolStudy):
        return study, sizes, ()
    question = study.questions[study.first]
    needless = [*(("treated",) if study.arms is not None else ())]
    needless += ["mean", "deviation"] if len(study.outcomes) > 1 else []
    return question, sizes_of(question, max(sizes.units // len(study.groups), 2)), needless


def what_matters(
    study: Study,
    sizes: Sizes,
    stand_in: StandIn,
    told: Collection[str],
    found: dict[str, Any],
) -> list[str]:
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
    """
    sentences, widths, half_width = list[str](), dict[str, float](), float(found["half_width"])
    every = [half_width, *found.get("half_width_range", ())]
    found["half_width_if"] = widths
    try:
        study, sizes, needless = _alone(study, sizes)
        estimator = estimator_of(study)
        facts = untold(study, estimator.facts, stand_in, {*told, *needless})
        here = estimator.half_width(study, sizes, stand_in) if facts else None
        for fact in facts if here and half_width > 0 else []:
            there = {}
            for other in fact.others:
                found_there = estimator.half_width(study, sizes, fact.in_place(study, stand_in, other))
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
        sentences.append(f"Noise and any one of these leave it between ± {min(every):.3g} and ± {max(every):.3g}.")
    return sentences


def _plain(number: float) -> str:
    """Return three significant digits without an exponent, as people write money and shares."""
    return f"{float(f'{number:.3g}'):,.12g}"
