"""From answers with their errors to what the release holds: table, balance, gates, calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from causalveil.schemas.protocols.answers import BalanceRow, Calibration, GateResult, ProtocolAnswer
from causalveil.schemas.protocols.study import OutcomeRole, ProtocolStudy
from causalveil.tasks.inference.confounding import NOT_COVERED_DECLARED, NOT_COVERED_TRIAL, UNMEASURED
from causalveil.tasks.protocols.adjusted import GroupAdjustment
from causalveil.tasks.protocols.calibration import calibrate
from causalveil.tasks.protocols.gates import balance_of, gated, results
from causalveil.tasks.protocols.joint import JointRecipe
from causalveil.tasks.protocols.parts import Part, table
from causalveil.tasks.regression.interval import BEYOND, too_narrow, undeclared, varying


@dataclass(frozen=True)
class ProtocolFindings:
    """What a protocol found."""

    answers: tuple[ProtocolAnswer, ...]
    balance: tuple[BalanceRow, ...]
    gates: tuple[GateResult, ...]
    calibration: Calibration
    not_covered: str
    details: dict[str, float | int | str | bool]

    def fields(self, study: ProtocolStudy) -> dict[str, Any]:
        """What a ``ProtocolRelease`` has beside the fields of every release."""
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


def findings(
    study: ProtocolStudy, joint: JointRecipe, groups: Sequence[GroupAdjustment], parts: Sequence[Part]
) -> ProtocolFindings:
    """The whole table of a protocol by regression."""
    trial = bool(getattr(study.estimator, "trial", False))
    balance, gates = balance_of(study, joint, groups), results(study, joint, groups)
    answers, calibration = calibrate(study, parts, table(study, parts))
    details: dict[str, float | int | str | bool] = {
        "cells": joint.groups * joint.arms,
        "simultaneous": f"Bonferroni over {len(answers)} answers",
    }
    for label, group in zip(study.groups, groups, strict=True):
        details[f"units[{label}]"] = group.scales.units
        for arm, share in zip(study.arm_names, group.scales.shares.tolist(), strict=True):
            details[f"share[{label}][{arm}]"] = share
    return ProtocolFindings(
        answers=gated(study, answers, gates),
        balance=balance,
        gates=gates,
        calibration=calibration,
        not_covered=not_covered(study, joint, groups, trial),
        details=details,
    )


def not_covered(study: ProtocolStudy, joint: JointRecipe, groups: Sequence[GroupAdjustment], trial: bool) -> str:
    """What no interval of the table holds."""
    if trial:
        return NOT_COVERED_TRIAL
    if joint.one.moments is None:
        return NOT_COVERED_DECLARED
    parts = [UNMEASURED]
    parts += undeclared(joint.one, [group.scales.of(0, 0) for group in groups])
    features = [None if group.contrast is None else group.contrast.features for group in groups]
    parts += too_narrow(features)
    answers = [
        (basis, choice)
        for basis, group in zip(features, groups, strict=True)
        for row in group.choices
        for choice in row
        if choice.adjusted
    ]
    parts += varying(answers) if answers else []
    parts.append(BEYOND[joint.one.basis])
    if any(outcome.role is OutcomeRole.negative_control for outcome in study.outcomes):
        parts.append("bias that negative controls reveal (the calibrated intervals include it)")
    return "; ".join(parts)
