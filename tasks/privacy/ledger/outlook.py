"""Compute the rest of accounts, the date when a schedule exhausts it, and an owner's desk.

All follows from declared and recorded facts: no draw, no released value, no row. A schedule is a cron expression in
UTC, as Prefect's deployments have it. A burn-down follows the accounts of a dataset entry by entry, from a chain that
was verified first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice, pairwise, product, takewhile
from typing import Literal

from cronsim import CronSim, CronSimError
from pydantic import ValidationError

from causalveil.schemas.contract import Contract
from causalveil.schemas.documents import parse_json
from causalveil.schemas.errors import StudyError
from causalveil.schemas.hints import Blank, option
from causalveil.schemas.ledger import Account, BudgetOutlook, Reservation, Sum
from causalveil.schemas.oversight import (
    Author,
    ChargeRecord,
    Concern,
    Desk,
    DeskDataset,
    DeskGrant,
    DeskRefusal,
    DeskRun,
    LedgerTrail,
    Pace,
    RefusalRecord,
    Stamp,
)
from causalveil.schemas.plan import natural_order
from causalveil.schemas.privacy import Accounting, Level, PrivacyCost
from causalveil.tasks.privacy.accountant import sum_text
from causalveil.tasks.privacy.ledger.accounts import (
    TOUCHES,
    WHOLE,
    Book,
    Cap,
    Listing,
    RunRecord,
    Use,
    account_of,
    caps_in_force,
    grant_caps,
    meets,
    use_of,
)
from causalveil.tasks.privacy.ledger.entry import AUTHOR_FIELDS, BY, Entry, document_text
from causalveil.tasks.privacy.ledger.ledger import Ledger

# An account is one block at one level: its cap and its use.
Accounts = Mapping[tuple[Level, str], tuple[Cap, Use]]


def accounts_in(
    book: Book, dataset: str, level: Level, blocks: Iterable[str], contract: Contract | None = None
) -> Accounts:
    """Return the accounts, under the caps in force, of a run at a level on some blocks.

    Empty if the level has no cap. A dataset without a grant has the contract's caps.
    """
    granted = book.caps.get(dataset)
    if granted is None:
        if contract is None:
            return {}
        held = {name: Cap(cap, contract.accounting) for name, cap in contract.caps.items()}
    else:
        held = book.caps_of(dataset, caps_in_force(granted, contract))
    if level not in held:
        return {}
    return {
        (touched, block): (held[touched], book.used(dataset, touched, block))
        for touched, block in product(TOUCHES[level], blocks)
        if touched in held
    }


def fits(accounts: Accounts, request: Use) -> int:
    """Return how many runs like ``request`` fit into every account."""
    return min(cap.fits(used, request) for cap, used in accounts.values())


def outlook(accounts: Accounts, request: Use, source: Literal["ledger", "contract"]) -> BudgetOutlook:
    """Return an unreserved run's outlook in the account with the least room for runs like it."""
    return _outlook(accounts, request, source, before=accounts)


def outlook_after(accounts: Accounts, request: Use) -> BudgetOutlook:
    """Return a reserved run's outlook: ``accounts`` hold it, and ``fits`` counts those after it."""
    before = {account: (cap, used.minus(request)) for account, (cap, used) in accounts.items()}
    return _outlook(accounts, request, "ledger", before=before)


def _outlook(
    accounts: Accounts, request: Use, source: Literal["ledger", "contract"], *, before: Accounts
) -> BudgetOutlook:
    rooms = {account: cap.fits(used, request) for account, (cap, used) in accounts.items()}
    level, block = min(
        accounts, key=lambda account: (rooms[account], accounts[account][0].share_left(accounts[account][1]))
    )
    cap, used = accounts[level, block]
    used_before = before[level, block][1]
    left = cap.share_left(used_before)
    return BudgetOutlook(
        source=source,
        level=level,
        block=block,
        accounting=Accounting.concentrated if cap.concentrated else Accounting.basic,
        cap=cap.cost,
        used=cap.epsilon(used),
        share_left=cap.share_left(used),
        share=None if left <= 0 else (left - cap.share_left(used_before.plus(request))) / left,
        fits=rooms[level, block],
    )


