"""Dask and Ray give what threads give; a worker that is killed costs time and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.cli.audit import prefect_trail
from causalveil.schemas.errors import CausalveilError, DataError
from causalveil.schemas.plan import SITE_FILE
from causalveil.schemas.release import EffectRelease
from causalveil.tasks.machine.site import VARIABLES, home
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.studies import people, write_study

ROOT = Path(__file__).parents[2]
PARTITIONS = 16
SEED = 11


def write(folder: Path, runner: str, address: str | None = None, **changes: Any) -> Path:
    """A study of many partitions, and the operator's word on where they are worked on."""
    execution = f'engine = "prefect"\nrunner = "{runner}"\nworkers = 2\n'
    execution += f'address = "{address}"\n' if address else ""
    (home() / SITE_FILE).write_text(f"[execution]\n{execution}")
    return write_study(folder, frame=people(8000), partitions=PARTITIONS, **changes)


@pytest.fixture(autouse=True)
def the_file_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the variables that all tests share."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def dask_cluster(prefect_server: str) -> Iterator[str]:
    """A cluster that is there before the runs, as one of many machines would be."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> str | None:
    """The address of the runner's cluster: Dask's of the module; for Ray its first run's, which goes on."""
    return request.getfixturevalue("dask_cluster") if request.param == "dask" else None


BOTH = pytest.mark.parametrize(("runner", "cluster"), [("dask", "dask"), ("ray", "ray")], indirect=["cluster"])


def numbers(release: Any) -> list[float]:
    assert isinstance(release, EffectRelease)
    return [release.estimate, release.interval.lower, release.interval.upper, *release.variance.model_dump().values()]


@pytest.fixture(scope="module")
def by_threads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[float]]:
    """The release that one process computes, with the seeded noise that all have."""
    folder = tmp_path_factory.mktemp("threads")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAUSALVEIL_HOME", str(folder / "home"))
        path = write(folder / "study", "threads")
        yield numbers(run_study(path, out=folder / "out", run_id="same", simulate=SEED, engine="direct").release)


@BOTH
def test_runners_agree_with_threads(
    runner: str, cluster: str | None, by_threads: list[float], tmp_path: Path, prefect_server: str
) -> None:
    """16 partitions on 2 worker processes, the same seeded noise."""
    path = write(tmp_path / "study", runner, cluster)
    release = run_study(path, out=tmp_path / "out", run_id=f"same-{runner}", simulate=SEED).release
    assert numbers(release) == pytest.approx(by_threads, rel=1e-9, abs=1e-9)
    recorded = {stage.name for run in prefect_trail(f"same-{runner}").flow_runs for stage in run.stages}
    # The server may lag behind the client; what it has are stages, never the passes of a solver.
    assert recorded <= {
        "admit",
        "validate",
        "normalise",
        "split",
        "propensity",
        "weigh",
        "perturb",
        "interval",
        "deliver",
    }


def test_errors_on_workers_are_typed_and_quote_nothing(dask_cluster: str, tmp_path: Path, prefect_server: str) -> None:
    frame = people(8000)
    path = write(tmp_path / "study", "dask", dask_cluster)
    # A value of the last partition, so that it is met on the second worker.
    broken = frame[-500:].with_columns(group=frame["group"][-500:].set(frame["person"][-500:] == 8900, "Xq7canary"))
    broken.write_parquet(path.parent / "part-15.parquet")
    with pytest.raises(DataError, match=r"part-15\.parquet: column 'group' holds a value that is not among") as caught:
        run_study(path, out=tmp_path / "out", run_id="broken")
    assert "canary" not in str(caught.value)
    account = open_ledger().account("small")
    assert account.runs == (), "rows are held to the contract before anything is reserved"


def test_a_cluster_that_is_not_there_is_a_typed_error(tmp_path: Path, prefect_server: str) -> None:
    import dask

    path = write(tmp_path / "study", "dask", "tcp://127.0.0.1:9")
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(CausalveilError, match=r"execution\.address"),
    ):
        run_study(path, out=tmp_path / "out", run_id="nowhere")
    assert [run.state for run in open_ledger().account("small").runs] == ["reserved"], "it goes on once there is one"


def workers_of(parent: psutil.Process, runner: str) -> list[psutil.Process]:
    """The processes that work on partitions for a run."""
    found = []
    for child in parent.children(recursive=True):
        try:
            words = " ".join(child.cmdline())
        except psutil.Error:
            continue
        if runner == "dask" and "spawn_main" in words and child.children() == []:
            found.append(child)
        if runner == "ray" and words.startswith("ray::"):
            found.append(child)
    return found


@pytest.mark.parametrize("runner", ["dask", pytest.param("ray", marks=pytest.mark.long)])
def test_a_killed_worker_is_survived_or_the_ledger_is_right(
    runner: str, tmp_path: Path, home: Path, prefect_server: str
) -> None:
    """kill -9 lands on a worker in mid-run. Whatever the cluster makes of it: one charge at most, and a second start of
    the same run ends with the release."""
    path = write(tmp_path / "study", runner)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "causalveil", "run", str(path), "--run-id", "hurt", "--out", str(out), "--json"]
    environment = os.environ | {"CAUSALVEIL_HOME": str(home), "PREFECT_API_URL": prefect_server}
    child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    parent, killed = psutil.Process(child.pid), False
    while child.poll() is None and not killed:
        # Hashes on disk: the workers are in the middle of their partitions.
        if len(list(home.glob("scratch/*/enclave/part-*/h.npy"))) >= 2:
            for worker in workers_of(parent, runner)[:1]:
                worker.kill()
                killed = True
        time.sleep(0.01)
    shown, told = child.communicate(timeout=300)
    assert killed, "a worker was there to be killed"
    if child.returncode != 0:
        print(f"{runner}: the run failed: {told.decode()[-300:]}")
        account = open_ledger().account("small")
        assert all(run.spent.epsilon in (0, 1) for run in account.runs)
        run_id = "hurt" if account.runs[0].state != "voided" else "hurt-again"
        shown = subprocess.run(
            [*command[:4], str(path), "--run-id", run_id, "--out", str(out), "--json"],
            **{"cwd": ROOT, "env": environment, "capture_output": True, "check": True},
        ).stdout
    assert json.loads(shown)["release"]["units"] == 8000
    open_ledger().verify_release((out / "release.json").read_text())
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1
