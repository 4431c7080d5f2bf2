"""Moving a ledger to another database, say from one machine's SQLite file to a team's PostgreSQL."""

from __future__ import annotations

from causalveil.schemas.ledger import Verified
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.privacy.ledger.store import Store


def copy_ledger(source: str, target: str) -> Verified:
    """Copy a ledger, identity and all, into an empty database; retire the source before anything runs again.

    Args:
        source: URL of the ledger; it is verified first, and no run may use it meanwhile.
        target: URL of a database without a ledger.

    Raises:
        LedgerError: the source does not verify, or the target is not empty.
    """
    old = open_ledger(source)
    old.verify()
    with old.store.read() as connection:
        Store(target).adopt(old.store.select(connection))
    return open_ledger(target).verify()
