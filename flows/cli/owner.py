"""What a data owner does beside granting: `causalveil owner key` makes the key, `causalveil admit` checks all rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from causalveil.flows.cli import show
from causalveil.flows.cli.options import EngineChoice, Json
from causalveil.flows.engine import settings

if TYPE_CHECKING:
    from causalveil.schemas.admission.manifest import Admission, Finding
    from causalveil.schemas.contract import DataClass

owner_app = typer.Typer(help="The data owner's key, which signs grants and reviews.", no_args_is_help=True)


@owner_app.callback()
def owner() -> None:
    """The data owner's key, which signs grants and reviews."""


@owner_app.command()
def key(
    file: Annotated[
        Path | None,
        typer.Option(
            "--key", metavar="FILE", help="the private key [default: CAUSALVEIL_OWNER_KEY, else owner.key in the home]"
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """Print the line `owner_key: ...` for the contract; make the private key on first use, for its owner alone."""
    from causalveil.tasks.privacy.keys import owner_key

    public = owner_key(file, create=True).public
    if json_:
        show.document({"owner_key": public})
    else:
        # A line that can be appended to a contract as it is.
        show.line(f"owner_key: {public}")


def admit(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="the data and their dataset.yaml, or a URL", show_default=False)
    ],
    engine: Annotated[EngineChoice, typer.Option(help="what runs the stage")] = EngineChoice.direct,
    json_: Json = False,
) -> None:
    """Hold all rows in FOLDER to their contract, once; tells the data's owner every problem, with counts."""
    from causalveil.flows.engine.engine import DirectEngine
    from causalveil.flows.sequence.admit import admit_folder
    from causalveil.schemas.admission.manifest import NotAdmitted
    from causalveil.tasks.enclave.data_folder import DataFolder
    from causalveil.tasks.warehouse.object_storage import folder_at

    try:
        with show.progress() as watch:
            if engine is EngineChoice.prefect:
                settings.prepare(quiet=True)
                from causalveil.flows.admit import admit_with_prefect

                admission = admit_with_prefect(folder, watch)
            else:
                with folder_at(folder) as place:
                    admission = admit_folder(DataFolder(place), DirectEngine(watch))
    except NotAdmitted as problem:
        if not json_:
            _show_findings(problem.findings)
            raise
        said = {"type": type(problem).__name__, "message": str(problem), "exit_code": problem.exit_code}
        show.document({"error": said, "findings": [finding.model_dump() for finding in problem.findings]})
        typer.echo(f"causalveil: {problem}", err=True)
        raise typer.Exit(problem.exit_code) from None
    if json_:
        show.document(_facts(admission))
    else:
        show.line(
            f"Admitted {admission.dataset}: {_units(admission)} in {len(admission.files)} files, "
            f"{len(admission.blocks)} block(s). {_held_to(folder)}"
        )


def _held_to(folder: str) -> str:
    from causalveil.tasks.enclave.data_folder import DataFolder
    from causalveil.tasks.warehouse.object_storage import folder_at

    with folder_at(folder) as place:
        return held_to(DataFolder(place).contract.data_class)


def held_to(data_class: DataClass) -> str:
    """Say what an admission means for later runs: only sensitive data wait for their owner once they change."""
    from causalveil.schemas.contract import DataClass

    if data_class is DataClass.sensitive:
        return "Runs read these files alone; changed ones are refused until their owner admits them again."
    return f"Runs read these files; the next run checks changed ones and admits them by itself ({data_class} data)."


def _units(admission: Admission) -> str:
    units = f"{admission.units:,} units"
    return f"{sum(file.rows for file in admission.given):,} rows, reduced to {units}" if admission.given else units


def _facts(admission: Admission) -> dict[str, object]:
    return {
        "dataset": admission.dataset,
        "units": admission.units,
        "files": len(admission.files),
        "blocks": admission.blocks,
        "manifest": admission.digest,
    }


def _show_findings(findings: tuple[Finding, ...]) -> None:
    """Every problem, for the owner's eyes."""
    table = Table(title="What the contract does not allow", title_justify="left", title_style="bold")
    table.add_column("where")
    table.add_column("column")
    table.add_column("problem")
    table.add_column("rows", justify="right")
    for one in findings:
        table.add_row(one.path or "all files", one.column or "", one.rule, "" if one.rows is None else f"{one.rows:,}")
    Console().print(table)
