"""Releases of every kind, to be shown by reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from causalveil.flows.api import run_study
from causalveil.schemas.answers import Limits
from causalveil.schemas.confounding import (
    AS_THEY_ARE,
    RANDOMISED,
    TOO_NOISY,
    AdjustmentMethod,
    AdjustmentState,
    ConfoundingStatement,
    PriorSource,
    Shortfall,
    by,
    declares_randomised,
    of_share,
    of_trial,
)
from causalveil.schemas.release import load_release_text
from causalveil.schemas.sites.pooled import KIND, Published, load_pooled
from causalveil.tasks.estimate.robustness import robustness
from tests.pooled_help import call_of, hospitals
from tests.sites_help import NAMES, Call, Party, at_home
from tests.studies import known_noise, merge, write_study
from tests.survival_help import cared_for, of_sites, patients, write_adjusted, write_survival, write_times

LONG = "a_column_with_a_name_that_goes_on_and_on_as_names_in_warehouses_do_" + "x" * 40
ARM_ERRORS = {"mean_treated_error": 0.3, "mean_control_error": 0.2}
PART_OF_IT = ConfoundingStatement(
    state=AdjustmentState.partly,
    method=AdjustmentMethod.regression,
    share=0.48,
    prior=PriorSource.default,
    left_out=("group is b",),
    shortfall=Shortfall.noise,
)
ALL_OF_IT = ConfoundingStatement(
    state=AdjustmentState.adjusted, method=AdjustmentMethod.regression, share=0.97, prior=PriorSource.declared
)
# What a run can say that it did about confounding.
STATEMENTS = (
    *(RANDOMISED, AS_THEY_ARE, TOO_NOISY, PART_OF_IT, ALL_OF_IT, of_share(0.98, linear=True, unseen=2.5)),
    *(of_share(0.98, linear=True), of_share(0.96, unseen=0.375)),
    *(of_trial(AdjustmentMethod.regression, 0.25), of_trial(AdjustmentMethod.doubly_robust)),
    *(by(method, short) for method in AdjustmentMethod for short in (None, Shortfall.imbalance)),
)
WHOLE = {"group": "all units", "arm": "1"}
Documents = dict[str, dict[str, Any]]


@known_noise("pages")
def releases(folder: Path) -> Documents:
    """Releases of every shape, as JSON: one that was run, one that was pooled, and what else releases can say."""
    path = write_study(folder / "study", study={"estimator": {"penalty": 0.01}})
    with at_home(folder / "home"):
        ran = json.loads(run_study(path, out=folder / "out", run_id="shown", engine="direct").path.read_text())
        many = write_study(
            folder / "many",
            study={
                "kind": "effect", "outcome": ..., "outcomes": [{"name": "score", "role": "primary"}],
                "subgroups": "group", "covariates": {"group": ...}, "privacy": {"epsilon": "20"},
                "estimator": {"penalty": ..., "name": "regression"}, "gates": {"balance": 0.5, "overlap": 0.1},
            },
            contract={"dataset": "many", "estimators": ["regression"], "caps": {"sample": {"epsilon": 1000}}},
        )  # fmt: skip
        asked = json.loads(run_study(many, out=folder / "table", run_id="table", engine="direct").path.read_text())
        times = write_survival(folder / "times", frame=patients(3_000), contract={"dataset": "times"})
        survived = json.loads(run_study(times, out=folder / "curves", run_id="times", engine="direct").path.read_text())
        # Nobody is followed beyond day 300.
        lost = {
            "status": pl.when(pl.col("days") > 300).then(0).otherwise("status"),
            "days": pl.col("days").clip(0, 300),
        }
        older = write_adjusted(
            folder / "older",
            frame=cared_for(6_000).with_columns(**lost),
            study={
                "where": [{"column": "age", "op": ">=", "value": 30}], "privacy": {"epsilon": "3"},
                "censoring": {"by": ["treated", "age in two"], "beyond": "restrict", "floor": 0.3},
            },
            contract={"dataset": "older", "caps": {"sample": {"epsilon": 1000}}},
        )  # fmt: skip
        ended = json.loads(run_study(older, out=folder / "ended", run_id="ended", engine="direct").path.read_text())
        several = write_times(folder / "several", frame=of_sites(6_000), contract={"dataset": "several"})
        of_times = run_study(several, out=folder / "groups", run_id="several", engine="direct").path.read_text()
    parties = {name: Party(name, folder / name, seed) for seed, name in enumerate(NAMES)}
    call = Call(folder / "coordinator", parties)
    call.write()
    (call.folder / "study.yaml").write_text(write_study(folder / "travels").read_text())
    for name, party in parties.items():
        party.run("asked")
        call.put(name, party.bundle("asked", call.signed()))
    pooled = json.loads(call.pool().path.read_text())

    cells = json.loads(call_of(folder / "cells", hospitals(folder / "hospitals")).pool().path.read_text())

    curves = survived["curves"][0]
    clear = {"estimate": -2.1, "interval": {"lower": -3.0, "upper": -1.2}, "state": "answered"}
    charge = ran["privacy"]["charges"][0]
    # With noise enough for the smallest epsilon that is made up below.
    charge = {**charge, "noise_scale": 1000 * charge["noise_scale"]}
    effect = told(ran, clear)
    # What the others of these say of an adjustment is their own.
    ran = told(ran, {"confounding": None})
    return {
        "effect": effect,
        "protocol": asked,
        "protocol of times": json.loads(of_times),
        "survival": told(survived, {"estimate": -0.2, "interval": {"lower": -0.3, "upper": -0.1}}),
        "survival, hidden": told(
            survived,
            {
                "interval": {"lower": -1.0, "upper": 1.0},
                "state": "unresolved",
                "log_rank": {"hazard_ratio": None},
                "curves": [merge(curves, {"curves": {"seen_until": curves["curves"]["times"][20]}})],
                **estimator(trial=False),
            },
        ),
        "survival, adjusted": told(ended, {"estimate": 0.1, "interval": {"lower": 0.02, "upper": 0.2}}),
        "pooled protocol": cells,
        "protocol, long": json.loads(json.dumps(asked).replace('"group": "a"', f'"group": "{LONG}"')),
        "withheld": merge(
            asked,
            {
                "answers": [
                    answer
                    | {"state": "withheld"}
                    | dict.fromkeys(
                        ("estimate", "interval", "simultaneous", "noise_error", "sampling_error", "bias", "spread")
                    )
                    for answer in asked["answers"]
                ]
            },
        ),
        "raises": told(ran, {"estimate": 2.0, "interval": {"lower": 0.5, "upper": 3.5}, "state": "answered"}),
        "open": told(ran, {"estimate": 0.1, "interval": {"lower": -1.0, "upper": 1.2}, "state": "answered"}),
        "drowned": told(ran, {"estimate": 10.0, "interval": {"lower": -10.0, "upper": 10.0}, "state": "unresolved"}),
        "label": told(ran, {"privacy": {"level": "label", "unprotected": ["every covariate is public"]}}),
        "simulated": told(ran, {"not_for_release": True, "noise": {"source": "seeded"}}),
        "hostile": told(
            ran,
            {
                "study": "<script>alert(1)</script>",
                "dataset": "'\"><img src=x onerror=alert(2)>",
                "outcome": "<b>bold</b>" + LONG,
                "specification": {
                    "treatment": LONG,
                    "outcomes": [{**ran["specification"]["outcomes"][0], "name": "<b>bold</b>" + LONG}],
                    "covariates": {LONG: {"lower": -1e300, "upper": 1e300}, "g": {"levels": [LONG, "</style>"]}},
                },
                "details": {f"propensity_coefficient[{LONG}{index}]": index / 7 for index in range(80)},
            },
        ),
        "unheard-of method": told(
            ran,
            {
                "estimator": "tarot",
                "specification": {"estimator": {"name": "tarot", "clip": ...}},
                "privacy": {
                    "charges": [{**charge, "name": f"c{i}", "scope": "all", "epsilon": 0.25} for i in range(4)]
                },
            },
        ),
        "matching": told(ran, {**clear, "estimator": "matching", **estimator(name="matching", ratio=5, clip=...)}),
        "aipw": told(
            ran, {**clear, "estimator": "aipw", **estimator(name="aipw", clip=..., propensity={"known": 0.5})}
        ),
        **{
            f"adjusted {place}": told(
                ran,
                {
                    **clear,
                    "estimator": "regression",
                    **estimator(name="regression", clip=..., trial=False),
                    "confounding": said_of(done),
                },
            )
            | {"details": {"curves": "square of age"}}
            for place, done in enumerate(STATEMENTS)
        },
        "balance": told(
            ran,
            {
                **clear,
                "estimator": "regression",
                **estimator(name="regression", clip=..., trial=False),
                "confounding": said_of(PART_OF_IT),
                "details": {
                    "curves": "square of age",
                    "treated_share": 0.4,
                    "effective_share": 0.75,
                },
                "balance": [
                    WHOLE | {"covariate": "age", "before": 1.234, "after": 0.0123, "noise_error": 0.0456},
                    *(
                        WHOLE
                        | {
                            "covariate": f"x{place:02d}{LONG}",
                            "before": place / 20 - 0.7,
                            "after": 0.0,
                            "noise_error": 0,
                        }
                        for place in range(28)
                    ),
                ],
            },
        ),
        "attenuated": told(
            ran,
            {
                "estimator": "matching",
                **estimator(name="matching", ratio=5, clip=...),
                "details": {"attenuation_factor": 0.34, "attenuation_corrected": False},
            },
        ),
        "balancing": told(
            ran, {**clear, "estimator": "balancing", **estimator(name="balancing", clip=..., allowance=1.0)}
        ),
        "confounding": told(
            ran,
            {
                **clear,
                "estimator": "difference_in_means",
                **estimator(name="difference_in_means", clip=..., trial=False),
                "bias": 0.3,
            },
        ),
        **{
            name: told(
                told(ran, {"estimator": "difference_in_means", **clear}),
                {
                    **estimator(name="difference_in_means", clip=..., trial=done is RANDOMISED),
                    "confounding": said_of(done),
                    "values": [4.0, 1.9],
                    "details": ARM_ERRORS,
                },
            )
            for name, done in (("means", RANDOMISED), ("as they are", AS_THEY_ARE))
        },
        "direction": direction(ran, "x_to_y", 0.83),
        "undecided": direction(ran, None, 0.0),
        "direction long": merge(direction(ran, "y_to_x", -0.5), long_pair()),
        "pooled": merge(pooled, {"model": "random"}),
        "pooled fixed": merge(
            by_model(pooled, "fixed"),
            # A round that follows another.
            {"terms": {"terms": {"follows": {**pooled["terms"]}}}},
        ),
        "pooled long": merge(
            pooled,
            {
                "sites": long_names(pooled["sites"]),
                "terms": {
                    "terms": {
                        "sites": {f"{name}-{'y' * 70}": one for name, one in pooled["terms"]["terms"]["sites"].items()}
                        | dict.fromkeys(pooled["terms"]["terms"]["sites"], ...)
                    }
                },
                "answers": [
                    {**one, **{key: long_names(one[key]) for key in ("sites", "leave_one_out")}}
                    for one in pooled["answers"]
                ],
            },
        ),
    }


def told(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Change a release of effects: what is its headline answer's there, and all else in the document."""
    first, *others = document["answers"]
    own = {key: changes[key] for key in changes if key in first}
    rest = {key: changes[key] for key in changes if key not in first}
    return {**merge(document, rest), "answers": [merge(first, own), *others]}


