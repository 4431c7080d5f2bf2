"""Say what is wrong with a key of a study or contract, and what to write in its place."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

# What a newcomer writes for a key of ours.
SYNONYMS = {
    "min": "lower",
    "max": "upper",
    "low": "lower",
    "high": "upper",
    "eps": "epsilon",
    "exposure": "treatment",
    "intervention": "treatment",
    "target": "outcome",
    "response": "outcome",
    "confounders": "covariates",
    "features": "covariates",
    "controls": "covariates",
    "method": "estimator",
    "budget": "privacy",
    "categories": "levels",
    "values": "levels",
    "id": "unit",
}
# Keys that a person has to write, with a value that is right or says what to put there.
AS_IN = {
    # Of a study
    "kind": "kind: effect",
    "name": "name: first-look",
    "treatment": "treatment: COLUMN",
    "outcome": "outcome: {name: COLUMN}",
    "outcomes": "outcomes: [{name: COLUMN, role: primary}]",
    "covariates": "covariates: [COLUMN, COLUMN]",
    "estimator": "estimator: {name: auto}",
    "privacy": "privacy: {epsilon: 1.0, delta: 1e-6}",
    "epsilon": "epsilon: 1.0",
    "delta": "delta: 1e-6",
    "confidence": "confidence: 0.95",
    "time": "time: COLUMN",
    "event": "event: COLUMN",
    "horizon": "horizon: 365",
    "where": "where: [{column: age, op: '>=', value: 18}]",
    # Of a contract
    "dataset": "dataset: clinic-2026",
    "data_class": "data_class: sensitive",
    "unit": "unit: COLUMN",
    "columns": "columns: {age: {lower: 0, upper: 110}}",
    "public": "public: []",
    "caps": "caps: {sample: {epsilon: 10, delta: 1e-4}}",
    "sample": "sample: {epsilon: 10, delta: 1e-4}",
    "label": "label: {epsilon: 10, delta: 1e-4}",
    "lower": "lower: 0",
    "upper": "upper: 100",
    "levels": "levels: [a, b]",
    "codes": "codes: {control: 0, treated: 1}",
    "control": "control: 0",
    "treated": "treated: 1",
    "blocks": "blocks: {key: month, units_span: false}",
}
_NAME = "must begin with a letter or digit and have letters, digits, '.', '-' and '_' alone"


def example(key: object) -> str:
    """Return how a key is written, as the end of a sentence; empty where it is not known."""
    return f", as in {AS_IN[str(key)]}" if str(key) in AS_IN else ""


def nearest(name: str, known: Iterable[str], cutoff: float = 0.7) -> str:
    """Return the end of a sentence that asks for the known word nearest to a misspelt one."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f", did you mean '{close[0]}'?" if close else ""


def missing_key(place: str) -> str:
    """Say that a key is missing, and how it is written."""
    return f"missing key '{place}'{example(place.rpartition('.')[2])}"


def plain_message(item: Mapping[str, Any], place: str) -> str:
    """Return pydantic's words on a value in words of a study's author."""
    kind, told = str(item["type"]), item.get("ctx") or {}
    key = place.rpartition(".")[2]
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return f"must be a mapping of keys to values{example(key)}"
    if kind in ("list_type", "tuple_type"):
        return f"must be a list{example(key) or ', as in [a, b]'}"
    if kind in ("enum", "literal_error"):
        words = str(told.get("expected", ""))
        known = words.replace("'", "").replace(" or ", ", ").split(", ")
        return f"must be {'one of ' if len(known) > 1 else ''}{words}{nearest(str(item.get('input'))[:100], known)}"
    if kind in ("too_short", "too_long"):
        most, ends = ("min_length", "at least") if kind == "too_short" else ("max_length", "at most")
        return f"must have {ends} {told.get(most)} of them, and has {told.get('actual_length')}"
    if kind == "string_pattern_mismatch" and str(told.get("pattern", "")).startswith("^[A-Za-z0-9]"):
        return f"{_NAME}{example(key)}"
    if kind in ("float_parsing", "float_type", "int_parsing", "int_type", "decimal_parsing"):
        return f"must be a number{example(key)}"
    if kind in ("bool_type", "bool_parsing"):
        return "must be true or false"
    if kind == "string_type":
        return f"must be a text string{example(key)}"
    if kind in ("less_than", "less_than_equal", "greater_than", "greater_than_equal"):
        return f"{item['msg'].replace('Input should be', 'must be')}{example(key)}"
    return str(item["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
