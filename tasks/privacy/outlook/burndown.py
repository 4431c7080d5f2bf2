"""How the accounts of a dataset burned down: their entries, read again in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from causalveil.schemas.ledger import Reservation
from causalveil.schemas.privacy import Level, PrivacyCost
from causalveil.tasks.privacy.ledger.accounts import Book, reservation_of
from causalveil.tasks.privacy.ledger.entry import Entry
from causalveil.tasks.privacy.ledger.usage import TOUCHES, WHOLE

Account = tuple[Level, str]


@dataclass(frozen=True)
class BurndownStep:
    """What is left right after a run was reserved or voided, or a cap granted (then ``run`` is empty)."""

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
