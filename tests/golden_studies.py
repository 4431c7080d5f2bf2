"""The studies of the golden file: all that are shipped, and a made one for each way to ask.

Each is a function of a folder and a seed: it runs the study with simulated noise and returns what was released. How a
study is written and run stands here alone; ``golden.py`` reads what came out.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from causalveil.flows.api import load_study, run_study
from causalveil.flows.cli.main import main
from causalveil.flows.run.pooling import load_round, pool_accepted
from causalveil.schemas.release import Release
from causalveil.schemas.sites.pooled import PooledRelease, Series
from causalveil.schemas.sites.round import Bundle, SignedTerms, Statement
from causalveil.schemas.studies import estimator_names
from causalveil.tasks.sites.accept import Accepted
from causalveil.tasks.sites.series import series_of
from tests.direction_help import DIRECTION, DIRECTION_CONTRACT, doses
from tests.studies import CONTRACT, STUDY, merge, people
from tests.survival_help import ADJUSTED, BESIDE, MANY, SITES, cared_for_at_sites
from tests.survival_help import OWNER as TIMES_OWNER
from tests.survival_help import STUDY as TIMES

PEOPLE = 1_000
ROOT = Path(__file__).parents[1]
Found: TypeAlias = Release | PooledRelease | Series
Case: TypeAlias = Callable[[Path, int], Found]
HOSPITALS = ("north", "coast", "valley")

CAPS = {level: {"epsilon": 1000, "delta": "1e-2"} for level in ("sample", "label", "training_units")}
OWNER: dict[str, Any] = {
    "columns": {
        "passed": {"codes": {"no": 0, "yes": 1}},
        "before": {"lower": 0, "upper": 10},
        "drug": {"levels": ["none", "low", "high"]},
    },
    "public": ["treated", "drug", "age", "group"],
    "caps": CAPS,
    "estimators": list(estimator_names()),
    "guarantees": ["finite_sample", "asymptotic"],
    "unbounded_halves": ["train", "test"],
}
# How each estimator of an effect is asked for.
ESTIMATORS: dict[str, dict[str, Any]] = {
    "regression": {"name": "regression"},
    "aipw": {"name": "aipw", "guarantee": "asymptotic"},
    "ipw": {"name": "ipw", "penalty": 0.1},
    "matching": {"name": "matching"},
    "balancing": {"name": "balancing"},
    "difference": {"name": "difference_in_means"},
    "auto": {"name": "auto"},
}
TABLED = ("regression", "ipw", "matching", "balancing", "difference", "auto")
LEVELS, DELTAS = ("sample", "label", "training_units"), ("1e-6", "0")
TWO = [{"name": "score", "role": "primary", "importance": 2}, {"name": "before", "role": "negative_control"}]
WHERE = [{"column": "age", "op": ">=", "value": 30}]
GATES = {"balance": 0.1, "overlap": 0.2, "failed": "mark"}
TERMS = ["age^2", "group:age", "ns(age, 3)", "age > 40"]
GROUPS = {"subgroups": "group", "covariates": {"group": ...}}
LOW = {"privacy": {"epsilon": "0.2"}}
# The estimator of a made study, and what is changed in it.
EFFECTS: dict[str, tuple[str, dict[str, Any]]] = {
    "regression, trial": ("regression", {"estimator": {"trial": True}}),
    "regression, terms": ("regression", {"terms": TERMS}),
    "regression, ATT": ("regression", {"estimand": "ATT"}),
    "regression, ATC": ("regression", {"estimand": "ATC"}),
    "regression, epsilon .2": ("regression", LOW),
    "regression, where": ("regression", {"where": WHERE}),
    "regression, subgroups": ("regression", GROUPS),
    "ipw, Horvitz-Thompson": ("ipw", {"estimator": {"weighting": "horvitz_thompson"}}),
    "ipw, ATT": ("ipw", {"estimand": "ATT"}),
    "matching, ATT": ("matching", {"estimand": "ATT", "privacy": {"level": "label", "delta": 0}}),
    "balancing, ATT": ("balancing", {"estimand": "ATT", "privacy": {"level": "label", "delta": 0}}),
    "balancing, no allowance": (
        "balancing",
        {"estimator": {"trial": True}, "privacy": {"level": "label", "delta": 0}},
    ),
    "difference, trial": ("difference", {"estimator": {"trial": True}}),
    "difference, epsilon .2": ("difference", LOW),
    "difference, where": ("difference", {"estimator": {"trial": True}, "where": WHERE}),
}
TABLES: dict[str, tuple[str, dict[str, Any]]] = {
    "regression, groups, terms": ("regression", {**GROUPS, "terms": ["age^2"]}),
    "regression, groups, gates": ("regression", {**GROUPS, "gates": GATES}),
    "regression, arms": ("regression", {"treatment": "drug", "arms": {"reference": "none"}}),
    "regression, ATT": ("regression", {"estimand": "ATT"}),
    "regression, epsilon .2": ("regression", LOW),
    "regression, where": ("regression", {"where": WHERE}),
    "regression, trial": ("regression", {"estimator": {"trial": True}}),
    "difference, groups": ("difference", GROUPS),
    "difference, arms, ratios": (
        "difference",
        {
            "treatment": "drug",
            "arms": {"reference": "none"},
            "outcomes": [{"name": "passed", "role": "primary"}],
            "measure": ["difference", "ratio"],
            "estimator": {"trial": True},
        },
    ),
    "balancing, groups, arms": (
        "balancing",
        {"treatment": "drug", "arms": {"reference": "none"}, **GROUPS, "privacy": {"level": "label"}},
    ),
    "matching, groups": ("matching", {**GROUPS, "privacy": {"level": "label", "delta": 0}}),
}
# Ways to ask that move no number of their own kind in the golden file, and how many draws each declares.
EVEN = dict.fromkeys(("scales", "lines", "screen", "refit", "scores"), "0.2")
PAPER = {"estimator": {"variant": "paper", "weighting": "horvitz_thompson"}}
OF_MATCHING = {"weights": "0.1", "scores": "0.3", "treatment": "0.3", "outcome": "0.3"}
FURTHER: dict[str, tuple[str, dict[str, Any], int]] = {
    "ipw, paper": ("ipw", {**PAPER, "privacy": {"epsilon": "0.7"}}, 2),
    "ipw, paper, ATC, training units": (
        "ipw",
        {**PAPER, "estimand": "ATC", "privacy": {"epsilon": "0.7", "level": "training_units"}},
        1,
    ),
    "ipw, Horvitz-Thompson, ATT, no delta": (
        "ipw",
        {"estimator": PAPER["estimator"] | {"variant": "ours"}, "estimand": "ATT", "privacy": {"delta": 0}},
        2,
    ),
    "regression, curves": ("regression", {"privacy": {"epsilon": "20"}}, 5),
    "regression, no curves": ("regression", {"estimator": {"curves": "none"}, "privacy": {"epsilon": "20"}}, 3),
    "regression, parts": ("regression", {"estimator": {"parts": EVEN}, "privacy": {"epsilon": "0.3"}}, 5),
    "regression, curves, no delta": ("regression", {"privacy": {"epsilon": "80", "delta": 0}}, 5),
    "balancing, more allowance": (
        "balancing",
        {"estimator": {"allowance": 2}, "privacy": {"epsilon": "0.3", "level": "label"}},
        1,
    ),
    "matching, paper": ("matching", {"estimator": {"variant": "paper"}, "privacy": {"delta": 0}}, 4),
    "matching, paper, label": (
        "matching",
        {"estimator": {"variant": "paper"}, "privacy": {"delta": 0, "level": "label"}},
        1,
    ),
    "matching, cap": (
        "matching",
        {"estimator": {"cap": 3, "ratio": 2}, "privacy": {"delta": 0, "level": "label"}},
        1,
    ),
    "matching, caliper": ("matching", {"estimator": {"caliper": 5.0}, "privacy": {"delta": 0}}, 4),
    "matching, corrected": ("matching", {"estimator": {"correct_attenuation": True}, "privacy": {"delta": 0}}, 4),
    "matching, shares": ("matching", {"estimator": {"budget_shares": OF_MATCHING}, "privacy": {"delta": 0}}, 4),
}
NETWORK = {"model": "neural_network"}
FURTHER["networks"] = ("aipw", {"estimator": {"outcome_model": NETWORK, "propensity": dict(NETWORK)}}, 2)
# Of each estimator every mechanism, level and kind of answer once: what each stage of a run is held to.
ONE_EACH = (
    *(f"effect by ipw, {level}, delta 1e-6" for level in LEVELS),
    "effect by ipw, Horvitz-Thompson",
    "regression, curves",
    "regression, curves, no delta",
    "effect by regression, epsilon .2",
    "effect by balancing, label, delta 0",
    "effect by difference, sample, delta 1e-6",
    "effect by difference, label, delta 0",
    "effect by aipw, sample, delta 1e-6",
    "effect by matching, sample, delta 0",
    "effect by matching, label, delta 0",
    "networks",
    "direction, four scores",
    "direction, both halves",
    "direction, no delta",
    "protocol by regression, sample, delta 1e-6",
    "protocol by regression, arms",
    "protocol by difference, groups",
    "protocol by balancing, groups, arms",
    "protocol by matching, groups",
    "effect of times, delta 1e-6",
    "effect of times, adjusted, delta 1e-6",
    "protocol of times, groups",
    "protocol of times, adjusted, delta 1e-6",
)
CRUDE: dict[str, Any] = {"estimator": {"trial": True}}
TIMES_ADJUSTED: dict[str, Any] = ADJUSTED | {"covariates": ["age", "group"]}
CENSORED: dict[str, Any] = {"censoring": {"by": ["group"], "floor": 0.1}}
DIRECTIONS: dict[str, dict[str, Any]] = {
    "four scores": {},
    "training half": {"estimator": {"protect": ["train"], "scores": ["spearman"]}},
    "both halves": {"estimator": {"protect": ["train", "test"], "scores": ["kendall", "hsic"]}},
    "no delta": {"estimator": {"scores": ["hsic"], "release": "scores"}, "privacy": {"delta": 0}},
}


def cases() -> dict[str, Case]:
    """Return every study of the golden file by its name."""
    found: dict[str, Case] = {}
    for path in sorted(ROOT.glob("data/*/study*.yaml")):
        name = path.relative_to(ROOT).as_posix()
        found[name] = partial(over_sites, path.read_text()) if "/sites/" in name else partial(shipped, path)
    for pooled_by in ("effects", "cells"):
        found[f"times over sites, by {pooled_by}"] = partial(over_sites, times_over_sites(), pooled_by=pooled_by)
    found["deploy/example/study.yaml"] = example
    found["docs/tutorials/first-hour.md"] = first_hour
    for name, level, delta in product(ESTIMATORS, LEVELS, DELTAS):
        privacy = {"privacy": {"level": level, "delta": delta}}
        found[f"effect by {name}, {level}, delta {delta}"] = effect(name, privacy)
        if name in TABLED and level != "training_units":
            found[f"protocol by {name}, {level}, delta {delta}"] = table(name, privacy)
    found |= {f"effect by {name}": effect(*asked) for name, asked in EFFECTS.items()}
    found |= {f"protocol by {name}": table(*asked) for name, asked in TABLES.items()}
    for delta in DELTAS:
        privacy = {"privacy": {"delta": delta}}
        for name, base in (("effect", TIMES), ("protocol", MANY)):
            found[f"{name} of times, delta {delta}"] = times(base, merge(CRUDE, privacy))
            found[f"{name} of times, adjusted, delta {delta}"] = times(base, merge(TIMES_ADJUSTED, privacy))
    found["effect of times, label"] = times(TIMES, CRUDE | {"privacy": {"level": "label"}})
    found["effect of times, adjusted, censoring by group"] = times(TIMES, TIMES_ADJUSTED | CENSORED)
    found["effect of times, adjusted, where"] = times(TIMES, TIMES_ADJUSTED | {"where": WHERE})
    found["protocol of times, adjusted, terms"] = times(MANY, TIMES_ADJUSTED | {"terms": ["age^2"]})
    found["protocol of times, groups"] = times(MANY, CRUDE | {"subgroups": "site"})
    found["protocol of times, adjusted, groups"] = times(MANY, TIMES_ADJUSTED | {"subgroups": "site"})
    late = times(TIMES, CRUDE | {"outcome": {"entry": "since", "landmark": 10}})
    owner = merge(late.contract, {"columns": SINCE})
    found["effect of times, late entry"] = replace(late, contract=owner, frame=entering)
    weighted = table("regression", {"weights": "pweight"})
    owner = merge(weighted.contract, {"weights": {"column": "pweight", "upper": 4}})
    found["protocol by regression, survey weights"] = replace(weighted, contract=owner)
    found |= {f"direction, {name}": direction(changes) for name, changes in DIRECTIONS.items()}
    found["series of effects"] = partial(series, effect("difference", {"estimator": {"trial": True}}))
    found["series of a protocol"] = partial(series, table("regression", GROUPS))
    found["series of times"] = partial(series, times(TIMES, CRUDE))
    return found


def made() -> dict[str, Made]:
    """Return every made study of one release, those of the golden file and further ones."""
    found = {name: case for name, case in cases().items() if isinstance(case, Made)}
    return found | {name: effect(of, changes) for name, (of, changes, _) in FURTHER.items()}


def ran(path: Path, seed: int) -> Release:
    """Run a study file with simulated noise."""
    out = path.parent.parent / f"{path.parent.name}-out-{seed}"
    release = run_study(path, out=out, run_id="golden", simulate=seed, engine="direct").release
    assert release.not_for_release
    return release


def shipped(study: Path, folder: Path, seed: int) -> Release:
    """Run a shipped study on the data that lie beside it."""
    return run_study(study, out=folder / f"out-{seed}", run_id="golden", simulate=seed, engine="direct").release


def first_hour(folder: Path, seed: int) -> Release:
    """Run the study that ``causalveil init`` drafts in the tutorial."""
    path = folder / "clinic/study.yaml"
    if not path.exists():
        columns = ("--unit", "Patient no.", "--treatment", "Coaching", "--outcome", "Sick days")
        file = str(ROOT / "data/tutorial/clinic.csv")
        with suppress(SystemExit):
            main(["init", file, "--out", str(path.parent), "--data-class", "synthetic", *columns, "--json"])
    return ran(path, seed)


def example(folder: Path, seed: int) -> Release:
    """Run the study of the deployment's example on four months of visits."""
    path = folder / "study.yaml"
    if not path.exists():
        shutil.copytree(ROOT / "deploy/example", folder, dirs_exist_ok=True)
        for month in range(1, 5):
            random, units = np.random.default_rng(month), 1_000
            age, ward = random.uniform(20, 80, units), random.choice(["east", "north", "west"], units)
            treated = random.random(units) < 0.3 + 0.4 * (age > 50)
            days = np.clip(5 + age / 10 - 2 * treated + random.normal(0, 2, units), 0, 30)
            rows = {"patient": np.arange(units) + month * units, "treated": treated, "days": days, "age": age}
            place = path.parent / "data" / f"month=2026-{month:02d}"
            place.mkdir()
            pl.DataFrame(rows | {"ward": ward}).write_parquet(place / "part.parquet")
    return ran(path, seed)


