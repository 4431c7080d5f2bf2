"""The machine's clock jumps back and ahead, by decades and within a run: the books never look at it.

An entry says when it was written by the clock of whoever wrote it. Its place in the chain is its number alone.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from causalveil.flows.api import run_study
from causalveil.tasks.privacy.ledger import store
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests import crash
from tests.flows.test_kill import CAPS, ledger_url
from tests.studies import write_study

__all__ = ["ledger_url"]
JUMPS = [
    timedelta(0),
    timedelta(days=-365 * 56),
    timedelta(days=365 * 12, seconds=1),
    timedelta(days=365 * 900),
    timedelta(hours=-1),
    timedelta(seconds=-0.5),
]


def jumping(by: list[timedelta]) -> type[datetime]:
    """A clock that is off by the next of ``by`` each time it is read."""
    offsets = cycle(by)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + next(offsets)

    return Clock


def test_a_clock_that_jumps_at_each_entry(ledger_url: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs on a good clock, six on one that jumps, one that died on a good one and is resumed on a bad one."""
    path = write_study(home.parent / "study", contract={"caps": CAPS})
    out = home.parent / "out"
    around = {"CAUSALVEIL_HOME": str(home)}
    if ledger_url.startswith("postgresql"):
        around["CAUSALVEIL_LEDGER_URL"] = ledger_url.replace("+psycopg", "")
    for number in range(2):
        run_study(path, out=out / str(number), run_id=f"good-{number}", engine="direct")
    crash.crash("after:propensity", str(path), str(out / "died"), "died", around)
    stored = crash.stored(ledger_url, "died")
    monkeypatch.setattr(store, "datetime", jumping(JUMPS))
    for number in range(6):
        run_study(path, out=out / f"bad-{number}", run_id=f"bad-{number}", engine="direct")
    run_study(path, out=out / "died", run_id="died", engine="direct")
    assert stored.items() <= crash.stored(ledger_url, "died").items()
    ledger = open_ledger()
    block = ledger.account("small").blocks[0]
    assert (block.spent.epsilon, block.reserved.epsilon) == (9, 0)
    ledger.verify()
    for folder in out.iterdir():
        ledger.verify_release((folder / "release.json").read_text())
    with sa.create_engine(ledger_url, poolclass=sa.NullPool).connect() as connection:
        written = list(connection.execute(sa.text("SELECT written_at FROM entries ORDER BY seq")).scalars())
    years = {str(moment)[:4] for moment in written}
    assert len(years) >= 4, "the clock did not jump"
    assert written != sorted(written)
    now = str(datetime.now(UTC).year)
    assert now in years
