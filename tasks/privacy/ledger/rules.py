"""Rules by which the ledger refuses a reservation, a draw or a reason."""

from __future__ import annotations

from collections.abc import Mapping, Set

from causalveil.schemas.contract import Contract, DataClass
from causalveil.schemas.errors import (
    BudgetRefused,
    ChargesDiffer,
    ContractError,
    DataError,
    ReleaseHeld,
    RunConflict,
    StudyError,
)
from causalveil.schemas.ledger import Reservation
from causalveil.schemas.privacy import Charge, Level
from causalveil.tasks.privacy.ledger.accounts import TOUCHES, Book, Cap, Caps, RunRecord, caps_in_force, keeps
from causalveil.tasks.privacy.ledger.entry import BY, Entry, document_text, granted

# Fields that must be the same when a run id comes back; units, estimator and the rest follow from the digests.
BINDING = {
    "dataset": "dataset",
    "study_digest": "study",
    "layout_digest": "data layout",
    "key_check": "site key",
    "contents": "content of its data files",
    "level": "privacy level",
    "blocks": "blocks",
    "cost": "privacy cost",
    "charges": "declared charges",
}
# Those that are known before the rows are read.
BINDING_AHEAD = {field: BINDING[field] for field in ("dataset", "study_digest", "level")}


def refuse_another_run(run: RunRecord, request: Reservation, binding: Mapping[str, str] = BINDING) -> None:
    """Refuse a request under the id of another run.

    Raises:
        RunConflict: names the fields that differ, where a run of another site key is held, or that the run was voided.
    """
    differs = [field for field in binding if getattr(request, field) != getattr(run.reservation, field)]
    # The digest of the contents is keyed by the site's key.
    if run.state == "reserved" and "key_check" in differs and set(differs) <= {"key_check", "contents"}:
        held_by = run.reserved.document.get(BY, {})
        raise RunConflict(
            f"run {request.run_id} is held by {held_by.get('actor')} on {held_by.get('host')} under another site key: "
            "go on with it there, or let both machines share that key (CAUSALVEIL_SHARED, docs/ledger.md); if the key "
            f"is lost, free what was not drawn: causalveil ledger void {request.run_id} --reason TEXT"
        )
    if differs:
        raise RunConflict(
            f"run id {request.run_id} is taken by a run with another {', '.join(BINDING[field] for field in differs)}; "
            "choose a new run id"
        )
    if run.state in ("voided", "rejected"):
        raise RunConflict(f"run {request.run_id} was {run.state}; choose a new run id")


def refuse_other_data(book: Book, request: Reservation) -> None:
    """Hold a new run to the admission that counts.

    Raises:
        DataError: its data were not admitted, or others were since.
    """
    if request.admission != book.admissions.get(request.dataset):
        raise DataError(
            f"the data of '{request.dataset}' were admitted anew while run {request.run_id} began; start it again"
        )


def caps_with_room(book: Book, request: Reservation, contract: Contract) -> Caps:
    """Return the caps in force for the levels that a request touches, if it fits below them.

    Raises:
        BudgetRefused: no grant of this contract, no cap, charges beyond the request's own total, or too little left in
            a block.
    """
    granted(book.grants.get(request.dataset), contract)
    return _with_room(book, request, book.caps_for(request, caps_in_force(book.caps[request.dataset], contract)))


def refuse_without_room(book: Book, request: Reservation, contract: Contract) -> None:
    """Refuse as :func:`caps_with_room` does, also for data that will grant themselves.

    Raises:
        BudgetRefused: as there.
    """
    if grants_itself(contract) and contract.dataset not in book.grants:
        caps = {level: contract.caps[level] for level in TOUCHES[request.level] if level in contract.caps}
        _with_room(book, request, {level: Cap(cap, contract.accounting) for level, cap in caps.items()})
    else:
        caps_with_room(book, request, contract)


def refuse_other_contract(book: Book, contract: Contract) -> None:
    """Refuse a contract that was not granted: any folder could bear the dataset's name.

    Public and synthetic data without a grant pass, as they may grant themselves.

    Raises:
        BudgetRefused: no grant, or a grant of another contract.
    """
    if contract.dataset in book.grants or not grants_itself(contract):
        granted(book.grants.get(contract.dataset), contract)


