"""Processes for tests: forked from a server that has imported the product and computed nothing.

A plain fork of the test process would copy the threads' locks of whatever ran before (Prefect, polars).
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
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
    """A process, not started, that calls ``work``; closures are welcome."""
    return CONTEXT.Process(target=_call, args=(cloudpickle.dumps(work), *arguments))


def _call(work: bytes, *arguments: Any) -> None:
    cloudpickle.loads(work)(*arguments)


def run_study_aloud(path: str, out: str, run_id: str, home: str, phases: Connection) -> None:
    """Run a study on the direct engine and tell each stage as it starts."""
    os.environ["CAUSALVEIL_HOME"] = home
    from causalveil.flows.api import run_study

    phases.send("start")
    run_study(path, out=out, run_id=run_id, engine="direct", watch=phases.send)
    phases.send("done")
