"""Plan a study with all that can be said before a row is read.

A plan has charges, expected widths and warnings. The stand-in for what is private is the reader's, never the data's. A
plan that assumes a fact in silence reads as a promise: with 10% treated an interval can be several times as wide as
with half. So it names each fact of the population that it was not told, with what that would change.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from causalveil.flows.estimators.words import of_answer
from causalveil.flows.plan import curves
from causalveil.flows.plan.budget import budget_of
from causalveil.flows.run.declare import find_data, known_sizes, plan_study
from causalveil.flows.run.estimators import estimator_of, expected_of
from causalveil.schemas.documents import Shown
from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.hints import Blank, option
from causalveil.schemas.ledger import BudgetOutlook
from causalveil.schemas.mistakes import validate
from causalveil.schemas.plan import Plan, Sizes, StandIn
from causalveil.schemas.privacy import amount_text
from causalveil.schemas.remarks import PlanCode, Remark, in_order, remark
from causalveil.schemas.specification import ranges_of_parts, unrecorded
from causalveil.schemas.study import Study
from causalveil.schemas.table import EffectStudy, TableStudy
from causalveil.tasks.data.normalise import public_rows
from causalveil.tasks.data.partitions import read_layout
from causalveil.tasks.estimate.papers.direction.stages import sweep
from causalveil.tasks.estimate.people import PublicPeople, assumed

if TYPE_CHECKING:
    from causalveil.flows.start_run import ArrowTable, Drafted


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
            else f"with `{option(self.name)}`"
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
    range is widened to hold all. A change is that between few draws of the same noise, or one where these are steady,
    applied to the half-width that is expected. Correlation between covariates is not among the facts: half or twice of
    it moved the widths of 17 studies of six estimators by at most 7%, and of two of 40 and 60 covariates by less than
    their draws differ.

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
    beside = curves.PlanRatios(study, sizes, stand_in, people)
    try:
        for fact in untold(study, estimator_of(study).facts_of(study), stand_in, told) if half_width > 0 else []:
            there = {}
            for other in fact.others:
                ratio = beside.ratio(*fact.in_place(study, stand_in, other), beside.tells)
                if ratio is not None:
                    there[other] = half_width * ratio
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


# What a study without a delta is compared with: small enough for a million units.
SUGGESTED_DELTA = Decimal("1e-6")
# A delta that widens the interval by more is not spoken of; nor is one that narrows it by less.
NOT_WORTH, SPARED = 1.05, 0.98
# One draw that is wider by so much says so of few.
CLEARLY_WORSE = 1.2
# What may be assumed of a population, as the command's options have it.
ALLOWED = {
    "treated": (0.001, 0.999),
    "deviation": (0.0, math.inf),
    "explained": (0.0, 0.99),
    "correlation": (0.0, 0.95),
    "spread": (0.001, 1.0),
    "distance": (0.0, 5.0),
    "eligible": (0.01, 1.0),
    "icc": (0.0, 1.0),
}


class StudyPlan(Shown, Plan):
    """A plan, and what its study can be expected to find.

    ``str`` of it reads as the command's output.

    ``expected`` has numbers by name, in outcome units (``half_width`` for an estimator with an interval); it is empty
    where the number of units is unknown. ``sentences`` and ``warnings`` have code, facts and sentence.
    ``budget``: what it would take of the dataset's budget; None where no contract lies beside the data.
    """

    specification: dict[str, Any]
    question: str
    estimator: str
    expected: dict[str, Any]
    sentences: tuple[Remark, ...]
    warnings: tuple[Remark, ...]
    budget: BudgetOutlook | None = None

    def brief(self) -> str:
        """Return study, question and cost in one line."""
        return f"{self.study}: {self.question} by {self.estimator}, epsilon {amount_text(self.total.epsilon)}"

    def __str__(self) -> str:
        """Return the command's plan as plain text."""
        size = "n units" if self.sizes is None else f"{self.sizes.units:,} units"
        lines = [f"{self.study}: {self.question} by {self.estimator} on {size}"]
        for charge in self.charges:
            cost = f"epsilon {amount_text(charge.epsilon)}, delta {amount_text(charge.delta)}"
            lines.append(f"  {charge.name}: {charge.mechanism}, {charge.scope} units, {cost}")
        lines.append(f"Total: epsilon {amount_text(self.total.epsilon)}, delta {amount_text(self.total.delta)}")
        lines += [f"Warning: {sentence}" for sentence in self.warnings]
        lines += [f"- {sentence}" for sentence in self.sentences]
        return "\n".join(lines)


