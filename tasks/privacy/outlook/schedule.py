"""When a schedule runs: cron expressions in UTC, as Prefect's deployments have them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice, takewhile

from cronsim import CronSim, CronSimError

from causalveil.schemas.errors import StudyError

NAMED = {"day": "0 0 * * *", "week": "0 0 * * 1", "month": "0 0 1 * *", "year": "0 0 1 1 *"}
# Beyond, nobody plans.
MOST_RUNS = 100_000
MOST_YEARS = 100
FIRST_YEAR, LAST_YEAR = 1900, 2900


def cron_of(every: str) -> str:
    """The cron expression of ``day``, ``week``, ``month``, ``year``, or of itself."""
    return NAMED.get(every, every)


def runs_of(every: str, start: date) -> Iterator[datetime]:
    """When the schedule runs from the beginning of ``start`` on: a hundred thousand times or a hundred years at most.

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
        # What runs at the very beginning counts, and cronsim looks for what is later.
        found = CronSim(cron, begin - timedelta(seconds=1))
    except CronSimError:
        named = ", ".join(NAMED)
        raise StudyError(
            f"--every must be {named} or a cron expression of five fields, such as '0 6 * * 1' for Mondays at six"
        ) from None
    end = begin + timedelta(days=MOST_YEARS * 365)
    return takewhile(lambda moment: moment < end, islice(found, MOST_RUNS))


def count_until(every: str, start: date, until: date) -> int:
    """Count the schedule's runs from ``start`` to the end of ``until``.

    Raises:
        StudyError: it never runs then, too often to be foreseen, or see ``runs_of``.
    """
    if until < start:
        raise StudyError(f"--until {until} lies before the start, {start}")
    end = datetime.combine(until, time.max, UTC)
    count = sum(1 for _ in takewhile(lambda moment: moment <= end, runs_of(every, start)))
    if count == 0:
        raise StudyError(f"the schedule does not run from {start} to {until}; choose a later date")
    if count == MOST_RUNS or (until - start).days > MOST_YEARS * 365:
        raise StudyError(f"a schedule is foreseen for {MOST_YEARS} years and {MOST_RUNS:,} runs at most")
    return count
