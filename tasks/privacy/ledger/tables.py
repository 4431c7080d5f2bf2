"""The ledger's tables: created in a new database, brought up to date in an old one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from causalveil.schemas.errors import LedgerError

MIGRATIONS = Path(__file__).with_name("migrations")
VERSION_TABLE = "ledger_version"
# What the migrations make of a new SQLite file, so that a first run or a simulation need not import alembic (0.3 s).
SQLITE_TABLES = MIGRATIONS / "sqlite.sql"


def bring_up(connection: sa.Connection, version: str) -> None:
    """Create the tables of an empty database, or migrate those of an older version, inside a write transaction.

    Raises:
        LedgerError: this installation of causalveil lacks its migrations.
    """
    if connection.dialect.name == "sqlite" and not sa.inspect(connection).get_table_names():
        for statement in _statements(_installed(SQLITE_TABLES).read_text(encoding="utf-8")):
            connection.exec_driver_sql(statement)
        connection.execute(sa.text(f"INSERT INTO {VERSION_TABLE} VALUES (:version)"), {"version": version})
    else:
        migrate(connection)


def migrate(connection: sa.Connection) -> None:
    """Run every migration that the database lacks.

    Raises:
        LedgerError: this installation of causalveil lacks its migrations.
    """
    # Imported only for a new or an old ledger: a run must not pay for it.
    from alembic import command
    from alembic.config import Config

    _installed(MIGRATIONS / "env.py")
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _installed(path: Path) -> Path:
    """The path itself.

    Raises:
        LedgerError: nothing lies there.
    """
    if not path.exists():
        raise LedgerError(
            f"this installation of causalveil lacks the ledger's {path.name}; install it again from a whole wheel"
        )
    return path


def _statements(text: str) -> Iterator[str]:
    """The statements of an SQL text; a trigger has semicolons of its own."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
