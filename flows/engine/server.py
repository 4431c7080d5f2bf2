"""A Prefect server of the user's own, and which server a command's flow runs on.

The server that Prefect's settings name comes first, wherever they name it: environment, profile or file. Then comes the
user's own, which `causalveil server start` leaves running for later runs, and else Prefect's temporary one, which
starts and stops with the run and costs it most of its time.

The user's own listens on loopback, has a database of its own in the state folder, and asks for a password that only the
user's own processes can read. Its socket is bound before the server starts and handed to it: while the server lives,
nobody else can answer at its address.
"""

from __future__ import annotations

import base64
import fcntl
import http.client
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from causalveil.flows.engine.settings import RELIED_ON
from causalveil.schemas.documents import parse_json, read_regular
from causalveil.schemas.errors import CausalveilError
from causalveil.tasks.machine.files import write_whole
from causalveil.tasks.machine.folders import machine
from causalveil.tasks.machine.site import home, private_folder

FOLDER, RECORD, LOCK, LOG = "server", "server.json", "lock", "server.log"
# A first start migrates a new database: 30 s on two cores that others keep busy.
START_SECONDS = 120.0
# A server that answers does so in milliseconds; one that is busy with other runs may take longer.
ANSWER_SECONDS = 5.0
STOP_SECONDS = 10.0
# The server inherits these and nothing else: what flows need is none of its business, and it has settings of its own.
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME")
# Waits for its record to be written; where the writer dies before, the input ends and no server starts.
LAUNCH = 'umask 077; read -r go && exec "$@" < /dev/null'