# Amounts of three digits from 0.001 to 100.
LOWEST_DECADE, DECADES, STEPS = -3, 5, 900


@dataclass(frozen=True)
class DryDate:
    """The number of runs that fit, the last of them at ``last``; the one at ``dry`` is refused.

    None: no such run is foreseen.
    """

    fits: int
    last: datetime | None
    dry: datetime | None


def when_dry(accounts: Accounts, request: Use, runs: Iterable[datetime]) -> DryDate:
    """Return when the first run of a schedule is refused, if nothing else is charged."""
    room = fits(accounts, request)
    last: datetime | None = None
    for index, moment in enumerate(islice(runs, room + 1)):
        if index == room:
            return DryDate(room, last, moment)
        last = moment
    return DryDate(room, last, None)


def lasting_epsilon(accounts: Accounts, use_at: Callable[[Decimal], Use | None], count: int) -> Decimal | None:
    """Return the largest epsilon of three digits, 100 at most, of which ``count`` runs fit.

    It is None if 0.001 is too much.

    Args:
        accounts: those that each run is charged to.
        use_at: use of a run of an epsilon, rising with it; None if there is no such run.
        count: of runs.
    """

    def lasts(index: int) -> bool:
        use = use_at(_amount(index))
        return use is not None and fits(accounts, use) >= count

    low, high = -1, STEPS * DECADES + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if lasts(middle) else (low, middle)
    return None if low < 0 else _amount(low)


def _amount(index: int) -> Decimal:
    """0.00100, 0.00101, ..., 0.00999, 0.0100, ... 100."""
    decade, step = divmod(index, STEPS)
    return Decimal(100 + step).scaleb(LOWEST_DECADE + decade - 2)


NAMED = {"day": "0 0 * * *", "week": "0 0 * * 1", "month": "0 0 1 * *", "year": "0 0 1 1 *"}
# Schedules are followed no further.
MOST_RUNS = 100_000
MOST_YEARS = 100
FIRST_YEAR, LAST_YEAR = 1900, 2900


def cron_of(every: str) -> str:
    """Return the cron expression of ``day``, ``week``, ``month``, ``year``, or of itself."""
    return NAMED.get(every, every)


def runs_of(every: str, start: date) -> Iterator[datetime]:
    """Yield the times of a schedule from the beginning of ``start`` on.

    They are at most a hundred thousand, within a hundred years.

    Raises:
        StudyError: not a cron expression of five fields, or a start before 1900 or after 2900.
    """
    if not FIRST_YEAR <= start.year <= LAST_YEAR:
        raise StudyError(f"a schedule starts between the years {FIRST_YEAR} and {LAST_YEAR}, not on {start}")
    cron = cron_of(every)
    begin = datetime.combine(start, time(), UTC)
    try:
        if len(cron.split()) != 5:
            raise CronSimError("five fields")
        # A run at the very beginning counts, and cronsim yields later times only.
        moments = CronSim(cron, begin - timedelta(seconds=1))
    except CronSimError:
        named = ", ".join(NAMED)
        raise StudyError(
            f"{option('every')} must be {named} or a cron expression of five fields, such as '0 6 * * 1' for Mondays "
            "at six"
        ) from None
    end = begin + timedelta(days=MOST_YEARS * 365)
    return takewhile(lambda moment: moment < end, islice(moments, MOST_RUNS))


def count_until(every: str, start: date, until: date) -> int:
    """Count the schedule's runs from ``start`` to the end of ``until``.

    Raises:
        StudyError: it never runs then, too often to be foreseen, or see ``runs_of``.
    """
    if until < start:
        raise StudyError(f"{option(until=Blank(until))} lies before the start, {start}")
    end = datetime.combine(until, time.max, UTC)
    count = sum(1 for _ in takewhile(lambda moment: moment <= end, runs_of(every, start)))
    if count == 0:
        raise StudyError(f"the schedule does not run from {start} to {until}; choose a later date")
    if count == MOST_RUNS or (until - start).days > MOST_YEARS * 365:
        raise StudyError(f"a schedule is foreseen for {MOST_YEARS} years and {MOST_RUNS:,} runs at most")
    return count


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


