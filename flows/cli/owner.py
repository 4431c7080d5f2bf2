"""Commands of a data owner and of an auditor.

`causalveil ledger`: what the data's owner and the auditor do.

Commands of a data owner beside granting.
A key, extracts, admission, the desk, and how long a budget lasts.

`causalveil owner key`, `extract`, `admit`, `desk`, and `ledger export`, `forecast` and `chart`.
"""

from __future__ import annotations

import os
import re
import shutil
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from causalveil.flows.cli import show
from causalveil.flows.cli.show import EngineChoice, Json
from causalveil.flows.engine import settings
from causalveil.schemas.errors import ContractError, LedgerError, RunConflict, StudyError, kind_of, shown
from causalveil.tasks.machine.files import whole_file
from causalveil.tasks.report.numbers import counted

if TYPE_CHECKING:
    from causalveil.schemas.admission import Admission, Finding
    from causalveil.schemas.contract import Contract, DataClass
    from causalveil.schemas.warehouse import Manifest
    from causalveil.tasks.privacy.ledger.ledger import Ledger


ledger_app = typer.Typer(help="Grant, inspect, verify and void what the ledger holds.", no_args_is_help=True)

Dataset = Annotated[str, typer.Argument(help="the dataset's name, as its contract says", show_default=False)]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="the run's id", show_default=False)]
Key = Annotated[
    Path | None, typer.Option("--key", metavar="FILE", help="the owner's private key [default: CAUSALVEIL_OWNER_KEY]")
]
Reason = Annotated[str, typer.Option(help="why; it is kept in the ledger", show_default=False)]


@ledger_app.command()
def grant(
    contract: Annotated[
        str, typer.Argument(metavar="CONTRACT", help="the dataset.yaml, or its URL", show_default=False)
    ],
    reason: Reason,
    key: Key = None,
    json_: Json = False,
) -> None:
    """Grant the caps of CONTRACT, signed by its owner's key if it names one.

    Write this ledger's identity into it.
    """
    from causalveil.tasks.machine.object_storage import folder_at, stored
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    ledger = open_ledger()
    folder, _, name = contract.rpartition("/") if stored(contract) else (Path(contract).parent, "", Path(contract).name)
    with folder_at(folder) as place:
        granted, written = _grant(place / name, contract, reason, key, ledger)
    lines = [f"Granted the caps of '{granted.dataset}' in ledger {ledger.identity}."]
    if ledger.admission(granted.dataset) is None:
        lines.append(f"Next: causalveil admit {folder}  (holds the rows to the contract, once)")
    facts = {"dataset": granted.dataset, "ledger": ledger.identity, "policy_changed": written}
    show.either(json_, facts, *lines)


def _grant(path: Path, shown: str, reason: str, key: Path | None, ledger: Ledger) -> tuple[Contract, bool]:
    """Grant a contract's caps, and write the ledger's identity into it, unless it stands there."""
    from causalveil.schemas.contract import load_contract
    from causalveil.tasks.data.data_folder import DataFolder
    from causalveil.tasks.data.manifests import move_anchor
    from causalveil.tasks.privacy.keys import owner_key

    granted = load_contract(path)
    if granted.ledger not in (None, ledger.identity):
        raise LedgerError(
            f"{shown}: names another ledger; set CAUSALVEIL_LEDGER_URL to it, or have the owner set 'ledger: null'"
        )
    ledger.grant(granted, reason, None if granted.owner_key is None else owner_key(key))
    written = granted.ledger is None
    if written:
        write_identity(path, ledger.identity)
    move_anchor(DataFolder(path.parent), granted.dataset, ledger)
    return granted, written


