"""Answer a table at label level: its comparisons, their weights, the one draw, the answers.

A comparison is an arm against the reference in a subgroup. Subgroups and arms are public at label level, so splitting
rows by them reads nothing private, and weights are functions of public columns, so they cost nothing. One weighting
serves all outcomes: it is chosen for the noise of the first primary one.

The one draw has two numbers of each outcome in each comparison. A person has one value of each outcome, lies in one
subgroup, and is in one comparison of it, or in all of them if in the reference arm. Numbers of outcome k are multiplied
by w_k and all by r, so that together they move as far as those of one question (``docs/proofs/questions.md``, section
7).

Each answer is that of one question with its part of the noise (``docs/proofs/balancing.md``, section 4;
``docs/proofs/matching.md``, section 5). Sizes of subgroups, balance and overlap are public and enter exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from causalveil.schemas.answers import BalanceRow, GateResult
from causalveil.schemas.errors import DataError
from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.schemas.estimators.difference import DifferenceStudy
from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.schemas.estimators.matching import MatchingEstimator, MatchingStudy
from causalveil.schemas.limits import Code, united
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import PrivacyCost
from causalveil.schemas.study import Estimand
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.covariates import Columns
from causalveil.tasks.data.enclave import Enclave
from causalveil.tasks.estimate.answers import (
    Part,
    calibrate,
    covered,
    error_details,
    table,
    with_all_units,
    with_statement,
)
from causalveil.tasks.estimate.contrasts import contrast_answers
from causalveil.tasks.estimate.findings import balance_gate, critical_of, gated, overlap_gate, simultaneous
from causalveil.tasks.estimate.interval import NOISY, Findings, allowance_beside
from causalveil.tasks.estimate.label import balancing
from causalveil.tasks.estimate.label.weighings import weigh_by_propensity, weigh_equally, weigh_matched
from causalveil.tasks.estimate.people import check_cells
from causalveil.tasks.estimate.weights import weighted_means
from causalveil.tasks.estimate.weights.features import Difference, Weighing, open_units, save_units
from causalveil.tasks.estimate.weights.weighted_means import (
    SLOT,
    NoisyDifference,
    WeightedUnits,
    exact_sums,
    refuse_empty,
)
from causalveil.tasks.machine.arrays import BoolArray, FloatArray
from causalveil.tasks.privacy.mechanisms import Budget, Mechanism

T = TypeVar("T")
NAMES = ("x", "t", "u", "h")


@dataclass(frozen=True)
class PartEnclave(Enclave):
    """Hold the rows of another enclave that one comparison reads, in arrays of its own."""

    whole: Enclave
    name: str
    segments: int

    def save(self, name: str, array: NDArray[Any]) -> None:
        """Store an array of these rows alone."""
        self.whole.save(f"{name}-{self.name}", array)

    def load(self, name: str, segment: int | None = None) -> NDArray[Any]:
        """Load as of the whole, for these rows."""
        place = f"{name}-{self.name}"
        return self.whole.load(place if segment is None else f"{place}-{segment}")

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Compute as of the whole, for these rows."""
        return self.whole.once((self.name, key), compute)


@dataclass(frozen=True)
class Comparison:
    """A subgroup's arm against the reference: public facts.

    Attributes:
        group, arm: their names.
        name: of its rows in the enclave; empty where they are all rows.
        arms: units of the arm and of the reference.
        units: units of the subgroup in all arms.
        segments: number of segments of its rows.
        group_segments: number of segments of all rows of the subgroup, where it has more arms; else None.
    """

    group: str
    arm: str
    name: str
    arms: tuple[int, int]
    units: int
    segments: int
    group_segments: int | None

    def rows(self, enclave: Enclave) -> Enclave:
        """Return the rows that are compared; t is 1 in the arm and 0 in the reference."""
        return PartEnclave(enclave, self.name, self.segments) if self.name else enclave

    def subgroup(self, enclave: Enclave) -> PartEnclave | None:
        """Return all rows of the subgroup, where it has more arms than two."""
        if self.group_segments is None:
            return None
        return PartEnclave(enclave, _group_name(self.group), self.group_segments)

    def weight(self, estimand: Estimand) -> int:
        """Return the number of units over whom the effect is averaged."""
        treated, controls = self.arms
        return self.units if estimand is Estimand.ATE else (controls, treated)[estimand.arms[0]]


