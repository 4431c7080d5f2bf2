"""Admission of synthetic rows by this code and, in turn, by another checkout of it: processor seconds and peak memory.

    uv run python tests/benchmarks/bench_admission.py --units 10000000 --before ../causalveil-before

Both read the same rows, each by `causalveil admit` in a process of its own; one run of each goes before and is not
counted. `cpu_ratio` is the median of pairs, `least_cpu_ratio` the least by the least. Modules are compiled beforehand.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from bench_study import CLI, HERE, measure, medians, ratios, simulated

ROOT = HERE.parents[1]


def paired(units: int, covariates: int, before: Path, repeat: int) -> dict[str, Any]:
    """Admit the rows by each checkout in turn."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "CAUSALVEIL_HOME": f"{folder}/home"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        data = str(simulated(Path(folder) / "study", units, covariates, "ipw", environment).parent)
        sides: dict[Path, list[dict[str, float]]] = {ROOT: [], before: []}
        for attempt in range(repeat + 1):
            for tree, taken in sides.items():
                tree_of = {**environment, "PYTHONPATH": str(tree.resolve() / "src")}
                found = measure([*CLI, "admit", data], tree_of)
                taken.extend([found] if attempt else [])
        now, then = sides.values()
        return {
            "units": units,
            "covariates": covariates,
            **{f"now_{key}": value for key, value in medians(now).items()},
            **{f"before_{key}": value for key, value in medians(then).items()},
            **ratios("", now, then),
        }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--covariates", type=int, default=20)
    parser.add_argument("--before", type=Path, required=True, help="a checkout of the code to compare with")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    results = [paired(units, arguments.covariates, arguments.before, arguments.repeat) for units in arguments.units]
    print(json.dumps({"benchmark": "admission, in turn", "load": os.getloadavg(), "results": results}, indent=2))


if __name__ == "__main__":
    main()
