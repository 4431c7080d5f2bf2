"""Prefect's server goes away while a deployed run is under way: one typed line with the run's id, and how to go on."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from causalveil.flows.api import run_study
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.children import CONTEXT, process
from tests.own_server import own_server
from tests.studies import people, write_study


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server of the test's own, to be stopped by its process id."""
    with own_server(tmp_path, "--no-services") as running:
        yield running


def run(path: str, out: str, place: str, told: Connection) -> None:
    """Run the flow, wait at a stage until the server is gone, and tell what ended it and what the log says."""
    from causalveil.flows.study import run_with_prefect
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
