"""A connection to the ledger's server that is lost around a commit: nothing is charged twice, and nothing is forgotten.

A relay stands between ledger and server. It drops the connection with a transaction's beginning or its COMMIT, so that
nothing is recorded, or with the server's answer to the COMMIT: then all is recorded, and the ledger cannot know.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import sqlalchemy as sa

from causalveil.schemas.errors import LedgerError
from causalveil.schemas.ledger import DOCUMENT
from causalveil.tasks.privacy.ledger import store
from causalveil.tasks.privacy.ledger.ledger import Ledger, open_ledger
from tests import postgres
from tests.ledger_help import audit_lines, charge, contract, reservation

CHARGE = charge("a", "0.5")
VALUE = {"value": {"shape": [1], "hex": ["0x1.8p+0"]}}
# What is dropped, by words of the message that comes from the ledger, and how often a run draws then.
LOST = {"the beginning": (b"BEGIN", 1), "the commit": (b"COMMIT\0", 2), "its answer": (b"COMMIT\0", 1)}


class Relay:
    """Passes bytes on to a server; ``drop``: what of the next transaction is lost. ``dropped``: how often it was."""

    def __init__(self, server: tuple[str, int]) -> None:
        self.server, self.drop, self.dropped = server, "", 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.listening.getsockname()[1])

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client = self.listening.accept()[0]
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.create_connection(self.server) as server, suppress(OSError):
            while True:
                for one in select.select([client, server], [], [])[0]:
                    read = one.recv(1 << 16)
                    lost = self.drop if one is client and self.drop and LOST[self.drop][0] in read else ""
                    if lost:
                        self.drop, self.dropped = "", self.dropped + 1
                    if not read or lost in ("the beginning", "the commit"):
                        return
                    (server if one is client else client).sendall(read)
                    if lost:
                        server.recv(1 << 16)
                        return


@pytest.fixture
def relay() -> Iterator[tuple[Relay, str]]:
    with postgres.database() as url:
        if url is None:
            pytest.skip(postgres.WHY_NOT)
        place = sa.make_url(url)
        between = Relay((str(place.host), place.port or 5432))
        through = place.set(host="127.0.0.1", port=between.port).update_query_dict({"sslmode": "disable"})
        yield between, through.render_as_string(hide_password=False)
        between.listening.close()


@contextmanager
def losing(relay: Relay, lost: str) -> Iterator[None]:
    """One transaction of the block loses its connection."""
    relay.drop, before = lost, relay.dropped
    yield
    assert relay.dropped == before + 1


def steps(ledger: Ledger, relay: Relay, lost: str) -> int:
    """A run whose every transaction loses its connection once; how often it drew."""
    drawn = 0

    def draw() -> dict[str, object]:
        nonlocal drawn
        drawn += 1
        return VALUE

    owner = contract("1")
    with losing(relay, lost):
        ledger.grant(owner, "test")
    with losing(relay, lost):
        assert ledger.reserve(reservation("run", charges=(CHARGE,), contract=owner), owner) == "reserved"
    with losing(relay, lost):
        released = ledger.release("run", CHARGE, draw)
    assert released.fresh
    with losing(relay, lost):
        ledger.finish("run", "{}", {CHARGE.name})
    assert not ledger.release("run", CHARGE, draw).fresh
    return drawn


@pytest.mark.parametrize("lost", LOST)
def test_a_run_that_loses_connections_is_charged_once(relay: tuple[Relay, str], lost: str) -> None:
    between, url = relay
    ledger = open_ledger(url)
    with audit_lines() as lines:
        drawn = steps(ledger, between, lost)
    assert drawn == LOST[lost][1], "a value that may be in the ledger is not drawn again"
    events = [line["event"] for line in lines if line["event"] != "grant"]
    assert events == ["reserve", "charge", "finish"]
    written = [(entry.kind, entry.name) for entry in ledger.entries_of("trial")]
    assert [kind for kind, _ in written] == ["grant", "reserve", "release", "release"]
    assert [name for _, name in written[2:]] == [CHARGE.name, DOCUMENT]
    block = ledger.account("trial").blocks[0]
    assert (block.spent.epsilon, block.reserved.epsilon) == (CHARGE.epsilon, 0)
    ledger.verify()


def test_a_server_that_stays_away_is_given_up(relay: tuple[Relay, str], monkeypatch: pytest.MonkeyPatch) -> None:
    between, url = relay
    ledger = open_ledger(url)
    monkeypatch.setattr(store, "AWAY_SECONDS", 1.0)
    between.listening.shutdown(socket.SHUT_RDWR)
    began = time.monotonic()
    with pytest.raises(LedgerError, match=r"127\.0\.0\.1"):
        ledger.datasets()
    assert 1 <= time.monotonic() - began < 20


def test_a_server_that_never_answered_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    began = time.monotonic()
    with pytest.raises(LedgerError, match="refuses the connection"):
        open_ledger(f"postgresql://nobody@127.0.0.1:{port}/none")
    assert time.monotonic() - began < store.AWAY_SECONDS / 2
