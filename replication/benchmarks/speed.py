"""Processor seconds and memory of whole runs on admitted synthetic rows, beside bare scripts and other packages.

    uv run python -m replication.benchmarks.speed --units 1000000 --estimators regression ipw [--peers PYTHON]

Everything runs in turn, each in a process of its own; a first turn is not counted unless it is the only one (``--repeat
0``): it compiles modules and brings files into memory. ``PYTHON`` is the interpreter of an environment with
statsmodels, pyfixest, DoubleML and LightGBM, none of which is a dependency; they run once, in the last turn. Every run
asks anew, and one that returned a stored value instead of drawing ends the benchmark. BLAS and polars have one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from causalveil.tasks.data.simulate import penalty

PARTITION = 1_000_000
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS")
CLI = (sys.executable, "-m", "causalveil")
BARE = str(Path(__file__).with_name("peers.py"))
PEERS = ("statsmodels", "pyfixest", "doubleml", "doubleml_trees")
# What is asked of a machine that looks at every value of every file once, and no more.
SCAN = (
    "import sys, polars; print(polars.scan_parquet(sys.argv[1] + '/**/*.parquet').select(polars.all().max()).collect())"
)
LABEL = {"epsilon": 1.0, "delta": 0, "level": "label"}
ASKED: dict[str, dict[str, Any]] = {
    "regression": {"estimator": {"name": "regression"}},
    "ipw": {"estimator": {"name": "ipw"}},
    "difference": {"estimator": {"name": "difference_in_means", "trial": True}},
    "balancing": {"estimator": {"name": "balancing"}, "privacy": LABEL},
    "matching": {"estimator": {"name": "matching"}, "privacy": LABEL},
}
CONTRACT = {
    "estimators": ["regression", "ipw", "difference_in_means", "balancing", "matching"],
    "caps": {level: {"epsilon": 1000, "delta": "1e-2"} for level in ("sample", "label")},
}


class Used(NamedTuple):
    """What a process took: processor seconds and peak megabytes, of its largest process."""

    seconds: float
    megabytes: float


def measure(command: list[str], environment: dict[str, str]) -> tuple[Used, str]:
    """Return what a process took, and what it printed."""
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen(command, env=environment, stdout=printed, stderr=said)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0), said.seek(0)
        if child.returncode:
            raise SystemExit(f"{command} failed: {said.read()[-2000:]}")
        return Used(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024), printed.read()


def measured_run(study: Path, out: Path, environment: dict[str, str], *options: str) -> Used:
    """Return what a run took that drew; values that were returned and not drawn end the benchmark."""
    used, printed = measure([*CLI, "run", str(study), "--json", "--out", str(out), *options], environment)
    # 0: all its charges are new; a number: so many were drawn before; none: the release was, and no stage ran.
    if json.loads(printed)["returned"] != 0:
        raise SystemExit(f"{study}: what was drawn before was returned, so no run was measured; ask with --again")
    return used


def simulated(folder: Path, units: int, covariates: int, environment: dict[str, str]) -> None:
    """Write synthetic rows, and a study of each estimator that is asked."""
    size = ["--units", str(units), "--covariates", str(covariates), "--partitions", str(max(1, units // PARTITION))]
    measure([*CLI, "simulate", str(folder), *size], environment)
    contract, study = (yaml.safe_load((folder / f"{name}.yaml").read_text()) for name in ("dataset", "study"))
    (folder / "dataset.yaml").write_text(yaml.safe_dump(contract | CONTRACT, sort_keys=False))
    for name, asked in ASKED.items():
        tuned = {"penalty": penalty(units, covariates)} if name in ("ipw", "matching") else {}
        document = study | {"name": name} | asked | {"estimator": asked["estimator"] | tuned}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(document, sort_keys=False))


def benchmark(asked: argparse.Namespace, units: int) -> list[str]:
    """Return a Markdown table of one size."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "rows"
        environment = {**os.environ, **dict.fromkeys(THREADS, "1"), "CAUSALVEIL_HOME": f"{place}/home"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        simulated(folder, units, asked.covariates, environment)
        found: dict[str, list[Used]] = defaultdict(list)
        for turn in range(asked.repeat + 1):
            found["scan of all columns"].append(measure([sys.executable, "-c", SCAN, str(folder)], environment)[0])
            found["`admit`"].append(measure([*CLI, "admit", str(folder)], environment)[0])
            for name in asked.estimators:
                study, out = folder / f"{name}.yaml", Path(place) / f"{name}-{turn}"
                engine = ("--again", "--engine", asked.engine)
                found[f"`{name}`"].append(measured_run(study, out, environment, *engine))
                if name in ("regression", "ipw"):
                    bare = [sys.executable, BARE, name, str(study)]
                    found[f"bare script of `{name}`"].append(measure(bare, environment)[0])
            for name in PEERS if asked.peers and turn == asked.repeat else ():
                peer = [asked.peers, BARE, name, str(folder / "regression.yaml")]
                found[name].append(measure(peer, environment)[0])
    counted = {name: every[1:] or every for name, every in found.items()}
    first = statistics.median(one.seconds for one in counted[f"`{asked.estimators[0]}`"])
    out = [f"| {units:,} x {asked.covariates} | median | least | MB | of `{asked.estimators[0]}` |", "|---" * 5 + "|"]
    for name, every in counted.items():
        middle, least = (of(one.seconds for one in every) for of in (statistics.median, min))
        most = max(one.megabytes for one in every)
        out.append(f"| {name} | {middle:.2f} | {least:.2f} | {most:.0f} | {middle / first:.2f} |")
    return out


def main() -> None:
    """Print a table of each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--covariates", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--estimators", nargs="+", default=["regression", "ipw"], choices=ASKED)
    parser.add_argument("--engine", default="direct", choices=["direct", "prefect"])
    parser.add_argument("--peers", help="an interpreter that has statsmodels, pyfixest, DoubleML and LightGBM")
    asked = parser.parse_args()
    for units in asked.units:
        print("\n".join(benchmark(asked, units)), flush=True)
        print("Load of the machine:", *(f"{load:.1f}" for load in os.getloadavg()), "\n", flush=True)


if __name__ == "__main__":
    main()
