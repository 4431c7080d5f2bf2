"""What a coordinator remembers of the rounds that were pooled: the first bundle of each site stands.

A site that could send a second answer to one call could choose among its noises, and whoever stands between could
put an older answer in the place of a newer one. So a round that was pooled once takes the same bundles again, and no
others.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from causalveil.schemas.documents import parse_json, read_regular
from causalveil.schemas.errors import BundleError, CausalveilError
from causalveil.schemas.sites.round import Reason
from causalveil.tasks.machine.site import home
from causalveil.tasks.privacy.ledger.ledger import Ledger

# Where the record lay before it was part of the ledger; it is still read, and never written.
FOLDER = "rounds"


def settle(ledger: Ledger, round_: str, digests: Mapping[str, str]) -> None:
    """Compare with what this round was pooled from before, and keep it in the ledger if it is new.

    Args:
        ledger: the coordinator's.
        round_: the round's name.
        digests: SHA-256 of each site's bundle.

    Raises:
        BundleError: names every site whose bundle is another one than before.
        LedgerError: the ledger cannot be used.
        CausalveilError: an older record cannot be read.
    """
    others = ledger.settle_round(round_, digests, _before(home() / FOLDER / f"{round_}.json"))
    if others:
        raise BundleError(
            "nothing was pooled: "
            + "; ".join(f"site '{name}': {Reason.replayed}: its bundle is not the one" for name in others)
            + f" that round '{round_}' was pooled with before; a new answer needs a new round"
        )


def _before(path: Path) -> dict[str, str]:
    try:
        document = parse_json(read_regular(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        raise CausalveilError(f"{path}: the record of rounds cannot be read ({type(problem).__name__})") from None
    if not isinstance(document, dict) or not all(isinstance(value, str) for value in document.values()):
        raise CausalveilError(f"{path}: the record of rounds is damaged; restore it from a backup")
    return document
