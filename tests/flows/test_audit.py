"""What an auditor is told of a run: with Prefect's record and without it, after a retry, a refusal, a forgery."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from causalveil.flows.api import run_study
from causalveil.flows.cli.audit import lines, trail_of
from causalveil.schemas.errors import BudgetRefused, CausalveilError, LedgerError, RunConflict
from causalveil.schemas.oversight import Trail
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.studies import command, write_study

STAGES = ["validate", "normalise", "split", "propensity", "weigh", "perturb", "interval"]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_study(tmp_path / "study", contract={"caps": {"sample": {"epsilon": 1, "delta": "1e-4"}}})


@pytest.fixture
def no_prefect() -> Iterator[None]:
    """Prefect's database is gone: its server answers no more."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        yield


def page(trail: Trail) -> str:
    return "\n".join(lines(trail))


def test_the_ledger_alone_tells_the_charges(study: Path, tmp_path: Path, no_prefect: None) -> None:
    release = run_study(study, out=tmp_path / "out", run_id="old").release
    trail = trail_of("old")
    assert trail.ledger is not None
    assert trail.ledger.study_digest == release.study_digest
    assert [record.charge.name for record in trail.ledger.charges] == ["propensity", "effect"]
    assert trail.ledger.charges[-1].entry.hash == release.ledger.entry_hash
    assert trail.ledger.software is not None
    assert trail.ledger.software["causalveil"] == release.software.version
    assert trail.prefect.missing == "Prefect's server could not be read (ConnectError)"
    written = page(trail)
    assert "comes from the ledger alone" in written
    for record in trail.ledger.charges:
        assert f"| {record.adds} | {record.entry.seq} |" in written
        assert record.entry.hash in written
    assert trail.ledger.spent_adds == trail.ledger.cost_adds
    assert f"Drawn: {trail.ledger.spent_adds} of {trail.ledger.cost_adds}, the largest sum" in written
    assert release.study_digest in written


def test_no_server_is_named(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import subprocess
    import sys

    run_study(study, out=tmp_path / "out", run_id="old")
    around = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    command = [sys.executable, "-m", "causalveil", "audit", "old", "--json", "--page", str(tmp_path / "page.md")]
    around["PREFECT_HOME"] = str(tmp_path / "prefect")
    told = subprocess.run(
        command, env=around, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
    )
    document = json.loads(told.stdout)
    assert "names no server" in document["prefect"]["missing"]
    assert document["ledger"]["state"] == "finished"
    assert document["chain"]["entries"] == 7
    assert "| propensity | propensity | gaussian" in (tmp_path / "page.md").read_text()


def test_a_run_that_failed_after_its_release_is_finished(study: Path, tmp_path: Path, no_prefect: None) -> None:
    out = tmp_path / "out"
    # What lay there before would be found before the reservation.
    with pytest.raises(CausalveilError):
        run_study(study, out=out, run_id="stuck", watch=lambda _: out.write_text("in the way"))
    trail = trail_of("stuck")
    assert trail.ledger is not None
    assert trail.ledger.state == "finished"


def test_a_run_that_nobody_knows_is_an_error(study: Path, tmp_path: Path, no_prefect: None) -> None:
    study.parent.joinpath("part-1.parquet").write_bytes(b"no")
    with pytest.raises(CausalveilError):
        run_study(study, out=tmp_path / "out", run_id="early")
    with pytest.raises(RunConflict, match="early is not in this ledger"):
        trail_of("early")


def test_what_was_never_drawn_is_said(study: Path, no_prefect: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from causalveil.tasks.estimate.papers.ipw import weights

    def fails(*_: Any) -> None:
        raise RuntimeError("power cut")

    fails.__name__ = "weigh_stage"
    monkeypatch.setattr(weights, "weigh_stage", fails)
    with pytest.raises(CausalveilError):
        run_study(study, run_id="half")
    open_ledger().void("half", "power cut on 3 May")
    trail = trail_of("half")
    assert trail.ledger is not None
    assert (trail.ledger.state, trail.ledger.not_drawn, trail.ledger.software) == ("voided", ("effect",), None)
    written = page(trail)
    assert "power cut on 3 May" in written
    assert "| effect | never drawn |" in written
    (drawn,) = trail.ledger.charges
    assert trail.ledger.spent_adds == drawn.adds


def test_prefects_part_has_stages_states_and_retries(study: Path, tmp_path: Path, prefect_server: str) -> None:
    from causalveil.flows.deployed import study as flow_of_study

    run_study(study, out=tmp_path / "out", run_id="seen", engine="prefect")
    # As a deployment starts it: from the command line the ledger answers without a flow run.
    flow_of_study(str(study), out=str(tmp_path / "out"), run_id="seen")
    trail = wait_for(trail_of, "seen", lambda trail: len(trail.prefect.flow_runs) == 2 and all_ended(trail))
    first, second = trail.prefect.flow_runs
    assert [stage.name for stage in first.stages] == ["admit", *STAGES, "deliver"]
    assert [stage.name for stage in second.stages] == ["deliver"], "the second start found the release"
    assert all(stage.states[-1].type == "COMPLETED" for stage in first.stages)
    assert trail.prefect.starts == 2
    assert trail.prefect.refusals == ()
    assert trail.ledger is not None
    assert len(trail.ledger.charges) == 2, "two starts, one charge each"
    assert first.id in page(trail)


def test_a_refusal_is_on_both_records(study: Path, tmp_path: Path, prefect_server: str) -> None:
    from causalveil.flows.deployed import study as flow_of_study

    run_study(study, out=tmp_path / "out", run_id="spends-all", engine="prefect")
    # As a deployment starts it: from the command line it is refused before Prefect is imported.
    with pytest.raises(BudgetRefused):
        flow_of_study(str(study), out=str(tmp_path / "b"), run_id="too-much")
    trail = wait_for(trail_of, "too-much", lambda trail: bool(trail.prefect.refusals))
    assert trail.ledger is None
    (refusal,) = trail.prefect.refusals
    assert "remaining 0 of 1" in str(refusal.message)
    (entry,) = trail.refused
    assert "remaining 0 of 1" in entry.why
    assert entry.entry.actor
    written = page(trail)
    assert "it reserved nothing" in written
    assert "Refused by the budget" in written


def test_a_forged_ledger_is_not_audited(
    study: Path, tmp_path: Path, home: Path, no_prefect: None, capfd: pytest.CaptureFixture[str]
) -> None:
    run_study(study, out=tmp_path / "out", run_id="forged")
    engine = create_engine(f"sqlite:///{home / 'ledger.db'}")
    with engine.begin() as connection:
        for name in connection.execute(text("select name from sqlite_master where type = 'trigger'")).scalars().all():
            connection.execute(text(f"drop trigger {name}"))
        connection.execute(text("update entries set dataset = 'else' where seq = 4"))
    with pytest.raises(LedgerError, match="entry 4"):
        trail_of("forged")
    assert command("audit", "forged") == 5
    capfd.readouterr()


def all_ended(trail: Trail) -> bool:
    runs = trail.prefect.flow_runs
    ended = [stage.states and stage.states[-1].type == "COMPLETED" for run in runs for stage in run.stages]
    return len(ended) >= len(STAGES) and all(ended)


def wait_for(read: Any, run_id: str, enough: Any) -> Trail:
    """The trail once the server has caught up with the client."""
    import time

    deadline = time.monotonic() + 240
    trail: Trail = read(run_id)
    while not enough(trail) and time.monotonic() < deadline:
        time.sleep(0.5)
        trail = read(run_id)
    return trail
