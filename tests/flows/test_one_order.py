"""The order of an estimator's stages on files and the same estimator on rows in memory give the same bits.

Same people in one partition, same key, same noise: where rows are cut, float sums round. A difference means that
coverage studies and replications measure something else than what a study releases.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.estimators.matching import rehearse
from causalveil.flows.papers.schroeder2025.runs import _cut, _finite
from causalveil.schemas.release import DirectionRelease, EffectRelease
from causalveil.schemas.studies import load_study
from causalveil.tasks.aipw_asymptotic import stages as aipw_asymptotic_stages
from causalveil.tasks.direction import stages as direction_stages
from causalveil.tasks.direction.pairs import TestRows, scaled
from causalveil.tasks.enclave.normalise import columns, encode, scaled_outcome
from causalveil.tasks.enclave.rows import HashArray, Rows
from causalveil.tasks.enclave.sizes import sizes_of
from causalveil.tasks.enclave.split import training_size
from causalveil.tasks.enclave.unit_hash import ascending, keyed_hash
from causalveil.tasks.enclave.validate import HASH_LABEL
from causalveil.tasks.privacy.keys import RunKey, key_of
from causalveil.tasks.privacy.rehearsal import RehearsalBudget
from causalveil.tasks.regression import stages as regression
from tests.studies import STUDY, merge, people, write_study

SEED, RUN, PEOPLE = 5, "twin", people(900)
PAIR: dict[str, Any] = {
    "kind": "direction",
    "treatment": ...,
    "outcome": ...,
    "covariates": ...,
    "estimand": ...,
    "pair": {"x": {"name": "age", "lower": 20, "upper": 60}, "y": {"name": "score", "lower": 0, "upper": 10}},
    "estimator": {"name": "direction", "penalty": ...},
}
ASYMPTOTIC = {"name": "aipw", "penalty": ..., "guarantee": "asymptotic"}
NETWORKS = {"outcome_model": {"model": "neural_network"}, "propensity": {"model": "neural_network"}}

# What each study changes of the small study, and which spelling in memory is its twin.
EFFECTS: dict[str, dict[str, Any]] = {
    "ipw": {},
    "ipw training_units": {"privacy": {"level": "training_units"}},
    "ipw Horvitz-Thompson": {"estimator": {"weighting": "horvitz_thompson"}},
    "difference": {"estimator": {"name": "difference_in_means", "penalty": ...}},
    "aipw": {"estimator": {"name": "aipw", "penalty": ...}},
    "aipw with every model": {
        "estimator": {"name": "aipw", "penalty": ..., "propensity": {"penalty": 0.1}},
        "privacy": {"epsilon": "9"},
    },
    "regression": {"estimator": {"name": "regression", "penalty": ...}, "privacy": {"epsilon": "9"}},
    "regression without delta": {
        "estimator": {"name": "regression", "penalty": ..., "basis": "pairs"},
        "privacy": {"epsilon": "90", "delta": 0},
    },
    "regression unadjusted": {"estimator": {"name": "regression", "penalty": ...}, "privacy": {"epsilon": "0.2"}},
    "matching": {"estimator": {"name": "matching"}, "privacy": {"delta": 0}},
    "matching label": {"estimator": {"name": "matching"}, "privacy": {"delta": 0, "level": "label"}},
    "asymptotic": {"estimator": {**ASYMPTOTIC, "outcome_model": {"model": "kernel_ridge"}}},
    "networks": {"estimator": {**ASYMPTOTIC, **NETWORKS}},
}
DIRECTIONS: dict[str, dict[str, Any]] = {
    "ranks": {"estimator": {"scores": ["spearman", "kendall"], "protect": ["train", "test"]}},
    "dependence": {
        "estimator": {"scores": ["hsic"], "protect": ["test"], "release": "scores"},
        "privacy": {"delta": 0},
    },
    "spread": {"estimator": {"scores": ["iqr"], "protect": ["test"]}},
}


class Twin(NamedTuple):
    """A study's file, and its people in the order of their hashes."""

    path: Path
    order: np.ndarray
    hashes: HashArray


