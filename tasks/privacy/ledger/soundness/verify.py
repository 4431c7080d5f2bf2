"""What an auditor runs: the chain and the accounts, recomputed; and releases in hand held against them.

The chain finds a changed, removed, reordered or inserted entry. A ledger that was cut at its end or put back to an
older copy is a chain too: what this machine has seen of it finds those, and releases in hand, by ``verify_release``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from causalveil.schemas.errors import LedgerError
from causalveil.schemas.ledger import UndrawnCharges, Verified
from causalveil.tasks.privacy.ledger.accounts import Book, RunRecord
from causalveil.tasks.privacy.ledger.soundness.memory import Memory, from_the_first, refuse_older
from causalveil.tasks.privacy.ledger.store import Store

if TYPE_CHECKING:
    from causalveil.schemas.release import Release


def verify(store: Store, identity: str, dataset: str | None = None, memory: Memory | None = None) -> Verified:
    """Recompute every hash, and the accounts of one dataset or of all.

    Checks that entries are consecutive and chained from a genesis with this identity; that no reservation ever
    exceeded the cap recorded with it, nor that cap the owner's grant; that each release and void belongs to a
    reservation that was open; that each charge is one that its reservation declared; that grants and verdicts are
    their owner's; that the database is whole and the triggers stand; that this machine has seen no later entry.
    Finished runs that never drew a declared charge are named: older versions wrote them, and the chain holds.

    Raises:
        LedgerError: names the first entry that fails.
    """
    return _audit(store, identity, dataset, memory)[0]


def verify_release(store: Store, identity: str, release: Release, memory: Memory | None = None) -> Verified:
    """Verify the whole ledger, then that it holds what the release says.

    Raises:
        LedgerError: another ledger's release, or one that this ledger does not have any more or has otherwise.
    """
    if release.ledger.identity != identity:
        raise LedgerError(
            f"run {release.run_id}: its release names ledger {release.ledger.identity}, and this is {identity}"
        )
    verified, book = _audit(store, identity, None, memory)
    run = book.runs.get(release.run_id)
    problem = "the ledger does not have it" if run is None else _difference(run, release)
    if problem:
        raise LedgerError(
            f"run {release.run_id}: {problem}; either this release file was changed or the ledger was rolled back "
            "or truncated"
        )
    return verified


def _audit(store: Store, identity: str, dataset: str | None, memory: Memory | None) -> tuple[Verified, Book]:
    # Read before the transaction begins: what it sees is then no older than what is known.
    known = None if memory is None else memory.read()
    with store.read() as connection:
        chain = from_the_first(store, connection, identity, dataset)
        refuse_older(store, connection, known, identity)
        guarded = store.guarded(connection)
    if not guarded:
        raise LedgerError("the triggers that keep the ledger append-only are gone; somebody removed them")
    runs = chain.book.runs
    undrawn = tuple(
        UndrawnCharges(run_id=run_id, charges=run.undrawn)
        for run_id, run in runs.items()
        if run.document is not None and run.undrawn
    )
    found = Verified(ledger=identity, entries=chain.seq, runs=len(runs), head_hash=chain.hash, undrawn=undrawn)
    return found, chain.book


def _difference(run: RunRecord, release: Release) -> str | None:
    reserved, charges = run.reservation, {charge.name: charge for charge, _ in run.charges}
    privacy = release.privacy
    if release.ledger.sequence not in (None, run.last_entry.seq):
        return "its last charge in the ledger has another number than the release names"
    if run.last_hash != release.ledger.entry_hash:
        return "its last charge in the ledger has another hash than the release names"
    if {charge.name: charge for charge in privacy.charges} != charges or len(privacy.charges) != len(charges):
        return "the ledger has other charges"
    if (privacy.epsilon, privacy.delta) != (reserved.cost.epsilon, reserved.cost.delta):
        return "the ledger has another total"
    if run.document is None:
        return "the ledger has no finished release of it"
    if json.loads(str(run.document.document.get("document"))) != release.model_dump(mode="json"):
        return "the ledger has another release of it"
    return None
