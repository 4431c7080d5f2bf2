"""One source file -> one folder of partitions with a manifest: probe, take block after block, write the manifest."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from causalveil.flows.engine.engine import Engine, Task
from causalveil.flows.engine.secret_blocks import secret_of
from causalveil.flows.sequence.admit import admit_folder
from causalveil.schemas.admission.manifest import Admission
from causalveil.schemas.contract import CONTRACT_FILE, load_contract
from causalveil.schemas.errors import StudyError
from causalveil.schemas.sources import TableSnapshot
from causalveil.schemas.warehouse import ExtractedBlock, Manifest, Source, Warehouse, load_source
from causalveil.tasks.enclave.data_folder import DataFolder
from causalveil.tasks.enclave.validate import refuse_telling
from causalveil.tasks.machine.distribute import in_steps
from causalveil.tasks.object_storage.lock import alone_at
from causalveil.tasks.warehouse import blocks as warehouse_blocks
from causalveil.tasks.warehouse.extract import KeyInterval, intervals
from causalveil.tasks.warehouse.object_storage import local_copy, publish, stored


@dataclass(frozen=True)
class Extracted:
    """What an extract left in its folder, and the admission of all that lies there; None where no contract does."""

    manifest: Manifest
    admission: Admission | None


def extract_source(path: Path, stage: Engine) -> Extracted:
    """Fill the folder that the source names with what it lacks, then admit all that lies there; on any engine.

    Raises:
        NotAdmitted: the rows are there and break the contract.
        CausalveilError: see :func:`fill`.
    """
    source = load_source(path)
    with alone_at(source.to) if stored(source.to) else nullcontext():
        manifest, folder = fill(path, stage), target_folder(path, source)
        # A folder without a contract has no owner's word that its rows could be held to.
        filled = DataFolder(folder)
        admission = admit_folder(filled, stage) if filled.holds(CONTRACT_FILE) else None
        publish(folder)
    return Extracted(manifest, admission)


def late_line(manifest: Manifest) -> str | None:
    """Return what an operator is told of blocks that hold no rows yet; None where there are none."""
    if not manifest.late:
        return None
    return (
        f"no rows in {', '.join(manifest.late)} of '{manifest.dataset}': not counted and not charged as a block; the "
        "next extract asks the source for it again"
    )


def fill(path: Path, stage: Engine) -> Manifest:
    """Fill the folder that the source names with what it lacks, and admit nothing.

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
        snapshot = stage(Task("probe", lambda: warehouse_blocks.probe_stage(source, place, url)))
        takes = [_take(source, place, url, folder, block, snapshot) for block in blocks]
        taken = tuple(_taken(stage, take, folder) for take in in_steps(takes, len(takes)))
        titles = tuple(take.title for take in takes)
        manifest = stage(
            Task("manifest", lambda: warehouse_blocks.manifest_stage(source, folder, blocks, taken), reads=titles)
        )
        publish(folder)
        return manifest


def _taken(stage: Engine, take: Task[ExtractedBlock], folder: Path) -> ExtractedBlock:
    """Take one block, and bring it into the store that the folder is a copy of: an extract that dies goes on there."""
    block = stage(take)
    publish(folder)
    return block


def _take(
    source: Source, place: Path, url: str | None, folder: Path, block: KeyInterval, snapshot: TableSnapshot | None
) -> Task[ExtractedBlock]:
    """The task that takes one block: its name is public, as the folders of partitions are."""
    return Task(
        "extract",
        lambda: warehouse_blocks.extract_stage(source, place, url, folder, block, snapshot),
        part=f"block {block.value}",
        reads=("probe",),
    )


def target_folder(path: Path, source: Source) -> Path:
    """``to`` is relative to the source file; of a URL it is the copy on this machine's disk, empty before the first.

    Raises:
        CausalveilError: the store does not answer.
    """
    if stored(source.to):
        return local_copy(source.to, new=True)
    return (path.parent / source.to).resolve()


def warehouse_url(source: Source) -> str | None:
    """The warehouse's URL from where the source says it is; None for sources that have none.

    It is handed from function to function and stands in no file, parameter, log line or message.

    Raises:
        StudyError: there is no such variable or block, or it holds no text.
    """
    if not isinstance(source.source, Warehouse):
        return None
    place = source.source.url
    url = os.environ.get(place.environment) if place.environment is not None else secret_of(place)
    if not url:
        named = f"variable {place.environment}" if place.environment else f"Prefect Secret block '{place.block}'"
        raise StudyError(f"source '{source.name}': {named} holds no URL; set it where this process runs")
    return url
