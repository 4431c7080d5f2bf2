"""The attack that once printed the ledger's password: two calls to Prefect's API, a shell as the worker.

The server and the pool are set up by the files that deploy/README.md names. The worker is the one thing that is not
started here: what it would run is computed from the pool's template by Prefect's own code, as a worker does it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from causalveil.flows.engine.deployment import lets_anybody_in
from tests import session

ROOT = Path(__file__).parents[2]
PASSWORD = "operator:correct-horse-battery-staple"
ATTACK = {
    "command": "sh -c 'env > taken'",
    "env": {"PYTHONPATH": "/elsewhere"},
    "env.LD_PRELOAD": "elsewhere.so",
    "working_dir": "/",
}


def around(home: Path, **more: str) -> dict[str, str]:
    """The environment of a new machine: nothing of Prefect's set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "CAUSALVEIL_"))}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return kept | {"PATH": path, "PREFECT_HOME": str(home), "PYTHONUNBUFFERED": "1"} | more


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's own."""
    return tmp_path_factory.mktemp("prefect")


@pytest.fixture(scope="module")
def api(folder: Path) -> Iterator[str]:
    """A server as deploy/README.md starts it, on a free port, with the locked pool."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    url = f"http://127.0.0.1:{port}/api"
    log = folder / "log"
    session.put_tables(folder / "prefect.db")
    server = subprocess.Popen(
        [str(ROOT / "deploy/server.sh")],
        cwd=folder,
        env=around(folder, PREFECT_SERVER_API_PORT=port, PREFECT_SERVER_API_AUTH_STRING=PASSWORD),
        stdout=log.open("wb"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline and server.poll() is None:
            with suppress(httpx.HTTPError):
                # Without certificates, which took longer to read than the server to answer.
                if httpx.get(f"{url}/health", timeout=5, verify=False).is_success:
                    break
            time.sleep(0.5)
        else:
            pytest.fail(log.read_text()[-3000:])
        command = "prefect work-pool create causalveil --type process --base-job-template deploy/job-template.json"
        made = subprocess.run(
            command.split(),
            cwd=ROOT,
            env=around(folder, PREFECT_API_URL=url, PREFECT_API_AUTH_STRING=PASSWORD),
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stdout + made.stderr
        yield url
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            server.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.fixture
def operator(api: str) -> Iterator[httpx.Client]:
    user, _, password = PASSWORD.partition(":")
    with httpx.Client(base_url=api, auth=(user, password), timeout=60) as client:
        yield client


def test_pages_are_unpacked_where_the_server_may_write(api: str, folder: Path) -> None:
    """As a service and in a container its user may not write beside Prefect's code."""
    pages = httpx.get(api.removesuffix("api"), timeout=60, follow_redirects=True)
    assert pages.is_success
    assert "<html" in pages.text
    assert any((folder / "pages").rglob("index.html"))


@pytest.mark.parametrize("wrong", [None, ("operator", "change-me"), ("", "")])
def test_without_the_password_every_call_is_refused(api: str, wrong: tuple[str, str] | None) -> None:
    with httpx.Client(base_url=api, auth=wrong, timeout=60) as client:
        for method, path, body in (
            ("GET", "/admin/version", None),
            ("POST", "/flows/", {"name": "attack"}),
            ("POST", "/deployments/", {"name": "attack", "flow_id": "00000000-0000-0000-0000-000000000000"}),
            ("POST", "/deployments/filter", {}),
            ("POST", "/flow_runs/filter", {}),
            ("POST", "/work_pools/", {"name": "another", "type": "process"}),
            ("PATCH", "/work_pools/causalveil", {"base_job_template": {}}),
            ("POST", "/block_documents/filter", {"include_secrets": True}),
            ("POST", "/logs/filter", {}),
            ("POST", "/events", []),
        ):
            assert client.request(method, path, json=body).status_code == httpx.codes.UNAUTHORIZED, path


def test_events_want_the_password_too(api: str) -> None:
    """A forged refusal of the budget would pause a deployment; events come through a socket."""
    url = api.replace("http://", "ws://") + "/events/in"
    for protocols, said in ((None, "{}"), (["prefect"], '{"type": "auth", "token": "change-me"}')):
        with pytest.raises(WebSocketException):
            _answer(url, protocols, said)


def _answer(url: str, protocols: Any, said: str) -> str | bytes:
    """What the server says to the first message; it hangs up on strangers."""
    with connect(url, subprotocols=protocols) as stream:
        stream.send(said)
        return stream.recv(timeout=30)


