"""The owner's and the operator's tutorials, typed as they stand. The first hour has a test of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.test_cli import call

ROOT = Path(__file__).parents[2]
# A finished run whose release waits for its owner.
HELD = 7


def blocks(name: str) -> list[str]:
    return re.findall(r"```bash\n(.*?)```", (ROOT / "docs/tutorials" / name).read_text(), flags=re.DOTALL)


def type_in(line: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """A line of the owner's tutorial: a command of ours or an echo, and perhaps a file that takes what it says."""
    words = shlex.split(line)
    words, file = (words[:-2], words[-1]) if words[-2] == ">>" else (words, None)
    code, said = (0, words[1] + "\n") if words[0] == "echo" else call(capfd, *words[1:])[:2]
    if file is not None:
        with Path(file).open("a") as appended:
            appended.write(said)
    return code, said


def typed_at_home(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the commands of a page, for a person in an empty folder beside the shipped data."""
    (folder / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CAUSALVEIL_HOME", str(folder / "home"))
    monkeypatch.setenv("CAUSALVEIL_ENGINE", "direct")
    return [line for block in blocks(page) for line in block.splitlines()]


def test_the_owners_tutorial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = typed_at_home("owner.md", tmp_path, monkeypatch)
    assert len(lines) == 15
    said = {}
    for line in lines:
        code, said[line] = type_in(line, capfd)
        assert code == (HELD if " run " in line else 0), line
    told = " ".join(" ".join(said.values()).split())
    assert "Still to be said" not in told
    assert "nothing is wrong" in told
    assert "2 runs like 'guarded-sick-days' fit" in told
    assert "holds: " in told
    # The owner saw the number before approving it, and it is what the analyst is given.
    assert lines.index("causalveil report seen/release.json") < lines.index(
        "causalveil ledger approve coaching --key owner.key"
    )
    assert "On average over all units" in (page := (tmp_path / "seen/report.html").read_text()) or "No effect" in page
    assert (tmp_path / "answer/release.json").read_text() == (tmp_path / "seen/release.json").read_text()
    assert (tmp_path / "registry/guarded.guarded-sick-days.md").exists()
    assert "coaching" in (tmp_path / "desk/datasets/guarded.html").read_text()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="signals are read off /proc")
def test_a_worker_that_a_shell_started_in_the_background_can_be_interrupted(tmp_path: Path) -> None:
    """Such a shell lets commands ignore SIGINT, by which Prefect stops a worker; what the script starts heeds it."""
    told = tmp_path / "prefect"
    told.write_text("#!/bin/sh\ngrep SigIgn /proc/self/status\n")
    told.chmod(0o700)
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PREFECT_API_URL": "http://127.0.0.1:1/api",
        "PREFECT_API_AUTH_STRING": "operator:password",
    }
    command = ["sh", "-c", f"trap '' INT; exec {shlex.quote(str(ROOT / 'deploy/worker.sh'))}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    ignored = int(done.stdout.split()[1], 16)
    assert not ignored >> (signal.SIGINT - 1) & 1


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_operators_tutorial(tmp_path: Path) -> None:
    """Typed into one shell, on a free port. The worker and the server end when they are told to."""
    for name in ("data", "deploy"):
        (tmp_path / name).symlink_to(ROOT / name)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    text = "set -eo pipefail\n" + "".join(blocks("operator.md")).replace("4200", port)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "CAUSALVEIL_"))
    }
    environment |= {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "CAUSALVEIL_HOME": str(tmp_path / "home"),
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_SERVER_API_PORT": port,
    }
    done = subprocess.run(
        ["bash", "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert "The chain of ledger" in done.stdout
    (release,) = (tmp_path / "releases").glob("clinic-*/release.json")
    assert release.stat().st_size > 1000
    assert "Traceback" not in (tmp_path / "worker.log").read_text()


def test_the_tutorial_of_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Five commands; the answer's interval holds the difference at the same age and sex, and not the plain one."""
    lines = typed_at_home("time-to-event.md", tmp_path, monkeypatch)
    assert len(lines) == 5
    for line in lines:
        code, _ = type_in(line, capfd)
        assert code == 0, line
    release = json.loads((tmp_path / "chains/answer/release.json").read_text())
    # Wider than the interval by half: noise is drawn afresh, and a true interval fails once in twenty.
    low, high = (release["answers"][0]["interval"][end] for end in ("lower", "upper"))
    assert low - (high - low) / 4 < 0.208 < high + (high - low) / 4
    assert release["details"]["unadjusted"] > 0.33
    assert (tmp_path / "chains/answer/report.html").exists()
