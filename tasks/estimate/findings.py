"""Assemble what a release holds of a table: answers, balance, gates, calibration.

Everything is post-processing of released values. A gate on balance or overlap fails only when a released value is
significantly beyond its bound, passes when it is significantly within, and cannot tell otherwise: noise must not
decide. Its error of 5% is divided among all values that it looks at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from causalveil.schemas.answers import Answer, BalanceRow, Benchmark, GateResult, GateVerdict, State
from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.limits import Code, Limit, limit, united
from causalveil.schemas.plan import Sizes
from causalveil.schemas.questions import ALL_UNITS, FailedGate, OutcomeRole
from causalveil.schemas.release import EffectTable
from causalveil.schemas.sites.pooled import Published
from causalveil.schemas.study import Estimand
from causalveil.schemas.table import EffectStudy
from causalveil.tasks.data.covariates import blocks
from causalveil.tasks.estimate.adjust.five_releases import FiveReleases, differences, effective, unlike
from causalveil.tasks.estimate.adjust.interval import (
    ErrorLaw,
    confounding,
    covers_unseen,
    curve_names,
    curves_not_covered,
    cut_away,
)
from causalveil.tasks.estimate.adjust.interval import not_covered as not_covered_of_one
from causalveil.tasks.estimate.adjust.questions import Asked, JointScales, Questions, of_table
from causalveil.tasks.estimate.adjust.recipe import TWO_ARMS, joint_recipe
from causalveil.tasks.estimate.adjust.released import ReleasedProducts
from causalveil.tasks.estimate.answers import (
    Part,
    calibrate,
    clusters_statement,
    covered,
    error_details,
    scale_of,
    table,
    with_all_units,
    with_statement,
)
from causalveil.tasks.estimate.clusters import ClusteredVariances
from causalveil.tasks.estimate.contrasts import contrast_answers
from causalveil.tasks.estimate.interval import EFFECTIVE, NOISY, Findings
from causalveil.tasks.estimate.robustness import benchmarks
from causalveil.tasks.machine.distribute import one_thread

GATE_ERROR = 0.05
# From the best to the worst.
VERDICTS = (GateVerdict.passed, GateVerdict.cannot_tell, GateVerdict.failed)
# A checked value's verdict, the value, and the deviation of its noise.
Check = tuple[GateVerdict, float, float]
# Weights that leave less of an arm's precision extrapolate to many people whom the other arm lacks.
ENOUGH_LEFT = 0.5
# The fields that a withheld answer lacks.
NUMBERS = ("estimate", "interval", "simultaneous", "calibrated", "noise_error", "sampling_error", "bias", "spread")


def sides_of(study: EffectStudy) -> list[str]:
    """Return the arms under which a subgroup's comparisons are shown.

    Of two arms it is the second; of more it is each, compared with all others.
    """
    return [study.arm_names[1]] if len(study.arm_names) == TWO_ARMS else list(study.arm_names)


def primary_questions(study: EffectStudy, group: Questions | None) -> Sequence[FiveReleases] | None:
    """Return the first primary outcome's questions of a subgroup; None where noise hides them."""
    return None if group is None else group[study.first]


def balance_of(study: EffectStudy, asked: Asked) -> tuple[BalanceRow, ...]:
    """Return standardised differences of each adjusted column, by subgroup and side."""
    rows = list[BalanceRow]()
    for label, group in zip(study.groups, asked, strict=True):
        for arm, question in zip(sides_of(study), primary_questions(study, group) or (), strict=False):
            rows.extend(BalanceRow(group=label, arm=arm, **vars(difference)) for difference in differences(question))
    return tuple(rows)


def benchmarks_of(study: RegressionStudy, asked: Asked) -> tuple[Benchmark, ...]:
    """Return how much each covariate explains of the headline's outcome and of treatment.

    The result is empty in a trial, and where the headline is of several questions.
    """
    row = primary_questions(study, asked[0]) if len(asked) == 1 else None
    if study.estimator.trial or row is None or len(study.arm_names) != TWO_ARMS:
        return ()
    return benchmarks(row[0], tuple(block.name for block in blocks(study)))


