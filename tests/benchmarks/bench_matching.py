"""Capped matching beside what else there is, stage times at the paper's sizes, and a whole study of a million units.

    uv run python tests/benchmarks/bench_matching.py --rivals PYTHON --units 100000 1000000 10000000
    uv run python tests/benchmarks/bench_matching.py --stages --data FOLDER
    uv run python tests/benchmarks/bench_matching.py --study 1000000

Needs the replications: `uv run --package causalveil-replication python` in place of `uv run python`.

PYTHON is the interpreter of a throw-away environment with `pip install causallib psmpy`: neither is a dependency.
Every measurement is a process of its own; compilation is not counted. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import bare_matching
import numpy as np
from bench_study import medians, whole

from causalveil_replication.yuan2026.data import PublishedData

HERE = Path(__file__).parent
# Sizes that each rival can finish; psmpy holds a matrix of all distances and walks it in Python.
LARGEST = {"causallib": 100_000, "psmpy": 4_000, "sklearn": 1_000_000, "scipy": 1_000_000}
SIZES = (4_000, 100_000, 1_000_000)
PREPARATION = ("validate", "normalise", "split")


def match_both_ways(scores: np.ndarray, treated: np.ndarray) -> None:
    """What a study does: the adaptive cap at epsilon = 1, label level, then both directions."""
    from causalveil.tasks.models.nearest import adaptive_limit, integer_caps, match_capped, most_used

    ratio, count = bare_matching.RATIO, int(treated.sum())
    most = most_used(scores, treated, ratio)
    limit = adaptive_limit(1.0, 0.01, max(count, len(treated) - count), most / ratio)
    match_capped(scores, treated, ratio, integer_caps(Fraction(limit), count, len(treated) - count, ratio))


def match_tightly(scores: np.ndarray, treated: np.ndarray) -> None:
    """Both directions under the least caps that leave nobody without neighbours: most candidates are exhausted."""
    from causalveil.tasks.models.nearest import integer_caps, match_capped

    count = int(treated.sum())
    caps = integer_caps(Fraction(1), count, len(treated) - count, bare_matching.RATIO)
    match_capped(scores, treated, bare_matching.RATIO, caps)


def child(*command: str) -> dict[str, Any]:
    """Run a process and read its JSON; an error if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {"failed": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else str(done.returncode)}
    return json.loads(done.stdout.splitlines()[-1])


def matchers(units: Sequence[int], rivals: str | None, repeat: int) -> list[dict[str, Any]]:
    """Ours at every size, rivals at those that they finish, in turn; medians."""
    ours = [sys.executable, str(HERE / "bench_matching.py"), "--child"]
    results = []
    for size in sorted({*units, *(SIZES if rivals else ())}):
        runs = {name: [*ours, name] for name in ("tight", "adaptive")}
        if rivals:
            program = [rivals, str(HERE / "bare_matching.py")]
            runs |= {name: [*program, name] for name, most in LARGEST.items() if size <= most}
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in runs}
        for _ in range(repeat):
            for name, command in runs.items():
                found[name].append(child(*command, str(size)))
        for name, values in found.items():
            results.append({"matcher": name, "units": size, **medians(values)})
    return results


def stages(folders: tuple[Path, ...], repeat: int) -> list[dict[str, Any]]:
    """Stage times of whole runs (direct engine) on the paper's data sets, and memory above an idle interpreter."""
    from causalveil_replication.yuan2026.data import NAMES, load

    results = []
    for name in NAMES:
        if load(name, folders) is None:
            continue
        for level in ("label", "sample"):
            command = [sys.executable, str(HERE / "bench_matching.py"), "--child", f"{name}:{level}", str(repeat)]
            results.append({"data": name, "level": level, **child(*command, *map(str, folders))})
    return results


def in_memory(document: dict[str, Any], data: PublishedData, repeat: int) -> float:
    """Processor seconds of the method alone on rows in memory, fit to interval: what the paper's Table IV times."""
    from causalveil.flows.sequence.estimators import rehearse_effect
    from causalveil.schemas.estimators.matching import MatchingStudy
    from causalveil.tasks.privacy.rehearsal import RehearsalBudget
    from causalveil_replication.yuan2026.data import rows_of

    study = MatchingStudy.model_validate(document)
    rows = rows_of(study, data.frame, bytes(16))
    rehearse_effect(study, rows, RehearsalBudget(0))
    times = []
    for seed in range(repeat):
        start = time.process_time()
        rehearse_effect(study, rows, RehearsalBudget(seed))
        times.append(time.process_time() - start)
    return statistics.median(times)


