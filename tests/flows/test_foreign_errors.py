"""An error of the caller, of a library or of a defect is not told as one of Prefect's server, and quotes nothing."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.engine.deployment import limit_name, one_at_a_time
from causalveil.flows.engine.prefect_engine import answering, in_this_process
from causalveil.flows.start_run import ENGINES
from causalveil.schemas.errors import CausalveilError, EngineLost
from tests.faults import free_port
from tests.studies import write_study

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
