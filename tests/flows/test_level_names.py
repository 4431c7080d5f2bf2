"""Names of levels: the owner declares them, people read them, and nothing that is computed changes."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from causalveil.flows.api import run_study
from causalveil.schemas.admission import declarations
from causalveil.schemas.asked.compare import asks_for
from causalveil.schemas.asked.resolve import resolve
from causalveil.schemas.asked.study_file import load_study_file, parse_study_file
from causalveil.schemas.columns import CategoricalCovariate
from causalveil.schemas.contract import Contract, parse_contract
from causalveil.schemas.declared import LevelsColumn
from causalveil.schemas.errors import ContractError, StudyError
from causalveil.schemas.release import EffectRelease
from causalveil.tasks.data.covariates import feature_names
from causalveil.tasks.report.page import head_html, report_html
from tests.studies import command, people, resolved, write_study

NAMES = {"never": 1, "former": 2, "current": 3}
OWNER = """
dataset: d
data_class: synthetic
unit: id
columns:
  t: {{codes: {{control: 0, treated: 1}}}}
  y: {{lower: 0, upper: 1}}
  smoke: {0}
public: []
caps: {{sample: {{epsilon: 10, delta: 1e-4}}}}
"""


def owner(column: str) -> Contract:
    return parse_contract(OWNER.format(column), "dataset.yaml")


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("{levels: {never: 1, former: 1}}", "code '1' has two names, 'never' and 'former'; write one"),
        ("{levels: {never: 1, never: 2}}", "key 'never' stands twice"),
        ('{levels: {"": 1, b: 2}}', "the name of code '1' is empty"),
        ('{levels: {"  ": 1, b: 2}}', "the name of code '1' is empty"),
        (f"{{levels: {{{'x' * 201}: 1, b: 2}}}}", "has 201 characters; at most 200"),
        ('{levels: {Never: 1, "ne ver": 2}}', "the names 'Never' and 'ne ver' differ in case or blanks only"),
        ('{levels: {"2": 1, b: 2}}', "'2' is the name of code '1' and another code as well"),
        ("{levels: {F: M, female: F}}", "'F' is the name of code 'M' and another code as well"),
        ("{levels: {1: never, 2: former}}", "a code stands behind its name, as in {never: 1}"),
        ('{levels: {"1": never, "2": former}}', "names stand before their codes; turn each round, as in {never: 1}"),
        ('{levels: {"a\\u009b2J": 1, b: 2}}', "holds the control character U+009B"),
        ('{levels: {"a\\u001b[2J": 1, b: 2}}', "holds the control character U+001B"),
        ('{levels: {"a\\u202eb": 1, b: 2}}', "holds the control character U+202E"),
        ('{levels: {"a ": 1, b: 2}}', "'a ' begins or ends with a blank"),
        ("{levels: {no: false, yes: true}}", "a level is text or a whole number; of truth values write 0 and 1"),
        ("{levels: {Other: 1, b: 2}, others: other}", "as undeclared values would; rename it"),
        ("{levels: {only: 1}}", "must have at least 2"),
        # Names of events are held to the same rule.
        ("{event: {alive: 0, Alive: 1}}", "the names 'alive' and 'Alive' differ in case or blanks only"),
        ("{event: {alive: 0, dead: 0}}", "code '0' has two names, 'alive' and 'dead'"),
    ],
)
def test_names_that_readers_could_not_tell_apart_are_refused(column: str, said: str) -> None:
    with pytest.raises(ContractError, match=r"^dataset\.yaml") as refusal:
        owner(column)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert str(refusal.value).isprintable()


def test_names_are_the_owners_word_and_no_reason_to_check_rows_again() -> None:
    plain, named = owner("{levels: [1, 2, 3]}"), owner("{levels: {never: 1, former: 2, current: 3}}")
    assert plain.digest != named.digest
    assert declarations(plain) == declarations(named)
    assert declarations(named) != declarations(owner("{levels: {never: 1, former: 3, current: 2}}"))


def smokers(n: int) -> pl.DataFrame:
    random = np.random.default_rng(5)
    frame = people(n)
    return frame.with_columns(
        smoke=pl.Series(random.integers(1, 4, n)),
        sex=pl.Series(random.choice(["M", "F"], n)),
        dose=pl.Series(random.integers(0, 3, n)),
    )


PLAIN: dict[str, Any] = {"smoke": {"levels": [1, 2, 3]}, "sex": {"levels": ["M", "F"]}, "dose": {"levels": [0, 1, 2]}}
NAMED: dict[str, Any] = {
    "smoke": {"levels": NAMES},
    "sex": {"levels": {"male": "M", "female": "F"}},
    "dose": {"levels": {"placebo": 0, "low": 1, "high": 2}},
}


def study_in(folder: Path, columns: dict[str, Any], n: int = 600, **study: Any) -> Path:
    contract = {
        "columns": columns,
        "estimators": ["regression", "difference_in_means", "balancing", "ipw", "matching"],
        "caps": {"sample": {"epsilon": 1000, "delta": "1e-2"}},
        "public": ["treated", "age", "group", *columns],
    }
    return write_study(folder, frame=smokers(n), study=study, contract=contract)


@pytest.mark.parametrize(
    "asked",
    [
        {"estimator": {"name": "regression", "penalty": ...}},
        {"estimator": {"name": "ipw", "penalty": 0.1}},
        {
            "estimator": {"name": "balancing", "penalty": ...},
            "privacy": {"epsilon": "1.0", "delta": "0", "level": "label"},
        },
    ],
    ids=["regression", "ipw", "balancing"],
)
def test_names_change_no_bit_of_an_answer(tmp_path: Path, asked: dict[str, Any]) -> None:
    covariates = {"covariates": {"age": {}, "smoke": {}, "sex": {}, "group": ...}}
    found = []
    for name, columns in (("plain", PLAIN), ("named", NAMED)):
        path = study_in(tmp_path / name, columns, **asked, **covariates)
        outcome = run_study(path, out=tmp_path / name / "out", simulate=7)
        found.append((resolved(path), outcome.release))
    (plain, one), (named, other) = found
    assert (one.estimate, one.interval) == (other.estimate, other.interval)
    assert [name for name in feature_names(plain) if "=" in name] == ["sex=M", "sex=F", "smoke=1", "smoke=2", "smoke=3"]
    labels = ["sex=male", "sex=female", "smoke=never", "smoke=former", "smoke=current"]
    assert [name for name in feature_names(named) if "=" in name] == labels
    page = report_html(other)
    assert "never (1), former (2), current (3)" in page
    assert "male (M), female (F)" in page


PROTOCOL: dict[str, Any] = {
    "kind": "effect",
    "outcome": ...,
    "outcomes": [{"name": "score", "role": "primary"}],
    "subgroups": {"name": "smoke", "levels": ["never", "current"]},
    "covariates": {"age": {}, "sex": {}, "group": ...},
    "where": [{"column": "sex", "op": "==", "value": "female"}],
    "estimator": {"name": "regression", "penalty": ...},
    "privacy": {"epsilon": "50", "delta": "1e-6"},
}


def test_people_read_names_wherever_a_subgroup_stands(tmp_path: Path) -> None:
    path = study_in(tmp_path / "data", NAMED, 3_000, **PROTOCOL)
    study = resolved(path)
    assert study.subgroups.column.levels == (1, 3)
    assert study.where[0].values == ("F",)
    assert study.where[0].words == "sex == female"
    release = run_study(path, out=tmp_path / "out", simulate=3).release
    assert isinstance(release, EffectRelease)
    # Keys of the release are codes, which sites and series compare.
    assert {one.group for one in release.answers} == {"all units", "1", "3", "other"}
    page = report_html(release)
    for text in (page, head_html(release), str(release)):
        assert "never" in text
        assert "smoke = 1" not in text
    assert "sex == female" in page
    rows = list(csv.DictReader((tmp_path / "out" / "answers.csv").open()))
    assert {row["group"] for row in rows} == {"all units", "never", "current", "other"}
    assert asks_for(load_study_file(path), study)


def test_an_arm_is_named(tmp_path: Path) -> None:
    arms = PROTOCOL | {
        "treatment": "dose",
        "arms": {"reference": "placebo"},
        "subgroups": ...,
        "where": ...,
        "covariates": [],
        "estimator": {"name": "difference_in_means", "penalty": ..., "trial": True},
    }
    path = study_in(tmp_path / "data", NAMED, 3_000, **arms)
    study = resolved(path)
    assert (study.arms.reference, study.arm_names) == (0, ("0", "1", "2"))
    assert study.question == "ATE of 1 outcome, 2 arms against 'placebo'"
    release = run_study(path, out=tmp_path / "out", simulate=3).release
    page = report_html(release)
    assert "low against placebo" in page
    assert "dose = 1" not in page
    rows = list(csv.DictReader((tmp_path / "out" / "answers.csv").open()))
    assert {(row["arm"], row["reference"]) for row in rows} == {("low", "placebo"), ("high", "placebo")}
    assert asks_for(load_study_file(path), study)


def test_a_name_can_do_no_harm_in_a_page_or_a_spreadsheet(tmp_path: Path) -> None:
    names = {"<script>alert(1)</script>": 1, "=1+1": 2, "[red]x[/red]": 3}
    asked = PROTOCOL | {"subgroups": "smoke", "where": ...}
    path = study_in(tmp_path / "data", NAMED | {"smoke": {"levels": names}}, 3_000, **asked)
    release = run_study(path, out=tmp_path / "out", simulate=3).release
    page = report_html(release)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "[red]x[/red]" in str(release)
    cells = [row["group"] for row in csv.DictReader((tmp_path / "out" / "answers.csv").open())]
    assert "'=1+1" in cells
    assert not any(cell.startswith("=") for cell in cells)


def test_a_level_that_no_name_is_of_is_refused_with_the_nearest(tmp_path: Path) -> None:
    contract = owner("{levels: {never: 1, former: 2, current: 3}}")
    asked: dict[str, Any] = {
        "kind": "effect",
        "name": "s",
        "treatment": "t",
        "outcomes": [{"name": "y", "role": "primary"}],
        "covariates": [],
        "subgroups": {"name": "smoke", "levels": ["never", "formr"]},
        "estimator": {"name": "difference_in_means", "trial": True},
        "privacy": {"epsilon": 1, "delta": "1e-6"},
    }
    with pytest.raises(StudyError, match="'subgroups': 'formr' is no level in the contract, did you mean 'former'"):
        resolve(parse_study_file(asked, "study.yaml"), contract)
    del asked["subgroups"]
    asked["where"] = [{"column": "smoke", "op": "==", "value": "formr"}]
    with pytest.raises(StudyError, match="'formr' is none of what the contract declares: 'never', 'former', 'current'"):
        resolve(parse_study_file(asked, "study.yaml"), contract)


def test_values_that_are_no_level_are_told_from_a_level_of_that_name() -> None:
    names = ("white", "black", "Other")
    found = CategoricalCovariate(levels=(1, 2), names=names[1:], others="other", known=(1, 2, 3))
    assert found.labels == {"1": "black", "2": "Other", "other": "any other value"}


def drafting(folder: Path, frame: pl.DataFrame, *options: str) -> int:
    """Let `init` draft a contract of a table."""
    frame.write_csv(folder / "t.csv")
    where = (str(folder / "t.csv"), "--out", str(folder / "out"))
    roles = ("--unit", "person", "--treatment", "treated", "--outcome", "score")
    return command("init", *where, "--data-class", "synthetic", *roles, *options)


def drafted(folder: Path, name: str) -> LevelsColumn:
    column = parse_contract((folder / "out" / "dataset.yaml").read_text(), "dataset.yaml").columns[name]
    assert isinstance(column, LevelsColumn)
    return column


def test_init_takes_names_of_levels(tmp_path: Path) -> None:
    named = ("--levels", "smoke=never:1,ex smoker:2,no answer:3", "--levels", "sex=female:F,male:M")
    assert drafting(tmp_path, smokers(200), *named, "--subgroups", "smoke", "--covariates", "age,sex") == 0
    smoke = drafted(tmp_path, "smoke")
    # No row holds another value, so that `other` would be a level of nobody.
    assert (smoke.levels, str(smoke.others)) == ({"never": 1, "ex smoker": 2, "no answer": 3}, "refuse")
    assert drafted(tmp_path, "sex").levels == {"female": "F", "male": "M"}


def test_a_draft_names_other_values_where_there_are_some_or_rows_must_not_tell(tmp_path: Path) -> None:
    assert drafting(tmp_path, smokers(200), "--levels", "smoke=never:1,former:2", "--covariates", "age,smoke") == 0
    assert str(drafted(tmp_path, "smoke").others) == "other"
    for name, said in (("whole", "smoke=1,2,3"), ("part", "smoke=1,2")):
        (tmp_path / name).mkdir()
        secret = ("--data-class", "sensitive", "--range", "age=18:99", "--range", "score=0:10", "--levels", said)
        assert drafting(tmp_path / name, smokers(200), *secret, "--covariates", "age,smoke") == 0
        assert str(drafted(tmp_path / name, "smoke").others) == "other"


@pytest.mark.parametrize("data_class", ["synthetic", "sensitive"])
@pytest.mark.parametrize(
    ("options", "held"),
    [
        (("--where", "smoke == Former"), {"column": "smoke", "op": "==", "value": "former"}),
        (("--where", "smoke != 3"), {"column": "smoke", "op": "!=", "value": "current"}),
        (("--where", "smoke in never, former"), {"column": "smoke", "op": "in", "values": ["never", "former"]}),
        (("--where", "sex == female"), {"column": "sex", "op": "==", "value": "female"}),
        (("--where", "dose in 0, 1"), {"column": "dose", "op": "in", "values": [0, 1]}),
    ],
)
def test_a_condition_is_of_the_names_that_levels_were_given(
    options: tuple[str, ...], held: dict[str, Any], data_class: str, tmp_path: Path
) -> None:
    named = (
        "--levels",
        "smoke=never:1,former:2,current:3",
        "--levels",
        "sex=female:F,male:M",
        "--levels",
        "dose=0,1,2",
    )
    ranges = ("--range", "age=18:99", "--range", "score=0:10", "--levels", "group=a,b,c")
    secret = ("--data-class", data_class, *ranges[: None if data_class == "sensitive" else 0])
    assert drafting(tmp_path, smokers(300), *named, *options, "--subgroups", "group", *secret) == 0
    study = yaml.safe_load((tmp_path / "out" / "study.yaml").read_text())
    assert study["where"] == [held]
    # All who are eligible have the one value of an equality: there is nothing to adjust for.
    assert (held["column"] in study["covariates"]) == (held["op"] != "==")
    assert command("check", str(tmp_path / "out" / "study.yaml")) in (0, 2)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("smoke == formr", "'formr' is no level of column 'smoke'; there are 'never', 'former', 'current'"),
        ("smoke >= 2", "the values of 'smoke' have no order; use == or in"),
    ],
)
def test_a_condition_of_no_level_is_refused_with_their_names(
    condition: str, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    named = ("--levels", "smoke=never:1,former:2,current:3", "--where", condition)
    assert drafting(tmp_path, smokers(200), *named) == 2
    assert said in " ".join(capfd.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_names_of_levels_say_which_arm_is_the_reference_and_what_was_censored(tmp_path: Path) -> None:
    arms = ("--arms", "--treatment", "dose", "--reference", "placebo", "--levels", "dose=placebo:0,low:1,high:2")
    assert drafting(tmp_path, smokers(200), *arms) == 0
    assert "arms: {reference: 0}" in (tmp_path / "out" / "study.yaml").read_text()
    (tmp_path / "times").mkdir()
    frame = smokers(400).with_columns(days=pl.Series(range(1, 401)), ended=pl.col("dose") + 1)
    times = ("--outcome", "days", "--event", "ended", "--horizon", "300", "--trial", "--censored", "Lost")
    assert drafting(tmp_path / "times", frame, *times, "--levels", "ended=lost:1,death:2,relapse:3") == 0
    event = yaml.safe_load((tmp_path / "times" / "out" / "dataset.yaml").read_text())["columns"]["ended"]
    assert event == {"event": {"lost": 1, "death": 2, "relapse": 3}, "censored": "lost"}


def test_init_takes_names_of_two_numbers_and_of_arms(tmp_path: Path) -> None:
    frame = smokers(200).with_columns(pl.col("smoke") % 2)
    assert drafting(tmp_path, frame, "--levels", "smoke=no:0,yes:1") == 0
    assert drafted(tmp_path, "smoke").levels == {"no": 0, "yes": 1}
    named = ("--arms", "--treatment", "dose", "--reference", "0", "--levels", "dose=placebo:0,low:1,high:2")
    (tmp_path / "arms").mkdir()
    assert drafting(tmp_path / "arms", frame, *named) == 0
    assert drafted(tmp_path / "arms", "dose").levels == {"placebo": 0, "low": 1, "high": 2}


def test_a_colon_that_is_the_levels_own_names_nothing(tmp_path: Path) -> None:
    sex = pl.when(pl.col("age") > 40).then(pl.lit("a:b")).otherwise(pl.lit("c:d"))
    assert drafting(tmp_path, smokers(200).with_columns(sex=sex), "--levels", "sex=a:b,c:d") == 0
    assert drafted(tmp_path, "sex").levels == ("a:b", "c:d")


def test_init_refuses_one_name_of_two_levels(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert drafting(tmp_path, smokers(200), "--levels", "smoke=a:1,a:2") == 2
    assert "two levels of column 'smoke' have one name" in capfd.readouterr().err


def test_check_prints_the_names(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = study_in(tmp_path, NAMED, covariates={"age": {}, "smoke": {}, "group": ...})
    assert command("check", str(path), "--schema", "--json") == 0
    assert "names: never (1), former (2), current (3)" in capfd.readouterr().out
