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
    AllowedStudy,
    Loaded,
    Request,
    declare,
    on_record,
    prepare,
    reserve,
    sized,
    unbound_reservation,
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
    """Return the id of the first run of this question on these bytes, or the next free id.

    A free id names dataset, newest block and study, and digests of declared facts alone: study, paths and counts. A
    number tells runs apart that ask the same of other bytes, or were voided. The ledger compares bytes by digests under
    keys that stay here, and no id shows whether bytes are the same.

    Raises:
        CausalveilError: as :func:`execute` would, of study, contract, data folder and ledger.
    """
    with on_record(loaded.contract, loaded.study):
        allowed = guarded(prepare, loaded, simulate=False)
    ledger, contract, layout = open_ledger(), allowed.contract, allowed.layout
    admission = admitted_as_they_lie(allowed.folder, contract, layout, ledger.admission(contract.dataset))
    if contract.rows is not None and admission is not None:
        layout = read_layout(allowed.study, rows_folder(allowed.folder, admission))
    for run in ledger.runs_of_study(contract.dataset, allowed.study.digest):
        if run.state != "voided" and _asks_the_same(run.reservation, allowed, layout, admission):
            return run.reservation.run_id
    name = _name_of_question(allowed, layout)
    names = chain([name], (f"{name}.{number}" for number in count(2)))
    return next(run_id for run_id in names if ledger.record(run_id) is None)


def _name_of_question(allowed: AllowedStudy, layout: Layout) -> str:
    study, dataset = allowed.study, allowed.contract.dataset
    text = json.dumps([dataset, study.digest, layout.digest])
    newest = [block.partition("=")[2] for block in layout.dataset_blocks if block in layout.blocks][-1]
    names = (dataset[:40], re.sub(r"[^A-Za-z0-9_.-]", "_", newest)[:20], study.name[:40])
    return "-".join([*filter(None, names), hashlib.sha256(text.encode()).hexdigest()[:8]])


def _asks_the_same(before: Reservation, allowed: AllowedStudy, layout: Layout, admission: Admission | None) -> bool:
    """Return whether an earlier run asked the same study of the same bytes."""
    if admission is None or (before.dataset, before.study_digest, before.layout_digest) != (
        allowed.contract.dataset,
        allowed.study.digest,
        layout.digest,
    ):
        return False
    own_key = key_of(before.run_id).subkey(CONTENTS_LABEL)
    return before.admission == admission.digest or before.contents == contents_digest(admission, layout, own_key)


def check_run_id(run_id: str) -> str:
    """Return a run id that can name files: letters, digits, dot, dash, underscore.

    Raises:
        StudyError: it cannot.
    """
    if not isinstance(run_id, str) or not SLUG.fullmatch(run_id):
        raise StudyError("a run id has 1 to 120 letters, digits, '.', '-' or '_', and starts with a letter or digit")
    return run_id


def refuse_ahead(loaded: Loaded, out: str | Path | None, run_id: str, simulate: int | None) -> None:
    """Refuse a run by public files and the ledger, before anything slow is started.

    Raises:
        CausalveilError: as :func:`execute` would, at once.
    """
    allowed = _checked(loaded, out, run_id, simulate)
    if simulate is not None:
        return
    ledger = open_ledger()
    _refuse_without_room(allowed, run_id, ledger)
    if allowed.contract.data_class is DataClass.sensitive:
        # No row of sensitive data is read to hold them to their admission.
        hold(allowed.contract, allowed.folder, allowed.layout, ledger, DirectEngine())


def _checked(loaded: Loaded, out: str | Path | None, run_id: str, simulate: int | None) -> AllowedStudy:
    """Check a run without ledger and rows; a refusal by the contract is recorded."""
    with on_record(loaded.contract, loaded.study, run_id, simulate=simulate is not None):
        allowed = guarded(prepare, loaded, simulate=simulate is not None)
    check_place(place_of(out, run_id), allowed.study)
    return allowed


def _refuse_without_room(allowed: AllowedStudy, run_id: str, ledger: Ledger) -> None:
    """Ask the ledger for grant and room before rows are admitted, which may take minutes."""
    plan = allowed.plan if isinstance(allowed, Request) else declare(allowed.study, None)
    ledger.refuse_ahead(unbound_reservation(allowed, plan, run_id), allowed.contract)


