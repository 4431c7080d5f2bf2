"""What an auditor runs: the chain and the accounts, recomputed; and releases in hand held against them.

The chain finds a changed, removed, reordered or inserted entry. It cannot find a ledger that was cut at its end
or put back to an older copy, since that is a chain too: releases in hand find those, by ``verify_release``.
"""

from __future__ import annotations

import json
import re

from causalveil.schemas.errors import LedgerError
from causalveil.schemas.ledger import Verified
from causalveil.schemas.release import Release
from causalveil.tasks.privacy.ledger.accounts import Book, RunRecord
from causalveil.tasks.privacy.ledger.entry import NO_HASH, Entry, broken
from causalveil.tasks.privacy.ledger.store import Store


def verify(store: Store, identity: str, dataset: str | None = None) -> Verified:
    """Recompute every hash, and the accounts of one dataset or of all.

    Checks that entries are consecutive and chained from a genesis with this identity; that no reservation ever
    exceeded the cap recorded with it, nor that cap the owner's grant; that each release and void belongs to a
    reservation that was open; that each charge is one that its reservation declared; that the triggers stand.

    Raises:
        LedgerError: names the first entry that fails.
    """
    return _audit(store, identity, dataset)[0]


def verify_release(store: Store, identity: str, release: Release) -> Verified:
    """Verify the whole ledger, then that it holds what the release says.

    Raises:
        LedgerError: another ledger's release, or one that this ledger does not have any more or has otherwise.
    """
    if release.ledger.identity != identity:
        raise LedgerError(
            f"run {release.run_id}: its release names ledger {release.ledger.identity}, and this is {identity}"
        )
    verified, book = _audit(store, identity, None)
    run = book.runs.get(release.run_id)
    problem = "the ledger does not have it" if run is None else _difference(run, release)
    if problem:
        raise LedgerError(
            f"run {release.run_id}: {problem}; either this release file was changed or the ledger was rolled back "
            "or truncated"
        )
    return verified


def _audit(store: Store, identity: str, dataset: str | None) -> tuple[Verified, Book]:
    book, last = Book(identity), None
    with store.read() as connection:
        for entry in store.select(connection):
            _check_link(entry, last, identity)
            if dataset is None or entry.dataset == dataset:
                book.add(entry)
            last = entry
        guarded = store.guarded(connection)
    if last is None:
        raise LedgerError("the ledger is empty; restore it from a backup")
    if not guarded:
        raise LedgerError("the triggers that keep the ledger append-only are gone; somebody removed them")
    return Verified(ledger=identity, entries=last.seq, runs=len(book.runs), head_hash=last.hash), book


def _check_link(entry: Entry, last: Entry | None, identity: str) -> None:
    if entry.seq != (1 if last is None else last.seq + 1):
        raise broken(entry, "an entry before it is missing")
    if entry.previous_hash != (NO_HASH if last is None else last.hash):
        raise broken(entry, "it is not chained to the entry before it")
    if entry.hash != entry.digest():
        raise broken(entry, "its hash is not that of its content")
    if (entry.kind == "genesis") != (last is None):
        raise broken(entry, "the first entry, and no other, is the genesis")
    if last is None:
        found = entry.document.get("identity")
        if found != identity or not re.fullmatch("[0-9a-f]{32}", str(found)):
            raise broken(entry, "it is the genesis of another ledger")


def _difference(run: RunRecord, release: Release) -> str | None:
    reserved, charges = run.reservation, {charge.name: charge for charge, _ in run.charges}
    privacy = release.privacy
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
