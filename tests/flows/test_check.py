"""`causalveil check` lists every mistake at once, each with its line; what it does not list, a run does not meet."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import polars as pl
import pytest

from causalveil.flows.cli.main import main
from causalveil.flows.run.check import check
from causalveil.schemas.admission import Rule
from tests.studies import command, write_study

ROOT = Path(__file__).parents[2]
CONTRACT = """\
dataset: small
data_class: public
unit: person
columns:
  treated: {codes: {control: 0, treated: 0}}
  age: {lower: 90, upper: 18}
  group: {levels: [a, b]}
  score: {lower: 0, upper: 1}
  wage: {lower: 0}
  heigth: {lower: 0, upper: 2, uper: 3}
public: [group, treatd]
caps:
  sample: {epsilon: 0.5, delta: 1.0e-5}
review: required
"""
STUDY = """\
kind: effect
name: small
treatment: group
outcome: {name: scor}
covariates:
  - age
  - weight
estimator: {name: ipw, clip: [0, 1]}
privacy: {epsilon: 1.0, delta: 1.0e-6}
confidence: 95
"""


def lines(folder: Path) -> list[str]:
    return [str(problem).replace(f"{folder}/", "") for problem in check(folder / "study.yaml")]


def write(folder: Path, contract: str, study: str) -> None:
    (folder / "dataset.yaml").write_text(contract)
    (folder / "study.yaml").write_text(study)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('"\\e[2Jkey": 1', "holds the control character U+001B; write plain text"),
        ('"a\\u202eb": 1', "holds the control character U+202E; write plain text"),
        ('data: {path: "a\\0b"}', "'data.path': holds the control character U+0000; write plain text"),
    ],
)
def test_what_a_terminal_or_a_file_system_would_take_otherwise_is_said_in_one_line(
    written: str, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_study(tmp_path)
    text = path.read_text()
    kept = [
        one for one in text.splitlines() if not (written.startswith("data") and one.startswith(("data:", "  path:")))
    ]
    path.write_text("\n".join([*kept, written]) + "\n")
    for word in ("check", "plan"):
        assert command(word, path) == 2
        told = capfd.readouterr()
        assert said in " ".join((told.out + told.err).split()).replace("\\\\", "\\")
        assert all(letter.isprintable() or letter == "\n" for letter in told.out + told.err)


def test_every_mistake_of_both_files_is_listed_with_its_line(tmp_path: Path) -> None:
    write(tmp_path, CONTRACT, STUDY)
    found = lines(tmp_path)
    expected = [
        "study.yaml:8: 'estimator.clip': ",
        "study.yaml:10: 'confidence': ",
        "dataset.yaml:5: 'columns.treated.codes': control and treated must have different codes",
        "dataset.yaml:6: 'columns.age': lower must be below upper",
        "dataset.yaml:9: missing key 'columns.wage.upper'",
        "dataset.yaml:10: unknown key 'columns.heigth.uper', did you mean 'upper'?",
        ": 'public' names 'treatd', which is no key",
        "'review: required' needs 'owner_key'",
    ]
    for one in expected:
        assert any(one in line for line in found), (one, found)
    assert all("\n" not in line for line in found)


def test_contradictions_between_the_files_have_the_line_of_the_study(tmp_path: Path) -> None:
    contract = (
        CONTRACT.replace("treated: 0}", "treated: 1}")
        .replace("lower: 90", "lower: 0")
        .replace("  wage: {lower: 0}\n", "")
        .replace(", uper: 3", "")
        .replace("treatd", "treated")
        .replace("review: required\n", "open_ranges: {weight: {}}\n")
    )
    study = STUDY.replace(", clip: [0, 1]", "").replace("95", "0.95")
    write(tmp_path, contract, study)
    assert [line.split(": ", 2)[:2] for line in lines(tmp_path)] == [
        ["study.yaml:3", "'treatment'"],
        ["study.yaml:4", "'outcome'"],
        ["study.yaml:7", "'covariates.weight'"],
    ]
    assert "leaves the range of 'weight' open" in lines(tmp_path)[2]


def test_types_in_the_footers_and_the_budget_are_looked_at(tmp_path: Path) -> None:
    contract = (
        CONTRACT[: CONTRACT.index("  wage")].replace("treated: 0}", "treated: 1}").replace("lower: 90", "lower: 0")
    )
    contract += "public: []\ncaps: {sample: {epsilon: 0.5, delta: 1.0e-5}}\n"
    study = (
        STUDY.replace("treatment: group", "treatment: treated").replace("scor}", "score}").replace("  - weight\n", "")
    )
    write(tmp_path, contract, study.replace(", clip: [0, 1]", "").replace("confidence: 95", "confidence: 0.95"))
    assert "no Parquet file" in " ".join(lines(tmp_path))
    frame = pl.DataFrame({"person": [1, 2, 3, 4], "treated": [0, 1, 0, 1], "age": ["ancient", "young", "1", "2"]})
    frame.write_parquet(tmp_path / "part.parquet")
    found = " ".join(lines(tmp_path))
    assert "column 'score' is missing" in found
    assert "column 'age' must be" in found
    assert "would be refused for lack of budget" in found
    assert "ancient" not in found, "no row is read"


def test_a_key_in_another_spelling_is_missing_and_unknown(tmp_path: Path) -> None:
    """A mapping that lacks a key goes as a whole, and with it the places of its other mistakes."""
    path = write_study(tmp_path, study={"outcome": {"name": ..., "nme": "score", "lowr": 1}})
    told = "\n".join(map(str, check(path)))
    assert "missing key 'outcome.name'" in told
    assert "unknown key 'outcome.nme'" in told


def test_no_file_and_no_yaml_are_one_problem_each(tmp_path: Path) -> None:
    assert lines(tmp_path) == ["study.yaml: no such file", f"dataset.yaml: no contract; {WHO}"]
    write(tmp_path, "a: [", "kind: effect\nkind: effect")
    assert len(lines(tmp_path)) == 2


WHO = "the data's owner must put one beside the data before anything runs"


@pytest.mark.parametrize(
    "study", sorted(ROOT.glob("data/*/study*.yaml")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_nothing_is_wrong_with_what_is_shipped(study: Path) -> None:
    problems = check(study)
    assert problems == [] or study.parent.name == "sites", [str(one) for one in problems]


def test_the_schema_of_the_contract_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every column that the contract declares, with the rules that admission holds it to; no file of rows is needed."""
    path = write_study(tmp_path, partitions=0)
    told = []
    for words in (["--schema", "--json"], ["--schema"]):
        assert command("check", path, *words) == 0
        told.append(capsys.readouterr().out)
    columns = json.loads(told[0])["columns"]
    assert set(columns) == {"person", "treated", "score", "age", "group"}
    assert columns["age"][0] == Rule.number_type
    assert columns["age"][1:] == [Rule.null_covariate, Rule.finite]
    assert columns["treated"][1:] == [Rule.null_code, Rule.binary]
    assert columns["group"][1:] == [Rule.null_covariate, Rule.level]
    assert "DataFrameSchema" in json.loads(told[0])["pandera"]
    assert all(name in told[1] for name in columns)


