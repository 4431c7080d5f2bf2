"""Keep manifests of admitted data, and hold a run's files to them before it reserves.

The manifests of an extract and of the owner's admission list columns, types and files. A column that the warehouse
renamed, a type that changed, a partition that was replaced: each ends the run here, where it costs nothing. A folder
without an extract's manifest was filled by hand and is checked by validation alone. Rows were held to the contract
once, at admission, and their bytes are digested while ``normalise`` reads them, so the first stage of a run reads no
row: it compares sizes and footers with those of the admitted files, and the study's schema with each footer by pandera.

A file beside the rows, the anchor, names the ledger of their charges. With another state folder, another ledger's URL
or an older copy of the ledger the same rows would have a second budget. The anchor is written when rows are admitted
into their folder, and moves forward with every run, after the ledger's commit: a process that is killed between both
leaves it behind the ledger and never ahead. Public data that admit themselves, and folders that cannot be written, have
no anchor.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import polars as pl
from pydantic import Field

from causalveil.schemas.admission import (
    ADMISSION_FILE,
    Admission,
    AdmittedFile,
    Rule,
    accepts,
    declarations,
    load_admission,
    type_rule,
)
from causalveil.schemas.contract import CONTRACT_FILE, Contract
from causalveil.schemas.documents import MAX_DOCUMENT_BYTES, parse_json
from causalveil.schemas.errors import (
    CausalveilError,
    ContractError,
    DataError,
    LedgerError,
    StudyError,
    in_own_words,
    kind_of,
)
from causalveil.schemas.mistakes import validate
from causalveil.schemas.plan import Layout
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.study import Slug, Study
from causalveil.schemas.warehouse import Kind, Manifest, TableSnapshot
from causalveil.tasks.data.data_folder import DataFolder, changed, file_digest
from causalveil.tasks.data.partitions import column_types, opened
from causalveil.tasks.machine.files import make_folder_durably, whole_file
from causalveil.tasks.machine.site import home, in_use, site_folder
from causalveil.tasks.privacy.ledger.ledger import Ledger, existing_ledger

FOLDER = "admissions"
REDUCED = "reduced"
# Folder of reduced rows before they are admitted; no run reads there.
DRAFT = "_draft"


def keep_beside(folder: DataFolder, admission: Admission) -> Path:
    """Write a manifest beside the data, or into the causalveil home where that is not possible.

    Beside the data it may be read by those who may read the data.

    Returns:
        Where it lies.

    Raises:
        CausalveilError: it cannot be written.
    """
    try:
        # Users who may read the rows, and no others, may read their manifest.
        with opened(folder, admission.owners[0].path) as file:
            mode = file.mode & 0o666
        _write(Path(ADMISSION_FILE), admission, mode, folder.handle)
    except OSError:
        return keep_at_home(admission)
    return folder.path / ADMISSION_FILE


def keep_at_home(admission: Admission, place: Path | None = None) -> Path:
    """Write a manifest into the causalveil home.

    Public data that admit themselves are left as they lie.

    Args:
        admission: the manifest.
        place: a simulation's folder, in place of the causalveil home, for this function and those below.

    Raises:
        CausalveilError: it cannot be written.
    """
    path = _at_home(admission.dataset, place)
    with in_own_words(
        lambda error: CausalveilError(
            f"{path}: cannot be written ({kind_of(error)}); make room, or mend its permissions"
        ),
        OSError,
    ):
        make_folder_durably(path.parent)
        _write(path, admission, 0o600)
    return path


def find_admission(folder: DataFolder, dataset: str, digest: str | None, place: Path | None = None) -> Admission | None:
    """Return the manifest of a recorded digest, from beside the rows or the causalveil home.

    Args:
        folder: the data folder.
        dataset: its name.
        digest: the last that the ledger recorded; None: there is none.
        place: as of :func:`keep_at_home`.

    Raises:
        DataError: a manifest cannot be read.
    """
    if digest is None:
        return None
    return next((stored for stored in _stored(folder, dataset, place) if stored.digest == digest), None)


def kept_admission(folder: DataFolder, contract: Contract) -> Admission | None:
    """Return a manifest of the contract's declarations, for planning: no ledger vouches for it.

    Raises:
        DataError: a manifest cannot be read.
    """
    stored = _stored(folder, contract.dataset)
    return next((admission for admission in stored if admission.declares == declarations(contract)), None)


def _stored(folder: DataFolder, dataset: str, place: Path | None = None) -> Iterator[Admission]:
    """Read the manifests beside the rows and in the causalveil home."""
    for load in (folder.admission, lambda: load_admission(_at_home(dataset, place))):
        admission = load()
        if admission is not None:
            yield admission


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
    """Delete reduced rows of the dataset that are not this admission's.

    If a run is under way on such rows, it ends.
    """
    root = reduced_root(admission.dataset, place)
    if root.is_dir():
        for folder in root.iterdir():
            if folder.name != admission.reduced:
                shutil.rmtree(folder, ignore_errors=True)


def forget_draft(root: Path) -> None:
    """Delete rows that were being reduced, in a dataset's folder of :func:`reduced_root`."""
    shutil.rmtree(root / DRAFT, ignore_errors=True)


