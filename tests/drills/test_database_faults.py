"""The ledger's database restarts, stops, drops connections, or is replaced by a copy, at exact places of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from causalveil.flows.api import run_study
from causalveil.schemas.errors import LedgerError
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests import crash
from tests.crash import FINISH
from tests.faults import RELEASED, WHY_NO_CLUSTER, Cluster, cluster, halted
from tests.flows.test_kill import STUDIES
from tests.ledger_help import audit_lines

# All statements of the effect are done, its commit is to come: whether it came is what a run cannot know.
IN_DOUBT = "before:effect"
ESTIMATORS = ("ipw", "matching")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with cluster() as found:
        if found is None:
            pytest.skip(WHY_NO_CLUSTER)
        monkeypatch.setenv("CAUSALVEIL_LEDGER_URL", found.url)
        yield found


def restart(server: Cluster) -> None:
    server.stop("immediate")
    server.start()


def drop_connections(server: Cluster) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


def stop(server: Cluster) -> None:
    server.stop("immediate")


FAULTS: dict[str, Callable[[Cluster], None]] = {"restart": restart, "stop": stop, "drop": drop_connections}


def break_and_resume(
    name: str, server: Cluster, home: Path, choose: Callable[[list[str]], list[str]], record: Any
) -> None:
    """At each place each fault: a run waits for a server that comes back, one that does not refuses it in a line, and
    the same id ends with the books right."""
    path = STUDIES[name][1](home.parent / "study", {})
    around = {"CAUSALVEIL_HOME": str(home), "CAUSALVEIL_LEDGER_URL": server.url, "CAUSALVEIL_ENGINE": "direct"}
    url = server.url.replace("postgresql:", "postgresql+psycopg:")
    places = crash.places(str(path), str(home.parent / "whole"), "whole", around)
    ended: Counter[str] = Counter()
    for place in choose(places):
        for fault, happens in FAULTS.items():
            run_id = f"broken-{ended.total()}"
            out = home.parent / "out" / run_id
            how = halted(place, lambda act=happens: act(server), str(path), str(out), run_id, around)
            if fault == "stop":
                server.start()
            ended[RELEASED if how == RELEASED else "refused"] += 1
            assert fault == "stop" or how == RELEASED, f"{fault} at {place}: {how}"
            if how != RELEASED:
                assert how.isprintable(), how
                assert "withheld" not in how, how
            before = crash.stored(url, run_id)
            with audit_lines() as lines:
                outcome = run_study(path, out=out, run_id=run_id)
            after = crash.stored(url, run_id)
            declared = {charge.name for charge in outcome.release.privacy.charges}
            drawn = [line["name"] for line in lines if line["event"] == "charge"]
            assert before.items() <= after.items(), f"{fault} at {place}: a stored value changed"
            assert set(after) == declared | {FINISH}
            assert Counter(drawn) == Counter(declared - set(before)), f"{fault} at {place}: drawn again, or not at all"
            open_ledger().verify_release((out / "release.json").read_text())
    account = open_ledger().account(outcome.release.dataset)
    assert account.blocks[0].spent.epsilon == outcome.release.privacy.epsilon * (ended.total() + 1)
    assert account.blocks[0].reserved.epsilon == 0
    open_ledger().verify()
    record("summary", f"database restarted, stopped, connections dropped under {name}: {dict(ended)}")


@pytest.mark.timeout(300)
def test_a_database_that_fails_while_a_charge_commits(server: Cluster, home: Path, record_property: Any) -> None:
    break_and_resume("ipw", server, home, lambda _: [IN_DOUBT], record_property)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_database_that_fails_at_every_place(name: str, server: Cluster, home: Path, record_property: Any) -> None:
    def every(places: list[str]) -> list[str]:
        return places[places.index("before:reserve") :]

    break_and_resume(name, server, home, every, record_property)


@pytest.mark.timeout(300)
def test_failover_to_a_copy(server: Cluster, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A standby that has every entry takes over, and a run that was killed goes on there; a copy that lacks some is
    refused, and nothing is drawn on it."""
    path = STUDIES["ipw"][1](home.parent / "study", {})
    around = {"CAUSALVEIL_HOME": str(home), "CAUSALVEIL_LEDGER_URL": server.url, "CAUSALVEIL_ENGINE": "direct"}
    run_study(path, out=home.parent / "first", run_id="first")
    server.stop()
    stale = server.copy()
    server.start()
    crash.crash("after:propensity", str(path), str(home.parent / "died"), "died", around)
    stored = crash.stored(server.url.replace("postgresql:", "postgresql+psycopg:"), "died")
    assert set(stored) == {"propensity"}
    server.stop()
    standby = server.copy()
    try:
        stale.start()
        monkeypatch.setenv("CAUSALVEIL_LEDGER_URL", stale.url)
        with audit_lines() as lines, pytest.raises(LedgerError, match=r"causalveil ledger"):
            run_study(path, out=home.parent / "none", run_id="on-the-stale-one")
        assert not [line for line in lines if line["event"] == "charge"]
        standby.start()
        monkeypatch.setenv("CAUSALVEIL_LEDGER_URL", standby.url)
        run_study(path, out=home.parent / "died", run_id="died")
        assert stored.items() <= crash.stored(standby.url.replace("postgresql:", "postgresql+psycopg:"), "died").items()
        assert open_ledger().account("small").blocks[0].spent.epsilon == 2
        open_ledger().verify()
    finally:
        stale.end()
        standby.end()
