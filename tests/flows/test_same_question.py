"""The same question on the same bytes is one run, whoever triggers it: one release, one charge, until asked anew."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import causalveil as cv
from causalveil.flows.run.declare import load
from causalveil.flows.run.finished import RunResult
from causalveil.flows.run.study import run_of_question
from causalveil.flows.start_run import run_study
from causalveil.schemas.errors import BudgetRefused
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests import crash
from tests.children import Command
from tests.studies import people, write_study

CAPS = {"caps": {"sample": {"epsilon": 100, "delta": "1e-2"}}}


def runs() -> dict[str, str]:
    return {run.run_id: run.state for run in open_ledger().account("small").runs}


def ask(path: Path, *, again: bool = False) -> RunResult:
    out = path.parent / "out" / os.urandom(4).hex()
    return run_study(path, out=out, engine="direct", again=again)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_study(tmp_path / "study", frame=people(600), contract=CAPS)


def test_three_triggers_are_one_run(study: Path) -> None:
    first, second, third = ask(study), ask(study), ask(study)
    assert first.path.read_bytes() == second.path.read_bytes() == third.path.read_bytes()
    assert (first.returned, second.returned, third.returned) == (0, None, None)
    assert runs() == {first.run_id: "finished"}
    anew = ask(study, again=True)
    assert anew.run_id != first.run_id
    assert len(runs()) == 2
    assert ask(study).run_id == first.run_id, "the question keeps its first answer"


def change_values(path: Path) -> None:
    file = path.parent / "part-0.parquet"
    frame = pl.read_parquet(file)
    frame.with_columns(pl.col("age").reverse()).write_parquet(file)


def add_rows(path: Path) -> None:
    people(50, seed=9).with_columns(pl.col("person") + 100_000).write_parquet(path.parent / "part-9.parquet")


def change_study(path: Path) -> None:
    path.write_text(path.read_text().replace("penalty: 0.1", "penalty: 0.2"))


@pytest.mark.parametrize("change", [change_values, add_rows, change_study])
def test_other_bytes_or_another_question_are_another_run(change: Callable[[Path], None], study: Path) -> None:
    first, text = ask(study), study.read_text()
    change(study)
    assert change is not change_study or study.read_text() != text, "the change is one"
    second = ask(study)
    assert second.run_id != first.run_id
    assert second.returned == 0
    assert ask(study).run_id == second.run_id
    assert len(runs()) == 2


def test_a_copy_of_the_same_bytes_is_the_same_question(study: Path) -> None:
    first = ask(study)
    for file in study.parent.glob("*.parquet"):
        os.utime(file, (1, 1))
    assert ask(study).run_id == first.run_id
    assert len(runs()) == 1


def test_the_same_bytes_are_found_without_a_cap_that_has_room(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", frame=people(600), contract={"caps": {"sample": {"epsilon": 1}}})
    first = ask(path)
    assert ask(path).run_id == first.run_id
    with pytest.raises(BudgetRefused):
        ask(path, again=True)


def test_the_id_tells_nothing_of_the_rows(study: Path) -> None:
    name = run_of_question(load(study))
    change_values(study)
    assert run_of_question(load(study)) == name


def test_a_voided_run_does_not_stand_in_the_way(study: Path, tmp_path: Path, home: Path) -> None:
    name = run_of_question(load(study))
    crash.crash("after:propensity", str(study), str(tmp_path / "dead"), name, {"CAUSALVEIL_HOME": str(home)}, "direct")
    open_ledger().void(name, "the machine is gone")
    assert ask(study).run_id == f"{name}.2"
    assert ask(study).run_id == f"{name}.2"
    assert runs() == {name: "voided", f"{name}.2": "finished"}


def test_a_trigger_goes_on_with_what_died(study: Path, tmp_path: Path, home: Path) -> None:
    name = run_of_question(load(study))
    crash.crash("after:propensity", str(study), str(tmp_path / "dead"), name, {"CAUSALVEIL_HOME": str(home)}, "direct")
    assert (ask(study).run_id, ask(study).returned) == (name, None)
    assert runs() == {name: "finished"}
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1


def test_triggers_at_once_return_one_release(study: Path, tmp_path: Path, home: Path) -> None:
    """Three processes, and none waits for another: no cron knows of Prefect's turns."""
    words = ["run", str(study), "--engine", "direct", "--json"]
    folders = [tmp_path / f"at-{number}" for number in range(3)]
    for folder in folders:
        folder.mkdir()
    ended = [Command(words, dict(os.environ), folder) for folder in folders]
    said = [command.communicate() for command in ended]
    assert [command.returncode for command in ended] == [0, 0, 0], said
    found = {path.read_bytes() for folder in folders for path in folder.glob("releases/*/release.json")}
    assert len(found) == 1
    assert list(runs().values()) == ["finished"]
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1


