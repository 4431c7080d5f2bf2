"""An account by the sums that a machine verified before is the account that all entries add up to."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import event

from causalveil.schemas.ledger import Account
from causalveil.tasks.privacy.ledger.ledger import Ledger
from tests.ledger_help import DATASET, budget, charge, contract, finished, reservation, value

OWNER = contract("100", "1e-2")


def runs_of_every_kind(ledger: Ledger, folder: Path) -> None:
    """Finished, under way with a part drawn, untouched, and voided after a draw; on months and on the whole dataset."""
    ledger.grant(OWNER, reason="a test")
    pair = (charge("first"), charge("second", "0.2", "1e-6"))
    for number, blocks in enumerate([("all",), ("2026-01",), ("2026-01", "2026-02"), ("all",), ("2026-02",)]):
        finished(ledger, reservation(f"done-{number}", pair, contract=OWNER, blocks=blocks), OWNER, folder)
    for name, blocks in (("drawn", ("2026-02",)), ("waiting", ("all",)), ("voided", ("2026-01",))):
        request = reservation(name, pair, contract=OWNER, blocks=blocks)
        ledger.reserve(request, OWNER)
        if name != "waiting":
            budget(ledger, request, folder).spend(pair[0], value(1.5))
    ledger.void("voided", reason="a test")


@pytest.mark.parametrize("most", [0, 1, 3, 8, 100])
def test_sums_give_the_account_that_all_entries_give(ledger: Ledger, tmp_path: Path, most: int) -> None:
    runs_of_every_kind(ledger, tmp_path)
    whole, found = ledger.account(DATASET), ledger.newest(DATASET, most)
    assert found.blocks == whole.blocks
    assert (found.caps, found.accounting) == (whole.caps, whole.accounting)
    assert found.runs == whole.runs[max(len(whole.runs) - most, 0) :]
    assert found.older_runs == max(len(whole.runs) - most, 0)


def test_a_machine_that_never_saw_the_ledger_reads_all_of_it(ledger: Ledger, tmp_path: Path) -> None:
    runs_of_every_kind(ledger, tmp_path)
    assert ledger.memory is not None
    before: Account = ledger.newest(DATASET, 2)
    ledger.memory.path.unlink()
    assert ledger.newest(DATASET, 2) == before


def test_finished_runs_are_not_replayed(ledger: Ledger, tmp_path: Path) -> None:
    """Of 30 finished runs their reservations are read, and releases of those alone that are listed."""
    ledger.grant(OWNER, reason="a test")
    for number in range(30):
        finished(ledger, reservation(f"done-{number}", (charge("first"),), contract=OWNER), OWNER, tmp_path)
    rows: list[str] = []
    event.listen(ledger.store.engine, "before_cursor_execute", lambda *args: rows.append(str(args[2])))
    assert len(ledger.newest(DATASET, 2).runs) == 2
    # As many as for a tenth of the runs: what is asked of the database does not grow with runs that are not listed.
    asked = len(rows)
    rows.clear()
    ledger.newest(DATASET, 1)
    assert len(rows) < asked <= 12