def write_identity(path: Path, identity: str) -> None:
    """Set the ``ledger`` key of a contract file in place, leaving its comments alone.

    Raises:
        ContractError: the file cannot be written, or does not say the same afterwards.
    """
    from causalveil.schemas.contract import load_contract

    before = load_contract(path)
    text = path.read_text(encoding="utf-8")
    line = f"ledger: {identity}"
    changed, replaced = re.subn(r"(?m)^ledger:[ \t]*(?:null|~)?(?=[ \t]*(?:#.*)?$)", line, text, count=1)
    if not replaced:
        changed = text.rstrip("\n") + f"\n{line}\n"
    try:
        with whole_file(path, mode=path.stat().st_mode & 0o777, durable=True) as file:
            file.write(changed.encode())
            file.flush()
            if load_contract(Path(file.name)) != before.model_copy(update={"ledger": identity}):
                raise ContractError(f"{path}: cannot be edited safely; write 'ledger: {identity}' into it by hand")
    except OSError as problem:
        raise ContractError(f"{path}: cannot be written ({kind_of(problem)})") from None


@ledger_app.command(name="show")
def show_(
    dataset: Dataset,
    runs: Annotated[int, typer.Option(min=1, help="how many of the newest runs; --json has all")] = 20,
    snapshots: Annotated[
        bool, typer.Option("--snapshots", help="which state of a Delta or Iceberg table each run read")
    ] = False,
    json_: Json = False,
) -> None:
    """Show caps, use and what is left of DATASET, by level and block, and its newest runs.

    With --snapshots: a person who was deleted from the table is gone from the first run on that read a later state.
    """
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    ledger = open_ledger()
    ledger.refuse_unknown(dataset)
    if json_:
        show.document(ledger.account(dataset))
    elif snapshots:
        show.snapshots(ledger.newest(dataset, runs))
    else:
        show.account(ledger.newest(dataset, runs))


@ledger_app.command()
def verify(
    dataset: Annotated[str | None, typer.Argument(help="the dataset's name [default: all]", show_default=False)] = None,
    release: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="also check this release.json, or that of a run's folder, against it"),
    ] = None,
    json_: Json = False,
) -> None:
    """Recompute the ledger's hash chain; with --release find rollback and truncation."""
    from causalveil.schemas.documents import read_text
    from causalveil.schemas.release import release_file
    from causalveil.tasks.privacy.ledger.ledger import existing_ledger

    text = None if release is None else read_text(release_file(release))
    ledger = existing_ledger()
    report = ledger.verify(dataset)
    held = None if text is None else ledger.verify_release(text, str(release))
    if not json_:
        show.line(f"The chain of ledger {ledger.identity} holds: entries {report.entries}, runs {report.runs}.")
        if held is not None:
            show.line(f"The release of run {held} agrees with it.")
    elif not report.undrawn:
        show.document({**report.model_dump(mode="json"), "release": held})
    if report.undrawn:
        runs = "; ".join(f"{run.run_id} ({', '.join(run.charges)})" for run in report.undrawn)
        raise LedgerError(
            f"finished runs never drew charges that they declared: {runs}; their releases may hold exact values: "
            "withdraw them, and run the studies again"
        )


@ledger_app.command()
def void(
    run: RunArgument,
    reason: Reason,
    json_: Json = False,
) -> None:
    """Free what RUN reserved and never released. It cannot resume."""
    from causalveil.tasks.privacy.budget import records_folder
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    open_ledger().void(run, reason)
    # A voided run cannot resume, so nobody needs its record-level values.
    shutil.rmtree(records_folder(run), ignore_errors=True)
    show.either(json_, {"run_id": run, "voided": True}, f"Voided {run}: what it never released is free again.")


@ledger_app.command()
def restored(reason: Reason, json_: Json = False) -> None:
    """Go on with an older copy of the ledger, after a loss.

    Records what is missing and why it was accepted.

    What the lost entries charged is forgotten, though their releases are out: lower the caps first.
    """
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    ledger = open_ledger()
    entry = ledger.restored(reason)
    lost = entry.document["lost"]["seq"]
    show.either(
        json_,
        {"ledger": ledger.identity, "lost": lost, "entry": entry.seq},
        f"Ledger {ledger.identity} goes on at entry {entry.seq}; this machine had seen entry {lost}. Hold every "
        "release against it (causalveil ledger verify --release FILE) and lower the caps by those it does not know.",
    )