def clean_reduced(dataset: str | None) -> int:
    """Delete reduced rows that unfinished admissions left, and all of one dataset if named.

    Runs of the named dataset are refused from then on, until its owner admits the data again.

    Returns:
        The number of deleted folders.

    Raises:
        StudyError: there are no reduced rows of that name, and the ledger does not know it.
        CausalveilError: the scratch root is open to other users.
    """
    places = home() / REDUCED
    if dataset is not None and not (places / dataset).is_dir():
        existing_ledger().refuse_unknown(dataset)
    roots = sorted(places.iterdir()) if places.is_dir() else []
    folders = [root / DRAFT for root in roots if (root / DRAFT).is_dir() and not in_use(scratch_name(root.name))]
    folders += [folder for root in roots if root.name == dataset for folder in root.iterdir() if folder.name != DRAFT]
    for folder in folders:
        shutil.rmtree(folder)
    return len(folders)


def scratch_name(dataset: str) -> str:
    """Return the name under which an admission of a dataset holds scratch, as long as it lives."""
    return f"admit-{dataset}"


def difference(
    admission: Admission, contract: Contract, folder: DataFolder, layout: Layout, *, times: bool
) -> str | None:
    """Say how contract and files differ from the admitted ones; None if they do not.

    It reads no row, and quotes public facts alone.

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
    partitions = {partition.path: partition for partition in layout.partitions}
    for path in sorted(partitions.keys() | {path for path, file in owners.items() if file.block in read}):
        file, partition = owners.get(path), partitions.get(path)
        if file is None or partition is None:
            return f"{path} was {'added' if file is None else 'removed'} since they were admitted"
        with opened(folder, path) as opened_file:
            size, modified = opened_file.size, opened_file.modified
        if (file.rows, file.size) != (partition.rows, size) or (times and modified != file.modified):
            return f"{path} was changed since they were admitted"
    return None


def _at_home(dataset: str, place: Path | None = None) -> Path:
    return (place or site_folder()) / FOLDER / f"{dataset}.json"


def _write(path: Path, admission: Admission, mode: int, within: int | None = None) -> None:
    with whole_file(path, mode=mode, durable=True, within=within) as file:
        file.write(admission.model_dump_json().encode())


def admitted_as_they_lie(
    folder: DataFolder, contract: Contract, layout: Layout, recorded: str | None
) -> Admission | None:
    """Return the manifest of the admitted rows if a folder holds the same bytes; else None.

    A file with another time of change is read, and its digest compared: it may be a copy of the same bytes.

    Args:
        folder: the data folder.
        contract: as it stands.
        layout: the partitions in the folder that a run reads.
        recorded: digest of the manifest that the ledger recorded last.

    Raises:
        DataError: a manifest cannot be read.
    """
    admission = find_admission(folder, contract.dataset, recorded)
    if admission is None or difference(admission, contract, folder, layout, times=False) is not None:
        return None
    if difference(admission, contract, folder, layout, times=True) is None:
        return admission
    files = {file.path: file for file in admission.owners}
    is_same = all(_is_same(folder, files[partition.path], admission) for partition in layout.partitions)
    return admission if is_same else None


def _is_same(folder: DataFolder, admitted: AdmittedFile, admission: Admission) -> bool:
    with opened(folder, admitted.path) as file:
        return file_digest(file, admission.key) == admitted.digest and not file.changed


ANCHOR_FILE = "_ledger.json"
_MODE = 0o644


class Anchor(Frozen):
    """A ledger by its identity, and its last entry at an admission, grant or run of the rows."""

    dataset: Slug
    ledger: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    seq: Annotated[int, Field(ge=1)]
    hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def leave_anchor(folder: DataFolder, dataset: str, ledger: Ledger) -> None:
    """Name the ledger beside the rows, with its last entry.

    Nothing is written where the folder cannot be written to.
    """
    with suppress(OSError), _alone(folder):
        _write_anchor(folder, dataset, ledger)


def move_anchor(folder: DataFolder, dataset: str, ledger: Ledger) -> None:
    """Name another ledger beside the rows, if one is named: their owner granted them there."""
    if folder.holds(ANCHOR_FILE):
        leave_anchor(folder, dataset, ledger)


def advance_anchor(folder: DataFolder, dataset: str, ledger: Ledger) -> bool:
    """Move the file beside the rows forward, and return whether it names the last entry.

    It never moves back: an older copy of the ledger, and another ledger, leave it as it is. It never fails: commits
    stand in the ledger, wherever the file is.
    """
    with suppress(OSError, CausalveilError), _alone(folder):
        anchor = _anchor(folder)
        if anchor is not None and anchor.dataset == dataset and _elsewhere(anchor, ledger) is None:
            # Read under the lock, after the file: no other run can have written a later entry meanwhile.
            if (anchor.seq, anchor.hash) != ledger.head():
                _write_anchor(folder, dataset, ledger)
            return True
    return False


@contextmanager
def _alone(folder: DataFolder) -> Iterator[None]:
    """Keep other processes from writing the anchor meanwhile, where folders can be locked."""
    # Opened anew, since threads that share a descriptor share its lock.
    handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder.handle)
    try:
        # NFS has no locks. Of two runs at once the file may then name the earlier, and the next run moves it on.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write_anchor(folder: DataFolder, dataset: str, ledger: Ledger) -> None:
    seq, digest = ledger.head()
    anchor = Anchor(dataset=dataset, ledger=ledger.identity, seq=seq, hash=digest)
    with whole_file(Path(ANCHOR_FILE), mode=_MODE, durable=True, within=folder.handle) as file:
        with suppress(FileNotFoundError, DataError), folder.file(ANCHOR_FILE) as before:
            # Its readers stay the same, whatever the umask of the run.
            os.fchmod(file.fileno(), before.mode)
        file.write((anchor.model_dump_json() + "\n").encode())


def _anchor(folder: DataFolder) -> Anchor | None:
    """Return the anchor beside the rows; None if there is none.

    Raises:
        LedgerError: it does not name a ledger.
        DataError: it cannot be read.
    """
    content, place = folder.read(ANCHOR_FILE, MAX_DOCUMENT_BYTES), folder.path / ANCHOR_FILE
    if content is None:
        return None
    try:
        return validate(Anchor, parse_json(content), str(place))
    except (ValueError, StudyError):
        pass
    raise LedgerError(
        f"{place}: does not name a ledger; the owner of the rows writes it anew by: {_grant_command(folder)}"
    )


def _grant_command(folder: DataFolder) -> str:
    return f"causalveil ledger grant {folder.path / CONTRACT_FILE} --reason TEXT"


def _elsewhere(anchor: Anchor, ledger: Ledger) -> str | None:
    """Return the ledger that has the anchor's entry; None if this one has it or accepted its loss."""
    if anchor.ledger != ledger.identity:
        return f"ledger {anchor.ledger}, and this is ledger {ledger.identity}"
    if not ledger.accounts_for(anchor.seq, anchor.hash):
        return f"a newer copy of ledger {ledger.identity}"
    return None


