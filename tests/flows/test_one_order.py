"""An estimator's stages on files and on rows in memory give the same bits.

Same people in the same partitions, same key, same noise. A difference means that coverage studies and replications
measure something else than what a study releases.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.sequence.estimators import rehearse, rehearse_effect
from causalveil.schemas.limits import Code, in_order, limit
from causalveil.schemas.release import DirectionRelease, EffectRelease
from causalveil.schemas.studies import estimator_names
from causalveil.tasks.aipw_asymptotic.stages import SEED_LABEL
from causalveil.tasks.direction.stages import scaled
from causalveil.tasks.enclave.enclave import HashArray, MemoryEnclave, ranks
from causalveil.tasks.enclave.normalise import columns, encode, scaled_outcome
from causalveil.tasks.enclave.unit_hash import HASH_LABEL, ascending, keyed_hash
from causalveil.tasks.machine.arrays import IntArray
from causalveil.tasks.privacy.keys import key_of
from causalveil.tasks.privacy.rehearsal import RehearsalBudget
from causalveil.tasks.survival.stages import followed
from tests.studies import STUDY, merge, people, resolved, write_study
from tests.survival_help import patients, write_survival

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

# What each study changes of the small study.
EFFECTS: dict[str, dict[str, Any]] = {
    "ipw": {},
    "ipw training_units": {"privacy": {"level": "training_units"}},
    "ipw Horvitz-Thompson": {"estimator": {"weighting": "horvitz_thompson"}},
    "ipw label": {"privacy": {"level": "label"}},
    "regression": {"estimator": {"name": "regression", "penalty": ...}, "privacy": {"epsilon": "9"}},
    "regression without delta": {
        "estimator": {"name": "regression", "penalty": ...},
        "privacy": {"epsilon": "90", "delta": 0},
    },
    "regression of lines": {"estimator": {"name": "regression", "penalty": ...}, "privacy": {"epsilon": "0.2"}},
    "balancing": {"estimator": {"name": "balancing", "penalty": ...}, "privacy": {"delta": 0, "level": "label"}},
    "difference": {"estimator": {"name": "difference_in_means", "penalty": ...}},
    "aipw": {"estimator": {"name": "aipw", "penalty": ..., "propensity": {"known": 0.5}}},
    "aipw with slopes": {
        "estimator": {"name": "aipw", "penalty": ..., "folds": 3, "propensity": {"known": 0.5}},
        "privacy": {"epsilon": "9"},
    },
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
    """A study's file, the study, and for each partition its people in the order of their hashes."""

    path: Path
    study: Any
    parts: list[tuple[pl.DataFrame, IntArray, HashArray]]


def twin(folder: Path, changes: dict[str, Any]) -> Twin:
    document = merge(STUDY, changes)
    caps = {level: {"epsilon": 1000, "delta": "1e-2"} for level in ("sample", "label", "training_units")}
    contract = {
        "estimators": [document["estimator"]["name"]],
        "guarantees": ["finite_sample", "asymptotic"],
        "caps": caps,
        "unbounded_halves": ["train", "test"],
    }
    path = write_study(folder, frame=PEOPLE, partitions=3, study=changes, contract=contract)
    key, parts = key_of(RUN, SEED).subkey(HASH_LABEL), []
    for file in sorted(folder.glob("*.parquet")):
        frame = pl.read_parquet(file)
        hashes = keyed_hash(frame["person"], key)
        order = ascending(hashes)
        parts.append((frame, order, hashes[order]))
    return Twin(path, resolved(path), parts)


def staged(made: Twin, folder: Path) -> Any:
    return run_study(made.path, out=folder / "out", run_id=RUN, simulate=SEED, engine="direct").release


def learners_seed() -> int:
    """What a run of record derives from its key."""
    return int.from_bytes(key_of(RUN, SEED).subkey(SEED_LABEL)[:4], "big")


@pytest.mark.parametrize("name", EFFECTS)
def test_effects_have_one_order(name: str, tmp_path: Path) -> None:
    made = twin(tmp_path, EFFECTS[name])
    enclave = MemoryEnclave(
        [
            {
                "x": encode(made.study, columns(made.study, frame), order),
                "t": frame["treated"].cast(pl.UInt8).to_numpy()[order],
                "u": scaled_outcome(made.study, frame["score"])[order],
                "h": hashes,
            }
            for frame, order, hashes in made.parts
        ]
    )
    release = staged(made, tmp_path)
    found = rehearse_effect(made.study, enclave, RehearsalBudget(SEED), learners_seed())
    assert isinstance(release, EffectRelease)
    fields = found.fields(made.study)
    # A release adds what it says of every effect.
    if fields["not_covered"]:
        fields["not_covered"] = in_order((*fields["not_covered"], limit(Code.alike_within_groups)))
    assert {name: getattr(release, name) for name in fields} == fields


@pytest.mark.parametrize("name", DIRECTIONS)
def test_directions_have_one_order(name: str, tmp_path: Path) -> None:
    made = twin(tmp_path, merge(PAIR, DIRECTIONS[name]))
    pair = made.study.pair
    enclave = MemoryEnclave(
        [
            {"xy": np.column_stack([scaled(one, frame[one.name])[order] for one in (pair.x, pair.y)]), "h": hashes}
            for frame, order, hashes in made.parts
        ]
    )
    release, found = staged(made, tmp_path), rehearse(made.study, enclave, RehearsalBudget(SEED))
    assert isinstance(release, DirectionRelease)
    assert {name: getattr(release, name) for name in found.fields(made.study)} == found.fields(made.study)


def test_times_have_one_order(tmp_path: Path) -> None:
    path = write_survival(tmp_path / "study", frame=patients(900), partitions=3)
    study = resolved(path)
    frames = [pl.read_parquet(file) for file in sorted(path.parent.glob("*.parquet"))]
    parts = [followed(study.outcome, study.table.kinds, frame["days"], frame["status"]) for frame in frames]
    segments = []
    for frame, (time, kind) in zip(frames, parts, strict=True):
        rows = {"t": frame["treated"].cast(pl.UInt8).to_numpy(), "g": np.zeros(frame.height, np.uint8)}
        segments.append({**rows, "u": time, "k": kind, "h": ranks(frame.height)})
    enclave = MemoryEnclave(segments)
    release = run_study(path, out=tmp_path / "out", run_id=RUN, simulate=SEED, engine="direct").release
    found = rehearse(study, enclave, RehearsalBudget(SEED))
    assert isinstance(release, EffectRelease)
    fields = found.fields(study)
    # A release adds what it says of every effect.
    fields["not_covered"] = in_order((*fields["not_covered"], limit(Code.alike_within_groups)))
    assert {name: getattr(release, name) for name in fields} == fields


def test_every_estimator_has_a_twin() -> None:
    asked = {merge(STUDY, changes)["estimator"]["name"] for changes in EFFECTS.values()} | {"direction", "survival"}
    assert asked == set(estimator_names())


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
