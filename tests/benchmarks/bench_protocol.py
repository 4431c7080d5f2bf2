"""A protocol of many questions beside one question: time and memory of the whole process, on admitted synthetic data.

    uv run python tests/benchmarks/bench_protocol.py --units 1000000 --partitions 8 --outcomes 20 --groups 8

Prints one JSON document: of either run the median seconds and peak megabytes, and the protocol's over the question's.
Both use twenty covariates and one thread. The rows of one partition take `partition_megabytes`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from bench_study import CLI, measure, medians

COVARIATES = 20


def write(folder: Path, units: int, partitions: int, outcomes: int, groups: int) -> None:
    """Partitions and contract."""
    import numpy as np
    import polars as pl
    import yaml

    random, size = np.random.default_rng(1), units // partitions
    for part in range(partitions):
        x = random.uniform(-1, 1, (size, COVARIATES))
        t = random.random(size) < 1 / (1 + np.exp(-x[:, 0]))
        columns: dict[str, Any] = {"person": np.arange(size) + part * size, "treated": t}
        columns |= {f"x{i:02d}": x[:, i] for i in range(COVARIATES)}
        for k in range(outcomes):
            columns[f"y{k:02d}"] = np.clip(5 + x[:, k % COVARIATES] + t + random.normal(0, 1, size), 0, 10)
        columns["region"] = random.integers(0, groups, size).astype(str)
        pl.DataFrame(columns).write_parquet(folder / f"part-{part:03d}.parquet")
    ranges = {f"x{i:02d}": {"lower": -1, "upper": 1} for i in range(COVARIATES)}
    ranges |= {f"y{k:02d}": {"lower": 0, "upper": 10} for k in range(outcomes)}
    contract = {
        **{"dataset": "many", "data_class": "synthetic", "ledger": None, "unit": "person", "public": []},
        "columns": {
            "treated": {"codes": {"control": False, "treated": True}},
            **ranges,
            "region": {"levels": [str(group) for group in range(groups)]},
        },
        **{"estimators": ["regression"], "guarantees": ["finite_sample"]},
        "caps": {"sample": {"epsilon": 1000, "delta": "1e-2"}},
    }
    (folder / "dataset.yaml").write_text(yaml.safe_dump(contract, sort_keys=False))


def study(folder: Path, name: str, asked: dict[str, Any]) -> Path:
    """A study file beside the data."""
    import yaml

    document = {
        **{"name": name, "treatment": "treated", "covariates": [f"x{i:02d}" for i in range(COVARIATES)]},
        "estimator": {"name": "regression"},
        "privacy": {"epsilon": 1.0, "delta": 1.0e-6},
        **asked,
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def main(units: int, partitions: int, outcomes: int, groups: int, repeats: int) -> dict[str, Any]:
    """Both runs in turn."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "data"
        folder.mkdir()
        environment = {**os.environ, "CAUSALVEIL_HOME": str(Path(place) / "home"), "OMP_NUM_THREADS": "1"}
        (Path(place) / "home").mkdir()
        (Path(place) / "home" / "site.toml").write_text('[execution]\nengine = "direct"\nworkers = 1\n')
        write(folder, units, partitions, outcomes, groups)
        rows = sum(file.stat().st_size for file in folder.glob("*.parquet")) / partitions / 2**20
        many = {
            "kind": "protocol",
            "outcomes": [{"name": f"y{k:02d}", **({} if k else {"role": "primary"})} for k in range(outcomes)],
            "subgroups": "region",
        }
        paths = {
            "one": study(folder, "one", {"kind": "effect", "outcome": "y00"}),
            "protocol": study(folder, "many", many),
        }
        subprocess.run([*CLI, "admit", str(folder)], env=environment, check=True, stdout=subprocess.DEVNULL)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in paths}
        for turn in range(repeats):
            for name, path in paths.items():
                out = Path(place) / f"{name}-{turn}"
                found[name].append(measure([*CLI, "run", str(path), "--out", str(out)], environment))
        medians_of = {name: medians(runs) for name, runs in found.items()}
        ratios = {key: round(medians_of["protocol"][key] / value, 2) for key, value in medians_of["one"].items()}
        return {**medians_of, "ratio": ratios, "partition_megabytes": round(rows, 1)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--outcomes", type=int, default=20)
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    print(json.dumps(main(**vars(parser.parse_args())), indent=2))
