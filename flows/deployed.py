"""The Prefect flows, which deployments name, as ``causalveil.flows.deployed.study``.

Prefect stores flow parameters, logs, state messages and artifacts: all of them are paths, ids and declared amounts.
A warehouse's URL comes from the worker's environment or from a Secret block and is handed to stages as a plain
argument, which Prefect does not see. The command alone tells the owner which rules rows break, and how many rows: the
message of an error names a column and a rule, never a count.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from causalveil.flows.engine import settings

settings.prepare()

from prefect import State, flow, runtime  # noqa: E402  (settings must be in place first)
from prefect.states import Cancelled  # noqa: E402

from causalveil.flows.engine.deployment import (  # noqa: E402
    one_at_a_time,
    refuse_open_server,
    store_nothing,
    tell_if_low,
    tell_late,
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
from causalveil.flows.run.admit import Extracted, admit_folder, extract_source, late_line  # noqa: E402
from causalveil.flows.run.declare import Loaded, already, find_data, load  # noqa: E402
from causalveil.flows.run.finished import RunResult, find_stored, give_back  # noqa: E402
from causalveil.flows.run.pooling import PooledResult, SeriesResult, make_series, pool_sites  # noqa: E402
from causalveil.flows.run.study import check_run_id, execute, run_of_question  # noqa: E402
from causalveil.schemas.admission import Admission  # noqa: E402
from causalveil.schemas.asked.study_file import load_study_file  # noqa: E402
from causalveil.schemas.errors import BudgetRefused, CausalveilError, ReleaseHeld, TooFewBlocks  # noqa: E402
from causalveil.schemas.hints import option  # noqa: E402
from causalveil.schemas.release import load_release_text  # noqa: E402
from causalveil.schemas.sites.round import load_sites  # noqa: E402
from causalveil.schemas.warehouse import load_source  # noqa: E402
from causalveil.tasks.data.data_folder import DataFolder  # noqa: E402
from causalveil.tasks.estimate.findings import failed_gates  # noqa: E402
from causalveil.tasks.machine.object_storage import folder_at  # noqa: E402
from causalveil.tasks.report.table import labelled  # noqa: E402

_LOG = logging.getLogger("causalveil.flow")
R = TypeVar("R", RunResult, PooledResult)


@flow(name="extract", log_prints=False, persist_result=False, validate_parameters=False)
def extract(source: str) -> Extracted | State[Extracted]:
    """Fill the folder that the source file names; the parameter is a path.

    An extract that found a block without rows ends in the state ``BlocksWithoutRows``: its rows may be late.
    """
    store_nothing()
    refuse_open_server()
    dataset = load_source(Path(source)).dataset
    with tagged(dataset=dataset), one_at_a_time(dataset):
        extracted = guarded(extract_source, Path(source), PrefectEngine())
    for line in extracted.news:
        _LOG.warning(line)
    late = late_line(extracted.manifest)
    if late is None:
        return extracted
    tell_late(extracted.manifest)
    return ended_as("BlocksWithoutRows", late, extracted)


def extract_with_prefect(path: Path, watch: Watcher) -> Extracted:
    """Run the flow in this process.

    Raises:
        CausalveilError: the stages' own; or that Prefect's API cannot be reached.
    """
    extracted: Extracted = in_this_process(lambda: extract(str(path)), watch)
    return extracted


@flow(name="admit", log_prints=False, persist_result=False, validate_parameters=False)
def admit(folder: str) -> Admission:
    """Hold all rows in a folder to their contract.

    The parameter is a path, or a URL of object storage.
    """
    store_nothing()
    refuse_open_server()
    with folder_at(folder) as place:
        opened = DataFolder(place)
        dataset = opened.contract.dataset
        with tagged(dataset=dataset), one_at_a_time(dataset):
            return guarded(admit_folder, opened, PrefectEngine())


def admit_with_prefect(folder: str, watch: Watcher) -> Admission:
    """Run the flow in this process.

    Raises:
        CausalveilError: the stage's own; or that Prefect's API cannot be reached.
    """
    admission: Admission = in_this_process(lambda: admit(folder), watch)
    return admission


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
            stored = guarded(find_stored, path, run) if run is not None and simulate is None else None
            if run is not None and stored is not None:
                release = load_release_text(stored)
                with tagged(study=release.study, dataset=release.dataset):
                    return _judged(give_back(stored, out, run, PrefectEngine()))
            return _judged(_run(_loaded(path), out, run, simulate))
    except ReleaseHeld as held:
        return ended_as("AwaitingApproval", str(held), None)


def _loaded(path: Path) -> Loaded:
    """Return the study; tag the run with the names of a refused study and its dataset too."""
    try:
        return guarded(load, path)
    except CausalveilError:
        with suppress(CausalveilError):
            file = load_study_file(path)
            add_tags(tags_by(study=file.name))
            folder = find_data(path, file)
            add_tags(tags_by(dataset=None if folder is None else folder.contract.dataset))
        raise


def _judged(outcome: R) -> R | State[R]:
    """Return the outcome, in a state of its own if a declared gate failed.

    The message of the state names the gate: gates are released.
    """
    problem = failed_gates(labelled(outcome.release))
    return outcome if problem is None else ended_as("GateFailed", problem, outcome)


def _run(loaded: Loaded, out: str | None, run: str | None, simulate: int | None) -> RunResult:
    contract = loaded.contract
    with tagged(study=loaded.study.name, dataset=contract.dataset), one_at_a_time(contract.dataset):
        if run is None:
            # Only now: the run that had the turn before may have answered the question, or changed the data.
            run = guarded(run_of_question, loaded)
            rename_flow_run(run)
            add_tags(tags_by(run=run))
            stored = guarded(find_stored, loaded.path, run)
            if stored is not None:
                return give_back(stored, out, run, PrefectEngine())
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


@flow(name="series", log_prints=False, persist_result=False, validate_parameters=False)
def series(study: str, out: str | None = None) -> SeriesResult | State[None]:
    """Pool the released blocks of a study's dataset, after each month's run.

    It reads released documents of the ledger alone and charges nothing.

    As long as there are too few of them it ends in the state ``TooFewBlocks``, which is no failure: a schedule begins
    with one block.
    """
    store_nothing()
    refuse_open_server()
    engine = PrefectEngine()
    loaded = guarded(load, Path(study))
    try:
        with tagged(study=loaded.study.name, dataset=loaded.contract.dataset), already(loaded):
            outcome = make_series(Path(study), out, engine)
    except TooFewBlocks as early:
        return Cancelled(name="TooFewBlocks", message=str(early))
    rows = [
        {"outcome": row.outcome, "group": row.group, "blocks": len(row.blocks), "estimate": row.estimate,
         "p_heterogeneity": row.heterogeneity and row.heterogeneity.p_value, "p_drift": row.drift and row.drift.p_value}
        for row in outcome.series.answers
    ]  # fmt: skip
    if outcome.series.unreleased:
        _LOG.warning(outcome.series.unreleased_words)
    engine.publish("series", rows, f"Series of {outcome.series.study} on {outcome.series.dataset}")
    return outcome


@flow(name="pool", log_prints=False, persist_result=False, validate_parameters=False)
def pool(sites: str, out: str | None = None) -> PooledResult | State[PooledResult]:
    """Verify every expected site's bundle and pool them.

    Bundles are public documents, and so is what it writes.
    The state is ``GateFailed`` if a declared gate did.
    """
    store_nothing()
    refuse_open_server()
    engine = PrefectEngine()
    terms = load_sites(Path(sites))
    with tagged(round=terms.round, study=load_study_file(Path(sites).parent / terms.study).name):
        outcome = pool_sites(Path(sites), out, engine)
    rows = [
        {"site": site.site, "units": site.units, "epsilon": float(site.epsilon), "estimate": part.estimate}
        for site, part in zip(outcome.release.sites, outcome.release.answers[0].sites, strict=True)
    ]
    engine.publish("pooled-sites", rows, f"Sites of round {outcome.release.round}")
    return _judged(outcome)
