"""How the cost of PP-IPW grows with the number of units, on threads and on a local Dask cluster of worker processes.

    uv run python tests/benchmarks/bench_scale.py --units 10000000 50000000 --runners threads dask

Prints one JSON document: seconds by stage, processor seconds, peak resident memory of the flow's process and of the
largest worker. Each run is a process of its own; PREFECT_API_URL should name a running server. 5e7 units take 20 GB
of disk.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import yaml

from causalveil.tasks.simulate import penalty

PARTITION = 1_000_000


def resident(peak: dict[str, float], done: threading.Event) -> None:
    """Sample the resident megabytes of this process and of its largest child until told to stop."""
    me = psutil.Process()
    while not done.wait(0.2):
        peak["flow"] = max(peak["flow"], me.memory_info().rss / 2**20)
        for child in me.children(recursive=True):
            try:
                peak["worker"] = max(peak["worker"], child.memory_info().rss / 2**20)
            except psutil.Error:
                continue


def one(study: str, out: str) -> None:
    """Run one study in this process and print seconds by stage."""
    from causalveil.flows.api import run_study

    began, stages = time.perf_counter(), []
    peak, done = {"flow": 0.0, "worker": 0.0}, threading.Event()
    sampler = threading.Thread(target=resident, args=(peak, done))
    sampler.start()

    def watch(stage: str) -> None:
        stages.append((stage, time.perf_counter()))

    try:
        release = run_study(study, out=out, watch=watch).release
    finally:
        done.set()
    ended = time.perf_counter()
    # Processor time does not grow with what else runs on the machine. Workers' counts once they have ended.
    mine, theirs = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    edges = [*stages, ("end", ended)]
    seconds = {name: round(after - at, 1) for (name, at), (_, after) in itertools.pairwise(edges)}
    print(
        json.dumps(
            {
                "units": release.units,
                "seconds": round(ended - began, 1),
                "processor_seconds": {
                    "flow": round(mine.ru_utime + mine.ru_stime, 1),
                    "workers": round(theirs.ru_utime + theirs.ru_stime, 1),
                },
                "stages": seconds,
                "megabytes": {name: round(value) for name, value in peak.items()},
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--covariates", type=int, default=20)
    parser.add_argument("--runners", nargs="+", default=["threads", "dask"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--one", nargs=2, metavar=("STUDY", "OUT"), help="used by the script itself")
    arguments = parser.parse_args()
    if arguments.one:
        one(*arguments.one)
        return
    results = []
    for units in arguments.units:
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {"CAUSALVEIL_HOME": f"{folder}/home"}
            path = Path(folder) / "study" / "study.yaml"
            size = ["--units", str(units), "--covariates", str(arguments.covariates)]
            pieces = ["--partitions", str(max(1, units // PARTITION))]
            command = [sys.executable, "-m", "causalveil", "simulate", str(path.parent), *size, *pieces]
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
            asked = {"estimator": {"name": "ipw", "penalty": penalty(units, arguments.covariates)}}
            path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | asked, sort_keys=False))
            # The operator says how stages run, not the study.
            admit = [sys.executable, "-m", "causalveil", "admit", str(path.parent)]
            subprocess.run(admit, env=environment, check=True, stdout=subprocess.DEVNULL)
            for runner in arguments.runners:
                environment |= {"CAUSALVEIL_RUNNER": runner, "CAUSALVEIL_WORKERS": str(arguments.workers)}
                this = [sys.executable, __file__, "--one", str(path), f"{folder}/{runner}"]
                ended = subprocess.run(this, env=environment, capture_output=True, text=True)
                if ended.returncode:
                    raise SystemExit(ended.stderr[-2000:])
                results.append({"runner": runner, **json.loads(ended.stdout.splitlines()[-1])})
                print(json.dumps(results[-1]), file=sys.stderr, flush=True)
    print(json.dumps({"benchmark": "pp-ipw by runner", "workers": arguments.workers, "results": results}, indent=2))


if __name__ == "__main__":
    main()
