"""kill -9 lands anywhere, by the clock; then the run is run again, and the books balance.

What crashes at exact places cannot meet (``test_kill.py``), as in the middle of a write, these may.

The parent kills a child at a stage chosen in turn after a random wait, reads what the ledger holds, and lets a second
child finish the same run id: every value that was stored is found unchanged, nothing is charged twice or lost.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from causalveil.flows.api import run_study
from causalveil.schemas.release import EffectRelease
from causalveil.schemas.studies import estimator_names
from causalveil.tasks.privacy.keys import site_secret
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests import crash, postgres
from tests.children import CONTEXT, process, run_study_aloud
from tests.crash import FINISH, PHASES
from tests.direction_help import doses, write_direction
from tests.ledger_help import audit_lines
from tests.matching_help import matching_changes
from tests.studies import merge, people, write_study
from tests.survival_help import write_adjusted, write_adjusted_times, write_survival

STAGES = ("start", "validate", "normalise", "split", "propensity", "weigh", "perturb", "interval")
SEED = 20261121
ROOT = Path(__file__).parents[2]


def _start(study: Path, out: Path, run_id: str, home: Path):
    receive, send = CONTEXT.Pipe(duplex=False)
    child = process(run_study_aloud, str(study), str(out), run_id, str(home), send)
    child.start()
    send.close()
    return child, receive


def _kill_at(child, phases: Connection, phase: str, wait: float) -> str:
    """Kill `child` some time after it enters `phase`; return the last phase it told."""
    last = "before"
    while last != phase:
        try:
            last = phases.recv()
        except EOFError:
            break
        if last == "done":
            break
    time.sleep(wait)
    child.kill()
    child.join()
    while phases.poll():
        try:
            last = phases.recv()
        except EOFError:
            break
    return last


def _stored(home: Path, run_id: str) -> dict[str, str]:
    """Every release row of a run, by name, as the ledger holds it."""
    if not (home / "ledger.db").exists():
        return {}
    engine = create_engine(f"sqlite:///{home / 'ledger.db'}")
    with engine.connect() as connection:
        if not connection.execute(text("select 1 from sqlite_master where name = 'entries'")).first():
            return {}
        rows = connection.execute(
            text("select name, body from entries where kind = 'release' and run_id = :run"), {"run": run_id}
        )
        return {name: body for name, body in rows}


def _kill_and_resume(count: int, tmp_path: Path, home: Path) -> Counter[str]:
    study = write_study(
        tmp_path / "study",
        frame=people(3000),
        partitions=3,
        contract={"caps": {"sample": {"epsilon": 1000, "delta": "1e-2"}}},
    )
    home.mkdir(mode=0o700)
    chance = random.Random(SEED)
    histogram: Counter[str] = Counter()
    survived = 0
    for attempt in range(count):
        run_id = f"killed-{attempt}"
        out = tmp_path / "out" / run_id
        child, phases = _start(study, out, run_id, home)
        phase = _kill_at(child, phases, STAGES[attempt % len(STAGES)], chance.expovariate(100))
        histogram[phase] += 1
        before = _stored(home, run_id)
        survived += bool(before)

        child, _ = _start(study, out, run_id, home)
        child.join()
        assert child.exitcode == 0
        after = _stored(home, run_id)
        assert before.items() <= after.items(), "a stored value changed"
        assert set(after) == {"propensity", "effect", "release"}
        assert json.loads((out / "release.json").read_text())["run_id"] == run_id
        open_ledger().verify_release((out / "release.json").read_text())

    account = open_ledger().account("small")
    block = account.blocks[0]
    assert block.spent.epsilon == count, "each run is charged once"
    assert block.reserved.epsilon == 0
    assert not list((home / "scratch").glob("*/enclave")), "a run that finished leaves no rows behind"
    print(f"killed in: {dict(histogram)}; {survived} had released something")
    assert survived > 0
    return histogram


@pytest.mark.long
@pytest.mark.timeout(900)
def test_kill_everywhere(tmp_path: Path, home: Path) -> None:
    histogram = _kill_and_resume(56, tmp_path, home)
    assert len(histogram) >= 6, "the kills landed in too few phases to show anything"


@pytest.mark.long
@pytest.mark.timeout(300)
def test_kill_through_prefect(tmp_path: Path, home: Path, prefect_server: str) -> None:
    """The same through the command and Prefect's server: three kills at random moments, then a run to the end."""
    study = write_study(tmp_path / "study", frame=people(3000))
    chance = random.Random(SEED)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "causalveil", "run", str(study), "--run-id", "killed", "--out", str(out), "--json"]
    environment = os.environ | {
        "CAUSALVEIL_HOME": str(home),
        "PREFECT_API_URL": prefect_server,
        "CAUSALVEIL_ENGINE": "prefect",
    }
    stored: dict[str, str] = {}
    for _ in range(3):
        child = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(chance.uniform(3, 6))
        child.kill()
        child.communicate()
        now = _stored(home, "killed")
        assert stored.items() <= now.items(), "a stored value changed"
        stored = now
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert stored.items() <= _stored(home, "killed").items()
    open_ledger().verify_release((out / "release.json").read_text())
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1