def refuse_other_ledger(folder: DataFolder, dataset: str, ledger: Ledger) -> None:
    """Refuse rows whose anchor names another ledger, or a newer copy of this one.

    Raises:
        LedgerError: names it, and how to go on.
    """
    # A simulation's ledger is thrown away, and charges nothing.
    anchor = None if ledger.memory is None else _anchor(folder)
    problem = None if anchor is None or anchor.dataset != dataset else _elsewhere(anchor, ledger)
    if problem is not None:
        raise LedgerError(
            f"what was charged to '{dataset}' is in {problem}: set CAUSALVEIL_HOME or CAUSALVEIL_LEDGER_URL as before; "
            f"or the owner of the rows decides that they begin anew here: {_grant_command(folder)}"
        )


def check_manifest(study: Study, folder: DataFolder, layout: Layout) -> Manifest | None:
    """Check columns, types and partitions of a study against its data's manifest.

    Footers are read, never rows.

    Returns:
        The manifest, or None where there is none.

    Raises:
        DataError: names the column or the partition; the schema drifted, or files were changed since the extract.
    """
    manifest = folder.manifest()
    if manifest is None:
        return None
    for name in study.columns:
        _check_column(study, manifest, name)
    _check_partitions(manifest, layout)
    for partition in layout.partitions:
        types = column_types(folder, partition)
        for name, kind in manifest.columns.items():
            if name not in types or types[name] != _stored_as(kind):
                raise DataError(
                    f"{partition.path}: column '{name}' is not the {kind} that the manifest says; extract again"
                )
    return manifest


