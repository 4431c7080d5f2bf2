"""The folder where this machine keeps causalveil's state: site secret, default ledger, scratch."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import platformdirs

from causalveil.schemas.errors import CausalveilError

HOME_VARIABLE = "CAUSALVEIL_HOME"


def home() -> Path:
    """Return the state folder, created with mode 0700 if it is not there yet.

    It is ``$CAUSALVEIL_HOME`` if that is set, else the user's data folder for causalveil.

    Raises:
        CausalveilError: the path cannot be made a folder, or other users may write to it (then they could swap the
            site secret).
    """
    configured = os.environ.get(HOME_VARIABLE)
    folder = Path(configured).absolute() if configured else Path(platformdirs.user_data_dir("causalveil"))
    # A state folder elsewhere would have a site key of its own, and no ledger: a second budget for the same data.
    return private_folder(folder, f"let {HOME_VARIABLE} name the state folder that this account had before")


def private_folder(folder: Path, otherwise: str) -> Path:
    """Return a folder that nobody else may write to, created with mode 0700 if it is not there yet.

    Args:
        folder: where.
        otherwise: what to do if its permissions cannot be mended.

    Raises:
        CausalveilError: it cannot be made a folder, or other users may write to it.
    """
    problem = None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        open_to_others = bool(folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    except OSError as error:
        problem = f"{folder}: cannot be used ({type(error).__name__}); mend its permissions, or {otherwise}"
    else:
        if open_to_others:
            problem = f"{folder}: other users may write to the state folder; run: chmod go-w '{folder}'"
    if problem:
        raise CausalveilError(problem)
    return folder
