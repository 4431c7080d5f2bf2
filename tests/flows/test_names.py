"""Names that are patterns to polars, in every part a column can play: the same answers as under plain names."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from causalveil.flows.api import run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import admit_folder
from causalveil.flows.run.check import check
from causalveil.flows.run.start import begin
from causalveil.flows.run.survey import survey
from causalveil.schemas.admission import NotAdmitted
from causalveil.schemas.contract import DataClass
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.start.roles import Wishes
from tests.studies import CONTRACT, STUDY, command, merge, people, write_study

ROOT = Path(__file__).parents[2]
PLAIN = ("person", "treated", "score", "age", "group", "day")
# Each matches other columns, all columns, or nothing; the last ones only look odd.
HOSTILE = ("^person$", "*", "^.*$", "^age$", "a.b[0]", "^(day|x)$")
ODD = ("p\\d", "^", "$", "a{2}", "group (m/w)", "day;--")


def renamed(value: Any, names: dict[str, str]) -> Any:
    """A document with other names of columns, as keys and as words."""
    if isinstance(value, dict):
        return {names.get(key, key): one if key == "codes" else renamed(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [renamed(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value


def visits() -> pl.DataFrame:
    """Two rows of each of 500 people, some without a day, some without an age."""
    frame = pl.concat([people(500).with_columns(day=pl.lit(day)) for day in (1, 2)])
    row = pl.int_range(pl.len())
    return frame.with_columns(
        day=pl.when(row % 7 > 0).then("day"), age=pl.when(row % 11 > 0).then("age"), group=pl.col("group")
    ).sample(fraction=1, shuffle=True, seed=1)


STUDIES: dict[str, dict[str, Any]] = {
    "effect": {},
    "label": {"estimator": {"name": "balancing", "penalty": ...}, "privacy": {"level": "label"}},
    "protocol": {
        "kind": "effect",
        "outcome": ...,
        "outcomes": [{"name": "score", "role": "primary"}],
        "covariates": {"age": {}, "group": ...},
        "subgroups": "group",
        "estimator": {"name": "regression", "penalty": ...},
        "privacy": {"epsilon": "8"},
    },
}  # fmt: skip


def study_in(folder: Path, names: dict[str, str], study: dict[str, Any], frame: pl.DataFrame, **contract: Any) -> Path:
    """The small study under other names of its columns."""
    owner = merge(CONTRACT, {"estimators": ..., "columns": {"age": {"nulls": "indicator"}}, **contract})
    asked = merge(STUDY, study)
    path = write_study(folder, frame=frame.rename(names), partitions=2)
    path.write_text(yaml.safe_dump(renamed(asked, names)))
    (folder / "dataset.yaml").write_text(yaml.safe_dump(renamed(owner, names)))
    return path


@pytest.mark.parametrize(
    ("kind", "words"), [("effect", HOSTILE), ("effect", ODD), ("label", HOSTILE), ("protocol", HOSTILE)]
)
def test_names_change_no_answer(kind: str, words: tuple[str, ...], tmp_path: Path) -> None:
    """Rows reduced by an order, nulls, levels, codes; the noise of a seed is the same under both names."""
    names = dict(zip(PLAIN, words, strict=True))
    rows = {"rows": {"keep": "last", "order": "day", "at_most": 2, "aggregates": {"age": "mean", "score": "mean"}}}
    plain = study_in(tmp_path / "plain", {}, STUDIES[kind], visits(), **rows)
    odd = study_in(tmp_path / "odd", names, STUDIES[kind], visits(), **rows)
    assert check(odd) == []
    releases = [run_study(path, simulate=1, engine="direct").release for path in (plain, odd)]
    assert releases[0].units == releases[1].units == 500
    told = [release.model_dump(include={"answers"}) for release in releases]
    # Covariates that could not be adjusted for are named, as in "age is missing": alike but for the name.
    for one, age in zip(told, ("age", names["age"]), strict=True):
        for answer in one.get("answers", ()):
            answer.pop("outcome")
            answer["confounding"].pop("sentence")
            left_out = [name.replace(age, "age") for name in answer["confounding"]["left_out"]]
            answer["confounding"]["left_out"] = left_out
    assert told[0] == told[1]


def test_what_is_wrong_is_told_of_the_right_column(tmp_path: Path) -> None:
    names = dict(zip(PLAIN, HOSTILE, strict=True))
    frame = people(50).with_columns(
        group=pl.when(pl.int_range(pl.len()) == 3).then(pl.lit("z")).otherwise("group"),
        age=pl.when(pl.int_range(pl.len()) == 4).then(pl.lit(float("inf"))).otherwise("age"),
    )
    path = study_in(tmp_path, {name: word for name, word in names.items() if name != "day"}, {}, frame)
    with pytest.raises(NotAdmitted) as caught:
        admit_folder(DataFolder(path.parent), DirectEngine())
    found = {one.column: one.rows for one in caught.value.findings}
    assert found == {names["age"]: 1, names["group"]: 1}


def test_init_reads_such_names_and_line_breaks(tmp_path: Path) -> None:
    """From CSV and from Parquet; a line break becomes a space, as the contract has it."""
    frame = people(120).with_columns(pl.col("treated").cast(pl.Int64)).drop("group")
    names = {"person": "^person$", "treated": "*", "score": "sco\nre", "age": "^age$"}
    frame = frame.rename(names).with_columns(pl.Series("re\r\ngion", [("n", "s")[place % 2] for place in range(120)]))
    frame.write_csv(tmp_path / "in.csv")
    frame.write_parquet(tmp_path / "in.parquet")
    for kind in ("csv", "parquet"):
        wishes = Wishes("odd", DataClass.synthetic, "^person$", "*", "sco re", epsilon="5")
        begun = begin(survey(str(tmp_path / f"in.{kind}")), wishes, tmp_path / kind, DirectEngine())
        assert begun.manifest is not None
        assert 'covariates: ["^age$", re gion]' in begun.draft.study
        assert check(tmp_path / kind / "study.yaml") == []
        assert run_study(tmp_path / kind / "study.yaml", simulate=1, engine="direct").release.units == 120


def test_ranges_of_such_names_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = people(400).rename({"age": "^age$", "person": "*"}).drop("group")
    folder = tmp_path / "data"
    folder.mkdir()
    frame.write_parquet(folder / "a.parquet")
    (folder / "dataset.yaml").write_text(
        'dataset: odd\ndata_class: synthetic\nunit: "*"\npublic: []\ncolumns:\n'
        "  treated: {codes: {control: 0, treated: 1}}\n"
        'open_ranges:\n  "^age$": {}\n  score: {}\ncaps: {sample: {epsilon: 10, delta: 1.0e-4}}\n'
    )
    assert command("ranges", folder, "--epsilon", "2", "--write") == 0, capsys.readouterr().err
    assert '"^age$": {lower:' in (folder / "dataset.yaml").read_text()


# Names that this program gives itself.
OWN = ("flows/plan",)


def test_no_name_of_a_person_reaches_polars_as_a_pattern() -> None:
    """`pl.col` and `select`, `sort` and their kin take names that stand in the program; others go through `named`."""
    wrong = []
    for floor in ("flows", "tasks", "schemas"):
        for path in sorted((ROOT / floor).rglob("*.py")):
            place = str(path.relative_to(ROOT))
            if place.startswith(OWN):
                continue
            text = path.read_text()
            if "polars" not in text:
                continue
            wrong += [f"{place}:{line}" for line in _names_as_patterns(ast.parse(text))]
    assert not wrong, f"use tasks/machine/arrays.py: {', '.join(wrong)}"


def _names_as_patterns(tree: ast.AST) -> list[int]:
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        of = node.func.value
        by_polars = isinstance(of, ast.Name) and of.id == "pl" and node.func.attr == "col"
        if by_polars and not all(isinstance(one, ast.Constant) for one in node.args):
            found.append(node.lineno)
        on_frame = isinstance(of, ast.Name) and of.id in ("frame", "ordered", "lazy", "rows", "held")
        if on_frame and node.func.attr in ("select", "sort", "drop", "drop_nulls", "unique", "group_by", "filter"):
            bare = [
                one
                for one in node.args
                if isinstance(one, ast.List | ast.JoinedStr)
                or (isinstance(one, ast.Attribute) and not one.attr.startswith("_"))
            ]
            found += [node.lineno for _ in bare]
    return found


def test_the_rule_finds_what_it_forbids() -> None:
    bad = ["pl.col(name)", "pl.col(one.name)", "frame.select([unit])", "frame.sort(study.unit)", "pl.col(*names)"]
    good = ['pl.col("text")', "named(name)", "frame.sort(*map(named, keys))", "frame[[unit]]"]
    assert [bool(_names_as_patterns(ast.parse(one))) for one in (*bad, *good)] == [True] * 5 + [False] * 4
