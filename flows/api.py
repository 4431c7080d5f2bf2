"""Run a study from Python: the one place that chooses an engine.

    from causalveil.flows.api import run_study
    outcome = run_study("data/fertility/study.yaml", engine="direct")
    outcome.release.estimate, outcome.release.interval

The same order of stages runs under Prefect (the default) and directly; ledger and release are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from causalveil.flows.engine.engine import DirectEngine, Watcher
from causalveil.flows.engine.guard import guarded
from causalveil.flows.sequence.study import RunResult, already, check_run_id, execute, load, new_run_id

EngineName = Literal["prefect", "direct"]


def run_study(
    path: str | Path,
    *,
    out: str | Path | None = None,
    run_id: str | None = None,
    simulate: int | None = None,
    engine: EngineName | None = None,
    watch: Watcher = lambda _: None,
    announce: Callable[[str], None] = lambda _: None,
) -> RunResult:
    """Run a study to its release.

    Args:
        path: the study file; data and policy lie where it says.
        out: folder for the release (default ``releases/<run id>`` below the working directory).
        run_id: the same id again returns the stored release and charges nothing. Default: a fresh one.
        simulate: seed for reproducible noise on public or synthetic data: throw-away ledger, not for release.
        engine: ``prefect`` or ``direct``; default: what the study's ``execution`` says.
        watch: is told the name of each stage as it starts.
        announce: is told the run id before anything is reserved.

    Raises:
        CausalveilError: see ``schemas/errors.py``; nothing is charged before the first draw of noise.
    """
    path = Path(path)
    loaded = guarded(load, path)
    run_id = check_run_id(run_id or new_run_id(loaded.study))
    announce(run_id)
    chosen = engine or loaded.study.execution.engine
    if chosen == "direct":
        return execute(loaded, out, run_id, simulate, DirectEngine(watch))
    from causalveil.flows.study import run_with_prefect

    with already(loaded):
        return run_with_prefect(path, out, run_id, simulate, watch)
