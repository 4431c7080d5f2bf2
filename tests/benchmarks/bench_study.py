"""PP-IPW end to end on synthetic data: time and memory of the whole process, beside a bare script in the same run.

    uv run python tests/benchmarks/bench_study.py --units 1000000 10000000

Prints one JSON document. The ratio to the bare script is the figure to quote: both run in turn on one machine.
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

HERE = Path(__file__).parent
PARTITION = 1_000_000


def measure(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds and peak megabytes of one process."""
    start = time.perf_counter()
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{command} failed: {child.stderr.read().decode() if child.stderr else ''}")
    return seconds, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--covariates", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    results = []
    for units in arguments.units:
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {"CAUSALVEIL_HOME": f"{folder}/home"}
            study = f"{folder}/study"
            cli = [sys.executable, "-m", "flows.cli"]
            subprocess.run(
                [
                    *(*cli, "simulate", study, "--units", str(units)),
                    *("--covariates", str(arguments.covariates), "--partitions", str(max(1, units // PARTITION))),
                ],
                env=environment,
                check=True,
                stdout=subprocess.DEVNULL,
            )
            ours, bare = [], []
            for attempt in range(arguments.repeat):
                bare.append(measure([sys.executable, str(HERE / "bare_ipw.py"), study], environment))
                run = [*cli, "run", f"{study}/study.yaml", "--engine", "direct", "--out", f"{folder}/out{attempt}"]
                ours.append(measure(run, environment))
            results.append(
                {
                    "units": units,
                    "covariates": arguments.covariates,
                    "seconds": round(statistics.median(s for s, _ in ours), 2),
                    "megabytes": round(max(m for _, m in ours)),
                    "bare_seconds": round(statistics.median(s for s, _ in bare), 2),
                    "bare_megabytes": round(max(m for _, m in bare)),
                    "ratio": round(statistics.median(a / b for (a, _), (b, _) in zip(ours, bare, strict=True)), 2),
                }
            )
    print(json.dumps({"benchmark": "pp-ipw, direct engine, whole process", "results": results}, indent=2))


if __name__ == "__main__":
    main()
