"""Balance, overlap, and the gates that were declared on them. Post-processing of released values.

A gate fails only when a released value is significantly beyond its bound, passes when it is significantly within, and
cannot tell otherwise: noise must not decide. Its error of 5 % is divided among all values that it looks at.
"""

from __future__ import annotations

from collections.abc import Sequence

from causalveil.schemas.protocols.answers import BalanceRow, GateResult, GateVerdict, ProtocolAnswer, State
from causalveil.schemas.protocols.study import EVERYBODY, FailedGate, ProtocolStudy
from causalveil.tasks.protocols.adjusted import GroupAdjustment
from causalveil.tasks.protocols.joint import JointRecipe
from causalveil.tasks.regression.lines.adjustment import Seen

GATE_ERROR = 0.05
# What a withheld answer has none of.
NUMBERS = ("estimate", "interval", "simultaneous", "calibrated", "noise_error", "sampling_error", "bias", "spread")


def sides_of(study: ProtocolStudy, joint: JointRecipe) -> list[tuple[int, str]]:
    """Each comparison of a subgroup with the name under which it is shown."""
    if joint.sides == 1:
        return [(0, study.arm_names[1])]
    return list(enumerate(study.arm_names))


def balance_of(study: ProtocolStudy, joint: JointRecipe, groups: Sequence[GroupAdjustment]) -> tuple[BalanceRow, ...]:
    """Standardised differences of each covariate's columns, by subgroup and arm; of several arms, each from all."""
    rows = []
    for label, group in zip(study.groups, groups, strict=True):
        for (side, arm), seen in zip(sides_of(study, joint), group.seen, strict=False):
            del side
            numbers = zip(seen.before.tolist(), seen.after.tolist(), seen.error.tolist(), strict=True)
            for name, (before, after, error) in zip(_columns(group), numbers, strict=False):
                rows.append(
                    BalanceRow(group=label, arm=arm, covariate=name, before=before, after=after, noise_error=error)
                )
    return tuple(rows)


def _columns(group: GroupAdjustment) -> tuple[str, ...]:
    """Names of the columns that are features of a subgroup."""
    return () if group.contrast is None else group.contrast.features.columns.names


def results(study: ProtocolStudy, joint: JointRecipe, groups: Sequence[GroupAdjustment]) -> tuple[GateResult, ...]:
    """Every declared gate in every subgroup and comparison."""
    gates, found = study.gates, list[GateResult]()
    if gates is None:
        return ()
    places = sides_of(study, joint)
    for label, group in zip(study.groups, groups, strict=True):
        for side, arm in places:
            seen = group.seen[side] if group.seen else None
            columns = len(joint.one.columns.names)
            if gates.balance is not None:
                critical = critical_of(len(study.groups) * len(places) * columns)
                numbers = [] if seen is None else list(zip(seen.after.tolist(), seen.error.tolist(), strict=True))
                found.append(balance_gate(label, arm, gates.balance, numbers[: len(_columns(group))], critical))
            if gates.overlap is not None:
                critical = critical_of(len(study.groups) * len(places))
                found.append(_overlap(label, arm, gates.overlap, group, side, seen, critical))
    return tuple(found)


def critical_of(values: int) -> float:
    """One-sided quantile of the gates' error, divided among so many values."""
    from scipy.special import ndtri

    return -float(ndtri(GATE_ERROR / values))


def _verdict(beyond: float, error: float, critical: float) -> GateVerdict:
    """Of how far a value lies beyond its bound, negative within."""
    if beyond > critical * error:
        return GateVerdict.failed
    return GateVerdict.passed if beyond < -critical * error else GateVerdict.cannot_tell


def balance_gate(
    label: str, arm: str, bound: float, numbers: Sequence[tuple[float, float]], critical: float
) -> GateResult:
    """The worst covariate: one that fails, else one that cannot be told, else the largest.

    Args:
        label: the subgroup.
        arm: which arm.
        bound: as declared.
        numbers: by covariate the difference that is left and its noise's deviation; none: it was not released.
        critical: quantile of :func:`critical_of`.
    """
    order = {GateVerdict.failed: 2, GateVerdict.cannot_tell: 1, GateVerdict.passed: 0}
    rows = [(_verdict(abs(after) - bound, error, critical), abs(after), error) for after, error in numbers]
    if not rows:
        rows = [(GateVerdict.cannot_tell, 0.0, bound)]
    verdict, value, error = max(rows, key=lambda row: (order[row[0]], row[1]))
    return GateResult(
        gate="balance", group=label, arm=arm, bound=bound, value=value, noise_error=error, verdict=verdict
    )


def _overlap(
    label: str, arm: str, bound: float, group: GroupAdjustment, side: int, seen: Seen | None, critical: float
) -> GateResult:
    """The smaller share of an arm's units that weights leave effective: 1/(1 + k^2 H), H the arms' squared distance."""
    if seen is None:
        return GateResult(
            gate="overlap",
            group=label,
            arm=arm,
            bound=bound,
            value=1.0,
            noise_error=1.0,
            verdict=GateVerdict.cannot_tell,
        )
    leaning = group.choices[side][0].leaning
    factor = max(lean**2 for lean in (leaning if len(group.choices) == 1 else leaning[:1]))
    value = 1 / (1 + factor * seen.distance)
    return overlap_gate(label, arm, bound, value, factor * value**2 * seen.distance_error, critical)


def overlap_gate(label: str, arm: str, bound: float, value: float, error: float, critical: float) -> GateResult:
    """Whether weights leave enough units effective: ``value`` is the smaller arm's share, ``error`` of its noise."""
    verdict = _verdict(bound - value, error, critical)
    return GateResult(
        gate="overlap", group=label, arm=arm, bound=bound, value=value, noise_error=error, verdict=verdict
    )


def gated(
    study: ProtocolStudy, answers: Sequence[ProtocolAnswer], gates: Sequence[GateResult]
) -> tuple[ProtocolAnswer, ...]:
    """The table once its gates have spoken: answers behind a failed one are withheld, or marked."""
    if study.gates is None:
        return tuple(answers)
    failed = {(gate.group, gate.arm) for gate in gates if gate.verdict is GateVerdict.failed}
    withhold = study.gates.failed is FailedGate.withhold
    found = []
    for answer in answers:
        arms = (answer.arm, answer.reference)
        groups = study.groups if answer.group == EVERYBODY else (answer.group,)
        if not any((group, arm) in failed for group in groups for arm in arms):
            found.append(answer)
        elif withhold:
            found.append(answer.model_copy(update={"state": State.withheld, "measures": (), **dict.fromkeys(NUMBERS)}))
        else:
            found.append(answer.model_copy(update={"state": State.marked}))
    return tuple(found)
