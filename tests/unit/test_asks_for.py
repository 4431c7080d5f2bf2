"""A study in full is what a file asks for only if all that the file says is so: each of its keys counts."""

from __future__ import annotations

from typing import Any

import pytest

from causalveil.schemas.asked.compare import asks_for
from causalveil.schemas.asked.resolve import resolve
from causalveil.schemas.asked.study_file import StudyFile, parse_study_file
from causalveil.schemas.contract import Contract

CONTRACT = Contract.model_validate(
    {
        "dataset": "d",
        "data_class": "synthetic",
        "unit": "person",
        "blocks": {"key": "month", "units_span": False},
        "columns": {
            "treated": {"codes": {"control": 0, "treated": 1}, "nulls": "indicator"},
            "dose": {"levels": [0, 1, 2]},
            "score": {"lower": 0, "upper": 10, "nulls": "indicator"},
            "other": {"codes": {"no": 0, "yes": 1}},
            "pay": {"lower": 1, "upper": 100},
            "age": {"lower": 0, "upper": 90},
            "group": {"levels": ["a", "b", "c"], "others": "other"},
            "days": {"time": {"upper": 400, "origin": "randomised"}},
            "end": {"event": {"censored": 0, "death": 1, "relapse": 2}},
        },
        "public": [],
        "caps": {"sample": {"epsilon": 10, "delta": "1e-4"}},
    }
)
SHARED = {
    "name": "s",
    "treatment": "treated",
    "privacy": {"epsilon": 1, "delta": "1e-6"},
    "missing_treatment": "control",
}
FIRST = {"name": "score", "role": "primary"}
PAY, OLD = {"pay": {"lower": 2}}, [{"column": "age", "op": ">=", "value": 40}]
CHANGED: dict[str, list[Any]] = {
    "name": ["another"],
    "confidence": [0.9],
    "estimand": ["ATT"],
    "privacy": [{"epsilon": 2, "delta": "1e-6"}],
    "data": [{"select": {"newest": 2}}, {"select": {"blocks": ["2026-07"]}}],
    "where": [[], [*OLD, {"column": "group", "op": "==", "value": "a"}], [OLD[0] | {"value": 41}]],
    "covariates": [{"pay": {"lower": 3}}, PAY | {"age": {}}, {"age": {}}, PAY | {"group": {}}],
    "terms": [["pay^3"], ["pay^2", "pay > 50"]],
    "subgroups": [None, {"name": "group", "levels": ["a", "c"]}, "other"],
    "missing": ["indicator"],
    "missing_outcome": ["upper"],
    "measure": [["risk"], "rmst"],
    "intervals": [40],
    "arms": [{"reference": 1}],
}
KINDS: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "effect": (
        {"kind": "effect", "outcome": "score", "covariates": PAY, "estimator": {"name": "regression"}}
        | {"missing_outcome": "middle", "terms": ["pay^2"]},
        {"outcome": [{"name": "score", "upper": 9}, "other"], "estimator": [{"name": "regression", "trial": True}]}
        | {"where": [OLD], "subgroups": ["group"], "measure": [["ratio"]], "terms": [[]]},
    ),
    "protocol": (
        {"kind": "effect", "outcomes": [FIRST, "other"], "covariates": PAY, "estimator": {"name": "regression"}}
        | {"where": OLD, "subgroups": {"name": "group", "levels": ["a", "b"]}, "missing_outcome": "middle"}
        | {"gates": {"balance": 0.1}},
        {
            "outcomes": [[FIRST], ["other", FIRST], [FIRST, {"name": "other", "importance": 2}]],
            "gates": [None, {"balance": 0.2}, {"balance": 0.1, "overlap": 0.2}, {"overlap": 0.2}],
            "measure": [["ratio"]],
        },
    ),
    "times": (
        {"kind": "effect", "outcome": {"time": "days", "event": "end", "horizon": 300, "of": "death"}}
        | {"estimator": {"name": "survival"}, "covariates": PAY, "where": OLD, "measure": ["risk"]}
        | {"censoring": {"by": ["treated", "age in four"], "floor": 0.2}},
        {
            "outcome": [
                {"time": "days", "event": "end", "horizon": 200, "of": "death"},
                {"time": "days", "event": "end", "horizon": 300, "of": "relapse"},
            ],
            "censoring": [{"by": "age in three", "floor": 0.2}, {"by": "age in four"}, {"floor": 0.2}, {"by": "group"}],
            "measure": [["rmst"], ["risk", "rmst"]],
        },
    ),
    "times of arms": (
        {"kind": "effect", "outcomes": [{"time": "days", "event": "end", "horizon": 300, "role": "primary"}]}
        | {"estimator": {"name": "survival"}, "treatment": "dose", "arms": {"reference": 0}, "where": OLD}
        | {"subgroups": {"name": "group", "levels": ["a", "b"]}},
        {
            "outcomes": [[{"time": "days", "event": "end", "horizon": 200, "role": "primary"}]],
            "missing_treatment": [],
        },
    ),
}
# What the outcomes of a kind have no use for; one question by itself has no subgroups.
NUMBERS: dict[str, list[Any]] = {"intervals": []}
TIMES: dict[str, list[Any]] = {"missing_outcome": [], "measure": []}
ONE: dict[str, list[Any]] = {"subgroups": ["group"]}
UNUSED = {"effect": NUMBERS | ONE, "protocol": NUMBERS, "times": TIMES | ONE, "times of arms": TIMES}


def asked(document: dict[str, Any]) -> StudyFile:
    return parse_study_file({key: value for key, value in document.items() if value is not None})


@pytest.mark.parametrize("kind", KINDS)
def test_each_key_of_a_file_counts(kind: str) -> None:
    own, changed = KINDS[kind]
    document = SHARED | own
    study = resolve(asked(document), CONTRACT)
    assert asks_for(asked(document), study)
    assert asks_for(asked(document | {"purpose": "another"}), study)
    for key, values in (CHANGED | UNUSED[kind] | changed).items():
        for value in values:
            assert not asks_for(asked(document | {key: value}), study), (key, value)