def _group_name(group: str) -> str:
    """Return the name of a subgroup's rows, by bytes of its label, which may be any text."""
    return "all-" + group.encode().hex()


def compare_stage(study: EffectStudy, enclave: Enclave) -> tuple[Comparison, ...]:
    """Write the rows of each comparison, and count them; one that holds all rows is not written."""
    if len(study.groups) == 1 and len(study.arm_names) == 2 and not study.where:
        arms = _arms(enclave)
        return (Comparison(study.groups[0], study.arm_names[1], "", arms, sum(arms), enclave.segments, None),)
    comparisons, more_arms = list[Comparison](), len(study.arm_names) > 2
    for group, label in enumerate(study.groups):
        pieces, units = _write(enclave, _group_name(label), group, None, more_arms)
        for arm, name in enumerate(study.arm_names[1:], 1):
            place = f"{_group_name(label)}-{arm}"
            segments, _ = _write(enclave, place, group, arm, True)
            arms = _arms(PartEnclave(enclave, place, segments))
            comparisons.append(Comparison(label, name, place, arms, units, segments, pieces if more_arms else None))
    return tuple(comparisons)


def _arms(rows: Enclave) -> tuple[int, int]:
    """Return the numbers of treated units and of controls."""
    parts = [rows.load("t", segment) for segment in range(rows.segments)]
    treated = sum(int(np.count_nonzero(part)) for part in parts)
    return treated, sum(map(len, parts)) - treated


def _write(enclave: Enclave, place: str, group: int, arm: int | None, keep: bool) -> tuple[int, int]:
    """Write a subgroup's rows if ``keep``, and count pieces and rows; arm None: of all arms."""
    pieces = rows = 0
    for segment in range(enclave.segments):
        g, t = enclave.load("g", segment), enclave.load("t", segment)
        chosen: BoolArray = (g == group) if arm is None else (g == group) & ((t == arm) | (t == 0))
        count = int(np.count_nonzero(chosen))
        if not count:
            continue
        if keep:
            for name in NAMES:
                values = enclave.load(name, segment)[chosen]
                if name == "t":
                    values = (values != 0).astype(np.uint8) if arm is None else (values == arm).astype(np.uint8)
                enclave.save(f"{name}-{place}-{pieces}", values)
        pieces, rows = pieces + 1, rows + count
    return pieces, rows


# By the class of a question's study, the function that makes its weights.
Weigh = Callable[[Any, Enclave, float, Enclave | None], tuple[Weighing, WeightedUnits]]
METHODS: Mapping[type[EffectStudy], Weigh] = {
    BalancingStudy: balancing.weigh,
    DifferenceStudy: weigh_equally,
    IpwStudy: weigh_by_propensity,
    MatchingStudy: weigh_matched,
}


def weigh_stage(
    study: EffectStudy, enclave: Enclave, comparisons: Sequence[Comparison], times_noise: float
) -> tuple[Weighing | None, ...]:
    """Store every unit's weight and the pairs of the variance; None where an arm is too small.

    Args:
        study: the study.
        enclave: its rows, by comparison.
        comparisons: all of them.
        times_noise: factor of the first primary outcome's noise over that of a draw of this outcome alone.

    Raises:
        DataError: every arm is too small; nothing was drawn.
    """
    weighings, question, problem = list[Weighing | None](), study.questions[study.first], DataError("")
    for comparison in comparisons:
        rows = comparison.rows(enclave)
        try:
            refuse_empty(*comparison.arms)
            weighing, units = METHODS[type(question)](question, rows, times_noise, comparison.subgroup(enclave))
        except DataError as too_small:
            # By public facts alone: an arm is empty, or has too few units, or none near enough, to be matched.
            problem = too_small
            weighings.append(None)
            continue
        save_units(rows, units)
        if question.ADJUSTS:
            weighing = replace(weighing, differences=_differences(question, rows, units.weights))
        weighings.append(weighing)
    if not any(weighings):
        raise problem
    return tuple(weighings)


