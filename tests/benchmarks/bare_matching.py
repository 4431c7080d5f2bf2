"""What a user could pick instead: matching on the propensity score by other packages. Used by `bench_matching.py`.

    PYTHON tests/benchmarks/bare_matching.py METHOD UNITS     METHOD: causallib | psmpy | sklearn | scipy

The interpreter needs the package (and this file imports nothing of causalveil). Times the matching of both directions
with N = 5 alone, not the fit of a propensity model. psmpy only matches the smaller arm to the larger, one to one and
without replacement (five to one it has too few candidates here); sklearn and scipy are bare k-d trees: no caps, no
order of traversal, no ties.
Prints one JSON line: seconds by the wall and of the processor (the machine may be busy), peak bytes per unit.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

RATIO = 5


def table(units: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores with 40 bits and treatments that follow them: about three in ten units are treated."""
    random = np.random.default_rng(seed)
    scores = np.round(random.beta(2.0, 4.5, units) * 2.0**40) / 2.0**40
    return scores, (random.random(units) < scores).astype(np.uint8)


def resident() -> int:
    """Bytes of memory that the process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def forget_peak() -> None:
    """Start the process's peak anew."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """Most bytes since the last `forget_peak`."""
    text = Path("/proc/self/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024


def causallib(scores: np.ndarray, treated: np.ndarray) -> None:
    import pandas as pd
    from causallib.estimation import Matching

    # What PropensityMatching does once it has its scores.
    x, a, y = pd.DataFrame({"score": scores}), pd.Series(treated.astype(int)), pd.Series(scores)
    matching = Matching(n_neighbors=RATIO, matching_mode="both", metric="euclidean")
    matching.fit(x, a, y)
    matching.match(x, a)


def psmpy(scores: np.ndarray, treated: np.ndarray) -> None:
    import pandas as pd
    from psmpy import PsmPy

    frame = pd.DataFrame({"unit": np.arange(len(scores)), "treated": treated.astype(int), "score": scores})
    matcher = PsmPy(frame, treatment="treated", indx="unit")
    matcher.predicted_data = frame.rename(columns={"score": "propensity_score"})
    matcher.kdtree_matched(matcher="propensity_score", replacement=False, caliper=None)


def sklearn(scores: np.ndarray, treated: np.ndarray) -> None:
    from sklearn.neighbors import KDTree

    arms = [scores[treated == arm][:, None] for arm in (0, 1)]
    for arm in (0, 1):
        KDTree(arms[1 - arm]).query(arms[arm], k=RATIO)


def scipy(scores: np.ndarray, treated: np.ndarray) -> None:
    from scipy.spatial import cKDTree

    arms = [scores[treated == arm][:, None] for arm in (0, 1)]
    for arm in (0, 1):
        cKDTree(arms[1 - arm]).query(arms[arm], k=RATIO)


METHODS: dict[str, Callable[[np.ndarray, np.ndarray], None]] = {
    "causallib": causallib,
    "psmpy": psmpy,
    "sklearn": sklearn,
    "scipy": scipy,
}


def measured(match: Callable[[np.ndarray, np.ndarray], None], units: int) -> dict[str, float]:
    """Seconds by the wall and of the processor, and bytes per unit above the imports, the input included."""
    match(*table(500))
    before = resident()
    scores, treated = table(units)
    forget_peak()
    wall, processor = time.perf_counter(), time.process_time()
    match(scores, treated)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return {"seconds": wall, "cpu_seconds": processor, "bytes_per_unit": (peak() - before) / units}


if __name__ == "__main__":
    print(json.dumps(measured(METHODS[sys.argv[1]], int(sys.argv[2]))))
