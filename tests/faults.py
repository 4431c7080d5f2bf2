"""What a run stands on breaks while it runs: its database, its disk. The run waits at an exact place meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests import crash
from tests.children import CONTEXT, process

WHY_NO_DISK = "a small file system can be mounted by root alone"
WHY_NO_CLUSTER = "no PostgreSQL programs here that a user other than root may run"
RELEASED = "released"


def halted(place: str, meanwhile: Callable[[], None], *run: Any) -> str:
    """Run a study in a process of its own, call ``meanwhile`` here while it waits at ``place`` (``crash.places``).

    Returns:
        ``released``, or the one line with which the run was refused.
    """
    here, there = CONTEXT.Pipe()
    child = process(_run, place, there, *run)
    child.start()
    there.close()
    try:
        assert here.recv() == "there", f"never came to {place}"
        meanwhile()
        here.send("go")
        how: str = here.recv()
    finally:
        child.join()
    assert child.exitcode == 0, f"{place}: ended with {child.exitcode}"
    return how


def _run(place: str, told: Connection, path: str, out: str, run_id: str, around: dict[str, str]) -> None:
    os.environ.update(around)
    from causalveil.flows.api import run_study
    from causalveil.schemas.errors import CausalveilError
    from causalveil.tasks.privacy.ledger import store

    # A server that stays away is given up soon.
    store.AWAY_SECONDS = 2.0

    seen: Counter[str] = Counter()

    def pass_by(name: str) -> None:
        seen[name] += 1
        if (name if seen[name] == 1 else f"{name}#{seen[name]}") == place:
            told.send("there")
            told.recv()

    crash.watch_commits(pass_by)
    try:
        run_study(path, out=out, run_id=run_id, engine="direct", watch=lambda stage: pass_by(f"stage:{stage}"))
    except CausalveilError as problem:
        told.send(str(problem))
    else:
        told.send(RELEASED)


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path | None]:
    """A file system of its own at ``folder``; None where nobody may mount one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    options = f"size={megabytes}m,mode=700"
    try:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)
    except OSError:
        done = None
    if done is None or done.returncode != 0:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path, left: int) -> Path:
    """Leave ``left`` bytes of a file system free; the file to be removed again."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as stream:
        with suppress(OSError):
            while stream.write(b"\0" * (1 << 16)) == 1 << 16:
                pass
        with suppress(OSError):
            while stream.write(b"\0" * 4096) == 4096:
                pass
        stream.truncate(max(0, stream.tell() - left))
    return ballast


@dataclass
class Cluster:
    """A PostgreSQL server of a test's own."""

    programs: Path
    data: Path
    port: int
    user: str | None

    @property
    def url(self) -> str:
        return f"postgresql://drill@127.0.0.1:{self.port}/postgres"

    def _do(self, program: str, *words: str) -> None:
        command = [str(self.programs / program), *words]
        done = subprocess.run(
            command, user=self.user, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=300
        )
        assert done.returncode == 0, done.stderr.decode()

    def make(self) -> None:
        self._do("initdb", "-D", str(self.data), "-U", "drill", "-A", "trust", "-E", "UTF8", "--wal-segsize=1")

    def start(self) -> None:
        settings = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
        settings += " -c max_wal_size=4MB -c min_wal_size=2MB"
        log = str(self.data / "log")
        self._do("pg_ctl", "start", "-w", "-D", str(self.data), "-o", settings, "-l", log)

    def stop(self, how: str = "fast") -> None:
        self._do("pg_ctl", "stop", "-w", "-D", str(self.data), "-m", how)

    def end(self) -> None:
        """Whatever state it is in; come back when it is gone."""
        with suppress(FileNotFoundError, ProcessLookupError, IndexError):
            server = int((self.data / "postmaster.pid").read_text().split()[0])
            os.kill(server, signal.SIGQUIT)
            for _ in range(300):
                os.kill(server, 0)
                time.sleep(0.1)

    def copy(self) -> Cluster:
        """The files of a server that is stopped, for a server on another port."""
        other = Cluster(self.programs, self.data.with_name(f"copy-{free_port()}"), free_port(), self.user)
        subprocess.run(["cp", "-a", str(self.data), str(other.data)], check=True)
        return other


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def programs() -> Path | None:
    """Where the server's programs are."""
    places = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    if (found := shutil.which("pg_ctl")) is not None:
        places.append(Path(found).resolve().parent)
    return next((place for place in places if (place / "initdb").exists() and (place / "pg_ctl").exists()), None)


@contextmanager
def cluster(within: Path | None = None) -> Iterator[Cluster | None]:
    """A new server; None where there are no programs. ``within``: a folder that the server's user may enter."""
    place, root = programs(), os.geteuid() == 0
    if place is None or (root and subprocess.run(["id", "postgres"], capture_output=True).returncode != 0):
        yield None
        return
    user = "postgres" if root else None
    folder = Path(tempfile.mkdtemp(prefix="causalveil-drill-", dir=within))
    if user:
        shutil.chown(folder, user)
    server = Cluster(place, folder / "data", free_port(), user)
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.end()
        shutil.rmtree(folder, ignore_errors=True)