def by_model(document: dict[str, Any], model: str) -> dict[str, Any]:
    """Return a pooled release whose coordinator declared a model."""
    answers = []
    for row in document["answers"]:
        found = row[model]
        errors = {f"{name}_error": found["variance"][name] ** 0.5 for name in ("sampling", "noise")}
        ends = {key: found["interval"][key] for key in ("lower", "upper")}
        answers.append(
            {**row, **errors, "estimate": found["estimate"], "interval": ends, "bias": found["interval"]["bias"]}
        )
    return merge(document, {"model": model, "answers": answers, "terms": {"terms": {"model": model}}})


def long_names(sites: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return parts of sites whose names are long."""
    return [{**site, "site": f"{site['site']}-{'y' * 70}"} for site in sites]


def said_of(done: ConfoundingStatement) -> dict[str, Any]:
    """Return a statement as a release has it."""
    return done.model_dump(mode="json")


def estimator(**settings: Any) -> dict[str, Any]:
    return {"specification": {"estimator": settings}}


def direction(ran: dict[str, Any], favours: str | None, weight: float) -> dict[str, Any]:
    """A release of a direction study, with everything that all releases have from one that was run."""
    pair = {"x": {"name": "altitude", "lower": 0, "upper": 3000}, "y": {"name": "heat", "lower": -20, "upper": 40}}
    changes: dict[str, Any] = dict.fromkeys(
        (
            *("estimand", "confidence", "coverage", "answers", "covers", "not_covered", "balance", "gates"),
            *("calibration", "clusters", "curves", "restricted_to", "cells", "benchmarks"),
        ),
        ...,
    )
    specification = dict.fromkeys(("treatment", "outcomes", "covariates"), ...)
    score = {
        **{"score": "hsic", "answered": favours is not None, "x_to_y": None, "y_to_x": None},
        **{"margin": None if favours is None else 0.031, "favours": favours, "order_kept": None},
        **{"theorem": "Theorem 2, of the difference", "charges": ["hsic"]},
    }
    settings = {"name": "direction", "penalty": 0.01, "bandwidth": 0.2, "clip": ...}
    return merge(
        ran,
        {
            **changes,
            **{"kind": "direction", "estimator": "direction", "pair": pair, "scores": [score, score]},
            **{"verdict": {"favours": favours, "weight": weight, "rule": "the scores' signs, weighted"}},
            **{"unbounded_halves": [], "details": {"bandwidth": 0.2}},
            "specification": {**specification, "pair": pair, "estimator": settings},
        },
    )


def long_pair() -> dict[str, Any]:
    pair = {"x": {"name": LONG}, "y": {"name": LONG.upper()}}
    score = {"score": "hsic", "answered": True, "x_to_y": 0.2, "y_to_x": 0.1, "margin": -0.1, "favours": "y_to_x"}
    score |= {"order_kept": 0.9, "theorem": "Theorem 2", "charges": []}
    return {"pair": pair, "specification": {"pair": pair}, "scores": [score]}


def load(document: dict[str, Any]) -> Published:
    if document["kind"] == KIND:
        return load_pooled(document, "pooled")
    if document["kind"] == "effect":
        document = {**document, "answers": [with_strength(document, one) for one in document["answers"]]}
    return load_release_text(json.dumps(document))


def with_strength(document: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer whose numbers a test changed with the strength of a confounder that goes with them."""
    errors = answer["sampling_error"], answer["noise_error"]
    trial = declares_randomised(document["specification"]["estimator"])
    found = None
    if not trial and answer["estimate"] is not None and answer["state"] in ("answered", "marked"):
        ends = Limits(**answer["interval"])
        found = robustness(answer["estimate"], ends, document["confidence"], errors, document["units"])
    return {**answer, "robustness": found and found.model_dump()}
