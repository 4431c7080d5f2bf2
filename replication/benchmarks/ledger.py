"""How long a reservation takes in a ledger of 1e5 entries, verified: run by hand.

    python -m replication.benchmarks.ledger [ENTRIES]

The ledger holds runs of five charges (seven entries each) of one dataset. ``first`` is a machine that has never seen
the ledger and verifies all of it; ``next`` are reservations after that, each in a verified transaction with its commit
on disk. PostgreSQL is measured where ``CAUSALVEIL_TEST_POSTGRES`` names a server. What reads a
whole ledger is measured by `speed.py`.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from causalveil.schemas.ledger import Reservation
from tests import postgres
from tests.ledger_help import charge, contract, reservation

REPEATS = 30
CHARGES = tuple(charge(f"c{index}", "0.00001") for index in range(5))


def fill(url: str, entries: int) -> None:
    """Runs as the protocol writes them, in one transaction."""
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    ledger, owner = open_ledger(url), contract("1000")
    ledger.grant(owner, "benchmark")
    caps = {str(level): cap.model_dump() for level, cap in owner.caps.items()}
    with ledger.store.write() as connection:
        for number in range((entries - 2) // 7):
            run = f"run-{number}"
            body = {"reservation": reservation(run, charges=CHARGES, contract=owner).model_dump(), "caps": caps}
            ledger.store.append(connection, "reserve", dataset="trial", run_id=run, body=body)
            for one in CHARGES:
                drawn = {"charge": one.model_dump(), "value": {"shape": [1], "hex": ["0x1.8p+0"]}}
                ledger.store.append(connection, "release", dataset="trial", run_id=run, name=one.name, body=drawn)
            ledger.store.append(
                connection, "release", dataset="trial", run_id=run, name="release", body={"document": "x" * 4000}
            )


def measure(url: str, home: Path) -> tuple[float, list[float]]:
    """Seconds of the first reservation on a machine without memory, and of those after it, each newly opened."""
    from causalveil.tasks.privacy.ledger.ledger import open_ledger

    shutil.rmtree(home / "ledgers", ignore_errors=True)
    owner, times = contract("1000"), []
    for number in range(REPEATS + 1):
        ledger = open_ledger(url)
        request = asked(number)
        begin = time.perf_counter()
        ledger.reserve(request, owner)
        times.append(time.perf_counter() - begin)
        ledger.void(request.run_id, "benchmark")
    return times[0], times[1:]


def asked(number: int) -> Reservation:
    return reservation(f"bench-{number}", charges=CHARGES, contract=contract("1000"))


def main() -> None:
    entries = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        os.environ["CAUSALVEIL_HOME"] = str(home)
        tell("SQLite", f"sqlite:///{folder}/ledger.db", entries, home)
        with postgres.database() as url:
            if url is not None:
                tell("PostgreSQL", url, entries, home)


def tell(name: str, url: str, entries: int, home: Path) -> None:
    fill(url, entries)
    first, later = measure(url, home)
    print(
        f"{name}: {entries:,} entries: first {first:.2f} s, next median {statistics.median(later) * 1e3:.1f} ms, "
        f"highest {max(later) * 1e3:.1f} ms of {len(later)}"
    )


if __name__ == "__main__":
    main()