def test_pages_of_another_origin_read_nothing(api: str) -> None:
    foreign = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for method, path in (("GET", "/health"), ("GET", "/admin/version"), ("OPTIONS", "/deployments/")):
        answer = httpx.request(method, api + path, headers=foreign, timeout=60)
        assert "access-control-allow-origin" not in answer.headers, path
    own = {"Origin": api.removesuffix("/api")}
    assert httpx.get(f"{api}/health", headers=own, timeout=60).headers["access-control-allow-origin"] == own["Origin"]


@pytest.mark.parametrize("name", sorted(ATTACK))
def test_a_deployment_and_a_run_name_no_command(api: str, operator: httpx.Client, name: str) -> None:
    """With the password, too: the pool's template has no place for it, on the server and in the worker."""
    variables = {name: ATTACK[name]}
    flow = operator.post("/flows/", json={"name": "attack"}).raise_for_status().json()["id"]
    wanted = {"name": "attack", "flow_id": flow, "work_pool_name": "causalveil"}
    refused = operator.post("/deployments/", json=wanted | {"job_variables": variables})
    assert refused.status_code == httpx.codes.UNPROCESSABLE_ENTITY
    deployment = operator.post("/deployments/", json=wanted).raise_for_status().json()["id"]
    refused = operator.post(f"/deployments/{deployment}/create_flow_run", json={"job_variables": variables})
    assert refused.status_code == httpx.codes.UNPROCESSABLE_ENTITY

    # And were the server to let it pass: what would the worker run?
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
    from prefect.workers.process import ProcessJobConfiguration

    template = operator.get("/work_pools/causalveil").raise_for_status().json()["base_job_template"]
    # Prefect asks a server for templates; without one it would start another.
    with temporary_settings({PREFECT_API_URL: api, PREFECT_API_AUTH_STRING: PASSWORD}):
        found: Any = asyncio.run(ProcessJobConfiguration.from_template_and_values(template, variables, client=None))
    assert found.command is None
    assert found.working_dir is None
    assert found.env == {}


@pytest.mark.parametrize(
    ("script", "environment", "says"),
    [
        ("server.sh", {}, "PREFECT_SERVER_API_AUTH_STRING"),
        ("server.sh", {"PREFECT_SERVER_API_AUTH_STRING": ""}, "PREFECT_SERVER_API_AUTH_STRING"),
        ("server.sh", {"PREFECT_SERVER_API_AUTH_STRING": "operator:short"}, "16 characters"),
        ("server.sh", {"PREFECT_SERVER_API_AUTH_STRING": "operator:change-me-change-me-change-me"}, "16 characters"),
        ("server.sh", {"PREFECT_SERVER_API_AUTH_STRING": PASSWORD, "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": "*"}, "CORS"),
        ("worker.sh", {}, "PREFECT_API_URL"),
        ("worker.sh", {"PREFECT_API_URL": "http://127.0.0.1:1/api"}, "PREFECT_API_AUTH_STRING"),
    ],
)
def test_neither_starts_without_a_password(tmp_path: Path, script: str, environment: dict[str, str], says: str) -> None:
    told = subprocess.run(
        [str(ROOT / "deploy" / script)], env=around(tmp_path, **environment), capture_output=True, text=True, timeout=60
    )
    assert told.returncode != 0
    assert told.stdout == ""
    assert says in told.stderr
    assert len(told.stderr.strip().splitlines()) == 1


def test_flows_do_not_inherit_what_is_the_servers(tmp_path: Path) -> None:
    """The worker's script takes the server's secrets away, should both be started from one shell."""
    fake = tmp_path / "bin" / "prefect"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nenv\n")
    fake.chmod(0o700)
    secrets = {
        name: "hidden"
        for name in (
            "PREFECT_SERVER_API_AUTH_STRING",
            "PREFECT_SERVER_DATABASE_CONNECTION_URL",
            "PREFECT_PASSWORD",
            "LEDGER_PASSWORD",
            "POSTGRES_PASSWORD",
        )
    }
    needed = {
        "PREFECT_API_URL": "u",
        "PREFECT_API_AUTH_STRING": "a",
        "CAUSALVEIL_LEDGER_URL": "l",
        "WAREHOUSE_URL": "w",
    }
    given = around(tmp_path, **secrets, **needed)
    given["PATH"] = f"{fake.parent}:{given['PATH']}"
    told = subprocess.run([str(ROOT / "deploy/worker.sh")], env=given, capture_output=True, text=True, timeout=60)
    assert "hidden" not in told.stdout
    assert needed.keys() <= {line.partition("=")[0] for line in told.stdout.splitlines()}


def test_the_server_is_not_one_that_deployed_runs_refuse(api: str) -> None:
    assert not lets_anybody_in(api)
