"""A study's plan with all that can be said before a row is read.

It is what ``causalveil.plan`` returns. The stand-in for what is private is the reader's, never the data's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from causalveil.flows.estimators.words import of_answer
from causalveil.flows.planning import curves
from causalveil.flows.planning.budget import budget_of
from causalveil.flows.planning.facts import what_matters
from causalveil.flows.sequence.declare import find_data, known_sizes, plan_study
from causalveil.flows.sequence.estimators import estimator_of
from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.estimators.direction import DirectionStudy
from causalveil.schemas.ledger import BudgetOutlook
from causalveil.schemas.mistakes import validate
from causalveil.schemas.plan import Plan, Sizes, StandIn
from causalveil.schemas.privacy import amount_text
from causalveil.schemas.protocols.study import EffectStudy, TableStudy
from causalveil.schemas.remarks import PlanCode, Remark, in_order, remark
from causalveil.schemas.shown import Shown
from causalveil.schemas.specification import unrecorded
from causalveil.schemas.study import Study
from causalveil.tasks.direction.answers import sweep
from causalveil.tasks.enclave.partitions import read_layout
from causalveil.tasks.enclave.public_columns import public_rows
from causalveil.tasks.inference.people import PublicPeople, assumed

if TYPE_CHECKING:
    from causalveil.flows.start_run import ArrowTable, Drafted

# What a study without a delta is compared with: small enough for a million units.
SUGGESTED_DELTA = Decimal("1e-6")
# A delta that widens the interval by more is not spoken of; nor is one that narrows it by less.
NOT_WORTH, SPARED = 1.05, 0.98
# What may be assumed of a population, as the command's options have it.
ALLOWED = {
    "treated": (0.01, 0.99),
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
        treated: share of treated units, from 0.01 to 0.99; default: 0.5, and the plan says how much that matters.
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
    people = people_of(path, study, declared)
    found = expected(study, declared, told, effect, people)
    budget = budget_of(path, study, declared)
    budget.add_to(found)
    stand_in = assumed(study, told)
    if penalties:
        if not isinstance(study, DirectionStudy):
            raise StudyError("--sweep penalty is for direction studies with the score 'hsic'")
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
    unrecorded_units = unrecorded(study.specification())
    if plan.sizes is None:
        return {
            "sentences": [*why, remark(PlanCode.no_units), remark(PlanCode.count_units)],
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
        estimator = estimator_of(asked)
        estimator.declare(asked, sizes)
        width = estimator.width(asked, sizes, stand_in, people)
    except CausalveilError:
        return []
    if width is None:
        return []
    found["half_width_without_delta" if delta == 0 else "half_width_with_delta"] = width
    if delta > 0 and width <= NOT_WORTH * found["half_width"]:
        return [remark(PlanCode.gaussian, delta=amount_text(delta), half_width=width)]
    if delta == 0 and width < SPARED * found["half_width"]:
        return [remark(PlanCode.no_delta, half_width=width)]
    return []