def burndowns(ledger: Ledger, dataset: str) -> tuple[Burndown, ...]:
    """Return every account of a dataset that was ever charged, by levels and blocks.

    Raises:
        LedgerError: the ledger cannot be used, or an entry breaks a rule.
    """
    book, tracks = Book(ledger.identity), _Tracks()
    for entry in ledger.entries_of(dataset):
        tracks.take(book, entry, book.add(entry))
    return tracks.burndowns()


@dataclass
class _Tracks:
    """Steps of the accounts of one dataset, read entry by entry.

    The block None has the steps with which each block begins: grants, and runs on the whole dataset.
    """

    steps: dict[tuple[Level, str | None], list[BurndownStep]] = field(
        default_factory=lambda: {(level, block): [] for level in Level for block in (WHOLE, None)}
    )
    charged: set[tuple[Level, str]] = field(default_factory=set)

    def take(self, book: Book, entry: Entry, run: RunRecord | None) -> None:
        """Take in the next entry, and its run with it."""
        if entry.kind != "grant" and (run is None or entry.kind not in ("reserve", "void")):
            return
        request = None if run is None else run.reservation
        for account in () if request is None else product(TOUCHES[request.level], request.blocks):
            self.charged.add(account)
            if account not in self.steps:
                self.steps[account] = list(self.steps[account[0], None])
        caps = book.caps_of(entry.dataset)
        for (level, block), steps in self.steps.items():
            if level in caps and (request is None or meets(request.level, request.blocks, level, block)):
                cap, used = caps[level], book.used(entry.dataset, level, block)
                steps.append(
                    BurndownStep(
                        at=_moment(entry),
                        kind=entry.kind,
                        run=entry.run_id,
                        study="" if request is None else request.study,
                        share_left=cap.share_left(used),
                        used=cap.epsilon(used),
                        cap=cap.cost,
                    )
                )

    def burndowns(self) -> tuple[Burndown, ...]:
        """Return the charged accounts; those with the same steps at one level are merged."""
        groups: dict[tuple[Level, tuple[BurndownStep, ...]], list[str]] = {}
        for level, block in self.charged:
            groups.setdefault((level, tuple(self.steps[level, block])), []).append(block)
        merged = (
            Burndown(level, tuple(natural_order(blocks)), steps) for (level, steps), blocks in groups.items() if steps
        )
        order = natural_order({block for _, block in self.charged})
        return tuple(
            sorted(merged, key=lambda burndown: (list(Level).index(burndown.level), order.index(burndown.blocks[0])))
        )


def ledger_trail(ledger: Ledger, run_id: str) -> LedgerTrail | None:
    """Return all that the ledger records of a run; None if it has no such run.

    Raises:
        LedgerError: the ledger cannot be used, or an entry of the run breaks a rule.
    """
    run = ledger.record(run_id)
    if run is None:
        return None
    delta = run.reservation.cost.delta
    return LedgerTrail.taken_from(
        run.reservation,
        state=run.state,
        reserved=_stamp(run.reserved),
        cost=run.cost,
        spent=run.spent,
        cost_adds=sum_text(run.reservation.charges, delta),
        spent_adds=sum_text((charge for charge, _ in run.charges), delta),
        charges=tuple(
            ChargeRecord(charge=charge, adds=sum_text([charge], delta), entry=_stamp(entry))
            for charge, entry in run.charges
        ),
        not_drawn=run.undrawn,
        finished=_stamp(run.document) if run.document else None,
        voided=_stamp(run.voided) if run.voided else None,
        void_reason=str(run.voided.document.get("reason")) if run.voided else None,
        reviewed=_stamp(run.verdict) if run.verdict else None,
        review_reason=run.verdict.document.get("reason") if run.verdict else None,
        software=_software(run),
    )


def refusals_of(ledger: Ledger, run_id: str) -> tuple[RefusalRecord, ...]:
    """Return every reservation under a run's id that was refused.

    Raises:
        LedgerError: the ledger cannot be used, or the program does not write such an entry.
    """
    return tuple(
        RefusalRecord(why=str(entry.document.get("why")), entry=_stamp(entry)) for entry in ledger.refusals(run_id)
    )