def plan(
    study: str | Path | Mapping[str, Any] | Drafted,
    *,
    data: ArrowTable | None = None,
    contract: Mapping[str, Any] | None = None,
    units: int | None = None,
    effect: float | None = None,
    treated: float | None = None,
    deviation: float | None = None,
    mean: float | None = None,
    explained: float | None = None,
    correlation: float | None = None,
    spread: float | None = None,
    distance: float | None = None,
    eligible: float | None = None,
    icc: float | None = None,
) -> StudyPlan:
    """Plan a study: every charge, and how wide its interval would be. Reads no private column.

    Args:
        study: the study file, what ``draft`` returned, or with ``data`` a mapping with the keys of study.yaml.
        data: a polars, pandas or Arrow data frame of public or synthetic rows; None: the study file has its rows.
        contract: of ``data``, with the keys of dataset.yaml.
        units: number of units; default: what Parquet footers say, else formulas in n.
        effect: an effect in outcome units; the plan says whether an interval would exclude zero.
        treated: share of treated units, from 0.001 to 0.999; default: 0.5, and the plan says how much that matters.
        deviation: assumed standard deviation of the outcome in its units; default: a quarter of the declared width,
            of an outcome of 0 or 1 what its mean leaves, at most half.
        mean: assumed mean of the outcome; default: the middle of its range.
        explained: assumed share of the outcome that covariates explain, from 0 to 0.99; default: 0.3.
        correlation: assumed correlation between covariates, from 0 to 0.95; default: 0.3.
        spread: assumed standard deviation of a covariate over half its range, from 0.001 to 1.
        distance: by how many standard deviations the arms' means of what drives treatment differ, from 0 to 5; default:
            1.
        eligible: share of units that meet ``where``, from 0.01 to 1; default: 0.5, and the plan says so.
        icc: correlation within clusters, from 0 to 1; default: 0.05 where whole clusters were treated, else 0.01.

    Raises:
        StudyError: the study or an argument is wrong.
        DataError: partitions are there but cannot be read.

    Examples:
        >>> import causalveil
        >>> planned = causalveil.plan("data/lalonde/study-difference.yaml", treated=0.4, deviation=6_000)
        >>> planned.total.epsilon, planned.total.delta
        (Decimal('1.0'), Decimal('0.000010'))
        >>> 2_000 < planned.expected["half_width"] < 3_500
        True
    """
    from causalveil.flows.start_run import study_given

    facts = {
        "treated": treated,
        "deviation": deviation,
        "mean": mean,
        "explained": explained,
        "correlation": correlation,
        "spread": spread,
        "distance": distance,
        "eligible": eligible,
        "icc": icc,
    }
    _refuse_other_than_numbers({"units": units, "effect": effect, **facts})
    if units is not None and units < 2:
        raise StudyError(f"units must be at least 2, not {units}")
    told = StandIn.told(**facts)
    for name in told.model_fields_set:
        low, high = ALLOWED.get(name, (-math.inf, math.inf))
        if not low <= (value := getattr(told, name)) <= high:
            raise StudyError(f"{name}, which is assumed, must lie in [{low:g}, {high:g}], not {value:g}")
    found = planned(study_given(study, data, contract), units, told, effect)
    return StudyPlan(
        **dict(found.declared),
        specification=found.study.specification(),
        question=found.study.question,
        estimator=found.study.estimator.name,
        expected={key: value for key, value in found.expected.items() if key not in ("sentences", "warnings")},
        sentences=tuple(found.expected["sentences"]),
        warnings=tuple(found.expected["warnings"]),
        budget=found.budget,
    )


