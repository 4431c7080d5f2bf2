"""Processes that kill themselves at an exact place of a run, and what their ledger then holds.

A place is ``stage:NAME`` (as the stage starts), ``before:NAME`` or ``after:NAME`` (all statements of the transaction
that writes the entry NAME are done, and its commit is to come, or has come). The second time of the same is ``NAME#2``.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.children import CONTEXT, process

FINISH = "release"
# Entries that charge nothing: what opens a ledger, an admission, caps, a reservation, the final document.
NO_CHARGE = {"genesis", "admit", "grant", "reserve", FINISH}
PHASES = ("before the first charge", "between the first charge and the finish", "after the finish")


def places(*run: Any) -> list[str]:
    """Every place that a run passes, in order; it runs to the end, in a process of its own, on the direct engine."""
    receive, send = CONTEXT.Pipe(duplex=False)
    child = process(_run, None, send, *run, "direct")
    child.start()
    send.close()
    found: list[str] = receive.recv()
    child.join()
    assert child.exitcode == 0
    return found


def crash(place: str, *run: Any) -> None:
    """Run in a process of its own, which kills itself at ``place``."""
    child = process(_run, place, None, *run)
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL, f"never came to {place}, ended with {child.exitcode}"


def phase(place: str, of: list[str]) -> str:
    """Where a place lies among the places of its run."""
    charged = min(of.index(one) for one in of if one.startswith("after:") and one[6:] not in NO_CHARGE)
    finished = of.index(f"after:{FINISH}")
    return PHASES[(of.index(place) >= charged) + (of.index(place) >= finished)]


def stored(url: str, run_id: str) -> dict[str, str]:
    """Every value that a run has released, by name, as the ledger holds it."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table("entries"):
            return {}
        query = "SELECT name, body FROM entries WHERE kind = 'release' AND run_id = :run"
        rows = list(connection.execute(sa.text(query), {"run": run_id}))
    assert len(rows) == len({name for name, _ in rows}), "a value stands twice"
    return dict(rows)  # type: ignore[arg-type]


def _run(
    place: str | None,
    trace: Connection | None,
    path: str,
    out: str,
    run_id: str,
    around: dict[str, str],
    engine: Any = None,
) -> None:
    os.environ.update(around)
    from causalveil.flows.api import run_study

    passed: list[str] = []
    seen: Counter[str] = Counter()

    def pass_by(name: str) -> None:
        seen[name] += 1
        passed.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
        if passed[-1] == place:
            os.kill(os.getpid(), signal.SIGKILL)

    watch_commits(pass_by)
    run_study(Path(path), out=Path(out), run_id=run_id, engine=engine, watch=lambda stage: pass_by(f"stage:{stage}"))
    if trace is not None:
        trace.send(passed)


def watch_commits(pass_by: Callable[[str], None]) -> None:
    """Have ``pass_by`` told of every entry of the ledger, from now on, right before and right after its commit."""
    from causalveil.tasks.privacy.ledger.store import Store

    write, append = Store.write, Store.append
    names: list[str] = []

    @contextmanager
    def watched(self: Store) -> Iterator[sa.Connection]:
        names.clear()
        with write(self) as connection:
            yield connection
            written = list(names)
            for name in written:
                pass_by(f"before:{name}")
        for name in written:
            pass_by(f"after:{name}")

    def noted(self: Store, connection: sa.Connection, kind: str, **fields: Any) -> Any:
        names.append(fields.get("name") or kind)
        return append(self, connection, kind, **fields)

    Store.write = watched  # type: ignore[method-assign]
    Store.append = noted  # type: ignore[method-assign]