def _stamp(entry: Entry) -> Stamp:
    by = entry.document.get(BY) or {}
    return Stamp(
        seq=entry.seq, hash=entry.hash, written_at=entry.written_at, **{key: by.get(key) for key in AUTHOR_FIELDS}
    )


def _software(run: RunRecord) -> dict[str, str] | None:
    """The versions that computed the run's release, as it states them; None without a release."""
    if run.document is None:
        return None
    software = parse_json(document_text(run.document)).get("software", {})
    return {"causalveil": str(software.get("version")), **software.get("dependencies", {})}


# A run that has held budget for longer has probably died.
LONG = timedelta(days=7)
# Refusals of one person within a day that are reported to the owner.
MANY_REFUSALS = 3
# The share of a cap below which an owner should think of the next grant.
NEARLY_EMPTY = 0.1
# Number of last runs whose mean distance is the pace.
PACE_RUNS = 12
HORIZON = timedelta(days=36_500)
# Runs closer together than this follow no schedule.
CLOSEST = timedelta(hours=1)


def desk_of(ledger: Ledger, at: datetime | None = None) -> Desk:
    """Return an owner's desk, as ``desk_and_burndowns`` does."""
    return desk_and_burndowns(ledger, at)[0]


def desk_and_burndowns(ledger: Ledger, at: datetime | None = None) -> tuple[Desk, dict[str, tuple[Burndown, ...]]]:
    """Return an owner's desk and each dataset's burn-downs, once the whole chain is verified.

    Args:
        ledger: the ledger.
        at: the moment of the desk; None: now.

    Raises:
        LedgerError: the ledger does not verify or cannot be used.
    """
    moment = at or datetime.now(UTC)
    facts, restores = defaultdict[str, _DatasetFacts](_DatasetFacts), list[Entry]()

    def each(book: Book, entry: Entry, run: RunRecord | None) -> None:
        if entry.kind == "restore":
            restores.append(entry)
        elif entry.dataset:
            facts[entry.dataset].take(book, entry, run)

    verified, book = ledger.verify_each(each)
    desk = Desk(
        verified=verified,
        at=moment,
        datasets=tuple(_dataset(book, name, facts[name], moment) for name in sorted(facts)),
        concerns=tuple(
            Concern(
                at=moment,
                text=f"Run {run.run_id} is finished and never drew {', '.join(run.charges)}, which it declared: its "
                "release may hold exact values. Withdraw it.",
            )
            for run in verified.undrawn
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
    return desk, {name: of_dataset.tracks.burndowns() for name, of_dataset in facts.items()}


@dataclass
class _DatasetFacts:
    """Facts of one dataset for a desk; a run that goes on is None among ``runs``."""

    listing: Listing = field(default_factory=Listing)
    tracks: _Tracks = field(default_factory=_Tracks)
    grants: list[DeskGrant] = field(default_factory=list)
    refusals: list[DeskRefusal] = field(default_factory=list)
    runs: dict[str, DeskRun | None] = field(default_factory=dict)
    last: Reservation | None = None

    def take(self, book: Book, entry: Entry, run: RunRecord | None) -> None:
        """Take in the next entry, and its run with it."""
        self.listing.take(entry, run)
        self.tracks.take(book, entry, run)
        if entry.kind == "grant":
            self.grants.append(_grant(entry))
        elif entry.kind == "refuse":
            self.refusals.append(_refusal(entry))
        elif run is not None and entry.kind == "reserve":
            self.runs[entry.run_id], self.last = None, run.reservation
        elif run is not None and run.ended:
            self.runs[entry.run_id] = _run(run)


def _dataset(book: Book, name: str, facts: _DatasetFacts, moment: datetime) -> DeskDataset:
    account = account_of(book, name, None, facts.listing)
    runs = tuple(run or _run(book.runs[run_id]) for run_id, run in facts.runs.items())
    grants, refusals, grant = tuple(facts.grants), tuple(facts.refusals), book.grants.get(name)
    return DeskDataset(
        dataset=name,
        data_class=None if grant is None or grant.data_class is None else str(grant.data_class),
        account=account,
        share_left=min((block.share_left for block in account.blocks), default=1.0),
        grants=grants,
        runs=runs,
        refusals=refusals,
        concerns=_concerns(account, grants, runs, refusals, moment),
        pace=_pace(book, name, facts.last, runs),
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
    end = run.voided or run.verdict or (None if run.state == "held" else run.document)
    return DeskRun.taken_from(
        run.reservation,
        state=run.state,
        cost=run.cost,
        spent=run.spent,
        reserved=_author(run.reserved),
        ended=None if end is None else _author(end),
        charges=tuple(charge for charge, _ in run.charges),
    )


def _refusal(entry: Entry) -> DeskRefusal:
    body = entry.document
    request = body.get("asked") or {}
    try:
        cost = Sum.model_validate(request.get("cost"))
    except ValidationError:
        cost = None
    purpose = (body.get(BY) or {}).get("purpose")
    return DeskRefusal(
        by=_author(entry),
        run_id=entry.run_id,
        study=str(request.get("study") or ""),
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
    """Return the concerns of an owner, newest first."""
    concerns = [*_of_accounts(account, moment), *_of_runs(runs, moment), *_of_refusals(refusals)]
    for before, after in pairwise(grants):
        raised = [
            level
            for level, cap in after.caps.items()
            if level not in before.caps or cap.epsilon > before.caps[level].epsilon
        ]
        if raised:
            levels = ", ".join(map(_level_text, raised))
            concerns.append(Concern(at=after.by.at, text=f"The cap of level {levels} was raised."))
        if before.review and not after.review:
            concerns.append(Concern(at=after.by.at, text="Releases are not held for review any more."))
    return tuple(sorted(concerns, key=lambda concern: concern.at, reverse=True))


def _of_accounts(account: Account, moment: datetime) -> Iterable[Concern]:
    low = [block for block in account.blocks if block.share_left < NEARLY_EMPTY and block.granted.epsilon > 0]
    if low:
        least = min(low, key=lambda block: block.share_left)
        more = "" if len(low) == 1 else f" (and of {len(low) - 1} other accounts)"
        text = f"{100 * least.share_left:.0f}% is left of level {_level_text(least.level)}, block {least.block}{more}."
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
    actors: set[str | None] = set()
    for run in runs:
        if actors and run.reserved.actor not in actors:
            who = run.reserved.actor or "an unnamed person"
            yield Concern(at=run.reserved.at, text=f"First run by {who} ({run.run_id}).")
        actors.add(run.reserved.actor)


def _of_refusals(refusals: Sequence[DeskRefusal]) -> Iterable[Concern]:
    days = Counter((refusal.by.at.date(), refusal.by.actor) for refusal in refusals)
    for (_, actor), count in days.items():
        if count >= MANY_REFUSALS:
            last = max(refusal.by.at for refusal in refusals if refusal.by.actor == actor)
            yield Concern(at=last, text=f"{count} requests by {actor or 'an unnamed person'} refused in one day.")


def _pace(book: Book, dataset: str, last: Reservation | None, runs: Sequence[DeskRun]) -> Pace | None:
    """Estimate how long runs like the last one could go on; None without a run or a cap."""
    if last is None:
        return None
    accounts = accounts_in(book, dataset, last.level, last.blocks)
    if not accounts:
        return None
    room = fits(accounts, use_of(last.charges, last.cost))
    moments = [run.reserved.at for run in runs if run.study == last.study][-PACE_RUNS:]
    if len(moments) < 2:
        return Pace(study=last.study, fits=room, days_apart=None, dry=None)
    apart = (moments[-1] - moments[0]) / (len(moments) - 1)
    # The run that is refused is the one after the last that fits.
    is_foreseen = apart >= CLOSEST and room + 1 <= HORIZON / apart
    return Pace(
        study=last.study,
        fits=room,
        days_apart=apart / timedelta(days=1),
        dry=moments[-1] + (room + 1) * apart if is_foreseen else None,
    )


def _level_text(level: Level) -> str:
    return str(level).replace("_", " ")
