"""What each subgroup is adjusted for, outcome by outcome, and its scores and answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from causalveil.schemas.estimators.protocols import RegressionProtocol
from causalveil.schemas.protocols.regression import RegressionStudy
from causalveil.schemas.study import Estimand
from causalveil.tasks.enclave.cells import CellRows
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.protocols.groups import GroupScales, moments_of
from causalveil.tasks.protocols.joint import JointRecipe
from causalveil.tasks.protocols.parts import Part, with_everybody
from causalveil.tasks.protocols.sums import GroupContrast, MomentBlock
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.interval import Effect, ThreeReleases, effect_of, in_words
from causalveil.tasks.regression.lines.adjust import unadjusted
from causalveil.tasks.regression.lines.adjustment import Adjustment, Seen
from causalveil.tasks.regression.lines.kept import adjusted_by
from causalveil.tasks.regression.scales import Scales
from causalveil.tasks.regression.scores import row_scores


@dataclass(frozen=True)
class GroupAdjustment:
    """A subgroup's scales, features and choices.

    Attributes:
        scales: what release 1 says of it.
        contrast: what release 2 took; None: there was none.
        choices: by side, then by outcome.
        seen: by side, what release 2 shows of the arms; empty if there was none.
    """

    scales: GroupScales
    contrast: GroupContrast | None
    choices: tuple[tuple[Adjustment, ...], ...]
    seen: tuple[Seen, ...]

    def scores(self, rows: CellRows) -> FloatArray:
        """v of each row and outcome, shape (rows, outcomes), not cut. A row's score depends on that row alone."""
        v = np.zeros((len(rows), self.scales.means.shape[1]))
        if not self.scales.answers:
            return v
        limits = np.array([self.scales.of(outcome, 0).limit for outcome in range(v.shape[1])])
        residual = (np.clip(rows.u, -1.0, 1.0) - self.scales.means[rows.t]) / limits
        features = None if self.contrast is None else self.contrast.features
        if len(self.choices) == 1:
            return _scores(rows.x, rows.t != 0, residual, self.scales.of(0, 0), features, self.choices[0])
        for side, choices in enumerate(self.choices):
            own = np.flatnonzero(rows.t == side)
            treated = np.ones(len(own), dtype=np.bool_)
            v[own] = _scores(rows.x[own], treated, residual[own], self.scales.of(0, side), features, choices)
        return v


def _scores(
    x: FloatArray,
    treated: np.ndarray,
    residual: FloatArray,
    scales: Scales,
    features: Features | None,
    choices: Sequence[Adjustment],
) -> FloatArray:
    """Of all outcomes, whose features are made once."""
    found = np.empty_like(residual)
    xs = features.of(x) if features is not None and any(choice.adjusted for choice in choices) else x

    known: dict[bytes, FloatArray] = {}

    def times(*vectors: FloatArray) -> list[FloatArray]:
        """Outcomes that go as far towards each arm's own have the same weights."""
        for vector in vectors:
            if vector.tobytes() not in known:
                known[vector.tobytes()] = np.einsum("ij,j->i", xs, vector)
        return [known[vector.tobytes()] for vector in vectors]

    for outcome, choice in enumerate(choices):
        found[:, outcome] = row_scores(residual[:, outcome], treated, scales.share, choice, times) / choice.reach
    return found


def adjust_group(
    study: RegressionProtocol,
    joint: JointRecipe,
    scales: GroupScales,
    contrast: GroupContrast | None,
    block: MomentBlock | None,
) -> GroupAdjustment:
    """What a subgroup is adjusted for: post-processing of the first two releases."""
    choices, shown, alone = [], [], joint.sides > 1
    for side in range(joint.sides):
        row: list[Adjustment] = []
        for outcome, question in enumerate(study.questions):
            if not isinstance(question, RegressionStudy):
                raise TypeError("a regression's questions are regressions")
            cell, one = joint.cell(outcome, scales.units), scales.of(outcome, side)
            if contrast is None or block is None or not scales.answers:
                noise = cell.effect_noise().deviation
                row.append(unadjusted(study.estimator, one, study.estimand, cell.units or 1, noise, alone))
                continue
            moments = moments_of(joint, scales, contrast, block, outcome, side)
            choice, seen = adjusted_by(question, cell, one, contrast.features, moments, alone=alone)
            row.append(choice)
            if outcome == study.first:
                shown.append(seen)
        choices.append(tuple(row))
    return GroupAdjustment(scales, contrast, tuple(choices), tuple(shown))


