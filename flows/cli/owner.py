"""Commands of a data owner beside granting.

A key, extracts, admission, the desk, and how long a budget lasts.

`causalveil owner key`, `extract`, `admit`, `desk`, and `ledger export`, `forecast` and `chart`.
"""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from causalveil.flows.cli import show
from causalveil.flows.cli.show import EngineChoice, Json
from causalveil.flows.engine import settings
from causalveil.schemas.errors import StudyError, shown
from causalveil.tasks.report.numbers import counted

if TYPE_CHECKING:
    from causalveil.schemas.admission.manifest import Admission, Finding
    from causalveil.schemas.contract import DataClass
    from causalveil.schemas.warehouse import Manifest


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
    """Print the line `owner_key: ...` for the contract.

    Make the private key on first use, for its owner alone.
    """
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
    """Hold all rows in FOLDER to their contract, once.

    Tells the data's owner every problem, with counts.
    """
    from causalveil.flows.engine.engine import DirectEngine
    from causalveil.flows.sequence.admit import admit_folder
    from causalveil.schemas.admission.manifest import NotAdmitted
    from causalveil.tasks.enclave.data_folder import DataFolder
    from causalveil.tasks.object_storage.copies import folder_at

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
            f"Admitted {admission.dataset}: {_units(admission)} in {counted(len(admission.files), 'file')}, "
            f"{counted(len(admission.blocks), 'block')}. {_held_to(folder)}"
        )


def _held_to(folder: str) -> str:
    from causalveil.tasks.enclave.data_folder import DataFolder
    from causalveil.tasks.object_storage.copies import folder_at

    with folder_at(folder) as place:
        return held_to(DataFolder(place).contract.data_class)


def held_to(data_class: DataClass) -> str:
    """Say what an admission means for later runs.

    Only sensitive data wait for their owner once they change.
    """
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
    table = show.titled("What the contract does not allow")
    for heading in ("where", "column", "problem"):
        table.add_column(heading, overflow="fold")
    table.add_column("rows", justify="right")
    for one in findings:
        table.add_row(one.path or "all files", one.column or "", one.rule, "" if one.rows is None else f"{one.rows:,}")
    Console().print(table)


class ExportChoice(StrEnum):
    """Tables for people and programs, or entries of a public registry."""

    csv = "csv"
    parquet = "parquet"
    registry = "registry"


def desk(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="where the pages go")] = Path("desk"),
    json_: Json = False,
) -> None:
    """Write the owner's desk: every dataset, what was spent and by whom.

    It also has the day on which each budget is used up, and what waits for review.

    Static pages, read from the ledger after its whole chain was verified. With --json the same as one document.
    """
    from causalveil.tasks.privacy.ledger.ledger import existing_ledger

    ledger = existing_ledger()
    if json_:
        from causalveil.tasks.privacy.outlook.desk import desk_of

        show.document(desk_of(ledger).model_dump(mode="json"))
        return
    from causalveil.flows.planning.ledger_files import write_desk

    show.line(f"Wrote {write_desk(ledger, out)[0]}")


def export(
    dataset: Annotated[str | None, typer.Argument(help="the dataset's name [default: all]", show_default=False)] = None,
    form: Annotated[
        ExportChoice, typer.Option("--format", help="tables of runs, charges and refusals, or entries of a registry")
    ] = ExportChoice.csv,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="where the files go")] = Path("export"),
    json_: Json = False,
) -> None:
    """Write the ledger as CSV or Parquet, or as entries of OpenDP's registry of deployments.

    A registry's entry comes with the points of NIST SP 800-226. No released value is in any of the files.
    """
    from causalveil.flows.planning.ledger_files import ExportFormat
    from causalveil.flows.planning.ledger_files import export as write
    from causalveil.tasks.privacy.ledger.ledger import existing_ledger

    written = write(existing_ledger(), out, ExportFormat(form), dataset)
    if json_:
        show.document({"files": [str(path) for path in written]})
        return
    for path in written:
        show.line(f"Wrote {path}")
    if not written:
        show.line("Nothing to write: no run is finished.")


Dataset = Annotated[str, typer.Argument(help="the dataset's name, as its contract says", show_default=False)]


def forecast(
    dataset: Dataset,
    study: Annotated[
        Path | None, typer.Option(metavar="FILE", help="the study.yaml that runs [default: the last run again]")
    ] = None,
    every: Annotated[
        str, typer.Option(metavar="week|month|CRON", help="when it runs, in UTC: also day, year, or a cron expression")
    ] = "week",
    start: Annotated[str | None, typer.Option(metavar="DATE", help="the schedule's first day [default: today]")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="which epsilon lasts until the end of this day?")
    ] = None,
    json_: Json = False,
) -> None:
    """Say when a schedule uses up DATASET's budget, and which epsilon lasts.

    Reads no row, charges nothing.
    """
    from causalveil.flows.planning.budget import forecast as foresee
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    begin, end = _day("--start", start), _day("--until", until)
    found = foresee(open_ledger(), dataset, study=study, every=every, start=begin, until=end)
    if json_:
        show.document(found)
    else:
        for sentence in found["sentences"]:
            show.line(sentence)


def chart(
    dataset: Dataset,
    out: Annotated[
        Path | None, typer.Option(help="an .html or .svg file, or a folder for both [default: this folder]")
    ] = None,
    json_: Json = False,
) -> None:
    """Draw how each account of DATASET burned down, with every run. Reads the ledger alone."""
    from causalveil.flows.planning.ledger_files import draw_burndown
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    written = draw_burndown(open_ledger(), dataset, out or Path())
    if json_:
        show.document({"dataset": dataset, "files": [str(path) for path in written]})
    else:
        for path in written:
            show.line(f"Wrote {path}")


def _day(option: str, text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise StudyError(f"{option} must be a date such as 2027-12-31") from None


def extract(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="the source.yaml", show_default=False)],
    engine: Annotated[EngineChoice, typer.Option(help="what runs the stages")] = EngineChoice.direct,
    json_: Json = False,
) -> None:
    """Take what SOURCE declares out of a warehouse into Parquet partitions.

    Blocks that are there stay.
    """
    from causalveil.flows.engine.engine import DirectEngine
    from causalveil.flows.sequence.admit import extract_source, target_folder
    from causalveil.schemas.warehouse import load_source

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
        news = {"again": extracted.again, "outdated": extracted.outdated, "written": extracted.written}
        show.document({**facts, **news, **manifest.model_dump(mode="json", exclude={"source_files"})})
    else:
        _show(manifest, folder)
        for said in extracted.news:
            show.line(f"{said[:1].upper()}{said[1:]}.")
        if admission is None:
            show.line("Nothing was admitted: no dataset.yaml lies there, and nothing runs without one.")
        else:
            from causalveil.tasks.enclave.data_folder import DataFolder

            said = held_to(DataFolder(place).contract.data_class)
            show.line(f"Admitted {admission.dataset}: {admission.units:,} units. {said}")


def _show(manifest: Manifest, folder: str) -> None:
    """Every block with its n, which is public."""
    table = show.titled(f"Partitions of {manifest.dataset}")
    table.add_column("block")
    table.add_column("rows", justify="right")
    for block in manifest.blocks:
        table.add_row(block.block, f"{block.rows:,}")
    Console().print(table)
    for one in manifest.snapshots():
        show.line(f"Taken from {one.format} table {one.table}, {one.words}.")
    show.line(f"{manifest.rows:,} rows in {len(manifest.blocks)} blocks in {folder}")
