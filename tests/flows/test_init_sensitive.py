"""Drafts of sensitive data are the same whatever rows hold, and their owner alone is told what these would add."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.check import check
from causalveil.flows.run.start import Begun, begin
from causalveil.flows.run.survey import numbered, survey
from causalveil.schemas.contract import DataClass, load_contract
from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.tasks.start.roles import Wishes
from tests.studies import command

pytestmark = pytest.mark.usefixtures("as_command")

N = 40
RANDOM = np.random.default_rng(5)
TABLE = pl.DataFrame(
    {
        "id": [f"p{one}" for one in range(N)],
        "arm": ["no", "yes"] * (N // 2),
        "cost": RANDOM.normal(50, 9, N).round(1),
        "age": RANDOM.integers(20, 80, N),
        "sex": ["F", "M", "M", "F"] * (N // 4),
        "ward": RANDOM.integers(1, 5, N),
        "smokes": RANDOM.integers(0, 2, N),
        "weight": RANDOM.normal(70, 9, N).round(1),
        "note": [f"seen by {one}" for one in "AB" * (N // 2)],
        "status": [0, 1] * (N // 2),
    }
)
SAID: dict[str, Any] = {
    "ranges": {"age": (0.0, 110.0), "cost": (0.0, 100.0), "weight": (30.0, 200.0)},
    "levels": {"sex": ("female", "male"), "ward": ("1", "2", "3", "4"), "smokes": ("0", "1")},
}
WISHES: dict[str, dict[str, Any]] = {
    "all said": SAID,
    "one never missing": SAID | {"never_missing": ("Age",)},
    "numbers whose range is open": {"covariates": ("age", "weight")},
    "a trial of which little is said": {"trial": True},
    "a condition and groups": SAID | {"where": ("age >= 25",), "subgroups": "ward", "covariates": ("weight",)},
    "times": SAID | {"outcome": "cost", "event": "status", "horizon": 50.0, "covariates": ("age",)},
    "having an outcome is public": SAID | {"recorded": ("cost",)},
    "copies are allowed": SAID | {"last_by": "age"},
    "each row": SAID | {"unit": "row"},
}
# Of the last person alone; what text says in a CSV, and what a typed column can hold.
CHANGES: dict[str, dict[str, Any]] = {
    "nothing recorded": dict.fromkeys(set(TABLE.columns) - {"id"}),
    "no id": {"id": None},
    "a third treatment": {"arm": "perhaps"},
    "treatment in other words": {"arm": "TRUE"},
    "an extreme outcome": {"cost": 1e9},
    "a small negative outcome": {"cost": -0.001},
    "a code of no value": {"age": 999},
    "an id in a number": {"age": 1_700_000_000},
    "another level": {"sex": "divers"},
    "a level in other words": {"sex": "Weiblich"},
    "another ward": {"ward": 77},
    "a third value of two": {"smokes": 2},
    "a note with an accent and a quote": {"note": 'Hôtel; "quoted", O\'Brien'},
    "a note that is a number": {"note": "12"},
    "a note that is a total": {"id": "Total", "note": None},
    "a third status": {"status": 2},
    "the id of another": {"id": "p1"},
    "a copy of another": TABLE.row(1, named=True),
}
WORDS: dict[str, dict[str, str]] = {
    "half a year": {"age": "20.5", "ward": "1.0"},
    "a word for no value": {"age": "n/a", "weight": "NULL"},
    "an unknown age": {"age": "unknown"},
    "a currency": {"cost": "$12.50"},
    "a decimal comma": {"weight": "70,5"},
    "a date": {"note": "2025-01-31"},
    "spaces": {"arm": " yes ", "sex": " F"},
}


def drafted(folder: Path, frame: pl.DataFrame, ending: str, wishes: dict[str, Any]) -> Begun:
    folder.mkdir(parents=True)
    path = folder / f"in.{ending}"
    if ending == "csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    asked = {"unit": "id", "treatment": "arm", "outcome": "cost"} | wishes
    seen = survey(str(path))
    seen = numbered(seen) if asked["unit"] == "row" else seen
    return begin(seen, Wishes("people", DataClass.sensitive, **asked), folder / "out", DirectEngine())


def written(folder: Path) -> dict[str, bytes]:
    """Every file that may leave the owner."""
    return {path.name: path.read_bytes() for path in sorted((folder / "out").glob("*.yaml"))}


def with_last(change: dict[str, Any], *, text: bool) -> pl.DataFrame:
    last = TABLE.row(-1, named=True) | change
    if not text:
        return pl.concat([TABLE[:-1], pl.DataFrame([last], schema=TABLE.schema)])
    words = TABLE.cast(pl.String)
    row = {name: None if value is None else str(value) for name, value in last.items()}
    return pl.concat([words[:-1], pl.DataFrame([row], schema=words.schema)])


def refused_among(changes: dict[str, dict[str, Any]], ending: str, wishes: dict[str, Any], tmp_path: Path) -> set[str]:
    """Draft from each changed table: which are refused before a file is written; the files of all others are equal."""
    drafted(tmp_path / "whole", TABLE, ending, wishes)
    whole = written(tmp_path / "whole")
    assert set(whole) == {"dataset.yaml", "study.yaml", "source.yaml"}
    refused = set()
    for name, change in changes.items():
        folder = tmp_path / name
        try:
            drafted(folder, with_last(change, text=ending == "csv"), ending, wishes)
        except CausalveilError:
            refused.add(name)
        assert written(folder) == ({} if name in refused else whole), name
    return refused


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_one_row_decides_no_byte_of_a_draft(ending: str, tmp_path: Path) -> None:
    """Whatever the last person's row holds, the files are the same, or their owner is told before one is written."""
    changes = CHANGES | (WORDS if ending == "csv" else {})
    refused = refused_among(changes, ending, WISHES["all said"], tmp_path)
    assert refused >= {"a third treatment", "a third value of two", "the id of another"}
    told = {"a third treatment", "a third value of two", "the id of another", "a copy of another"}
    assert refused <= told | {"a note that is a total", *WORDS}


