"""`replicate accuracy`: how right every estimator is, on people whose effect is known and public tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from causalveil.flows.cli import show

SHIPPED = Path(__file__).resolve().parents[4] / "data"


def accuracy(
    out: Annotated[Path, typer.Option(help="folder for table, page and figures; created", show_default=False)],
    data: Annotated[
        list[Path] | None, typer.Option(help="folder to look for public tables in that are not shipped; repeatable")
    ] = None,
    runs: Annotated[int, typer.Option(min=3, help="runs of the quickest cells; others get a share")] = 40,
    seed: Annotated[int, typer.Option(min=0, help="of people and noise")] = 0,
    only: Annotated[
        list[str] | None, typer.Option(help="POPULATION-UNITS-METHOD, with * and ?: compute these alone; repeatable")
    ] = None,
    kept: Annotated[bool, typer.Option("--kept", help="compute nothing: the page of what was kept")] = False,
    workers: Annotated[int, typer.Option(min=1, help="processes")] = 2,
) -> None:
    """Error, coverage and width of every estimator at every level, and what plan expects of them.

    Cells are kept in OUT/runs, so that an interrupted command goes on there; delete that folder to start anew. With
    --only the page has every cell that was kept.
    """
    from causalveil_replication.accuracy.measure import planned
    from causalveil_replication.accuracy.public_data import public_tables
    from causalveil_replication.accuracy.study import compute, jobs, write_accuracy

    folders = (*(path.resolve() for path in data or ()), SHIPPED)
    tables, absent = public_tables(folders)
    folder = out / "runs"
    with show.progress() as watch:
        if not kept:
            work = jobs(tables, folders, runs, seed, only or ())
            watch(f"{len(work):,} jobs")
            compute(folder, work, workers)
            watch("what plan expects")
            compute(folder, work, workers, planned)
        watch("page")
        missing = write_accuracy(out, jobs(tables, folders, runs, seed), absent)
    for sentence in absent:
        show.line(sentence)
    if missing:
        show.line(f"{missing:,} jobs are not computed; the page names them.")
    show.line(f"Written: {out / 'accuracy.md'}")
