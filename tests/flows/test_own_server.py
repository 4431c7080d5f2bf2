"""A Prefect server of the user's own: one, on loopback, behind a password, found by later runs, and ended for sure."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from causalveil.flows.cli.main import main
from causalveil.flows.engine import server, settings
from causalveil.flows.engine.server import KeptServer
from causalveil.schemas.errors import CausalveilError
from causalveil.tasks.machine.folders import machine
from tests.children import Command
from tests.faults import free_port
from tests.studies import people, write_study

Kept = tuple[Path, KeptServer]


def environment(home: Path, **more: str) -> dict[str, str]:
    """What a command is called with by somebody who has no settings of Prefect's."""
    kept = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    return kept | {"CAUSALVEIL_HOME": str(home), "CAUSALVEIL_ENGINE": "prefect", "NO_COLOR": "1"} | more


def printed(command: Command) -> dict[str, Any]:
    out, err = command.communicate()
    assert command.returncode == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """A state folder whose server two commands started at once; that it ends for sure is looked at in the end."""
    folder = tmp_path_factory.mktemp("own-server")
    around = environment(folder / "home", CAUSALVEIL_LEDGER_URL="postgresql://somebody:secret@nowhere/ledger")
    both = [printed(one) for one in [Command(["server", "start", "--json"], around, folder) for _ in range(2)]]
    try:
        assert sorted(one["started"] for one in both) == [False, True], "one of the two started it"
        assert both[0]["pid"] == both[1]["pid"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CAUSALVEIL_HOME", str(folder / "home"))
            found = server.find()
        assert found is not None
        yield folder / "home", found
        stopped = printed(Command(["server", "stop", "--json"], around, folder))
        assert stopped == {"stopped": True, "pid": found.pid}
        assert not found.lives()
        left = {path.name for path in (folder / "home/server").iterdir()}
        assert "server.json" not in left
        assert "prefect.db" in left
    finally:
        if server._started(both[0]["pid"]) is not None:
            os.kill(both[0]["pid"], signal.SIGKILL)


@pytest.fixture
def at_home(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> KeptServer:
    """The server, found from this process."""
    monkeypatch.setenv("CAUSALVEIL_HOME", str(kept[0]))
    return kept[1]


@pytest.fixture
def unset() -> Iterator[None]:
    """Prefect's settings name no server, whatever other tests of this process use."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        yield
    server.notes()


def record(home: Path, **changed: Any) -> KeptServer:
    """Write the record of a server that is this very process."""
    found = KeptServer(
        os.getpid(), server._started(os.getpid()) or 0, machine(), os.uname().nodename, free_port(), "me:secret", "3"
    )
    found = replace(found, **changed)
    path = home / "server/server.json"
    path.parent.mkdir(mode=0o700, parents=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(asdict(found)))
    return found


def test_nobody_else_gets_in(kept: Kept) -> None:
    home, found = kept
    # Prefect's pages are Prefect's, with the modes that they were published with.
    for path in [home / "server", *(home / "server").glob("*"), *(home / "server/concurrency_leases").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, f"{path} is for its user alone"
    for call in ("admin/version", "flow_runs/count"):
        method = "POST" if "count" in call else "GET"
        assert httpx.request(method, f"{found.url}/{call}", timeout=60).status_code == httpx.codes.UNAUTHORIZED
    assert not replace(found, credentials="causalveil:guessed").answers(60)
    assert found.answers(60)
    sockets = Path(f"/proc/{found.pid}/net/tcp").read_text() + Path(f"/proc/{found.pid}/net/tcp6").read_text()
    listening = [line.split()[1] for line in sockets.splitlines() if line.split()[3] == "0A"]
    assert [one for one in listening if one.endswith(f":{found.port:04X}")] == [f"0100007F:{found.port:04X}"]


def test_nothing_of_its_user_is_handed_on(kept: Kept) -> None:
    _, found = kept
    password = found.credentials.partition(":")[2]
    assert password not in Path(f"/proc/{found.pid}/cmdline").read_text()
    assert "somebody:secret" not in Path(f"/proc/{found.pid}/environ").read_text()
    assert len(password) >= 32


def test_a_later_run_finds_it(kept: Kept, tmp_path: Path) -> None:
    home, found = kept
    study = write_study(tmp_path / "study", frame=people(600))
    # A process that ends as a user's does: Prefect sends its last lines of the log then.
    command = [sys.executable, "-m", "causalveil", "run", str(study), "--run-id", "later", "--out", str(tmp_path)]
    done = subprocess.run(command, env=environment(home), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == ["run later"], "nothing is offered to a run that has it"
    user, password = found.credentials.split(":")
    with httpx.Client(base_url=found.url, auth=(user, password), timeout=60) as client:
        (flow_run,) = client.post("/flow_runs/filter", json={"flow_runs": {"name": {"any_": ["later"]}}}).json()
        assert flow_run["state"]["type"] == "COMPLETED"
        logs = {"logs": {"flow_run_id": {"any_": [flow_run["id"]]}}}
        lines = [line["message"] for line in client.post("/logs/filter", json=logs).json()]
    whole = r"(\d+) of \1 charges of the flow's budget are committed: .*"
    assert any(re.fullmatch(whole, line) for line in lines), f"the audit trail is whole: {lines}"
    trail = printed(Command(["audit", "later", "--json"], environment(home), tmp_path))
    assert trail["prefect"]["missing"] is None


def test_status_and_a_second_start_name_it(at_home: KeptServer, capsys: pytest.CaptureFixture[str]) -> None:
    shown = {}
    for word in ("status", "start"):
        with pytest.raises(SystemExit, match="0"):
            main(["server", word, "--json"])
        text = capsys.readouterr().out
        assert at_home.credentials.partition(":")[2] not in text
        shown[word] = json.loads(text)
    assert shown["status"]["answers"]
    assert not shown["start"]["started"]
    assert shown["status"]["pid"] == shown["start"]["pid"] == at_home.pid


@pytest.mark.usefixtures("unset")
def test_settings_of_prefect_come_first(at_home: KeptServer) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    assert server.own_server()[PREFECT_API_URL] == at_home.url
    with server.on_a_server():
        assert PREFECT_API_URL.value() == at_home.url
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        assert server.own_server() == {}
    assert server.notes() == ()


def test_a_profile_comes_first_too(kept: Kept, tmp_path: Path) -> None:
    (tmp_path / "profiles.toml").write_text(
        'active = "mine"\n[profiles.mine]\nPREFECT_API_URL = "http://127.0.0.1:9/api"\n'
    )
    look = "from causalveil.flows.engine.server import own_server; print(own_server())"
    around = environment(kept[0], PREFECT_HOME=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", look], env=around, capture_output=True, text=True, check=True)
    assert done.stdout == "{}\n"


@pytest.mark.usefixtures("unset")
@pytest.mark.parametrize(("changed", "said"), [({"prefect": "2.0"}, "runs Prefect 2.0"), ({}, "does not answer")])
def test_a_server_that_cannot_serve_is_named_and_passed_over(home: Path, changed: dict[str, Any], said: str) -> None:
    from importlib.metadata import version

    record(home, **({"prefect": version("prefect")} | changed))
    assert server.own_server() == {}
    (note,) = server.notes()
    assert said in note
    assert "causalveil server stop" in note


def test_a_number_that_is_used_again_is_never_killed(home: Path) -> None:
    other = subprocess.Popen(["sleep", "60"])
    try:
        started = server._started(other.pid)
        assert started is not None
        found = record(home, pid=other.pid, started=started - 1)
        assert server.find() is None
        assert server._end(found) is False
        assert server.stop() is None
        assert other.poll() is None
        assert not (home / "server/server.json").exists(), "the stale record is gone"
    finally:
        other.kill()
        other.wait()


def test_a_process_that_ended_is_no_server(home: Path) -> None:
    ended = subprocess.Popen(["true"])
    started = server._started(ended.pid)
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    record(home, pid=ended.pid, started=started or 0)
    assert server.find() is None, "it has its number until its parent looks"
    ended.wait()
    assert server.find() is None


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"pid": "x"}', "not json"])
def test_a_damaged_record_is_none(home: Path, text: str) -> None:
    record(home)
    assert server.find() is not None
    (home / "server/server.json").write_text(text)
    assert server.find() is None
    assert server.stop() is None


def test_a_record_that_others_can_read_or_redirect_is_none(home: Path, tmp_path: Path) -> None:
    record(home)
    path = home / "server/server.json"
    path.chmod(0o644)
    assert server.find() is None
    path.chmod(0o600)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert server.find() is None
    (home / "server").chmod(0o755)
    with pytest.raises(CausalveilError, match="chmod 700"):
        server.start()


def test_a_server_of_another_machine_is_left_to_it(home: Path) -> None:
    record(home, machine="another", host="elsewhere")
    assert server.find() is None
    with pytest.raises(CausalveilError, match="on the machine 'elsewhere'"):
        server.start()
    assert server.stop() is None
    assert (home / "server/server.json").exists()


def test_a_server_that_does_not_start_is_one_line(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(SystemExit, match="1"):
        main(["server", "start"])
    (line,) = capsys.readouterr().err.splitlines()
    assert "did not start" in line
    assert str(home / "server/server.log") in line
    assert not (home / "server/server.json").exists()


def test_a_start_that_is_killed_leaves_no_server(tmp_path: Path) -> None:
    begun = subprocess.Popen(
        ["/bin/sh", "-c", server.LAUNCH, "sh", "touch", str(tmp_path / "ran")], stdin=subprocess.PIPE
    )
    assert begun.stdin is not None
    begun.stdin.close()
    assert begun.wait(20) != 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.usefixtures("unset")
def test_a_first_run_offers_one_and_a_second_does_not(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for expected in ([server.OFFER], []):
        with server.on_a_server():
            pass
        with pytest.raises(SystemExit, match="0"):
            main(["--version"])
        shown = capsys.readouterr()
        assert shown.err.splitlines() == expected
        assert "server" not in shown.out


def test_no_proxy_hears_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("NO_PROXY", "internal.example")
    settings.prepare()
    settings.prepare()
    assert urllib.request.proxy_bypass("127.0.0.1:4200")
    assert urllib.request.proxy_bypass("internal.example")
    assert os.environ["no_proxy"] == "internal.example,127.0.0.1"