def _differences(study: EffectStudy, rows: Enclave, weights: NDArray[Any]) -> tuple[Difference, ...]:
    """Compute the arms' difference in each column before and after weighting, in one pass."""
    columns = Columns.of(study)
    places = list(columns.kept)
    plain, squares, weighted = (np.zeros((2, len(places))) for _ in range(3))
    counts, totals, passed = np.zeros(2), np.zeros(2), 0
    for segment in range(rows.segments):
        x, t = rows.load("x", segment)[:, places], rows.load("t", segment)
        own = np.asarray(weights[passed : passed + len(t)], dtype=np.float64)
        passed += len(t)
        for arm in (0, 1):
            chosen = t == arm
            plain[arm] += x[chosen].sum(axis=0)
            squares[arm] += np.square(x[chosen]).sum(axis=0)
            weighted[arm] += own[chosen] @ x[chosen]
            counts[arm] += np.count_nonzero(chosen)
            totals[arm] += own[chosen].sum()
    means = plain / counts[:, None]
    spread = np.sqrt(np.maximum(squares / counts[:, None] - means**2, 0).mean(axis=0))
    scale = np.where(spread > 1e-9, 1 / np.maximum(spread, 1e-9), 0.0)
    before, after = (means[1] - means[0]) * scale, (weighted[1] / totals[1] - weighted[0] / totals[0]) * scale
    return tuple(
        Difference(name, *values) for name, *values in zip(columns.names, before.tolist(), after.tolist(), strict=True)
    )


@dataclass(frozen=True)
class JointDraw:
    """The draw of a protocol: its cost, the outcomes' weights, and the number of arms."""

    cost: PrivacyCost
    weights: tuple[float, ...]
    arms: int

    @classmethod
    def of(cls, study: EffectStudy) -> JointDraw:
        """Return the draw of a study."""
        return cls(study.privacy.cost, study.outcome_weights, len(study.arm_names))

    @property
    def gaussian(self) -> bool:
        """True if there is a delta to spend."""
        return self.cost.delta > 0

    @property
    def shared(self) -> float:
        """The factor r of all numbers, since a unit of the reference is in arms - 1 comparisons."""
        return 1 / math.sqrt(self.arms - 1) if self.gaussian else 1 / (self.arms - 1)

    @property
    def mechanism(self) -> Mechanism:
        """Gaussian noise, or Laplace noise without a delta, of the sensitivity of one question."""
        return weighted_means.mechanism(self.cost)

    def part(self, outcome: int) -> float:
        """Return the factor of an outcome's numbers."""
        return self.weights[outcome] * self.shared

    def louder(self, outcome: int) -> float:
        """Return the factor of an outcome's noise over that of a draw of this outcome alone."""
        return 1 / self.part(outcome)

    def deviation(self, outcome: int) -> float:
        """Return the standard deviation of the noise on an outcome's numbers."""
        return (1.0 if self.gaussian else math.sqrt(2)) * self.mechanism.known_scale / self.part(outcome)


def without_delta(study: EffectStudy) -> float:
    """Return the ratio of the first primary outcome's noise without a delta to that with it."""
    privacy = study.privacy.model_copy(update={"delta": Decimal(0)})
    pure = JointDraw.of(study.model_copy(update={"privacy": privacy}))
    return pure.deviation(study.first) / JointDraw.of(study).deviation(study.first)


