"""Prefect runs the same stages in the same order; what it stores holds nothing of the data."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.engine.deployment import limit_name, one_at_a_time
from causalveil.flows.engine.prefect_engine import answering, in_this_process
from causalveil.flows.run import declare
from causalveil.flows.start_run import ENGINES
from causalveil.schemas.asked.study_file import load_study_file
from causalveil.schemas.errors import BudgetRefused, CausalveilError, DataError, EngineLost, SiteError
from causalveil.schemas.privacy import amount_text
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.report.numbers import within
from tests.children import CONTEXT, process
from tests.faults import free_port
from tests.ledger_help import budget, charge, contract, reservation
from tests.own_server import own_server
from tests.studies import people, write_study

ROOT = Path(__file__).parents[2]
STAGES = ["validate", "normalise", "split", "propensity", "weigh", "perturb", "interval"]


def amount(charge: Any) -> str:
    return f"{charge.name}: rho {amount_text(charge.rho)} ({charge.scope})"


def task_names(run_id: str) -> list[str]:
    """Names of the task runs of a flow run, in the order of their start."""
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName

    async def read() -> list[str]:
        async with get_client() as client:
            for _ in range(240):
                runs = await client.read_task_runs(
                    flow_run_filter=FlowRunFilter(name=FlowRunFilterName(any_=[run_id])), limit=200
                )
                if len(runs) >= len(STAGES) + 2 and all(run.start_time for run in runs):
                    break
                await asyncio.sleep(0.5)
            return [run.name for run in sorted(runs, key=lambda run: run.start_time)]

    return asyncio.run(read())


@pytest.fixture
def study(tmp_path: Path, prefect_server: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CAUSALVEIL_ENGINE", "prefect")
    return write_study(tmp_path / "study")


def test_prefect_and_direct_give_one_release(study: Path, tmp_path: Path) -> None:
    by_prefect = run_study(study, out=tmp_path / "a", run_id="same-a", simulate=3, engine="prefect").release
    directly = run_study(study, out=tmp_path / "b", run_id="same-a", simulate=3, engine="direct").release
    left, right = (release.model_dump(exclude={"ledger"}) for release in (by_prefect, directly))
    assert left == right
    assert task_names("same-a") == ["admit", *STAGES, "deliver"]


def test_run_through_prefect_is_charged_once(study: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="causalveil"):
        first = run_study(study, out=tmp_path / "a", run_id="once")
    second = run_study(study, out=tmp_path / "a", run_id="once")
    assert first.release == second.release
    assert second.resumed
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1
    charges = [json.loads(line) for line in caplog.messages if line.startswith('{"event": "charge"')]
    assert [charge["name"] for charge in charges] == ["propensity", "effect"]
    assert {"study", "run", "stage", "mechanism", "scope", "epsilon", "delta"} <= set(charges[0])


def test_the_flow_run_alone_tells_what_was_spent(study: Path, tmp_path: Path) -> None:
    """Tags, lines and artifacts of one run, read from Prefect's API: who asked what, stage by stage."""
    from prefect import get_client
    from prefect.client.schemas.filters import (
        ArtifactFilter,
        ArtifactFilterFlowRunId,
        FlowRunFilter,
        FlowRunFilterTags,
        LogFilter,
        LogFilterFlowRunId,
    )
    from prefect.client.schemas.sorting import LogSort

    outcome = run_study(study, out=tmp_path / "out", run_id="shown", engine="prefect")
    tags = ["dataset:small", "run:shown", "study:small"]

    async def read() -> tuple[Any, Any, Any, Any]:
        async with get_client() as client:
            mine = FlowRunFilter(tags=FlowRunFilterTags(all_=tags))
            (flow_run,) = await client.read_flow_runs(flow_run_filter=mine)
            for _ in range(240):
                tasks = await client.read_task_runs(flow_run_filter=mine, limit=200)
                logs = await client.read_logs(
                    LogFilter(flow_run_id=LogFilterFlowRunId(any_=[flow_run.id])),
                    limit=200,
                    sort=LogSort.TIMESTAMP_ASC,
                )
                lines = [entry.message for entry in logs]
                if len(tasks) >= len(STAGES) + 2 and any("stage interval" in line for line in lines):
                    break
                await asyncio.sleep(0.5)
            own = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[flow_run.id]))
            return flow_run, tasks, lines, await client.read_artifacts(artifact_filter=own)

    flow_run, tasks, lines, artifacts = asyncio.run(read())
    assert flow_run.name == "shown"
    assert sorted(flow_run.tags) == tags
    by_name = {task.name: set(task.tags) for task in tasks}
    # Public data admit themselves before anything is reserved, and are found by the run's names too.
    assert by_name["admit"] == set(tags)
    assert all(set(tags) <= found for found in by_name.values())
    declared = {name: [tag for tag in found if tag.startswith("declares")] for name, found in by_name.items()}
    (propensity, effect) = outcome.release.privacy.charges
    assert declared["propensity"] == [f"declares {amount(propensity)}"]
    assert declared["perturb"] == [f"declares {amount(effect)}"]
    assert declared["normalise"] == []
    stages = [line for line in lines if line.startswith("stage ")]
    assert [line.split(":")[0] for line in stages] == [f"stage {name}" for name in STAGES]
    assert "0 of 2 charges" in stages[0]
    assert "2 of 2 charges" in stages[-1]
    shown = {artifact.key: artifact.data for artifact in artifacts}
    assert set(shown) == {"answer", "budget"}
    ends = outcome.release.interval
    assert f"**{within(outcome.release.estimate, ends.lower, ends.upper)}**" in shown["answer"]
    budget = outcome.release.budget
    assert budget is not None
    for row in (
        "| **Total**",
        f"| **Left** | {budget.share_left:.1%} of the total; {budget.fits:,} more",
        "| perturb | effect |",
    ):
        assert row in shown["budget"]