def gate_results(study: EffectStudy, asked: Asked, balance: Sequence[BalanceRow]) -> tuple[GateResult, ...]:
    """Return every declared gate in every subgroup and comparison."""
    gates, results, sides = study.gates, list[GateResult](), sides_of(study)
    if gates is None:
        return ()
    values = max(len(balance), 1)
    for label, group in zip(study.groups, asked, strict=True):
        for side, arm in enumerate(sides):
            if gates.balance is not None:
                after = [(row.after, row.noise_error) for row in balance if (row.group, row.arm) == (label, arm)]
                results.append(balance_gate(label, arm, gates.balance, after, critical_of(values)))
            if gates.overlap is not None:
                critical = critical_of(len(study.groups) * len(sides))
                # No verdict on a subgroup that noise hides.
                row = primary_questions(study, group)
                value, error = (1.0, math.inf) if row is None else effective(row[side])
                results.append(overlap_gate(label, arm, gates.overlap, value, min(error, 1.0), critical))
    return tuple(results)


def placebo_gates(study: EffectStudy, parts: Sequence[Part]) -> tuple[GateResult, ...]:
    """Return the gate on placebos in every subgroup and arm: that of the worst placebo.

    A placebo passes only if it is within its bound with its bias added, and fails only if beyond it with its bias
    subtracted.
    """
    if study.gates is None or study.gates.placebo is None:
        return ()
    bound, is_placebo = study.gates.placebo, [outcome.role is OutcomeRole.placebo for outcome in study.outcomes]
    placebos = [part for part in parts if is_placebo[part.outcome] and part.group in study.groups]
    critical, cells = critical_of(max(len(placebos), 1)), dict[tuple[str, str], list[Check]]()
    for part in placebos:
        scale = scale_of(part.spread, study.outcomes[part.outcome].width)
        value, bias = abs(part.value) / scale, part.bias / scale
        verdict, error = GateVerdict.cannot_tell, bound
        if part.answered:
            error = math.sqrt(part.sampling + part.noise) / scale
            ends = {_verdict(value + sign * bias - bound, error, critical) for sign in (-1, 1)}
            verdict = ends.pop() if len(ends) == 1 else verdict
        cells.setdefault((part.group, part.arm), []).append((verdict, value, error))
    return tuple(_worst("placebo", *cell, bound, checks) for cell, checks in cells.items())


def _worst(gate: str, group: str, arm: str, bound: float, checks: Sequence[Check]) -> GateResult:
    """Return a gate by its worst value: by verdict, then by size."""
    verdict, value, error = max(checks, key=lambda check: (VERDICTS.index(check[0]), check[1]))
    return GateResult(gate=gate, group=group, arm=arm, bound=bound, value=value, noise_error=error, verdict=verdict)


def critical_of(values: int) -> float:
    """Return the one-sided quantile of the gates' error, divided among this number of values."""
    from scipy.special import ndtri

    return -float(ndtri(GATE_ERROR / values))


def _verdict(beyond: float, error: float, critical: float) -> GateVerdict:
    """Return the verdict on the distance of a value beyond its bound, negative within it."""
    if beyond > critical * error:
        return GateVerdict.failed
    return GateVerdict.passed if beyond < -critical * error else GateVerdict.cannot_tell


def balance_gate(
    label: str, arm: str, bound: float, numbers: Sequence[tuple[float, float]], critical: float
) -> GateResult:
    """Return the balance gate by the worst covariate: by verdict, then by difference.

    Args:
        label: the subgroup.
        arm: the arm.
        bound: as declared.
        numbers: by covariate the difference after weighting and its noise's deviation; empty if not released.
        critical: quantile of :func:`critical_of`.
    """
    rows = [(_verdict(abs(after) - bound, error, critical), abs(after), error) for after, error in numbers]
    return _worst("balance", label, arm, bound, rows or [(GateVerdict.cannot_tell, 0.0, bound)])


def overlap_gate(label: str, arm: str, bound: float, value: float, error: float, critical: float) -> GateResult:
    """Return the overlap gate: whether weights leave enough effective units.

    ``value``: the smaller arm's effective share; ``error``: the deviation of its noise.
    """
    return _worst("overlap", label, arm, bound, [(_verdict(bound - value, error, critical), value, error)])


def gated(study: EffectStudy, answers: Sequence[Answer], gates: Sequence[GateResult]) -> tuple[Answer, ...]:
    """Return the table after its gates: answers behind a failed gate are withheld, or marked."""
    if study.gates is None:
        return tuple(answers)
    failed = {(gate.group, gate.arm) for gate in gates if gate.verdict is GateVerdict.failed}
    updates: dict[str, object] = {"state": State.marked}
    if study.gates.failed is FailedGate.withhold:
        updates = {"state": State.withheld, "measures": (), **dict.fromkeys(NUMBERS)}
    released = []
    for answer in answers:
        arms = (answer.arm, answer.reference)
        groups = study.groups if answer.group == ALL_UNITS else (answer.group,)
        behind = any((group, arm) in failed for group in groups for arm in arms)
        released.append(answer.model_copy(update=updates) if behind else answer)
    return tuple(released)