def mechanism(study: EffectStudy, sizes: Sizes | None) -> Mechanism:
    """Return the mechanism of the protocol's one draw, the same for any number of units.

    Raises:
        StudyError: there are more cells than the budget can serve.
    """
    draw = JointDraw.of(study)
    if sizes is not None:
        # With even weights an estimate in [-2, 2] has noise of 2/n of the draw's, n the units of an arm.
        least = -float(ndtri((1 - study.confidence) / 2)) * draw.deviation(study.first)
        if isinstance(study.estimator, MatchingEstimator):
            least = max(least, study.estimator.ratio)
        check_cells(sizes.units, len(study.groups), draw.arms, least)
    return draw.mechanism


def exact_numbers(
    study: EffectStudy, enclave: Enclave, comparisons: Sequence[Comparison], weighed: Sequence[Weighing | None]
) -> FloatArray:
    """Return numbers before noise, shape (comparisons, outcomes, 2); 0 without weights."""
    draw = JointDraw.of(study)
    numbers = np.zeros((len(comparisons), len(study.outcomes), 2))
    for place, (comparison, weighing) in enumerate(zip(comparisons, weighed, strict=True)):
        if weighing is None:
            continue
        rows = comparison.rows(enclave)
        units, in_treated = open_units(rows, weighing.weights), rows.gather("t")
        # One column of each outcome, even of a single outcome.
        u = rows.gather("u").reshape(len(in_treated), -1)
        for outcome in range(len(study.outcomes)):
            exact = exact_sums(units, in_treated, u[:, outcome], draw.cost, draw.louder(outcome))
            numbers[place, outcome] = [float(Fraction(draw.part(outcome)) * number) for number in exact]
    return numbers


def perturb_stage(
    study: EffectStudy,
    enclave: Enclave,
    comparisons: Sequence[Comparison],
    weighed: Sequence[Weighing | None],
    budget: Budget,
) -> FloatArray:
    """Release the numbers of all comparisons in one draw, shape (comparisons, outcomes, 2)."""
    exact = exact_numbers(study, enclave, comparisons, weighed)
    return JointDraw.of(study).mechanism.release(exact.ravel(), SLOT, budget).reshape(exact.shape)


def part_of(
    study: EffectStudy,
    draw: JointDraw,
    outcome: int,
    place: tuple[str, str],
    weighing: Weighing | None,
    numbers: Sequence[float],
    answers: int,
) -> Part:
    """Return one answer of the table.

    Args:
        study: the study.
        draw: its draw.
        outcome: its place in the study.
        place: subgroup and arm.
        weighing: the weights; None: an arm is too small to be compared.
        numbers: the two released numbers.
        answers: number of answers of the table.
    """
    group, arm = place
    half, mixing = study.outcomes[outcome].width / 2, None if draw.gaussian else 1.0
    if weighing is None:
        return Part(outcome, group, arm, False, 0.0, 0.0, 0.0, 0.0, half / 2, None, mixing, hidden=Code.arm_too_small)
    weights, bias, deviation = weighing.weights, weighing.bias, draw.deviation(outcome)
    sums = [number / draw.part(outcome) for number in numbers]
    read = NoisyDifference.of(weights, draw.cost, sums, bias, draw.louder(outcome))
    noise, of_variance = (deviation * read.noise) ** 2, deviation * read.variance_noise
    upper = min(max(read.variance, 0.0), weights.largest_variance)
    if of_variance > 0:
        # One allowance serves both intervals: the larger.
        confidences = (study.confidence, 1 - (1 - study.confidence) / answers)
        widest = max(allowance_beside(of_variance / noise, level, bias, not draw.gaussian) for level in confidences)
        upper = min(upper + widest * of_variance, weights.largest_variance)
    return Part(
        outcome=outcome,
        group=group,
        arm=arm,
        answered=True,
        value=read.value * half,
        sampling=upper * half**2,
        noise=noise * half**2,
        bias=bias * math.sqrt(upper) * half,
        spread=math.sqrt(min(upper / float(sum(weights.weight_squares)), 1.0)) * half,
        confounding=weighing.confounding,
        mixing=mixing,
    )


