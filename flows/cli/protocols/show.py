"""A protocol's table on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from causalveil.schemas.errors import GateFailed
from causalveil.schemas.where import where_words

if TYPE_CHECKING:
    from causalveil.schemas.protocols.answers import GateResult, ProtocolAnswer
    from causalveil.schemas.release import ProtocolRelease
    from causalveil.schemas.sites.pooled import Published


def check_gates(release: Published) -> None:
    """Say by the exit code that a declared gate failed; the release is written, and its charge stands.

    Raises:
        GateFailed: names gates and subgroups, which are released.
    """
    from causalveil.tasks.protocols.failed import failed_gates

    said = failed_gates(release)
    if said is not None:
        raise GateFailed(said)


def protocol(release: ProtocolRelease) -> str:
    """Every answer on a line, then gates and controls, in words."""
    width = max(len(_place(answer)) for answer in release.answers)
    outcome, lines = "", [f"{release.confidence:.0%} intervals, in brackets those that hold all together"]
    if among := where_words(release.specification):
        lines.insert(0, f"of units where {escape(among)}")
    for answer in release.answers:
        if answer.outcome != outcome:
            outcome = answer.outcome
            role = "" if answer.role == "secondary" else f" ({answer.role.replace('_', ' ')})"
            lines.append(f"[bold]{outcome}[/bold]{role}, {answer.adjustment}")
        lines.append(f"  {_place(answer):<{width}}  {_numbers(answer)}")
        lines += [f"  {'':<{width}}  {one.words}" for one in answer.measures]
    lines += gate_lines(release.gates)
    if release.calibration.controls:
        lines.append(release.calibration.statement)
    return "\n".join(lines)


def gate_lines(gates: Sequence[GateResult]) -> list[str]:
    """Every gate that did not pass, or that all did."""
    lines = []
    for gate in gates:
        if gate.verdict != "passed":
            words = "failed" if gate.verdict == "failed" else "cannot be told at this noise"
            lines.append(
                f"[yellow]gate {gate.gate} {words} in {gate.group}, {gate.arm}: {gate.value:.3g} ± "
                f"{gate.noise_error:.2g}, bound {gate.bound:g}[/yellow]"
            )
    return lines or ([f"all {len(gates)} gates passed"] if gates else [])


def _place(answer: ProtocolAnswer) -> str:
    return f"{answer.group}, {answer.arm}"


def _numbers(answer: ProtocolAnswer) -> str:
    if answer.estimate is None or answer.interval is None or answer.simultaneous is None:
        return "[yellow]withheld: a gate failed[/yellow]"
    if answer.state == "unresolved":
        return "[yellow]the noise is too large: the interval is the declared range[/yellow]"
    single, all_ = answer.interval, answer.simultaneous
    text = f"[bold]{answer.estimate:>9,.4g}[/bold]  {single.lower:,.4g} to {single.upper:,.4g}  "
    text += f"({all_.lower:,.4g} to {all_.upper:,.4g})"
    if answer.calibrated is not None:
        text += f"  calibrated {answer.calibrated.lower:,.4g} to {answer.calibrated.upper:,.4g}"
    return text + ("  [yellow]marked: a gate failed[/yellow]" if answer.state == "marked" else "")