def key() -> RunKey:
    return key_of(RUN, SEED)


def twin(folder: Path, changes: dict[str, Any]) -> Twin:
    document = merge(STUDY, changes)
    caps = {level: {"epsilon": 1000, "delta": "1e-2"} for level in ("sample", "label", "training_units")}
    policy = {
        "estimators": [document["estimator"]["name"]],
        "guarantees": ["finite_sample", "asymptotic"],
        "caps": caps,
        "unbounded_halves": ["train", "test"],
    }
    path = write_study(folder, frame=PEOPLE, partitions=1, study=changes, policy=policy)
    hashes = keyed_hash(PEOPLE["person"], key().subkey(HASH_LABEL))
    order = ascending(hashes)
    return Twin(path, order, hashes[order])


def staged(made: Twin, folder: Path) -> Any:
    return run_study(made.path, out=folder / "out", run_id=RUN, simulate=SEED, engine="direct").release


def in_memory(study: Any, rows: Rows) -> Any:
    budget = RehearsalBudget(SEED)
    if study.estimator.name == "matching":
        return rehearse(study, rows, budget)
    if study.estimator.name == "regression":
        return regression.analyse(study, sizes_of(study, len(rows)), rows, budget)
    if study.guarantee == "asymptotic":
        drawn = int.from_bytes(key().subkey(aipw_asymptotic_stages.SEED_LABEL)[:4], "big")
        return aipw_asymptotic_stages.analyse(study, _cut(rows, study.estimator.folds), budget, drawn)
    return _finite(study, rows, budget)


@pytest.mark.parametrize("name", EFFECTS)
def test_effects_have_one_order(name: str, tmp_path: Path) -> None:
    made = twin(tmp_path, EFFECTS[name])
    study: Any = load_study(made.path)
    rows = Rows(
        encode(study, columns(study, PEOPLE), made.order),
        PEOPLE["treated"].cast(pl.UInt8).to_numpy()[made.order],
        scaled_outcome(study, PEOPLE["score"])[made.order],
    )
    release, found = staged(made, tmp_path), in_memory(study, rows)
    assert isinstance(release, EffectRelease)
    assert (release.estimate, release.interval) == (found.estimate, found.interval)
    details = dict(release.details)
    if study.estimator.name in ("ipw", "matching"):
        # The flow's last stage adds the released coefficients.
        details = {name: value for name, value in details.items() if name in found.details}
    assert details == dict(found.details)


@pytest.mark.parametrize("name", DIRECTIONS)
def test_directions_have_one_order(name: str, tmp_path: Path) -> None:
    changes = merge(PAIR, DIRECTIONS[name])
    made = twin(tmp_path, changes)
    study: Any = load_study(made.path)
    pairs = np.column_stack([scaled(one, PEOPLE[one.name])[made.order] for one in (study.pair.x, study.pair.y)])
    cut = training_size(len(pairs), study.training_share)
    ties = np.argsort(np.lexsort((made.hashes[cut:, 0], made.hashes[cut:, 1])))
    found = direction_stages.answer(study, pairs[:cut], TestRows(pairs[cut:], ties), RehearsalBudget(SEED))
    release = staged(made, tmp_path)
    assert isinstance(release, DirectionRelease)
    assert {name: getattr(release, name) for name in found.fields(study)} == found.fields(study)


def test_other_noise_gives_another_release(tmp_path: Path) -> None:
    """The comparison can fail."""
    made = twin(tmp_path, EFFECTS["difference"])
    one, other = (
        run_study(made.path, out=tmp_path / str(seed), run_id=RUN, simulate=seed, engine="direct").release
        for seed in (SEED, SEED + 1)
    )
    assert isinstance(one, EffectRelease)
    assert isinstance(other, EffectRelease)
    assert one.estimate != other.estimate
