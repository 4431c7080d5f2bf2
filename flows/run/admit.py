"""From a warehouse or a folder to admitted rows.

Take blocks, hold rows to the contract, keep the manifest.
"""

from __future__ import annotations

import os
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from causalveil.flows.engine.engine import Engine, Task
from causalveil.flows.engine.settings import secret_of
from causalveil.schemas.admission import Admission, contract_roles
from causalveil.schemas.contract import CONTRACT_FILE, Contract, DataClass, load_contract
from causalveil.schemas.errors import DataError, StudyError
from causalveil.schemas.plan import Layout
from causalveil.schemas.warehouse import Manifest, Source, Warehouse, load_source
from causalveil.tasks.data.admit import Rules, admit_stage
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.manifests import (
    ANCHOR_FILE,
    advance_anchor,
    difference,
    find_admission,
    forget_reduced,
    keep_at_home,
    keep_beside,
    leave_anchor,
    reduced_root,
    refuse_other_ledger,
    refuse_telling,
    refuse_telling_losses,
    rows_folder,
    scratch_name,
)
from causalveil.tasks.data.partitions import list_partitions
from causalveil.tasks.machine.distribute import in_steps
from causalveil.tasks.machine.object_storage import copy_at, local_copy, publish, stored
from causalveil.tasks.machine.site import open_scratch
from causalveil.tasks.machine.stored_writes import alone_at
from causalveil.tasks.privacy.ledger.ledger import Ledger, open_ledger
from causalveil.tasks.warehouse import blocks as warehouse_blocks
from causalveil.tasks.warehouse.blocks import SourceState, TakenBlock
from causalveil.tasks.warehouse.extract import KeyInterval, intervals
from causalveil.tasks.warehouse.read_files import named_files


@dataclass(frozen=True)
class Held:
    """The admission that a run is held to, and the folder of its rows.

    ``admission``: the manifest. ``folder``: gives no other rows. ``by_itself``: whether the data admitted themselves at
    this run.
    """

    admission: Admission
    folder: DataFolder
    by_itself: bool


def admit_folder(folder: DataFolder, stage: Engine) -> Admission:
    """Admit a data folder: check all rows once, write the manifest beside them and record it.

    Raises:
        ContractError: the contract is missing or wrong.
        BudgetRefused: it is not the contract that was granted. Nothing is written, here or beside the data.
        NotAdmitted: rows break it; every problem is in ``findings``, for the owner.
        DataError: files cannot be read.
        LedgerError: the ledger cannot be used, or is not the contract's.
    """
    contract, ledger = folder.contract, open_ledger()
    refuse_other_ledger(folder, contract.dataset, ledger)
    ledger.refuse_ungranted(contract)
    admission = _look(contract, folder, stage)
    keep_beside(folder, admission)
    ledger.admit(contract, admission)
    leave_anchor(folder, contract.dataset, ledger)
    forget_reduced(admission)
    return admission


def hold(
    contract: Contract, folder: DataFolder, layout: Layout, ledger: Ledger, stage: Engine, place: Path | None = None
) -> Held:
    """Hold what a run is about to read to the admission that the ledger recorded.

    No row of sensitive data is read.

    Public and synthetic data that were never admitted, or were changed since, admit themselves: all their rows are
    looked at, now.

    Args:
        contract: of the data.
        folder: the data folder.
        layout: what the run reads there.
        ledger: of record, or a simulation's.
        stage: runs the look at all rows.
        place: a simulation's folder: manifest and reduced rows of its own would else take the place of those that the
            owner's runs are held to. None: of a run of record.

    Raises:
        BudgetRefused: the contract is not the granted one; or sensitive data were neither admitted nor granted.
        DataError: they were not admitted, or are not what was.
        NotAdmitted: the rows of data that admit themselves break their contract.
        LedgerError: another ledger knows what was charged to these rows.
        CausalveilError: pandera cannot be imported.
    """
    refuse_other_ledger(folder, contract.dataset, ledger)
    by_itself = contract.data_class is not DataClass.sensitive
    recorded = ledger.admission(contract.dataset)
    admission = find_admission(folder, contract.dataset, recorded, place)
    if admission is not None:
        problem = difference(admission, contract, folder, layout, times=by_itself)
    elif recorded is None:
        problem = "they were never admitted"
    else:
        problem = "their manifest is not the one that the ledger recorded"
    if admission is not None and problem is None:
        # The stages check footers by a schema, which must be importable before anything is reserved.
        Rules(contract_roles(contract))
        return Held(admission, rows_folder(folder, admission, place), by_itself=False)
    # Without grant and admission the grant comes first, as it says what may be asked. And another contract of the
    # dataset's name would admit other data, to which the owner's runs would then not be held.
    ledger.refuse_ungranted(contract)
    if not by_itself:
        raise DataError(
            f"the data of '{contract.dataset}' may not be read: {problem}; their owner must run: causalveil admit "
            f"{folder}"
        )
    admission = _look(contract, folder, stage, place)
    keep_at_home(admission, place)
    ledger.admit(contract, admission)
    forget_reduced(admission, place)
    return Held(admission, rows_folder(folder, admission, place), by_itself=True)


