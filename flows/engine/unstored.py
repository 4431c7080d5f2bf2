"""Nothing that a flow returns or raises is stored by Prefect: what it keeps is states, whose messages are ours.

``persist_result=False`` keeps results from being stored, but not exceptions: Prefect pickles each, with all that hangs
on it, into local storage that other users can read.
"""

from __future__ import annotations

from prefect.context import FlowRunContext
from prefect.filesystems import LocalFileSystem


class Unstored(LocalFileSystem):
    """Take everything that is to be stored, and keep nothing."""

    _block_type_name = "Unstored"
    _block_type_slug = "causalveil-unstored"

    def write_path(self, path: str, content: bytes) -> str:  # type: ignore[override]  # as Prefect's own does
        """Drop what is to be written."""
        del content
        return path

    async def awrite_path(self, path: str, content: bytes) -> str:
        """Drop what is to be written."""
        del content
        return path


def store_nothing() -> None:
    """Have the flow run that is going on, and its task runs, store no result and no exception."""
    context = FlowRunContext.get()
    if context is not None and context.result_store is not None:
        context.result_store.result_storage = Unstored()
