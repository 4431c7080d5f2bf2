"""A hundred contracts that are wrong: each is told its line, its key and what to do, and nothing runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from causalveil.schemas.contract import Contract, load_contract
from causalveil.schemas.errors import ContractError
from causalveil.schemas.privacy import Guarantee
from causalveil.schemas.studies import estimator_names

GOOD = """\
dataset: trial
data_class: synthetic
unit: person
blocks: {key: month, units_span: false}
columns:
  treated: {codes: {control: "no", treated: "yes"}}
  score: {lower: 0, upper: 10, unit_of_measure: points}
  age: {lower: 20, upper: 60}
  group:
    levels: [a, b, c]
    others: other
  weight: {lower: 30, upper: 200, nulls: indicator}
public: [age, group]
caps:
  sample: {epsilon: 10, delta: 1.0e-4}
  label: {epsilon: 5, delta: 0}
accounting: concentrated
estimators: [ipw, aipw]
guarantees: [finite_sample]
unbounded_halves: [train]
review: none
warn_below: 0.4
"""
MINIMAL = """\
dataset: trial
data_class: public
unit: person
columns: {y: {lower: 0, upper: 1}}
public: []
caps: {sample: {epsilon: 1, delta: 0}}
"""

TYPO = "did you mean"
# What is replaced, by what, the line that is named, and words of the message.
CASES: list[tuple[str, str, int | None, tuple[str, ...]]] = [
    # A key that is missing has no line.
    *(
        (f"{key}: {value}\n", "", None, (f"missing key '{key}'",))
        for key, value in (("dataset", "trial"), ("data_class", "synthetic"), ("unit", "person"))
    ),
    ("public: [age, group]\n", "", None, ("missing key 'public'",)),
    # A key that is misspelt.
    ("dataset: trial", "datset: trial", 1, (TYPO, "'dataset'")),
    ("blocks:", "block:", 4, (TYPO, "'blocks'")),
    ("units_span: false", "unit_span: false", 4, (TYPO, "'units_span'")),
    ("lower: 0, upper: 10", "low: 0, upper: 10", 7, ("columns.score.low", TYPO)),
    ("nulls: indicator", "null: indicator", 12, ("is not text",)),
    # Keys that a contract never had, or has no more.
    ("review: none", "path: elsewhere", 21, ("unknown key 'path'",)),
    ("review: none", "units_span_blocks: true", 21, ("unknown key 'units_span_blocks'",)),
    ("review: none", "execution: {}", 21, ("unknown key 'execution'",)),
    # Names.
    ("dataset: trial", "dataset: a/b", 1, ("'dataset'",)),
    ("dataset: trial", "dataset: ''", 1, ("'dataset'",)),
    ("dataset: trial", "dataset: 7", 1, ("'dataset'", "string")),
    ("dataset: trial", "dataset: [trial]", 1, ("'dataset'",)),
    ("unit: person", "unit: ''", 3, ("'unit'",)),
    ("unit: person", "unit: 3", 3, ("'unit'",)),
    ("unit: person", 'unit: "a\\nb"', 3, ("'unit'",)),
    ("unit: person", "unit: age", None, ("'unit' is column 'age'", "take it out")),
    # Classes and choices.
    ("data_class: synthetic", "data_class: secret", 2, ("'public', 'synthetic' or 'sensitive'",)),
    ("data_class: synthetic", "data_class: null", 2, ("'data_class'",)),
    ("accounting: concentrated", "accounting: zcdp", 17, ("'concentrated' or 'basic'",)),
    ("review: none", "review: perhaps", 21, ("'none' or 'required'",)),
    ("review: none", "review: required", None, ("owner_key",)),
    ("estimators: [ipw, aipw]", "estimators: [ipw, magic]", 18, ("unknown estimator", "matching")),
    ("estimators: [ipw, aipw]", "estimators: []", 18, ("'estimators'", "at least 1")),
    ("estimators: [ipw, aipw]", "estimators: ipw", 18, ("'estimators'",)),
    ("estimators: [ipw, aipw]", "estimators: [ipw, ipw]", 18, ("stands twice",)),
    ("guarantees: [finite_sample]", "guarantees: [none]", 19, ("'finite_sample' or 'asymptotic'",)),
    ("guarantees: [finite_sample]", "guarantees: []", 19, ("'guarantees'", "at least 1")),
    ("data_class: synthetic", "data_class: sensitive\nguarantees: [asymptotic]", None, ("twice",)),
    ("unbounded_halves: [train]", "unbounded_halves: [left]", 20, ("'train' or 'test'",)),
    ("unbounded_halves: [train]", "unbounded_halves: [train, train]", 20, ("stands twice",)),
    ("warn_below: 0.4", "warn_below: 0", 22, ("greater than 0",)),
    ("warn_below: 0.4", "warn_below: 1", 22, ("less than 1",)),
    ("warn_below: 0.4", "warn_below: soon", 22, ("'warn_below'",)),
    ("warn_below: 0.4", "owner_key: short", 22, ("'owner_key'",)),
    ("warn_below: 0.4", "ledger: here", 22, ("'ledger'",)),
    # Blocks.
    ("{key: month, units_span: false}", "month", 4, ("'blocks'",)),
    ("{key: month, units_span: false}", "{key: month}", 4, ("missing key 'blocks.units_span'",)),
    ("{key: month, units_span: false}", "{units_span: true}", 4, ("missing key 'blocks.key'",)),
    ("units_span: false", "units_span: maybe", 4, ("'blocks.units_span'",)),
    ("key: month", "key: age", None, ("'blocks.key' is 'age'", "no column")),
    ("key: month", "key: person", None, ("'blocks.key' is 'person'",)),
    # Numbers.
    ("lower: 0, upper: 10", "lower: 10, upper: 0", 7, ("columns.score", "lower must be below upper")),
    ("lower: 0, upper: 10", "lower: 1, upper: 1", 7, ("lower must be below upper",)),
    ("lower: 0, upper: 10", "upper: 10", 7, ("missing key 'columns.score.lower'",)),
    ("lower: 0, upper: 10", "lower: 0", 7, ("missing key 'columns.score.upper'",)),
    ("lower: 0, upper: 10", "lower: low, upper: 10", 7, ("columns.score.lower", "number")),
    ("lower: 0, upper: 10", "lower: 0, upper: .inf", 7, ("columns.score.upper", "finite")),
    ("lower: 0, upper: 10", "lower: .nan, upper: 10", 7, ("columns.score.lower", "finite")),
    ("lower: 0, upper: 10", "lower: -1e200, upper: 1e200", 7, ("larger unit",)),
    ("lower: 0, upper: 10", "lower: 0, upper: 1e-200", 7, ("smaller unit",)),
    ("lower: 0, upper: 10", "lower: 0, upper: 5e-324", 7, ("smaller unit",)),
    ("lower: 0, upper: 10", "lower: 1e15, upper: 1000000000000001", 7, ("another zero",)),
    ("lower: 0, upper: 10", "lower: 0, upper: [10]", 7, ("columns.score.upper",)),
    ("score: {lower: 0, upper: 10, unit_of_measure: points}", "score: 3", 7, ("columns.score", "{lower, upper}")),
    ("score: {lower: 0, upper: 10, unit_of_measure: points}", "score:", 7, ("columns.score", "{codes:")),
    ("score: {lower: 0, upper: 10, unit_of_measure: points}", "score: [0, 10]", 7, ("columns.score", "{levels:")),
    ("score: {lower: 0, upper: 10, unit_of_measure: points}", "score: {}", 7, ("columns.score.lower",)),
    ("unit_of_measure: points", "unit_of_measure: 3", 7, ("columns.score.unit_of_measure",)),
    ("unit_of_measure: points", "description: [long]", 7, ("columns.score.description",)),
    # Scales.
    ("lower: 20, upper: 60", "lower: 0, upper: 60, scale: log", 8, ("columns.age", "needs a range above 0")),
    ("lower: 20, upper: 60", "lower: -1, upper: 60, scale: sqrt", 8, ("columns.age", "from 0 up")),
    (
        "lower: 20, upper: 60",
        "lower: 20, upper: 60, scale: cube",
        8,
        ("columns.age.scale", "'linear', 'log' or 'sqrt'"),
    ),
    # Several rows of a unit.
    ("review: none", "rows: 3", 21, ("'rows'",)),
    ("review: none", "rows: {at_most: 0, order: day}", 21, ("'rows.at_most'", "greater than or equal to 1")),
    ("review: none", "rows: {at_most: 3, ordr: day}", 21, (TYPO, "'order'")),
    ("review: none", "rows: {at_most: 3, order: day, keep: best}", 21, ("'first' or 'last'",)),
    ("review: none", "rows: {at_most: 3}", None, ("'rows.order' is missing", "such as a date")),
    ("review: none", "rows: {aggregates: {score: mean}}", None, ("'rows.order' is missing: column 'treated'",)),
    ("review: none", "rows: {at_most: 3, order: person}", None, ("'rows.order' is the unit",)),
    ("review: none", "rows: {order: day, aggregates: {scre: mean}}", None, ("names 'scre'", "declare it there")),
    ("review: none", "rows: {order: day, aggregates: {score: sum}}", None, ("has no bound", "'rows.at_most'")),
    ("review: none", "rows: {order: day, aggregates: {group: max}}", None, ("cannot be 'max'", "first, last")),
    ("review: none", "rows: {order: day, aggregates: {score: any}}", None, ("cannot be 'any'", "mean")),
    ("review: none", "rows: {order: day, aggregates: {score: median}}", 21, ("'rows.aggregates.score'",)),
    ("review: none", "rows: {at_most: 3, order: day, count: age}", None, ("'rows.count' is 'age'", "another name")),
    ("review: none", "rows: {at_most: 1, order: day, count: visits}", None, ("above 1",)),
    ("review: none", "rows: {at_most: 3, order: day, count: month}", None, ("'blocks.key' is 'month'",)),
    # Levels.
    ("levels: [a, b, c]", "levels: [a]", 10, ("columns.group.levels", "at least 2")),
    ("levels: [a, b, c]", "levels: []", 10, ("columns.group.levels",)),
    ("levels: [a, b, c]", "levels: a", 10, ("columns.group.levels",)),
    ("levels: [a, b, c]", "levels: [a, a]", 9, ("columns.group", "stands twice")),
    ("levels: [a, b, c]", "levels: [a, 1]", 9, ("all text or all integers",)),
    ("levels: [a, b, c]", "levels: [1.5, 2.5]", 10, ("columns.group.levels",)),
    ("levels: [a, b, c]", "levels: [true, false]", 10, ("columns.group.levels",)),
    ("others: other", "others: drop", 11, ("'other' or 'refuse'",)),
    ("others: other", "lower: 0", 11, ("unknown key 'columns.group.lower'",)),
    # Codes.
    ('{control: "no", treated: "yes"}', '{control: "no", treated: "no"}', 6, ("different codes",)),
    ('{control: "no", treated: "yes"}', '{control: "no", treated: 1}', 6, ("both text, both integers",)),
    ('{control: "no", treated: "yes"}', '{control: "no"}', 6, ("missing key 'columns.treated.codes.treated'",)),
    ('{control: "no", treated: "yes"}', "[0, 1]", 6, ("columns.treated.codes",)),
    ('{control: "no", treated: "yes"}', "{control: 0.5, treated: 1.5}", 6, ("columns.treated.codes.control",)),
    ('{control: "no", treated: "yes"}', "{control: 0, treated: 99999999999999999999}", 6, ("64 bits",)),
    ("codes: {control", "lower: 0, codes: {control", 6, ("unknown key 'columns.treated.lower'",)),
    ("nulls: indicator", "nulls: maybe", 12, ("'refuse' or 'indicator'",)),
    ("nulls: indicator", "nulls: true", 12, ("columns.weight.nulls",)),
    # Public.
    ("public: [age, group]", "public: [age, gruop]", None, ("'public' names 'gruop'", "declare it")),
    ("public: [age, group]", "public: age", 13, ("'public'",)),
    ("public: [age, group]", "public: [age, age]", 13, ("stands twice",)),
    ("public: [age, group]", "public: [person]", None, ("'public'", "take it out")),
    ("public: [age, group]", "public: null", 13, ("'public'",)),
    # Caps.
    ("  sample: {epsilon: 10, delta: 1.0e-4}", "  rows: {epsilon: 10, delta: 0}", 15, ("caps.rows", "'sample'")),
    ("epsilon: 10, delta: 1.0e-4", "epsilon: 10", 15, ("missing key 'caps.sample.delta'",)),
    ("epsilon: 10, delta: 1.0e-4", "delta: 0", 15, ("missing key 'caps.sample.epsilon'",)),
    ("epsilon: 10, delta: 1.0e-4", "epsilon: -1, delta: 0", 15, ("caps.sample.epsilon", "negative")),
    ("epsilon: 10, delta: 1.0e-4", "epsilon: 0, delta: 0", 14, ("'caps'", "leave the level out")),
    ("epsilon: 10, delta: 1.0e-4", "epsilon: 1, delta: 1", 14, ("'caps'", "delta must be below 1")),
    ("epsilon: 10, delta: 1.0e-4", "epsilon: .inf, delta: 0", 15, ("caps.sample.epsilon", "finite")),
    ("epsilon: 10, delta: 1.0e-4", "epsilon: true, delta: 0", 15, ("caps.sample.epsilon", "boolean")),
    ("epsilon: 10, delta: 1.0e-4", "epsilon: ten, delta: 0", 15, ("caps.sample.epsilon", "decimal")),
    ("{epsilon: 10, delta: 1.0e-4}", "10", 15, ("caps.sample",)),
    # YAML itself.
    ("unit: person", "unit: person\nunit: other", 4, ("'unit' stands twice",)),
    ("unit: person", "unit: [person", None, ("not valid YAML", "line")),
    ("unit: person", "unit: !!python/name:os.system x", 3, ("tags are not allowed",)),
    ("unit: person", "unit: &u person\nalias: *u", 4, ("aliases are not allowed",)),
    ("  treated:", "  7:", 6, ("is not text",)),
]


@pytest.mark.parametrize(
    ("before", "after", "line", "says"), CASES, ids=[f"{n}-{c[1]!r:.40}" for n, c in enumerate(CASES)]
)
def test_a_wrong_contract(before: str, after: str, line: int | None, says: tuple[str, ...], tmp_path: Path) -> None:
    assert GOOD.count(before) >= 1
    path = tmp_path / "dataset.yaml"
    path.write_text(GOOD.replace(before, after, 1))
    with pytest.raises(ContractError) as caught:
        load_contract(path)
    told = str(caught.value)
    assert "\n" not in told
    for words in says:
        assert words in told
    if line is not None:
        assert str(line) in re.findall(r"line (\d+)", told), told


def test_the_good_one_is_good_and_the_least_has_defaults(tmp_path: Path) -> None:
    path = tmp_path / "dataset.yaml"
    path.write_text(GOOD)
    assert load_contract(path).columns["group"].nulls == "refuse"
    path.write_text(MINIMAL)
    least = load_contract(path)
    assert least.estimators == estimator_names()
    assert least.guarantees == (Guarantee.finite_sample,)
    assert least.blocks is None
    assert not least.units_span_blocks
    assert set(yaml.safe_load(MINIMAL)) == {"dataset", "data_class", "unit", "columns", "public", "caps"}
    assert {name for name, field in Contract.model_fields.items() if field.is_required()} == set(
        yaml.safe_load(MINIMAL)
    )
