"""An estimator's stages on files and on rows in memory give the same bits.

Same people in the same partitions, same key, same noise. A difference means that coverage studies and replications
measure something else than what a study releases.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.run.estimators import rehearse, rehearse_effect
from causalveil.schemas.limits import Code, in_order, limit
from causalveil.schemas.release import DirectionRelease, EffectRelease
from causalveil.schemas.studies import estimator_names
from causalveil.tasks.data.enclave import HashArray, MemoryEnclave, ranks
from causalveil.tasks.data.normalise import columns, encode, scaled_outcome
from causalveil.tasks.data.split import HASH_LABEL, ascending, keyed_hash
from causalveil.tasks.estimate.papers.aipw_asymptotic.stages import SEED_LABEL
from causalveil.tasks.estimate.papers.direction.stages import scaled
from causalveil.tasks.estimate.robustness import with_robustness
from causalveil.tasks.estimate.times.releases import followed
from causalveil.tasks.machine.arrays import IntArray
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.privacy.keys import key_of
from tests.golden_studies import ONE_EACH, made
from tests.studies import resolved
from tests.survival_help import patients, write_survival

SEED, RUN, MADE = 5, "twin", made()
EFFECTS = [
    name
    for name in ONE_EACH
    if not name.startswith(("direction", "protocol", "effect of times")) and "outcome" in MADE[name].study
]
DIRECTIONS = [name for name in ONE_EACH if name.startswith("direction")]


class Twin(NamedTuple):
    """A study's file, the study, and for each partition its people in the order of their hashes."""

    path: Path
    study: Any
    parts: list[tuple[pl.DataFrame, IntArray, HashArray]]


def twin(folder: Path, name: str) -> Twin:
    path = MADE[name].write(folder)
    key, parts = key_of(RUN, SEED).subkey(HASH_LABEL), []
    for file in sorted(folder.glob("*.parquet")):
        frame = pl.read_parquet(file)
        hashes = keyed_hash(frame["person"], key)
        order = ascending(hashes)
        parts.append((frame, order, hashes[order]))
    return Twin(path, resolved(path), parts)


def staged(twins: Twin, folder: Path) -> Any:
    return run_study(twins.path, out=folder / "out", run_id=RUN, simulate=SEED, engine="direct").release


def learners_seed() -> int:
    """What a run of record derives from its key."""
    return int.from_bytes(key_of(RUN, SEED).subkey(SEED_LABEL)[:4], "big")


@pytest.mark.parametrize("name", EFFECTS)
def test_effects_have_one_order(name: str, tmp_path: Path) -> None:
    twins = twin(tmp_path / "study", name)
    enclave = MemoryEnclave(
        [
            {
                "x": encode(twins.study, columns(twins.study, frame), order),
                "t": frame["treated"].cast(pl.UInt8).to_numpy()[order],
                "u": scaled_outcome(twins.study, frame)[order],
                "g": np.zeros(len(order), np.uint8),
                "h": hashes,
            }
            for frame, order, hashes in twins.parts
        ]
    )
    release = staged(twins, tmp_path)
    found = rehearse_effect(twins.study, enclave, RehearsalBudget(SEED), learners_seed())
    assert isinstance(release, EffectRelease)
    # A release adds what it says of every effect.
    found = replace(found, answers=with_robustness(twins.study, found, release.units))
    fields = found.fields(twins.study)
    fields["not_covered"] = in_order((*fields["not_covered"], limit(Code.within_groups)))
    assert {name: getattr(release, name) for name in fields} == fields


@pytest.mark.parametrize("name", DIRECTIONS)
def test_directions_have_one_order(name: str, tmp_path: Path) -> None:
    twins = twin(tmp_path / "study", name)
    pair = twins.study.pair
    enclave = MemoryEnclave(
        [
            {"xy": np.column_stack([scaled(one, frame[one.name])[order] for one in (pair.x, pair.y)]), "h": hashes}
            for frame, order, hashes in twins.parts
        ]
    )
    release, found = staged(twins, tmp_path), rehearse(twins.study, enclave, RehearsalBudget(SEED))
    assert isinstance(release, DirectionRelease)
    assert {name: getattr(release, name) for name in found.fields(twins.study)} == found.fields(twins.study)


def test_times_have_one_order(tmp_path: Path) -> None:
    path = write_survival(tmp_path / "study", frame=patients(900), partitions=3)
    study = resolved(path)
    frames = [pl.read_parquet(file) for file in sorted(path.parent.glob("*.parquet"))]
    parts = [followed(study.outcome, study.kinds, frame["days"], frame["status"]) for frame in frames]
    segments = []
    for frame, (time, kind) in zip(frames, parts, strict=True):
        rows = {"t": frame["treated"].cast(pl.UInt8).to_numpy(), "g": np.zeros(frame.height, np.uint8)}
        segments.append({**rows, "u": time, "k": kind, "h": ranks(frame.height)})
    enclave = MemoryEnclave(segments)
    release = run_study(path, out=tmp_path / "out", run_id=RUN, simulate=SEED, engine="direct").release
    found = rehearse(study, enclave, RehearsalBudget(SEED))
    assert isinstance(release, EffectRelease)
    # A release adds what it says of every effect.
    found = replace(found, answers=with_robustness(study, found, release.units))
    fields = found.fields(study)
    fields["not_covered"] = in_order((*fields["not_covered"], limit(Code.within_groups)))
    assert {name: getattr(release, name) for name in fields} == fields


def test_every_estimator_has_a_twin() -> None:
    assert {MADE[name].study["estimator"]["name"] for name in ONE_EACH} == set(estimator_names())


def test_other_noise_gives_another_release(tmp_path: Path) -> None:
    """The comparison can fail."""
    twins = twin(tmp_path / "study", "effect by difference, sample, delta 1e-6")
    one, other = (
        run_study(twins.path, out=tmp_path / str(seed), run_id=RUN, simulate=seed, engine="direct").release
        for seed in (SEED, SEED + 1)
    )
    assert isinstance(one, EffectRelease)
    assert isinstance(other, EffectRelease)
    assert one.estimate != other.estimate