def test_a_release_is_an_asset_made_of_the_data(study: Path, tmp_path: Path, prefect_server: str) -> None:
    """Prefect's events of assets name the release, what it was made of, and its entry in the ledger."""
    from prefect import get_client

    assets = {"event": {"prefix": ["prefect.asset."]}}
    release = run_study(study, out=tmp_path / "out", run_id="asset", engine="prefect").release

    async def read() -> list[Any]:
        async with get_client() as client:
            for _ in range(240):
                answer = await client._client.post("/events/filter", json={"filter": assets})
                found = [event for event in answer.json()["events"] if event["payload"].get("run") == "asset"]
                if found:
                    return found
                await asyncio.sleep(0.5)
        return []

    (own,) = asyncio.run(read())
    assert own["event"] == "prefect.asset.materialization.succeeded"
    assert own["resource"]["prefect.resource.id"] == "causalveil://small/releases/small"
    assert own["payload"]["entry"] == release.ledger.entry_hash
    assert "causalveil://small/data" in {related["prefect.resource.id"] for related in own["related"]}


def test_a_run_parses_its_study_once(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[Path] = []
    monkeypatch.setattr(declare, "load_study_file", lambda path: parsed.append(path) or load_study_file(path))
    run_study(study, engine="prefect", out=tmp_path / "out", run_id="once", simulate=1)
    assert parsed == [study]


def test_a_server_on_sqlite_refuses_nothing_while_others_write(prefect_server: str) -> None:
    """By transactions as Prefect begins them it refuses or hangs up on some, and a run waits 2, 4, 8 ... seconds."""
    import httpx

    def ask(which: int) -> list[int]:
        with httpx.Client(base_url=prefect_server, timeout=120) as client:
            flow = client.post("/flows/", json={"name": f"busy-{which}"}).json()["id"]
            return [client.post("/flow_runs/", json={"flow_id": flow}).status_code for _ in range(25)]

    with ThreadPoolExecutor(4) as pool:
        answered = [code for codes in pool.map(ask, range(4)) for code in codes]
    assert answered == [httpx.codes.CREATED] * 100


def test_typed_errors_pass_through_prefect(tmp_path: Path, prefect_server: str) -> None:
    from causalveil.flows.deployed import study as flow_of_study

    # As a deployment runs it: the command would refuse this before Prefect is there.
    refused = write_study(tmp_path / "a", contract={"caps": {"sample": {"epsilon": "0.1"}}})
    with pytest.raises(BudgetRefused, match="remaining"):
        flow_of_study(str(refused), out=str(tmp_path / "out"), run_id="refused")
    # What only rows tell is found within the flow.
    broken = write_study(tmp_path / "b", frame=people(400).with_columns(group=pl.lit("z")))
    with pytest.raises(DataError):
        run_study(broken, engine="prefect", out=tmp_path / "out")


def test_flow_retry_draws_nothing_twice(study: Path, tmp_path: Path) -> None:
    """The flow fails after its release and is retried by Prefect: same run id, stored values, one charge."""
    from prefect.states import State

    from causalveil.flows.deployed import study as flow_of_study

    out = tmp_path / "out"
    out.write_text("in the way")  # the release cannot be written: the first try fails after the last charge
    tries: list[str] = []

    def make_way(_flow: Any, _run: Any, state: State) -> None:
        tries.append(state.name)
        if len(tries) == 2:
            out.unlink()

    flow = flow_of_study.with_options(retries=1, retry_delay_seconds=0, flow_run_name="retried")
    flow.on_running_hooks = [make_way]
    state = flow(str(study), out=str(out), run_id="retried", return_state=True)
    assert len(tries) == 2
    assert state.is_completed()
    account = open_ledger().account("small")
    assert account.blocks[0].spent.epsilon == 1
    assert [run.state for run in account.runs] == ["finished"]


def test_scheduled_runs_are_named_by_deployment_and_time(prefect_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect's own test hooks stand in for a deployment: the name is the same on every retry."""
    from prefect.runtime import flow_run

    from causalveil.flows.deployed import default_run_id

    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__NAME", "nightly fertility")
    monkeypatch.setattr(flow_run, "scheduled_start_time", datetime(2026, 11, 21, 3, tzinfo=UTC), raising=False)

    assert default_run_id() == "nightly-fertility-20261121T030000"


def test_dead_server_is_a_typed_error_and_charges_nothing(tmp_path: Path) -> None:
    """A server that cannot be reached: exit code 1, one line, nothing reserved."""
    path = write_study(tmp_path / "study")
    command = [
        sys.executable,
        "-m",
        "causalveil.flows.cli.main",
        "run",
        str(path),
        "--engine",
        "prefect",
        "--out",
        str(tmp_path / "out"),
    ]
    environment = os.environ | {"PREFECT_API_URL": "http://127.0.0.1:9/api"}
    ended = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 1
    (told,) = [line for line in ended.stderr.splitlines() if line.startswith("causalveil: ")]
    assert "PREFECT_API_URL" in told
    assert open_ledger().account("small").runs == ()


def test_a_deployed_run_refuses_a_server_that_lets_anybody_in(
    prefect_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefect's own test hook stands in for a deployment; the open server is real."""
    from causalveil.flows.engine.deployment import OPEN_SERVER, lets_anybody_in, refuse_open_server

    assert lets_anybody_in(prefect_server)
    assert not lets_anybody_in("http://127.0.0.1:1/api")
    refuse_open_server()
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "11111111-2222-3333-4444-555555555555")
    with pytest.raises(SiteError, match="without a password") as refused:
        refuse_open_server()
    assert "\n" not in str(refused.value)
    monkeypatch.setenv(OPEN_SERVER, "test")
    refuse_open_server()


# Prefect runs a task's body again, and a flow's: the noise is the ledger's, drawn once and charged once.
def test_retries_of_tasks_and_flows_draw_nothing_twice(tmp_path: Path, prefect_server: str) -> None:
    """A task that fails twice after its draws, in a flow that fails once after its task: six bodies, one draw each."""
    from prefect import flow, task
    from prefect.cache_policies import NO_CACHE

    ledger = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    ledger.grant(contract(), "opening")
    request = reservation(charges=(charge("value"), charge("records")))
    purse = budget(ledger, request, tmp_path)
    drawn: list[str] = []
    seen: list[tuple[bytes, bytes]] = []

    def draw(name: str) -> Any:
        def of(_noise: Any) -> Any:
            drawn.append(name)
            return np.random.default_rng().standard_normal(3)

        return of

    @task(retries=2, retry_delay_seconds=0, cache_policy=NO_CACHE, persist_result=False)
    def stage() -> None:
        value = purse.spend(charge("value"), draw("value"))
        records = purse.spend_records(charge("records"), draw("records"))
        seen.append((value.tobytes(), records.tobytes()))
        if len(seen) % 3:
            raise RuntimeError("after the draw")

    @flow(retries=1, retry_delay_seconds=0, persist_result=False)
    def run() -> None:
        ledger.reserve(request, contract())
        stage()
        if len(seen) < 6:
            raise RuntimeError("after the task")

    run()
    assert len(seen) == 6
    assert len(set(seen)) == 1
    assert drawn == ["value", "records"]
    assert ledger.account("trial").blocks[0].spent.epsilon == request.cost.epsilon
    assert ledger.verify().entries == 5


# Prefect's server goes away while a deployed run is under way: one typed line with the run's id, and how to go on.
@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server of the test's own, to be stopped by its process id."""
    with own_server(tmp_path, "--no-services") as running:
        yield running


def run(path: str, out: str, place: str, told: Connection) -> None:
    """Run the flow, wait at a stage until the server is gone, and tell what ended it and what the log says."""
    from causalveil.flows.deployed import run_with_prefect
    from causalveil.schemas.errors import CausalveilError

    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("causalveil.flow").addHandler(handler)

    def watch(stage: str) -> None:
        if stage == place:
            told.send("there")
            told.recv()

    try:
        run_with_prefect(Path(path), out, "gone", None, watch)
    except CausalveilError as problem:
        told.send((type(problem).__name__, str(problem), lines))
    else:
        told.send(("none", "ended", lines))
    told.close()
    # Prefect would wait half a minute for a server that is not coming back.
    os._exit(0)


@pytest.mark.timeout(300)
def test_the_server_goes_away_under_a_run(
    server: tuple[str, subprocess.Popen[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, running = server
    path, out = write_study(tmp_path / "study", frame=people(600)), tmp_path / "out"
    monkeypatch.setenv("PREFECT_API_URL", url)
    # A server that is busy for a moment is asked again; one that is gone is given up after two tries.
    monkeypatch.setenv("PREFECT_CLIENT_MAX_RETRIES", "2")
    here, there = CONTEXT.Pipe()
    child = process(run, str(path), str(out), "perturb", there)
    child.start()
    there.close()
    assert here.recv() == "there"
    running.kill()
    running.wait()
    here.send("go")
    kind, said, lines = here.recv()
    child.join()
    assert kind == "EngineLost", said
    assert said.isprintable()
    assert "start run id gone again" in said
    assert any("start run id gone again" in line for line in lines), "the worker's own log says it too"
    monkeypatch.delenv("PREFECT_API_URL")
    again = run_study(path, out=tmp_path / "again", run_id="gone", engine="direct")
    assert again.run_id == "gone"
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1


# An error of the caller, of a library or of a defect is not told as one of Prefect's server, and quotes nothing.
# In a row: no source line spells it, so no traceback has it but from a message.
VALUE = str(4700 + 11)


def of_arrow() -> None:
    """Fail as pyarrow does on a value, which its message quotes."""
    pa.array([VALUE]).cast(pa.date32())


def of_polars() -> None:
    """Fail as polars does on a value, which its message quotes."""
    pl.Series([VALUE]).str.to_date(strict=True)


def of_a_disk() -> None:
    """Fail as a full disk does."""
    raise OSError(28, f"No space left on device: {VALUE}")


def of_a_defect() -> None:
    """Fail as a mistake in our own code does."""
    raise KeyError(VALUE)


FOREIGN = [of_arrow, of_polars, of_a_disk, of_a_defect]


def turn(name: str) -> AbstractContextManager[None]:
    """Return the turn of a dataset whose limit the server has."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate

    with get_client(sync_client=True) as client:
        client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=limit_name(name), limit=1))
    return one_at_a_time(name)


def refused(block: AbstractContextManager[None], fail: Callable[[], None]) -> CausalveilError:
    """Return what ``fail`` becomes within a block; neither it nor its traceback quotes anything."""
    with pytest.raises(CausalveilError) as caught, block:
        fail()
    assert VALUE not in "".join(traceback.format_exception(caught.value))
    return caught.value


@pytest.mark.parametrize("fail", FOREIGN)
def test_what_fails_beside_prefect_is_not_told_as_its_server(fail: Callable[[], None]) -> None:
    problem = refused(answering("the release", None), fail)
    assert not isinstance(problem, EngineLost)
    assert str(problem).startswith("the release failed with ")
    assert "Prefect" not in str(problem)


@pytest.mark.usefixtures("prefect_server")
def test_a_turn_tells_errors_of_its_block_from_those_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "a-deployment")
    for number, fail in enumerate(FOREIGN):
        problem = refused(turn(f"foreign-{number}"), fail)
        assert not isinstance(problem, EngineLost)
        assert str(problem).startswith(f"the work on dataset 'foreign-{number}' failed with ")
    missing = refused(one_at_a_time("no-such-turn"), lambda: None)
    assert "prefect gcl create causalveil-no-such-turn" in str(missing)


def test_a_server_that_is_gone_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, temporary_settings

    def asks() -> None:
        with get_client(sync_client=True) as client:
            client.read_flow_runs()

    monkeypatch.setenv("PREFECT_CLIENT_MAX_RETRIES", "0")
    with temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{free_port()}/api"}):
        assert isinstance(refused(answering("the release", None), asks), EngineLost)
        monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "a-deployment")
        assert isinstance(refused(one_at_a_time("gone"), lambda: None), EngineLost)


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("fail", FOREIGN)
def test_a_flow_that_fails_by_itself_does_not_send_to_the_server(fail: Callable[[], None]) -> None:
    with pytest.raises(CausalveilError, match=r"^the flow failed with .*; go on so$") as caught:
        in_this_process(fail, lambda _: None, "; go on so")
    assert VALUE not in str(caught.value)


@pytest.mark.usefixtures("prefect_server")
def test_the_error_of_a_watcher_is_its_callers_on_both_engines(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study")

    def watch(stage: str) -> None:
        if stage == "perturb":
            raise RuntimeError("the window was closed")

    for engine in ENGINES:
        with pytest.raises(RuntimeError, match="the window was closed"):
            run_study(path, out=tmp_path / engine, simulate=1, engine=engine, watch=watch)