def _of_one_question(study: EffectStudy, findings: Findings, weighing: Weighing | None) -> Findings:
    """Return a table of one row with the details of a single question."""
    if weighing is None:
        raise ValueError("a table without weights is refused before its draw")
    return replace(
        with_statement(findings, weighing.confounding),
        covers=(*NOISY, *weighing.covers),
        details={
            **error_details(study, findings),
            **weighing.weights.details(study.outcome.width),
            **weighing.details,
        },
    )


def answers_stage(
    study: EffectStudy,
    comparisons: Sequence[Comparison],
    weighed: Sequence[Weighing | None],
    released: FloatArray,
) -> Findings:
    """Return the answers, from public and released values alone."""
    draw, cells = JointDraw.of(study), (len(study.arm_names) - 1) * len(study.answered_groups)
    answers = len(study.outcomes) * cells + len(study.contrasts)
    parts = []
    for comparison, weighing, numbers in zip(comparisons, weighed, released, strict=True):
        place = (comparison.group, comparison.arm)
        for outcome in range(len(study.outcomes)):
            parts.append(part_of(study, draw, outcome, place, weighing, numbers[outcome].tolist(), answers))
    weights = [(comparison.arm, comparison.weight(study.estimand)) for comparison in comparisons]
    sizes = {arm: [weight for name, weight in weights if name == arm] for arm in study.arm_names[1:]}
    total = float(max(sum(counts) for counts in sizes.values()))
    parts = with_all_units(study, parts, sizes, 0.0, total)
    rows, calibration = calibrate(study, parts, table(study, parts))
    gates = gates_of(study, comparisons, weighed)
    details: dict[str, float | int | str | bool] = {
        "cells": len(study.groups) * len(study.arm_names),
        **simultaneous(len(rows) + len(study.contrasts)),
    }
    for comparison in comparisons:
        # In the order of the arms, of which the reference is the first.
        details[f"units[{comparison.group}][{study.arm_names[0]}]"] = comparison.arms[1]
        details[f"units[{comparison.group}][{comparison.arm}]"] = comparison.arms[0]
    answered = gated(study, rows, gates)
    findings = Findings(
        answers=answered,
        confidence=study.confidence,
        covers=covered(study, answered),
        balance=tuple(
            BalanceRow(
                group=comparison.group,
                arm=comparison.arm,
                covariate=row.covariate,
                before=row.before,
                after=row.after,
                noise_error=0.0,
            )
            for comparison, weighing in zip(comparisons, weighed, strict=True)
            if weighing is not None
            for row in weighing.differences
        ),
        gates=gates,
        calibration=calibration,
        not_covered=united(limit for weighing in filter(None, weighed) for limit in weighing.not_covered),
        details=details,
        contrasts=contrast_answers(study, parts, answered),
    )
    return _of_one_question(study, findings, weighed[0]) if study.asks_one else findings


def gates_of(
    study: EffectStudy, comparisons: Sequence[Comparison], weighed: Sequence[Weighing | None]
) -> tuple[GateResult, ...]:
    """Return every declared gate in every comparison, exact but where nothing was weighed."""
    results, gates = list[GateResult](), study.gates
    if gates is None:
        return ()
    for comparison, weighing in zip(comparisons, weighed, strict=True):
        place = (comparison.group, comparison.arm)
        if gates.balance is not None:
            rows = [] if weighing is None else [(row.after, 0.0) for row in weighing.differences]
            results.append(balance_gate(*place, gates.balance, rows, critical_of(1)))
        if gates.overlap is not None:
            value, error = (1.0, 1.0) if weighing is None else (weighing.weights.least_effective, 0.0)
            results.append(overlap_gate(*place, gates.overlap, value, error, critical_of(1)))
    return tuple(results)
