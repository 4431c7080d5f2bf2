"""The three-site study of data/sites/: three processes, three ledgers, one coordinator; and the Prefect flow."""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from causalveil.schemas.errors import BundleError
from causalveil.schemas.estimators.survival import SurvivalStudy
from causalveil.schemas.release import load_release, release_text
from causalveil.schemas.sites.pooled import PooledRelease, load_published
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.children import Command
from tests.sites_help import NAMES, Call, Party, at_home
from tests.studies import resolved, write_study

ROOT = Path(__file__).parents[2]


SCRIPT = ROOT / "data" / "sites" / "run.py"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The script's own steps, each command in a process of its own; where it put everything, and what it printed."""
    out = tmp_path_factory.mktemp("demo")
    script = runpy.run_path(str(SCRIPT))

    def start(party: Any, *words: str) -> Command:
        return Command(words, {"CAUSALVEIL_HOME": str(party.folder / "home"), "CAUSALVEIL_LEDGER_URL": ""}, ROOT)

    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        # The processes are forked and have imported all: eleven new interpreters take three times as long.
        patch.setattr(script["Party"], "start", start)
        script["main"](out, "direct")
    return next(out.glob("round-*")), printed.getvalue()


def test_every_study_of_the_hospitals_is_one_that_their_contracts_answer(tmp_path: Path) -> None:
    script = runpy.run_path(str(SCRIPT))
    assert [*sorted(file.name for file in SCRIPT.parent.glob("study*.yaml"))] == sorted(script["STUDIES"])
    for file in script["STUDIES"]:
        for site in NAMES:
            path = tmp_path / site / file
            path.parent.mkdir(exist_ok=True)
            path.write_text(script["study_of"](site, file))
            study = resolved(path)
            assert study.name == path.stem.replace("study", "early-physiotherapy")
            assert isinstance(study, SurvivalStudy) == (file == "study-times.yaml")


@pytest.mark.long
@pytest.mark.parametrize(("study", "answers"), [("study.yaml", 1), ("study-times.yaml", 4)])
def test_the_command_as_the_documents_have_it(tmp_path: Path, study: str, answers: int) -> None:
    out = tmp_path
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(out), "--study", study],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("CAUSALVEIL")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert "random effects" in ran.stdout
    release = load_published(next(out.glob("round-*/coordinator/pooled/release.json")))
    assert isinstance(release, PooledRelease)
    assert len(release.answers) == answers


def test_three_sites_answer_and_are_pooled(demo: tuple[Path, str]) -> None:
    folder, printed = demo
    release = load_published(folder / "coordinator" / "pooled" / "release.json")
    assert isinstance(release, PooledRelease)
    assert [site.site for site in release.sites] == ["north", "coast", "valley"]
    assert [float(site.epsilon) for site in release.sites] == [1.0, 0.5, 1.0]
    assert release.units == 25_000
    assert (float(release.privacy.epsilon), release.privacy.units_disjoint) == (1.0, True)
    # The effects are -2, -1.6 and -2.3; seven standard errors and what adjustment leaves.
    (answer,) = release.answers
    assert answer.fixed is not None
    assert abs(answer.fixed.estimate + 1.95) < 7 * answer.fixed.standard_error + 0.2
    assert all(part.noise_error and part.noise_error > 0 for part in answer.sites)
    assert (release.estimate, release.interval) == (answer.estimate, answer.random and answer.random.interval)
    assert "random effects" in printed
    assert (folder / "coordinator" / "pooled" / "report.html").read_text().startswith("<!doctype html>")


def test_each_site_has_a_ledger_and_a_key_of_its_own(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    identities, keys = set(), set()
    for name in NAMES:
        release = load_release(folder / name / "release" / "release.json")
        with at_home(folder / name / "home"):
            ledger = open_ledger()
            ledger.verify_release(release_text(release))
            account = ledger.account(f"{name}-patients")
        assert [run.run_id for run in account.runs] == [release.run_id], "charged once, and by nobody else"
        identities.add(ledger.identity)
        keys.add((folder / name / "home" / "bundle.key").read_bytes())
    assert (len(identities), len(keys)) == (3, 3)
    with at_home(folder / "coordinator" / "home"):
        assert open_ledger().verify().runs == 0, "pooling spends nothing: its ledger remembers the round alone"


def test_the_coordinator_sees_bundles_and_nothing_else(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    seen = sorted(str(path.relative_to(folder / "coordinator")) for path in (folder / "coordinator").rglob("*.*"))
    bundles = ["bundles/coast.json", "bundles/north.json", "bundles/valley.json"]
    # Its key signed the terms; its ledger, with the checkpoint beside it, remembers the round and nothing else.
    ledger = ["home/bundle.key", "home/ledger.db", "home/ledger.db-queue", "home/ledgers/IDENTITY.json"]
    written = ["pooled/release.json", "pooled/report.html", "round.json", "sites.yaml", "study.yaml"]
    assert sorted(re.sub(r"[0-9a-f]{32}", "IDENTITY", name) for name in seen) == [*bundles, *ledger, *written]


def test_pooling_reads_no_data(demo: tuple[Path, str], tmp_path: Path) -> None:
    """The round is pooled again where none of the sites' folders is at hand; the release is the same, byte for byte."""
    folder, _ = demo
    elsewhere = Call(tmp_path / "elsewhere", {})
    shutil.copytree(folder / "coordinator", elsewhere.folder, ignore=shutil.ignore_patterns("home", "pooled"))
    (elsewhere.folder / "home").mkdir()
    shutil.copy(folder / "coordinator/home/bundle.key", elsewhere.folder / "home")
    again = elsewhere.pool()
    assert again.path.read_bytes() == (folder / "coordinator" / "pooled" / "release.json").read_bytes()


def test_the_flow_of_deployments(prefect_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """flows/deployed.py:pool under Prefect: paths go in, the same release comes out, a refusal fails the run."""
    from causalveil.flows.deployed import pool

    parties = {name: Party(name, tmp_path / name, seed) for seed, name in enumerate(NAMES[:2])}
    call = Call(tmp_path / "coordinator", parties)
    call.write()
    shutil.copy(write_study(tmp_path / "travels"), call.folder / "study.yaml")
    for name, party in parties.items():
        party.run("asked")
        call.put(name, party.bundle("asked", call.signed()))
    monkeypatch.setenv("CAUSALVEIL_HOME", str(call.folder / "home"))
    outcome = pool(str(call.folder / "sites.yaml"), str(tmp_path / "pooled"))
    assert json.loads(outcome.path.read_text())["kind"] == "pooled"
    assert outcome.path.read_text() == call.pool().path.read_text()
    call.file("north").unlink()
    with pytest.raises(BundleError, match="site 'north': missing"):
        pool(str(call.folder / "sites.yaml"), str(tmp_path / "pooled"))
