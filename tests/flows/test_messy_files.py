"""Files as people keep them: for each a draft on which a study runs, or one sentence that says what to do."""

# ruff: noqa: E501
from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import fill
from causalveil.flows.run.start import begin
from causalveil.flows.run.survey import numbered, survey, without_missing
from causalveil.schemas.contract import DataClass, load_contract
from causalveil.schemas.declared import LevelsColumn, NumberColumn
from causalveil.schemas.errors import CausalveilError, DataError, StudyError
from causalveil.tasks.start.roles import Wishes

pytestmark = pytest.mark.usefixtures("as_command")

ROWS = 120
HEADER = ["id", "age", "sex", "treated", "cost"]
Row = list[str]


@cache
def people(rows: int = ROWS) -> list[Row]:
    """Ids, an age, a sex, who was treated and what it cost: two decimals, below a thousand."""
    draw = random.Random(1)
    return [
        [str(1000 + i), str(draw.randint(18, 80)), draw.choice("MF"), draw.choice(["yes", "no"]), f"{draw.uniform(5, 900):.2f}"]
        for i in range(rows)
    ]  # fmt: skip


def text(rows: Iterable[Row], header: Row | None = None, **dialect: Any) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=dialect.pop("lineterminator", "\n"), **dialect)
    writer.writerows([HEADER if header is None else header, *rows])
    return out.getvalue()


def column(index: int, change: Callable[[int, str], str]) -> list[Row]:
    """The people with one column written otherwise."""
    return [[*row[:index], change(i, row[index]), *row[index + 1 :]] for i, row in enumerate(people())]


def cycle(*words: str) -> Callable[[int, str], str]:
    return lambda i, _: words[i % len(words)]


def named(*names: str) -> Row:
    return [*names]


def spelt(yes: tuple[str, ...], no: tuple[str, ...]) -> str:
    return text(column(3, lambda i, word: (yes if word == "yes" else no)[i % (len(yes) if word == "yes" else len(no))]))


def many(columns: int) -> str:
    return ",".join([*HEADER, *(f"x{i}" for i in range(columns))]) + "\n"


@dataclass(frozen=True)
class Case:
    """A file, and what is to come of it: a sentence (a pattern), or a study that runs on so many rows."""

    content: bytes | str
    says: str | None = None
    rows: int = ROWS
    units: int | None = None
    columns: dict[str, Any] | None = None
    unit: str = "id"
    treatment: str = "treated"
    outcome: str = "cost"
    wishes: dict[str, Any] | None = None


