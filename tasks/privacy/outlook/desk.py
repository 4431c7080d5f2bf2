"""All datasets of a ledger as their owner sees them.

Declared and recorded facts only: no released value, no row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from pydantic import ValidationError

from causalveil.schemas.ledger import Account, Sum
from causalveil.schemas.oversight import Author, Concern, Desk, DeskDataset, DeskGrant, DeskRefusal, DeskRun, Pace
from causalveil.schemas.privacy import Accounting, Level
from causalveil.tasks.privacy.ledger.accounts import Book, RunRecord, account_of, grant_caps
from causalveil.tasks.privacy.ledger.entry import BY, Entry
from causalveil.tasks.privacy.ledger.ledger import Ledger
from causalveil.tasks.privacy.ledger.usage import use_of
from causalveil.tasks.privacy.outlook.standing import accounts_in, fits

# A run that holds budget for so long has probably died.
LONG = timedelta(days=7)
# So many refusals of one person within a day are no accident.
MANY_REFUSALS = 3
# The part of a cap below which an owner should think of the next grant.
NEARLY_EMPTY = 0.1
# The pace is that of so many last runs.
PACE_RUNS = 12
HORIZON = timedelta(days=36_500)
# Runs closer together than this follow no schedule.
CLOSEST = timedelta(hours=1)


def desk_of(ledger: Ledger, at: datetime | None = None) -> Desk:
    """Verify the whole chain, then gather what it says.

    Args:
        ledger: whose desk.
        at: the moment that it is for; None: now.

    Raises:
        LedgerError: the ledger does not verify or cannot be used.
    """
    moment, verified = at or datetime.now(UTC), ledger.verify()
    restores = [entry for entry in ledger.entries_of("") if entry.kind == "restore"]
    return Desk(
        verified=verified,
        at=moment,
        datasets=tuple(_dataset(ledger, name, moment) for name in ledger.datasets()),
        concerns=tuple(
            Concern(
                at=moment,
                text=f"Run {one.run_id} is finished and never drew {', '.join(one.charges)}, which it declared: its "
                "release may hold exact values. Withdraw it.",
            )
            for one in verified.undrawn
        )
        + tuple(
            Concern(
                at=_moment(entry),
                text="An older copy of the ledger went on here: entries after its end are lost, and what they charged "
                f"is forgotten. Reason given: {entry.document.get('reason')}",
            )
            for entry in restores
        ),
    )


def _dataset(ledger: Ledger, name: str, moment: datetime) -> DeskDataset:
    entries = ledger.entries_of(name)
    book = Book(ledger.identity, entries)
    records = [run for run in book.runs.values() if run.reservation.dataset == name]
    account = account_of(book, ledger.identity, name, None)
    grants = tuple(_grant(entry) for entry in entries if entry.kind == "grant")
    runs = tuple(map(_run, records))
    refusals = tuple(_refusal(entry) for entry in entries if entry.kind == "refuse")
    grant = book.grants.get(name)
    return DeskDataset(
        dataset=name,
        data_class=None if grant is None or grant.data_class is None else str(grant.data_class),
        account=account,
        share_left=min((block.share_left for block in account.blocks), default=1.0),
        grants=grants,
        runs=runs,
        refusals=refusals,
        concerns=_concerns(account, grants, runs, refusals, moment),
        pace=_pace(book, name, records),
    )


def _moment(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry.written_at)


def _author(entry: Entry) -> Author:
    by = entry.document.get(BY) or {}
    return Author(at=_moment(entry), actor=by.get("actor"), host=by.get("host"))


def _grant(entry: Entry) -> DeskGrant:
    body = entry.document
    return DeskGrant(
        by=_author(entry),
        caps=grant_caps(entry),
        accounting=Accounting(body.get("accounting") or Accounting.basic),
        review=body.get("review") is True,
        signed="signature" in body,
        reason=str(body.get("reason") or ""),
    )


def _run(run: RunRecord) -> DeskRun:
    asked = run.reservation
    end = run.voided or run.verdict or (None if run.state == "held" else run.document)
    return DeskRun.taken_from(
        asked,
        state=run.state,
        cost=run.cost,
        spent=run.spent,
        reserved=_author(run.reserved),
        ended=None if end is None else _author(end),
        charges=tuple(charge for charge, _ in run.charges),
    )


def _refusal(entry: Entry) -> DeskRefusal:
    body = entry.document
    asked = body.get("asked") or {}
    try:
        cost = Sum.model_validate(asked.get("cost"))
    except ValidationError:
        cost = None
    purpose = (body.get(BY) or {}).get("purpose")
    return DeskRefusal(
        by=_author(entry),
        run_id=entry.run_id,
        study=str(asked.get("study") or ""),
        purpose=purpose,
        cost=cost,
        why=str(body.get("why") or ""),
    )


def _concerns(
    account: Account,
    grants: Sequence[DeskGrant],
    runs: Sequence[DeskRun],
    refusals: Sequence[DeskRefusal],
    moment: datetime,
) -> tuple[Concern, ...]:
    """Return what an owner should look at, newest first."""
    found = [*_of_accounts(account, moment), *_of_runs(runs, moment), *_of_refusals(refusals)]
    for before, after in pairwise(grants):
        raised = [
            level
            for level, cap in after.caps.items()
            if level not in before.caps or cap.epsilon > before.caps[level].epsilon
        ]
        if raised:
            found.append(Concern(at=after.by.at, text=f"The cap of level {', '.join(map(_words, raised))} was raised."))
        if before.review and not after.review:
            found.append(Concern(at=after.by.at, text="Releases are not held for review any more."))
    return tuple(sorted(found, key=lambda concern: concern.at, reverse=True))


def _of_accounts(account: Account, moment: datetime) -> Iterable[Concern]:
    low = [block for block in account.blocks if block.share_left < NEARLY_EMPTY and block.granted.epsilon > 0]
    if low:
        least = min(low, key=lambda block: block.share_left)
        more = "" if len(low) == 1 else f" (and of {len(low) - 1} other accounts)"
        text = f"{100 * least.share_left:.0f}% is left of level {_words(least.level)}, block {least.block}{more}."
        yield Concern(at=moment, text=text)


def _of_runs(runs: Sequence[DeskRun], moment: datetime) -> Iterable[Concern]:
    for run in runs:
        age = moment - run.reserved.at
        if run.state == "reserved" and age > LONG:
            yield Concern(
                at=run.reserved.at,
                text=f"Run {run.run_id} has held budget for {age.days} days and is not finished: resume it, or void it "
                f"(causalveil ledger void {run.run_id} --reason TEXT).",
            )
    known: set[str | None] = set()
    for run in runs:
        if known and run.reserved.actor not in known:
            who = run.reserved.actor or "an unnamed person"
            yield Concern(at=run.reserved.at, text=f"First run by {who} ({run.run_id}).")
        known.add(run.reserved.actor)


def _of_refusals(refusals: Sequence[DeskRefusal]) -> Iterable[Concern]:
    days = Counter((refusal.by.at.date(), refusal.by.actor) for refusal in refusals)
    for (_, actor), count in days.items():
        if count >= MANY_REFUSALS:
            last = max(refusal.by.at for refusal in refusals if refusal.by.actor == actor)
            yield Concern(at=last, text=f"{count} requests by {actor or 'an unnamed person'} refused in one day.")


def _pace(book: Book, dataset: str, records: Sequence[RunRecord]) -> Pace | None:
    """Estimate how long runs like the last one could go on; None without a run or a cap."""
    if not records:
        return None
    last = records[-1].reservation
    accounts = accounts_in(book, dataset, last.level, last.blocks)
    if not accounts:
        return None
    room = fits(accounts, use_of(last.charges, last.cost))
    moments = [_moment(run.reserved) for run in records if run.reservation.study == last.study][-PACE_RUNS:]
    if len(moments) < 2:
        return Pace(study=last.study, fits=room, days_apart=None, dry=None)
    apart = (moments[-1] - moments[0]) / (len(moments) - 1)
    # The run that is refused is the one after the last that fits.
    known = apart >= CLOSEST and room + 1 <= HORIZON / apart
    return Pace(
        study=last.study,
        fits=room,
        days_apart=apart / timedelta(days=1),
        dry=moments[-1] + (room + 1) * apart if known else None,
    )


def _words(level: Level) -> str:
    return str(level).replace("_", " ")
