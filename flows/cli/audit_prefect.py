"""Prefect's part of an audit trail: every flow run that has the run's name, its states and those of its stages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from causalveil.flows.engine import settings
from causalveil.flows.engine.server import own_server
from causalveil.schemas.oversight import FlowRecord, PrefectTrail, StageRecord, StateRecord

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

PAGE = 200


def prefect_trail(run_id: str) -> PrefectTrail:
    """Return what Prefect's API still knows of a run.

    A server that is gone is no error: the trail says so.
    """
    settings.prepare(quiet=True)
    from prefect.settings import PREFECT_API_URL, temporary_settings

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
    for stage in sorted(stages, key=lambda one: (one.start_time is None, one.start_time or one.created)):
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
    ordered = sorted(states, key=lambda state: state.timestamp)
    return tuple(
        StateRecord(
            type=str(state.type.value), name=state.name or "", at=state.timestamp, message=state.message or None
        )
        for state in ordered
    )
