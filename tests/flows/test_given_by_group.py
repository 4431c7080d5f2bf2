"""Treatment that was given by school and not by pupil: `init`, `check` and each release say what follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.cli.main import main
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import admit_folder
from causalveil.flows.run.check import beyond_check, check
from causalveil.flows.run.start import Begun, begin, survey
from causalveil.schemas.asked.study_file import load_study_file
from causalveil.schemas.contract import DataClass, load_contract
from causalveil.schemas.errors import StudyError
from causalveil.schemas.limits import Code
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.start.roles import Wishes

RANDOM = np.random.default_rng(8)
SCHOOLS, PUPILS = 20, 15
N = SCHOOLS * PUPILS
SCHOOL = np.repeat(np.arange(1, SCHOOLS + 1), PUPILS)
TREATED = SCHOOL % 2
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
    assert "school" not in contract.columns, "a column of clusters has no other part"
    asked: Any = load_study_file(tmp_path / "a/out/study.yaml")
    assert (asked.clusters.column, asked.clusters.treated) == ("school", SCHOOLS // 2)
    alone = begun(tmp_path / "alone", {}, each_alone=True)
    assert "clusters" not in alone.draft.study + alone.draft.contract
    (named,) = told(begun(tmp_path / "b", {}, covariates=("age",)))
    assert named == line


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
    assert Code.alike_within_groups in [one.code for one in release.not_covered]  # type: ignore[union-attr]
    for words in (["check", str(study)], ["check", str(study), "--json"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert not ended.value.code
    shown = capsys.readouterr().out
    assert "likeness of units that share a school, clinic or household" in " ".join(shown.split())
    assert "likeness of units" in json.loads(shown[shown.index("{") :])["beyond"]
    (tmp_path / "direction.yaml").write_text("kind: direction\n")
    assert beyond_check(tmp_path / "direction.yaml") is None
