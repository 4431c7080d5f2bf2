"""A Prefect server of one test: its own port, home and database."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests import session
from tests.faults import free_port


@contextmanager
def own_server(folder: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Start ``prefect server start`` with ``options``; yield the API's URL and the process, which is killed after."""
    port, log = free_port(), (folder / "server.log").open("wb")
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    around = os.environ | {"PREFECT_HOME": str(folder / "prefect"), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    around["PREFECT_API_DATABASE_CONNECTION_URL"] = f"sqlite+aiosqlite:///{folder / 'prefect.db'}"
    around.pop("PREFECT_API_URL", None)
    session.put_tables(folder / "prefect.db")
    running = subprocess.Popen([*command, *options], env=around, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}/api"
    try:
        for _ in range(600):
            try:
                # Without certificates, which took longer to read than the server to answer.
                if httpx.get(f"{url}/health", verify=False).is_success:
                    break
            except httpx.HTTPError:
                assert running.poll() is None, (folder / "server.log").read_text()[-2000:]
                time.sleep(0.2)
        session.keep_tables(folder / "prefect.db")
        yield url, running
    finally:
        running.kill()
        running.wait()
