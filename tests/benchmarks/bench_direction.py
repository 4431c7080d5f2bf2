"""Seconds and peak memory of direction finding's parts on 100,000 points, or on as many as are named.

    python tests/benchmarks/bench_direction.py [POINTS]

Each part runs in a process of its own, on one core. The demands are 1 second for the ranks' scores, 60 seconds and 2 GB
for HSIC, at 100,000 points.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

# Peak resident memory is reported in kilobytes on Linux.
KILOBYTE = 1024
LIMITS = {"spearman": (1.0, 2.0), "kendall": (1.0, 2.0), "hsic": (60.0, 2.0)}


def part(name: str, points: int) -> Callable[[], object]:
    """The work of one part, on x uniform and y = x^3 and noise; both in [-1, 1]."""
    from causalveil.tasks.direction import scores
    from causalveil.tasks.direction.scores import Kernel, residuals
    from causalveil.tasks.direction.sensitivity import QuartileRange, released_log

    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, points)
    y = np.clip(x**3 + random.normal(0, 0.1, points), -1, 1)
    pairs = np.column_stack([x, y])
    residual = y - x**3
    return {
        "nothing": lambda: None,
        "spearman": lambda: scores.spearman(x, residual),
        "kendall": lambda: scores.kendall(x, residual),
        "hsic": lambda: scores.hsic(x, residual, Kernel(0.2, 1.0), Kernel(0.2, 2.0)),
        "iqr": lambda: [released_log(QuartileRange(np.sort(one)).now) for one in (x, residual)],
        "both regressions, and residuals": lambda: residuals(pairs, pairs, 0.01, 0.2),
    }[name]


def measure(name: str, points: int, report: multiprocessing.connection.Connection) -> None:
    """Run one part twice and send the second run's seconds and the peak memory in GB."""
    work = part(name, points)
    work()
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    report.send((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE / 1e9))


def main(points: int) -> None:
    # Read when numpy is imported, in the processes that are started below.
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    context = multiprocessing.get_context("spawn")
    print(f"{points:,} points, one core")
    late = []
    for name in ("nothing", "spearman", "kendall", "hsic", "iqr", "both regressions, and residuals"):
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=measure, args=(name, points, send))
        process.start()
        seconds, peak = receive.recv()
        process.join()
        print(f"{name:32s} {seconds:8.3f} s   peak {peak:.2f} GB")
        if name in LIMITS and points == 100_000 and (seconds > LIMITS[name][0] or peak > LIMITS[name][1]):
            late.append(name)
    if late:
        raise SystemExit(f"over the limit: {', '.join(late)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