@dataclass(frozen=True)
class KeptServer:
    """The user's server: its address and its process.

    Attributes:
        pid: of the process.
        started: when the process started, in ticks since the machine did: a number that is used again differs.
        machine: the machine, between two of its starts.
        host: the machine's name, for people.
        port: on loopback.
        credentials: user and password, as Prefect's basic authentication takes them.
        prefect: version of Prefect that it runs.
    """

    pid: int
    started: int
    machine: str
    host: str
    port: int
    credentials: str
    prefect: str

    @property
    def url(self) -> str:
        """Return the address of its API."""
        return f"http://127.0.0.1:{self.port}/api"

    def lives(self) -> bool:
        """Tell whether this very process is running on this machine."""
        return self.machine == machine() and _started(self.pid) == self.started

    def answers(self, seconds: float = ANSWER_SECONDS) -> bool:
        """Tell whether it answers a call that bears its password."""
        bearing = {"Authorization": "Basic " + base64.b64encode(self.credentials.encode()).decode()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        try:
            connection.request("GET", "/api/admin/version", headers=bearing)
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def server_folder() -> Path:
    """Return the folder of the server's record, database and log, with mode 0700.

    Raises:
        CausalveilError: it cannot be made, or other users may write to it.
    """
    folder = private_folder(home() / FOLDER, "delete it")
    if folder.is_symlink() or folder.stat().st_mode & 0o077:
        raise CausalveilError(f"{folder}: other users can open the server's folder; run: chmod 700 '{folder}'")
    return folder


def find() -> KeptServer | None:
    """Return the user's server that is running on this machine; None if there is none."""
    server = _recorded()
    return server if server is not None and server.lives() else None


def start() -> tuple[KeptServer, bool]:
    """Start the user's server, unless it runs already, and wait until it answers.

    Returns:
        The server, and whether it was started just now.

    Raises:
        CausalveilError: it does not start, or one of this state folder runs on another machine.
    """
    with _alone() as folder:
        recorded = _recorded()
        if recorded is not None and recorded.machine != machine() and recorded.host != socket.gethostname():
            raise CausalveilError(
                f"your Prefect server was started on the machine '{recorded.host}': stop it there, or delete "
                f"{folder / RECORD} if that machine is gone"
            )
        running = recorded if recorded is not None and recorded.lives() else None
        server = running or _launch(folder)
        try:
            _wait(server, folder)
        except BaseException:
            # After Ctrl-C too, no server stays that does not answer.
            _end(server)
            (folder / RECORD).unlink(missing_ok=True)
            raise
        return server, running is None


def stop() -> KeptServer | None:
    """Stop the user's server, forget it and return it; None if none was running here.

    Another process that has the number of a server that ended is left alone.
    """
    if not (home() / FOLDER).is_dir():
        return None
    with _alone() as folder:
        server = _recorded()
        if server is None or server.lives() or server.machine == machine() or server.host == socket.gethostname():
            ended = server is not None and _end(server)
            (folder / RECORD).unlink(missing_ok=True)
            return server if ended else None
        return None


@contextmanager
def _alone() -> Iterator[Path]:
    """Hold the folder's lock, so that commands that start or stop the server take turns."""
    folder = server_folder()
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(handle)


def _recorded() -> KeptServer | None:
    """Return the recorded server; None without a record that this user alone can access."""
    path = home() / FOLDER / RECORD
    try:
        about = path.lstat()
        if about.st_uid != os.geteuid() or about.st_mode & 0o077:
            return None
        server = KeptServer(**parse_json(read_regular(path)))
    except (OSError, ValueError, TypeError):
        # Not there, or cut off by a power failure, which no server outlasts either.
        return None
    return server if isinstance(server.pid, int) and isinstance(server.port, int) else None


def _launch(folder: Path) -> KeptServer:
    """Start the process, write its record, then let it become the server."""
    credentials = f"causalveil:{secrets.token_urlsafe(32)}"
    command = [sys.executable, "-m", "uvicorn", "--factory", "prefect.server.api.server:create_app"]
    with socket.create_server(("127.0.0.1", 0)) as listening, _log(folder) as log:
        port = listening.getsockname()[1]
        command += ["--fd", str(listening.fileno()), "--log-level", "error", "--lifespan", "on"]
        child = subprocess.Popen(
            ["/bin/sh", "-c", LAUNCH, "sh", *command],
            env=_environment(folder, port, credentials),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=[listening.fileno()],
            start_new_session=True,
        )
    started, pipe = _started(child.pid), child.stdin
    if started is None or pipe is None:
        raise CausalveilError(_failed(folder))
    server = KeptServer(child.pid, started, machine(), socket.gethostname(), port, credentials, version("prefect"))
    with pipe:
        write_whole(folder / RECORD, json.dumps(asdict(server)), private=True)
        pipe.write(b"go\n")
    return server


def _environment(folder: Path, port: int, credentials: str) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {
        **inherited,
        **RELIED_ON,
        # A database, profiles and pages of its own; files that it makes are for its user alone by its umask.
        "PREFECT_HOME": str(folder),
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(folder / "pages"),
        "PREFECT_SERVER_API_HOST": "127.0.0.1",
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_SERVER_API_AUTH_STRING": credentials,
        # Pages of other origins may not read what the API answers.
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"http://127.0.0.1:{port}",
        "PREFECT__SERVER_FINAL": "1",
    }


@contextmanager
def _log(folder: Path) -> Iterator[int]:
    """Open the log of the server, for its user alone; what an earlier one wrote is gone."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(folder / LOG, flags, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


def _wait(server: KeptServer, folder: Path) -> None:
    """Return once the server answers.

    Raises:
        CausalveilError: it ended before, or takes too long.
    """
    deadline = time.monotonic() + START_SECONDS
    while not server.answers():
        if not server.lives() or time.monotonic() > deadline:
            raise CausalveilError(_failed(folder))
        time.sleep(0.1)


def _failed(folder: Path) -> str:
    return f"Prefect's server did not start; its output is in {folder / LOG}; runs use a temporary server"


def _started(pid: int) -> int | None:
    """Return when a process started, in ticks since the machine did; None if it does not run."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name of the program stands in brackets and may hold spaces and brackets.
    state, *fields = text.rpartition(")")[2].split()
    # A process that ended and that its parent has not looked at yet still has its number.
    return None if state in "ZX" else int(fields[18])


def _end(server: KeptServer) -> bool:
    """End the server's process, by force if need be; return whether it was running."""
    try:
        handle = os.pidfd_open(server.pid)
    except OSError:
        return False
    try:
        # Only now: the handle stays that of the process that has the number at this moment.
        if not server.lives():
            return False
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(handle, number)
            if select.select([handle], [], [], STOP_SECONDS)[0]:
                break
        return True
    finally:
        os.close(handle)


# Notes of this process for the end of its command.
_NOTES: list[str] = []
OFFER = (
    "Prefect started and stopped a temporary server for this run, which takes 10 to 20 seconds each time. "
    "To keep one of your own for later runs: causalveil server start"
)


@contextmanager
def on_a_server() -> Iterator[None]:
    """Have Prefect run a flow on the user's own server while the block runs.

    Prefect's settings come first where they name a server.
    """
    from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    own = own_server()
    if not own and not PREFECT_API_URL.value() and not (home() / FOLDER).exists():
        # The folder stands for the offer, which is made once for a state folder.
        server_folder()
        _note(OFFER)
    # The heartbeat thread costs a second at the end of a flow that lasts a few.
    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None, **own}):
        yield


def own_server() -> dict[Any, Any]:
    """Return the settings that make Prefect use the user's own server.

    They are empty if Prefect is told of a server, or none is usable.
    """
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL

    server = None if PREFECT_API_URL.value() else find()
    if server is None:
        return {}
    problem = None
    if server.prefect != version("prefect"):
        problem = f"runs Prefect {server.prefect}, and this is {version('prefect')}"
    elif not server.answers():
        problem = "does not answer"
    if problem:
        _note(
            f"Your Prefect server (process {server.pid}) {problem}, and was not used. "
            "Start it anew: causalveil server stop && causalveil server start"
        )
        return {}
    return {PREFECT_API_URL: server.url, PREFECT_API_AUTH_STRING: server.credentials}


def notes() -> tuple[str, ...]:
    """Return the notes for the end of the command, each sentence once, and forget them."""
    sentences = tuple(_NOTES)
    _NOTES.clear()
    return sentences


def _note(text: str) -> None:
    if text not in _NOTES:
        _NOTES.append(text)
