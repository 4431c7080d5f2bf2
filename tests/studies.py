"""A small study on disk, to be run, broken and killed by tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

STUDY: dict[str, Any] = {
    "kind": "effect",
    "name": "small",
    "data": {"path": ".", "unit": "person"},
    "treatment": "treated",
    "outcome": {"name": "score", "lower": 0, "upper": 10},
    "covariates": {"age": {"lower": 20, "upper": 60}, "group": {"levels": ["a", "b", "c"]}},
    "estimand": "ATE",
    "estimator": {"name": "ipw", "penalty": 0.1},
    "privacy": {"epsilon": "1.0", "delta": "1e-6"},
    "execution": {"engine": "direct", "workers": 1},
}

POLICY: dict[str, Any] = {
    "dataset": "small",
    "data_class": "synthetic",
    "ledger": None,
    "caps": {
        "sample": {"epsilon": 10, "delta": "1e-4"},
        "label": {"epsilon": 10, "delta": "1e-4"},
        "training_units": {"epsilon": 10, "delta": "1e-4"},
    },
    "estimators": ["ipw"],
    "guarantees": ["finite_sample"],
    "units_span_blocks": False,
}


def people(n: int, seed: int = 0) -> pl.DataFrame:
    """`n` people with a treatment that depends on age and an effect of 2 on a score from 0 to 10."""
    random = np.random.default_rng(seed)
    age = random.integers(20, 61, n)
    group = random.choice(["a", "b", "c"], n)
    treated = random.random(n) < 1 / (1 + np.exp(-(age - 40) / 20))
    score = np.clip(3 + (age - 40) / 20 + 2 * treated + random.normal(0, 1, n), 0, 10)
    return pl.DataFrame(
        {"person": np.arange(n) + 1000, "treated": treated, "score": score, "age": age.astype(float), "group": group}
    )


def merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with `changes` laid over it, mapping by mapping; a value of `...` removes the key."""
    result = dict(base)
    for key, value in changes.items():
        if value is ...:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merge(result[key], value)
        else:
            result[key] = value
    return result


def write_study(
    folder: Path,
    *,
    frame: pl.DataFrame | None = None,
    partitions: int = 2,
    study: dict[str, Any] | None = None,
    policy: dict[str, Any] | None = None,
    base: tuple[dict[str, Any], dict[str, Any]] = (STUDY, POLICY),
) -> Path:
    """Write `base` with changes (study.yaml, policy.yaml) and partitions below `folder`; return the study's path."""
    folder.mkdir(parents=True, exist_ok=True)
    frame = people(400) if frame is None else frame
    size = -(-frame.height // max(partitions, 1))
    for index in range(partitions):
        frame.slice(index * size, size).write_parquet(folder / f"part-{index}.parquet")
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(merge(base[0], study or {}), sort_keys=False))
    (folder / "policy.yaml").write_text(yaml.safe_dump(merge(base[1], policy or {}), sort_keys=False))
    return path


def refused(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Give the command line something that it refuses: its exit code, its one line, and all that it printed."""
    from causalveil.flows.cli.main import main

    with pytest.raises(SystemExit) as ended:
        main(list(words))
    shown = capfd.readouterr()
    told = [line for line in shown.err.splitlines() if line.startswith("causalveil: ")]
    assert len(told) == 1, shown.err
    return int(str(ended.value.code)), told[0], shown.out + shown.err
