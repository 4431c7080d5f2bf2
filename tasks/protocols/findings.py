"""From answers with their errors to what the release holds: table, balance, gates, calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from causalveil.schemas.estimators.protocols import RegressionProtocol
from causalveil.schemas.plan import Sizes
from causalveil.schemas.protocols.answers import BalanceRow, Calibration, GateResult, ProtocolAnswer
from causalveil.schemas.protocols.study import OutcomeRole, ProtocolStudy
from causalveil.tasks.adjustment.interval import NOT_COVERED, NOT_COVERED_LINES, curve_names, cut_away
from causalveil.tasks.adjustment.recipe import looks_for_curves
from causalveil.tasks.inference.assemble import NOT_COVERED_TRIAL
from causalveil.tasks.machine.distribute import one_thread
from causalveil.tasks.protocols.calibration import calibrate
from causalveil.tasks.protocols.drawn import Asked, JointScales
from causalveil.tasks.protocols.effects import parts_of
from causalveil.tasks.protocols.gates import balance_of, gated, results
from causalveil.tasks.protocols.parts import table


@dataclass(frozen=True)
class ProtocolFindings:
    """Findings of a protocol."""

    answers: tuple[ProtocolAnswer, ...]
    balance: tuple[BalanceRow, ...]
    gates: tuple[GateResult, ...]
    calibration: Calibration
    not_covered: str
    details: dict[str, float | int | str | bool]

    def fields(self, study: ProtocolStudy) -> dict[str, Any]:
        """Return the fields that a ``ProtocolRelease`` has beside those of every release."""
        return {
            "estimand": study.estimand,
            "confidence": study.confidence,
            "answers": self.answers,
            "balance": self.balance,
            "gates": self.gates,
            "calibration": self.calibration,
            "not_covered": self.not_covered,
            "details": self.details,
        }


def findings(study: RegressionProtocol, asked: Asked, scales: JointScales, sizes: Sizes) -> ProtocolFindings:
    """Return the whole table of a protocol by regression."""
    with one_thread():
        parts, balance = parts_of(study, asked, scales, sizes.units), balance_of(study, asked)
        gates = results(study, asked, balance)
    answers, calibration = calibrate(study, parts, table(study, parts))
    details: dict[str, float | int | str | bool] = {
        "cells": scales.counts.size,
        "simultaneous": f"Bonferroni over {len(answers)} answers",
    }
    for label, counts, units, group in zip(study.groups, scales.counts, scales.units, asked, strict=True):
        details[f"units[{label}]"] = units
        for arm, count in zip(study.arm_names, counts.tolist(), strict=True):
            details[f"share[{label}][{arm}]"] = min(max(count / units, 0.0), 1.0)
        if group is not None:
            first = group[study.first][0]
            details[f"curves[{label}]"] = ", ".join(curve_names(first.public, first.second.features)) or "none"
    return ProtocolFindings(
        answers=gated(study, answers, gates),
        balance=balance,
        gates=gates,
        calibration=calibration,
        not_covered=not_covered(study, asked, calibration.mean is not None),
        details=details,
    )


def not_covered(study: RegressionProtocol, asked: Asked, calibrated: bool) -> str:
    """Return what no interval of the table holds."""
    if study.estimator.trial:
        return NOT_COVERED_TRIAL
    controls = any(outcome.role is OutcomeRole.negative_control for outcome in study.outcomes)
    revealed = "bias that negative controls reveal" + (" (the calibrated intervals include it)" if calibrated else "")
    columns = {
        group[0][0].public.columns[place].name: None
        for group in asked
        if group is not None
        for place in group[0][0].found_scales.left_out
    }
    left_out = [f"confounding by {', '.join(columns)}, which could not be adjusted for everywhere"] if columns else []
    first = [group[study.first][0] for group in asked if group is not None]
    narrow = dict.fromkeys(
        words for one in first for words in cut_away(one.public, one.found_scales, one.second)[1].words
    )
    curves = NOT_COVERED if all(looks_for_curves(one.public) for one in first) else NOT_COVERED_LINES
    return "; ".join([*left_out, curves, *narrow, *([revealed] if controls else [])])