def parts_of(
    study: RegressionProtocol, joint: JointRecipe, groups: Sequence[GroupAdjustment], sums: FloatArray, units: int
) -> list[Part]:
    """Every answer of the table.

    Args:
        study: the study.
        joint: its releases.
        groups: by subgroup, what it is adjusted for.
        sums: of :func:`~causalveil.tasks.protocols.sums.score_blocks`.
        units: of all subgroups together.
    """
    parts = []
    for label, group, scores in zip(study.groups, groups, sums, strict=True):
        for outcome in range(len(study.outcomes)):
            for arm in range(1, joint.arms):
                parts.append(_part(study, joint, group, scores[:, :, outcome], label, outcome, arm))
    counts, count_error, total = _weights_of(study, groups, units)
    return with_everybody(study, parts, counts, count_error, total)


def _weights_of(
    study: RegressionProtocol, groups: Sequence[GroupAdjustment], units: int
) -> tuple[dict[str, list[float]], float, float]:
    """By arm the number of units that the estimand is over in each subgroup, its noise, and their number in all."""
    counts = np.array([group.scales.counts for group in groups])
    error = groups[0].scales.count_error
    over = {Estimand.ATE: slice(None), Estimand.ATT: slice(1, None), Estimand.ATC: slice(0, 1)}[study.estimand]
    chosen = counts[:, over].sum(axis=1)
    error *= math.sqrt(counts[:, over].shape[1])
    known = study.estimand is Estimand.ATE and not study.where
    total = float(units) if known else float(chosen.sum())
    return dict.fromkeys(study.arm_names[1:], chosen.tolist()), error, total


def _part(
    study: RegressionProtocol,
    joint: JointRecipe,
    group: GroupAdjustment,
    scores: FloatArray,
    label: str,
    outcome: int,
    arm: int,
) -> Part:
    """One answer from a subgroup's scores of one outcome, shape (2, sides)."""
    half, scales = study.outcomes[outcome].width / 2, group.scales
    cell = joint.cell(outcome, scales.units)
    noise = cell.effect_noise().deviation

    def effect(side: int, alone: bool) -> Effect:
        one, choice = scales.of(outcome, side), group.choices[side][outcome]
        return effect_of(half, scales.units, noise, one, choice, scores[:, side], side=alone)

    if joint.sides == 1:
        whole = effect(0, False)
        value, sampling, models, bias = whole.value, whole.sampling, whole.models, whole.bias
        unit = whole.unit
    else:
        one, other = effect(arm, True), effect(0, True)
        value, sampling, bias = one.value - other.value, one.sampling + other.sampling, one.bias + other.bias
        # Slopes and the Gram matrix have the same noise on both sides.
        models = (math.sqrt(one.models) + math.sqrt(other.models)) ** 2
        unit = math.hypot(one.unit, other.unit)
    sides = [group.choices[0][outcome]] if joint.sides == 1 else [group.choices[s][outcome] for s in (0, arm)]
    words = {in_words(joint.one, _released(group, choice)) for choice in sides}
    return Part(
        outcome=outcome,
        group=label,
        arm=study.arm_names[arm],
        answered=scales.answers,
        value=value,
        sampling=sampling,
        noise=models + (noise * unit / scales.units) ** 2,
        bias=bias,
        spread=float(scales.spreads[outcome]) * half,
        adjustment=words.pop() if len(words) == 1 else "differently by arm",
    )


def _released(group: GroupAdjustment, choice: Adjustment) -> ThreeReleases:
    features = None if group.contrast is None else group.contrast.features
    return ThreeReleases(group.scales.of(0, 0), features, choice, None, np.zeros(2))
