"""`review: required`: a release leaves the ledger by the owner's word alone, on every engine and by every door."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from causalveil.flows.api import run_study
from causalveil.schemas.errors import ContractError, LedgerError, ReleaseHeld, RunConflict
from causalveil.tasks.privacy.keys import OwnerKey, owner_key
from causalveil.tasks.privacy.ledger.entry import ReviewVerdict
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.sites.bundle import make_bundle, public_key
from tests.sites_help import some_terms
from tests.studies import command, write_study

# The store interface of the ledger is also what somebody with INSERT on the table has.


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnerKey:
    monkeypatch.setenv("CAUSALVEIL_OWNER_KEY", str(tmp_path / "owner.key"))
    return owner_key(create=True)


@pytest.fixture
def study(tmp_path: Path, owner: OwnerKey) -> Path:
    path = write_study(
        tmp_path / "study",
        contract={"data_class": "sensitive", "review": "required", "owner_key": owner.public},
    )
    assert command("ledger", "grant", path.with_name("dataset.yaml"), "--reason", "opening") == 0
    assert command("admit", path.parent) == 0
    return path


def state_of(run_id: str) -> str:
    run = open_ledger().record(run_id)
    assert run is not None
    return run.state


def test_held_then_approved(study: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert command("run", study, "--out", out, "--run-id", "one") == 7
    assert "held" in capfd.readouterr().err
    assert not out.exists()
    assert state_of("one") == "held"
    assert command("ledger", "release", "one", "--out", out) == 7
    assert command("run", study, "--out", out, "--run-id", "one") == 7, "the same id waits as well, free of charge"
    assert not out.exists()
    public_key(create=True)
    with pytest.raises(RunConflict, match="held"):
        make_bundle(open_ledger(), "one", "north", some_terms())
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1
    assert command("ledger", "release", "one", "--out", tmp_path / "owner", "--key", tmp_path / "owner.key") == 0
    assert command("ledger", "approve", "one", "--reason", "seen") == 0
    assert state_of("one") == "finished"
    assert command("ledger", "release", "one", "--out", out) == 0
    assert command("run", study, "--out", tmp_path / "again", "--run-id", "one") == 0
    assert (out / "release.json").read_bytes() == (tmp_path / "owner" / "release.json").read_bytes()
    assert (out / "release.json").read_bytes() == (tmp_path / "again" / "release.json").read_bytes()
    assert command("ledger", "reject", "one", "--reason", "too late") == 2
    assert command("ledger", "verify", "--release", out / "release.json") == 0


def test_rejected(study: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ReleaseHeld):
        run_study(study, out=tmp_path / "out", run_id="one", engine="direct")
    assert command("ledger", "reject", "one", "--reason", "not what was agreed") == 0
    assert state_of("one") == "rejected"
    for words in (("run", study, "--run-id", "one"), ("ledger", "release", "one")):
        assert command(*words, "--out", tmp_path / "out") == 2
        assert "rejected" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1, "the values were drawn"
    open_ledger().verify()


def test_only_the_owner_reviews(study: Path, tmp_path: Path) -> None:
    with pytest.raises(ReleaseHeld):
        run_study(study, out=tmp_path / "out", run_id="one", engine="direct")
    ledger, other = open_ledger(), owner_key(tmp_path / "other.key", create=True)
    for act in (
        lambda: ledger.review("one", ReviewVerdict.approve, other),
        lambda: ledger.held_document("one", other),
    ):
        with pytest.raises(ContractError, match="only the owner"):
            act()
    assert state_of("one") == "held"


@pytest.mark.parametrize("case", ["unsigned", "another key", "another run's"])
def test_a_forged_approval_lets_nothing_go(study: Path, tmp_path: Path, owner: OwnerKey, case: str) -> None:
    for name in ("one", "two"):
        with pytest.raises(ReleaseHeld):
            run_study(study, out=tmp_path / name, run_id=name, engine="direct")
    ledger = open_ledger()
    run = ledger.record("one")
    assert run is not None
    assert run.document is not None
    body = {"document": run.document.hash, "reason": None, "signature": "00" * 64}
    if case == "another key":
        body["signature"] = owner_key(tmp_path / "other.key", create=True).sign(b"approved")
    if case == "another run's":
        ledger.review("two", ReviewVerdict.approve, owner)
        theirs = ledger.record("two")
        assert theirs is not None
        assert theirs.verdict is not None
        body = {key: value for key, value in theirs.verdict.document.items() if key != "by"}
    with ledger.store.write() as connection:
        ledger.store.append(connection, "approve", dataset="small", run_id="one", body=body)
    with pytest.raises(LedgerError, match="verdict"):
        ledger.verify()
    with pytest.raises(LedgerError, match="verdict"):
        run_study(study, out=tmp_path / "out", run_id="one", engine="direct")
    assert not (tmp_path / "out").exists()


def test_a_reservation_that_passes_by_the_review_is_found(study: Path, tmp_path: Path) -> None:
    with pytest.raises(ReleaseHeld):
        run_study(study, out=tmp_path / "out", run_id="one", engine="direct")
    ledger = open_ledger()
    run = ledger.record("one")
    assert run is not None
    body = dict(run.reserved.document)
    del body["by"]
    body["reservation"] |= {"run_id": "two", "review": False}
    with ledger.store.write() as connection:
        ledger.store.append(connection, "reserve", dataset="small", run_id="two", body=body)
    with pytest.raises(LedgerError, match="owner's review"):
        ledger.verify()


def test_prefect_shows_the_waiting_run(study: Path, tmp_path: Path, prefect_server: str) -> None:
    with pytest.raises(ReleaseHeld):
        run_study(study, out=tmp_path / "out", run_id="waits", engine="prefect")
    assert state_of("waits") == "held"
    name, message = asyncio.run(_flow_run("waits"))
    assert name == "AwaitingApproval"
    assert "causalveil ledger approve waits" in message


async def _flow_run(name: str) -> tuple[str | None, str]:
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName

    async with get_client() as client:
        (run,) = await client.read_flow_runs(flow_run_filter=FlowRunFilter(name=FlowRunFilterName(any_=[name])))
        return run.state_name, str(run.state.message if run.state else "")


def test_review_needs_an_owner(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path / "study", contract={"review": "required"})
    assert command("run", path, "--out", tmp_path / "out", "--json") == 2
    assert "owner_key" in json.loads(capfd.readouterr().out)["error"]["message"]
