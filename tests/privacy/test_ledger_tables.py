"""A new SQLite ledger is created from one file of SQL; it must be what the migrations leave.

After a new migration write that file again: ``python tests/privacy/test_ledger_tables.py``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import sqlalchemy as sa

from causalveil.schemas.errors import LedgerError
from causalveil.tasks.privacy.ledger import store as tables
from causalveil.tasks.privacy.ledger.store import VERSION, Store

COMMENT = """\
-- The tables of a new SQLite ledger, as the migrations leave them: alembic takes longer to import than a small study.
-- tests/privacy/test_ledger_tables.py compares the two, and writes this file again if it is run as a program.
"""


def migrated(path: Path) -> Path:
    """A database that every migration made."""
    with sa.create_engine(f"sqlite:///{path}").begin() as connection:
        tables.migrate(connection)
    return path


def written(path: Path) -> str:
    """The SQL of a database."""
    with sa.create_engine(f"sqlite:///{path}").connect() as connection:
        found = connection.execute(sa.text("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"))
        statements = [f"{sql};" for sql in found.scalars()]
    lines = "\n\n".join([COMMENT.rstrip(), *statements]).replace("\t", "    ").splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def schema(path: Path) -> tuple[dict[str, str], list[str]]:
    """Every object of a database with its SQL, white space aside, and the version."""
    with sa.create_engine(f"sqlite:///{path}").connect() as connection:
        found = connection.execute(sa.text("SELECT name, sql FROM sqlite_master"))
        objects = {row.name: " ".join((row.sql or "").split()) for row in found}
        return objects, list(connection.execute(sa.text(f"SELECT version_num FROM {tables.VERSION_TABLE}")).scalars())


def test_created_is_migrated(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'created'}")
    with sa.create_engine(store.url).begin() as connection:
        tables.bring_up(connection, VERSION)
    expected = schema(migrated(tmp_path / "migrated"))
    assert schema(tmp_path / "created") == expected
    assert len(expected[0]) > 5
    assert tables.SQLITE_TABLES.read_text() == written(tmp_path / "migrated")


@pytest.mark.parametrize("lost", ["sqlite.sql", "env.py"])
def test_an_installation_without_migrations_says_so(lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MIGRATIONS", tmp_path / "none")
    monkeypatch.setattr(tables, "SQLITE_TABLES", tmp_path / "none" / "sqlite.sql")
    with sa.create_engine(f"sqlite:///{tmp_path / 'ledger'}").begin() as connection:
        with pytest.raises(LedgerError, match=f"lacks the ledger's {lost}"):
            tables.bring_up(connection, VERSION) if lost == "sqlite.sql" else tables.migrate(connection)
        assert sa.inspect(connection).get_table_names() == []


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        tables.SQLITE_TABLES.write_text(written(migrated(Path(folder) / "migrated")))
