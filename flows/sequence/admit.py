"""One folder of data -> one manifest: hold all rows to the contract, keep the manifest, record it in the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from causalveil.flows.engine.engine import Engine, Task
from causalveil.schemas.admission.cohort import contract_roles
from causalveil.schemas.admission.manifest import Admission
from causalveil.schemas.contract import Contract, DataClass
from causalveil.schemas.errors import DataError
from causalveil.schemas.plan import Layout
from causalveil.tasks.admission.manifests import (
    difference,
    find_admission,
    forget_reduced,
    keep_at_home,
    keep_beside,
    leave_anchor,
    reduced_root,
    refuse_other_ledger,
    rows_folder,
    scratch_name,
)
from causalveil.tasks.admission.rows import Rules
from causalveil.tasks.admission.stages import admit_stage
from causalveil.tasks.enclave.data_folder import DataFolder
from causalveil.tasks.enclave.partitions import list_partitions
from causalveil.tasks.enclave.validate import refuse_telling_losses
from causalveil.tasks.machine.site import open_scratch
from causalveil.tasks.privacy.ledger.ledger import Ledger, open_ledger


@dataclass(frozen=True)
class Held:
    """The manifest that a run is held to, the folder of its rows, which gives no others, and whether the data admitted
    themselves at this run."""

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
    """Hold what a run is about to read to the admission that the ledger recorded; no row of sensitive data is read.

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
        # The stages hold footers to a schema; whether they can is found before anything is reserved.
        Rules(contract_roles(contract))
        return Held(admission, rows_folder(folder, admission, place), by_itself=False)
    # Who has neither grant nor admission needs the grant first: it says what may be asked at all. And another contract
    # that bears the dataset's name would admit other data, on which the owner's runs would then not be held.
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


def _look(contract: Contract, folder: DataFolder, stage: Engine, place: Path | None = None) -> Admission:
    refuse_telling_losses(contract, folder)
    layout = list_partitions(folder, None if contract.blocks is None else contract.blocks.key)
    with open_scratch(scratch_name(contract.dataset)) as scratch:
        reduced = reduced_root(contract.dataset, place)
        return stage(Task("admit", lambda: admit_stage(contract, folder, layout, scratch, reduced)))
