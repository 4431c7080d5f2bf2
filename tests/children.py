"""Processes for tests: forked from a server that has imported the product and computed nothing.

A plain fork of the test process would copy the threads' locks of whatever ran before (Prefect, polars).
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import cloudpickle

PRELOAD = [
    "tests.children",
    "causalveil.flows.api",
    "scipy.stats",
    "pandera.polars",
    "dp_accounting.pld",
    "alembic.command",
    "sklearn.neural_network",
    # What a first run imports, a second of computing.
    "causalveil.flows.cli.main",
    "alembic.config",
    "mpmath",
    "opendp.prelude",
    "pandera.strategies.pandas_strategies",
    "psycopg",
    "pyarrow.parquet",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(PRELOAD)


def process(work: Callable[..., Any], *arguments: Any) -> Any:
    """A process, not started, that calls ``work`` in this process's environment; closures are welcome."""
    return CONTEXT.Process(target=_call, args=(cloudpickle.dumps(work), dict(os.environ), *arguments))


def _call(work: bytes, environment: dict[str, str], *arguments: Any) -> None:
    # The server has the environment of the test that happened to start it, with a ledger of its own perhaps.
    os.environ.clear()
    os.environ.update(environment)
    cloudpickle.loads(work)(*arguments)


class Command:
    """``python -m causalveil`` in a process of its own that need not import first; to be waited for as a ``Popen``."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self._shown = [Path(name) for _, name in (tempfile.mkstemp(), tempfile.mkstemp())]
        self._child = process(_command, tuple(words), dict(environment), str(folder), *map(str, self._shown))
        self._child.start()

    @property
    def returncode(self) -> int | None:
        """The exit code, once it is there."""
        return self._child.exitcode

    def communicate(self) -> tuple[str, str]:
        """Wait for the end; what was printed on standard output and on standard error."""
        self._child.join()
        out, err = (path.read_text() for path in self._shown)
        for path in self._shown:
            path.unlink()
        return out, err


def _command(words: tuple[str, ...], environment: dict[str, str], folder: str, *shown: str) -> None:
    os.environ.update(environment)
    os.chdir(folder)
    for stream, name in zip((1, 2), shown, strict=True):
        os.dup2(os.open(name, os.O_WRONLY), stream)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    sys.argv = ["causalveil", *words]
    try:
        runpy.run_module("causalveil", run_name="__main__")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def run_study_aloud(path: str, out: str, run_id: str, home: str, phases: Connection) -> None:
    """Run a study on the direct engine and tell each stage as it starts."""
    os.environ["CAUSALVEIL_HOME"] = home
    from causalveil.flows.api import run_study

    phases.send("start")
    run_study(path, out=out, run_id=run_id, engine="direct", watch=phases.send)
    phases.send("done")
