"""Output for a person about bundles, pooled releases and series.

All of it is in the documents themselves.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from causalveil.flows.cli.show import charge_table, panel
from causalveil.flows.sequence.pooling import PooledResult, SeriesResult
from causalveil.schemas.release import AnsweredEffect, Release
from causalveil.schemas.sites.round import Bundle, instant_text
from causalveil.tasks.report.panel.parts import estimate_line
from causalveil.tasks.report.panel.whole import panel_of
from causalveil.tasks.sites.bundle import fingerprint


def bundle(content: Bundle, release: Release, path: Path) -> None:
    """Print all that a coordinator would get, before it is sent."""
    console, statement = Console(), content.statement
    found = ""
    if isinstance(release, AnsweredEffect):
        outcome = release.specification["outcome"]
        # Of a time to an event the first measure may be a risk, which has no unit.
        unit = release.units_of_measure.get(outcome["name"]) if "name" in outcome else None
        found = f"\n{estimate_line(release.estimate, release.interval, unit)}"
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
    panel(panel_of(release), f"round {release.round}")
    for sentence in release.privacy.unprotected:
        console.print(f"[yellow]Not protected: {escape(sentence)}[/yellow]", highlight=False)
    console.print(f"Release: {outcome.path}", highlight=False, soft_wrap=True)
    console.print(f"Report:  causalveil report {outcome.path}", highlight=False, soft_wrap=True)


def series(result: SeriesResult) -> None:
    """Print a series for a person."""
    found, console = result.series, Console()
    panel(panel_of(found), f"series of {found.dataset}")
    for sentence in found.privacy.unprotected:
        console.print(f"[yellow]Not protected: {escape(sentence)}[/yellow]", highlight=False)
    console.print(found.statement, highlight=False)
    if found.left_out:
        runs = ", ".join(found.left_out)
        console.print(f"Left out, as their blocks were released before: {runs}", highlight=False, soft_wrap=True)
    console.print(f"Series: {result.path}", highlight=False, soft_wrap=True)
    console.print(f"Page:   {result.page}", highlight=False, soft_wrap=True)
