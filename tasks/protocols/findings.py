"""From answers with the law of their errors to what the release holds.

Table, balance, gates, calibration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.schemas.limits import Code, Limit, limit, united
from causalveil.schemas.plan import Sizes
from causalveil.schemas.protocols.study import OutcomeRole
from causalveil.schemas.study import Estimand
from causalveil.tasks.adjustment.drawn import Asked, JointScales
from causalveil.tasks.adjustment.five_releases import FiveReleases
from causalveil.tasks.adjustment.interval import (
    ErrorLaw,
    confounding,
    curve_names,
    curves_not_covered,
    cut_away,
)
from causalveil.tasks.inference.assemble import Findings
from causalveil.tasks.inference.covered import covered
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.protocols.calibration import calibrate
from causalveil.tasks.protocols.gates import balance_of, gated, results
from causalveil.tasks.protocols.parts import Part, table, told_of, with_everybody


def as_it_is(part: Part, row: Sequence[FiveReleases] | None) -> Part:
    """Return an answer in units of its declared range."""
    del row
    return part


def parts_of(
    study: RegressionStudy,
    asked: Asked,
    scales: JointScales,
    units: int,
    told: Callable[[Part, Sequence[FiveReleases] | None], Part] = as_it_is,
) -> list[Part]:
    """Return every answer of the table.

    Args:
        study: the protocol.
        asked: its questions, by subgroup.
        scales: what release 1 says.
        units: of the data.
        told: a subgroup's answer, with the questions that it is read off, as the table has it.
    """
    parts = []
    for label, group in zip(study.groups, asked, strict=True):
        for outcome in range(len(study.outcomes)):
            row = None if group is None else group[outcome]
            laws = [] if row is None else [one.law for one in row]
            for arm in range(1, len(study.arm_names)):
                parts.append(told(_part(study, row, laws, label, outcome, arm), row))
    counts, error, total = _sizes(study, scales, units)
    return with_everybody(study, parts, counts, error, total)


def _sizes(study: RegressionStudy, scales: JointScales, units: int) -> tuple[dict[str, list[float]], float, float]:
    """Return, by arm, the number of units of each subgroup that the estimand is over, its noise, and their sum."""
    counts = np.maximum(scales.counts, 1.0)
    over = {Estimand.ATE: slice(None), Estimand.ATT: slice(1, None), Estimand.ATC: slice(0, 1)}[study.estimand]
    chosen = counts[:, over].sum(axis=1)
    known = study.estimand is Estimand.ATE and not study.where
    total = float(units) if known else float(chosen.sum())
    error = scales.count_sd * math.sqrt(counts[:, over].shape[1])
    return dict.fromkeys(study.arm_names[1:], chosen.tolist()), error, total


def _part(
    study: RegressionStudy,
    row: Sequence[FiveReleases] | None,
    laws: Sequence[ErrorLaw],
    label: str,
    outcome: int,
    arm: int,
) -> Part:
    """Return one answer of a subgroup.

    ``row``: its questions by side, None where noise hides it.
    """
    if row is None:
        return Part(outcome, label, study.arm_names[arm], False, 0.0, 0.0, 0.0, 0.0, 0.0, None)
    half = study.outcomes[outcome].width / 2
    left_out = tuple(dict.fromkeys(name for one in row for name in one.left_out))
    law = laws[0] if len(row) == 1 else _contrast(laws[arm], laws[0], row[arm], row[0])
    return Part(
        outcome=outcome,
        group=label,
        arm=study.arm_names[arm],
        answered=True,
        value=law.value * half,
        sampling=(law.sampling * half) ** 2,
        noise=(float(law.error.var()) + law.noise.deviation**2) * half**2,
        bias=0.0,
        spread=float(np.mean([one.found_scales.arms.spread for one in row])) * half,
        confounding=confounding(study, row[0].public, law.adjusted_share, left_out, law.explained),
        mixing=law.mixing,
        error=law.error * half,
        adjusted=None if study.estimator.trial else law.adjusted_share,
        alike=None if law.alike is None else law.alike.times(half**2),
    )


def _contrast(one: ErrorLaw, other: ErrorLaw, of_one: FiveReleases, of_other: FiveReleases) -> ErrorLaw:
    """Return the law of the difference of two arms' means.

    Models of both read the same noise of Gram matrices, so their errors are taken to be as unlike as they can be.
    Means are where the features of all units lie: noise in that centre, and who was sampled, move them alike but for
    what the arms' slopes differ by.
    """
    first, second = of_one.second, of_other.second
    apart = first.slopes[0] * of_one.found_scales.arms.spread - second.slopes[0] * of_other.found_scales.arms.spread
    gram = first.moments.gram
    shared = float((apart * first.moments.middle_sd) @ (apart * first.moments.middle_sd))
    everybody = max(float(apart @ gram @ apart), 0.0) / of_one.public.units
    error = np.sort(one.error) - np.sort(other.error)[::-1]
    return ErrorLaw(
        one.value - other.value,
        error,
        math.sqrt(one.sampling**2 + other.sampling**2 + everybody),
        # Of one deviation: noise in the centre is taken to have the law of that in scores.
        math.hypot(one.noise.deviation, other.noise.deviation, math.sqrt(shared)) / one.noise.deviation * one.scale,
        one.mixing,
        min(one.adjusted_share, other.adjusted_share),
        None if one.explained is None or other.explained is None else (one.explained + other.explained) / 2,
    )


def findings(study: RegressionStudy, asked: Asked, scales: JointScales, sizes: Sizes) -> Findings:
    """Return the whole table of a study by regression."""
    with one_thread():
        parts, balance = parts_of(study, asked, scales, sizes.units), balance_of(study, asked)
        gates = results(study, asked, balance)
    answers, calibration = calibrate(study, parts, table(study, parts))
    details: dict[str, float | int | str | bool] = {
        "cells": scales.counts.size,
        **together(len(answers)),
    }
    for label, counts, units, group in zip(study.groups, scales.counts, scales.units, asked, strict=True):
        details[f"units[{label}]"] = units
        for arm, count in zip(study.arm_names, counts.tolist(), strict=True):
            details[f"share[{label}][{arm}]"] = min(max(count / units, 0.0), 1.0)
        if group is not None:
            first = group[study.first][0]
            details[f"curves[{label}]"] = ", ".join(curve_names(first.public, first.second.features)) or "none"
    rows = gated(study, answers, gates)
    return Findings(
        answers=rows,
        confidence=study.confidence,
        covers=covered(study, rows),
        balance=balance,
        gates=gates,
        calibration=calibration,
        not_covered=not_covered(study, asked, calibration.mean is not None),
        details=details,
        clusters=told_of(study, parts, sizes.units),
    )


def together(answers: int) -> dict[str, str]:
    """Return the detail on intervals that hold together; a single answer has none."""
    return {"simultaneous": f"Bonferroni over {answers} answers"} if answers > 1 else {}


def not_covered(study: RegressionStudy, asked: Asked, calibrated: bool) -> tuple[Limit, ...]:
    """Return what no interval of the table holds."""
    if study.estimator.trial:
        return (limit(Code.not_randomised),)
    controls = any(outcome.role is OutcomeRole.negative_control for outcome in study.outcomes)
    revealed = limit(Code.calibrated_controls if calibrated else Code.controls)
    columns = dict.fromkeys(name for group in asked if group is not None for name in group[0][0].left_out)
    left_out = [limit(Code.left_out, columns=tuple(columns))] if columns else []
    first = [group[study.first][0] for group in asked if group is not None]
    narrow = united(found for one in first for found in cut_away(one.public, one.found_scales, one.second)[1].limits)
    said = {curves_not_covered(one.public) for one in first}
    curves = said.pop() if len(said) == 1 else Code.any_curves
    of_controls = (revealed,) if controls else ()
    return *left_out, limit(Code.unmeasured), limit(curves), *narrow, *of_controls
