"""A study end to end on admitted synthetic data: time and memory of the whole process, for IPW beside a bare script.

    uv run python tests/benchmarks/bench_study.py --units 1000000 10000000
    uv run python tests/benchmarks/bench_study.py --estimators aipw --units 1000000
    uv run python tests/benchmarks/bench_study.py --estimators aipw asymptotic --units 3000 --covariates 24

Admission, which is once for all studies, is measured by itself beside a bare scan of all columns. Prints one JSON
document. The ratios to the bare script are the figures to quote: both run in turn on one machine, and `cpu_ratio` of
the least processor seconds of each is what a busy machine changes least. A small study is mostly start and imports, so
`warm_seconds` has it once more in a process that has made such a run before. Modules are compiled beforehand, as an
installer does it, whatever the environment says.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from causalveil.tasks.simulate import penalty

HERE = Path(__file__).parent
PARTITION = 1_000_000
# Up to so many units the start of a process weighs, and runs in a process that has started are measured too.
SMALL = 100_000
# What is asked of a machine that looks at every value of every file once, and no more.
SCAN = (
    "import sys, polars; print(polars.scan_parquet(sys.argv[1] + '/**/*.parquet').select(polars.all().max()).collect())"
)
CLI = (sys.executable, "-m", "causalveil")
CONTRACT = {
    "estimators": ["ipw", "aipw", "regression", "matching", "balancing"],
    "guarantees": ["finite_sample", "asymptotic"],
    "caps": {level: {"epsilon": 1000, "delta": "1e-2"} for level in ("sample", "label")},
}
# What is asked in place of the study that `simulate` writes: estimator and privacy; `ipw` where none is named.
ASKED: dict[str, dict[str, Any]] = {
    "ipw": {},
    "aipw": {"estimator": {"name": "aipw", "propensity": {"known": 0.5}}},
    "regression": {"estimator": {"name": "regression"}},
    "regression-lines": {"estimator": {"name": "regression", "curves": "none"}},
    "asymptotic": {
        "estimator": {"name": "aipw", "guarantee": "asymptotic", "outcome_model": {"model": "kernel_ridge"}},
    },
    "balancing": {"estimator": {"name": "balancing"}, "privacy": {"epsilon": 1.0, "delta": 0, "level": "label"}},
    "ipw-label": {"privacy": {"epsilon": 1.0, "delta": 0, "level": "label"}},
    "matching": {
        "estimator": {"name": "matching", "penalty": 0.001},
        "privacy": {"epsilon": 1.0, "delta": 0, "level": "label"},
    },
}


def measure(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Seconds by the wall and of the processor, and peak megabytes, of one process."""
    start = time.perf_counter()
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{command} failed: {child.stderr.read().decode() if child.stderr else ''}")
    return {
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "megabytes": usage.ru_maxrss / 1024,
    }


def medians(values: list[dict[str, Any]]) -> dict[str, Any]:
    """Of every number; the first failure if there is one."""
    failed = [value for value in values if "failed" in value]
    return failed[0] if failed else {key: round(statistics.median(v[key] for v in values), 4) for key in values[0]}


def simulated(folder: Path, units: int, covariates: int, estimator: str, environment: dict[str, str]) -> Path:
    """Write a synthetic study that asks for an estimator; return the study's path."""
    import yaml

    size = ["--units", str(units), "--covariates", str(covariates), "--partitions", str(max(1, units // PARTITION))]
    subprocess.run([*CLI, "simulate", str(folder), *size], env=environment, check=True, stdout=subprocess.DEVNULL)
    asked = ASKED[estimator]
    if "estimator" not in asked:
        asked = {"estimator": {"name": "ipw", "penalty": penalty(units, covariates)}, **asked}
    for name, changes in (("study", asked), ("dataset", CONTRACT)):
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | changes, sort_keys=False))
    return folder / "study.yaml"


def admission(folder: Path, repeat: int, environment: dict[str, str]) -> dict[str, Any]:
    """`causalveil admit` in a process of its own, in turn with a bare scan of all columns."""
    ours, bare = [], []
    for _ in range(repeat + 1):
        bare.append(measure([sys.executable, "-c", SCAN, str(folder)], environment))
        ours.append(measure([*CLI, "admit", str(folder)], environment))
    ours, bare = ours[1:], bare[1:]
    found = {f"admission_{key}": value for key, value in medians(ours).items()}
    return found | {f"scan_{key}": value for key, value in medians(bare).items()} | ratios("admission_", ours, bare)


def ratios(name: str, ours: list[dict[str, float]], bare: list[dict[str, float]]) -> dict[str, float]:
    """Medians of what a pair of runs took, by the wall and of the processor, and of the least of each."""
    pairs = list(zip(ours, bare, strict=True))
    least = [min(one["cpu_seconds"] for one in each) for each in (ours, bare)]
    return {
        f"{name}ratio": round(statistics.median(a["seconds"] / b["seconds"] for a, b in pairs), 2),
        f"{name}cpu_ratio": round(statistics.median(a["cpu_seconds"] / b["cpu_seconds"] for a, b in pairs), 2),
        f"{name}least_cpu_ratio": round(least[0] / least[1], 2),
        f"{name}least_cpu_seconds": round(least[0], 2),
        f"{name}bare_least_cpu_seconds": round(least[1], 2),
    }


def whole(estimator: str, units: int, covariates: int, repeat: int) -> dict[str, Any]:
    """A whole process, `causalveil run` on the direct engine, ``repeat`` times; for IPW the bare script in turn.

    One run of each goes before and is not counted: it compiles modules and brings files into memory.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"CAUSALVEIL_HOME": f"{folder}/home"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        study = simulated(Path(folder) / "study", units, covariates, estimator, environment)
        admitted = admission(study.parent, repeat, environment)
        ours, bare = [], []
        for attempt in range(repeat + 1):
            if estimator == "ipw":
                bare.append(measure([sys.executable, str(HERE / "bare_ipw.py"), str(study.parent)], environment))
            run = [*CLI, "run", str(study), "--engine", "direct", "--out", f"{folder}/out{attempt}"]
            ours.append(measure(run, environment))
        ours, bare = ours[1:], bare[1:]
        found = {"estimator": estimator, "units": units, "covariates": covariates, **medians(ours), **admitted}
        if units <= SMALL:
            again = [sys.executable, __file__, "--warm", str(study), "--repeat", str(repeat)]
            warm = subprocess.run(again, env=environment, check=True, capture_output=True, text=True).stdout
            found["warm_seconds"] = float(warm.splitlines()[-1])
        if bare:
            found |= {f"bare_{key}": value for key, value in medians(bare).items()}
            found |= ratios("", ours, bare)
        return found


def warm_seconds(study: Path, repeat: int) -> float:
    """Median seconds of a run in this process, once it has imported everything by a run before."""
    from causalveil.flows.api import run_study

    times = []
    for attempt in range(repeat + 1):
        start = time.perf_counter()
        run_study(study, out=study.parent / f"warm{attempt}", engine="direct")
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--covariates", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--estimators", nargs="+", default=["ipw"], choices=ASKED)
    parser.add_argument("--warm", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.warm:
        print(round(warm_seconds(arguments.warm, arguments.repeat), 4))
        return
    results = [
        whole(estimator, units, arguments.covariates, arguments.repeat)
        for units in arguments.units
        for estimator in arguments.estimators
    ]
    document = {"benchmark": "whole studies, direct engine", "load": os.getloadavg(), "results": results}
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