def execute(loaded: Loaded, out: str | Path | None, run_id: str, simulate: int | None, engine: Engine) -> RunResult:
    """Declare, reserve, release: the whole run, on any engine.

    Raises:
        ReleaseHeld: the run is finished, and its release waits for the data's owner.
        CausalveilError: see ``schemas/errors.py``; the message says whether the reservation stands.
    """
    try:
        return _execute(loaded, out, run_id, simulate, engine)
    except CausalveilError:
        release = None if simulate is not None else _ended_meanwhile(loaded.path, run_id)
        if release is None:
            raise
    return give_back(release, out, run_id, engine)


def _ended_meanwhile(path: Path, run_id: str) -> str | None:
    """Return the release of another process that was started for the same run; else None.

    An unreadable ledger hides no earlier error, and no ledger is made.
    """
    with suppress(LedgerError):
        if ledger_at_hand() is not None:
            return find_stored(path, run_id)
    return None


def _execute(loaded: Loaded, out: str | Path | None, run_id: str, simulate: int | None, engine: Engine) -> RunResult:
    allowed, target = _checked(loaded, out, run_id, simulate), place_of(out, run_id)
    with _ledger(simulate) as (ledger, place):
        _refuse_without_room(allowed, run_id, ledger)
        held = hold(allowed.contract, allowed.folder, allowed.layout, ledger, engine, place)
        request = guarded(_on_admitted_rows, allowed, held)
        granted = ledger.grant_itself(request.contract)
        reservation = reserve(request, held.admission, run_id, key_of(run_id, simulate))
        resumed = ledger.reserve(reservation, request.contract) == "resumed"
        noise = SecureNoise() if simulate is None else SeededNoise(simulate)
        budget = FlowBudget(ledger, reservation, noise, records_folder(run_id))
        committed = ledger.charges_of(run_id) if resumed else 0
        stored = budget.stored_document()
        if stored is None:
            try:
                engine.announce(reservation)
                _LOG.info(reserved_line(reservation))
                # After the commit of the whole cost, before a row is read: an older copy of the ledger lacks it.
                anchored = anchor_rows(allowed.contract, allowed.folder, ledger)
                _release(request, held.admission, budget, engine, simulate, anchored)
            except CausalveilError as problem:
                if simulate is None:
                    settle(ledger, run_id, problem)
                raise
            finally:
                anchor_rows(allowed.contract, allowed.folder, ledger)
            stored = budget.stored_document()
        return deliver(
            ledger,
            str(stored),
            target,
            run_id,
            engine,
            resumed=resumed,
            returned=committed,
            granted=granted,
            admitted=held.by_itself,
        )


def _on_admitted_rows(allowed: AllowedStudy, held: Held) -> Request:
    """Return the request for the admitted rows, reduced to one per unit where they were."""
    if isinstance(allowed, Request):
        return replace(allowed, folder=held.folder)
    return sized(allowed, read_layout(allowed.study, held.folder), held.folder)


# Errors that last: the same study on the same data would fail again.
LASTING = (StudyError, DataError, ConvergenceError)


def settle(ledger: Ledger, run_id: str, problem: CausalveilError) -> None:
    """Void a failed run before its first draw, or say that it can go on.

    A run is voided only if it is sure to fail again. After a full disk, a lost connection or a dead cluster the
    reservation stands for a retry, which has the same id.
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
    warnings = warnings_of(study, request.sizes)
    facts = study, request.contract, request.plan, warnings, findings, budget, request.data, anchored
    budget.finish(release_text(guarded(assemble_release, *facts)))


@contextmanager
def _ledger(simulate: int | None) -> Iterator[tuple[Ledger, Path | None]]:
    """Open the ledger of record, or of a simulation one that is deleted with its folder."""
    if simulate is None:
        yield open_ledger(), None
        return
    with tempfile.TemporaryDirectory(prefix="causalveil-simulated-") as folder:
        yield throwaway_ledger(Path(folder)), Path(folder)
