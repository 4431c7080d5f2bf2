"""`init` reads what warehouses and older writers leave behind, and drafts a study that runs, or says what is wrong."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from causalveil.flows.api import run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import admit_folder
from causalveil.flows.run.check import beyond_check, check
from causalveil.flows.run.start import Begun, begin
from causalveil.flows.run.survey import survey
from causalveil.schemas.asked.study_file import load_study_file
from causalveil.schemas.contract import CONTRACT_FILE, DataClass, load_contract
from causalveil.schemas.declared import CodesColumn, LevelsColumn, NumberColumn
from causalveil.schemas.errors import DataError, StudyError
from causalveil.schemas.limits import Code
from causalveil.schemas.warehouse import Kind, TextReading
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.start.recognise import Looks, recognise
from causalveil.tasks.start.roles import Wishes
from causalveil.tasks.warehouse.values import read_text, respelled, value_of
from tests.bad_data import AGE, GROUP, OUTCOME, TREATMENT, UNIT, good
from tests.stored import KINDS, TEXT_UNITS, put
from tests.studies import command

pytestmark = pytest.mark.usefixtures("as_command")

WISHES = Wishes(name="small", data_class=DataClass.synthetic, unit=UNIT, treatment=TREATMENT, outcome=OUTCOME, treated="1")  # fmt: skip # noqa: E501


def drafted(folder: Path, out: Path, wishes: Wishes = WISHES) -> Begun:
    begun = begin(survey(str(folder)), wishes, out, DirectEngine())
    admit_folder(DataFolder(out), DirectEngine())
    return begun


@pytest.mark.parametrize(
    ("reading", "texts"),
    [
        (TextReading(kind=Kind.text, nulls=("unknown",)), ["41", "unknown", "", None, "41"]),
        (TextReading(kind=Kind.text, nulls=("unknown",)), ["a", "b", None]),
        (TextReading(kind=Kind.number, nulls=("-9",)), ["1.5", "-9", "2", " 3 ", None]),
        (TextReading(kind=Kind.number), ["1e3", "-2.5", "+4", None]),
        (TextReading(kind=Kind.integer, nulls=("n/a",)), ["007", "12", "n/a", "12"]),
        (TextReading(kind=Kind.number, decimal=",", nulls=()), ["1,5", "x", "2"]),
    ],
)
def test_texts_that_are_read_once_are_read_as_row_by_row(reading: TextReading, texts: list[str | None]) -> None:
    text = pl.Series("text", texts, dtype=pl.String)
    rows = text.to_frame().select(spelling=respelled(reading), value=value_of(respelled(reading), reading))
    values, unread = read_text(text, reading)
    assert values.to_list() == rows["value"].to_list()
    assert bool(unread) == (rows["value"].null_count() > rows["spelling"].null_count())


# Text beside numbers is left out (below): which of them counts is a person's to say.
DRAFTED = [
    (kind, both)
    for kind in KINDS
    for both in (True, False)
    if kind[1] not in ("True", "boolean") and (both or not kind[1].startswith("digits"))
]


@pytest.mark.parametrize(("kind", "both"), DRAFTED)
def test_every_type_gives_the_same_draft(kind: tuple[str, str], both: bool, tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.parquet", good(40), kind[0], KINDS[kind] if both else None)
    put(tmp_path / "in" / "b.parquet", good(40, 40), kind[0], KINDS[kind])
    begun = drafted(tmp_path / "in", tmp_path / "out")
    columns = load_contract(tmp_path / "out" / CONTRACT_FILE).columns
    treatment, age, group = (columns[name] for name in (TREATMENT, AGE, GROUP))
    assert isinstance(treatment, CodesColumn)
    assert [int(code) for code in treatment.codes.pair] == [0, 1]
    assert isinstance(age, NumberColumn)
    assert isinstance(group, LevelsColumn)
    assert sorted(group.levels) == ["a", "b", "c"]
    assert begun.manifest is not None
    assert begun.manifest.rows == 80
    assert begun.draft.left_out == ()


@pytest.mark.parametrize("kind", TEXT_UNITS)
def test_ids_of_any_type_name_units(kind: str, tmp_path: Path) -> None:
    ids = pl.Series([f"00000000-0000-4000-8000-{number:012x}" for number in range(40)])
    put(tmp_path / "in" / "a.parquet", good(40).with_columns(ids.alias(UNIT)), UNIT, TEXT_UNITS[kind])
    drafted(tmp_path / "in", tmp_path / "out")
    (file,) = (tmp_path / "out").rglob("*.parquet")
    assert pl.read_parquet(file)[UNIT].sort().equals(ids.alias(UNIT))


def test_nan_and_columns_of_no_value_are_missing(tmp_path: Path) -> None:
    gaps = pl.when(pl.int_range(pl.len()) % 4 > 0).then(pl.col(AGE)).otherwise(float("nan"))
    put(tmp_path / "in" / "a.parquet", good(40).with_columns(gaps))
    put(tmp_path / "in" / "b.parquet", good(40, 40), AGE, lambda values: pa.nulls(len(values)))
    drafted(tmp_path / "in", tmp_path / "out")
    assert load_contract(tmp_path / "out" / CONTRACT_FILE).columns[AGE].nulls == "indicator"


def test_nested_columns_and_those_that_some_file_lacks_are_left_out_by_name(tmp_path: Path) -> None:
    odd = good(40).with_columns(pl.lit(0).alias("odd"), pl.lit(1).alias("extra"))
    put(tmp_path / "in" / "a.parquet", odd, "odd", lambda values: pa.array([[1]] * len(values)))
    put(tmp_path / "in" / "b.parquet", good(40, 40).with_columns(pl.lit(0).alias("odd")), "odd", lambda v: pa.array([[1]] * len(v)))  # fmt: skip # noqa: E501
    left_out = " ".join(drafted(tmp_path / "in", tmp_path / "out").draft.left_out)
    assert "'odd': holds lists, records or other nested values" in left_out
    assert "'extra': is not in b.parquet" in left_out


def test_columns_that_hold_no_values_of_a_study_are_left_out_by_name(tmp_path: Path) -> None:
    """Pictures, durations and columns of nothing in one column are no reason to refuse the table."""
    rows = good(40).to_arrow()
    for name, values in {
        "picture": pa.array([b"\xff\xfe" + bytes([i]) for i in range(40)]),
        "stay": pa.array(range(40), pa.duration("s")),
        "nothing": pa.nulls(40),
    }.items():
        rows = rows.append_column(name, values)
    pq.write_table(rows, tmp_path / "in.parquet")
    left_out = drafted(tmp_path / "in.parquet", tmp_path / "out").draft.left_out
    assert "'picture': holds bytes that are no text" in left_out
    assert "'stay': durations; a number of days or hours could be adjusted for" in left_out
    assert "'nothing': it holds no value" in left_out


def test_a_column_of_types_that_do_not_go_together_is_left_out_by_name(tmp_path: Path) -> None:
    """Text beside numbers, and times with a zone beside times without one."""
    seen = pl.lit(datetime(2026, 1, 1))
    put(tmp_path / "in" / "a.parquet", good(40).with_columns(seen=seen))
    later = good(40, 40).with_columns(pl.col(AGE).cast(pl.String), seen=seen.dt.replace_time_zone("UTC"))
    put(tmp_path / "in" / "b.parquet", later)
    left_out = survey(str(tmp_path / "in")).sample.left_out
    assert left_out == dict.fromkeys((AGE, "seen"), "has types that do not go together in its files")


def test_ids_that_begin_anew_in_each_group_are_told(tmp_path: Path) -> None:
    """Two clinics number their people from 1, and each person has four visits."""
    rows = good(40).with_columns(
        pl.Series(UNIT, [place // 4 % 5 + 1 for place in range(40)]),
        clinic=pl.Series([place // 20 + 1 for place in range(40)]),
        visit=pl.Series([place % 4 + 1 for place in range(40)]),
    )
    put(tmp_path / "a.parquet", rows)
    with pytest.raises(DataError, match="with 'clinic' it does not: do ids begin anew in each 'clinic'"):
        begin(survey(str(tmp_path / "a.parquet")), WISHES, tmp_path / "out", DirectEngine())


def test_a_fraction_in_a_later_file_ends_the_extract_in_a_sentence(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.parquet", good(40).with_columns(pl.col(TREATMENT).cast(pl.Float64)))
    seen = survey(str(tmp_path / "in"))
    put(tmp_path / "in" / "b.parquet", good(40, 40).with_columns(pl.lit(0.5).alias(TREATMENT)))
    with pytest.raises(DataError, match=f"column '{TREATMENT}' holds values that do not fit into integer"):
        begin(seen, WISHES, tmp_path / "out", DirectEngine())


FROM = 1_735_689_600


@pytest.mark.parametrize(
    ("name", "first", "step", "looks"),
    [
        ("seen_at", FROM * 1000, 977, Looks.moment),
        ("x", FROM * 1000, 977, Looks.moment),
        ("x", FROM * 10**6, 10**9, Looks.moment),
        ("x", FROM * 10**9, 10**12, Looks.moment),
        ("created", FROM, 3600, Looks.moment),
        ("x", FROM, 3600, Looks.number),
        ("time", 20, 1, Looks.number),
        ("income", 10_000, 977, Looks.number),
    ],
)
def test_time_since_1970_is_told_from_numbers(name: str, first: int, step: int, looks: Looks) -> None:
    values = pl.Series([first + step * number for number in range(100)], dtype=pl.Int64)
    assert recognise(name, values).looks is looks
    assert recognise(name, values.cast(pl.Decimal(38, 0))).looks is looks


@pytest.mark.parametrize(
    ("form", "written"),
    [
        ("%Y/%m/%d %H:%M:%S", "2016/01/{day:02d} 00:47:36"),
        ("%d.%m.%Y %H:%M:%S", "{day:02d}.01.2016 23:47:36"),
        ("%m/%d/%Y %I:%M:%S %p", "01/{day:02d}/2016 12:47:36 PM"),
        ("%m/%d/%Y %I:%M %p", "01/{day:02d}/2016 12:47 AM"),
        ("%Y-%m-%dT%H:%M:%S%.fZ", "2016-01-{day:02d}T12:47:36.125Z"),
        ("%Y-%m-%d %H:%M:%S", "2016-01-{day:02d} 12:47:36"),
    ],
)
def test_a_day_with_a_time_of_day_is_a_date(form: str, written: str) -> None:
    """However computers and offices write both; as it is drafted, so it is read."""
    words = [written.format(day=day) for day in range(1, 29)]
    found = recognise("when", pl.Series("when", words))
    assert found.looks is Looks.date
    assert isinstance(found.reading, TextReading)
    assert found.reading.formats == (form,)
    read = pl.DataFrame({"text": words}).select(day=value_of(pl.col("text"), found.reading))["day"]
    assert read.dt.day().to_list() == list(range(1, 29))


# Treatment that was given by school and not by pupil: `init`, `check` and each release say what follows.
RANDOM = np.random.default_rng(8)
SCHOOLS, PUPILS = 20, 15
N = SCHOOLS * PUPILS
SCHOOL = np.repeat(np.arange(1, SCHOOLS + 1), PUPILS)
TREATED = SCHOOL % 2
# More than half of the pupils in one school, the others in 28.
ONE_BIG = np.maximum(np.arange(N) - 155, 0) // 5
TABLE: dict[str, Any] = {
    "pupil": [f"p{one}" for one in range(N)],
    "school": SCHOOL,
    "treated": TREATED,
    "age": RANDOM.integers(8, 15, N),
    "girl": RANDOM.integers(0, 2, N),
    "score": (RANDOM.normal(50, 9, N) + TREATED).round(1),
}
SAID = "'school': treatment was given by it (20 groups, 10 in the smaller arm), not by 'pupil': intervals "
BY_PUPIL = {"treated": RANDOM.integers(0, 2, N)}
PLOT = np.arange(N) // 4 + 1
PLACES = np.array(["nord", "ost", "west", "mitte"])


def begun(folder: Path, more: dict[str, Any], **wishes: Any) -> Begun:
    folder.mkdir(parents=True)
    pl.DataFrame(TABLE | more).write_parquet(folder / "in.parquet")
    asked = {"data_class": DataClass.synthetic, "unit": "pupil", "treatment": "treated", "outcome": "score"} | wishes
    return begin(survey(str(folder / "in.parquet")), Wishes("schools", **asked), folder / "out", DirectEngine())


def told(found: Begun) -> list[str]:
    return [one for one in (*found.draft.decide, *found.rows_say) if "treatment was given by it" in one]


def test_init_says_what_follows_and_the_study_holds_it(tmp_path: Path) -> None:
    found = begun(tmp_path / "a", {})
    (line,) = told(found)
    assert line.startswith(SAID)
    assert "--unit 'school' --means" in line
    assert "treatment was given by it (20 groups" in " ".join(found.draft.study.replace("#", "").split())
    assert "school" not in found.draft.taken
    contract = load_contract(tmp_path / "a/out/dataset.yaml")
    assert contract.clusters["school"].number == SCHOOLS
    assert "school" not in contract.columns, "a column of clusters has no other role"
    asked: Any = load_study_file(tmp_path / "a/out/study.yaml")
    assert (asked.clusters.column, asked.clusters.treated) == ("school", SCHOOLS // 2)
    alone = begun(tmp_path / "alone", {}, each_alone=True)
    assert "\nclusters:" not in alone.draft.study + alone.draft.contract
    (named,) = told(begun(tmp_path / "b", {}, covariates=("age",)))
    assert named == line


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"size": SCHOOL // 4 * 100, "level": SCHOOL % 5 * 10},
            "\nclusters: {column: school, treated: 10, constant: [",
        ),
        ({f"size{k}": SCHOOL // (4 + k) * 100 for k in range(3)}, "treated: 10, constant: [size0, size1]}\n"),
        ({"school_id": SCHOOL + 0.0, "school": np.arange(N)}, "\nclusters: {column: school_id, treated: 10}\n"),
        ({"school": ONE_BIG, "treated": ONE_BIG % 2}, "times their mean (at most 2)"),
        # A number that names more groups than a category has levels is constant within them, and no covariate.
        ({"plot": PLOT, "treated": PLOT % 2, "school": np.arange(N)}, "\nclusters: {column: plot, treated: 38}\n"),
    ],
    ids=["of schools", "too many of schools", "codes as fractions", "one school has half", "numbers as groups"],
)
def test_clusters_are_drafted_as_far_as_they_can_be_counted(more: dict[str, Any], said: str, tmp_path: Path) -> None:
    study = begun(tmp_path / "a", more).draft.study
    assert said in study.replace("\n# ", " ")
    assert ("\nclusters:" in study) is ("at most" not in said)
    assert check(tmp_path / "a/out/study.yaml") == []


def test_a_plan_is_told_the_correlation_within_clusters(tmp_path: Path) -> None:
    """60 schools of 15, seed 5: intraclass correlation .3, found within three of its deviations, .06."""
    random, school = np.random.default_rng(5), np.repeat(np.arange(60), 15)
    score = 50 + 9 * np.sqrt(0.3) * random.normal(size=60)[school] + 9 * np.sqrt(0.7) * random.normal(size=900)
    more = {"pupil": [f"p{pupil}" for pupil in range(900)], "school": school, "treated": school % 2, "score": score}
    frame = {name: np.resize(np.asarray(values), 900) for name, values in TABLE.items()}
    for clustered in (True, False):
        out = tmp_path / str(clustered)
        study = begun(out, frame | more, each_alone=not clustered).draft.study
        expect = yaml.safe_load(study)["expect"]
        assert ("icc" in expect) == clustered
        assert not clustered or expect["icc"] == pytest.approx(0.3, abs=0.18)
        assert check(out / "out/study.yaml") == []
    alone = study.replace("expect: {", "expect: {icc: 0.3, ")
    (out / "out/study.yaml").write_text(alone)
    (problem,) = check(out / "out/study.yaml")
    assert "'expect.icc' is a correlation within 'clusters', of which there are none" in str(problem)


@pytest.mark.parametrize(
    ("more", "column"),
    [
        ({"school": [f"School no. {one} of the county" for one in SCHOOL]}, "school"),
        # Where treatment was given by district it is the same in all schools of one.
        ({"district": PLACES[SCHOOL % 4]}, "district"),
    ],
)
def test_the_widest_groups_are_named(more: dict[str, Any], column: str, tmp_path: Path) -> None:
    (line,) = told(begun(tmp_path / "a", more))
    assert line.startswith(f"'{column}': ")


@pytest.mark.parametrize(
    "more",
    [
        BY_PUPIL,
        {"treated": np.where(np.arange(N) == 7, 1 - TREATED, TREATED)},
        {"school": TREATED * RANDOM.integers(1, 9, N), "dose": TREATED * RANDOM.integers(1, 9, N)},
        {"school": np.arange(N) // 2, "treated": np.arange(N) // 2 % 2, "kind": np.array(["none", "drug"])[TREATED]},
        # A chance of .5^12 is no proof: as many of 4,000 columns would look so.
        {"school": [f"s{one // 2}" if one < 24 else None for one in range(N)], "treated": np.arange(N) // 2 % 2},
    ],
    ids=["by pupil", "one pupil is another's", "doses", "groups of two are half of all", "twelve pairs by accident"],
)
def test_treatment_by_unit_is_not_taken_for_treatment_by_group(more: dict[str, Any], tmp_path: Path) -> None:
    found = told(begun(tmp_path / "a", more, covariates=("age",)))
    assert bool(found) == ("kind" in more), "pairs of pupils are groups, too"


def test_means_of_whole_groups_are_drafted_and_answer(tmp_path: Path) -> None:
    more = {"place": PLACES[RANDOM.integers(0, 4, N)]}
    found = begun(tmp_path / "a", more, unit="school", means=True, trial=True, epsilon="9")
    assert not told(found)
    assert "'place': a category has no mean over the rows of a unit" in found.draft.left_out
    admit_folder(DataFolder(tmp_path / "a/out"), DirectEngine())
    assert check(tmp_path / "a/out/study.yaml") == []
    release = run_study(tmp_path / "a/out/study.yaml", simulate=1, engine="direct", out=tmp_path / "release").release
    assert release.units == SCHOOLS
    for wrong in ({"last_by": "age"}, {"event": "girl", "horizon": 9.0}):
        with pytest.raises(StudyError, match="--means: means are of a number in two arms"):
            begun(tmp_path / str(len(wrong)), {}, unit="school", means=True, data_class=DataClass.sensitive, **wrong)
    for data_class in (DataClass.synthetic, DataClass.sensitive):
        with pytest.raises(StudyError, match="--means: 'treated' varies within 'school'"):
            begun(tmp_path / data_class, BY_PUPIL, unit="school", means=True, data_class=data_class)


def test_of_sensitive_data_the_owner_alone_is_told(tmp_path: Path) -> None:
    """The rows decide nothing in the files; the release says it of any rows."""
    by_school = begun(tmp_path / "a", {}, data_class=DataClass.sensitive)
    by_pupil = begun(tmp_path / "b", BY_PUPIL, data_class=DataClass.sensitive)
    assert (len(told(by_school)), len(told(by_pupil))) == (1, 0)
    for name in ("contract", "study", "source"):
        assert getattr(by_school.draft, name) == getattr(by_pupil.draft, name)


def test_check_and_every_release_of_an_effect_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun(tmp_path / "a", {}, trial=True, epsilon="9", each_alone=True)
    study = tmp_path / "a/out/study.yaml"
    release = run_study(study, simulate=1, engine="direct", out=tmp_path / "release").release
    assert Code.within_groups in [one.code for one in release.not_covered]  # type: ignore[union-attr]
    for words in (["check", str(study)], ["check", str(study), "--json"]):
        assert command(*words) == 0
    shown = capsys.readouterr().out
    assert "correlation of outcomes within schools, clinics or households" in " ".join(shown.split())
    assert "correlation of outcomes within schools" in json.loads(shown[shown.index("{") :])["beyond"]
    (tmp_path / "direction.yaml").write_text("kind: direction\n")
    assert beyond_check(tmp_path / "direction.yaml") is None