# A process dies at an exact place of a run, by its own SIGKILL; the same run id, run again, finds the books in order.
CAPS = {level: {"epsilon": 1000, "delta": "1e-2"} for level in ("sample", "label")}
ASYMPTOTIC = {
    "estimator": {
        "name": "aipw",
        "penalty": ...,
        "guarantee": "asymptotic",
        "outcome_model": {"model": "neural_network"},
        "propensity": {"model": "neural_network"},
    }
}
REGRESSION = {"estimator": {"name": "regression", "penalty": ...}, "privacy": {"epsilon": "9"}}
BALANCING = {"estimator": {"name": "balancing", "penalty": ...}, "privacy": {"delta": 0, "level": "label"}}
GAMMA = "gross_error_sensitivity"

Write = Callable[..., Path]


def effect(name: str, changes: dict[str, Any], units: int = 600) -> tuple[str, Write]:
    """A study of an effect, to be written below a folder."""
    contract = {"estimators": [name], "guarantees": ["finite_sample", "asymptotic"], "caps": CAPS}
    frame = people(units)

    def write(folder: Path, study: dict[str, Any]) -> Path:
        return write_study(folder, frame=frame, study=merge(changes, study), contract=contract)

    return name, write


def direction(folder: Path, study: dict[str, Any]) -> Path:
    both = {"estimator": {"protect": ["train", "test"]}}
    return write_direction(folder, frame=doses(400), study=merge(both, study), contract={"caps": CAPS})


def times(folder: Path, study: dict[str, Any]) -> Path:
    return write_survival(folder, study=study, contract={"caps": CAPS})


def adjusted_times(folder: Path, study: dict[str, Any]) -> Path:
    return write_adjusted(folder, study=study, contract={"caps": CAPS})


def times_protocol(folder: Path, study: dict[str, Any]) -> Path:
    return write_adjusted_times(folder, study=study, contract={"caps": CAPS})


# Every estimator in the form that draws most, and the one whose models are fitted again by a resumed run.
STUDIES: dict[str, tuple[str, Write]] = {
    "ipw": effect("ipw", {}),
    "matching": effect("matching", matching_changes(level="sample")),
    "regression": effect("regression", REGRESSION),
    "balancing": effect("balancing", BALANCING),
    "aipw, networks": effect("aipw", ASYMPTOTIC, 300),
    "difference in means": effect(
        "difference_in_means", {"estimator": {"name": "difference_in_means", "penalty": ...}}
    ),
    "direction": ("direction", direction),
    "survival": ("survival", times),
    "survival, adjusted": ("survival", adjusted_times),
    "survival, protocol": ("survival", times_protocol),
}