def failed_gates(release: Published) -> str | None:
    """Return one line that names the failed gates and their cells; None if none failed."""
    if not isinstance(release, EffectTable) or not release.gate_failed:
        return None
    failed = [gate for gate in release.gates if gate.verdict == "failed"]
    places = ", ".join(f"{gate.gate} in {gate.group}, {gate.arm}" for gate in failed)
    return f"a declared gate failed ({places}); the release says so, and its charge stands"


def parts_of(
    study: RegressionStudy,
    asked: Asked,
    scales: JointScales,
    units: int,
    in_units: Callable[[Part, Sequence[FiveReleases] | None], Part] | None = None,
    clustered: ClusteredVariances | None = None,
) -> list[Part]:
    """Return every answer of the table.

    Args:
        study: the protocol.
        asked: its questions, by subgroup.
        scales: release 1.
        units: number of units of the data.
        in_units: from a subgroup's answer in declared ranges, and its questions, to the answer in the table's units.
        clustered: of a study with clusters, the possible values of each sampling variance.
    """
    parts, arms = [], len(study.arm_names)
    for label, group in zip(study.groups, asked, strict=True):
        for outcome in range(len(study.outcomes)):
            row = None if group is None else group[outcome]
            laws = [] if row is None else [question.law for question in row]
            for arm in range(1, arms):
                part = _part(study, row, laws, label, outcome, arm)
                if group is not None and arms == TWO_ARMS:
                    part = replace(part, covariances=_covariances(study, group, outcome))
                parts.append(part if in_units is None else in_units(part, row))
    counts, error, total = _sizes(study, scales, units)
    return with_all_units(study, parts, counts, error, total, clustered)


def _covariances(study: RegressionStudy, group: Questions, outcome: int) -> dict[int, tuple[float, float]] | None:
    """Return the sampling covariances of an answer with those on other outcomes, by release 5."""

    def unit(place: int) -> float:
        question = group[place][0]
        return question.scores_asked.cut * question.found_scales.arms.spread * study.outcomes[place].width / 2

    row = group[outcome]
    scores = None if row is None else row[0].scores
    if not isinstance(scores, ReleasedProducts):
        return None
    # Means are over the units of this outcome; n is that of the other outcome, whose units may differ.
    return {
        other: tuple(unit(outcome) * unit(other) * np.array([mean, error]) / group[other][0].public.units)
        for other, (mean, error) in enumerate(zip(scores.products, scores.errors, strict=True))
        if other != outcome and group[other] is not None
    }


def _sizes(study: RegressionStudy, scales: JointScales, units: int) -> tuple[dict[str, list[float]], float, float]:
    """Return numbers of units of the estimand, by arm and subgroup, their noise and their sum."""
    counts = np.maximum(scales.counts, 1.0)
    over = slice(None) if study.estimand is Estimand.ATE else list(study.estimand.arms)
    chosen = counts[:, over].sum(axis=1)
    known = study.estimand is Estimand.ATE and study.known_units
    total = float(units) if known else float(chosen.sum())
    error = float(scales.count_sd.max()) * math.sqrt(counts[:, over].shape[1])
    return dict.fromkeys(study.arm_names[1:], chosen.tolist()), error, total


def _part(
    study: RegressionStudy,
    row: Sequence[FiveReleases] | None,
    laws: Sequence[ErrorLaw],
    label: str,
    outcome: int,
    arm: int,
) -> Part:
    """Return one answer of a subgroup. ``row``: its questions by side; None if noise hides them."""
    if row is None:
        return Part(outcome, label, study.arm_names[arm], False, 0.0, 0.0, 0.0, 0.0, 0.0, None)
    half = study.outcomes[outcome].width / 2
    left_out = tuple(dict.fromkeys(name for question in row for name in question.left_out))
    law = laws[0] if len(row) == 1 else _contrast(laws[arm], laws[0], row[arm], row[0])
    unseen = None if law.unseen is None else law.unseen * half
    return Part(
        outcome=outcome,
        group=label,
        arm=study.arm_names[arm],
        answered=True,
        value=law.value * half,
        sampling=(law.sampling * half) ** 2,
        noise=(float(law.error.var()) + law.noise.deviation**2) * half**2,
        bias=0.0,
        spread=float(np.mean([question.found_scales.arms.spread for question in row])) * half,
        confounding=confounding(study, row[0].public, law.adjusted_share, left_out, law.explained, unseen),
        mixing=law.mixing,
        error=law.error * half,
        adjusted=None if study.estimator.trial else law.adjusted_share,
        clustered=None if law.clustered is None else law.clustered.times(half**2),
    )


