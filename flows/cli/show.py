"""Options that several commands share, and their output for a person or a script.

Rich tables on a terminal, one JSON document for scripts. Released and declared values only.
"""

from __future__ import annotations

import json
import sys
import textwrap
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from causalveil.schemas.errors import GateFailed
from causalveil.tasks.report import panel as whole
from causalveil.tasks.report.numbers import number

if TYPE_CHECKING:
    from causalveil.flows.engine.engine import Watcher
    from causalveil.flows.run.finished import RunResult
    from causalveil.schemas.admission import Rule
    from causalveil.schemas.ledger import Account
    from causalveil.schemas.plan import Plan
    from causalveil.schemas.privacy import Charge
    from causalveil.schemas.sites.pooled import Published
    from causalveil.schemas.study import Study


Json = Annotated[bool, typer.Option("--json", help="one JSON document on standard output, all else on standard error")]


class EngineChoice(StrEnum):
    """Name an engine that runs the stages."""

    prefect = "prefect"
    direct = "direct"


class Sweep(StrEnum):
    """Name a setting that `plan` may vary."""

    penalty = "penalty"


# Schemas are imported where they are shown: `--help` must not pay for pydantic.

PATIENCE_SECONDS = 2.0
# Letters of a cell in which words and formulas fit beside all numbers of a charge on a terminal of 80 columns.
FOLDED = 13


def listed(text: str) -> tuple[str, ...]:
    """Return the words of an option that takes several, separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def document(content: Mapping[str, Any] | BaseModel) -> None:
    """Print one JSON document on standard output."""
    if isinstance(content, BaseModel):
        # An account of years has tens of megabytes, for which Python's encoder takes ten times as long.
        sys.stdout.write(content.model_dump_json(indent=2) + "\n")
        return
    text = json.dumps(
        content, indent=2, ensure_ascii=False, allow_nan=False, default=lambda model: model.model_dump(mode="json")
    )
    sys.stdout.write(text + "\n")


def line(text: str) -> None:
    """Print one line for a person."""
    Console().print(text, highlight=False, markup=False, soft_wrap=True)


def either(json_: bool, content: Mapping[str, Any] | BaseModel, *lines: str) -> None:
    """Print one JSON document if that is asked for, else lines for a person."""
    if json_:
        document(content)
        return
    for text in lines:
        line(text)


def run_id(name: str) -> None:
    """Print the run's id, before anything is reserved, on standard error."""
    Console(stderr=True).print(f"run {name}", style="dim", highlight=False, markup=False)


