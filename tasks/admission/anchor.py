"""Which ledger knows what was charged to the rows of a folder: a file beside them says it, wherever they are read.

A ledger forgets nothing, but another one knows nothing: with another state folder, or another ledger's URL, the same
rows would have a second budget. The file is written when rows are admitted into their folder. Public data that admit
themselves are left as they lie, and a folder that cannot be written has no such file.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import Field

from causalveil.schemas.contract import CONTRACT_FILE
from causalveil.schemas.documents import MAX_DOCUMENT_BYTES, parse_json, validate
from causalveil.schemas.errors import LedgerError, StudyError
from causalveil.schemas.privacy import Frozen
from causalveil.schemas.study import Slug
from causalveil.tasks.enclave.data_folder import DataFolder
from causalveil.tasks.machine.files import whole_file
from causalveil.tasks.privacy.ledger.ledger import Ledger

ANCHOR_FILE = "_ledger.json"
_MODE = 0o644


class Anchor(Frozen):
    """A ledger by its identity, and its last entry when the rows were admitted or granted there."""

    dataset: Slug
    ledger: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    seq: Annotated[int, Field(ge=1)]
    hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def leave_anchor(folder: DataFolder, dataset: str, ledger: Ledger) -> None:
    """Name the ledger beside the rows, with its last entry; nothing where the folder cannot be written."""
    seq, digest = ledger.head()
    anchor = Anchor(dataset=dataset, ledger=ledger.identity, seq=seq, hash=digest)
    with (
        suppress(OSError),
        whole_file(Path(ANCHOR_FILE), mode=_MODE, durable=True, within=folder.handle) as file,
    ):
        file.write((anchor.model_dump_json() + "\n").encode())


def move_anchor(folder: DataFolder, dataset: str, ledger: Ledger) -> None:
    """Name another ledger beside the rows, if one is named: their owner granted them there."""
    if folder.holds(ANCHOR_FILE):
        leave_anchor(folder, dataset, ledger)


def refuse_other_ledger(folder: DataFolder, dataset: str, ledger: Ledger) -> None:
    """Refuse rows that another ledger knows, or a newer copy of this one.

    Raises:
        LedgerError: says which, and how to go on.
    """
    # A simulation's ledger is thrown away, and charges nothing.
    content = None if ledger.memory is None else folder.read(ANCHOR_FILE, MAX_DOCUMENT_BYTES)
    if content is None:
        return
    place = folder.path / ANCHOR_FILE
    try:
        anchor = validate(Anchor, parse_json(content), str(place))
    except (ValueError, StudyError):
        anchor = None
    begin = f"causalveil ledger grant {folder.path / CONTRACT_FILE} --reason TEXT"
    if anchor is None:
        raise LedgerError(f"{place}: does not name a ledger; the owner of the rows writes it anew by: {begin}")
    if anchor.dataset != dataset:
        return
    if anchor.ledger != ledger.identity:
        problem = f"ledger {anchor.ledger}, and this is ledger {ledger.identity}"
    elif not ledger.has_entry(anchor.seq, anchor.hash):
        problem = f"a newer copy of ledger {ledger.identity}"
    else:
        return
    raise LedgerError(
        f"what was charged to '{dataset}' is in {problem}: set CAUSALVEIL_HOME or CAUSALVEIL_LEDGER_URL as before; or "
        f"the owner of the rows decides that they begin anew here: {begin}"
    )