def snapshots_of(folder: DataFolder, layout: Layout) -> tuple[TableSnapshot, ...]:
    """Return the states of open tables that the partitions of a run were taken from.

    Raises:
        DataError: the manifest cannot be read.
    """
    manifest = folder.manifest()
    read = {partition.path.partition("/")[0] for partition in layout.partitions}
    return () if manifest is None else manifest.snapshots(read)


def refuse_telling_losses(contract: Contract, folder: DataFolder) -> None:
    """Refuse sensitive data whose extract left rows out because of their values.

    The number of units would disclose something about these values.

    Raises:
        ContractError: names the column, and how the owner can go on.
    """
    manifest = folder.manifest()
    refuse_telling(contract, () if manifest is None else manifest.required)


def refuse_telling(contract: Contract, required: Iterable[str]) -> None:
    """Refuse a source that leaves out sensitive rows without a value, where that is not public.

    Raises:
        ContractError: as :func:`refuse_telling_losses`.
    """
    name = contract.unspeakable(required)
    if name is not None:
        raise ContractError(
            f"rows without '{name}' are left out of sensitive data, so the number of units would tell who has none; "
            f"take '{name}' out of 'required' in source.yaml and extract anew, or write 'recorded_is_public: [{name}]' "
            f"into {CONTRACT_FILE} if that is public"
        )


def _check_column(study: Study, manifest: Manifest, name: str) -> None:
    kind = manifest.columns.get(name)
    if kind is None:
        raise DataError(
            f"the study reads column '{name}', which extract '{manifest.name}' did not take; "
            "declare it in the source file, or mend the study"
        )
    if not accepts(study.roles[name], _stored_as(kind)):
        raise DataError(
            f"column '{name}' was extracted as {kind}, but the study says it {type_rule(study.roles[name])}"
        )


def _check_partitions(manifest: Manifest, layout: Layout) -> None:
    """Compare files and counts of every block that the run reads with the manifest's."""
    extracted = {file.path: file.rows for block in manifest.blocks for file in block.files}
    rows = {partition.path: partition.rows for partition in layout.partitions}
    read = {path.partition("/")[0] for path in rows}
    missing = sorted(path for path in extracted if path.partition("/")[0] in read and path not in rows)
    for path in [*missing, *sorted(path for path in rows if rows[path] != extracted.get(path))]:
        raise DataError(f"{path}: was added, removed or changed since the extract; run the extract again")


def _stored_as(kind: Kind) -> pl.DataType:
    return {
        Kind.integer: pl.Int64(),
        Kind.number: pl.Float64(),
        Kind.boolean: pl.Boolean(),
        Kind.text: pl.String(),
        Kind.date: pl.Date(),
        Kind.timestamp: pl.Datetime("us"),
    }[kind]


def validate_stage(study: Study, folder: DataFolder, layout: Layout, admission: Admission) -> None:
    """Hold columns, sizes and footers of a run's files to the manifest of the admitted data.

    Args:
        study: the study.
        folder: the data folder.
        layout: of :func:`tasks.data.partitions.read_layout`.
        admission: the manifest.

    Raises:
        DataError: one line with the column or the partition.
        CausalveilError: pandera cannot be imported.
    """
    for name in study.columns:
        if name not in admission.columns:
            raise DataError(
                f"column '{name}' is none of the admitted data; their owner must admit them under the contract as it "
                "stands: causalveil admit FOLDER"
            )
    from causalveil.schemas.contract_schema import ContractSchema

    schema = ContractSchema(study.roles)
    for partition in layout.partitions:
        admitted = admission.by_path.get(partition.path)
        if admitted is None or (admitted.rows, admitted.block) != (partition.rows, partition.block):
            raise changed(partition.path)
        # Types in a file without rows are arbitrary.
        wrong = schema.wrong(column_types(folder, partition)) if partition.rows else {}
        for name, rule in wrong.items():
            if rule is Rule.missing:
                raise changed(partition.path)
            raise DataError(f"{partition.path}: column '{name}' {rule}")
