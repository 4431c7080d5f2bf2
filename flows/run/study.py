"""One study file -> one release: declare, reserve, release. The same on every engine."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path

from causalveil.flows.engine.engine import DirectEngine, Engine, guarded
from causalveil.flows.engine.shown import reserved_line
from causalveil.flows.estimators.stage import RowSource, Run
from causalveil.flows.run.admit import Held, anchor_rows, hold
from causalveil.flows.run.declare import (
    Asked,
    Loaded,
    Request,
    _reservation,
    declare,
    on_record,
    prepare,
    reserve,
    sized,
)
from causalveil.flows.run.estimators import estimator_of, warnings_of
from causalveil.flows.run.finished import (
    RunResult,
    assemble_release,
    check_place,
    deliver,
    find_stored,
    give_back,
    place_of,
)
from causalveil.schemas.admission import Admission
from causalveil.schemas.contract import DataClass
from causalveil.schemas.errors import CausalveilError, ConvergenceError, DataError, LedgerError, StudyError
from causalveil.schemas.hints import option
from causalveil.schemas.ledger import Reservation
from causalveil.schemas.plan import Layout
from causalveil.schemas.release import release_text
from causalveil.schemas.study import SLUG, Study
from causalveil.tasks.data.data_folder import CONTENTS_LABEL, contents_digest
from causalveil.tasks.data.enclave import FileEnclave
from causalveil.tasks.data.manifests import admitted_as_they_lie, rows_folder
from causalveil.tasks.data.partitions import read_layout, segment_count
from causalveil.tasks.machine.site import open_scratch
from causalveil.tasks.privacy.budget import FlowBudget, records_folder
from causalveil.tasks.privacy.keys import key_of
from causalveil.tasks.privacy.ledger.ledger import Ledger, ledger_at_hand, open_ledger, throwaway_ledger
from causalveil.tasks.privacy.noise import SecureNoise, SeededNoise

_LOG = logging.getLogger("causalveil.flow")


def new_run_id(study: Study) -> str:
    """Return a fresh id: study, time, chance.

    It names folders and ledger rows and holds nothing of the data.
    """
    return f"{study.name}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


def run_of_question(loaded: Loaded) -> str:
    """Return the id of the run that asks this question of these bytes.

    It is the first that asked it, whatever its id, or the next free id.

    A free id names dataset, newest block and study, and digests of declared facts alone: study, paths and counts. Runs
    that ask the same of other bytes, and voided ones, are told apart by a number. Whether bytes are the same the
    ledger knows by digests under keys that stay here, and no id says it.

    Raises:
        CausalveilError: as :func:`execute` would, of study, contract, data folder and ledger.
    """
    with on_record(loaded.contract, loaded.study):
        asked = guarded(prepare, loaded, simulate=False)
    ledger, contract, layout = open_ledger(), asked.contract, asked.layout
    admission = admitted_as_they_lie(asked.folder, contract, layout, ledger.admission(contract.dataset))
    if contract.rows is not None and admission is not None:
        layout = read_layout(asked.study, rows_folder(asked.folder, admission))
    for run in ledger.runs_of_study(contract.dataset, asked.study.digest):
        if run.state != "voided" and _asks_the_same(run.reservation, asked, layout, admission):
            return run.reservation.run_id
    name = _name_of_question(asked, layout)
    names = chain([name], (f"{name}.{number}" for number in count(2)))
    return next(run_id for run_id in names if ledger.record(run_id) is None)


def _name_of_question(asked: Asked, layout: Layout) -> str:
    study, dataset = asked.study, asked.contract.dataset
    text = json.dumps([dataset, study.digest, layout.digest])
    newest = [block.partition("=")[2] for block in layout.dataset_blocks if block in layout.blocks][-1]
    words = (dataset[:40], re.sub(r"[^A-Za-z0-9_.-]", "_", newest)[:20], study.name[:40])
    return "-".join([*filter(None, words), hashlib.sha256(text.encode()).hexdigest()[:8]])


def _asks_the_same(before: Reservation, asked: Asked, layout: Layout, admission: Admission | None) -> bool:
    """Return whether an earlier run asked the same study of the same bytes."""
    if admission is None or (before.dataset, before.study_digest, before.layout_digest) != (
        asked.contract.dataset,
        asked.study.digest,
        layout.digest,
    ):
        return False
    own_key = key_of(before.run_id).subkey(CONTENTS_LABEL)
    return before.admission == admission.digest or before.contents == contents_digest(admission, layout, own_key)


def check_run_id(run_id: str) -> str:
    """Run ids become file names: letters, digits, dot, dash, underscore.

    Raises:
        StudyError: anything else.
    """
    if not isinstance(run_id, str) or not SLUG.fullmatch(run_id):
        raise StudyError("a run id has 1 to 120 letters, digits, '.', '-' or '_', and starts with a letter or digit")
    return run_id


def refuse_ahead(loaded: Loaded, out: str | Path | None, run_id: str, simulate: int | None) -> None:
    """Refuse what public files and the ledger decide, before anything slow is started.

    Raises:
        CausalveilError: as :func:`execute` would, at once.
    """
    asked = _checked(loaded, out, run_id, simulate)
    if simulate is not None:
        return
    ledger = open_ledger()
    _refuse_without_room(asked, run_id, ledger)
    if asked.contract.data_class is DataClass.sensitive:
        # Of these no row is read to hold them to their admission.
        hold(asked.contract, asked.folder, asked.layout, ledger, DirectEngine())


def _checked(loaded: Loaded, out: str | Path | None, run_id: str, simulate: int | None) -> Asked:
    """Check what needs neither ledger nor rows; a refusal by the contract is recorded."""
    with on_record(loaded.contract, loaded.study, run_id, simulate=simulate is not None):
        asked = guarded(prepare, loaded, simulate=simulate is not None)
    check_place(place_of(out, run_id), asked.study)
    return asked


def _refuse_without_room(asked: Asked, run_id: str, ledger: Ledger) -> None:
    """Ask the ledger for grant and room before rows are admitted, which takes minutes where they are many."""
    plan = asked.plan if isinstance(asked, Request) else declare(asked.study, None)
    ledger.refuse_ahead(_reservation(asked, plan, run_id), asked.contract)


def execute(loaded: Loaded, out: str | Path | None, run_id: str, simulate: int | None, engine: Engine) -> RunResult:
    """Declare, reserve, release: the whole run, on any engine.

    Raises:
        ReleaseHeld: the run is finished, and its release waits for the data's owner.
        CausalveilError: see ``schemas/errors.py``; the message says whether the reservation stands.
    """
    try:
        return _execute(loaded, out, run_id, simulate, engine)
    except CausalveilError:
        found = None if simulate is not None else _ended_meanwhile(loaded.path, run_id)
        if found is None:
            raise
    return give_back(found, out, run_id, engine)


def _ended_meanwhile(path: Path, run_id: str) -> str | None:
    """Return the release of another process that was started for the same run, where there is one.

    What went wrong here is what is said, whether or not the ledger can be read, and no ledger is made to look into.
    """
    with suppress(LedgerError):
        if ledger_at_hand() is not None:
            return find_stored(path, run_id)
    return None


def _execute(loaded: Loaded, out: str | Path | None, run_id: str, simulate: int | None, engine: Engine) -> RunResult:
    asked, target = _checked(loaded, out, run_id, simulate), place_of(out, run_id)
    with _ledger(simulate) as (ledger, place):
        _refuse_without_room(asked, run_id, ledger)
        held = hold(asked.contract, asked.folder, asked.layout, ledger, engine, place)
        request = guarded(_held, asked, held)
        granted = ledger.grant_itself(request.contract)
        reservation = reserve(request, held.admission, run_id, key_of(run_id, simulate))
        resumed = ledger.reserve(reservation, request.contract) == "resumed"
        noise = SecureNoise() if simulate is None else SeededNoise(simulate)
        budget = FlowBudget(ledger, reservation, noise, records_folder(run_id))
        drawn = ledger.charges_of(run_id) if resumed else 0
        stored = budget.stored_document()
        if stored is None:
            try:
                engine.announce(reservation)
                _LOG.info(reserved_line(reservation))
                # After the commit of the whole cost, before a row is read: an older copy of the ledger lacks it.
                anchored = anchor_rows(asked.contract, asked.folder, ledger)
                _release(request, held.admission, budget, engine, simulate, anchored)
            except CausalveilError as problem:
                if simulate is None:
                    settle(ledger, run_id, problem)
                raise
            finally:
                anchor_rows(asked.contract, asked.folder, ledger)
            stored = budget.stored_document()
        return deliver(
            ledger,
            str(stored),
            target,
            run_id,
            engine,
            resumed=resumed,
            returned=drawn,
            granted=granted,
            admitted=held.by_itself,
        )


def _held(asked: Asked, held: Held) -> Request:
    """Return the request for the admitted rows.

    They are those of the data folder, or what admission made of them, one per unit.
    """
    if isinstance(asked, Request):
        return replace(asked, folder=held.folder)
    return sized(asked, read_layout(asked.study, held.folder), held.folder)


# What does not go away by itself: the same study on the same data would fail again.
LASTING = (StudyError, DataError, ConvergenceError)


def settle(ledger: Ledger, run_id: str, problem: CausalveilError) -> None:
    """Void a failed run before its first draw, or say that it can go on.

    A run is voided only if it is sure to fail again.

    A full disk, a lost connection or a dead cluster say nothing about the study, and a scheduled retry has the same
    id: the reservation stands for it.
    """
    voided = False
    if isinstance(problem, LASTING):
        with suppress(LedgerError):
            voided = ledger.void_if_untouched(run_id, f"failed before the first draw: {type(problem).__name__}")
    if not voided:
        problem.args = (
            f"{problem}; the reservation of run {run_id} stands: go on with {option(run_id=run_id)} once this is "
            f"mended, or free what was not drawn: causalveil ledger void {run_id} --reason TEXT",
        )


def _release(
    request: Request,
    admission: Admission,
    budget: FlowBudget,
    engine: Engine,
    seed: int | None,
    anchored: bool | None,
) -> None:
    """Run the stages and store the finished document in the ledger."""
    study = request.study
    with open_scratch(budget.run_id) as scratch, engine.distributing(study.execution):
        source = RowSource(request.folder, request.layout, scratch, budget.run_id, seed, admission)
        enclave = FileEnclave(scratch, segment_count(request.layout, len(study.columns)))
        run = Run(study, request.sizes, enclave, budget, source)
        findings = estimator_of(study).estimate(run, engine)
    public = study, request.contract, request.plan, warnings_of(study, request.sizes)
    text = release_text(guarded(assemble_release, *public, findings, budget, request.data, anchored))
    budget.finish(text)


@contextmanager
def _ledger(simulate: int | None) -> Iterator[tuple[Ledger, Path | None]]:
    """Open the ledger of record.

    A simulation has one that is thrown away with the folder that it lies in.
    """
    if simulate is None:
        yield open_ledger(), None
        return
    with tempfile.TemporaryDirectory(prefix="causalveil-simulated-") as folder:
        yield throwaway_ledger(Path(folder)), Path(folder)
