"""Ctrl-C and SIGTERM in the middle of a run: one true line, the right exit code, no scratch, and the run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from causalveil.flows.api import run_study
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.studies import write_study

# Runs the command and tells, on its error stream, that a stage which lies after the first draw has begun; then it
# waits there for the signal, as a stage does that has much to compute.
PROGRAM = """
import sys, time
from causalveil.tasks.estimate.papers.ipw import weights
from causalveil.flows.estimators import ipw
def weigh_stage(*arguments):
    print("in the middle", file=sys.stderr, flush=True)
    while True:
        time.sleep(0.05)
for module in (weights, ipw):
    if hasattr(module, "weigh_stage"):
        module.weigh_stage = weigh_stage
from causalveil.flows.cli.main import main
main()
"""


@pytest.mark.parametrize(
    ("engine", "number", "code"),
    [
        ("direct", signal.SIGINT, 130),
        ("direct", signal.SIGTERM, 143),
        # Prefect has a class of its own for this signal; for the other it is as above, after half a minute's farewell.
        ("prefect", signal.SIGTERM, 143),
        pytest.param("prefect", signal.SIGINT, 130, marks=pytest.mark.long),
    ],
)
def test_a_stopped_run_says_what_it_holds(
    tmp_path: Path, home: Path, number: signal.Signals, code: int, engine: str, request: pytest.FixtureRequest
) -> None:
    environment = dict(os.environ)
    if engine == "prefect":
        environment["PREFECT_API_URL"] = request.getfixturevalue("prefect_server")
    path = write_study(tmp_path / "study")
    words = ["run", str(path), "--run-id", "one", "--out", str(tmp_path / "out"), "--engine", engine]
    told = tmp_path / "told"
    with told.open("w") as errors:
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, *words], stderr=errors, env=environment)
        until = time.monotonic() + 120
        while "in the middle" not in told.read_text() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(number)
        # A busy machine takes a minute until the lines of the log are with the server.
        assert process.wait(120) == code, told.read_text()
    (line,) = [line for line in told.read_text().splitlines() if line.startswith("causalveil: ")]
    for words_ in (
        "run one holds its reservation of epsilon 1, delta 1e-6 on 'small'",
        "with 1 of 2 charges in the ledger",
        f"causalveil run {path} --run-id one",
        "causalveil ledger void one",
    ):
        assert words_ in line
    assert [entry.name for entry in (home / "scratch").iterdir()] == []
    run = open_ledger().record("one")
    assert run is not None
    assert (run.state, len(run.charges)) == ("reserved", 1)
    assert run_study(path, out=tmp_path / "out", run_id="one", engine="direct").returned == 1


def test_stopped_before_anything_was_reserved(tmp_path: Path) -> None:
    """The signal comes before the run has an id."""
    program = (
        "import os, signal, threading, time\n"
        "from causalveil.flows import start_run\n"
        "def run_study(*_, **__):\n    os.kill(os.getpid(), signal.SIGTERM)\n    time.sleep(30)\n"
        "start_run.run_study = run_study\n"
        "from causalveil.flows.cli.main import main\nmain()\n"
    )
    path = write_study(tmp_path / "study")
    ended = subprocess.run([sys.executable, "-c", program, "run", str(path)], capture_output=True, text=True)
    assert ended.returncode == 143
    assert ended.stderr.strip() == "causalveil: stopped; nothing was reserved or charged"