def _refuse_other_than_numbers(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        kind = Integral if name == "units" else Real
        if value is not None and (type(value) is bool or not isinstance(value, kind)):
            what = "a whole number" if name == "units" else "a number"
            raise StudyError(f"{name} must be {what}, not {type(value).__name__}")


class Planned(NamedTuple):
    """A study, its charges, what can be expected of it, and its part of a budget."""

    study: Study
    declared: Plan
    expected: dict[str, Any]
    budget: BudgetOutlook | None


def planned(
    path: Path,
    units: int | None,
    told: StandIn,
    effect: float | None = None,
    *,
    target: float | None = None,
    curve: Path | None = None,
    penalties: bool = False,
) -> Planned:
    """Plan a study from public facts alone.

    The result has its charges, expected half-width, searches, and what it takes of a budget.

    Args:
        path: the study file.
        units: number of units; None: what Parquet footers say.
        told: the population, as far as the reader states it by name.
        effect: an effect in outcome units that the reader hopes to see.
        target: a half-width whose epsilon is searched.
        curve: where half-widths against epsilon and units are drawn.
        penalties: whether to compare penalties of a direction study.

    Raises:
        StudyError: the study or an argument is wrong.
        DataError: partitions are there but cannot be read.
    """
    study, declared = plan_study(path, units)
    told = expected_of(study, told)
    people = people_of(path, study, declared)
    found = expected(study, declared, told, effect, people)
    budget = budget_of(path, study, declared)
    budget.add_to(found)
    stand_in = assumed(study, told)
    if penalties:
        found["sweep"] = sweep(study, known_sizes(declared))
    if target is not None:
        sizes = known_sizes(declared)
        of = found.get("half_width_of", "")
        found["target"] = curves.target(study, sizes, stand_in, target, people, found.get("half_width"), of)
        found["sentences"].append(found["target"].pop("remark"))
    if curve is not None:
        found["curve"] = str(curves.draw(study, known_sizes(declared), stand_in, curve, people))
        of = of_answer(found.get("half_width_of", ""))
        found["sentences"].append(remark(PlanCode.curve, of=of, path=found["curve"]))
    found["sentences"], found["warnings"] = in_order(found["sentences"]), in_order(found["warnings"])
    return Planned(study, declared, found, budget.outlook)


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
    why = [] if study.choice is None else [remark(PlanCode.chosen, choice=study.choice)]
    unrecorded_units = (*unrecorded(study.specification()), *ranges_of_parts(study.specification()))
    if plan.sizes is None:
        return {
            "sentences": [*why, remark(PlanCode.no_units, way=option(units=Blank("N"))), remark(PlanCode.count_units)],
            "warnings": list(unrecorded_units),
        }
    told, stand_in = stand_in.model_fields_set, assumed(study, stand_in)
    if "treated" in told and isinstance(study, TableStudy) and len(study.arm_names) > 2:
        raise StudyError(
            f"treated is the share of one of two arms, and this study has {len(study.arm_names)}, which a plan takes "
            "to be of one size; leave it out"
        )
    found = estimator_of(study).expected(study, plan.sizes, stand_in, effect, people)
    found["warnings"] = [*unrecorded_units, *found["warnings"]]
    if found.get("half_width") is not None:
        found["sentences"] = [*found["sentences"], *what_matters(study, plan.sizes, stand_in, told, found, people)]
    found["sentences"] = [*why, *found["sentences"]]
    if found.get("half_width") is not None:
        found["sentences"] += _other_delta(study, plan.sizes, stand_in, people, found)
    return found


def _other_delta(
    study: Study, sizes: Sizes, stand_in: StandIn, people: PublicPeople | None, found: dict[str, Any]
) -> list[Remark]:
    """Return what the half-width would be with a delta, or without one, where that is worth a thought."""
    delta = SUGGESTED_DELTA if study.privacy.delta == 0 else Decimal(0)
    privacy = study.privacy.model_copy(update={"delta": delta})
    try:
        asked = validate(type(study), {**study.model_dump(), "privacy": privacy.model_dump()}, "study")
        estimator_of(asked).declare(asked, sizes)
        beside = curves.PlanRatios(study, sizes, stand_in, people)
        ratio = beside.ratio(asked, stand_in, lambda told: told > CLEARLY_WORSE)
    except CausalveilError:
        return []
    if ratio is None:
        return []
    # Few draws are held against as few of the same noise.
    width = found["half_width"] * ratio
    found["half_width_without_delta" if delta == 0 else "half_width_with_delta"] = width
    if delta > 0 and width <= NOT_WORTH * found["half_width"]:
        return [remark(PlanCode.gaussian, delta=amount_text(delta), half_width=width)]
    if delta == 0 and width < SPARED * found["half_width"]:
        return [remark(PlanCode.no_delta, half_width=width)]
    return []
