"""A small direction study, as arrays and on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from causalveil.flows.run.estimators import rehearse
from causalveil.schemas.estimators.direction import DirectionStudy
from causalveil.tasks.data.enclave import MemoryEnclave, ranks
from causalveil.tasks.estimate.papers.direction.stages import DirectionFindings, TestRows
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Budget
from tests.studies import CONTRACT, RESOLVED, merge, write_study

DIRECTION: dict[str, Any] = {
    "kind": "direction",
    "name": "small-pair",
    "pair": {"x": {"name": "dose", "lower": 0, "upper": 2}, "y": {"name": "response", "lower": -5, "upper": 5}},
    "estimator": {"name": "direction", "scores": ["spearman", "kendall", "hsic", "iqr"], "protect": ["test"]},
    "privacy": {"epsilon": "1.0", "delta": "1e-6"},
}
RESOLVED_DIRECTION = DIRECTION | {key: RESOLVED[key] for key in ("data", "execution")}
DIRECTION_CONTRACT = CONTRACT | {"estimators": ["direction"], "unbounded_halves": ["train", "test"]}

# Every combination of halves, form of release and variant that a study may ask for, with scores that need delta.
OPTIONS: list[dict[str, Any]] = [
    {"protect": protect, "release": release, "variant": "ours"}
    for protect in (["test"], ["train"], ["train", "test"])
    for release in ("difference", "scores")
] + [{"protect": protect, "release": "scores", "variant": "paper"} for protect in (["test"], ["train"])]


def option_name(option: dict[str, Any]) -> str:
    """A name for a parametrised test."""
    return "-".join("+".join(part) if isinstance(part, list) else str(part) for part in option.values())


def make_direction(**changes: Any) -> DirectionStudy:
    """The small study; `epsilon`, `delta` and every setting of the estimator may stand at the top."""
    privacy = {key: changes.pop(key) for key in ("epsilon", "delta", "level") if key in changes}
    plain = {key: changes.pop(key) for key in ("data", "pair", "execution", "name") if key in changes}
    return DirectionStudy.model_validate(merge(RESOLVED_DIRECTION, plain | {"estimator": changes, "privacy": privacy}))


def cause_and_effect(n: int, seed: int = 0) -> FloatArray:
    """(x, y), shape (n, 2), in [-1, 1]: y is a curve of x with uniform noise."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, n)
    return np.column_stack([x, 1.2 * x**2 - 0.6 + 0.3 * random.uniform(-1, 1, n)])


def rows(pairs: FloatArray, seed: int = 0) -> TestRows:
    """Test rows with some order of ties."""
    return TestRows(pairs, np.random.default_rng(seed).permutation(len(pairs)))


def answered(study: DirectionStudy, train: FloatArray, test: TestRows, budget: Budget) -> DirectionFindings:
    """The whole method on rows at hand, n that train and m in the order of their hashes."""
    n, m = len(train), len(test.pairs)
    estimator = study.estimator.model_copy(update={"train_fraction": n / (n + m)})
    hashes = ranks(n + m)
    hashes[n:, 1] = test.ties
    enclave = MemoryEnclave([{"xy": np.concatenate([train, test.pairs]), "h": hashes}])
    found = rehearse(study.model_copy(update={"estimator": estimator}), enclave, budget)
    assert isinstance(found, DirectionFindings)
    return found


def doses(n: int, seed: int = 0) -> pl.DataFrame:
    """The same pair as a table, in the units of the small study."""
    pairs = cause_and_effect(n, seed)
    return pl.DataFrame({"person": np.arange(n) + 1000, "dose": pairs[:, 0] + 1, "response": 5 * pairs[:, 1]})


def write_direction(
    folder: Path,
    *,
    frame: pl.DataFrame | None = None,
    **changes: Any,
) -> Path:
    """As `write_study`, for the small pair."""
    return write_study(
        folder,
        frame=doses(400) if frame is None else frame,
        base=(DIRECTION, DIRECTION_CONTRACT),
        **changes,
    )