def staged(name: str, level: str, repeat: int, folders: tuple[Path, ...]) -> dict[str, float]:
    """Run one study ``repeat`` times in this process after one run that compiles and imports."""
    import yaml

    from causalveil.flows.api import run_study
    from causalveil_replication.yuan2026.data import load
    from causalveil_replication.yuan2026.errors import penalty

    os.environ["CAUSALVEIL_HOME"] = tempfile.mkdtemp()
    data = load(name, folders)
    assert data is not None
    settings = {"name": "matching", "penalty": penalty(data.frame.height, len(data.covariates))}
    folder = Path(tempfile.mkdtemp())
    data.frame.write_parquet(folder / "part-0.parquet")
    document = data.document(settings, {"epsilon": "1", "delta": "0", "level": level})
    (folder / "study.yaml").write_text(yaml.safe_dump(document))
    contract = {"dataset": name.lower(), "data_class": "public", "caps": {level: {"epsilon": 100, "delta": 0}}}
    allowed = {"estimators": ["matching"], "guarantees": ["finite_sample"]}
    (folder / "dataset.yaml").write_text(yaml.safe_dump(contract | allowed))
    # The first run is of a small table: it imports and compiles everything, so what follows is the study's own.
    small = Path(tempfile.mkdtemp())
    data.frame.sample(300, seed=0).write_parquet(small / "part-0.parquet")
    for file in ("study.yaml", "dataset.yaml"):
        (small / file).write_text((folder / file).read_text())
    run_study(small / "study.yaml", engine="direct", simulate=0, out=small / "out")
    before = bare_matching.resident()
    bare_matching.forget_peak()
    whole, processor = [], []
    seconds: dict[str, list[float]] = {"prepare": [], "method": []}
    cpu: dict[str, list[float]] = {"prepare": [], "method": []}
    for attempt in range(repeat):
        marks: list[tuple[str, float, float]] = []
        start, used = time.perf_counter(), time.process_time()
        run_study(
            folder / "study.yaml",
            engine="direct",
            simulate=attempt,
            out=folder / f"out{attempt}",
            watch=lambda stage, marks=marks: marks.append((stage, time.perf_counter(), time.process_time())),
        )
        whole.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
        marks.append(("end", start + whole[-1], used + processor[-1]))
        spans = [(name, after[1] - at, after[2] - used_at) for (name, at, used_at), after in itertools.pairwise(marks)]
        for kept, position in ((seconds, 1), (cpu, 2)):
            kept["prepare"].append(sum(span[position] for span in spans if span[0] in PREPARATION))
            kept["method"].append(sum(span[position] for span in spans if span[0] not in PREPARATION))
    return {
        "method_in_memory_cpu": in_memory(document, data, repeat),
        "preparing_stages": statistics.median(seconds["prepare"]),
        "preparing_stages_cpu": statistics.median(cpu["prepare"]),
        "method_stages": statistics.median(seconds["method"]),
        "method_stages_cpu": statistics.median(cpu["method"]),
        "whole_run": statistics.median(whole),
        "whole_run_cpu": statistics.median(processor),
        "megabytes_above_idle": (bare_matching.peak() - before) / 2**20,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, nargs="*", default=[])
    parser.add_argument("--rivals", help="interpreter that has causallib and psmpy")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--stages", action="store_true")
    parser.add_argument("--data", type=Path, nargs="*", default=[])
    parser.add_argument("--study", type=int, nargs="*", default=[])
    parser.add_argument("--covariates", type=int, default=20)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        what, number, *folders = arguments.child
        matcher = {"tight": match_tightly, "adaptive": match_both_ways}.get(what)
        if matcher:
            print(json.dumps(bare_matching.measured(matcher, int(number))))
        else:
            print(json.dumps(staged(*what.split(":"), int(number), tuple(map(Path, folders)))))
        return
    folders = (*arguments.data, HERE.parents[1] / "data")
    document: dict[str, Any] = {"benchmark": "matching", "load": os.getloadavg()}
    if arguments.units:
        document["both ways, N = 5"] = matchers(arguments.units, arguments.rivals, arguments.repeat)
    if arguments.stages:
        document["seconds of stages, warm process, direct engine"] = stages(folders, 5 * arguments.repeat)
    if arguments.study:
        document["whole process"] = [
            whole("matching", units, arguments.covariates, arguments.repeat) for units in arguments.study
        ]
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
