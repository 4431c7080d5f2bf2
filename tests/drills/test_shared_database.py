"""Prefect's server and the ledger share a PostgreSQL server that goes away while a deployed run is under way.

Server, worker, pool and turn are those of ``deploy/``; the cluster is the drill's own. What is measured: whether the
run outlives the fault, what it was charged, and how long the next run waits for the turn.
"""

from __future__ import annotations

import secrets
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import psycopg
import pytest
import yaml

from causalveil.flows.engine.deployment import LEASE_SECONDS
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.privacy.ledger.store import AWAY_SECONDS
from tests.drills.test_prefect_attack import PASSWORD, ROOT, around
from tests.faults import WHY_NO_CLUSTER, Cluster, cluster, free_port
from tests.flows.test_deploy import in_background
from tests.studies import people, write_study

ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
UNITS = 300_000
DAY = {"caps": {"sample": {"epsilon": 1000, "delta": "1e-2"}}}


class Deployed:
    """The study's deployment, by its API; what a server without its database answers is asked again."""

    def __init__(self, url: str) -> None:
        user, _, word = PASSWORD.partition(":")
        self.client = httpx.Client(base_url=url, auth=(user, word), timeout=60)

    def ask(self, method: str, path: str, **content: Any) -> Any:
        until = time.monotonic() + 240
        while True:
            try:
                answer = self.client.request(method, path, **content)
                if answer.is_success:
                    return answer.json()
            except httpx.HTTPError:
                answer = None
            assert time.monotonic() < until, None if answer is None else answer.text
            time.sleep(0.5)

    def fire(self) -> str:
        found = self.ask("GET", "/deployments/name/study/visits")
        # Asked for again where the answer was lost, it is the same run.
        asked = {"parameters": {"again": True}, "idempotency_key": secrets.token_hex(8)}
        run = self.ask("POST", f"/deployments/{found['id']}/create_flow_run", json=asked)
        return str(run["id"])

    def until(self, run: str, *states: str) -> str:
        end = time.monotonic() + 600
        while (found := str(self.ask("GET", f"/flow_runs/{run}")["state"]["type"])) not in states:
            assert time.monotonic() < end
            time.sleep(0.3)
        return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Deployed, str]]:
    folder = tmp_path_factory.mktemp("shared")
    with ExitStack() as stack:
        found = stack.enter_context(cluster())
        if found is None:
            pytest.skip(WHY_NO_CLUSTER)
        with psycopg.connect(found.url, autocommit=True) as connection:
            for name in ("prefect", "ledger"):
                connection.execute(f"CREATE DATABASE {name}")
        port, options = str(free_port()), {"cwd": folder, "stderr": subprocess.STDOUT}
        url = f"http://127.0.0.1:{port}/api"
        ledger = found.url.replace("/postgres", "/ledger")
        stored = found.url.replace("postgresql:", "postgresql+asyncpg:").replace("/postgres", "/prefect")
        served = around(
            folder / "prefect",
            PREFECT_SERVER_API_PORT=port,
            PREFECT_SERVER_API_AUTH_STRING=PASSWORD,
            PREFECT_SERVER_DATABASE_CONNECTION_URL=stored,
        )
        log = (folder / "server.log").open("wb")
        stack.enter_context(in_background([str(ROOT / "deploy/server.sh")], env=served, stdout=log, **options))
        deployed = Deployed(url)
        deployed.ask("GET", "/health")
        worked = around(
            folder / "worker",
            PREFECT_API_URL=url,
            PREFECT_API_AUTH_STRING=PASSWORD,
            PREFECT_WORKER_QUERY_SECONDS="1",
            CAUSALVEIL_HOME=str(folder / "home"),
            CAUSALVEIL_LEDGER_URL=ledger,
            PWD=str(ROOT),
        )
        study = write_study(folder / "study", frame=people(UNITS), contract=DAY)
        dataset = yaml.safe_load((folder / "study" / "dataset.yaml").read_text())["dataset"]
        document = yaml.safe_load((ROOT / "deploy/prefect.yaml").read_text())
        document["deployments"] = [one for one in document["deployments"] if "study" in one["parameters"]][:1]
        document["deployments"][0] |= {"parameters": {"study": str(study)}, "schedules": []}
        (folder / "prefect.yaml").write_text(yaml.safe_dump(document))
        for command in (
            "work-pool create causalveil --type process --base-job-template deploy/job-template.json",
            f"gcl create causalveil-{dataset} --limit 1",
            f"deploy --all --no-prompt --prefect-file {folder}/prefect.yaml",
        ):
            done = subprocess.run(["prefect", *command.split()], cwd=ROOT, env=worked, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
        log = (folder / "worker.log").open("wb")
        stack.enter_context(in_background([str(ROOT / "deploy/worker.sh")], env=worked, stdout=log, **options))
        yield found, deployed, ledger


def reserved(url: str) -> int:
    """How many runs have reserved their budget."""
    with psycopg.connect(url) as connection:
        try:
            found = connection.execute("SELECT count(*) FROM entries WHERE kind = 'reserve'").fetchone()
        except psycopg.errors.UndefinedTable:
            found = None
    return int(found[0]) if found else 0


def until_reserved(url: str, runs: int, seconds: float) -> float:
    """Wait until so many runs have reserved; seconds that it took."""
    began = time.monotonic()
    while reserved(url) < runs:
        assert time.monotonic() - began < seconds
        time.sleep(0.05)
    return time.monotonic() - began


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("away", [1, 30, 100])
def test_a_shared_database_that_stops_and_starts(
    away: int, place: tuple[Cluster, Deployed, str], record_property: Any
) -> None:
    """A run outlives a database that is away for less than it waits; whatever becomes of it, the next gets its turn."""
    server, deployed, url = place
    before = reserved(url)
    run = deployed.fire()
    until_reserved(url, before + 1, 300)
    server.stop("fast")
    time.sleep(away)
    server.start()
    following = deployed.fire()
    waited = until_reserved(url, before + 2, 400)
    how, last = deployed.until(run, *ENDED), deployed.until(following, *ENDED)
    assert last == "COMPLETED"
    assert how == "COMPLETED" or away > AWAY_SECONDS
    assert waited < 3 * LEASE_SECONDS, "a minute for the turn, and the start of a process on a busy machine"
    ledger = open_ledger(url)
    ledger.verify()
    states = Counter(one.state for one in ledger.account("small").runs[before:])
    assert states["finished"] == 1 + (how == "COMPLETED")
    record_property("summary", f"database away {away} s: {how}, the next run had its turn {waited:.0f} s after")
