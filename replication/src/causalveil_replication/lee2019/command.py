"""`replicate weighting`: the experiments of Lee et al. 2019, both papers, with this code and seeded noise.

Figures 1 and 2 of each, Tables 2 and 3 of the first, Table 1 of the second, and what they prove as computed quantities.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from causalveil.flows.cli import show
from causalveil.tasks.machine.distribute import in_steps

if TYPE_CHECKING:
    pass

Row = dict[str, Any]
# Dimension, units of the estimate: the first paper's, the second's.
DESIGNS = (("weighting", 50, 1000), ("scores", 25, 200))
# Coefficient vectors; the papers have one.
VECTORS = 20


@dataclass
class WeightingResults:
    """All tables, and what is missing of the data."""

    tables: list[Row] = field(default_factory=list)
    flips: list[Row] = field(default_factory=list)
    estimates: list[Row] = field(default_factory=list)
    bias: list[Row] = field(default_factory=list)
    bounds: list[Row] = field(default_factory=list)
    penalties: list[Row] = field(default_factory=list)
    levels: list[Row] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    norms: list[str] = field(default_factory=list)

    def files(self) -> dict[str, list[Row]]:
        """Rows by the name of their table."""
        names = ("tables", "flips", "estimates", "bias", "bounds", "penalties", "levels")
        return {f"weighting-{name}": getattr(self, name) for name in names}


def weighting(
    out: Annotated[Path, typer.Option(help="folder for tables, page and figures; created", show_default=False)],
    data: Annotated[
        list[Path] | None, typer.Option(help="folder to look for lalonde722.csv and ihdp_1.csv in; repeatable")
    ] = None,
    runs: Annotated[int, typer.Option(min=2, help="runs on LaLonde and on IHDP")] = 2000,
    vectors: Annotated[int, typer.Option(min=1, help="coefficient vectors of the synthetic data")] = VECTORS,
    trials: Annotated[int, typer.Option(min=2, help="trials of each vector")] = 100,
    draws: Annotated[int, typer.Option(min=100, help="draws of noise for each bound")] = 10_000,
) -> None:
    """Private propensity scores and weighting (Lee et al. 2019), as published and as their guarantee has it.

    Draws are kept in OUT/runs, so that an interrupted command goes on there; delete that folder to start anew.
    """
    from causalveil.tasks.machine.distribute import one_thread
    from causalveil.tasks.report.figures import write_table
    from causalveil_replication.figures import write_page
    from causalveil_replication.lee2019 import page, tables
    from causalveil_replication.lee2019.data import Design
    from causalveil_replication.lee2019.runs import figure_draws

    found = WeightingResults()
    # Systems of fifty equations: a second thread costs more than it gives.
    with one_thread(), show.progress() as watch:
        _published(found, tuple(data or ()), out / "runs", runs)
        for name, dimension, units in DESIGNS:
            watch(f"synthetic data, d = {dimension}")
            designs = [Design(name, dimension, units, vector) for vector in range(vectors)]
            done = [draw for one in in_steps(designs, vectors) for draw in figure_draws(out / "runs", one, trials)]
            found.flips += tables.flip_rows(designs[0], done)
            found.estimates += tables.estimate_rows(designs[0], done)
        found.bias, found.bounds = tables.bias_rows(), tables.bound_rows(draws)
    for name, rows in found.files().items():
        if rows:
            write_table(out / f"{name}.csv", rows)
    page.draw(out, found)
    write_page(out / "weighting.md", page.parts(found))
    for sentence in (*found.missing, f"Written: {out / 'weighting.md'}"):
        show.line(sentence)


def _published(found: WeightingResults, folders: tuple[Path, ...], kept: Path, runs: int) -> None:
    """The tables on LaLonde and IHDP, of which a file may be missing."""
    import numpy as np

    from causalveil_replication.lee2019 import data, tables
    from causalveil_replication.lee2019.runs import table_draws

    men, infants = data.lalonde(folders), data.ihdp(folders)
    for name, there in ((data.LALONDE, men), (data.IHDP, infants)):
        if not there:
            found.missing.append(data.wanted(name))
    if men is not None:
        draws = table_draws(kept, "lalonde", partial(data.lalonde_draw, men), runs)
        found.tables += tables.table_rows("LaLonde, n = 200", draws, 200, 61_000)
        found.levels = tables.level_rows(draws, 200, 61_000)
    if infants:
        for held in (250, 100):
            title, name = f"IHDP, a realisation a run, n = {2 * held}", f"recipe-n{2 * held}"
            draws = table_draws(kept, name, partial(data.recipe_draw, infants[0], held), runs)
            # No bound that could be declared holds for every realisation.
            rows = tables.table_rows(title, draws, 2 * held, 20)
            found.tables += [row for row in rows if row["estimate"] in ("non-private", tables.PARTLY, tables.AUTHORS)]
        found.penalties = tables.penalty_rows(partial(data.recipe_draw, infants[0], 250), runs)
        norms = np.concatenate([np.linalg.norm(one.x, axis=1) for one in infants])
        found.norms = [f"{(norms > 1).mean():.1%}", f"{norms.min():.2f}", f"{norms.max():.2f}", str(len(infants))]
        inside = [data.within_ball(one) for one in infants]
        for title, samples, held in (
            ("IHDP, n = 500", infants, 250),
            ("IHDP, n = 200", infants, 100),
            ("IHDP within the unit ball, n = 500", inside, 250),
        ):
            # Other realisations are other runs.
            name = f"{len(samples)}-" + title.replace(" ", "").replace(",", "-").replace("=", "").lower()
            draws = table_draws(kept, name, partial(data.ihdp_draw, samples, held), runs)
            found.tables += tables.table_rows(title, draws, 2 * held, 20)
