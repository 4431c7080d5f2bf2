"""`causalveil audit` and `causalveil server`.

What happened in a run, and a Prefect server of one's own.

An audit reads the ledger's verified chain and Prefect's record. Later runs find the server by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from causalveil.flows.cli import show
from causalveil.flows.cli.show import Json
from causalveil.schemas.errors import RunConflict
from causalveil.schemas.oversight import FlowRecord, LedgerTrail, PrefectTrail, StageRecord, Stamp, StateRecord, Trail
from causalveil.schemas.privacy import cost_text
from causalveil.tasks.report.numbers import counted

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

    from causalveil.flows.engine.server import KeptServer


PAGE = 200


def prefect_trail(run_id: str) -> PrefectTrail:
    """Return the record that Prefect's API still has of a run.

    A server that is gone is no error: the trail says so.
    """
    # Every command imports this module, and an audit alone Prefect's client.
    import asyncio

    from causalveil.flows.engine import settings

    settings.prepare(quiet=True)
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from causalveil.flows.engine.server import own_server

    own = own_server()
    if not own and not PREFECT_API_URL.value():
        return PrefectTrail(
            missing="PREFECT_API_URL names no server and none of your own answers (causalveil server status), so "
            "Prefect's record was not read"
        )
    try:
        with temporary_settings(own):
            runs = asyncio.run(_read(run_id))
    except Exception as problem:
        return PrefectTrail(missing=f"Prefect's server could not be read ({type(problem).__name__})")
    if not runs:
        return PrefectTrail(
            missing="Prefect's server has no flow run of this name; it may have been deleted, or the "
            "run was made without Prefect"
        )
    return PrefectTrail(missing=None, flow_runs=runs)


async def _read(run_id: str) -> tuple[FlowRecord, ...]:
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName
    from prefect.client.schemas.sorting import FlowRunSort

    async with get_client() as client:
        named = FlowRunFilter(name=FlowRunFilterName(any_=[run_id]))
        runs = await client.read_flow_runs(flow_run_filter=named, sort=FlowRunSort.START_TIME_ASC, limit=PAGE)
        return tuple([await _flow_record(client, run) for run in runs])


async def _flow_record(client: PrefectClient, run: Any) -> FlowRecord:
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId, TaskRunFilter

    deployment = None
    if run.deployment_id is not None:
        try:
            deployment = (await client.read_deployment(run.deployment_id)).name
        except Exception:  # deleted since
            deployment = str(run.deployment_id)
    mine = FlowRunFilter(id=FlowRunFilterId(any_=[run.id]))
    stages: list[Any] = []
    while True:
        page = await client.read_task_runs(
            flow_run_filter=mine, task_run_filter=TaskRunFilter(), limit=PAGE, offset=len(stages)
        )
        stages += page
        if len(page) < PAGE:
            break
    records = []
    for stage in sorted(stages, key=lambda run: (run.start_time is None, run.start_time or run.created)):
        states = await client.read_task_run_states(stage.id)
        records.append(StageRecord(name=stage.name, tries=stage.run_count, states=_states(states)))
    return FlowRecord(
        id=str(run.id),
        flow=(await client.read_flow(run.flow_id)).name,
        deployment=deployment,
        tries=run.run_count,
        states=_states(await client.read_flow_run_states(run.id)),
        stages=tuple(records),
    )


def _states(states: list[Any]) -> tuple[StateRecord, ...]:
    return tuple(
        StateRecord(
            type=str(state.type.value), name=state.name or "", at=state.timestamp, message=state.message or None
        )
        for state in sorted(states, key=lambda state: state.timestamp)
    )


def trail_of(run_id: str) -> Trail:
    """Verify the whole chain, then gather the records of ledger and Prefect on a run.

    Raises:
        LedgerError: the ledger cannot be used, or its chain does not hold.
        RunConflict: neither of the two knows the run.
    """
    from causalveil.tasks.privacy.ledger.ledger import open_ledger
    from causalveil.tasks.privacy.ledger.outlook import ledger_trail, refusals_of

    ledger = open_ledger()
    chain = ledger.verify()
    trail = Trail(
        run_id=run_id,
        chain=chain,
        ledger=ledger_trail(ledger, run_id),
        refused=refusals_of(ledger, run_id),
        prefect=prefect_trail(run_id),
    )
    if trail.ledger is None and not trail.refused and not trail.prefect.flow_runs:
        raise RunConflict(f"run {run_id} is not in this ledger, and {trail.prefect.missing}")
    return trail


def lines(trail: Trail) -> Iterator[str]:
    """Yield the trail as a page of Markdown."""
    chain = trail.chain
    yield f"# Run {trail.run_id}"
    yield ""
    yield f"The chain of ledger {chain.ledger} holds: {chain.entries} entries, head {chain.head_hash}."
    yield ""
    if trail.ledger is None:
        yield "The ledger has no reservation of this run: it reserved nothing, and nothing was drawn or charged."
    else:
        yield from _ledger_lines(trail.ledger)
    for refusal in trail.refused:
        yield ""
        yield f"Refused by the ledger, {_at(refusal.entry)}, asked by {_by(refusal.entry)}: {refusal.why}"
    yield ""
    yield "## What Prefect recorded"
    yield ""
    if trail.prefect.missing:
        yield f"{trail.prefect.missing}. All above comes from the ledger alone, which is the record."
    for flow_run in trail.prefect.flow_runs:
        yield from _flow_lines(flow_run)


def _ledger_lines(run: LedgerTrail) -> Iterator[str]:
    yield f"| study | {run.study} (SHA-256 {run.study_digest}) |"
    yield "|---|---|"
    yield f"| estimator, guarantee | {run.estimator}, {run.guarantee} |"
    yield f"| dataset, level, units | {run.dataset}, {run.level}, {run.units:,} |"
    yield f"| blocks | {', '.join(run.blocks)} |"
    yield f"| data layout, contract | SHA-256 {run.layout_digest}, {run.policy_digest} |"
    software = [f"{name} {version}" for name, version in (run.software or {}).items()]
    code = "not recorded, since the run has no release" if run.software is None else ", ".join(software)
    yield f"| code | {code} |"
    yield f"| reserved | {cost_text(run.cost)}; {_at(run.reserved)} |"
    yield f"| by | {_by(run.reserved)} |"
    yield f"| spent | {cost_text(run.spent)} |"
    ended = {"finished": run.finished, "voided": run.voided}.get(run.state)
    yield f"| state | {run.state}{'' if ended is None else ', ' + _at(ended)} |"
    if run.void_reason is not None:
        yield f"| voided because | {run.void_reason} |"
    if run.reviewed is not None:
        because = "" if run.review_reason is None else f": {run.review_reason}"
        yield f"| reviewed by its owner | {_at(run.reviewed)}{because} |"
    yield ""
    yield "## Charges"
    yield ""
    yield "| name | stage | mechanism | units touched | amount | entry | written at | hash |"
    yield "|---|---|---|---|---|---|---|---|"
    for record in run.charges:
        charge, entry = record.charge, record.entry
        yield (
            f"| {charge.name} | {charge.stage} | {charge.mechanism} | {charge.scope} "
            f"| {record.adds} | {entry.seq} | {entry.written_at} | {entry.hash} |"
        )
    for name in run.not_drawn:
        yield f"| {name} | never drawn | | | | | | |"
    yield ""
    yield f"Drawn: {run.spent_adds} of {run.cost_adds}, the largest sum of charges that one unit meets."


def _flow_lines(run: FlowRecord) -> Iterator[str]:
    source = f"deployment {run.deployment}" if run.deployment else "no deployment"
    yield f"Flow run {run.id} of flow {run.flow}, {source}: begun {counted(run.tries, 'time')}."
    yield ""
    yield "| stage | tries | state | at | message |"
    yield "|---|---|---|---|---|"
    for name, tries, states in [("(flow)", run.tries, run.states), *((s.name, s.tries, s.states) for s in run.stages)]:
        for state in states:
            message = " ".join((state.message or "").split()).replace("|", "\\|")
            yield f"| {name} | {tries} | {state.name} | {state.at.isoformat()} | {message} |"
    yield ""
    for state in run.refusals:
        yield f"Refused by the budget at {state.at.isoformat()}: {' '.join((state.message or '').split())}"


def _at(stamp: Stamp) -> str:
    return f"entry {stamp.seq} at {stamp.written_at}, hash {stamp.hash}"


def _by(stamp: Stamp) -> str:
    purpose = "" if stamp.purpose is None else f", for: {stamp.purpose}"
    return f"{stamp.actor or 'unknown'} on {stamp.host or 'unknown'}{purpose}"


def audit(
    run: Annotated[str, typer.Argument(metavar="RUN", help="the run's id", show_default=False)],
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="also write the page to this file")] = None,
    json_: Json = False,
) -> None:
    """Tell what happened in RUN: charges with their ledger hashes, stages, retries, refusals.

    Verifies the chain.
    """
    from causalveil.tasks.machine.files import write_whole

    trail = trail_of(run)
    text = "\n".join(lines(trail)) + "\n"
    if page is not None:
        write_whole(page, text)
    if json_:
        show.document(
            {**trail.model_dump(mode="json"), "refusals": max(len(trail.refused), len(trail.prefect.refusals))}
        )
    else:
        show.line(text.rstrip("\n"))


server_app = typer.Typer(no_args_is_help=True, help="Keep a Prefect server of your own, which later runs find.")


@server_app.command()
def start(json_: Json = False) -> None:
    """Start the server and leave it running, until `server stop` or a restart.

    It listens on loopback and asks for a password.
    """
    from causalveil.flows.engine import server

    with show.progress() as watch:
        watch("Prefect's server")
        own, begun = server.start()
    if json_:
        show.document({"started": begun, **_shown(own)})
    else:
        verb = "Started" if begun else "Already running:"
        show.line(f"{verb} Prefect {own.prefect} at {own.url}, process {own.pid}.")
        show.line("Later runs of yours find it by themselves. Stop it: causalveil server stop")


@server_app.command()
def status(json_: Json = False) -> None:
    """Say whether the server runs and answers, and where its pages and its password are."""
    from causalveil.flows.engine import server

    own = server.find()
    answers = own is not None and own.answers()
    if json_:
        show.document({"running": own is not None, "answers": answers, **({} if own is None else _shown(own))})
    elif own is None:
        show.line("No Prefect server of yours is running; each run starts one. To keep one: causalveil server start")
    else:
        does = "answers" if answers else "does not answer; start it anew: causalveil server stop, then start"
        show.line(f"Prefect {own.prefect} at {own.url}, process {own.pid}, {does}.")
        show.line(f"Its pages: {own.url.removesuffix('/api')}; the password is in {_record()}, under credentials.")


@server_app.command()
def stop(json_: Json = False) -> None:
    """Stop the server. What it recorded stays, and is there again after the next start."""
    from causalveil.flows.engine import server

    stopped = server.stop()
    line = "No Prefect server of yours was running." if stopped is None else f"Stopped process {stopped.pid}."
    show.either(json_, {"stopped": stopped is not None, **({} if stopped is None else {"pid": stopped.pid})}, line)


def _shown(own: KeptServer) -> dict[str, str | int]:
    """Return the facts of a server for a script; the password stays in its file."""
    return {"url": own.url, "pid": own.pid, "prefect": own.prefect, "credentials_in": str(_record())}


def _record() -> Path:
    from causalveil.flows.engine.server import RECORD, server_folder

    return server_folder() / RECORD
