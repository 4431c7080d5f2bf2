"""Whether the rows that lie in a folder are those that the ledger knows as admitted, without admitting them anew."""

from __future__ import annotations

from causalveil.schemas.admission.manifest import Admission, AdmittedFile
from causalveil.schemas.contract import Contract
from causalveil.schemas.plan import Layout
from causalveil.tasks.admission.kept import difference, find_admission
from causalveil.tasks.enclave.data_folder import DataFolder, file_digest
from causalveil.tasks.enclave.partitions import opened


def admitted_as_they_lie(
    folder: DataFolder, contract: Contract, layout: Layout, recorded: str | None
) -> Admission | None:
    """Return the manifest of the admitted rows if a folder holds these very bytes; else None.

    A file whose time of change is another one is read, and its digest compared: it may be a copy of the same bytes.

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
    return admission if all(_is_same(folder, files[one.path], admission) for one in layout.partitions) else None


def _is_same(folder: DataFolder, file: AdmittedFile, admission: Admission) -> bool:
    with opened(folder, file.path) as there:
        return file_digest(there, admission.key, admission.version) == file.digest and not there.changed
