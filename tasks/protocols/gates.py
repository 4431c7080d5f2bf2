"""Balance, overlap, and the gates that were declared on them.

Post-processing of released values.

A gate fails only when a released value is significantly beyond its bound, passes when it is significantly within, and
cannot tell otherwise: noise must not decide. Its error of 5% is divided among all values that it looks at. One line
names those that failed: on a terminal, by an exit code, in Prefect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from causalveil.schemas.protocols.answers import Answer, BalanceRow, GateResult, GateVerdict, State
from causalveil.schemas.protocols.study import ALL_UNITS, EffectStudy, FailedGate
from causalveil.schemas.release import EffectTable
from causalveil.schemas.sites.pooled import Published
from causalveil.tasks.adjustment.drawn import Asked
from causalveil.tasks.adjustment.five_releases import differences, effective
from causalveil.tasks.adjustment.recipe import TWO_ARMS

GATE_ERROR = 0.05
# What a withheld answer has none of.
NUMBERS = ("estimate", "interval", "simultaneous", "calibrated", "noise_error", "sampling_error", "bias", "spread")


def sides_of(study: EffectStudy) -> list[str]:
    """Return the arms under which a subgroup's comparisons are shown.

    Of two arms it is the second. Of more it is each, which is compared with all others.
    """
    return [study.arm_names[1]] if len(study.arm_names) == TWO_ARMS else list(study.arm_names)


def balance_of(study: EffectStudy, asked: Asked) -> tuple[BalanceRow, ...]:
    """Return standardised differences of each column that is adjusted for, by subgroup and side."""
    rows = list[BalanceRow]()
    for label, group in zip(study.groups, asked, strict=True):
        for arm, question in zip(sides_of(study), [] if group is None else group[study.first], strict=False):
            rows.extend(BalanceRow(group=label, arm=arm, **vars(one)) for one in differences(question))
    return tuple(rows)


def results(study: EffectStudy, asked: Asked, balance: Sequence[BalanceRow]) -> tuple[GateResult, ...]:
    """Return every declared gate in every subgroup and comparison."""
    gates, found, places = study.gates, list[GateResult](), sides_of(study)
    if gates is None:
        return ()
    values = max(len(balance), 1)
    for label, group in zip(study.groups, asked, strict=True):
        for side, arm in enumerate(places):
            if gates.balance is not None:
                own = [(row.after, row.noise_error) for row in balance if (row.group, row.arm) == (label, arm)]
                found.append(balance_gate(label, arm, gates.balance, own, critical_of(values)))
            if gates.overlap is not None:
                critical = critical_of(len(study.groups) * len(places))
                # Nothing is told of a subgroup that noise hides.
                value, error = (1.0, math.inf) if group is None else effective(group[study.first][side])
                found.append(overlap_gate(label, arm, gates.overlap, value, min(error, 1.0), critical))
    return tuple(found)


def critical_of(values: int) -> float:
    """Return the one-sided quantile of the gates' error, divided among so many values."""
    from scipy.special import ndtri

    return -float(ndtri(GATE_ERROR / values))


def _verdict(beyond: float, error: float, critical: float) -> GateVerdict:
    """Return the verdict on how far a value lies beyond its bound, negative within."""
    if beyond > critical * error:
        return GateVerdict.failed
    return GateVerdict.passed if beyond < -critical * error else GateVerdict.cannot_tell


def balance_gate(
    label: str, arm: str, bound: float, numbers: Sequence[tuple[float, float]], critical: float
) -> GateResult:
    """Return the worst covariate: one that fails, else one not told, else the largest.

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


def overlap_gate(label: str, arm: str, bound: float, value: float, error: float, critical: float) -> GateResult:
    """Return the result of the overlap gate: whether weights leave enough units effective.

    ``value`` is the smaller arm's share, ``error`` of its noise.
    """
    verdict = _verdict(bound - value, error, critical)
    return GateResult(
        gate="overlap", group=label, arm=arm, bound=bound, value=value, noise_error=error, verdict=verdict
    )


def gated(study: EffectStudy, answers: Sequence[Answer], gates: Sequence[GateResult]) -> tuple[Answer, ...]:
    """Return the table after its gates: answers behind a failed one are withheld, or marked."""
    if study.gates is None:
        return tuple(answers)
    failed = {(gate.group, gate.arm) for gate in gates if gate.verdict is GateVerdict.failed}
    withhold = study.gates.failed is FailedGate.withhold
    found = []
    for answer in answers:
        arms = (answer.arm, answer.reference)
        groups = study.groups if answer.group == ALL_UNITS else (answer.group,)
        if not any((group, arm) in failed for group in groups for arm in arms):
            found.append(answer)
        elif withhold:
            found.append(answer.model_copy(update={"state": State.withheld, "measures": (), **dict.fromkeys(NUMBERS)}))
        else:
            found.append(answer.model_copy(update={"state": State.marked}))
    return tuple(found)


def failed_gates(release: Published) -> str | None:
    """Return one line that names the gates that failed and where.

    All of this is released. The result is None if none failed.
    """
    if not isinstance(release, EffectTable) or not release.gate_failed:
        return None
    failed = [gate for gate in release.gates if gate.verdict == "failed"]
    places = ", ".join(f"{gate.gate} in {gate.group}, {gate.arm}" for gate in failed)
    return f"a declared gate failed ({places}); the release says so, and its charge stands"