def rows(units: int = 2_000, seed: int = 0) -> pl.DataFrame:
    """Return the small study's people with a second outcome, a negative control, and a drug of three doses."""
    random = np.random.default_rng([seed, 3])
    frame = people(units, seed)
    score, age = frame["score"].to_numpy(), frame["age"].to_numpy()
    dose = np.where(frame["treated"].to_numpy(), random.integers(1, 3, units), 0)
    return frame.with_columns(
        passed=pl.Series(score > 5.0).cast(pl.Int64),
        before=pl.Series(np.clip(2 + age / 20 + random.normal(0, 1, units), 0, 10)),
        drug=pl.Series(np.array(["none", "low", "high"])[dose]),
        pweight=pl.Series(1.0 + np.arange(units) % 4),
    )


@dataclass(frozen=True)
class Made:
    """A made study: what is asked, the owner's contract, and people by their number and a seed."""

    study: dict[str, Any]
    contract: dict[str, Any]
    frame: Callable[[int, int], pl.DataFrame] = rows

    def write(self, folder: Path, month: int | None = None) -> Path:
        """Write study, contract and rows unless they are there; with a month they are its block."""
        path = folder / "study.yaml"
        if not path.exists():
            place = folder if month is None else folder / f"month={month}"
            place.mkdir(parents=True)
            people = self.frame(PEOPLE, month or 0)
            people.head(PEOPLE // 2).write_parquet(place / "part-0.parquet")
            people.tail(PEOPLE // 2).write_parquet(place / "part-1.parquet")
            blocks = {} if month is None else {"blocks": {"key": "month", "units_span": False}}
            path.write_text(yaml.safe_dump(self.study, sort_keys=False))
            (folder / "dataset.yaml").write_text(yaml.safe_dump(self.contract | blocks, sort_keys=False))
        return path

    def __call__(self, folder: Path, seed: int, month: int | None = None) -> Release:
        """Run it with simulated noise."""
        return ran(self.write(folder, month), seed)


def effect(estimator: str, changes: dict[str, Any]) -> Made:
    """Return the small study by an estimator."""
    asked = STUDY | {"estimator": ESTIMATORS[estimator], "privacy": {"epsilon": "4", "delta": "1e-6"}}
    return Made(merge(asked, changes), merge(CONTRACT, OWNER))


def table(estimator: str, changes: dict[str, Any]) -> Made:
    """Return a table of an outcome and a negative control by an estimator."""
    return effect(estimator, merge({"kind": "effect", "outcome": ..., "outcomes": TWO}, changes))


def times(study: dict[str, Any], changes: dict[str, Any]) -> Made:
    """Return a small study or table of times to an event."""
    owner = merge(TIMES_OWNER, {"columns": BESIDE | SITES, "caps": CAPS})
    asked = merge(study | {"privacy": {"epsilon": "4", "delta": "1e-6"}}, changes)
    return Made(asked, owner, cared_for_at_sites)


# When people came under observation; half of them late, some never.
SINCE = {"since": {"time": {"upper": 3650, "origin": "randomised"}, "unit_of_measure": "days"}}


def entering(units: int, seed: int) -> pl.DataFrame:
    """Return patients of whom half entered late, evenly until half of a year, and some when they had left."""
    since = np.maximum(np.random.default_rng([seed, 4]).integers(-180, 180, units), 0)
    return cared_for_at_sites(units, seed).with_columns(since=pl.Series(since).cast(pl.Float64))


def direction(changes: dict[str, Any]) -> Made:
    """Return the small study of a direction."""
    pair = {one["name"]: {"lower": one["lower"], "upper": one["upper"]} for one in DIRECTION["pair"].values()}
    owner = merge(DIRECTION_CONTRACT, {"columns": ..., "public": [], "caps": CAPS}) | {"columns": pair}
    return Made(merge(DIRECTION, changes), owner, doses)


def series(run: Callable[..., Release], folder: Path, seed: int) -> Series:
    """Run a study in each of three months, and pool them."""
    releases = [run(folder / str(month), 10 * seed + month, month=month) for month in (1, 2, 3)]
    study: Any = load_study(folder / "3/study.yaml")
    return series_of(study, releases)


def public_key_of(secret: bytes) -> str:
    """Return the public key of a secret, as sites.yaml has it."""
    return f"ed25519:{Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw().hex()}"


def times_over_sites() -> str:
    """Return the shipped protocol of times over sites as a study of its first outcome, without covariates."""
    shipped = yaml.safe_load((ROOT / "data/sites/study-times.yaml").read_text())
    outcome = {key: value for key, value in shipped["outcomes"][0].items() if key != "role"}
    changes = {"kind": "effect", "outcomes": ..., "covariates": ..., "outcome": outcome}
    return yaml.safe_dump(merge(shipped, changes | {"estimator": {"trial": True}}), default_flow_style=None)


def over_sites(text: str, folder: Path, seed: int, **more: str) -> PooledRelease:
    """Run a study at each of three hospitals, and pool what they released."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    keys = [public_key_of(bytes([place]) * 32) for place in range(len(HOSPITALS))]
    expected = {site: {"key": key, "expires": "2027-01-01"} for site, key in zip(HOSPITALS, keys, strict=True)}
    folder.mkdir(exist_ok=True)
    (folder / "study.yaml").write_text(text)
    fixed = {"kind": "sites", "round": "golden", "study": "study.yaml", "opened": "2025-01-01", "units_disjoint": True}
    (folder / "sites.yaml").write_text(yaml.safe_dump({**fixed, "sites": expected, **more}))
    agreed, asked, _ = load_round(folder / "sites.yaml")
    terms = SignedTerms(terms=agreed, key=keys[0], signature="0" * 128)
    accepted = []
    for place, (site, key) in enumerate(zip(HOSPITALS, keys, strict=True)):
        path = folder / site / "study.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("{path: .}", f"{{path: {ROOT / 'data/sites' / site}}}"))
        release: Any = ran(path, 10 * seed + place)
        said = {"site": site, "terms": terms, "issued_at": now, "finished_at": now, "run_id": release.run_id}
        digests = {f"{name}_digest": "0" * 64 for name in ("study", "policy", "release")}
        statement = Statement.model_validate({**said, **digests, "release": {}})
        bundle = Bundle(statement=statement, key=key, signature="0" * 128)
        accepted.append(Accepted(site=site, bundle=bundle, digest="0" * 64, release=release))
    return pool_accepted(agreed, asked, tuple(accepted))
