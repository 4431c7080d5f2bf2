"""kill -9 in every phase of an AIPW study, under either guarantee; then it is run again, and the books balance.

As ``test_kill.py``: the parent kills a child at a stage, or as soon as a value is stored, and lets a second child
finish the same run id. Under the asymptotic guarantee a resumed run fits its models again, and networks are stochastic:
it must find the models, and the influence that scales its noise, of a run that nobody killed.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from causalveil.schemas.release import EffectRelease, load_release
from causalveil.tasks.privacy.keys import site_secret
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.flows.test_kill import _kill_at, _start, _stored
from tests.studies import people, write_study

SEED = 20261123
CAPS = {"sample": {"epsilon": 1000, "delta": "1e-2"}}
GAMMA = "gross_error_sensitivity"
SHARES = {"propensity": "0.2", "outcome_model": "0.3", "effect": "0.5"}
# Where to kill: a stage, or once a value of that name is stored.
FINITE = ("start", "normalise", "folds", "outcome_model", "scores", "interval")
FINITE_STORED = ("arms-1", "slopes-1", "arms-2", "propensity-2")
ASYMPTOTIC = ("start", "validate", "normalise", "folds", "asymptotic")
ASYMPTOTIC_STORED = ("effect", "variance", "effect", "variance")


def _kill_once_stored(child: Any, home: Path, run_id: str, name: str) -> None:
    """Kill ``child`` as soon as the ledger holds its value ``name``."""
    until = time.monotonic() + 60
    while name not in _stored(home, run_id) and time.monotonic() < until and child.is_alive():
        pass
    child.kill()
    child.join()


def _finish(study: Path, out: Path, run_id: str, *homes: Path) -> list[EffectRelease]:
    """Run to the end in each of the state folders, at the same time; what each releases."""
    # A child talks to its pipe until it ends.
    children = [_start(study, out / home.name, run_id, home) for home in homes]
    for child, _ in children:
        child.join()
        assert child.exitcode == 0
    found = [load_release(out / home.name / "release.json") for home in homes]
    return [release for release in found if isinstance(release, EffectRelease)]


def _kill_and_resume(
    study: Path, tmp_path: Path, home: Path, stages: Sequence[str], stored: Sequence[str], draws: set[str]
) -> Counter[str]:
    """Kill in each place; resume, where it tells something twice or beside a run that was not killed; compare."""
    site_secret()
    chance, survived = random.Random(SEED), Counter[str]()
    kills = [(True, stage) for stage in stages] + [(False, name) for name in stored]
    for attempt, (at_stage, what) in enumerate(kills):
        run_id = f"killed-{attempt}"
        child, phases = _start(study, tmp_path / "out", run_id, home)
        if at_stage:
            _kill_at(child, phases, what, chance.expovariate(100))
        else:
            _kill_once_stored(child, home, run_id, what)
        before = _stored(home, run_id)
        survived.update(before.keys())
        twin = tmp_path / f"twin-{attempt}"
        if draws <= before.keys():
            # Nothing is left to draw: whoever resumes finds one release.
            shutil.copytree(home, twin)
        elif "effect" in before:
            # The same keys and no past: nobody killed this run.
            shutil.copytree(home, twin, ignore=shutil.ignore_patterns("ledger.db*", "scratch"))
        first, *others = _finish(study, tmp_path / run_id, run_id, *([home, twin] if twin.exists() else [home]))

        after = _stored(home, run_id)
        assert before.items() <= after.items(), "a stored value changed"
        assert set(after) == draws | {"release"}
        open_ledger().verify_release(first)
        for other in others:
            same = (first.estimate, first.interval) == (other.estimate, other.interval)
            assert same == (draws <= before.keys()), "noise is drawn once, by the operating system"
            assert first.details.get(GAMMA) == other.details.get(GAMMA), "a resumed run found other models"
    (block,) = open_ledger().account("small").blocks
    assert block.spent.epsilon == first.privacy.epsilon * len(kills), "each run is charged once"
    assert block.reserved.epsilon == 0
    assert not list((home / "scratch").glob("*/enclave")), "a run that finished leaves no rows behind"
    print(f"had stored: {dict(survived)}")
    return survived


@pytest.mark.timeout(300)
def test_killed_anywhere_it_finds_its_models_again(tmp_path: Path, home: Path) -> None:
    study = write_study(
        tmp_path / "study",
        frame=people(3000),
        study={
            "estimator": {"name": "aipw", "penalty": ..., "budget_shares": SHARES, "propensity": {"penalty": 0.1}},
            "privacy": {"epsilon": "9"},
        },
        policy={"estimators": ["aipw"], "caps": CAPS},
    )
    draws = {f"{name}-{fold}" for name in ("arms", "slopes", "propensity") for fold in (1, 2)} | {"effect"}
    survived = _kill_and_resume(study, tmp_path, home, FINITE, FINITE_STORED, draws)
    assert survived["arms-1"] >= 4
    assert survived["effect"] >= 1


@pytest.mark.timeout(300)
def test_killed_anywhere_it_fits_the_same_networks(tmp_path: Path, home: Path) -> None:
    study = write_study(
        tmp_path / "study",
        frame=people(300),
        study={
            "estimator": {
                "name": "aipw",
                "penalty": ...,
                "guarantee": "asymptotic",
                "outcome_model": {"model": "neural_network"},
                "propensity": {"model": "neural_network"},
            }
        },
        policy={"estimators": ["aipw"], "guarantees": ["asymptotic"], "caps": CAPS},
    )
    survived = _kill_and_resume(study, tmp_path, home, ASYMPTOTIC, ASYMPTOTIC_STORED, {"effect", "variance"})
    assert survived["effect"] >= 4
    assert survived["variance"] >= 2
