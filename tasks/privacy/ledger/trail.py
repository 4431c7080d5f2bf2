"""The ledger's part of an audit trail: read from a chain that was verified first."""

from __future__ import annotations

import json

from causalveil.schemas.oversight import ChargeRecord, LedgerTrail, RefusalRecord, Stamp
from causalveil.tasks.privacy.ledger.accounts import RunRecord
from causalveil.tasks.privacy.ledger.entry import BY, Entry
from causalveil.tasks.privacy.ledger.ledger import Ledger


def ledger_trail(ledger: Ledger, run_id: str) -> LedgerTrail | None:
    """All that the ledger holds of a run; None if it does not know it.

    Raises:
        LedgerError: the ledger cannot be used, or an entry of the run breaks a rule.
    """
    run = ledger.record(run_id)
    if run is None:
        return None
    reservation = run.reservation
    return LedgerTrail(
        **reservation.model_dump(
            include={"dataset", "study", "study_digest", "layout_digest", "policy_digest", "estimator", "units"}
        ),
        guarantee=reservation.guarantee,
        level=reservation.level,
        blocks=reservation.blocks,
        state=run.state,
        reserved=_stamp(run.reserved),
        cost=run.cost,
        spent=run.spent,
        charges=tuple(ChargeRecord(charge=charge, entry=_stamp(entry)) for charge, entry in run.charges),
        not_drawn=run.undrawn,
        finished=_stamp(run.document) if run.document else None,
        voided=_stamp(run.voided) if run.voided else None,
        void_reason=str(run.voided.document.get("reason")) if run.voided else None,
        reviewed=_stamp(run.verdict) if run.verdict else None,
        review_reason=run.verdict.document.get("reason") if run.verdict else None,
        software=_software(run),
    )


def refusals_of(ledger: Ledger, run_id: str) -> tuple[RefusalRecord, ...]:
    """Every reservation under a run's id that was refused.

    Raises:
        LedgerError: the ledger cannot be used, or an entry is not what the program writes.
    """
    found = ledger.refusals(run_id)
    return tuple(RefusalRecord(why=str(entry.document.get("why")), entry=_stamp(entry)) for entry in found)


def _stamp(entry: Entry) -> Stamp:
    by = entry.document.get(BY) or {}
    return Stamp(seq=entry.seq, hash=entry.hash, written_at=entry.written_at, **by)


def _software(run: RunRecord) -> dict[str, str] | None:
    """The versions that computed the release, which says them; None for a run that has none."""
    if run.document is None:
        return None
    release = json.loads(str(run.document.document.get("document")))
    software = release.get("software", {})
    return {"causalveil": str(software.get("version")), **software.get("dependencies", {})}
