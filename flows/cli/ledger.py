"""`causalveil ledger`: what the data's owner and the auditor do."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from causalveil.flows.cli import show
from causalveil.flows.cli.show import Json
from causalveil.schemas.errors import ContractError, LedgerError, RunConflict, StudyError, kind_of
from causalveil.tasks.machine.files import whole_file

if TYPE_CHECKING:
    from causalveil.schemas.contract import Contract
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
    from causalveil.tasks.object_storage.copies import folder_at, stored
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    ledger = open_ledger()
    folder, _, name = contract.rpartition("/") if stored(contract) else (Path(contract).parent, "", Path(contract).name)
    with folder_at(folder) as place:
        granted, written = _grant(place / name, contract, reason, key, ledger)
    if json_:
        show.document({"dataset": granted.dataset, "ledger": ledger.identity, "policy_changed": written})
    else:
        show.line(f"Granted the caps of '{granted.dataset}' in ledger {ledger.identity}.")
        if ledger.admission(granted.dataset) is None:
            show.line(f"Next: causalveil admit {folder}  (holds the rows to the contract, once)")


def _grant(path: Path, shown: str, reason: str, key: Path | None, ledger: Ledger) -> tuple[Contract, bool]:
    """Grant a contract's caps, and write the ledger's identity into it, unless it stands there."""
    from causalveil.schemas.contract import load_contract
    from causalveil.tasks.admission.manifests import move_anchor
    from causalveil.tasks.enclave.data_folder import DataFolder
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
    changed, found = re.subn(r"(?m)^ledger:[ \t]*(?:null|~)?(?=[ \t]*(?:#.*)?$)", line, text, count=1)
    if not found:
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
        show.document(ledger.account(dataset).model_dump(mode="json"))
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
        runs = "; ".join(f"{one.run_id} ({', '.join(one.charges)})" for one in report.undrawn)
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
    if json_:
        show.document({"run_id": run, "voided": True})
    else:
        show.line(f"Voided {run}: what it never released is free again.")


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
    if json_:
        show.document({"ledger": ledger.identity, "lost": lost, "entry": entry.seq})
    else:
        show.line(
            f"Ledger {ledger.identity} goes on at entry {entry.seq}; this machine had seen entry {lost}. Hold every "
            "release against it (causalveil ledger verify --release FILE) and lower the caps by those it does not know."
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
    if json_:
        show.document({"run_id": run, "verdict": verdict})
    elif verdict == "approve":
        show.line(f"Approved {run}. Its analyst fetches the release: causalveil ledger release {run} --out DIR")
    else:
        show.line(f"Rejected {run}: its release stays in the ledger, and its charges stand.")


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
    from causalveil.flows.sequence.finished import place_of, write_release
    from causalveil.tasks.privacy.keys import owner_key
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    ledger = open_ledger()
    text = ledger.stored_document(run) if key is None else ledger.held_document(run, owner_key(key))
    if text is None:
        raise RunConflict(f"run {run} is not finished, or not in this ledger; see: causalveil ledger show DATASET")
    place = place_of(out, run)
    path = write_release(place, text)
    if json_:
        show.document({"run_id": run, "path": str(path), "url": place.url})
    else:
        show.line(f"Release: {path}")
        if place.url is not None:
            show.line(f"Put at:  {place.url}")


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
    if json_:
        show.document({**report.model_dump(mode="json"), "retire": source.store.place})
    else:
        show.line(f"Copied ledger {report.ledger}: entries {report.entries}, runs {report.runs}; the chain holds.")
        show.line(f"Retire {source.store.place} before anything runs: two copies would hand out the same budget.")
