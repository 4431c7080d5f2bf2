"""Tables IV and V of Yuan et al. 2026: seconds and memory of one release, each measured in a process of its own."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

EPSILON = "1"
# Seconds and megabytes as printed, on IHDP, LaLonde, ACIC and Synth.
PRINTED: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "ipw_pp": ((0.29, 0.16, 0.32, 0.06), (471.13, 470.92, 493.67, 472.70)),
    "smooth_matching": ((0.03, 0.04, 0.06, 0.02), (469.13, 468.92, 477.31, 470.81)),
    "dpci": ((0.09, 0.04, 0.94, 0.08), (479.84, 476.26, 483.60, 476.05)),
    "privsyn": ((67.02, 5.18, 4861.72, 8.11), (540.44, 534.98, 572.21, 537.60)),
    "aim": ((210.35, 22.24, 12569.72, 104.63), (1712.74, 933.76, 4177.00, 1043.12)),
    "matching_sample": ((0.08, 0.04, 0.68, 0.05), (470.60, 469.97, 484.55, 470.92)),
    "matching_label": ((0.06, 0.02, 0.55, 0.04), (468.19, 467.46, 479.83, 468.29)),
}
# Whom the tables have, and what `auto` takes.
MEASURED = (*PRINTED, "auto_label", "auto_sample")
NAMES = ("IHDP", "LaLonde", "ACIC", "Synth")


def costs(name: str, folders: tuple[Path, ...], competitor: str) -> Iterator[dict[str, object]]:
    """One row: seconds of fit and release by a competitor on a data set, peak memory of the process."""
    place, printed = NAMES.index(name), PRINTED.get(competitor)
    # A process does one thing, so that its peak is that thing's.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        seconds, megabytes = pool.submit(_measure, name, folders, competitor).result()
    yield {
        "data": name,
        "competitor": competitor,
        "seconds": float(f"{seconds:.3g}"),
        "printed_seconds": None if printed is None else printed[0][place],
        "megabytes": round(megabytes),
        "printed_megabytes": None if printed is None else printed[1][place],
    }


def _measure(name: str, folders: tuple[Path, ...], competitor: str) -> tuple[float, float]:
    """The second of two releases, so that what is compiled or imported once does not count; peak memory in MB."""
    from causalveil.tasks.machine.distribute import one_thread
    from causalveil.tasks.privacy.budget import RehearsalBudget
    from causalveil_replication.yuan2026.data import load
    from causalveil_replication.yuan2026.rivals import COMPETITORS, instances
    from causalveil_replication.yuan2026.runs import prepare

    data = load(name, folders)
    if data is None:
        raise FileNotFoundError(name)
    chosen = next(one for one in COMPETITORS if one.name == competitor)
    first = time.process_time()
    with one_thread():
        for instance in instances(prepare(data, 2)):
            first = time.process_time()
            chosen.fit(instance).release(EPSILON, RehearsalBudget(0))
    # Kilobytes, but bytes on macOS.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return time.process_time() - first, peak / (1e6 if sys.platform == "darwin" else 1e3)