def anchor_rows(contract: Contract, folder: DataFolder, ledger: Ledger) -> bool | None:
    """Have the file beside the rows name the ledger's last entry, after a run's commit.

    Returns:
        Whether it names that entry, so that an older copy of the ledger is refused there. None of a simulation, and of
        public data that admitted themselves, which are left as they lie.
    """
    if ledger.memory is None:
        return None
    if contract.data_class is not DataClass.sensitive and not folder.holds(ANCHOR_FILE):
        return None
    # What a run writes into the copy of a folder in object storage is gone with the copy.
    return copy_at(folder.path) is None and advance_anchor(folder, contract.dataset, ledger)


def _look(contract: Contract, folder: DataFolder, stage: Engine, place: Path | None = None) -> Admission:
    refuse_telling_losses(contract, folder)
    layout = list_partitions(folder, None if contract.blocks is None else contract.blocks.key)
    with open_scratch(scratch_name(contract.dataset)) as scratch:
        reduced = reduced_root(contract.dataset, place)
        return stage(Task("admit", lambda: admit_stage(contract, folder, layout, scratch, reduced)))


@dataclass(frozen=True)
class Extracted:
    """The manifest of an extract, what it found changed, and the folder's admission.

    Attributes:
        manifest: of the folder.
        again: blocks that had other rows before, and were taken anew.
        outdated: blocks of which a database has another number of rows now; they stay as they were taken.
        written: files of the source that are new, or were written again, since the last extract.
        admission: None where no contract lies in the folder, or nothing was to be admitted.
    """

    manifest: Manifest
    again: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    admission: Admission | None = None

    @property
    def news(self) -> list[str]:
        """Lines for an operator: blocks without rows or with other rows, and files."""
        dataset, late = self.manifest.dataset, late_line(self.manifest)
        lines = [] if late is None else [late]
        if self.again:
            lines.append(
                f"other rows than before in {', '.join(self.again)} of '{dataset}': taken anew; what runs charged to "
                "them stays charged"
            )
        if self.outdated:
            lines.append(
                f"another number of rows at the source in {', '.join(self.outdated)} of '{dataset}': left as they were "
                "taken; delete the folder of a block to take it anew"
            )
        if self.written:
            first, last = self.manifest.first, self.manifest.last
            beyond = "" if self.manifest.key is None else f"; rows outside of {first} to {last} are in no block"
            lines.append(
                f"new or written again at the source of '{dataset}' since the last extract: "
                f"{named_files(self.written)}{beyond}"
            )
        return lines


def extract_source(path: Path, stage: Engine) -> Extracted:
    """Take the blocks that the source's folder lacks, then admit the whole folder.

    Raises:
        NotAdmitted: the rows are there and break the contract.
        CausalveilError: see :func:`fill`.
    """
    source = load_source(path)
    with alone_at(source.to) if stored(source.to) else nullcontext():
        extracted, folder = fill(path, stage), target_folder(path, source)
        # A folder without a contract has no owner's word that its rows could be held to.
        filled = DataFolder(folder)
        admission = admit_folder(filled, stage) if filled.holds(CONTRACT_FILE) else None
        publish(folder)
    return replace(extracted, admission=admission)