@ledger_app.command()
def approve(
    run: RunArgument,
    reason: Annotated[str | None, typer.Option(help="why; it is kept in the ledger", show_default=False)] = None,
    key: Key = None,
    json_: Json = False,
) -> None:
    """Let the release of RUN go, by the word of the data's owner.

    Read it first: ledger release RUN --out DIR --key.
    """
    _review(run, "approve", reason, key, json_=json_)


@ledger_app.command()
def reject(run: RunArgument, reason: Reason, key: Key = None, json_: Json = False) -> None:
    """Keep the release of RUN for good, by the word of the data's owner.

    Its charges stand: the values were drawn.
    """
    _review(run, "reject", reason, key, json_=json_)


def _review(run: str, verdict: str, reason: str | None, key: Path | None, *, json_: bool) -> None:
    from causalveil.tasks.privacy.keys import owner_key
    from causalveil.tasks.privacy.ledger.entry import ReviewVerdict
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    open_ledger().review(run, ReviewVerdict(verdict), owner_key(key), reason)
    approved = f"Approved {run}. Its analyst fetches the release: causalveil ledger release {run} --out DIR"
    rejected = f"Rejected {run}: its release stays in the ledger, and its charges stand."
    show.either(json_, {"run_id": run, "verdict": verdict}, approved if verdict == "approve" else rejected)


@ledger_app.command()
def release(
    run: RunArgument,
    out: Annotated[str, typer.Option(metavar="FOLDER|URL", help="for release.json, also s3://...", show_default=False)],
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="the owner's private key, to read a held release")
    ] = None,
    json_: Json = False,
) -> None:
    """Write the release of RUN, a finished run, to DIR/release.json.

    Needs no data, no contract and no site key.
    """
    from causalveil.flows.run.finished import place_of, write_release
    from causalveil.tasks.privacy.keys import owner_key
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    ledger = open_ledger()
    text = ledger.stored_document(run) if key is None else ledger.held_document(run, owner_key(key))
    if text is None:
        raise RunConflict(f"run {run} is not finished, or not in this ledger; see: causalveil ledger show DATASET")
    place = place_of(out, run)
    path = write_release(place, text)
    lines = [f"Release: {path}", *([] if place.url is None else [f"Put at:  {place.url}"])]
    show.either(json_, {"run_id": run, "path": str(path), "url": place.url}, *lines)


TARGET_VARIABLE = "CAUSALVEIL_LEDGER_COPY_URL"


@ledger_app.command()
def copy(json_: Json = False) -> None:
    """Copy the ledger into the empty database that CAUSALVEIL_LEDGER_COPY_URL names.

    The ledger that was copied is retired afterwards.

    The URL comes from the environment, since it holds a password and a command line can be seen by others.
    """
    from causalveil.tasks.privacy.ledger.ledger import copy_ledger, open_ledger

    target = os.environ.get(TARGET_VARIABLE)
    if not target:
        raise StudyError(f"set {TARGET_VARIABLE} to the URL of an empty database")
    source = open_ledger()
    report = copy_ledger(source.store.url.render_as_string(hide_password=False), target)
    show.either(
        json_,
        {**report.model_dump(mode="json"), "retire": source.store.place},
        f"Copied ledger {report.ledger}: entries {report.entries}, runs {report.runs}; the chain holds.",
        f"Retire {source.store.place} before anything runs: two copies would hand out the same budget.",
    )


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
    # A line that can be appended to a contract as it is.
    show.either(json_, {"owner_key": public}, f"owner_key: {public}")


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
    from causalveil.flows.run.admit import admit_folder
    from causalveil.schemas.admission import NotAdmitted
    from causalveil.tasks.data.data_folder import DataFolder
    from causalveil.tasks.machine.object_storage import folder_at

    try:
        with show.progress() as watch:
            if engine is EngineChoice.prefect:
                settings.prepare(quiet=True)
                from causalveil.flows.deployed import admit_with_prefect

                admission, later = admit_with_prefect(folder, watch), _held_to(folder)
            else:
                with folder_at(folder) as place:
                    rows = DataFolder(place)
                    admission, later = admit_folder(rows, DirectEngine(watch)), held_to(rows.contract.data_class)
    except NotAdmitted as problem:
        if not json_:
            _show_findings(problem.findings)
            raise
        error = {"type": type(problem).__name__, "message": str(problem), "exit_code": problem.exit_code}
        show.document({"error": error, "findings": [finding.model_dump() for finding in problem.findings]})
        typer.echo(f"causalveil: {problem}", err=True)
        raise typer.Exit(problem.exit_code) from None
    if json_:
        show.document(_facts(admission))
    else:
        show.line(
            f"Admitted {admission.dataset}: {_units(admission)} in {counted(len(admission.files), 'file')}, "
            f"{counted(len(admission.blocks), 'block')}. {later}"
        )


