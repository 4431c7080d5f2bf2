"""One study file -> one release: declare, reserve, release. The same on every engine."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from pydantic import ValidationError

from causalveil.flows.engine.engine import DirectEngine, Engine
from causalveil.flows.engine.guard import guarded
from causalveil.flows.sequence.admit import Held, hold
from causalveil.flows.sequence.choose import candidates, chosen
from causalveil.flows.sequence.estimators import estimator_of, warnings_of
from causalveil.flows.sequence.finished import (
    ItsOwnDoing,
    RunResult,
    Stored,
    check_place,
    deliver,
    find_stored,
    give_back,
    place_of,
)
from causalveil.flows.sequence.publish import assemble_release
from causalveil.flows.sequence.refusals import on_record
from causalveil.flows.sequence.run import RowSource, Run
from causalveil.schemas.admission.manifest import Admission
from causalveil.schemas.asked.shorthands import AutoEstimator
from causalveil.schemas.asked.study_file import StudyFile, load_study_file
from causalveil.schemas.columns import ordinary
from causalveil.schemas.contract import Contract, DataClass, Review, check_allowed
from causalveil.schemas.errors import CausalveilError, ConvergenceError, DataError, LedgerError, StudyError
from causalveil.schemas.ledger import Reservation
from causalveil.schemas.plan import Layout, Plan, Sizes
from causalveil.schemas.release import DataStatement, release_text
from causalveil.schemas.sources import TableSnapshot
from causalveil.schemas.study import SLUG, Study
from causalveil.tasks.admission.manifests import admitted_as_they_lie, kept_admission, rows_folder
from causalveil.tasks.enclave.data_folder import CONTENTS_LABEL, DataFolder, contents_digest
from causalveil.tasks.enclave.enclave import FileEnclave
from causalveil.tasks.enclave.partitions import read_layout, segment_count
from causalveil.tasks.enclave.split import sizes_of
from causalveil.tasks.enclave.validate import check_manifest, refuse_telling_losses, snapshots_of
from causalveil.tasks.machine.site import open_scratch, site_settings
from causalveil.tasks.privacy.accountant import epsilon_pld, total
from causalveil.tasks.privacy.budget import FlowBudget, records_folder
from causalveil.tasks.privacy.keys import RunKey, key_of
from causalveil.tasks.privacy.ledger.ledger import Ledger, ledger_at_hand, open_ledger, throwaway_ledger
from causalveil.tasks.privacy.ledger.usage import WHOLE
from causalveil.tasks.privacy.noise import SecureNoise, SeededNoise
from causalveil.tasks.warehouse.object_storage import local_copy
from causalveil.tasks.warehouse.object_storage import stored as in_a_store

# In place of a key's check, where a reservation is only asked about and not made.
NO_KEY = "none"


@dataclass(frozen=True)
class Loaded:
    """A study file, the folder of its data, opened, and what their owner allows. A run opens and parses them once."""

    path: Path
    study: Study
    folder: DataFolder
    contract: Contract


SEVERAL_BLOCKS = (
    "the contract says that units may have rows in several blocks, and a run has one row of each unit; write "
    "data: {select: {newest: 1}} into the study"
)
_LOADED: ContextVar[Loaded | None] = ContextVar("loaded", default=None)


@dataclass(frozen=True)
class Asked:
    """A study that its contract allows, and the partitions in the data folder."""

    study: Study
    folder: DataFolder
    contract: Contract
    layout: Layout
    snapshots: tuple[TableSnapshot, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True)
class Request(Asked):
    """A study with everything that is public about its run; ``folder`` and ``layout`` are what it reads."""

    sizes: Sizes
    plan: Plan
    data: DataStatement | None = None


def declare(study: Study, sizes: Sizes | None) -> Plan:
    """Every charge of ``study`` from public facts; no row is read.

    Raises:
        StudyError: a scale is no ordinary number; or the charges do not compose to what the study requests (a defect,
            not a user's mistake).
    """
    try:
        charges = estimator_of(study).declare(study, sizes)
    except ValidationError:
        raise StudyError(
            "a part of the study's budget would be no amount (0, or 1e-30 to 1e6 with at most 15 digits): ask for more "
            "'privacy.epsilon' or 'delta', or for shares with fewer digits"
        ) from None
    cost = total(charges, study.privacy.cost)
    if cost != study.privacy.cost:
        raise StudyError(f"the plan adds up to {cost} but the study requests {study.privacy.cost}; report this")
    for charge in charges:
        if not (ordinary(charge.sensitivity) and ordinary(charge.noise_scale)):
            raise StudyError(
                f"charge '{charge.name}' would have a sensitivity or a noise scale that is infinite, denormal or none; "
                "declare ranges, clips and penalties nearer to everyday numbers"
            )
    known = all(charge.noise_scale is not None for charge in charges)
    return Plan(
        study=study.name,
        study_digest=study.digest,
        sizes=sizes,
        charges=charges,
        total=cost,
        epsilon_pld=epsilon_pld(charges, cost.delta) if known else None,
    )


def load_study(path: str | Path, units: int | None = None) -> Study:
    """A study file completed by the contract of its data; by itself alone where no contract is at hand.

    Args:
        path: of the file.
        units: n, by which an estimator is chosen where the file leaves it open; None: as the Parquet footers say.

    Raises:
        StudyError: the study or the contract is wrong, or they contradict each other.
        DataError: partitions are there but cannot be read.

    Examples:
        >>> import causalveil
        >>> study = causalveil.load_study("data/lalonde/study-difference.yaml")
        >>> study.estimator.name, study.outcome.lower, study.outcome.upper
        ('difference_in_means', 0.0, 40000.0)
    """
    asked = load_study_file(Path(path))
    return _completed(Path(path), asked, find_data(Path(path), asked), units)


def _completed(path: Path, asked: StudyFile, folder: DataFolder | None, units: int | None) -> Study:
    """Complete a study file by the contract in its data folder, as it was opened."""
    # A study that travels declares all of it, and can be planned where no data are.
    contract = None if folder is None else folder.find_contract()
    studies = candidates(asked, contract, str(path), site_settings().execution)
    if units is None and len(studies) > 1:
        units = units_there(studies[0], folder)
    return chosen(studies, asked, units)


def units_there(study: Study, folder: DataFolder | None) -> int | None:
    """:func:`known_units`; None where there is no folder, no contract or no partition."""
    if folder is None or folder.find_contract() is None or not any(folder.parquet_paths()):
        return None
    return known_units(study, folder)


def plan_study(path: str | Path, units: int | None = None) -> tuple[Study, Plan]:
    """Plan a study without reading a row: ``units`` or the counts in Parquet footers, else formulas in n.

    Raises:
        StudyError: the study is wrong, or ``units`` cannot be split.
        DataError: partitions are there but cannot be read.
    """
    asked = load_study_file(Path(path))
    # Opened once: the number of units is of the folder whose contract completes the study.
    folder = find_data(Path(path), asked)
    study = _completed(Path(path), asked, folder, units)
    if units is None:
        units = units_there(study, folder)
    return study, declare(study, None if units is None else sizes_of(study, units))


def known_units(study: Study, folder: DataFolder) -> int | None:
    """Return how many units a run on the data folder would have; None if not known yet.

    It is not known where rows are to be reduced and were not yet.

    Raises:
        ContractError: the contract is wrong.
        DataError: partitions cannot be read.
    """
    contract = folder.find_contract()
    if contract is not None:
        refuse_telling_losses(contract, folder)
    layout = read_layout(study, folder)
    if contract is None or contract.rows is None:
        return layout.units
    admission = kept_admission(folder, contract)
    blocks = set(layout.blocks)
    return None if admission is None else sum(file.rows for file in admission.files if file.block in blocks)


def known_sizes(plan: Plan) -> Sizes:
    """The sizes of a plan that has them.

    Raises:
        StudyError: the number of units is unknown.
    """
    if plan.sizes is None:
        raise StudyError("this needs the number of units: give --units N, or put the partitions in place")
    return plan.sizes


def load(path: Path) -> Loaded:
    """Parse the study and its contract, unless :func:`already` has them.

    Raises:
        StudyError: study or contract missing or wrong.
    """
    known = _LOADED.get()
    if known is not None and known.path == path:
        return known
    asked = load_study_file(path)
    folder = DataFolder(data_folder(path, asked))
    contract = folder.contract
    with on_record(contract, asked):
        studies = candidates(asked, contract, str(path), site_settings().execution)
        units = known_units(studies[0], folder) if isinstance(asked.estimator, AutoEstimator) else None
        return Loaded(path, chosen(studies, asked, units), folder, contract)


@contextmanager
def already(loaded: Loaded) -> Iterator[None]:
    """Let :func:`load` return ``loaded`` within the block: a Prefect flow has paths for parameters, never a study."""
    token = _LOADED.set(loaded)
    try:
        yield
    finally:
        _LOADED.reset(token)


def prepare(loaded: Loaded, *, simulate: bool) -> Asked:
    """Check what the owner allows and read the layout: footers, never rows.

    Raises:
        StudyError: the contract forbids the study, or it reads several blocks of units that may be in each.
        BudgetRefused: the level has no cap.
        DataError: no partitions, unreadable ones, or others than their extract's manifest says.
    """
    study, folder, contract = loaded.study, loaded.folder, loaded.contract
    check_allowed(contract, study, simulate=simulate)
    refuse_telling_losses(contract, folder)
    if simulate:
        contract = contract.for_simulation
    layout = read_layout(study, folder)
    if contract.units_span_blocks and len(layout.blocks) > 1:
        raise StudyError(SEVERAL_BLOCKS)
    if contract.rows is not None:
        # How many units there are is known once their rows are one each.
        declare(study, None)
        return Asked(study, folder, contract, layout, snapshots=snapshots_of(folder, layout))
    check_manifest(study, folder, layout)
    return sized(Asked(study, folder, contract, layout, snapshots=snapshots_of(folder, layout)), layout)


def sized(asked: Asked, layout: Layout, folder: DataFolder | None = None) -> Request:
    """Return the request with its sizes and plan, for partitions of one row per unit.

    Args:
        asked: what the contract allows.
        layout: the partitions that the run reads.
        folder: where they lie, if not in the data folder.

    Raises:
        StudyError: the study has no proof on so few units.
    """
    sizes = sizes_of(asked.study, layout.units)
    plan = declare(asked.study, sizes)
    public = asked.study, folder or asked.folder, asked.contract, layout, sizes, plan, data_statement(asked)
    return Request(*public, snapshots=asked.snapshots)


def data_statement(asked: Asked) -> DataStatement | None:
    """Count the rows behind the units of public and synthetic data, and those that their extract left out.

    Raises:
        DataError: the manifest cannot be read.
    """
    if asked.contract.data_class is DataClass.sensitive:
        return None
    read = {partition.path.partition("/")[0] for partition in asked.layout.partitions}
    manifest = asked.folder.manifest()
    left_out = Counter[str]()
    for block in () if manifest is None else manifest.blocks:
        if block.block in read:
            left_out.update(block.left_out)
    return DataStatement(
        rows=asked.layout.units + left_out.total(),
        left_out=dict(left_out),
        bounds_from_data=tuple(name for name in asked.contract.bounds_from_data if name in asked.study.columns),
    )


def data_folder(path: Path, study: StudyFile | Study) -> Path:
    """``data.path`` is relative to the study file; of a URL it is the copy on this machine's disk.

    Raises:
        CausalveilError: the store does not answer, or has nothing there.
    """
    if in_a_store(study.data.path):
        return local_copy(study.data.path)
    return (path.parent / study.data.path).resolve()


def find_data(path: Path, study: StudyFile | Study) -> DataFolder | None:
    """The data folder of a study, opened; None where no data are at hand.

    Raises:
        DataError: it cannot be read.
    """
    return DataFolder.find(data_folder(path, study))


def new_run_id(study: Study) -> str:
    """A fresh id: study, time, chance. It names folders and ledger rows and holds nothing of the data."""
    return f"{study.name}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


def run_of_question(loaded: Loaded) -> str:
    """Return the id of the run that asks this question of these bytes: one that is there, or the next free one.

    The id names dataset, newest block and study, and digests of declared facts alone: study, paths and counts. Runs
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
    name = _name_of_question(asked, layout)
    for number in count(1):
        run_id = name if number == 1 else f"{name}.{number}"
        run = ledger.record(run_id)
        if run is None or (run.state != "voided" and _asks_the_same(run.reservation, asked, layout, admission)):
            return run_id
    raise AssertionError


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
    if not SLUG.fullmatch(run_id):
        raise StudyError("a run id has 1 to 120 letters, digits, '.', '-' or '_', and starts with a letter or digit")
    return run_id


def refuse_ahead(loaded: Loaded, out: str | Path | None, run_id: str, simulate: int | None) -> None:
    """Refuse what public files and the ledger decide, before anything slow is imported or started.

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
    check_place(place_of(out, run_id))
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


def _ended_meanwhile(path: Path, run_id: str) -> Stored | None:
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
                _release(request, held.admission, budget, engine, simulate)
            except CausalveilError as problem:
                if simulate is None:
                    settle(ledger, run_id, problem)
                raise
            stored = budget.stored_document()
        itself = ItsOwnDoing(granted=granted, admitted=held.by_itself)
        return deliver(ledger, str(stored), target, run_id, engine, resumed=resumed, itself=itself, returned=drawn)


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
    """After a failure: void a run that is sure to fail again before its first draw, else say that it can go on.

    A full disk, a lost connection or a dead cluster say nothing about the study, and a scheduled retry has the same
    id: the reservation stands for it.
    """
    voided = False
    if isinstance(problem, LASTING):
        with suppress(LedgerError):
            voided = ledger.void_if_untouched(run_id, f"failed before the first draw: {type(problem).__name__}")
    if not voided:
        problem.args = (
            f"{problem}; the reservation of run {run_id} stands: go on with --run-id {run_id} once this is mended, or "
            f"free what was not drawn: causalveil ledger void {run_id} --reason TEXT",
        )


def _release(request: Request, admission: Admission, budget: FlowBudget, engine: Engine, seed: int | None) -> None:
    """Run the stages and store the finished document in the ledger."""
    study = request.study
    with open_scratch(budget.run_id) as scratch, engine.distributing(study.execution):
        source = RowSource(request.folder, request.layout, scratch, budget.run_id, seed, admission)
        enclave = FileEnclave(scratch, segment_count(request.layout, len(study.columns)))
        run = Run(study, request.sizes, enclave, budget, source)
        findings = estimator_of(study).estimate(run, engine)
    public = study, request.contract, request.plan, warnings_of(study, request.sizes)
    text = release_text(guarded(assemble_release, *public, findings, budget, request.data))
    budget.finish(text)


def blocks_charged(contract: Contract, layout: Layout) -> tuple[str, ...]:
    """The blocks whose accounts a run on this layout is charged to."""
    # A unit that may lie in several blocks has one account, whatever blocks lie in the folder today.
    return (WHOLE,) if contract.units_span_blocks else layout.blocks


def reserve(request: Request, admission: Admission, run_id: str, key: RunKey) -> Reservation:
    """Return the reservation that the ledger holds of a run before it starts.

    ``admission`` is the manifest of its data.
    """
    return _reservation(request, request.plan, run_id).model_copy(
        update={
            "contents": contents_digest(admission, request.layout, key.subkey(CONTENTS_LABEL)),
            "admission": admission.digest,
            "key_check": key.check,
        }
    )


def _reservation(asked: Asked, plan: Plan, run_id: str) -> Reservation:
    """Return a reservation of what is public, bound to no key and no rows yet."""
    study, contract, layout = asked.study, asked.contract, asked.layout
    return Reservation(
        run_id=run_id,
        dataset=contract.dataset,
        level=study.privacy.level,
        blocks=blocks_charged(contract, layout),
        cost=plan.total,
        charges=plan.charges,
        study=study.name,
        study_digest=study.digest,
        layout_digest=layout.digest,
        units=layout.units,
        key_check=NO_KEY,
        estimator=study.estimator.name,
        guarantee=study.guarantee,
        policy_digest=contract.digest,
        review=contract.review is Review.required,
        purpose=study.purpose,
        unbounded_halves=study.unbounded,
        snapshots=asked.snapshots,
    )


@contextmanager
def _ledger(simulate: int | None) -> Iterator[tuple[Ledger, Path | None]]:
    """Open the ledger of record; for a simulation one that is thrown away with the folder that it lies in."""
    if simulate is None:
        yield open_ledger(), None
        return
    with tempfile.TemporaryDirectory(prefix="causalveil-simulated-") as folder:
        yield throwaway_ledger(Path(folder)), Path(folder)
