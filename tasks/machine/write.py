"""Writing what may leave: a release, a bundle, a report. Whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from causalveil.schemas.errors import StudyError


def write_whole(path: Path, text: str, *, taken: str | None = None, failed: str = "") -> Path:
    """Write a text file atomically; the same text again is welcome.

    Args:
        path: where; folders are made.
        text: what, as UTF-8.
        taken: what to say if another text lies there; None: it is replaced.
        failed: what to do if nothing can be written, appended to the message.

    Raises:
        StudyError: another text lies there, or nothing can be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if taken is not None and path.exists() and path.read_bytes() != text.encode():
            raise StudyError(f"{path}: {taken}")
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as problem:
        hint = f"; {failed}" if failed else ""
        raise StudyError(f"{path}: cannot be written ({type(problem).__name__}){hint}") from None
    return path
