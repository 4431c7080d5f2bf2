"""The commands of `replicate`: the tables and figures of the papers, made again with this code on public data.

One function per paper, in a module of its own; each writes tables (CSV), a page (Markdown) and figures (SVG).
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from causalveil.flows.cli import show
from causalveil_replication.kusner2016.command import direction
from causalveil_replication.lee2019.command import weighting
from causalveil_replication.yuan2026.command import matching

replicate_app = typer.Typer(
    no_args_is_help=True, help="Make the papers' tables and figures again, with seeded noise on public data."
)


class IntervalPart(StrEnum):
    """Which tables `replicate intervals` makes."""

    all = "all"
    coverage = "coverage"
    fits = "fits"


@replicate_app.callback()
def replicate() -> None:
    """Make the papers' tables and figures again, with seeded noise on public data."""


replicate_app.command()(direction)
replicate_app.command()(matching)
replicate_app.command()(weighting)


@replicate_app.command()
def evidence(
    out: Annotated[Path, typer.Option(help="the page (Markdown)", show_default=False)],
    tables: Annotated[Path, typer.Option(help="folder with the tables of the replications")] = Path("docs/figures"),
) -> None:
    """One page: each experiment of the papers, its printed numbers, ours, and whether they agree."""
    from causalveil.tasks.report.figures import write_table
    from causalveil_replication.evidence import ITEMS, PAPERS, items_of, parts
    from causalveil_replication.figures import write_page

    write_table(tables / f"{ITEMS}.csv", [row for paper in PAPERS for row in items_of(paper, tables)])
    write_page(out, parts(tables))
    show.line(f"Written: {out}")


@replicate_app.command()
def intervals(
    out: Annotated[Path, typer.Option(help="folder for tables, page and figures", show_default=False)],
    data: Annotated[Path | None, typer.Option(help="folder with rhc.csv; without one table 2 is left out")] = None,
    runs: Annotated[
        int, typer.Option(min=2, help="runs of each method on synthetic data, five times of quick ones")
    ] = 500,
    workers: Annotated[int, typer.Option(min=1, help="processes")] = 2,
    fits: Annotated[int, typer.Option(min=2, help="fits of each learner for the tables that are read off fits")] = 100,
    part: Annotated[
        IntervalPart,
        typer.Option(help="coverage: our methods beside the paper's, by many runs; fits: all that one fit says"),
    ] = IntervalPart.all,
) -> None:
    """Coverage and width of private intervals: ours, and those of Schröder, Hartenstein & Feuerriegel (2025).

    Runs are kept in OUT/runs, so that an interrupted command goes on there; delete that folder to start anew.
    """
    from causalveil_replication.schroeder2025.data import RHC_SOURCE
    from causalveil_replication.schroeder2025.fits import write_fits
    from causalveil_replication.schroeder2025.tables import write_intervals

    with show.progress() as watch:
        if part is not IntervalPart.coverage:
            watch("fits")
            write_fits(out, data, fits, workers)
        if part is not IntervalPart.fits:
            watch("runs of each method")
            write_intervals(out, data, runs, workers)
    if data is None:
        show.line(f"Table 2 is left out: no folder is named by --data. Wanted is {RHC_SOURCE}.")
