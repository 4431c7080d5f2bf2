"""The child of the kill tests: a module of its own with light imports, so that forking it is quick."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection


def run(path: str, out: str, run_id: str, home: str, phases: Connection) -> None:
    """Run a study on the direct engine and tell each stage as it starts."""
    os.environ["CAUSALVEIL_HOME"] = home
    from flows.spine import run_study

    phases.send("start")
    run_study(path, out=out, run_id=run_id, engine="direct", watch=phases.send)
    phases.send("done")