def grants_itself(contract: Contract) -> bool:
    """Check whether the first grant of a dataset needs no action of its owner."""
    return contract.data_class is not DataClass.sensitive and contract.owner_key is None


def _with_room(book: Book, request: Reservation, caps: Mapping[Level, Cap]) -> Caps:
    if request.level not in caps:
        raise BudgetRefused(
            f"dataset '{request.dataset}' has no cap for level {request.level}; use a level that both the contract "
            "and its owner's grant name"
        )
    if not keeps(request.charges, request.cost):
        raise BudgetRefused(f"run {request.run_id}: the declared charges exceed the reservation's total")
    excess = book.excess(request, caps)
    if excess is not None:
        # A pure epsilon is dear in rho: Gaussian noise of the same width costs far less.
        pure = request.cost.delta == 0 and any(cap.concentrated for cap in caps.values())
        raise BudgetRefused(
            f"dataset '{request.dataset}', {excess}; ask for less{', or with a delta' if pure else ''}, read other "
            "blocks, void runs that died, or ask the data's owner for another grant"
        )
    return {level: cap.cost for level, cap in caps.items()}


def refuse_conversion(book: Book, contract: Contract) -> None:
    """Refuse to change the accounting of an account that has runs: no theorem covers that.

    Raises:
        ContractError: the contract names another accounting than the grant in force, and there are runs.
    """
    before = book.grants.get(contract.dataset)
    if before is not None and before.accounting != contract.accounting and book.has_runs(contract.dataset):
        raise ContractError(
            f"the account of '{contract.dataset}' has runs under accounting '{before.accounting}' and cannot be "
            f"converted; write 'accounting: {before.accounting}', or give new data a name of their own"
        )


def drawn_before(run: RunRecord, charge: Charge) -> Entry | None:
    """Return the entry in which the charge was released; None if the run may draw it now.

    Raises:
        BudgetRefused: the run did not declare this charge, or has ended without it.
    """
    run_id = run.reservation.run_id
    if charge not in run.reservation.charges:
        raise BudgetRefused(f"run {run_id} did not declare the charge '{charge.name}' as it is asked for now")
    entry = run.entry_of_charge(charge.name)
    if entry is None and run.state != "reserved":
        raise BudgetRefused(f"run {run_id} was {run.state} before '{charge.name}' was drawn")
    return entry


def refuse_undrawn(run: RunRecord, in_document: Set[str]) -> None:
    """Refuse to end a run before all its charges are committed and in its release.

    Args:
        run: the run.
        in_document: names of charges whose values were drawn, or returned by the ledger, for the release.

    Raises:
        ChargesDiffer: names the charges that were not.
    """
    undrawn = {*run.undrawn, *(charge.name for charge, _ in run.charges if charge.name not in in_document)}
    names = ", ".join(f"'{charge.name}'" for charge in run.reservation.charges if charge.name in undrawn)
    if names:
        raise ChargesDiffer(
            f"run {run.reservation.run_id} declared {names} and did not draw it, so nothing is published; report this"
        )


def one_line(reason: str) -> str:
    """Return a reason as one line for the record.

    Raises:
        StudyError: empty, too long, or not text.
    """
    text = " ".join(reason.split())
    if not text or not text.isprintable() or len(text) > 1000:
        raise StudyError("the reason must be a line of text of at most 1000 characters: it goes into the record")
    return text


def document_that_may_leave(run: RunRecord) -> str | None:
    """Return the text of a run's release; None as long as it has none.

    Raises:
        ReleaseHeld: its owner has not approved it yet.
        RunConflict: its owner rejected it.
    """
    if run.document is None:
        return None
    if run.state == "held":
        raise ReleaseHeld(run.reservation.run_id)
    if run.state == "rejected":
        raise RunConflict(
            f"the release of run {run.reservation.run_id} was rejected by the data's owner; its charges stand"
        )
    return document_text(run.document)
