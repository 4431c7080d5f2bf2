"""The one place that chooses an engine for a run.

The same order of stages runs under Prefect (the default) and directly; ledger and release are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from causalveil.flows.engine.engine import DirectEngine, Watcher
from causalveil.flows.engine.guard import guarded
from causalveil.flows.sequence.declare import already, load
from causalveil.flows.sequence.finished import RunResult, find_stored, give_back
from causalveil.flows.sequence.study import check_run_id, execute, new_run_id, refuse_ahead, run_of_question
from causalveil.tasks.machine.site import site_settings

EngineName = Literal["prefect", "direct"]


def run_study(
    path: str | Path,
    *,
    out: str | Path | None = None,
    run_id: str | None = None,
    by_question: bool = False,
    simulate: int | None = None,
    engine: EngineName | None = None,
    watch: Watcher = lambda _: None,
    announce: Callable[[str], None] = lambda _: None,
) -> RunResult:
    """Run a study to its release.

    Args:
        path: the study file; data and contract lie where it says.
        out: folder for the release (default ``releases/<run id>`` below the working directory).
        run_id: the same id again returns the stored release and charges nothing. Default: a fresh one.
        by_question: without an id, take that of the run that asked the same question of the same bytes, if one did.
        simulate: seed for reproducible noise on public or synthetic data: throw-away ledger, not for release.
        engine: ``prefect`` or ``direct``; default: what the operator's settings say.
        watch: is told the name of each stage as it starts.
        announce: is told the run id before anything is reserved.

    Raises:
        ReleaseHeld: the run is finished, and its release waits for the data's owner.
        CausalveilError: see ``schemas/errors.py``; nothing is charged before the first draw of noise.
    """
    path = Path(path)
    # A finished run is found before contract, data and key are asked: they may have changed since.
    if run_id is not None and simulate is None and (found := guarded(find_stored, path, check_run_id(run_id))):
        announce(run_id)
        if (engine or site_settings().execution.engine) == "direct":
            return give_back(found, out, run_id, DirectEngine(watch))
        return _with_prefect(path, out, run_id, simulate, watch)
    loaded = guarded(load, path)
    if run_id is None and by_question and simulate is None:
        run_id = guarded(run_of_question, loaded)
        if guarded(find_stored, path, run_id):
            return run_study(path, out=out, run_id=run_id, engine=engine, watch=watch, announce=announce)
    run_id = check_run_id(run_id or new_run_id(loaded.study))
    announce(run_id)
    if (engine or loaded.study.execution.engine) == "direct":
        return execute(loaded, out, run_id, simulate, DirectEngine(watch))
    # Prefect takes seconds to import and more to start: what needs neither it nor a row is decided before.
    refuse_ahead(loaded, out, run_id, simulate)
    with already(loaded):
        return _with_prefect(path, out, run_id, simulate, watch)


def _with_prefect(path: Path, out: str | Path | None, run_id: str, simulate: int | None, watch: Watcher) -> RunResult:
    from causalveil.flows.study import run_with_prefect

    return run_with_prefect(path, out, run_id, simulate, watch)
