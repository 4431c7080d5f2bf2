"""The ledger on both backends, and the tampering that an auditor must find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from causalveil.tasks.privacy.ledger.ledger import Ledger, open_ledger
from tests import postgres


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str | None]:
    """One PostgreSQL database for the session, or None."""
    with postgres.database() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a ledger that does not exist yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    url: str | None = request.getfixturevalue("postgres_url")
    if url is None:
        pytest.skip(postgres.WHY_NOT)
    postgres.empty(url)
    return url


@pytest.fixture
def ledger(ledger_url: str) -> Ledger:
    """A new ledger."""
    return open_ledger(ledger_url)


@pytest.fixture
def tamper(ledger: Ledger) -> Callable[..., None]:
    """Run statements as somebody with full rights over the database, the triggers out of the way."""

    def run(*statements: str, leave_triggers: bool = False) -> None:
        sqlite = ledger.store.url.get_backend_name() == "sqlite"
        with ledger.store.write() as connection:
            if leave_triggers:
                for statement in statements:
                    connection.execute(sa.text(statement))
                return
            if sqlite:
                query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
                triggers = list(connection.execute(sa.text(query)))
                off = [f"DROP TRIGGER {name}" for name, _ in triggers]
                on = [sql for _, sql in triggers]
            else:
                off = ["ALTER TABLE entries DISABLE TRIGGER USER"]
                on = ["ALTER TABLE entries ENABLE TRIGGER USER"]
            for statement in (*off, *statements, *on):
                connection.exec_driver_sql(statement)

    return run
