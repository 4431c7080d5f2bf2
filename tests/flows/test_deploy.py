"""A worker and the deployments as written: a fired run leaves its release, a refused one says why it failed.

The second half types `deploy/README.md`, command by command, with a server on PostgreSQL; it is long.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import sqlalchemy as sa
import yaml

from causalveil.schemas.release import load_release
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.postgres import WHY_NOT, WHY_NOT_SUPERUSER, database, script_as_superuser

ROOT = Path(__file__).parents[2]
CHECKOUT = ("flows", "tasks", "schemas", "src", "deploy", "data/sites", "pyproject.toml")
PATIENTS = 6000
# Seconds for one call of a server that other tests keep busy.
PATIENCE = 180
ROLES = ROOT / "deploy/roles.sql"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the checkout, since runs leave releases and partitions in it."""
    root = tmp_path / "checkout"
    for name in CHECKOUT:
        source, target = ROOT / name, root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return root


def environment(home: Path, **more: str) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "CAUSALVEIL_HOME": str(home), "NO_COLOR": "1", "COLUMNS": "200"} | more


@contextmanager
def in_background(command: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, whose children end with it."""
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            # The session's other processes may still be saying goodbye to a server that is gone.
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def ask(client: httpx.Client, method: str, path: str, **content: Any) -> Any:
    """One call of the API; its database may be busy for a moment."""
    for _ in range(20):
        answer = client.request(method, path, **content)
        if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
            break
        time.sleep(1)
    return answer.raise_for_status().json()


def fire(api: str, deployment: str, **parameters: Any) -> dict[str, Any]:
    """Create a run of a deployment and wait for its end; the flow run as the API tells it."""
    with httpx.Client(base_url=api, timeout=PATIENCE) as client:
        found = ask(client, "GET", f"/deployments/name/{deployment}")
        run: dict[str, Any] = ask(
            client, "POST", f"/deployments/{found['id']}/create_flow_run", json={"parameters": parameters}
        )
        deadline, ended = time.monotonic() + 300, ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
        while run["state"]["type"] not in ended and time.monotonic() < deadline:
            time.sleep(0.5)
            run = ask(client, "GET", f"/flow_runs/{run['id']}")
    return run


def events(api: str, name: str, run: str) -> list[dict[str, Any]]:
    """Events of a name that a run caused, once the server has stored at least one; other tests share the server."""
    wanted = {"filter": {"event": {"name": [name]}}}
    deadline = time.monotonic() + 60
    found: list[dict[str, Any]] = []
    with httpx.Client(base_url=api, timeout=PATIENCE) as client:
        while not found and time.monotonic() < deadline:
            stored = ask(client, "POST", "/events/filter", json=wanted)["events"]
            found = [event for event in stored if event["payload"]["run"] == run]
            time.sleep(0.2)
    return found


def test_deployed_runs_release_and_refuse(
    checkout: Path, tmp_path: Path, home: Path, prefect_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        warehouse = stack.enter_context(database())
        if warehouse is None:
            pytest.skip(WHY_NOT)
        text = (checkout / "deploy/example/warehouse.sql").read_text().replace("120000", str(PATIENTS))
        with psycopg.connect(warehouse, autocommit=True) as connection:
            connection.execute(text.encode())
        # One run exhausts a month, so that the second is refused.
        contract = checkout / "deploy/example/data/dataset.yaml"
        contract.write_text(contract.read_text().replace("epsilon: 3", "epsilon: 1"))
        # A worker asks for work every ten seconds unless told otherwise.
        around = environment(
            home,
            PREFECT_API_URL=prefect_server,
            PREFECT_WORKER_QUERY_SECONDS="1",
            WAREHOUSE_URL=warehouse,
            PWD=str(checkout),
        )
        # The tests' own server asks for no password; that such a server is refused is the first thing seen here.
        open_server = around | {"CAUSALVEIL_OPEN_SERVER": "test"}
        options: dict[str, Any] = {"cwd": checkout, "env": around}
        for command in (
            "work-pool create causalveil --type process --base-job-template deploy/job-template.json",
            "deploy --all --no-prompt --prefect-file deploy/prefect.yaml",
        ):
            told = subprocess.run(["prefect", *command.split()], capture_output=True, text=True, **options)
            assert told.returncode == 0, told.stdout + told.stderr
        worker = ["prefect", "worker", "start", "--pool", "causalveil"]
        log: dict[str, Any] = {"stdout": (tmp_path / "log").open("wb"), "stderr": subprocess.STDOUT}
        with in_background(worker, **log, **options):
            run = fire(prefect_server, "extract/visits")
            assert run["state"]["type"] == "FAILED"
            assert "answers calls without a password" in run["state"]["message"], run["state"]["message"]
        stack.enter_context(in_background(worker, **log, cwd=checkout, env=open_server))

        # No turn for the dataset yet: refused, and the message says what to type.
        run = fire(prefect_server, "extract/visits")
        assert run["state"]["type"] == "FAILED"
        hint = re.search(r"prefect (gcl create causalveil-visits --limit 1)", run["state"]["message"])
        assert hint, run["state"]["message"]
        subprocess.run(["prefect", *hint[1].split()], check=True, capture_output=True, **options)

        run = fire(prefect_server, "extract/visits")
        assert run["state"]["type"] == "COMPLETED", (tmp_path / "log").read_text()[-4000:]
        months = sorted(path.name for path in (checkout / "deploy/example/data").glob("month=*"))
        assert months[0] == "month=2025-01"
        assert len(months) >= 12

        run = fire(prefect_server, "study/visits")
        assert run["state"]["type"] == "COMPLETED", (tmp_path / "log").read_text()[-4000:]
        assert run["parameters"] == {"study": "deploy/example/study.yaml"}
        release = load_release(checkout / "releases" / run["name"] / "release.json")
        assert run["name"].startswith(f"visits-{months[-1].removeprefix('month=')}-stay-")
        assert release.run_id == run["name"]
        assert release.privacy.blocks.charged == tuple(months[-3:])
        (low,) = events(prefect_server, "causalveil.budget.low", run["name"])
        assert low["resource"]["prefect.resource.id"] == "causalveil.dataset.visits"
        assert low["payload"]["left"][months[-1]]["epsilon"] == "0 of 1"

        run = fire(prefect_server, "series/visits")
        assert (run["state"]["type"], run["state"]["name"]) == ("CANCELLED", "TooFewBlocks")
        assert "the ledger holds 1 of study" in run["state"]["message"], run["state"]["message"]

        # The same question on the same rows is the same run, free of charge; asked anew it is refused.
        run = fire(prefect_server, "study/visits")
        assert (run["state"]["type"], run["name"]) == ("COMPLETED", release.run_id)
        # The server now and then loses an event; a refusal can be had again.
        for _ in range(3):
            run = fire(prefect_server, "study/visits", again=True)
            assert run["state"]["type"] == "FAILED"
            assert "BudgetRefused: dataset 'visits', level sample, block" in run["state"]["message"]
            assert "remaining 0 of 1" in run["state"]["message"]
            if refused := events(prefect_server, "causalveil.budget.refused", run["name"]):
                break
        assert len(refused) == 1
        assert not (checkout / "releases" / run["name"]).exists()
        assert {run.state for run in open_ledger().account("visits").runs} == {"finished"}


def test_schedules_name_a_time_zone_and_parameters_are_paths() -> None:
    document = yaml.safe_load((ROOT / "deploy/prefect.yaml").read_text())
    entries = {entry["entrypoint"]: entry for entry in document["deployments"]}
    assert set(entries) == {f"causalveil.flows.deployed.{name}" for name in ("extract", "study", "series", "pool")}
    for entry in entries.values():
        assert all({"cron", "timezone"} <= schedule.keys() for schedule in entry["schedules"])
        assert entry["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}
        assert all(isinstance(value, str) and value.endswith(".yaml") for value in entry["parameters"].values())


def compose_problems(path: Path) -> str:
    """What the Compose Specification's own schema has against a file; nothing if it has nothing."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_the_compose_file_meets_its_specification(tmp_path: Path) -> None:
    """No container engine is needed to see that each key is one of the specification's, and each volume declared."""
    text = (ROOT / "deploy/compose.yaml").read_text()
    assert compose_problems(ROOT / "deploy/compose.yaml") == ""
    compose = yaml.safe_load(text)
    named = {volume.split(":")[0] for service in compose["services"].values() for volume in service.get("volumes", [])}
    assert {name for name in named if not name.startswith(".")} == set(compose["volumes"])
    assert {name for one in compose["services"].values() for name in one.get("depends_on", {})} <= set(
        compose["services"]
    )
    for right, wrong in (
        ("depends_on:", "depend_on:"),
        ("service_healthy", "healthy"),
        ("retries: 30", "retries: [30]"),
    ):
        broken = tmp_path / "compose.yaml"
        broken.write_text(text.replace(right, wrong, 1))
        assert compose_problems(broken), wrong


def test_container_files_hold_no_secret_and_name_files_that_exist() -> None:
    compose = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
    assert set(compose["services"]) == {"postgres", "server", "worker"}
    given = {name: service["environment"] for name, service in compose["services"].items()}
    # Each URL has a role and a password of its own, and a start without a secret fails.
    urls = re.findall(r"://([^:/\s]+):([^@\s]+)@", (ROOT / "deploy/compose.yaml").read_text())
    assert urls == [
        ("causalveil_prefect", "${PREFECT_PASSWORD:?}"),
        ("causalveil_ledger", "${LEDGER_PASSWORD:?}"),
        ("causalveil_warehouse", "${WAREHOUSE_PASSWORD:?}"),
    ]
    assert given["server"]["PREFECT_SERVER_API_AUTH_STRING"] == "${PREFECT_SERVER_API_AUTH_STRING:?}"
    assert "*" not in given["server"]["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"]
    assert set(given["worker"]) == {
        "PREFECT_API_URL",
        "PREFECT_API_AUTH_STRING",
        "CAUSALVEIL_LEDGER_URL",
        "WAREHOUSE_URL",
    }
    assert compose["services"]["server"]["command"] == ["deploy/server.sh"]
    assert "--base-job-template deploy/job-template.json" in compose["services"]["worker"]["command"]
    assert all(port.startswith("127.0.0.1:") for port in compose["services"]["server"]["ports"])
    recipe = (ROOT / "deploy/Containerfile").read_text()
    for line in re.findall(r"^COPY (.*) \S+$", recipe, flags=re.MULTILINE):
        assert all((ROOT / name).exists() for name in line.split())


# What the test puts in place of what a person types, and nothing else: its own databases and port.
NOT_TYPED = re.compile(r"^(sudo |pip install|uv sync)")
# The example's rows are filled in by the warehouse's owner, who is the test's own role here.
FILLED = "sudo -u postgres psql warehouse"


def typed_commands() -> list[str]:
    """Every command of the blocks that are marked as bash, in order."""
    blocks = re.findall(r"```bash\n(.*?)```", (ROOT / "deploy/README.md").read_text(), flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line]
    return [line for line in lines if line.startswith(FILLED) or not NOT_TYPED.match(line)]


def test_three_roles_reach_what_is_theirs() -> None:
    """roles.sql with names of the test's own, since roles belong to the whole server."""
    tag = secrets.token_hex(6)
    text = re.sub(r"\b(causalveil_\w+|prefect|ledger|warehouse)\b(?=[ ,;\n])", rf"\1_{tag}", ROLES.read_text())
    passwords = {name: f"{name}-{tag}" for name in ("prefect", "ledger", "warehouse")}
    around = {f"{name.upper()}_PASSWORD": password for name, password in passwords.items()}

    def connect(name: str, place: str) -> psycopg.Connection[Any]:
        assert server is not None
        url = server.set(username=f"causalveil_{name}_{tag}", password=passwords[name], database=f"{place}_{tag}")
        return psycopg.connect(url.render_as_string(hide_password=False), autocommit=True)

    try:
        server = script_as_superuser(text, around)
        if server is None:
            pytest.skip(WHY_NOT_SUPERUSER)
        script_as_superuser(f"\\connect warehouse_{tag}\nCREATE TABLE visits AS SELECT 1 AS patient;", {})
        for name in ("prefect", "ledger"):
            with connect(name, name) as own:
                own.execute("CREATE TABLE mine (x int)")
        with connect("warehouse", "warehouse") as reader:
            assert reader.execute("SELECT patient FROM visits").fetchall() == [(1,)]
            changes = ("CREATE TABLE mine (x int)", "DELETE FROM visits", "CREATE SCHEMA mine")
            for change in changes:
                with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                    reader.execute(change)
            # The role's habit of reading can be left off; its want of rights cannot.
            reader.execute("SET default_transaction_read_only = off")
            for change in changes:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    reader.execute(change)
        for name in passwords:
            for place in passwords.keys() - {name}:
                with pytest.raises(psycopg.OperationalError, match="permission denied"):
                    connect(name, place)
    finally:
        databases = "".join(f"DROP DATABASE IF EXISTS {name}_{tag} WITH (FORCE);\n" for name in passwords)
        roles = "".join(f"DROP ROLE IF EXISTS causalveil_{name}_{tag};\n" for name in passwords)
        script_as_superuser(databases + roles, {})


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_command_of_the_readme_works_as_typed(checkout: Path, tmp_path: Path, home: Path) -> None:
    with ExitStack() as stack:
        urls = {name: stack.enter_context(database()) for name in ("prefect", "ledger", "warehouse")}
        if None in urls.values():
            pytest.skip(WHY_NOT)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        script = ["set -eo pipefail"]
        for command in typed_commands():
            command = command.replace("uv run ", "").replace("4200", str(port))
            command = command.replace(FILLED, f"psql {shlex.quote(str(urls['warehouse']))}")
            for name, url in urls.items():
                written = sa.make_url(str(url)).render_as_string(hide_password=False).partition("://")[2]
                mine = f"causalveil_{name}:${name.upper()}_PASSWORD@127.0.0.1/{name}"
                command = command.replace(mine, written)
            script += [f"echo ======== {shlex.quote(command)}", command]
        path = tmp_path / "typed.sh"
        path.write_text("\n".join(script) + "\n")
        around = environment(home, PREFECT_HOME=str(tmp_path / "prefect"))
        around.pop("PREFECT_API_URL", None)
        log = tmp_path / "typed.log"
        with in_background(
            ["bash", str(path)], cwd=checkout, env=around, stdout=log.open("wb"), stderr=subprocess.STDOUT
        ) as shell:
            deadline = time.monotonic() + 1500
            while shell.poll() is None and time.monotonic() < deadline:
                time.sleep(1)
            said = log.read_text()
            assert shell.returncode == 0, said[-4000:]
        print(said[-3000:])
        assert "Chain" in said or "chain" in said
        released = sorted((checkout / "releases").glob("visits-*/release.json"))
        assert len(released) == 1
        assert load_release(released[0]).units > 25_000
