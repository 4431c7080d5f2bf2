"""Read the history of accounts and runs from their entries.

The accounts of a dataset burn down entry by entry. An audit trail is read from a chain that was verified first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from causalveil.schemas.ledger import Reservation
from causalveil.schemas.oversight import ChargeRecord, LedgerTrail, RefusalRecord, Stamp
from causalveil.schemas.privacy import Level, PrivacyCost
from causalveil.tasks.privacy.ledger.accounts import Book, RunRecord, reservation_of
from causalveil.tasks.privacy.ledger.entry import BY, Entry
from causalveil.tasks.privacy.ledger.ledger import Ledger
from causalveil.tasks.privacy.ledger.usage import TOUCHES, WHOLE

Account = tuple[Level, str]


@dataclass(frozen=True)
class BurndownStep:
    """The rest right after a run was reserved or voided, or a cap granted.

    Of a grant ``run`` is empty.
    """

    at: datetime
    kind: str
    run: str
    study: str
    share_left: float
    used: Decimal
    cap: PrivacyCost


@dataclass(frozen=True)
class Burndown:
    """One account; ``blocks`` has several names where all of them took the same steps."""

    level: Level
    blocks: tuple[str, ...]
    steps: tuple[BurndownStep, ...]


def burndowns(entries: Iterable[Entry], identity: str, dataset: str) -> tuple[Burndown, ...]:
    """Every account of a dataset that was ever charged, in the order of levels and blocks.

    Raises:
        LedgerError: an entry breaks a rule.
    """
    history, book = tuple(entries), Book(identity)
    tracks: dict[Account, list[BurndownStep]] = {account: [] for account in _charged(history)}
    for entry in history:
        book.add(entry)
        if entry.kind == "grant":
            touched, study = set(tracks), ""
        elif entry.kind in ("reserve", "void"):
            run = book.runs[entry.run_id].reservation
            touched, study = _touched(run, tracks), run.study
        else:
            continue
        caps = book.caps_of(dataset)
        for level, block in touched:
            if level in caps:
                cap, used = caps[level], book.used(dataset, level, block)
                tracks[level, block].append(
                    BurndownStep(
                        at=datetime.fromisoformat(entry.written_at),
                        kind=entry.kind,
                        run=entry.run_id,
                        study=study,
                        share_left=cap.share_left(used),
                        used=cap.epsilon(used),
                        cap=cap.cost,
                    )
                )
    return _together(tracks)


def _charged(history: Sequence[Entry]) -> dict[Account, None]:
    """The accounts that any run was charged to, each once."""
    runs = [reservation_of(entry) for entry in history if entry.kind == "reserve"]
    return {(level, block): None for run in runs for level in TOUCHES[run.level] for block in run.blocks}


def _touched(run: Reservation, accounts: Iterable[Account]) -> set[Account]:
    """Return the accounts that a run is charged to.

    A run on the whole dataset is charged to every block, any run to the account of the whole.
    """
    return {
        (level, block)
        for level, block in accounts
        if level in TOUCHES[run.level] and (block == WHOLE or {block, WHOLE} & set(run.blocks))
    }


def _together(tracks: dict[Account, list[BurndownStep]]) -> tuple[Burndown, ...]:
    """Accounts with the same steps at one level as one."""
    groups: dict[tuple[Level, tuple[BurndownStep, ...]], list[str]] = {}
    for (level, block), track in tracks.items():
        groups.setdefault((level, tuple(track)), []).append(block)
    found = [Burndown(level, tuple(sorted(blocks)), steps) for (level, steps), blocks in groups.items() if steps]
    return tuple(sorted(found, key=lambda one: (list(Level).index(one.level), one.blocks)))


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
