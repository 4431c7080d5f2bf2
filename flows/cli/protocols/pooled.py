"""A protocol of several sites on a terminal."""

from __future__ import annotations

from causalveil.flows.cli.protocols.show import gate_lines
from causalveil.schemas.sites.pooled import PooledAnswer, PooledProtocolRelease
from causalveil.tasks.report.numbers import number


def pooled_protocol(release: PooledProtocolRelease) -> str:
    """Every pooled answer on a line, then gates and controls, in words."""
    width = max(len(_place(answer)) for answer in release.answers)
    lines = [f"{release.model} effects; {release.confidence:.0%} intervals, in brackets those that hold all together"]
    outcome = ""
    for answer in release.answers:
        if answer.outcome != outcome:
            outcome = answer.outcome
            role = "" if answer.role == "secondary" else f" ({answer.role.replace('_', ' ')})"
            lines.append(f"[bold]{outcome}[/bold]{role}")
        lines.append(f"  {_place(answer):<{width}}  {_numbers(release, answer)}")
    lines += gate_lines(release.gates)
    for gate in release.site_gates:
        if gate.verdict == "failed":
            lines.append(f"[yellow]at {gate.site} gate {gate.gate} failed in {gate.group}, {gate.arm}[/yellow]")
    if release.calibration.controls:
        lines.append(release.calibration.statement)
    return "\n".join([*lines, f"The intervals do not cover {release.not_covered}."])


def _place(answer: PooledAnswer) -> str:
    return f"{answer.group}, {answer.arm}"


def _numbers(release: PooledProtocolRelease, answer: PooledAnswer) -> str:
    told = [site.site for site in answer.sites if site.weight_fixed > 0]
    found = release.headline(answer)
    if answer.state == "withheld":
        return "[yellow]withheld: a gate failed on the pooled balance[/yellow]"
    if found is None or answer.simultaneous is None or answer.heterogeneity is None:
        return "[yellow]fewer than two sites answered[/yellow]"
    text = (
        f"[bold]{number(found.estimate):>9}[/bold]  {number(found.interval.lower)} to {number(found.interval.upper)}  "
    )
    text += f"({number(answer.simultaneous.lower)} to {number(answer.simultaneous.upper)})"
    if answer.calibrated is not None:
        text += f"  calibrated {number(answer.calibrated.lower)} to {number(answer.calibrated.upper)}"
    text += f"  I2 {answer.heterogeneity.i2:.0%}"
    if len(told) < len(answer.sites):
        text += f", by {' and '.join(told)} alone"
    return text + ("  [yellow]marked: a gate failed[/yellow]" if answer.state == "marked" else "")
