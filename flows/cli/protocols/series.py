"""`causalveil series`: the released blocks of a dataset together, at no charge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from causalveil.flows.cli import show
from causalveil.flows.cli.options import Json
from causalveil.flows.engine import settings
from causalveil.tasks.report.numbers import number


def series(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="the study.yaml", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="folder for series.json [default: releases/STUDY-series]")] = None,
    json_: Json = False,
) -> None:
    """Pool the released blocks of STUDY's dataset: trend, heterogeneity, the newest block's place. Charges nothing."""
    from causalveil.flows.engine.engine import DirectEngine
    from causalveil.flows.sequence.pooling import make_series

    settings.prepare(quiet=True)
    found = make_series(study, out, DirectEngine())
    if json_:
        show.document(
            {"path": str(found.path), "page": str(found.page), "series": found.series.model_dump(mode="json")}
        )
        return
    show.line(found.series.statement)
    for row in found.series.rows:
        interval = row.fixed.interval
        show.line(f"{row.outcome}, {row.group}, {row.arm}: {len(row.blocks)} blocks")
        for block in row.blocks:
            ends = block.interval
            show.line(f"  {block.blocks[-1]}: {number(block.estimate)} ({number(ends.lower)} to {number(ends.upper)})")
        show.line(
            f"  together {number(row.fixed.estimate)} ({number(interval.lower)} to {number(interval.upper)}); Q = "
            f"{row.heterogeneity.q:.3g} on {row.heterogeneity.degrees} degrees of freedom, p = "
            f"{row.heterogeneity.p_value:.2g}"
        )
        show.line(
            f"  drift {row.drift.per_block:+.3g} ± {row.drift.standard_error:.2g} a block, p = {row.drift.p_value:.2g};"
            f" newest {row.newest.difference:+.3g} ± {row.newest.standard_error:.2g} from the others, p = "
            f"{row.newest.p_value:.2g}"
        )
    if found.series.left_out:
        show.line(f"Left out, as their blocks were released before: {', '.join(found.series.left_out)}")
    show.line(f"Series: {found.path}; page: {found.page}")
