"""A protocol's table on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from causalveil.schemas.errors import GateFailed
from causalveil.schemas.protocols.study import EVERYBODY
from causalveil.schemas.where import where_words
from causalveil.tasks.report.numbers import number

if TYPE_CHECKING:
    from causalveil.schemas.protocols.answers import GateResult, ProtocolAnswer
    from causalveil.schemas.release import ProtocolRelease
    from causalveil.schemas.sites.pooled import Published


Limits = Callable[[object, int], list[str]]
ROLES = ("primary", "secondary", "negative_control")


def check_gates(release: Published) -> None:
    """Say by the exit code that a declared gate failed.

    The release is written, and its charge stands.

    Raises:
        GateFailed: names gates and subgroups, which are released.
    """
    from causalveil.tasks.protocols.failed import failed_gates

    said = failed_gates(release)
    if said is not None:
        raise GateFailed(said)


def protocol(release: ProtocolRelease, head: str, room: int, limits: Limits) -> list[str]:
    """Return a protocol's panel: answers over everybody first, primary ones before others.

    Answers are listed as far as there is room.

    Args:
        release: the protocol's.
        head: the line that the panel begins with.
        room: how many lines it may have.
        limits: lines of what no interval covers, from its text and how many lines there are.
    """
    ends = [*_adjusted(release), *_gates(release.gates)]
    if release.calibration.controls:
        ends.append(escape(release.calibration.statement))
    rows = sorted(release.answers, key=lambda one: (one.group != EVERYBODY, ROLES.index(one.role)))
    # The first limit takes two lines; the rest gets what answers leave.
    shown = rows[: max(room - len(ends) - 4, 1)]
    more = len(rows) - len(shown)
    rest = f"; {more} more answers in the report" if more else ""
    lines = [head, f"{release.confidence:.0%} intervals, in brackets those that hold all together{rest}:"]
    if among := where_words(release.specification):
        lines[1] = f"Of units where {escape(among)}: {lines[1]}"
    several = len({one.arm for one in release.answers}) > 1
    grouped = len({one.group for one in release.answers}) > 1
    names = [_name(one, several, grouped) for one in shown]
    width = max(map(len, names))
    for name, one in zip(names, shown, strict=True):
        unit = release.units_of_measure.get(one.outcome, "")
        lines.append(f"{escape(name)}{'':<{width - len(name)}}  {_numbers(one, unit)}")
        lines += [f"  {one.words}" for one in one.measures if more == 0]
    lines += ends
    return lines + limits(release.not_covered, room - len(lines))


def _gates(gates: Sequence[GateResult]) -> list[str]:
    """Return how many gates did not pass, and where the first of them stands."""
    lines = []
    for verdict, words in (("failed", "failed"), ("cannot_tell", "cannot be told at this noise")):
        found = [gate for gate in gates if gate.verdict == verdict]
        if found:
            one = found[0]
            first = f"{one.gate} in {escape(one.group)}, {escape(one.arm)}: {one.value:.3g} ± {one.noise_error:.2g}"
            lines.append(f"[yellow]{len(found)} of {len(gates)} gates {words}; {first}, bound {one.bound:g}.[/yellow]")
    return lines or ([f"All {len(gates)} gates passed."] if gates else [])


def _name(answer: ProtocolAnswer, several: bool, grouped: bool) -> str:
    """Return what an answer is of: its outcome, the subgroup and the arm where there are several."""
    parts = [answer.outcome, *([answer.group] if grouped else []), *([answer.arm] if several else [])]
    role = " (control)" if answer.role == "negative_control" else ""
    return ", ".join(parts) + role


def _adjusted(release: ProtocolRelease) -> list[str]:
    """Return what was done about confounding, of the answers that fare best and worst where they differ."""
    from causalveil.schemas.confounding import AdjustmentState

    found = list(dict.fromkeys(one.confounding for one in release.answers if one.confounding is not None))
    if not found:
        return []
    order = list(AdjustmentState)
    found.sort(key=lambda one: (order.index(one.state), -(one.share or 0.0)))
    if found[0].done == found[-1].done:
        return [found[0].done]
    return [f"Best adjusted answer: {found[0].words}.", f"[yellow]Worst: {found[-1].words}.[/yellow]"]


def gate_lines(gates: Sequence[GateResult]) -> list[str]:
    """Return every gate that did not pass, or that all did."""
    lines = []
    for gate in gates:
        if gate.verdict != "passed":
            words = "failed" if gate.verdict == "failed" else "cannot be told at this noise"
            lines.append(
                f"[yellow]gate {gate.gate} {words} in {gate.group}, {gate.arm}: {gate.value:.3g} ± "
                f"{gate.noise_error:.2g}, bound {gate.bound:g}[/yellow]"
            )
    return lines or ([f"all {len(gates)} gates passed"] if gates else [])


def _numbers(answer: ProtocolAnswer, unit: str) -> str:
    if answer.estimate is None or answer.interval is None or answer.simultaneous is None:
        return "[yellow]withheld: a gate failed[/yellow]"
    if answer.state == "unresolved":
        return "[yellow]the noise is too large: the interval is the declared range[/yellow]"
    single, all_ = answer.interval, answer.simultaneous
    of = escape(f" {unit}") if unit else ""
    text = f"[bold]{number(answer.estimate)}{of}[/bold]  {number(single.lower)} to {number(single.upper)}  "
    text += f"({number(all_.lower)} to {number(all_.upper)})"
    if answer.calibrated is not None:
        text += f"  calibrated {number(answer.calibrated.lower)} to {number(answer.calibrated.upper)}"
    return text + ("  [yellow]marked: a gate failed[/yellow]" if answer.state == "marked" else "")
