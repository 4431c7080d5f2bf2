"""A newcomer's mistakes in study and contract: each is one line that says what was wrong and what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from causalveil.flows.run.check import check
from causalveil.schemas.documents import parse_yaml
from causalveil.schemas.errors import StudyError
from causalveil.schemas.mistakes import validate
from causalveil.schemas.release import EffectRelease
from tests.studies import CONTRACT, STUDY, merge, people, write_study

ALLOWED = {"estimators": ["ipw", "regression", "difference_in_means", "aipw"]}
ASYMPTOTIC = {"guarantees": ["finite_sample", "asymptotic"]}
# What a word of advice that leaves the column open stands for in the study of ``tests/studies.py``.
COLUMNS: dict[str, Any] = {
    "treatment": "treated",
    "outcome": {"name": "score"},
    "covariates": ["age"],
    "unit": "person",
}


def problems(folder: Path, study: dict[str, Any], contract: dict[str, Any]) -> list[str]:
    """What `check` tells of a study, line by line; a study that cannot be read at all is told in one."""
    folder.mkdir()
    path = write_study(folder / "s", frame=people(60), study=study, contract={**ALLOWED, **contract})
    try:
        told = [str(one) for one in check(path)]
    except StudyError as problem:
        told = [str(problem)]
    assert not any("\n" in one or "Input should" in one or "instance of" in one for one in told), told
    return told


# The change, and what the line says; of the contract where the change is.
MISTAKES: dict[str, tuple[str, dict[str, Any], str]] = {
    "an estimator by its name alone": ("study", {"estimator": "regression"}, "write estimator: {name: regression}"),
    "a misspelt estimator": ("study", {"estimator": {"name": "regresion"}}, "did you mean 'regression'?"),
    "an estimator of another tool": ("study", {"estimator": {"name": "psm"}}, "{name: auto} to leave the choice open"),
    "a misspelt key": ("study", {"treatmnt": "treated"}, "unknown key 'treatmnt', did you mean 'treatment'?"),
    "another word for a key": ("study", {"confounders": ["age"]}, "did you mean 'covariates'?"),
    "a key at the wrong place": ("study", {"epsilon": 1}, "it belongs below 'privacy'"),
    "a column that is not there": ("study", {"treatment": "treatd"}, "no column 'treatd', did you mean 'treated'; it"),
    "a number for a treatment": ("study", {"treatment": "age"}, "declared as {codes: {control: 0, treated: 1}}"),
    "a list for an outcome": ("study", {"outcome": ["score"]}, "must be a mapping of keys to values, as in outcome: {"),
    "a word for covariates": ("study", {"covariates": "age"}, "as in covariates: [COLUMN, COLUMN]"),
    "the outcome as a covariate": ("study", {"covariates": ["age", "score"]}, "'score' has two roles; take it out"),
    "a decimal comma": ("study", {"privacy": {"epsilon": "1,5"}}, "must be a decimal number, as 1.0 or 1e-6"),
    "a short epsilon": ("study", {"privacy": {"eps": 1}}, "did you mean 'epsilon'?"),
    "a wrong level": (
        "study",
        {"privacy": {"level": "labels"}},
        "one of 'sample', 'label' or 'training_units', did",
    ),
    "a wrong estimand": ("study", {"estimand": "ITT"}, "'estimand': must be one of 'ATE', 'ATT' or 'ATC'"),
    "percent": ("study", {"confidence": 95}, "'confidence': must be less than 1, as in confidence: 0.95"),
    "a percent sign": ("study", {"confidence": "95%"}, "'confidence': must be a number, as in confidence: 0.95"),
    "a name of two words": ("study", {"name": "my study"}, "must begin with a letter or digit"),
    "a level of its own": (
        "study",
        {"covariates": {"group": {"levels": ["a", "z"]}}},
        "'z' is no level in the contract",
    ),
    "more than the budget": (
        "study",
        {"privacy": {"epsilon": 50}},
        "it takes epsilon 50, and level sample, block all: ",
    ),
    "an estimator that is not allowed": (
        "study",
        {"estimator": {"name": "matching"}},
        "it allows ipw, regression, diff",
    ),
    "letters that changed places": ("study", {"covariates": ["aeg"]}, "no column 'aeg', did you mean 'age'; it has"),
    "an outcome model of no registry": (
        "study",
        {
            "estimator": {
                "name": "aipw",
                "penalty": ...,
                "guarantee": "asymptotic",
                "outcome_model": {"model": "slopes"},
            }
        },
        "Write below 'estimator', as in outcome_model: {model: kernel_ridge}",
    ),
    "no such folder": ("study", {"data": {"path": "nowhere"}}, "check 'data.path' of the study"),
    "a cap without keys": ("contract", {"caps": {"sample": 10}}, "as in sample: {epsilon: 10, delta: 1e-4}"),
    "a class of another tool": (
        "contract",
        {"data_class": "private"},
        "must be one of 'public', 'synthetic' or 'sensitive'",
    ),
    "min": ("contract", {"columns": {"age": {"min": 20}}}, "unknown key 'columns.age.min', did you mean 'lower'?"),
    "a list of codes": (
        "contract",
        {"columns": {"treated": {"codes": [0, 1]}}},
        "as in codes: {control: 0, treated: 1}",
    ),
    "one level": ("contract", {"columns": {"group": {"levels": ["a"]}}}, "must have at least 2 of them, and has 1"),
    "an unknown estimator": ("contract", {"estimators": ["psm"]}, "unknown estimator; one of: aipw"),
    "a column that is nothing": ("contract", {"columns": {"age": None}}, "a column is declared as {lower, upper}"),
    "a public column that is not there": ("contract", {"public": ["aeg"]}, "is no key of 'columns'; declare it there"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_that_says_what_to_write(name: str, tmp_path: Path) -> None:
    where, change, words = MISTAKES[name]
    told = problems(tmp_path / "wrong", *((change, ASYMPTOTIC) if where == "study" else ({}, change)))
    assert any(words in one for one in told), told


def test_a_list_that_is_too_short_for_a_wrong_item_is_told_once(tmp_path: Path) -> None:
    assert len(problems(tmp_path / "wrong", {}, {"estimators": ["psm"]})) == 1
    many = {"kind": "effect", "outcome": ..., "outcomes": [{"name": "score", "role": "main"}]}
    told = problems(tmp_path / "many", {**many, "estimator": {"name": "regression", "penalty": ...}}, {})
    assert len(told) == 1
    assert "'outcomes.0.role': must be one of 'primary', 'secondary', 'negative_control' or 'placebo'" in told[0]


MISSING = [
    *(("study", (key,)) for key in ("name", "treatment", "outcome", "privacy", "estimator", "kind")),
    ("study", ("privacy", "epsilon")),
    *(("contract", (key,)) for key in ("dataset", "data_class", "unit", "public", "caps")),
    ("contract", ("caps", "sample", "epsilon")),
    ("contract", ("columns", "age", "lower")),
    ("contract", ("columns", "age", "upper")),
    ("contract", ("columns", "treated", "codes", "treated")),
]


@pytest.mark.parametrize(("where", "place"), MISSING)
def test_a_missing_key_that_is_written_as_the_message_says_is_right(
    where: str, place: tuple[str, ...], tmp_path: Path
) -> None:
    lacks: Any = ...
    for key in reversed(place):
        lacks = {key: lacks}
    told = problems(tmp_path / "lacks", *((lacks, {}) if where == "study" else ({}, lacks)))
    (said,) = [one for one in told if f"'{'.'.join(place)}'" in one or f"'{place[-1]}.name'" in one]
    written = yaml.safe_load(
        said.partition("write " if "; write " in said else ", as in ")[2].partition(" to leave")[0]
    )
    assert list(written) == [place[-1]], said
    advice: Any = {place[-1]: COLUMNS.get(place[-1], written[place[-1]])}
    for key in reversed(place[:-1]):
        advice = {key: advice}
    base = merge(STUDY if where == "study" else CONTRACT, lacks)
    mended = merge(base, advice)
    # `write_study` lays changes over its own study: what the advice lacks must go.
    kept = mended if len(place) > 1 else {place[0]: mended[place[0]]}
    if place == ("estimator",):
        kept = {"estimator": {"penalty": ..., **mended["estimator"]}}
    told = problems(tmp_path / "mended", *((kept, {}) if where == "study" else ({}, kept)))
    assert not any(place[-1] in one and ("missing" in one or "must" in one or "unknown" in one) for one in told), told


@pytest.mark.parametrize("letter", ["\x1b[2J", "\b", "\x7f", "\x9b", "\u202e", "\u2066", "\u2028", "\ud800"])
@pytest.mark.parametrize("place", ["value", "key", "below"])
def test_what_a_screen_would_obey_is_refused_in_every_document(letter: str, place: str) -> None:
    document: dict[str, Any] = {"kind": "effect", "covariates": {}}
    document |= {"value": {"name": letter}, "key": {f"na{letter}me": 1}, "below": {"covariates": [{"a": letter}]}}[
        place
    ]
    with pytest.raises(StudyError, match=rf"holds the control character U\+{ord(letter[0]):04X}") as told:
        validate(EffectRelease, document, "release.json")
    assert letter not in str(told.value)


def test_a_person_may_write_lines_and_any_script_in_yaml() -> None:
    text = "purpose: |\n  one\n  two\nname: \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645\n"
    with pytest.raises(StudyError) as told:
        validate(EffectRelease, parse_yaml(text, "study.yaml"), "study.yaml")
    assert "control character" not in str(told.value)


def test_a_problem_has_its_place_and_none_is_told_that_follows_from_another(tmp_path: Path) -> None:
    """A rule of the whole contract stands at its own key; of a column whose declaration is wrong it says nothing."""
    path = write_study(tmp_path / "rule", contract={**ALLOWED, "public": ["nobody"]})
    (one,) = check(path)
    assert one.place == ("public",)
    lines = path.with_name("dataset.yaml").read_text().splitlines()
    assert one.line is not None
    assert lines[one.line - 1].startswith("public:")
    broken = {**ALLOWED, "public": ["age"], "columns": {"age": {"lower": "low", "upper": 60}}}
    path = write_study(tmp_path / "follows", contract=broken)
    assert [one.place for one in check(path)] == [("columns", "age", "lower")]