@contextmanager
def progress() -> Iterator[Watcher]:
    """Show the progress of lasting work on a terminal, on standard error.

    Once work has lasted two seconds the line has the stage, the share done, elapsed and expected time. Where standard
    error is no terminal nothing is shown. Shares are of partitions, blocks and runs, which are public.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as Expected

    from causalveil.tasks.machine.distribute import watched_by

    shown = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TextColumn("elapsed"),
        TimeElapsedColumn(),
        TextColumn("left"),
        Expected(),
        console=console,
        transient=True,
    )
    row = shown.add_task("starting", total=None)
    timer = threading.Timer(PATIENCE_SECONDS, shown.start)
    timer.daemon = True
    timer.start()

    def watch(stage: str) -> None:
        shown.reset(row, description=stage, total=None)

    try:
        with watched_by(lambda done, count: shown.update(row, completed=done, total=count)):
            yield watch
    finally:
        timer.cancel()
        shown.stop()


def titled(title: str) -> Table:
    """Return a table with a title, without the lines that take room on eighty columns."""
    return Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))


def charge_table(charges: tuple[Charge, ...], *, title: str) -> Group:
    """Return the table of charges: stage, mechanism, units, sensitivity, noise, epsilon, delta.

    No cell is cut on a terminal of 80 columns: words are folded, numbers stay whole, and a formula of an unknown number
    of units has a line below.
    """
    from causalveil.schemas.privacy import amount_text

    table = titled(title)
    for heading in ("stage", "mechanism", "units\ntouched"):
        table.add_column(heading, overflow="fold")
    for heading in ("sensitivity", "noise\nscale", "epsilon", "delta"):
        table.add_column(heading, justify="right", no_wrap=True)
    for charge in charges:
        table.add_row(
            charge.stage,
            # Broken at spaces and hyphens; rich breaks at spaces alone.
            textwrap.fill(charge.mechanism, FOLDED),
            str(charge.scope),
            _sensitivity(charge),
            "-" if charge.noise_scale is None else number(charge.noise_scale),
            amount_text(charge.epsilon),
            amount_text(charge.delta),
        )
    below = dict.fromkeys(f"Sensitivity of {charge.stage}: {charge.formula}" for charge in charges if _is_long(charge))
    return Group(table, *map(Text, below))


def _sensitivity(charge: Charge) -> str:
    if charge.sensitivity is not None:
        return number(charge.sensitivity)
    return "below" if _is_long(charge) else charge.formula


def _is_long(charge: Charge) -> bool:
    """Return whether a formula needs a line of its own below the table."""
    return charge.sensitivity is None and len(charge.formula) > FOLDED


def remaining(outcome: RunResult) -> list[dict[str, Any]]:
    """Return the remaining budget at the release's level, by block.

    Empty for a simulation.
    """
    if outcome.release.not_for_release:
        return []
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    account = open_ledger().account(outcome.release.dataset)
    charged = set(outcome.release.privacy.blocks.charged)
    return [
        row.model_dump(mode="json")
        for row in account.blocks
        if row.level is outcome.release.privacy.level and row.block in charged
    ]


def _line(text: str) -> RenderableType:
    """Return a line of a panel; one of a list wraps below its own first word."""
    if not text.startswith("- "):
        return Text.from_markup(text)
    row = Table.grid(padding=(0, 1, 0, 0))
    row.add_row("-", text[2:])
    return row


def panel(lines: list[str], title: str) -> None:
    """Print the lines of a panel in a box."""
    Console().print(Panel(Group(*map(_line, lines)), title=title, title_align="left"))


def check_gates(release: Published) -> None:
    """Say by the exit code that a declared gate failed.

    The release is written, and its charge stands.

    Raises:
        GateFailed: names gates and subgroups, which are released.
    """
    from causalveil.tasks.estimate.findings import failed_gates
    from causalveil.tasks.report.table import labelled

    problem = failed_gates(labelled(release))
    if problem is not None:
        raise GateFailed(problem)


def outcome(result: RunResult) -> None:
    """Print the release of a run, readable."""
    release, console = result.release, Console()
    title = "not for release" if release.not_for_release else "release"
    panel(whole.lines_of(result), title)
    for sentence in whole.notes(result):
        console.print(sentence, highlight=False)
    console.print(f"Release: {result.path}", highlight=False, soft_wrap=True)
    if result.url is not None:
        console.print(f"Put at:  {result.url}", highlight=False, soft_wrap=True)
    console.print(f"Report:  causalveil report {result.path}", highlight=False, soft_wrap=True)


def plan(study: Study, declared: Plan, expected: Mapping[str, Any]) -> None:
    """Print a plan for a person."""
    from causalveil.schemas.privacy import cost_text

    console = Console()
    sizes = declared.sizes
    size = "n units" if sizes is None else f"{sizes.units:,} units"
    if sizes is not None and sizes.train != sizes.units:
        size += f": {sizes.train:,} train, {sizes.estimation:,} estimate"
    console.print(f"[bold]{study.name}[/bold]: {study.question} by {study.estimator.name} on {size}", highlight=False)
    console.print(charge_table(declared.charges, title="Charges, before any row is read"))
    total = f"Total: {cost_text(declared.total)}"
    if declared.epsilon_pld is not None:
        total += f" (epsilon {declared.epsilon_pld:.4g} by privacy loss distributions)"
    console.print(total, highlight=False)
    for sentence in expected["warnings"]:
        console.print(f"Warning: {sentence}", style="yellow", highlight=False, markup=False)
    for sentence in expected["sentences"]:
        console.print(f"- {sentence}", highlight=False, markup=False)
    if "sweep" in expected:
        console.print(_sweep_table(expected["sweep"]))


def _sweep_table(rows: list[dict[str, float]]) -> Table:
    """Return the table of expected numbers by penalty."""
    table = titled("Penalties, for hsic on a stand-in")
    for heading in rows[0]:
        table.add_column(heading.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(number(value) for value in row.values()))
    return table


def schema(dataset: str, columns: Mapping[str, tuple[str, *tuple[Rule, ...]]]) -> None:
    """Show the admission rules of a dataset's columns."""
    line(f"Admission of {dataset} holds each row to this pandera schema. No unit may have two rows.")
    table = Table(box=SIMPLE_HEAD)
    _whole_column(table, "column", list(columns))
    table.add_column("type")
    table.add_column("a row that breaks it is told as")
    for name, (kind, *rules) in columns.items():
        table.add_row(escape(name), kind, "\n".join(rule.brief for rule in rules))
    Console().print(table)


