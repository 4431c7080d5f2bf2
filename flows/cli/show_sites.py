"""Output for a person about bundles and pooled releases. All of it is in the documents themselves."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from causalveil.flows.cli.show import charge_table
from causalveil.flows.cli.show_protocol import gate_lines
from causalveil.flows.sequence.pooling import PooledResult
from causalveil.schemas.privacy import amount_text
from causalveil.schemas.release import EffectRelease, Release
from causalveil.schemas.sites.pooled import PooledAnswer, PooledEstimate, PooledProtocolRelease, PooledRelease
from causalveil.schemas.sites.round import Bundle, instant_text
from causalveil.tasks.report.numbers import number
from causalveil.tasks.sites.bundle import fingerprint


def pooled_protocol(release: PooledProtocolRelease) -> str:
    """Return every pooled answer on a line, then gates and controls, in words."""
    width = max(len(_place(answer)) for answer in release.answers)
    lines = [f"{release.model} effects; {release.confidence:.0%} intervals, in brackets those that hold all together"]
    outcome = ""
    for answer in release.answers:
        if answer.outcome != outcome:
            outcome = answer.outcome
            role = "" if answer.role == "secondary" else f" ({answer.role.replace('_', ' ')})"
            lines.append(f"[bold]{outcome}[/bold]{role}")
        lines.append(f"  {_place(answer):<{width}}  {_answer_numbers(release, answer)}")
    lines += gate_lines(release.gates)
    for gate in release.site_gates:
        if gate.verdict == "failed":
            lines.append(f"[yellow]at {gate.site} gate {gate.gate} failed in {gate.group}, {gate.arm}[/yellow]")
    if release.calibration.controls:
        lines.append(release.calibration.statement)
    return "\n".join([*lines, f"The intervals do not cover {release.not_covered}."])


def _place(answer: PooledAnswer) -> str:
    return f"{answer.group}, {answer.arm}"


def _answer_numbers(release: PooledProtocolRelease, answer: PooledAnswer) -> str:
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


def bundle(content: Bundle, release: Release, path: Path) -> None:
    """Print all that a coordinator would get, before it is sent."""
    console, statement = Console(), content.statement
    found = ""
    if isinstance(release, EffectRelease):
        interval = release.interval
        found = (
            f"\n[bold]{number(release.estimate)}[/bold]   {interval.confidence:.0%} interval "
            f"[bold][{number(interval.lower)}, {number(interval.upper)}][/bold]"
        )
    console.print(
        Panel(
            f"{release.study}: {release.estimator}, {release.units:,} units of {release.dataset}{found}",
            title=f"bundle of site {statement.site} for round {statement.round}",
            title_align="left",
        )
    )
    rows = {
        "signed": instant_text(statement.issued_at),
        "by key": f"{content.key}  ({fingerprint(content.key)})",
        "run": f"{statement.run_id}, finished {instant_text(statement.finished_at)}",
        "study digest": statement.study_digest,
        "contract digest": statement.policy_digest,
        "ledger": f"{release.ledger.identity}, entry {release.ledger.entry_hash[:16]}",
        "software": f"causalveil {release.software.version}, "
        + ", ".join(f"{name} {version}" for name, version in release.software.dependencies.items()),
    }
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table, highlight=False)
    console.print(charge_table(release.privacy.charges, title="Charges"))
    console.print(
        f"The signature matches; whether its key is to be trusted, sites.yaml says. All that would be sent is {path}.",
        highlight=False,
        soft_wrap=True,
    )


def pooled(outcome: PooledResult) -> None:
    """Print a pooled release for a person."""
    release, console = outcome.release, Console()
    if isinstance(release, PooledProtocolRelease):
        head = f"{release.study}: {release.estimand} by {release.estimator}, {len(release.sites)} sites, "
        head += f"{release.units:,} units"
        console.print(Panel(head, title=f"round {release.round}", title_align="left"))
        console.print(pooled_protocol(release), highlight=False, soft_wrap=True)
    else:
        _effect(release, console)
    console.print(
        f"Guarantee: ({amount_text(release.privacy.epsilon)}, {amount_text(release.privacy.delta)})-differential "
        f"privacy for every {release.privacy.unit} of any site, {release.privacy.neighbours.replace('_', ' ')}, level "
        f"{release.privacy.level}: no unit is in two sites (declared).",
        highlight=False,
    )
    for sentence in release.privacy.unprotected:
        console.print(f"[yellow]Not protected: {sentence}[/yellow]", highlight=False)
    console.print(f"Release: {outcome.path}", highlight=False, soft_wrap=True)


def _effect(release: PooledRelease, console: Console) -> None:
    body = (
        f"{release.study}: {release.estimand} by {release.estimator}, {len(release.sites)} sites, "
        f"{release.units:,} units\n{_line(release.model, _headline(release))}"
    )
    console.print(Panel(body, title=f"round {release.round}", title_align="left"))
    console.print(_sites(release))
    apart = release.heterogeneity
    other = ("random", release.random) if release.model == "fixed" else ("fixed", release.fixed)
    console.print(_line(*other), highlight=False)
    console.print(
        f"Between sites: tau2 {apart.tau2:.4g}, I2 {apart.i2:.0%}, Q {apart.q:.4g} on {apart.degrees} degrees of "
        f"freedom (p {apart.p_value:.2g}).",
        highlight=False,
    )
    for row in release.leave_one_out:
        left = row.fixed if release.model == "fixed" or row.random is None else row.random
        console.print(f"Without {row.site}: {_numbers(left)}", highlight=False)


def _headline(release: PooledRelease) -> PooledEstimate:
    return release.fixed if release.model == "fixed" else release.random


def _line(model: str, estimate: PooledEstimate) -> str:
    return f"{model} effects: {_numbers(estimate)}"


def _numbers(estimate: PooledEstimate) -> str:
    interval = estimate.interval
    whole = " (the whole declared range)" if interval.whole_range else ""
    return (
        f"[bold]{number(estimate.estimate)}[/bold]   {interval.confidence:.0%} interval "
        rf"[bold]\[{number(interval.lower)}, {number(interval.upper)}][/bold]{whole}"
    )


def _sites(release: PooledRelease) -> Table:
    table = Table(title="Sites", title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("site", overflow="fold")
    for heading in ("units", "estimate", "interval", "epsilon", "delta", "fixed", "random"):
        table.add_column(heading, justify="right", no_wrap=True)
    for site in release.sites:
        table.add_row(
            site.site,
            f"{site.units:,}",
            f"{number(site.estimate)}",
            rf"\[{number(site.interval.lower)}, {number(site.interval.upper)}]",
            amount_text(site.epsilon),
            amount_text(site.delta),
            f"{site.weight_fixed:.0%}",
            f"{site.weight_random:.0%}",
        )
    return table
