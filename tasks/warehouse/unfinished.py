"""An extract that is under way, or died: its folder holds blocks, and is not a study's data yet.

A block is whole as soon as it can be seen, but the newest three of some months are other months than the newest three
of all. Whoever lists the partitions of a folder therefore asks here first.
"""

from __future__ import annotations

from pathlib import Path

from causalveil.schemas.errors import DataError
from causalveil.schemas.warehouse import MANIFEST_FILE
from causalveil.tasks.enclave.data_folder import DataFolder
from causalveil.tasks.machine.files import sync_folder, whole_file

BLOCK_FILE = "_block.json"
# There from before an extract changes the first block until its manifest is written.
UNFINISHED_FILE = "_unfinished"


def begin_change(folder: Path) -> None:
    """Mark a folder as unfinished, on disk before any of its blocks changes.

    Raises:
        OSError: it cannot be written.
    """
    if not (folder / UNFINISHED_FILE).exists():
        with whole_file(folder / UNFINISHED_FILE, durable=True):
            pass


def end_change(folder: Path) -> None:
    """Take the mark off, once the manifest names every block of the folder.

    Raises:
        OSError: it cannot be removed.
    """
    (folder / UNFINISHED_FILE).unlink(missing_ok=True)
    sync_folder(folder)


def refuse_unfinished(folder: DataFolder) -> None:
    """Refuse a folder that an extract has not filled to its end.

    Raises:
        DataError: an extract is under way, or did not end; or the folder holds a block that its manifest does not
            name, or lacks one that it names.
    """
    made = {name for name in folder.names() if name[0] != "." and folder.holds(f"{name}/{BLOCK_FILE}")}
    marked = folder.holds(UNFINISHED_FILE)
    if not (marked or made or folder.holds(MANIFEST_FILE)):
        return
    manifest = None if marked else folder.manifest()
    named = set() if manifest is None else {block.block for block in manifest.blocks}
    if marked or not made <= named or not all(folder.is_folder(block) for block in named - made):
        raise DataError(
            f"{folder}: an extract fills this folder and has not ended, so its blocks are not data yet; let it end, or "
            "run it again: causalveil extract SOURCE"
        )
