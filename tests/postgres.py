"""A PostgreSQL database of its own for a test, dropped at the end.

The server is the one of ``CAUSALVEIL_TEST_POSTGRES`` (URL of a role that may create databases). Without that
variable it is the one on the local socket: as the current user or, for root, as the user ``postgres``.
"""

from __future__ import annotations

import atexit
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import psycopg
import sqlalchemy as sa

VARIABLE = "CAUSALVEIL_TEST_POSTGRES"
WHY_NOT = f"no PostgreSQL server: set {VARIABLE} to the URL of a role that may create databases, or start a local one"

WHY_NOT_SUPERUSER = "only root may run psql as the PostgreSQL server's superuser"


@contextmanager
def database(options: str = "") -> Iterator[str | None]:
    """Yield the URL of a new empty database, made with ``options`` (SQL); None where no server can be had.

    Raises:
        psycopg.Error: the server that the variable names cannot be used, which is no reason to skip.
    """
    server = _server()
    if server is None:
        yield None
        return
    name = f"causalveil_test_{secrets.token_hex(6)}"
    _execute(server, f"CREATE DATABASE {name} {options}")
    try:
        yield server.set(database=name).render_as_string(hide_password=False)
    finally:
        _drop(server, name)


def likely() -> bool:
    """Whether a server answers, without making a role on it."""
    if os.environ.get(VARIABLE):
        return True
    try:
        with psycopg.connect("dbname=postgres connect_timeout=5"):
            return True
    except psycopg.Error as error:
        # The server is there, and does not know the current user; root asks it as the user postgres.
        return os.geteuid() == 0 and "does not exist" in str(error)


def empty(url: str) -> None:
    """Drop all that a test left in its database: twenty times faster than another database."""
    _execute(sa.make_url(url), "DROP SCHEMA public CASCADE")
    _execute(sa.make_url(url), "CREATE SCHEMA public")


@cache
def _server() -> sa.URL | None:
    configured = os.environ.get(VARIABLE)
    if configured:
        return sa.make_url(configured).set(drivername="postgresql")
    try:
        with psycopg.connect("dbname=postgres connect_timeout=5") as connection:
            return sa.make_url(f"postgresql:///postgres?host={connection.info.host}")
    except psycopg.Error:
        return _role_by_root() if os.geteuid() == 0 else None


def _role_by_root() -> sa.URL | None:
    """A role of this test session, made by the server's own superuser and dropped when Python ends."""
    role, secret = f"causalveil_test_{secrets.token_hex(6)}", secrets.token_hex(16)
    try:
        port = int(_as_postgres("SHOW port"))
        _as_postgres(f"CREATE ROLE {role} LOGIN CREATEDB PASSWORD '{secret}'")
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    atexit.register(_as_postgres, f"DROP ROLE {role}")
    return sa.URL.create("postgresql", role, secret, "127.0.0.1", port, "postgres")


def _as_postgres(statement: str) -> str:
    command = ["su", "postgres", "-c", "psql -v ON_ERROR_STOP=1 -qAtX"]
    return subprocess.run(
        command, input=statement, capture_output=True, text=True, check=True, timeout=60, cwd="/"
    ).stdout


def script_as_superuser(text: str, around: dict[str, str]) -> sa.URL | None:
    """Give a script to psql as the local server's superuser; the server's URL, None where only root could do that."""
    if os.geteuid() != 0:
        return None
    command = ["su", "postgres", "-c", "psql -v ON_ERROR_STOP=1 -qAtX"]
    told = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=60, cwd="/", env=os.environ | around
    )
    if told.returncode == 127 or "could not connect" in told.stderr or "connection to server" in told.stderr:
        return None
    assert told.returncode == 0, told.stderr
    return sa.URL.create("postgresql", host="127.0.0.1", port=int(_as_postgres("SHOW port")))


def _execute(server: sa.URL, statement: str) -> None:
    conninfo = server.render_as_string(hide_password=False)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(statement.encode())


def _drop(server: sa.URL, name: str) -> None:
    """Drop a database and end the sessions that the test's role left open in it.

    ``WITH (FORCE)`` would do both, but is refused to anybody but the superuser while the server's autovacuum happens
    to be at work there. The plain command asks autovacuum to stop and waits for it.
    """
    ours = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND usename = current_user"
    with psycopg.connect(server.render_as_string(hide_password=False), autocommit=True) as connection:
        connection.execute(ours, [name])
        connection.execute(f"DROP DATABASE {name}".encode())


def as_superuser(url: str, *statements: str) -> None:
    """Run statements in a test's database as the server's superuser, or where there is none as the test's role."""
    database_name = sa.make_url(url).database
    if os.environ.get(VARIABLE) or os.geteuid() != 0:
        for statement in statements:
            _execute(sa.make_url(url), statement)
        return
    _as_postgres("\n".join([f"\\connect {database_name}", *(f"{statement};" for statement in statements)]))
