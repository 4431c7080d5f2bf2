"""Where manifests lie, and whether what lies in a folder today is what was admitted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from causalveil.schemas.admission.manifest import ADMISSION_FILE, Admission, declarations, load_admission
from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.plan import Layout
from causalveil.tasks.enclave.data_folder import DataFolder
from causalveil.tasks.enclave.partitions import opened
from causalveil.tasks.machine.files import make_folder_durably, whole_file
from causalveil.tasks.machine.site import home, in_use, site_folder

FOLDER = "admissions"
REDUCED = "reduced"
# Where rows are reduced before they have their name; nobody reads there.
DRAFT = "_draft"


def keep_beside(folder: DataFolder, admission: Admission) -> Path:
    """Write a manifest beside the data, for whoever may read these; where that cannot be, into the causalveil home.

    Returns:
        Where it lies.

    Raises:
        CausalveilError: it cannot be written.
    """
    try:
        # Whoever may read the rows, and nobody else, may read what vouches for them.
        with opened(folder, admission.owners[0].path) as file:
            mode = file.mode & 0o666
        _write(Path(ADMISSION_FILE), admission, mode, folder.handle)
    except OSError:
        return keep_at_home(admission)
    return folder.path / ADMISSION_FILE


def keep_at_home(admission: Admission, place: Path | None = None) -> Path:
    """Write a manifest into the causalveil home; public data that admit themselves are left as they lie.

    Args:
        admission: the manifest.
        place: a simulation's folder, in place of the causalveil home, for this function and those below.

    Raises:
        CausalveilError: it cannot be written.
    """
    path = _at_home(admission.dataset, place)
    problem = None
    try:
        make_folder_durably(path.parent)
        _write(path, admission, 0o600)
    except OSError as error:
        problem = f"{path}: cannot be written ({type(error).__name__}); make room, or mend its permissions"
    if problem:
        raise CausalveilError(problem)
    return path


def find_admission(folder: DataFolder, dataset: str, digest: str | None, place: Path | None = None) -> Admission | None:
    """The manifest that the ledger speaks of, wherever it lies.

    Args:
        folder: the data folder.
        dataset: its name.
        digest: what the ledger recorded last; None: nothing.
        place: as of :func:`keep_at_home`.

    Raises:
        DataError: a manifest cannot be read.
    """
    if digest is None:
        return None
    return next((one for one in _kept(folder, dataset, place) if one.digest == digest), None)


def kept_admission(folder: DataFolder, contract: Contract) -> Admission | None:
    """A manifest of the contract's declarations, for planning: no ledger vouches for it.

    Raises:
        DataError: a manifest cannot be read.
    """
    return next((one for one in _kept(folder, contract.dataset) if one.declares == declarations(contract)), None)


def _kept(folder: DataFolder, dataset: str, place: Path | None = None) -> Iterator[Admission]:
    """Read the manifests beside the rows and in the causalveil home."""
    for load in (folder.admission, lambda: load_admission(_at_home(dataset, place))):
        found = load()
        if found is not None:
            yield found


def rows_folder(folder: DataFolder, admission: Admission, place: Path | None = None) -> DataFolder:
    """Return the folder of the rows that runs read, held to the admission.

    It is the data folder, or that of the reduced rows.

    Raises:
        DataError: the reduced rows are gone.
    """
    reduced = _reduced_place(admission, place)
    return (folder if reduced is None else DataFolder(reduced)).held_to(admission.digests)


def _reduced_place(admission: Admission, place: Path | None = None) -> Path | None:
    return None if admission.reduced is None else reduced_root(admission.dataset, place) / admission.reduced


def reduced_root(dataset: str, place: Path | None = None) -> Path:
    """Return the folder of a dataset's reduced rows, in the causalveil home."""
    return (place or home()) / REDUCED / dataset


def forget_reduced(admission: Admission, place: Path | None = None) -> None:
    """Delete reduced rows of the dataset that are not this admission's; those of a run under way end it."""
    root = reduced_root(admission.dataset, place)
    if root.is_dir():
        for folder in root.iterdir():
            if folder.name != admission.reduced:
                shutil.rmtree(folder, ignore_errors=True)


def forget_draft(root: Path) -> None:
    """Delete rows that were being reduced, in a dataset's folder of :func:`reduced_root`."""
    shutil.rmtree(root / DRAFT, ignore_errors=True)


def clean_reduced(dataset: str | None) -> int:
    """Delete reduced rows that admissions which died left behind, and all those of one dataset if it is named.

    Its runs are refused from then on, until its owner admits the data again.

    Returns:
        How many folders were deleted.

    Raises:
        CausalveilError: the scratch root is open to other users.
    """
    places = home() / REDUCED
    roots = sorted(places.iterdir()) if places.is_dir() else []
    found = [root / DRAFT for root in roots if (root / DRAFT).is_dir() and not in_use(scratch_name(root.name))]
    found += [folder for root in roots if root.name == dataset for folder in root.iterdir() if folder.name != DRAFT]
    for folder in found:
        shutil.rmtree(folder)
    return len(found)


def scratch_name(dataset: str) -> str:
    """The name under which an admission of a dataset holds scratch, as long as it lives."""
    return f"admit-{dataset}"


def difference(
    admission: Admission, contract: Contract, folder: DataFolder, layout: Layout, *, times: bool
) -> str | None:
    """Say how contract and files differ from what was admitted; None if they do not.

    In public words; reads no row.

    Args:
        admission: the manifest.
        contract: as it stands.
        folder: the data folder.
        layout: the partitions that a run reads, and all blocks.
        times: whether a later time of change is a difference.
    """
    if admission.declares != declarations(contract):
        return "the contract declares the rows otherwise than when they were admitted"
    if {file.block for file in admission.owners} != set(layout.dataset_blocks):
        return "a block was added or removed since they were admitted"
    place = _reduced_place(admission)
    if place is not None and not place.is_dir():
        return "the rows that were reduced when they were admitted are gone"
    read, owners = set(layout.blocks), {file.path: file for file in admission.owners}
    found = {partition.path: partition for partition in layout.partitions}
    for path in sorted(found.keys() | {path for path, file in owners.items() if file.block in read}):
        file, partition = owners.get(path), found.get(path)
        if file is None or partition is None:
            return f"{path} was {'added' if file is None else 'removed'} since they were admitted"
        with opened(folder, path) as there:
            size, modified = there.size, there.modified
        if (file.rows, file.size) != (partition.rows, size) or (times and modified != file.modified):
            return f"{path} was changed since they were admitted"
    return None


def _at_home(dataset: str, place: Path | None = None) -> Path:
    return (place or site_folder()) / FOLDER / f"{dataset}.json"


def _write(path: Path, admission: Admission, mode: int, within: int | None = None) -> None:
    with whole_file(path, mode=mode, durable=True, within=within) as file:
        file.write(admission.model_dump_json().encode())