def test_triggers_of_a_deployment(study: Path, tmp_path: Path, prefect_server: str, monkeypatch: Any) -> None:
    """Three triggers, two of them at once; each flow run has the name of the run and its audit trail."""
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName

    from causalveil.flows.deployed import study as flow

    monkeypatch.chdir(tmp_path)
    name = run_of_question(load(study))
    assert flow(str(study), return_state=True).is_completed()
    with ThreadPoolExecutor(2) as pool:
        states = list(pool.map(lambda _: flow(str(study), return_state=True), range(2)))
    assert all(state.is_completed() for state in states)
    assert runs() == {name: "finished"}
    assert [path.name for path in (tmp_path / "releases").iterdir()] == [name]
    assert flow(str(study), again=True, return_state=True).is_completed()
    assert sorted(runs().values()) == ["finished", "finished"]
    with get_client(sync_client=True) as client:
        named = FlowRunFilter(name=FlowRunFilterName(any_=[name]))
        assert len(client.read_flow_runs(flow_run_filter=named)) == 3


def test_concurrent_ends_of_one_run_agree(study: Path, tmp_path: Path) -> None:
    """Two threads in one process: whoever ends second returns what the first stored."""
    name = run_of_question(load(study))
    with ThreadPoolExecutor(2) as pool:
        found = list(
            pool.map(lambda n: run_study(study, out=tmp_path / str(n), run_id=name, engine="direct"), range(2))
        )
    assert len({one.path.read_bytes() for one in found}) == 1


def test_a_run_with_an_id_of_its_own_is_the_first_answer(study: Path) -> None:
    first = run_study(study, out=study.parent / "out" / "r1", run_id="r1", engine="direct")
    second = ask(study)
    assert (second.run_id, second.returned) == ("r1", None)
    assert second.path.read_bytes() == first.path.read_bytes()
    anew = ask(study, again=True)
    assert list(runs()) == ["r1", anew.run_id]
    change_values(study)
    assert ask(study).run_id not in runs().keys() - {run_of_question(load(study))}


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("engine", ["direct", "prefect"])
def test_python_returns_the_first_answer_and_says_so(
    engine: Any, study: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="causalveil.flow")
    first = run_study(study, out=tmp_path / "r1", run_id="r1", engine="direct")
    os.utime(study.parent / "part-0.parquet", (1, 1))
    for number, door in enumerate((cv.run, cv.run, run_study)):
        again = door(study, out=tmp_path / str(number), engine=engine)
        assert (again.run_id, again.returned) == ("r1", None)
        assert again.path.read_bytes() == first.path.read_bytes()
    assert sum("run r1 was finished before" in record.getMessage() for record in caplog.records) == 3
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1
    anew = cv.run(study, out=tmp_path / "anew", engine=engine, again=True)
    assert list(runs()) == ["r1", anew.run_id]


def test_seeded_noise_is_drawn_whatever_was_answered(study: Path, tmp_path: Path) -> None:
    first = cv.run(study, out=tmp_path / "first", engine="direct")
    seeded = cv.run(study, out=tmp_path / "seeded", engine="direct", simulate=1)
    assert seeded.run_id != first.run_id
    assert seeded.release.not_for_release
    assert list(runs()) == [first.run_id]
