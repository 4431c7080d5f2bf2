"""The Prefect flow around a study.

The entry of deployments, ``causalveil.flows.study.study``, and of `causalveil run`.

Prefect stores flow parameters, logs, state messages and artifacts: all of them are paths, ids and declared amounts.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from causalveil.flows.engine import settings
from causalveil.schemas.hints import option

settings.prepare()

from prefect import State, flow, runtime  # noqa: E402  (settings must be in place first)

from causalveil.flows.engine.deployment import (  # noqa: E402
    one_at_a_time,
    refuse_open_server,
    store_nothing,
    tell_if_low,
    tell_refused,
)
from causalveil.flows.engine.engine import Watcher, guarded  # noqa: E402
from causalveil.flows.engine.prefect_engine import (  # noqa: E402
    PrefectEngine,
    add_tags,
    ended_as,
    in_this_process,
    rename_flow_run,
    tagged,
)
from causalveil.flows.engine.shown import tags_by  # noqa: E402
from causalveil.flows.run.declare import Loaded, find_data, load  # noqa: E402
from causalveil.flows.run.finished import RunResult, find_stored, give_back  # noqa: E402
from causalveil.flows.run.study import check_run_id, execute, run_of_question  # noqa: E402
from causalveil.schemas.asked.study_file import load_study_file  # noqa: E402
from causalveil.schemas.errors import BudgetRefused, CausalveilError, ReleaseHeld  # noqa: E402
from causalveil.schemas.release import load_release_text  # noqa: E402
from causalveil.tasks.estimate.findings import failed_gates  # noqa: E402
from causalveil.tasks.report.table import labelled  # noqa: E402


def default_run_id() -> str:
    """Return a name that is stable across retries.

    It is deployment and scheduled time, else the flow run's own id.
    """
    if runtime.deployment.name and runtime.flow_run.scheduled_start_time:
        name = str(runtime.deployment.name).replace(" ", "-")
        return f"{name}-{runtime.flow_run.scheduled_start_time:%Y%m%dT%H%M%S}"
    return f"flow-{runtime.flow_run.id}"


def run_name() -> str:
    """Name a flow run by its run id, so that `causalveil audit` finds it.

    It is renamed once its question has an id.
    """
    return str(runtime.flow_run.parameters.get("run_id") or default_run_id())


@flow(
    name="study",
    flow_run_name=run_name,
    log_prints=False,
    persist_result=False,
    validate_parameters=False,
)
def study(
    study: str,
    out: str | None = None,
    run_id: str | None = None,
    simulate: int | None = None,
    again: bool = False,
) -> RunResult | State[RunResult] | State[None]:
    """Run one study to its release; the parameters are paths and ids.

    Without ``run_id`` the run is that of its question: the same study on the same bytes returns the same release, free
    of charge, however often a schedule fires. ``again`` asks anew, once for each scheduled time.

    A run whose release waits for the data's owner ends in the state ``AwaitingApproval``, and one whose declared gate
    failed in ``GateFailed``: nothing is left to run, and the charges stand.
    """
    store_nothing()
    refuse_open_server()
    path = Path(study)
    run = check_run_id(run_id or default_run_id()) if run_id or again or simulate is not None else None
    try:
        with tagged(run=run):
            found = guarded(find_stored, path, run) if run is not None and simulate is None else None
            if run is not None and found is not None:
                release = load_release_text(found)
                with tagged(study=release.study, dataset=release.dataset):
                    return _judged(give_back(found, out, run, PrefectEngine()))
            return _judged(_run(_loaded(path), out, run, simulate))
    except ReleaseHeld as held:
        return ended_as("AwaitingApproval", str(held), None)


def _loaded(path: Path) -> Loaded:
    """Return the study.

    One that is refused here is found by its tags too, as far as its files can be read.
    """
    try:
        return guarded(load, path)
    except CausalveilError:
        with suppress(CausalveilError):
            asked = load_study_file(path)
            add_tags(tags_by(study=asked.name))
            folder = find_data(path, asked)
            add_tags(tags_by(dataset=None if folder is None else folder.contract.dataset))
        raise


def _judged(outcome: RunResult) -> RunResult | State[RunResult]:
    """Return the outcome, in a state of its own if a declared gate failed.

    The message of the state names the gate: gates are released.
    """
    said = failed_gates(labelled(outcome.release))
    return outcome if said is None else ended_as("GateFailed", said, outcome)


def _run(loaded: Loaded, out: str | None, run: str | None, simulate: int | None) -> RunResult:
    contract = loaded.contract
    with tagged(study=loaded.study.name, dataset=contract.dataset), one_at_a_time(contract.dataset):
        if run is None:
            # Only now: who had the turn before may have answered the question, or changed the data.
            run = guarded(run_of_question, loaded)
            rename_flow_run(run)
            add_tags(tags_by(run=run))
            found = guarded(find_stored, loaded.path, run)
            if found is not None:
                return give_back(found, out, run, PrefectEngine())
        try:
            outcome = execute(loaded, out, run, simulate, PrefectEngine())
        except BudgetRefused as refusal:
            tell_refused(contract, run, str(refusal))
            raise
        tell_if_low(contract, outcome)
    return outcome


def run_with_prefect(
    path: Path, out: str | Path | None, run_id: str, simulate: int | None, watch: Watcher
) -> RunResult:
    """Run the flow in this process.

    Raises:
        ReleaseHeld: the run is finished, and its release waits for the data's owner.
        CausalveilError: the stages' own; or that Prefect's API cannot be reached.
    """
    named = study.with_options(flow_run_name=run_id)
    outcome = in_this_process(
        lambda: named(str(path), None if out is None else str(out), run_id, simulate),
        watch,
        f"; {option(run_id=run_id)} continues this run",
    )
    if not isinstance(outcome, RunResult):
        raise ReleaseHeld(run_id)
    return outcome
