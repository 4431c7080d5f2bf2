"""What a coordinator remembers of the rounds that were pooled: the first bundle of each site stands.

A site that could send a second answer to one call could choose among its noises, and whoever stands between could
put an older answer in the place of a newer one. So a round that was pooled once takes the same bundles again, and no
others.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from causalveil.schemas.documents import parse_json, read_regular
from causalveil.schemas.errors import BundleError, CausalveilError
from causalveil.schemas.sites.bundle import Reason
from causalveil.tasks.machine.home import home
from causalveil.tasks.machine.write import whole_file

FOLDER = "rounds"


def settle(round_: str, digests: Mapping[str, str]) -> None:
    """Compare with what this round was pooled from before, and keep it if it is new.

    Args:
        round_: the round's name.
        digests: SHA-256 of each site's bundle.

    Raises:
        BundleError: names every site whose bundle is another one than before.
        CausalveilError: the record cannot be read or written.
    """
    folder = home() / FOLDER
    path = folder / f"{round_}.json"
    with _alone(folder):
        before = _read(path)
        others = [site for site in digests if before.get(site, digests[site]) != digests[site]]
        if others:
            raise BundleError(
                "nothing was pooled: "
                + "; ".join(f"site '{name}': {Reason.replayed}: its bundle is not the one" for name in others)
                + f" that round '{round_}' was pooled with before; a new answer needs a new round"
            )
        if set(digests) - set(before):
            _write(path, {**before, **digests})


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other process of this machine looks at the record meanwhile."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError as problem:
        raise CausalveilError(f"{folder}: the record of rounds cannot be kept ({type(problem).__name__})") from None
    try:
        yield
    finally:
        os.close(handle)


def _read(path: Path) -> dict[str, str]:
    try:
        document = parse_json(read_regular(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        raise CausalveilError(f"{path}: the record of rounds cannot be read ({type(problem).__name__})") from None
    if not isinstance(document, dict) or not all(isinstance(value, str) for value in document.values()):
        raise CausalveilError(f"{path}: the record of rounds is damaged; restore it from a backup")
    return document


def _write(path: Path, document: Mapping[str, str]) -> None:
    try:
        with whole_file(path, durable=True) as file:
            file.write(json.dumps(document, indent=2, sort_keys=True).encode())
    except OSError as problem:
        raise CausalveilError(f"{path}: the record of rounds cannot be written ({type(problem).__name__})") from None