def _whole_column(table: Table, heading: str, names: list[str]) -> None:
    """Add a column of names that are never cut: unfolded where half of the terminal holds them."""
    longest = max((len(name) for name in names), default=0)
    table.add_column(heading, overflow="fold", no_wrap=longest <= Console().width // 2)


def _rho_table(content: Account) -> Table:
    """Return the accounts in their own measure, where that is rho."""
    table = titled("The same as rho")
    for heading in ("level", "block"):
        _whole_column(table, heading, [str(getattr(row, heading)) for row in content.blocks])
    for heading in ("granted", "spent", "reserved", "left", "left of it"):
        table.add_column(heading)
    for row in content.blocks:
        if row.rho is not None:
            sums = (row.rho.granted, row.rho.spent, row.rho.reserved, row.rho.remaining)
            table.add_row(str(row.level), row.block, *(f"{float(part):.4g}" for part in sums), f"{row.share_left:.1%}")
    return table


def snapshots(content: Account) -> None:
    """Show which state of an open table each run read, newest run first."""
    newest = content.runs[::-1]
    table = titled(f"Runs of {content.dataset}, newest first")
    _whole_column(table, "run", [run.run_id for run in newest])
    table.add_column("state", no_wrap=True)
    table.add_column("table", overflow="fold")
    table.add_column("read", overflow="fold")
    for run in newest:
        tables = ", ".join(sorted({snapshot.table for snapshot in run.snapshots}))
        states = ", ".join(snapshot.words for snapshot in run.snapshots)
        table.add_row(run.run_id, run.state, tables or "no such table", states)
    Console().print(table)


def account(content: Account) -> None:
    """Show caps and use of a dataset, and its newest runs."""
    from causalveil.schemas.ledger import UNANCHORED
    from causalveil.schemas.privacy import amount_text
    from causalveil.tasks.report.numbers import blocks_label

    console = Console()
    table = titled(f"Budget of {content.dataset}")
    for heading in ("level", "block"):
        _whole_column(table, heading, [*(str(getattr(row, heading)) for row in content.blocks), *content.caps])
    # Each is an epsilon and a delta.
    for heading in ("granted", "spent", "reserved", "left"):
        table.add_column(f"{heading}\n(ε, δ)", overflow="fold")
    table.add_column("runs", overflow="fold")
    for row in content.blocks:
        sums = (row.granted, row.spent, row.reserved, row.remaining)
        pairs = (f"{amount_text(part.epsilon)}, {amount_text(part.delta)}" for part in sums)
        table.add_row(str(row.level), row.block, *pairs, str(row.runs))
    for level in sorted(set(content.caps) - {row.level for row in content.blocks}):
        cap = f"{amount_text(content.caps[level].epsilon)}, {amount_text(content.caps[level].delta)}"
        table.add_row(str(level), "every block", cap, "0, 0", "0, 0", cap, "0")
    console.print(table)
    if any(row.rho is not None for row in content.blocks):
        console.print(_rho_table(content))
        console.print("Rho adds up, run after run; the epsilons above are what it implies at the cap's delta.")
    console.print("A block that is not listed was never charged and has the whole cap of its level.")
    newest = content.runs[::-1]
    runs = titled("Runs, newest first")
    # A run's study stands below its id: eighty columns have no room for both.
    for heading in ("run\nof study", "level", "blocks", "state", "epsilon", "delta"):
        runs.add_column(heading, overflow="fold", no_wrap=heading in ("epsilon", "delta"))
    for entry in newest:
        runs.add_row(
            f"{entry.run_id}\n{entry.study}",
            str(entry.level),
            blocks_label(entry.blocks),
            str(entry.state),
            amount_text(entry.cost.epsilon),
            amount_text(entry.cost.delta),
        )
    console.print(runs)
    if content.older_runs:
        console.print(
            f"{content.older_runs:,} older runs are not shown: --runs {len(newest) + content.older_runs} shows all, "
            "`causalveil ledger export` writes them into a table."
        )
    if content.anchored is False:
        console.print(UNANCHORED)