def _held_to(folder: str) -> str:
    from causalveil.tasks.data.data_folder import DataFolder
    from causalveil.tasks.machine.object_storage import folder_at

    with folder_at(folder) as place:
        return held_to(DataFolder(place).contract.data_class)


def held_to(data_class: DataClass) -> str:
    """Say which rows later runs read: changed sensitive data wait for their owner."""
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
    """Print every problem, for the owner's eyes."""
    table = show.titled("What the contract does not allow")
    for heading in ("where", "column", "problem"):
        table.add_column(heading, overflow="fold")
    table.add_column("rows", justify="right")
    for finding in findings:
        rows = "" if finding.rows is None else f"{finding.rows:,}"
        table.add_row(finding.path or "all files", finding.column or "", finding.rule, rows)
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
        from causalveil.tasks.privacy.ledger.outlook import desk_of

        show.document(desk_of(ledger))
        return
    from causalveil.flows.plan.ledger_files import write_desk

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
    from causalveil.flows.plan.ledger_files import ExportFormat
    from causalveil.flows.plan.ledger_files import export as write
    from causalveil.tasks.privacy.ledger.ledger import existing_ledger

    written = write(existing_ledger(), out, ExportFormat(form), dataset)
    lines = [f"Wrote {path}" for path in written] or ["Nothing to write: no run is finished."]
    show.either(json_, {"files": [str(path) for path in written]}, *lines)


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
    from causalveil.flows.plan.budget import forecast as foresee
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    begin, end = _day("--start", start), _day("--until", until)
    facts = foresee(open_ledger(), dataset, study=study, every=every, start=begin, until=end)
    show.either(json_, facts, *facts["sentences"])


def chart(
    dataset: Dataset,
    out: Annotated[
        Path | None, typer.Option(help="an .html or .svg file, or a folder for both [default: this folder]")
    ] = None,
    json_: Json = False,
) -> None:
    """Draw how each account of DATASET burned down, with every run. Reads the ledger alone."""
    from causalveil.flows.plan.ledger_files import draw_burndown
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    written = draw_burndown(open_ledger(), dataset, out or Path())
    facts = {"dataset": dataset, "files": [str(path) for path in written]}
    show.either(json_, facts, *(f"Wrote {path}" for path in written))


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
    from causalveil.flows.run.admit import extract_source, target_folder
    from causalveil.schemas.warehouse import load_source

    with show.progress() as watch:
        if engine is EngineChoice.prefect:
            settings.prepare(quiet=True)
            from causalveil.flows.deployed import extract_with_prefect

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
        for news_line in extracted.news:
            show.line(f"{news_line[:1].upper()}{news_line[1:]}.")
        if admission is None:
            show.line("Nothing was admitted: no dataset.yaml lies there, and nothing runs without one.")
        else:
            from causalveil.tasks.data.data_folder import DataFolder

            later = held_to(DataFolder(place).contract.data_class)
            show.line(f"Admitted {admission.dataset}: {admission.units:,} units. {later}")


def _show(manifest: Manifest, folder: str) -> None:
    """Print every block with its n, which is public."""
    table = show.titled(f"Partitions of {manifest.dataset}")
    table.add_column("block")
    table.add_column("rows", justify="right")
    for block in manifest.blocks:
        table.add_row(block.block, f"{block.rows:,}")
    Console().print(table)
    for snapshot in manifest.snapshots():
        show.line(f"Taken from {snapshot.format} table {snapshot.table}, {snapshot.words}.")
    show.line(f"{manifest.rows:,} rows in {len(manifest.blocks)} blocks in {folder}")