def test_every_estimator_is_killed() -> None:
    assert {name for name, _ in STUDIES.values()} == set(estimator_names())


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A ledger that does not exist yet; the product finds it as it finds any."""
    if request.param == "sqlite":
        yield f"sqlite:///{home / 'ledger.db'}"
        return
    with postgres.database() as url:
        if url is None:
            pytest.skip(postgres.WHY_NOT)
        monkeypatch.setenv("CAUSALVEIL_LEDGER_URL", url)
        url = url.replace("postgresql:", "postgresql+psycopg:", 1)
        yield url


def every(places: list[str]) -> list[str]:
    """All places after the ledger is there."""
    return places[places.index("before:reserve") :]


def some(places: list[str], half: int) -> list[str]:
    """Up to six places between the first charge and the finish, others for each half, and one or two beside."""
    between = [place for place in places if crash.phase(place, places) == PHASES[1]]
    if len(between) > 4:
        step = max(2, -(-len(between) // 6))
        between = between[half * (step // 2) :: step]
    outside = [["before:reserve", f"after:{FINISH}"], ["after:reserve", "stage:normalise"]][half]
    return between + outside[: max(1, len(between) // 2)]


def half_way(places: list[str]) -> list[str]:
    """A place half way through the charges, where a resumed run returns what is stored and draws the rest."""
    between = [place for place in places if crash.phase(place, places) == PHASES[1]]
    return [between[len(between) // 2]]


def crash_and_resume(places: Sequence[str], url: str, path: Path, home: Path, around: dict[str, str]) -> None:
    """Die at each place, each time in a run of its own; run it again in this process; look at the books."""
    for number, place in enumerate(places):
        run_id, out = f"died-{number}", home.parent / "out" / str(number)
        crash.crash(place, str(path), str(out), run_id, around)
        before = crash.stored(url, run_id)
        with audit_lines() as lines:
            outcome = run_study(path, out=out, run_id=run_id)
        after = crash.stored(url, run_id)
        drawn = [line["name"] for line in lines if line["event"] == "charge"]
        declared = {charge.name for charge in outcome.release.privacy.charges}
        assert before.items() <= after.items(), f"{place}: a stored value changed"
        assert set(after) == declared | {FINISH}, place
        assert Counter(drawn) == Counter(declared - set(before)), f"{place}: drawn again, or not at all"
        open_ledger().verify_release((out / "release.json").read_text())
        assert not (home / "records" / run_id).exists(), "a finished run leaves no records behind"
    account = open_ledger().account(outcome.release.dataset)
    block = account.blocks[0]
    runs = len(account.runs)
    assert {f"died-{number}" for number in range(len(places))} <= {run.run_id for run in account.runs}
    assert block.spent.epsilon == outcome.release.privacy.epsilon * runs, "each run is charged once"
    assert block.reserved.epsilon == 0
    assert not list((home / "scratch").glob("*/enclave")), "a run that finished leaves no rows behind"


def check(
    name: str, choose: Callable[[list[str]], list[str]], url: str, home: Path, record: Any, **around: str
) -> Counter[str]:
    """Crash and resume one estimator at chosen places of all; how many lie in each phase."""
    engine = "prefect" if "PREFECT_API_URL" in around else "direct"
    around["CAUSALVEIL_ENGINE"] = engine
    path = STUDIES[name][1](home.parent / "study", {})
    around["CAUSALVEIL_HOME"] = str(home)
    if url.startswith("postgresql"):
        around["CAUSALVEIL_LEDGER_URL"] = url.replace("+psycopg", "")
    places = crash.places(str(path), str(home.parent / "whole"), "whole", around)
    chosen = choose(places)
    crash_and_resume(chosen, url, path, home, around)
    histogram = Counter(crash.phase(place, places) for place in chosen)
    backend = url.partition(":")[0].partition("+")[0]
    counts = ", ".join(f"{histogram[phase]} {phase}" for phase in PHASES)
    record("summary", f"killed {name} on {backend}, {engine} engine: {counts}")
    return histogram


# One for each mechanism: Gaussian noise, Laplace noise of vectors, randomised responses and records.
MECHANISMS = ("regression", "ipw", "matching")


@pytest.mark.parametrize("name", MECHANISMS)
def test_killed_at_a_place_it_finds_what_it_had(name: str, ledger_url: str, home: Path, record_property: Any) -> None:
    half = int(ledger_url.startswith("postgresql"))
    histogram = check(name, partial(some, half=half), ledger_url, home, record_property)
    assert histogram[PHASES[1]] * 3 >= histogram.total() * 2


@pytest.mark.parametrize("name", [name for name in STUDIES if name not in MECHANISMS])
def test_killed_half_way(name: str, home: Path, record_property: Any) -> None:
    """Each estimator goes on from values of every shape that it stores."""
    histogram = check(name, half_way, f"sqlite:///{home / 'ledger.db'}", home, record_property)
    assert histogram == Counter({PHASES[1]: 1})


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", STUDIES)
def test_killed_at_every_place(name: str, ledger_url: str, home: Path, record_property: Any) -> None:
    check(name, every, ledger_url, home, record_property)


# One place of each: a value stored but not used, records written but not committed, all drawn but not released.
THROUGH_PREFECT = {"ipw": "stage:weigh", "matching": "before:treatment", "direction": "before:release"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", THROUGH_PREFECT)
def test_killed_through_prefect(name: str, home: Path, record_property: Any, prefect_server: str) -> None:
    url, place = f"sqlite:///{home / 'ledger.db'}", THROUGH_PREFECT[name]
    check(name, lambda _: [place], url, home, record_property, PREFECT_API_URL=prefect_server)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", STUDIES)
def test_killed_at_many_places_through_prefect(
    name: str, ledger_url: str, home: Path, record_property: Any, prefect_server: str
) -> None:
    half = int(ledger_url.startswith("postgresql"))
    check(name, partial(some, half=half), ledger_url, home, record_property, PREFECT_API_URL=prefect_server)


def test_killed_while_the_ledger_is_made(ledger_url: str, home: Path) -> None:
    """Before there is anything to charge to: each crash comes to the ledger as the one before left it."""
    path = STUDIES["difference in means"][1](home.parent / "study", {})
    around = {"CAUSALVEIL_HOME": str(home)}
    if ledger_url.startswith("postgresql"):
        around["CAUSALVEIL_LEDGER_URL"] = ledger_url.replace("+psycopg", "")
    for place in ("before:genesis", "after:genesis", "before:admit", "after:admit", "before:grant", "after:grant"):
        crash.crash(place, str(path), str(home.parent / "out"), "early", around)
        assert not crash.stored(ledger_url, "early")
    run_study(path, out=home.parent / "out", run_id="early")
    assert open_ledger().verify().entries == 6, "opening, admission, grant, reservation, effect, release: once each"


@pytest.mark.parametrize("place", ["after:effect", "after:variance"])
def test_a_resumed_run_fits_the_same_networks(place: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks are stochastic; a resumed run finds the models of a run with the same keys that nobody killed."""
    site_secret()
    path, out = STUDIES["aipw, networks"][1](home.parent / "study", {}), home.parent / "out"
    crash.crash(place, str(path), str(out), "died", {"CAUSALVEIL_HOME": str(home)})
    unharmed = home.with_name("unharmed")
    shutil.copytree(home, unharmed, ignore=shutil.ignore_patterns("ledger.db*", "scratch"))
    resumed = run_study(path, out=out, run_id="died").release
    monkeypatch.setenv("CAUSALVEIL_HOME", str(unharmed))
    other = run_study(path, out=out.with_name("other"), run_id="died").release
    assert isinstance(resumed, EffectRelease)
    assert isinstance(other, EffectRelease)
    assert resumed.details[GAMMA] == other.details[GAMMA], "a resumed run found other models"
    assert resumed.estimate != other.estimate, "noise is the operating system's, drawn once for each ledger"