def _contrast(law: ErrorLaw, reference: ErrorLaw, question: FiveReleases, of_reference: FiveReleases) -> ErrorLaw:
    """Return the law of the difference of two arms' means.

    Models of both arms share the noise of Gram matrices, so their errors are paired in the worst way: sorted in
    opposite orders. Means are at the centre of all units' features. Noise in that centre, and its sampling error, move
    the difference by the difference of the arms' slopes.
    """
    first, second = question.second, of_reference.second
    spread, reference_spread = question.found_scales.arms.spread, of_reference.found_scales.arms.spread
    slopes = first.slopes[0] * spread - second.slopes[0] * reference_spread
    centre_noise = math.sqrt(float((slopes * first.moments.middle_sd) @ (slopes * first.moments.middle_sd)))
    centre = max(float(slopes @ first.moments.gram @ slopes), 0.0) / question.public.effective_units
    error = np.sort(law.error) - np.sort(reference.error)[::-1]
    clustered = None if law.clustered is None else law.clustered.times(1 + centre / law.clustered.own)
    alone = law.sampling**2 + reference.sampling**2 + centre
    return ErrorLaw(
        law.value - reference.value,
        error,
        math.sqrt(alone if clustered is None else clustered.variance),
        # In one scale: noise in the centre is taken to have the law of noise in scores.
        math.hypot(law.noise.deviation, reference.noise.deviation, centre_noise) / law.noise.deviation * law.scale,
        law.mixing,
        min(law.adjusted_share, reference.adjusted_share),
        None if law.explained is None or reference.explained is None else (law.explained + reference.explained) / 2,
        clustered=clustered,
        unseen=None if law.unseen is None or reference.unseen is None else law.unseen + reference.unseen,
    )


def _findings(
    study: RegressionStudy, asked: Asked, scales: JointScales, sizes: Sizes, clustered: ClusteredVariances | None = None
) -> Findings:
    """Return the whole table of a study by regression.

    ``clustered``: of a study with clusters, the possible values of each sampling variance.
    """
    name, people = ("units", scales.units) if study.weights is None else (EFFECTIVE, scales.effective)
    with_outcome = {
        f"{name}[{study.outcomes[chosen[0]].name}]": number or 0.0
        for chosen, number in zip(study.classes, people, strict=False)
        if study.outcomes[chosen[0]].leaves_out or study.of_cohorts
    }
    treated = {
        place: (max(float(counts[1]), 1.0), float(error))
        for chosen, counts, error in zip(study.classes, scales.counts, scales.count_sd, strict=False)
        for place in chosen
    }
    asked, scales = of_table(study.classes, study.first, asked, scales)
    with one_thread():
        parts = parts_of(study, asked, scales, sizes.units, clustered=clustered)
        balance = balance_of(study, asked)
        gates = (*gate_results(study, asked, balance), *placebo_gates(study, parts))
    answers, calibration = calibrate(study, parts, table(study, parts))
    details: dict[str, float | int | str | bool] = {
        "cells": scales.counts.size,
        **simultaneous(len(answers) + len(study.contrasts)),
    }
    effective = scales.effective or [None] * len(scales.units)
    by_group = zip(study.groups, scales.counts, scales.units, asked, effective, strict=True)
    for label, counts, units, group, effective_units in by_group:
        if effective_units is None:
            details[f"units[{label}]"] = units
        else:
            details[f"{EFFECTIVE}[{label}]"] = effective_units
        for arm, count in zip(study.arm_names, counts.tolist(), strict=True):
            details[f"share[{label}][{arm}]"] = min(max(count / units, 0.0), 1.0)
        if (row := primary_questions(study, group)) is not None:
            first = row[0]
            if (columns := _unlike(study, first)) and "unlike" not in details:
                details["unlike"] = ", ".join(columns)
            details[f"curves[{label}]"] = ", ".join(curve_names(first.public, first.second.features)) or "none"
    details |= with_outcome
    rows = gated(study, answers, gates)
    return Findings(
        answers=rows,
        confidence=study.confidence,
        covers=covered(study, rows),
        balance=balance,
        benchmarks=benchmarks_of(study, asked),
        gates=gates,
        calibration=calibration,
        not_covered=not_covered(study, asked, calibration.mean is not None),
        details=details,
        clusters=clusters_statement(study, parts, [outcome.name for outcome in study.outcomes]),
        contrasts=contrast_answers(study, parts, rows, treated),
    )


