"""The way from a study file to a reservation.

Load it, hold it to its contract, declare its charges.

Refusals that come before a reservation are recorded: an owner reads in the ledger who asked for what the contract
forbids. Of the study's own words only its name and purpose are repeated, and a dataset takes a hundred of these entries
a day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from causalveil.flows.run.estimators import candidates, chosen, estimator_of
from causalveil.schemas.admission import Admission
from causalveil.schemas.asked.study_file import AutoEstimator, StudyFile, load_study_file
from causalveil.schemas.columns import ordinary
from causalveil.schemas.contract import Contract, DataClass, Review, check_allowed
from causalveil.schemas.documents import path_of
from causalveil.schemas.errors import BudgetRefused, ContractError, LedgerError, RunConflict, SiteError, StudyError
from causalveil.schemas.hints import Blank, option
from causalveil.schemas.ledger import EarlyRefusal, Reservation
from causalveil.schemas.plan import Layout, Plan, Sizes
from causalveil.schemas.release import DataStatement
from causalveil.schemas.study import Study
from causalveil.schemas.warehouse import TableSnapshot
from causalveil.tasks.data.data_folder import CONTENTS_LABEL, DataFolder, contents_digest
from causalveil.tasks.data.manifests import check_manifest, kept_admission, refuse_telling_losses, snapshots_of
from causalveil.tasks.data.partitions import read_layout
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.machine.object_storage import local_copy
from causalveil.tasks.machine.object_storage import stored as in_a_store
from causalveil.tasks.machine.site import site_settings
from causalveil.tasks.privacy.accountant import epsilon_pld, total
from causalveil.tasks.privacy.keys import RunKey
from causalveil.tasks.privacy.ledger.accounts import WHOLE
from causalveil.tasks.privacy.ledger.ledger import ledger_at_hand

# In place of a key's check, where a reservation is only asked about and not made.
NO_KEY = "none"


@dataclass(frozen=True)
class Loaded:
    """A study file, the folder of its data, opened, and what their owner allows.

    A run opens and parses them once.
    """

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
class AllowedStudy:
    """A study that its contract allows, and the partitions in the data folder."""

    study: Study
    folder: DataFolder
    contract: Contract
    layout: Layout
    snapshots: tuple[TableSnapshot, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True)
class Request(AllowedStudy):
    """A study with all public facts of its run, which reads ``folder`` by ``layout``."""

    sizes: Sizes
    plan: Plan
    data: DataStatement | None = None


def declare(study: Study, sizes: Sizes | None) -> Plan:
    """Return every charge of ``study`` from public facts; no row is read.

    Raises:
        StudyError: a scale is no ordinary number; or the charges do not compose to what the study requests (a defect,
            not a user's mistake), unless epsilon is tiny, or tiny beside delta, so that it is lost in rounding.
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
        requested = study.privacy.cost
        raise StudyError(
            f"the plan adds up to epsilon {cost.epsilon} and delta {cost.delta}, and 'privacy' asks for epsilon "
            f"{requested.epsilon} and delta {requested.delta}: an epsilon that is tiny, or tiny beside delta, is lost "
            "in rounding; ask for more epsilon or less delta, and report this if neither is so"
        )
    for charge in charges:
        if not (ordinary(charge.sensitivity) and ordinary(charge.noise_scale)):
            raise StudyError(
                f"charge '{charge.name}' would have a sensitivity or a noise scale that is infinite, denormal or none; "
                "declare ranges, clips and penalties nearer to everyday numbers"
            )
    numeric = all(charge.noise_scale is not None for charge in charges)
    return Plan(
        study=study.name,
        study_digest=study.digest,
        sizes=sizes,
        charges=charges,
        total=cost,
        epsilon_pld=epsilon_pld(charges, cost.delta) if numeric else None,
    )


def load_study(path: str | Path, units: int | None = None) -> Study:
    """Read a study file completed by the contract of its data.

    Without a contract it is the file by itself.

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
    path = path_of(path, "a study")
    file = load_study_file(path)
    return _completed(path, file, find_data(path, file), units)


def _completed(path: Path, file: StudyFile, folder: DataFolder | None, units: int | None) -> Study:
    """Complete a study file by the contract in its data folder, as it was opened."""
    # A study that travels declares its columns in full, and can be planned where no data are.
    contract = None if folder is None else folder.find_contract()
    studies = candidates(file, contract, str(path), site_settings().execution)
    if units is None and len(studies) > 1:
        units = units_there(studies[0], folder)
    return chosen(studies, file, units)


def units_there(study: Study, folder: DataFolder | None) -> int | None:
    """Return :func:`known_units`; None without a folder, a contract or a partition."""
    if folder is None or folder.find_contract() is None or not any(folder.parquet_paths()):
        return None
    return known_units(study, folder)


def plan_study(path: str | Path, units: int | None = None) -> tuple[Study, Plan]:
    """Plan a study without reading a row.

    Charges are those of ``units`` or of the counts in Parquet footers, else formulas in n.

    Raises:
        StudyError: the study is wrong, or ``units`` cannot be split.
        DataError: partitions are there but cannot be read.
    """
    path = Path(path)
    file = load_study_file(path)
    # Opened once: the number of units is of the folder whose contract completes the study.
    folder = find_data(path, file)
    study = _completed(path, file, folder, units)
    if units is None:
        units = units_there(study, folder)
    return study, declare(study, None if units is None else sizes_of(study, units))


def known_units(study: Study, folder: DataFolder) -> int | None:
    """Return how many units a run on the data folder would have; None if not known yet.

    It is unknown until rows that are to be reduced are reduced.

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
    """Return the sizes of a plan that has them.

    Raises:
        StudyError: the number of units is unknown.
    """
    if plan.sizes is None:
        way = option(units=Blank("N"))
        raise StudyError(f"this needs the number of units: give {way}, or put the partitions in place")
    return plan.sizes


def load(path: Path) -> Loaded:
    """Parse the study and its contract, unless :func:`already` has them.

    Raises:
        StudyError: study or contract missing or wrong.
    """
    loaded = _LOADED.get()
    if loaded is not None and loaded.path == path:
        return loaded
    file = load_study_file(path)
    folder = DataFolder(data_folder(path, file))
    contract = folder.contract
    with on_record(contract, file):
        studies = candidates(file, contract, str(path), site_settings().execution)
        units = known_units(studies[0], folder) if isinstance(file.estimator, AutoEstimator) else None
        return Loaded(path, chosen(studies, file, units), folder, contract)


@contextmanager
def already(loaded: Loaded) -> Iterator[None]:
    """Let :func:`load` return ``loaded`` within the block.

    A Prefect flow has paths for parameters, never a study.
    """
    token = _LOADED.set(loaded)
    try:
        yield
    finally:
        _LOADED.reset(token)


def prepare(loaded: Loaded, *, simulate: bool) -> AllowedStudy:
    """Check that the owner allows the study, and read the layout: footers, never rows.

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
    if contract.rows is None:
        check_manifest(study, folder, layout)
    else:
        # The number of units is known once each has one row.
        declare(study, None)
    allowed = AllowedStudy(study, folder, contract, layout, snapshots=snapshots_of(folder, layout))
    return sized(allowed, layout) if contract.rows is None else allowed


def sized(allowed: AllowedStudy, layout: Layout, folder: DataFolder | None = None) -> Request:
    """Return the request with its sizes and plan, for partitions of one row per unit.

    Args:
        allowed: the study that its contract allows.
        layout: the partitions that the run reads.
        folder: where they lie, if not in the data folder.

    Raises:
        StudyError: the study has no proof on so few units.
    """
    sizes = sizes_of(allowed.study, layout.units)
    plan, data = declare(allowed.study, sizes), data_statement(allowed)
    return Request(
        allowed.study,
        folder or allowed.folder,
        allowed.contract,
        layout,
        sizes,
        plan,
        data,
        snapshots=allowed.snapshots,
    )


def data_statement(allowed: AllowedStudy) -> DataStatement | None:
    """Count the rows behind the units of public and synthetic data, left out or not.

    Raises:
        DataError: the manifest cannot be read.
    """
    if allowed.contract.data_class is DataClass.sensitive:
        return None
    read = {partition.path.partition("/")[0] for partition in allowed.layout.partitions}
    manifest = allowed.folder.manifest()
    left_out = Counter[str]()
    for block in () if manifest is None else manifest.blocks:
        if block.block in read:
            left_out.update(block.left_out)
    return DataStatement(
        rows=allowed.layout.units + left_out.total(),
        left_out=dict(left_out),
        bounds_from_data=tuple(name for name in allowed.contract.bounds_from_data if name in allowed.study.columns),
    )


def data_folder(path: Path, study: StudyFile | Study) -> Path:
    """Return the folder that ``data.path`` names, relative to the study file.

    Of a URL it is the copy on this machine's disk.

    Raises:
        CausalveilError: the store does not answer, or has nothing there.
    """
    if in_a_store(study.data.path):
        return local_copy(study.data.path)
    return (path.parent / study.data.path).resolve()


def find_data(path: Path, study: StudyFile | Study) -> DataFolder | None:
    """Return the data folder of a study, opened; None where no data are at hand.

    Raises:
        DataError: it cannot be read.
    """
    return DataFolder.find(data_folder(path, study))


def blocks_charged(contract: Contract, layout: Layout) -> tuple[str, ...]:
    """Return the blocks whose accounts a run on this layout is charged to."""
    # A unit that may lie in several blocks has one account, whatever blocks lie in the folder today.
    return (WHOLE,) if contract.units_span_blocks else layout.blocks


def reserve(request: Request, admission: Admission, run_id: str, key: RunKey) -> Reservation:
    """Return the reservation that the ledger holds of a run before it starts.

    ``admission`` is the manifest of its data.
    """
    return unbound_reservation(request, request.plan, run_id).model_copy(
        update={
            "contents": contents_digest(admission, request.layout, key.subkey(CONTENTS_LABEL)),
            "admission": admission.digest,
            "key_check": key.check,
        }
    )


def unbound_reservation(allowed: AllowedStudy, plan: Plan, run_id: str) -> Reservation:
    """Return a reservation of public facts, bound to no key and no rows yet."""
    study, contract, layout = allowed.study, allowed.contract, allowed.layout
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
        snapshots=allowed.snapshots,
    )


@contextmanager
def on_record(
    contract: Contract, study: StudyFile | Study, run_id: str = "", *, simulate: bool = False
) -> Iterator[None]:
    """Record a refusal within the block in the ledger, and raise it again.

    Args:
        contract: of the data. It counts as the owner's if the ledger knows it by its grant; else nothing is written.
        study: the study, or its file where it did not become one.
        run_id: the run, if it has an id by then.
        simulate: whether the noise would be seeded; such a run has no ledger of record.
    """
    try:
        yield
    except (StudyError, BudgetRefused) as problem:
        if not simulate and not isinstance(problem, SiteError | RunConflict):
            _note(contract, study, run_id, problem)
        raise


def _note(contract: Contract, study: StudyFile | Study, run_id: str, problem: StudyError | BudgetRefused) -> None:
    refusal = EarlyRefusal(
        run_id=run_id,
        dataset=contract.dataset,
        policy_digest=contract.digest,
        study=study.name,
        estimator=study.estimator.name,
        level=study.privacy.level,
        cost=study.privacy.cost,
        purpose=study.purpose,
        why=_why(problem),
    )
    # The refusal stands, whether or not its record can be written.
    with suppress(LedgerError):
        ledger = ledger_at_hand()
        if ledger is not None:
            ledger.note_refusal(refusal, contract)


def _why(problem: StudyError | BudgetRefused) -> str:
    """Return one of three sentences: an error's own text may quote the study."""
    if isinstance(problem, BudgetRefused):
        return "the contract names no cap for this level"
    if isinstance(problem, ContractError):
        return "the contract forbids what the study asks"
    return "the study contradicts the contract, or its numbers have no proof"
