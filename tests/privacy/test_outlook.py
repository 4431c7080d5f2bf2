"""What is left for people: shares, how many fit, when a schedule runs dry, which epsilon lasts. Exact numbers."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path

import pytest

from causalveil.schemas.errors import StudyError
from causalveil.schemas.privacy import Accounting, Level
from causalveil.tasks.privacy.ledger.accounts import Book, Cap, Use, use_of
from causalveil.tasks.privacy.ledger.ledger import Ledger
from causalveil.tasks.privacy.ledger.outlook import (
    MOST_RUNS,
    Accounts,
    accounts_in,
    burndowns,
    count_until,
    lasting_epsilon,
    outlook,
    outlook_after,
    runs_of,
    when_dry,
)
from tests.ledger_help import budget, contract, value
from tests.privacy.test_accounts import cost, gaussian, owner, request

START = date(2026, 1, 1)


def fresh(accounting: Accounting = Accounting.concentrated, used: Use | None = None) -> Accounts:
    return {(Level.sample, "all"): (Cap(cost("10", "1e-4"), accounting), used or Use())}


def run(epsilon: str) -> Use:
    return use_of([gaussian(epsilon)], cost(epsilon))


@pytest.mark.parametrize(
    ("epsilon", "accounting", "fits"),
    [
        ("0.2", Accounting.concentrated, 1526),
        ("1", Accounting.concentrated, 75),
        ("0.2", Accounting.basic, 50),
        ("1", Accounting.basic, 10),
    ],
)
def test_a_plan_says_its_share_and_how_many_fit(epsilon: str, accounting: Accounting, fits: int) -> None:
    found = outlook(fresh(accounting), run(epsilon), "contract")
    assert (found.fits, found.used, found.share_left, found.source) == (fits, 0, 1.0, "contract")
    assert found.share is not None
    assert 1 / (fits + 1) < found.share <= 1 / fits * (1 + 1e-9)


def test_a_run_that_is_reserved_counts_among_what_is_used() -> None:
    one = run("1")
    found = outlook_after(fresh(used=one), one)
    before = outlook(fresh(), one, "ledger")
    assert (found.fits, found.share) == (before.fits - 1, before.share)
    assert found.used == fresh()[Level.sample, "all"][0].epsilon(one)


def test_the_account_with_the_least_room_is_the_one_that_is_shown() -> None:
    tight, wide = Cap(cost("2", "1e-4"), Accounting.basic), Cap(cost("10", "1e-4"), Accounting.basic)
    accounts = {
        (Level.sample, "2024-01"): (wide, Use()),
        (Level.sample, "2024-02"): (wide, Use(Decimal(9))),
        (Level.label, "2024-01"): (tight, Use()),
    }
    found = outlook(accounts, run("0.5"), "ledger")
    assert (found.level, found.block, found.fits) == (Level.sample, "2024-02", 2)


def test_nothing_left_has_no_share() -> None:
    found = outlook(fresh(Accounting.basic, Use(Decimal(10))), run("1"), "ledger")
    assert (found.share, found.fits, found.share_left) == (None, 0, 0.0)


def test_a_level_without_a_cap_has_no_account_and_levels_nest(ledger: Ledger) -> None:
    by = contract(caps={"sample": {"epsilon": "1", "delta": "0"}, "label": {"epsilon": "3", "delta": "0"}})
    book = Book(ledger.identity)
    assert set(accounts_in(book, "trial", Level.sample, ["all"], by)) == {(Level.sample, "all"), (Level.label, "all")}
    assert set(accounts_in(book, "trial", Level.label, ["all"], by)) == {(Level.label, "all")}
    assert accounts_in(book, "trial", Level.training_units, ["all"], by) == {}
    assert accounts_in(book, "trial", Level.sample, ["all"]) == {}


@pytest.mark.parametrize(
    ("every", "first", "second"),
    [
        ("week", datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 12, tzinfo=UTC)),
        ("month", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)),
        ("day", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)),
        ("30 6 29 2 *", datetime(2028, 2, 29, 6, 30, tzinfo=UTC), datetime(2032, 2, 29, 6, 30, tzinfo=UTC)),
    ],
)
def test_schedules(every: str, first: datetime, second: datetime) -> None:
    assert list(islice(runs_of(every, START), 2)) == [first, second]


@pytest.mark.parametrize(
    "every",
    ["", "weekly", "61 * * * *", "* * * * * *", "0 0 30 2 *", "@reboot", "0 0 1 1 1 1 1", "; rm -rf", "x * * * *"],
)
def test_what_is_no_schedule_is_refused(every: str) -> None:
    with pytest.raises(StudyError, match="--every` must be day, week"):
        list(runs_of(every, START))


@pytest.mark.parametrize("start", [date.min, date.max])
def test_a_start_that_cannot_be_meant(start: date) -> None:
    with pytest.raises(StudyError, match="a schedule starts between"):
        runs_of("week", start)


def test_a_schedule_has_an_end() -> None:
    assert sum(1 for _ in runs_of("* * * * *", START)) == MOST_RUNS
    assert sum(1 for _ in runs_of("year", START)) == 100


@pytest.mark.parametrize(
    ("epsilon", "accounting", "last", "dry"),
    [
        # 75 Mondays from 5 January 2026 on, and 10.
        ("1", Accounting.concentrated, date(2027, 6, 7), date(2027, 6, 14)),
        ("1", Accounting.basic, date(2026, 3, 9), date(2026, 3, 16)),
        # 1,526 weeks are 29 years.
        ("0.2", Accounting.concentrated, date(2055, 3, 29), date(2055, 4, 5)),
    ],
)
def test_when_a_weekly_study_runs_dry(epsilon: str, accounting: Accounting, last: date, dry: date) -> None:
    found = when_dry(fresh(accounting), run(epsilon), runs_of("week", START))
    assert found.last is not None
    assert found.dry is not None
    assert (found.last.date(), found.dry.date()) == (last, dry)


def test_what_never_fits_and_what_never_ends() -> None:
    empty = when_dry(fresh(used=Use(Decimal(100), rho=Decimal(100))), run("1"), runs_of("week", START))
    assert empty.last is None
    assert empty.dry == datetime(2026, 1, 5, tzinfo=UTC)
    endless = when_dry(fresh(), run("0.2"), runs_of("year", START))
    assert (endless.fits, endless.dry) == (1526, None)


def test_which_epsilon_lasts_is_the_largest_that_does() -> None:
    count = count_until("week", START, date(2026, 12, 31))
    assert count == 52
    basic = lasting_epsilon(fresh(Accounting.basic), lambda epsilon: run(str(epsilon)), count)
    assert basic == Decimal("0.192")
    concentrated = lasting_epsilon(fresh(), lambda epsilon: run(str(epsilon)), count)
    assert concentrated is not None
    for epsilon, lasts in ((concentrated, True), (concentrated + Decimal("0.01"), False)):
        cap, used = fresh()[Level.sample, "all"]
        assert (cap.fits(used, run(str(epsilon))) >= count) is lasts
    assert (
        lasting_epsilon(fresh(used=Use(Decimal(100), rho=Decimal(100))), lambda epsilon: run(str(epsilon)), 1) is None
    )


@pytest.mark.parametrize(
    ("every", "until", "words"),
    [
        ("week", date(2025, 12, 31), "lies before the start"),
        ("month", date(2026, 1, 1), ""),
        ("0 6 2 1 *", date(2026, 1, 1), "does not run"),
        ("* * * * *", date(2030, 1, 1), "at most"),
        ("year", date(9999, 12, 31), "at most"),
    ],
)
def test_dates_that_cannot_be_meant(every: str, until: date, words: str) -> None:
    if not words:
        assert count_until(every, START, until) == 1
        return
    with pytest.raises(StudyError, match=words):
        count_until(every, START, until)


def test_a_burn_down_has_every_run_and_what_a_void_gives_back(ledger: Ledger, tmp_path: Path) -> None:
    by = owner(
        "2", "1e-5", caps={"sample": {"epsilon": "2", "delta": "1e-5"}, "label": {"epsilon": "4", "delta": "1e-5"}}
    )
    ledger.grant(by, "opening")
    first, second = (request(name, gaussian("0.4"), by=by) for name in ("run-0", "run-1"))
    ledger.reserve(first, by)
    budget(ledger, first, tmp_path).spend(first.charges[0], value(1.0))
    ledger.reserve(second, by)
    ledger.void("run-1", "died")
    for month in ("march", "april"):
        ledger.reserve(request(month, gaussian("0.4"), by=by, blocks=(month,), level="label"), by)
    found = burndowns(ledger, "trial")
    assert [(one.level, one.blocks) for one in found] == [
        (Level.sample, ("all",)),
        (Level.label, ("all",)),
        (Level.label, ("april",)),
        (Level.label, ("march",)),
    ]
    # The account of the whole dataset pays for every run once.
    assert [step.run for step in found[1].steps] == ["", "run-0", "run-1", "run-1", "march", "april"]
    kinds = [(step.kind, step.run) for step in found[0].steps]
    assert kinds == [("grant", ""), ("reserve", "run-0"), ("reserve", "run-1"), ("void", "run-1")]
    shares = [step.share_left for step in found[0].steps]
    assert shares[0] == 1
    assert shares[1] == shares[3] > shares[2]
    # The block pays for what ran on the whole dataset before.
    assert [step.run for step in found[3].steps] == ["", "run-0", "run-1", "run-1", "march"]
    for one in found:
        account = next(a for a in ledger.account("trial").blocks if (a.level, a.block) == (one.level, one.blocks[0]))
        assert account.share_left == pytest.approx(one.steps[-1].share_left)


def test_a_burn_down_goes_on_after_another_grant(ledger: Ledger) -> None:
    ledger.grant(owner("2", "1e-5"), "opening")
    by = owner("2", "1e-5")
    ledger.reserve(request("run-0", gaussian("0.4"), by=by), by)
    ledger.grant(owner("4", "1e-5"), "more")
    (one,) = burndowns(ledger, "trial")
    assert [step.kind for step in one.steps] == ["grant", "reserve", "grant"]
    assert one.steps[1].share_left < one.steps[2].share_left < 1
    assert one.steps[2].cap.epsilon == 4
