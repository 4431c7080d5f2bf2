"""`causalveil extract`: from a warehouse to the partitions that a study reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from causalveil.flows.cli import show
from causalveil.flows.cli.options import EngineChoice, Json
from causalveil.flows.cli.owner import held_to
from causalveil.flows.engine import settings

if TYPE_CHECKING:
    from causalveil.schemas.warehouse import Manifest


def extract(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="the source.yaml", show_default=False)],
    engine: Annotated[EngineChoice, typer.Option(help="what runs the stages")] = EngineChoice.direct,
    json_: Json = False,
) -> None:
    """Take what SOURCE declares out of a warehouse into Parquet partitions.

    Blocks that are there stay.
    """
    from causalveil.flows.engine.engine import DirectEngine
    from causalveil.flows.sequence.admit import extract_source, late_line, target_folder
    from causalveil.schemas.warehouse import load_source
    from causalveil.tasks.object_storage.copies import shown

    with show.progress() as watch:
        if engine is EngineChoice.prefect:
            settings.prepare(quiet=True)
            from causalveil.flows.extract import extract_with_prefect

            extracted = extract_with_prefect(source, watch)
        else:
            extracted = extract_source(source, DirectEngine(watch))
    manifest, admission = extracted.manifest, extracted.admission
    place = target_folder(source, load_source(source))
    folder = shown(str(place))
    if json_:
        admitted = None if admission is None else admission.digest
        facts = {"folder": folder, "rows": manifest.rows, "admitted": admitted, "late": manifest.late}
        show.document({**facts, **manifest.model_dump(mode="json")})
    else:
        _show(manifest, folder)
        if (said := late_line(manifest)) is not None:
            show.line(f"Late: {said}.")
        if admission is None:
            show.line("Nothing was admitted: no dataset.yaml lies there, and nothing runs without one.")
        else:
            from causalveil.tasks.enclave.data_folder import DataFolder

            said = held_to(DataFolder(place).contract.data_class)
            show.line(f"Admitted {admission.dataset}: {admission.units:,} units. {said}")


def _show(manifest: Manifest, folder: str) -> None:
    """Every block with its n, which is public."""
    table = Table(title=f"Partitions of {manifest.dataset}", title_justify="left", title_style="bold")
    table.add_column("block")
    table.add_column("rows", justify="right")
    for block in manifest.blocks:
        table.add_row(block.block, f"{block.rows:,}")
    Console().print(table)
    for one in manifest.snapshots():
        show.line(f"Taken from {one.format} table {one.table}, {one.words}.")
    show.line(f"{manifest.rows:,} rows in {len(manifest.blocks)} blocks in {folder}")
