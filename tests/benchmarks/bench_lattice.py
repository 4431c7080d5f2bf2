"""Lattice Laplace and randomised response on a million values: best and median of seven runs, as JSON.

Run: python tests/benchmarks/bench_lattice.py
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from causalveil.schemas.privacy import Norm, PrivacyCost
from causalveil.tasks.privacy.mechanisms import LatticeLaplace, RandomisedResponse, Sensitivity
from causalveil.tasks.privacy.noise import SecureNoise

N = 1_000_000


def seconds(work: Callable[[], object]) -> dict[str, float]:
    """Wall times of seven runs after a warm one."""
    work()
    times = []
    for _ in range(7):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return {"best": round(min(times), 4), "median": round(statistics.median(times), 4)}


def main() -> None:
    """Measure and print."""
    cost = PrivacyCost(epsilon=Decimal(1), delta=Decimal(0))
    laplace = LatticeLaplace(Sensitivity(1.0, Norm.l1, "1"), cost)
    response = RandomisedResponse(cost)
    scores, bits = np.random.default_rng(1).random(N), np.random.default_rng(2).integers(0, 2, N, dtype=np.uint8)
    noise = SecureNoise()
    result = {
        "values": N,
        "goal_seconds_together": 0.3,
        "lattice_laplace": seconds(lambda: noise.lattice_laplace(scores, laplace.noise_scale, laplace.granularity)),
        "randomised_response": seconds(lambda: noise.randomised_response(bits, response.keep_probability)),
    }
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
