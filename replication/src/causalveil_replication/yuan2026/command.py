"""`replicate matching`: the experiments of Yuan et al. 2026 (PrivATE), with this code and seeded noise.

Figures 2 to 12 of the paper, its Tables IV and V and its Theorem 3: relative error against matching without privacy, by
epsilon, on four data sets, at both levels, for N = 1, 3, 5, 7, for fixed caps against the adaptive one, over error
coefficients and shares of the budget, beside every competitor that the paper names. Each run has an order of traversal
and a noise of its own. Ours runs through ``flows/run/estimators.py``, as a study does.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from causalveil.flows.cli import show

Json = Annotated[bool, typer.Option("--json", help="one JSON document on standard output, all else on standard error")]
SHIPPED = Path(__file__).resolve().parents[4] / "data"


def matching(
    out: Annotated[Path, typer.Option(help="folder for tables, page and figures; created", show_default=False)],
    data: Annotated[
        list[Path] | None, typer.Option(help="folder to look for data sets in that are not shipped; repeatable")
    ] = None,
    seeds: Annotated[int, typer.Option(min=2, max=10_000, help="runs of every setting")] = 10,
    costs: Annotated[bool, typer.Option(help="measure seconds and memory too (tables IV and V)")] = True,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="stop computing after so long; the page says what it lacks")
    ] = None,
    privsyn: Annotated[
        Path | None, typer.Option(help="Python of an environment with privsyn-core, to compare with it too")
    ] = None,
    json_: Json = False,
) -> None:
    """Relative errors of private matching and its competitors on four data sets (Yuan et al. 2026).

    Pieces are kept in OUT/runs, so that an interrupted command goes on there; delete that folder to start anew.
    """
    from causalveil.tasks.report.figures import write_table
    from causalveil_replication.competitors import packaged, several_valued
    from causalveil_replication.figures import write_page
    from causalveil_replication.yuan2026 import page
    from causalveil_replication.yuan2026.data import NAMES, SOURCES, load
    from causalveil_replication.yuan2026.runs import prepare
    from causalveil_replication.yuan2026.tables import TABLES, Piece, made, pieces

    folders = (*(data or ()), SHIPPED)
    work: list[Piece] = []
    missing: list[str] = []
    with show.progress() as watch:
        for name in NAMES:
            table = load(name, folders)
            if table is None:
                missing.append(f"{name} is left out: no folder named by --data has its files. {SOURCES[name]}.")
                continue
            work += pieces(prepare(table, seeds), folders, costs, privsyn)
        work.append(Piece("several", f"several-{seeds}", 1, partial(several_valued.measure, seeds)))
        found, late = made(out, work, minutes, watch)
    if not any(row["competitor"] == packaged.NAME for row in found["competitors"]):
        missing.append(packaged.WANTED)
    if late:
        missing.append(
            f"Not computed yet, so not below: {', '.join(late)}. The same command without `--minutes` computes it."
        )
    for kind, rows in found.items():
        if rows:
            write_table(out / TABLES[kind], rows)
    page.draw(out, found)
    write_page(out / "matching.md", page.parts(found, missing, seeds))
    if json_:
        show.document({"page": str(out / "matching.md"), "missing": missing, "errors": found["errors"]})
        return
    for sentence in (*missing, f"Written: {out / 'matching.md'}"):
        show.line(sentence)
