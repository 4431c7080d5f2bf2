"""A small study on disk, to be run, broken and killed by tests."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch
from zlib import crc32

import numpy as np
import polars as pl
import pytest
import yaml
from pydantic import BaseModel

from causalveil.flows.run import study as of_run
from causalveil.schemas.asked.resolve import resolve
from causalveil.schemas.asked.study_file import parse_study_file
from causalveil.schemas.contract import Contract, parse_contract
from causalveil.schemas.studies import STUDIES, parse_study
from causalveil.schemas.study import PrivacyRequest
from causalveil.tasks.privacy.noise import SeededNoise

STUDY: dict[str, Any] = {
    "kind": "effect",
    "name": "small",
    "treatment": "treated",
    "outcome": {"name": "score", "lower": 0, "upper": 10},
    "covariates": {"age": {"lower": 20, "upper": 60}, "group": {"levels": ["a", "b", "c"]}},
    "estimand": "ATE",
    "estimator": {"name": "ipw", "penalty": 0.1},
    "privacy": {"epsilon": "1.0", "delta": "1e-6"},
}

# The same in full, as the contract completes it.
RESOLVED: dict[str, Any] = STUDY | {
    "data": {"path": ".", "unit": "person"},
    "execution": {"engine": "direct", "workers": 1},
}

CONTRACT: dict[str, Any] = {
    "dataset": "small",
    "data_class": "synthetic",
    "ledger": None,
    "unit": "person",
    "columns": {
        "treated": {"codes": {"control": 0, "treated": 1}},
        "score": {"lower": 0, "upper": 10},
        "age": {"lower": 20, "upper": 60},
        "group": {"levels": ["a", "b", "c"]},
    },
    "public": ["treated", "age", "group"],
    "caps": {
        "sample": {"epsilon": 10, "delta": "1e-4"},
        # Wide, since runs at level sample spend these as well.
        "label": {"epsilon": 1000, "delta": "1e-2"},
        "training_units": {"epsilon": 1000, "delta": "1e-2"},
    },
    "estimators": ["ipw"],
    "guarantees": ["finite_sample"],
    "accounting": "basic",
}


# A study that leaves all that it can to the contract.
ASKED: dict[str, Any] = {
    "kind": "effect",
    "name": "small",
    "treatment": "treated",
    "outcome": {"name": "score"},
    "covariates": ["age"],
    "estimator": {"name": "regression"},
    "privacy": {"epsilon": "1", "delta": "1e-6"},
}


def owned(changes: dict[str, Any]) -> Contract:
    """The small contract with changes, for every estimator."""
    return parse_contract(yaml.safe_dump(merge(merge(CONTRACT, {"estimators": ...}), changes)), "dataset.yaml")


def completed(changes: dict[str, Any], contract: Contract) -> Any:
    """`ASKED` with other values of some keys, as a contract completes it."""
    return resolve(parse_study_file(ASKED | changes), contract)


class KnownNoise(SeededNoise):
    """Noise of a seed in a release that says that it is the system's."""

    name = "operating_system"  # type: ignore[assignment]


def known_noise(name: str) -> Any:
    """Within it, runs of this process draw noise of a seed, by a name: what a test says of a release hangs on no draw.

    Tests of the draws themselves, of the ledger and of kills have the system's.
    """
    return patch.object(of_run, "SecureNoise", partial(KnownNoise, crc32(name.encode())))


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


def lifted(estimator: type[BaseModel], changes: dict[str, Any]) -> dict[str, Any]:
    """Changes of which keys of privacy and of the estimator may stand at the top, put where a study has them."""
    homes = {"privacy": set(PrivacyRequest.model_fields), "estimator": {*estimator.model_fields} - {"name"}}
    for home, keys in homes.items():
        own = {key: changes.pop(key) for key in keys & changes.keys()}
        changes[home] = own | changes.get(home, {})
    return changes


def made(name: str, p: int | None = None, **changes: Any) -> Any:
    """A study in full by an estimator of effects, of `p` numbers in [-1, 1] where told; see :func:`lifted`."""
    base = {key: value for key, value in RESOLVED.items() if key != "estimator"}
    if p is not None:
        base["covariates"] = {f"x{i:02d}": {"lower": -1, "upper": 1} for i in range(p)}
    settings: Any = STUDIES["effect"][name].model_fields["estimator"].annotation
    return parse_study(merge(base | {"estimator": {"name": name}}, lifted(settings, changes)))


def declared(study: dict[str, Any]) -> dict[str, Any]:
    """The columns of a study that declares them itself, as a contract would."""
    if study["kind"] == "direction":
        numbers = {one["name"]: one for one in study["pair"].values()}
    else:
        outcome = study.get("outcome")
        numbers = {outcome["name"]: outcome} if isinstance(outcome, dict) and "name" in outcome else {}
        numbers |= {name: one for name, one in (study.get("covariates") or {}).items() if isinstance(one, dict)}
    keep = ("lower", "upper", "levels")
    columns = {name: {key: one[key] for key in keep if key in one} for name, one in numbers.items()}
    if isinstance(study.get("treatment"), str):
        columns[study["treatment"]] = {"codes": {"control": 0, "treated": 1}}
    return {name: column for name, column in columns.items() if column}


def write_study(
    folder: Path,
    *,
    frame: pl.DataFrame | None = None,
    partitions: int = 2,
    study: dict[str, Any] | None = None,
    contract: dict[str, Any] | None = None,
    base: tuple[dict[str, Any], dict[str, Any]] = (STUDY, CONTRACT),
) -> Path:
    """Write `base` with changes (study.yaml, dataset.yaml) and partitions below `folder`; return the study's path.

    Columns that the contract of `base` does not declare are declared as the study of `base` has them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    frame = people(400) if frame is None else frame
    size = -(-frame.height // max(partitions, 1))
    for index in range(partitions):
        frame.slice(index * size, size).write_parquet(folder / f"part-{index}.parquet")
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(merge(base[0], study or {}), sort_keys=False))
    changes = contract or {}
    # A contract declares what is there: an owner could not admit anything else.
    asked = declared(base[0])
    columns = {name: one for name, one in (asked | base[1]["columns"]).items() if name in {*frame.columns, *asked}}
    owner = {**base[1], "columns": columns, "public": [name for name in base[1]["public"] if name in columns]}
    (folder / "dataset.yaml").write_text(yaml.safe_dump(merge(owner, changes), sort_keys=False))
    return path


def resolved(path: Path) -> Any:
    """The study at `path` in full, as a run has it."""
    from causalveil.flows.run.declare import load

    return load(path).study


def command(*words: object) -> int:
    """Give the command line some words; return its exit code."""
    from causalveil.flows.cli.main import main

    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def refused(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Give the command line something that it refuses: its exit code, its one line, and all that it printed."""
    from causalveil.flows.cli.main import main

    with pytest.raises(SystemExit) as ended:
        main(list(words))
    shown = capfd.readouterr()
    told = [line for line in shown.err.splitlines() if line.startswith("causalveil: ")]
    assert len(told) == 1, shown.err
    return int(str(ended.value.code)), told[0], shown.out + shown.err


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the models that an annotation is made of, such as those of a union's branches."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]