def _unlike(study: RegressionStudy, question: FiveReleases) -> tuple[str, ...]:
    """Return columns by which arms of a trial without clusters differ beyond chance and noise."""
    return unlike(question) if study.estimator.trial and study.clusters is None else ()


def simultaneous(answers: int) -> dict[str, str]:
    """Return the detail on intervals that hold together; a single answer has none."""
    return {"simultaneous": f"Bonferroni over {answers} answers"} if answers > 1 else {}


def not_covered(study: RegressionStudy, asked: Asked, calibrated: bool) -> tuple[Limit, ...]:
    """Return the sources of error that no interval of the table covers."""
    if study.estimator.trial:
        return (limit(Code.not_randomised),)
    controls = any(outcome.role is OutcomeRole.negative_control for outcome in study.outcomes)
    revealed = limit(Code.calibrated_controls if calibrated else Code.controls)
    rows = [row for group in asked if (row := primary_questions(study, group)) is not None]
    columns = dict.fromkeys(name for row in rows for name in row[0].left_out)
    left_out = [limit(Code.left_out, columns=tuple(columns))] if columns else []
    first = [row[0] for row in rows]
    cuts = [cut_away(question.public, question.found_scales, question.second)[1] for question in first]
    narrow = united(problem for cut in cuts for problem in cut.limits)
    codes = {curves_not_covered(question.public) for question in first}
    curves = codes.pop() if len(codes) == 1 else Code.any_curves
    of_controls = (revealed,) if controls else ()
    return *left_out, limit(Code.unmeasured), limit(curves), *narrow, *of_controls


def regression_findings(
    study: RegressionStudy, sizes: Sizes, asked: Asked, scales: JointScales, clustered: ClusteredVariances | None = None
) -> Findings:
    """Return the table of a study by regression, from its questions with all their releases."""
    findings = _findings(study, asked, scales, sizes, clustered)
    return _of_one_question(study, sizes, findings, asked, scales) if study.asks_one else findings


def _of_one_question(
    study: RegressionStudy, sizes: Sizes, findings: Findings, asked: Asked, scales: JointScales
) -> Findings:
    """Return a table of one row with the details of a single question."""
    public = joint_recipe(study, sizes).public(0, sizes.units)
    question = None if asked[0] is None else asked[0][0][0]
    details = _hidden(scales) if question is None else _details(study, question)
    lacking = () if question is None or public.trial else _extrapolated(*effective(question))
    narrow = () if question is None else question.law.narrow.limits
    statement = findings.confounding or confounding(study, public, 0.0, tuple(study.covariates))
    return replace(
        with_statement(findings, statement),
        covers=(*NOISY[:2], limit(Code.noise_of_models), *covers_unseen(public)),
        details={**error_details(study, findings), **details},
        not_covered=(*not_covered_of_one(public), *lacking, *narrow),
    )


def _details(study: RegressionStudy, question: FiveReleases) -> Mapping[str, float | int | str | bool]:
    """Return details of a question beside its answer."""
    arms, half = question.found_scales.arms, study.outcome.width / 2
    columns = _unlike(study, question)
    return {
        **({"unlike": ", ".join(columns)} if columns else {}),
        "treated_share": arms.share,
        "spread": half * arms.spread,
        "features": question.second.features.count,
        "effective_share": effective(question)[0],
        "confounding_adjusted_for": question.law.adjusted_share,
        "curves": ", ".join(curve_names(question.public, question.second.features)) or "none",
    }


def _hidden(scales: JointScales) -> Mapping[str, float | int | str | bool]:
    """Return details where noise hides an arm: nothing is adjusted for."""
    (counts,), (units,) = scales.counts.tolist(), scales.units
    share = min(max(counts[1] / units, 0.0), 1.0)
    return {"treated_share": share, "features": 0, "confounding_adjusted_for": 0.0, "curves": "none"}


def _extrapolated(usable: float, doubt: float) -> tuple[Limit, ...]:
    """Return the warning of extrapolation where weights leave under half of an arm's precision.

    Slopes then answer for people whom one arm lacks. Of 214,144 people of whom a sixth were never treated, weights left
    .14 to .41 (five draws), and intervals of these draws did not meet; of three tables whose arms overlap, .92 to .97.
    ENOUGH_LEFT was chosen between these.
    """
    return (limit(Code.extrapolation, share=f"{usable:.0%}"),) if usable + 2 * doubt < ENOUGH_LEFT else ()