def test_a_grant_of_another_contract_is_found(tmp_path: Path) -> None:
    """A second draft of one table names its dataset as well, and a run under it would be refused."""
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        write(folder, *granted_files())
        pl.DataFrame(
            {"person": range(400), "treated": [0, 1] * 200, "score": [0.2, 0.4, 0.6, 0.8] * 100}
        ).write_parquet(folder / "part.parquet")
    second = folders[1] / "dataset.yaml"
    second.write_text(second.read_text().replace("upper: 1}", "upper: 2}"))
    assert [check(folder / "study.yaml") for folder in folders] == [[], []]
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["ledger", "grant", str(folders[0] / "dataset.yaml"), "--reason", "the first draft"])
    assert check(folders[0] / "study.yaml") == []
    (told,) = map(str, check(folders[1] / "study.yaml"))
    assert "the grant of 'small' is for another contract" in told
    advised = told.split("grants this one by: causalveil ")[1]
    with pytest.raises(SystemExit, match=r"^0$"):
        main(shlex.split(advised))
    assert check(folders[1] / "study.yaml") == []


def granted_files() -> tuple[str, str]:
    contract = CONTRACT[: CONTRACT.index("  age")].replace("treated: 0}", "treated: 1}")
    contract += "  score: {lower: 0, upper: 1}\npublic: []\ncaps: {sample: {epsilon: 5, delta: 1.0e-5}}\n"
    study = (
        STUDY[: STUDY.index("covariates")].replace("treatment: group", "treatment: treated").replace("scor}", "score}")
    )
    study += "covariates: []\nestimator: {name: difference_in_means, trial: true}\n"
    return contract, study + "privacy: {epsilon: 1.0, delta: 1.0e-6}\nconfidence: 0.95\n"


def test_a_coordinators_study_is_checked_by_itself(capfd: pytest.CaptureFixture[str]) -> None:
    """No contract lies beside it: `check` says what to type, and what it says is true."""
    for name in ("study.yaml", "study-protocol.yaml"):
        path = ROOT / "data" / "sites" / name
        assert command("check", path) == 2
        told = capfd.readouterr().out
        said = f"To check a coordinator's study by itself: causalveil check --sites {path}"
        assert said in told
        assert command(*said.partition("causalveil ")[2].split(" ")) == 0
        assert "nothing is wrong" in capfd.readouterr().out


def test_a_study_that_no_coordinator_could_pool_is_told_of_its_contract_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_study(tmp_path / "study", study={"covariates": ["age"]})
    path.with_name("dataset.yaml").unlink()
    assert command("check", path) == 2
    told = capfd.readouterr().out
    assert "no contract; the data's owner must put one beside the data" in told
    assert "--sites" not in told
    assert command("check", path, "--sites") == 2
    assert "the study must declare the range of 'age'" in " ".join(capfd.readouterr().out.split())