EURO = column(4, lambda _, cost: f"{float(cost) * 10:,.2f}".translate(str.maketrans(",.", ".,")) + " €")
CASES: dict[str, Case] = {
    # Encodings
    "plain": Case(text(people()), columns={"cost": "number", "age": "number", "treated": "codes", "sex": "levels"}),
    "utf-8 with a mark": Case(b"\xef\xbb\xbf" + text(people()).encode()),
    "utf-16 of a spreadsheet": Case(text(people(), delimiter="\t").encode("utf-16")),
    "western europe": Case(text(column(2, cycle("männlich", "weiblich"))).encode("cp1252")),
    "western europe, euros": Case(text(EURO, delimiter=";").encode("cp1252"), columns={"cost": "number"}),
    "cyrillic": Case(text(column(2, cycle("мужчина", "женщина"))).encode("cp1251")),
    "an accent in a name": Case(text(people(), named("id", "âge", "sex", "treated", "cost")).encode("latin-1")),
    "an accent after a megabyte": Case(
        (text(people(60_000)) + "999999,20,M,yes,é\n").encode("cp1252"), rows=60_001 - 1, columns={"cost": "number"}
    ),
    "nul bytes": Case(b"id,age\x00,sex\n1,2,3\n", "NUL bytes"),
    "half of it in another encoding": Case(
        text(people()).encode() + "9,20,\u00e9,yes,3\n".encode() + b"10,20,\xe9\xff,yes,3\n", "encoding changes"
    ),
    # Separators, quotes, lines
    "semicolons": Case(text(people(), delimiter=";")),
    "tabs": Case(text(people(), delimiter="\t")),
    "pipes": Case(text(people(), delimiter="|")),
    "windows lines": Case(text(people(), lineterminator="\r\n")),
    "old mac lines": Case(text(people(), lineterminator="\r")),
    "no last line end": Case(text(people()).rstrip("\n")),
    "everything quoted": Case(text(people(), quoting=csv.QUOTE_ALL)),
    "single quotes": Case(text(column(2, cycle("a, b", "c")), quotechar="'")),
    "commas and line ends inside quotes": Case(text(column(2, cycle("a, b", "c\nd")))),
    "doubled quotes": Case(text(column(2, cycle('say "a"', "b")))),
    "backslashes before quotes": Case(text(column(2, cycle('say "a"', "b")), escapechar="\\", doublequote=False)),
    "a title above the header": Case("Costs by person\nexported on Monday\n\n" + text(people())),
    "lines that end in carriage returns": Case(text(people(), lineterminator="\r")),
    "such lines above a total": Case(text([*people(), ["Total", "", "", "", "9"]], lineterminator="\r")),
    "a spreadsheet's title": Case("Costs by person,,,,\nMonday,,,,\n,,,,\n" + text(people())),
    "notes above and below": Case(
        f"Costs by person\nexported on Monday\n\n{text(people())}\nSource: the register of costs\n* without repayments\n"
    ),
    "comments above the header": Case("# costs\n" + text(people())),
    "empty lines between": Case(text(people()).replace("\n", "\n\n", 40)),
    "spaces around everything": Case(text([[f"  {one} " for one in row] for row in people()]), columns={"age": "number"}),
    "a quote left open": Case(text(people())[:-1] + '\n"1,2,3,4,5\n' + text(people()), "fields where|quote"),
    "a line too long": Case(text(people()) + "1,2,M,yes,3,4\n", "line 122 has 6 fields where the header has 5"),
    "a line too short": Case(text(people()) + "1,2,M\n", "has 3 fields where the header has 5"),
    # Headers
    "no header": Case("\n".join(",".join(row) for row in people()), "no header line"),
    "a header alone": Case(text([]), "header and no rows|no header line"),
    "empty": Case("", "is empty"),
    "blanks only": Case("\n \n", "is empty"),
    "a name twice, unused": Case(text([[*r, "1", "2"] for r in people()], [*HEADER, "x", "x"])),
    "a name twice, used": Case(text([[*r, "1"] for r in people()], [*HEADER, "cost"]), "no column 'cost'"),
    "a column without a name": Case(text([[str(i), *r] for i, r in enumerate(people())], ["", *HEADER])),
    "two columns without names": Case(text([[*r, "", ""] for r in people()], [*HEADER, "", ""])),
    "names with spaces and signs": Case(
        text(people(), named(" Person ID ", "Age (years)", "Sex: M/F", "Treated?", "Cost [$]")),
        unit="Person ID", treatment="Treated?", outcome="Cost [$]",
    ),
    "names in another case": Case(text(people()), unit="ID", treatment="Treated", outcome="COST"),
    "a million columns": Case(many(1_000_000), "more than 2,000 columns"),
    "two thousand columns too many": Case(many(4000), "more than 2,000 columns"),
    # Values
    "dollars and thousands": Case(
        text(column(4, lambda _, cost: f"${float(cost) * 100:,.2f}")), columns={"cost": "number"}
    ),
    "percent": Case(text(column(4, lambda _, cost: f"{float(cost) / 9:.1f} %")), columns={"cost": "number"}),
    "accountants' brackets": Case(text(column(4, lambda i, cost: f"({cost})" if i % 3 else cost)), columns={"cost": "number"}),
    "decimal commas": Case(text(column(4, lambda _, cost: cost.replace(".", ",")), delimiter=";"), columns={"cost": "number"}),
    "kilograms": Case(text(column(1, lambda _, age: f"{age} kg")), columns={"age": "number"}),
    "two units of measure": Case(text(column(4, lambda i, cost: f"{cost} {'kg' if i % 2 else 'lb'}")), "holds (free text|numbers and words)"),
    "yes in many spellings": Case(spelt(("Yes", "Y", "yes ", "TRUE", "1"), ("no", "N", "No", "false", "0"))),
    "yes in german": Case(spelt(("Ja", "ja"), ("Nein", "nein"))),
    "true and false": Case(spelt(("TRUE",), ("FALSE",))),
    "placebo and drug": Case(spelt(("Drug",), ("placebo", "Placebo"))),
    "arms a and b": Case(spelt(("B",), ("A",)), "--treated: say which value"),
    "arms a and b, said": Case(spelt(("B",), ("A",)), wishes={"treated": "B"}),
    "two dates for a treatment": Case(text(column(3, cycle("2025-03-14", "2025-04-14"))), "holds dates, and a treatment has two values"),
    "the day of a treatment": Case(text(column(3, lambda i, _: f"2025-03-{1 + i % 28:02d}")), "holds dates, and a treatment has two values"),
    "three arms": Case(text(column(3, cycle("a", "b", "c"))), "3 different values"),
    "nobody treated": Case(text(column(3, cycle("no"))), "one value only"),
    "treated unknown for some": Case(text(column(3, lambda i, word: "" if i % 10 == 0 else word)), rows=108),
    "words for nothing": Case(
        text(column(1, lambda i, age: ("NA", "n/a", "-", "unknown")[i % 4] if i % 15 == 0 else age)), columns={"age": "number"}
    ),
    "numbers with a few words": Case(text(column(1, lambda i, age: "too old" if i % 60 == 0 else age)), columns={"age": "number"}),
    "outcome of words": Case(text(column(4, cycle("low", "middle", "high"))), "an outcome is a number or one of two"),
    "outcome missing for some": Case(text(column(4, lambda i, cost: "NULL" if i % 12 == 0 else cost)), rows=110),
    "a column without values": Case(text([[*r, ""] for r in people()], [*HEADER, "empty"])),
    "dates in three formats": Case(
        text([[*r, ("2025-03-14", "14/03/2025", "14 March 2025")[i % 3]] for i, r in enumerate(people())], [*HEADER, "day"])
    ),
    "dates of two-digit years": Case(text([[*r, f"{1 + i % 28:02d}.03.25"] for i, r in enumerate(people())], [*HEADER, "day"])),
    "ids with leading zeros": Case(text(column(0, lambda i, _: f"{i:08d}"))),
    "ids beyond 64 bits": Case(text(column(0, lambda i, _: f"{10**25 + i}"))),
    "several visits, no date": Case(text(column(0, lambda i, _: str(i // 2))), "several rows of one unit"),
    "several visits, numbered": Case(
        text([[str(i // 2), *r[1:], str(i % 2)] for i, r in enumerate(people())], [*HEADER, "visit"]), units=ROWS // 2
    ),
    "several visits, counted as advised": Case(
        text([[str(i // 2), *r[1:], str(i + 1)] for i, r in enumerate(people())], [*HEADER, "row"]), units=ROWS // 2
    ),
    "several visits, dated": Case(
        text([[str(i // 2), *r[1:], f"2025-03-{1 + i % 28:02d}"] for i, r in enumerate(people())], [*HEADER, "seen"]), units=ROWS // 2
    ),
    "free text beside": Case(text([[*r, f"note {i}, long"] for i, r in enumerate(people())], [*HEADER, "notes"])),
    "nothing to adjust for": Case(text([[r[0], r[3], r[4]] for r in people()], ["id", "treated", "cost"]), "no column is left"),
    # What is no CSV
    "a spreadsheet": Case(b"PK\x03\x04" + b"\x00" * 100, "name a workbook .xlsx"),
    "a compressed file": Case(b"\x1f\x8b\x08\x00" + b"\x00" * 100, "unpack it"),
    "a parquet file by another name": Case(b"PAR1" + b"\x00" * 100, "name it .parquet"),
    "a Stata file": Case(b"<stata_dta><header>" + b"\x00" * 100, "is a Stata file; name it .dta"),
    "an SPSS file": Case(b"$FL2@(#) SPSS DATA FILE" + b"\x00" * 100, "is an SPSS file; name it .sav"),
    "a SAS data set": Case(bytes(12) + b"\xc2\xea\x81\x60\xb3\x14" + b"\x00" * 100, "is a SAS data set; name it .sas7bdat"),
    "an Arrow file": Case(b"ARROW1\x00\x00" + b"\x00" * 100, "is an Arrow or Feather file; write it as Parquet"),
    "a web page": Case("<!DOCTYPE html><table><tr><td>1</td></tr></table>", "is a web page"),
    "lines of JSON": Case('{"id": 1, "age": 20}\n{"id": 2, "age": 30}\n', "holds JSON; write it as Parquet or CSV"),
    "a list in JSON": Case('[\n  {"id": 1, "age": 20}\n]\n', "holds JSON; write it as Parquet or CSV"),
    "a picture": Case(b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "NUL bytes|encoding"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_messy_file_gives_a_study_that_runs_or_one_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    content = case.content if isinstance(case.content, bytes) else case.content.encode()
    (tmp_path / "people.csv").write_bytes(content)
    folder = tmp_path / "people"
    wishes = Wishes("people", DataClass.synthetic, case.unit, case.treatment, case.outcome, **(case.wishes or {}))
    if case.says is not None:
        with pytest.raises(CausalveilError, match=case.says) as caught:
            begin(survey(str(tmp_path / "people.csv")), wishes, folder, DirectEngine())
        assert "\n" not in str(caught.value)
        return
    begun = begin(survey(str(tmp_path / "people.csv")), wishes, folder, DirectEngine())
    assert begun.manifest is not None
    assert begun.manifest.rows == case.rows
    contract = load_contract(folder / "dataset.yaml")
    kinds = {one: type(declared).__name__ for one, declared in contract.columns.items()}
    expected = {"number": "NumberColumn", "codes": "CodesColumn", "levels": "LevelsColumn"}
    assert {one: kinds.get(one) for one in case.columns or {}} == {
        one: expected[kind] for one, kind in (case.columns or {}).items()
    }
    monkeypatch.chdir(tmp_path)
    release = run_study(folder / "study.yaml", simulate=1, engine="direct").release
    assert release.units == (case.units or case.rows)


def test_values_are_what_the_file_says(tmp_path: Path) -> None:
    """Currency, thousands, spellings and dates come out as the numbers and words that they stand for."""
    (tmp_path / "a.csv").write_text(
        "who;won;trained;seen;town\n"
        "a;€ 1.200,50;Ja;14.03.2025;Bonn\nb;(300);nein;2025-03-15;BONN\nc;7;JA;16.03.2025;Köln\nd;n/a;Nein;;Köln\n"
    )
    wishes = Wishes("a", DataClass.public, "who", "trained", "won", covariates=("town",))
    begin(survey(str(tmp_path / "a.csv")), wishes, tmp_path / "a", DirectEngine())
    rows = pl.read_parquet(tmp_path / "a" / "rows=all" / "part-00000.parquet", hive_partitioning=False)
    assert rows["won"].to_list() == [1200.5, -300.0, 7.0]
    assert rows["trained"].to_list() == ["yes", "no", "yes"]
    assert [day.isoformat() for day in rows["seen"].to_list()] == ["2025-03-14", "2025-03-15", "2025-03-16"]
    assert rows["town"].to_list() == ["Bonn", "Bonn", "Köln"]


def test_rows_without_a_name_are_numbered(tmp_path: Path) -> None:
    """Each row is a person: numbers over all batches and files, the same at every extract."""
    (tmp_path / "all").mkdir()
    for name, towns in (("a", ("Bonn", "Rome")), ("b", ("Oslo", "Kiel"))):
        (tmp_path / f"all/{name}.csv").write_text("won,statin,town\n" + "".join(f"{len(t)},No statin,{t}\n3,Statin,{t}\n" for t in towns))  # fmt: skip
    wishes = Wishes("a", DataClass.public, "row", "statin", "won")
    begun = begin(numbered(survey(str(tmp_path / "all"))), wishes, tmp_path / "out", DirectEngine())
    rows = pl.read_parquet(tmp_path / "out/rows=all/part-00000.parquet", hive_partitioning=False)
    assert rows["row"].to_list() == list(range(1, 9))
    assert rows["town"].to_list() == [town for town in ("Bonn", "Rome", "Oslo", "Kiel") for _ in range(2)]
    assert "Statin means treated" in begun.draft.study
    with pytest.raises(StudyError, match="there is a column 'row' already"):
        numbered(numbered(survey(str(tmp_path / "all"))))
    (tmp_path / "all/b.csv").write_text("row,won,statin,town\n1,2,Statin,Oslo\n")
    with pytest.raises(DataError, match="has a column 'row' of its own"):
        fill(tmp_path / "out/source.yaml", DirectEngine())


def sensitive(**wishes: Any) -> Wishes:
    """Of a file of sensitive people, whose ranges and levels somebody has to say."""
    return Wishes("people", DataClass.sensitive, "id", "treated", "cost", **wishes)


def test_levels_are_the_ones_that_rows_hold_however_they_are_spelt(tmp_path: Path) -> None:
    """What --levels says and what the extract makes of the words are the same, or all of them would be 'other'."""
    spellings = {"one": ("F", "M"), "several": ("F", "male"), "written out": ("female", "Male")}
    for case, words in spellings.items():
        folder = tmp_path / case
        folder.mkdir()
        sexes = [words[place % 2] if place % 5 else "f" for place in range(40)]
        if case == "one":
            sexes = [words[place % 2] for place in range(40)]
        rows = [f"{place},{place % 7},{('no', 'yes')[place % 2]},{sex}" for place, sex in enumerate(sexes)]
        (folder / "people.csv").write_text("id,cost,treated,sex\n" + "\n".join(rows) + "\n")
        for said in (("F", "M"), ("female", "male"), ("M", "female")):
            out = folder / "-".join(said)
            wishes = sensitive(levels={"SEX": said})
            begin(survey(str(folder / "people.csv")), wishes, out, DirectEngine())
            column = load_contract(out / "dataset.yaml").columns["sex"]
            held = pl.read_parquet(out / "rows=all" / "part-00000.parquet", hive_partitioning=False)["sex"]
            assert isinstance(column, LevelsColumn)
            assert set(column.levels) == set(held.unique().to_list()) == set(said), (case, said)


def test_numbers_that_stand_for_kinds_may_be_levels(tmp_path: Path) -> None:
    rows = [f"{place},{place % 7},{('no', 'yes')[place % 2]},{place % 4 + 1},{place}.5" for place in range(40)]
    (tmp_path / "people.csv").write_text("id,cost,treated,ward,dose\n" + "\n".join(rows) + "\n")
    seen = survey(str(tmp_path / "people.csv"))
    wishes = sensitive(levels={"ward": ("1", "2", "3", "4")}, ranges={"Cost": (0.0, 10.0)})
    begin(seen, wishes, tmp_path / "out", DirectEngine())
    contract = load_contract(tmp_path / "out" / "dataset.yaml")
    ward, cost = contract.columns["ward"], contract.columns["cost"]
    assert isinstance(ward, LevelsColumn)
    assert ward.levels == (1, 2, 3, 4)
    assert isinstance(cost, NumberColumn)
    assert (cost.lower, cost.upper) == (0, 10)
    wrong = {
        "there is no column 'wards'": {"levels": {"wards": ("1", "2")}},
        "there is no column 'costs'": {"ranges": {"costs": (0.0, 1.0)}},
        "'dose': values that are no whole numbers": {"levels": {"dose": ("1", "2")}},
        "no row of column 'ward' holds any of its levels": {"levels": {"ward": ("a", "b")}},
        "column 'treated' holds a number": {"ranges": {"treated": (0.0, 1.0)}},
        "'treated': other values than a and placebo": {"levels": {"treated": ("placebo", "a")}},
    }
    for says, wish in wrong.items():
        with pytest.raises(CausalveilError, match=says):
            begin(seen, sensitive(covariates=("ward",), **wish), tmp_path / "no", DirectEngine())
        assert not (tmp_path / "no").exists()


def test_a_draft_is_the_same_where_columns_are_kept_as_they_are_read(tmp_path: Path) -> None:
    """Numbers, dates and words for none, of rows of which some lack an outcome; text that names what is missing."""
    draw = np.random.default_rng(5)
    table = pl.DataFrame(
        {
            "who": [f"0{i}" for i in range(400)],
            "treated": draw.choice(["yes", "no"], 400),
            "cost": np.where(draw.random(400) < 0.1, "n/a", draw.normal(40, 9, 400).round(2).astype(str)),
            "wage": [f"€ {a}.{b:03d},5" for a, b in zip(draw.integers(1, 9, 400), draw.integers(0, 999, 400), strict=True)],
            "born": [f"{d}.{m}.19{y}" for d, m, y in draw.integers([1, 1, 40], [28, 12, 99], (400, 3)).tolist()],
            "score": np.where(draw.random(400) < 0.05, "refused", draw.normal(0, 1, 400).round(3).astype(str)),
            "years": np.where(draw.random(400) < 0.05, 999, draw.integers(0, 50, 400)),
            "kind": draw.choice([" a", "a", "b", "c"], 400),
            "code": [f"{i:03d}" for i in draw.integers(0, 20, 400)],
            "grade": draw.integers(1, 6, 400),
        }
    )  # fmt: skip
    table.write_csv(tmp_path / "in.csv")
    wishes = Wishes("a", DataClass.synthetic, unit="who", treatment="treated", outcome="cost")
    missing, drafts, types = {"years": ("999",)}, [], []
    for name, as_text in (("text", None), ("read", {"WHO", "years"})):
        seen = survey(str(tmp_path / "in.csv"), as_text=as_text)
        types.append([str(kind) for kind in seen.sample.frame.dtypes])
        begun = begin(without_missing(seen, missing), wishes, tmp_path / name, DirectEngine())
        drafts.append(replace(begun, folder=Path(), manifest=None))
    assert drafts[0] == drafts[1]
    assert set(types[0]) == {"String"}
    assert types[1] == [
        "String",
        "String",
        "Float64",
        "Float64",
        "Date",
        "Float64",
        "String",
        "String",
        "String",
        "Int64",
    ]