def late_line(manifest: Manifest) -> str | None:
    """Return a line for an operator on blocks that hold no rows yet; None where there are none."""
    if not manifest.late:
        return None
    return (
        f"no rows in {', '.join(manifest.late)} of '{manifest.dataset}': not counted and not charged as a block; the "
        "next extract asks the source for it again"
    )


def fill(path: Path, stage: Engine) -> Extracted:
    """Take the blocks that the source's folder lacks, and admit nothing.

    Raises:
        ContractError: rows of sensitive data would be left out for what stands in them.
        StudyError: the source file is wrong, names no credential that is there, or fills another dataset's folder.
        DataError: the source's schema drifted, or the folder holds something else.
        CausalveilError: the source cannot be read, or the folder not be written.
    """
    source = load_source(path)
    place, folder = path.parent.resolve(), target_folder(path, source)
    url = warehouse_url(source)
    blocks = intervals(source.key, datetime.now(UTC).date())
    with warehouse_blocks.extracting(folder):
        contract = load_contract(folder / CONTRACT_FILE) if (folder / CONTRACT_FILE).exists() else None
        warehouse_blocks.check_dataset(source, None if contract is None else contract.dataset)
        if contract is not None:
            refuse_telling(contract, source.required)
        before = None
        with suppress(DataError):
            before = DataFolder(folder).manifest()
        state = stage(Task("probe", lambda: warehouse_blocks.probe_stage(source, place, url, blocks, before)))
        changes = state.changes
        takes = [_take(source, place, url, folder, block, state) for block in blocks]
        taken: list[TakenBlock] = []
        for take in in_steps(takes, len(takes)):
            taken.append(stage(take))
            # An extract that dies goes on from the blocks in the store that the folder is a copy of.
            publish(folder)
        whole = tuple(result.block for result in taken)
        manifest = stage(
            Task(
                "manifest",
                lambda: warehouse_blocks.manifest_stage(source, folder, blocks, whole, changes.files),
                reads=tuple(take.title for take in takes),
            )
        )
        publish(folder)
    again = tuple(result.block.block for result in taken if result.again)
    # In a first extract every file is new, and a manifest of an earlier version lists no files.
    written = (*changes.new, *changes.changed) if before is not None and before.source_files else ()
    earlier = () if before is None else before.blocks
    # A block whose folder was deleted was taken anew.
    outdated = tuple(block.block for block in manifest.blocks if block.block in state.recounted and block in earlier)
    return Extracted(manifest, again, outdated, written)


def _take(
    source: Source, place: Path, url: str | None, folder: Path, block: KeyInterval, state: SourceState
) -> Task[TakenBlock]:
    """Return the task that takes a block, whose name is public, as folders of partitions are."""
    return Task(
        "extract",
        lambda: warehouse_blocks.extract_stage(source, place, url, folder, block, state),
        part=f"block {block.value}",
        reads=("probe",),
    )


def target_folder(path: Path, source: Source) -> Path:
    """Return the folder that a source's ``to`` names, relative to the source file.

    Of a URL it is the copy on this machine's disk, which is empty before the first extract.

    Raises:
        CausalveilError: the store does not answer.
    """
    if stored(source.to):
        return local_copy(source.to, new=True)
    return (path.parent / source.to).resolve()


def warehouse_url(source: Source) -> str | None:
    """Return the warehouse's URL from where the source says it is; None for other sources.

    It is handed from function to function and is in no file, parameter, log line or message.

    Raises:
        StudyError: there is no such variable or block, or it holds no text.
    """
    if not isinstance(source.source, Warehouse):
        return None
    place = source.source.url
    url = os.environ.get(place.environment) if place.environment is not None else secret_of(place)
    if not url:
        where = f"variable {place.environment}" if place.environment else f"Prefect Secret block '{place.block}'"
        raise StudyError(f"source '{source.name}': {where} holds no URL; set it where this process runs")
    return url