@pytest.mark.parametrize("said", list(WISHES)[1:])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_one_row_decides_no_byte_of_another_draft(ending: str, said: str, tmp_path: Path) -> None:
    changes = {name: CHANGES[name] for name in ("nothing recorded", "a third treatment", "the id of another")}
    assert "nothing recorded" not in refused_among(changes, ending, WISHES[said], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("said", list(WISHES)[1:])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_no_row_decides_a_byte_of_any_draft(ending: str, said: str, tmp_path: Path) -> None:
    refused_among(CHANGES | (WORDS if ending == "csv" else {}), ending, WISHES[said], tmp_path)


def test_two_tables_that_differ_in_every_value_have_one_draft(tmp_path: Path) -> None:
    other = TABLE.with_columns(
        pl.col("id") + "x", cost=pl.col("cost") * 3, age=pl.lit(7), weight=pl.lit(None, pl.Float64), note=pl.lit("x")
    ).reverse()
    for ending in ("csv", "parquet"):
        drafted(tmp_path / ending / "one", TABLE, ending, SAID)
        drafted(tmp_path / ending / "two", other, ending, SAID)
        assert written(tmp_path / ending / "one") == written(tmp_path / ending / "two")


def test_every_covariate_may_lack_a_value_unless_the_owner_says_never(tmp_path: Path) -> None:
    found = drafted(tmp_path / "a", TABLE, "csv", SAID | {"never_missing": ("weight",)})
    columns = load_contract(tmp_path / "a/out/dataset.yaml").columns
    lacking = {name for name, one in columns.items() if str(one.nulls) == "indicator"}
    assert lacking == set(columns) - {"weight"}
    (told,) = [one for one in found.rows_say if "--never-missing" in one]
    assert "'age,sex,ward,smokes'" in told
    assert check(tmp_path / "a/out/study.yaml"), "without a grant"


def test_rows_are_told_to_the_owner_and_stand_in_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = TABLE.with_columns(status=pl.when(pl.col("arm") == "yes").then(1).otherwise(0), sex=pl.lit("divers"))
    frame = pl.concat([TABLE[:1].with_columns(status=0), frame[1:]])
    frame.write_csv(tmp_path / "in.csv")
    words = [
        "init",
        str(tmp_path / "in.csv"),
        "--out",
        str(tmp_path / "out"),
        "--data-class",
        "sensitive",
        "--unit",
        "id",
    ]
    words += ["--treatment", "arm", "--outcome", "cost", "--range", "cost=0:100", "--range", "age=0:110"]
    words += ["--levels", "sex=F,M", "--levels", "status=0,1"]
    assert command(*words) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "The rows say, to you alone (it stands in no file):" in told
    assert "'sex': 39 rows hold none of its levels" in told
    assert "'status': it reveals 'arm'" in told
    assert "'note' holds two values, so it seems" in told
    assert "'weight' holds a number, so it seems" in told
    files = "".join(text.decode() for text in written(tmp_path).values())
    assert "divers" not in files
    assert "weight" not in files


@pytest.mark.parametrize(
    ("examples", "values", "means"),
    [
        (("€ 1.234,56",), ["€ 22.465,92", "€ 7,10"], [22465.92, 7.1]),
        (("1,5",), ["1,5", "(3)"], [1.5, -3.0]),
        (("72 kg",), ["72 kg", "80"], [72.0, 80.0]),
    ],
)
def test_numbers_are_read_as_their_example_is_written(
    examples: tuple[str, ...], values: list[str], means: list[float], tmp_path: Path
) -> None:
    frame = TABLE.with_columns(weight=pl.Series(values * (N // 2)))
    said = {"ranges": {"cost": (0.0, 100.0), "weight": (0.0, 1e5)}}
    with pytest.raises(CausalveilError, match="'weight': no plain numbers; --written 'weight="):
        drafted(tmp_path / "a", frame, "csv", said)
    drafted(tmp_path / "b", frame, "csv", said | {"written": {"weight": examples}})
    rows = pl.read_parquet(tmp_path / "b/out/rows=all/part-00000.parquet", hive_partitioning=False)
    assert rows["weight"].to_list() == means * (N // 2)


def test_what_cannot_be_read_off_an_example_or_is_for_sensitive_data_alone_is_said(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="--written: an example of column 'weight' is no number"):
        drafted(tmp_path / "a", TABLE, "csv", SAID | {"written": {"weight": ("heavy",)}})
    with pytest.raises(StudyError, match="--last-by: say how 'note' is written"):
        drafted(tmp_path / "b", TABLE, "csv", SAID | {"last_by": "note"})
    with pytest.raises(StudyError, match="say what columns of text in sensitive data hold, by "):
        drafted(tmp_path / "c", TABLE, "csv", {})
    TABLE.write_csv(tmp_path / "in.csv")
    for option in ("never_missing", "last_by"):
        wishes = Wishes("a", DataClass.public, "id", "arm", "cost", **{option: ("age",)})
        with pytest.raises(StudyError, match="is for sensitive data"):
            begin(survey(str(tmp_path / "in.csv")), wishes, tmp_path / "out", DirectEngine())


def test_a_file_is_read_as_its_header_and_the_owner_say(tmp_path: Path) -> None:
    """Titles and delimiter are found above the rows, an encoding is said, and a total is no row."""
    text = "Clinic;;;\nof 2026;;;\n\nid;arm;cost;age\n" + "".join(f"ä{i};{i % 2};{i};{i}\n" for i in range(30))
    said = {"ranges": {"cost": (0.0, 100.0), "age": (0.0, 100.0)}}
    wishes = Wishes("people", DataClass.sensitive, "id", "arm", "cost", **said)
    (tmp_path / "in.csv").write_bytes(text.encode("cp1252"))
    with pytest.raises(CausalveilError, match="give --encoding"):
        begin(survey(str(tmp_path / "in.csv")), wishes, tmp_path / "a", DirectEngine())
    begin(survey(str(tmp_path / "in.csv"), encoding="cp1252"), wishes, tmp_path / "a", DirectEngine())
    assert 'delimiter: ";", skip_lines: 3' in (tmp_path / "a/source.yaml").read_text()
    (tmp_path / "in.csv").write_text(text + "Total;;435;435\n")
    with pytest.raises(CausalveilError, match="ends in a total or a note"):
        begin(survey(str(tmp_path / "in.csv")), wishes, tmp_path / "b", DirectEngine())
