"""`where:` and subgroups in a plain study: the protocol of one question, eligible people counted privately."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.api import report, run_study
from causalveil.flows.run.check import check
from causalveil.flows.run.declare import plan_study
from causalveil.schemas.errors import StudyError
from causalveil.schemas.release import EffectRelease
from causalveil.schemas.table import EffectStudy
from causalveil.schemas.where import Condition, Operator
from causalveil.tasks.data.cells import eligible
from tests.protocol_help import analysed, in_cells, make_protocol
from tests.studies import people, refused, resolved, write_study

AGE = {"column": "age", "op": ">=", "value": 40}
STUDY: dict[str, Any] = {"estimator": {"penalty": ..., "name": "regression"}, "privacy": {"epsilon": "20"}}
CONTRACT: dict[str, Any] = {
    "estimators": ["regression", "difference_in_means", "balancing", "aipw"],
    "caps": {"sample": {"epsilon": 1000, "delta": "1e-2"}},
    "columns": {"tall": {"codes": {"no": 0, "yes": 1}, "nulls": "indicator"}},
}


def study_in(folder: Path, n: int = 4_000, contract: dict[str, Any] | None = None, **changes: Any) -> Path:
    frame = people(n)
    random = np.random.default_rng(2)
    # An effect of 2, and of 4 from the age of 40 on.
    frame = frame.with_columns(
        score=pl.Series(
            np.clip(
                2 + 2 * frame["treated"].to_numpy() * (1 + (frame["age"].to_numpy() >= 40)) + random.normal(size=n),
                0,
                10,
            )
        ),
        tall=pl.when(pl.Series(random.random(n) < 0.2)).then(None).otherwise(pl.Series(random.integers(0, 2, n))),
    )
    return write_study(folder, frame=frame, study=STUDY | changes, contract=CONTRACT | (contract or {}))


# Of numbers, levels, other levels and codes; a value that is missing meets nothing.
FRAME = pl.DataFrame({"n": [1.0, 5.0, None, 12.0], "g": ["a", "b", "x", None], "c": [0, 1, None, 1]})
NUMBER = {"lower": 0, "upper": 10}
OTHERS = {"levels": ["a", "b"], "others": "other"}
CODES = {"lower": 0, "upper": 1, "codes": {"no": 0, "yes": 1}, "nulls": "indicator"}
MEETS: list[tuple[str, dict[str, Any], str, list[Any], list[bool]]] = [
    ("n", NUMBER, ">=", [5.0], [False, True, False, True]),
    ("n", NUMBER, ">", [5.0], [False, False, False, True]),
    ("n", NUMBER, "<", [5.0], [True, False, False, False]),
    ("n", NUMBER, "<=", [5.0], [True, True, False, False]),
    # 12 is read as 10, the end of the declared range.
    ("n", NUMBER, "==", [10.0], [False, False, False, True]),
    ("n", NUMBER, "!=", [1.0], [False, True, False, True]),
    ("n", NUMBER, "in", [1.0, 10.0], [True, False, False, True]),
    ("n", NUMBER, "not in", [1.0, 5.0], [False, False, False, True]),
    ("g", OTHERS, "==", ["a"], [True, False, False, False]),
    ("g", OTHERS, "in", ["b", "other"], [False, True, True, False]),
    ("g", OTHERS, "!=", ["other"], [True, True, False, False]),
    ("c", CODES, "==", [1], [False, True, False, True]),
    ("c", CODES, "!=", [1], [True, False, False, False]),
]


@pytest.mark.parametrize(("column", "holds", "op", "values", "meets"), MEETS)
def test_who_meets_a_comparison(
    column: str, holds: dict[str, Any], op: str, values: list[Any], meets: list[bool]
) -> None:
    one = Condition.model_validate({"column": column, "holds": holds, "op": op, "values": values})
    assert eligible([one], FRAME).tolist() == meets


def test_nan_is_missing() -> None:
    one = Condition.model_validate({"column": "n", "holds": NUMBER, "op": "!=", "values": [1.0]})
    assert eligible([one], pl.DataFrame({"n": [math.nan, 2.0]})).tolist() == [False, True]


@pytest.mark.parametrize("estimator", ["regression", "difference_in_means", "auto"])
def test_a_plain_study_answers_of_the_eligible(estimator: str, tmp_path: Path) -> None:
    path = study_in(tmp_path / "study", 20_000, where=[AGE], estimator={"penalty": ..., "name": estimator})
    assert check(path) == []
    study, plan = plan_study(path)
    assert isinstance(study, EffectStudy)
    assert study.question.endswith("where age >= 40")
    found = run_study(path, out=tmp_path / "out", engine="direct")
    release = found.release
    assert isinstance(release, EffectRelease)
    assert release.privacy.charges == plan.charges
    assert release.units == 20_000
    (answer,) = release.answers
    assert answer.interval is not None
    # Of the eligible alone the effect is 4; of everybody it is 3.
    assert answer.estimate is not None
    assert 3.7 < answer.estimate < 4.3
    # Twice the interval: once in 3,000 runs noise moves the end of regression's, .007 from 4, beyond it.
    half = (answer.interval.upper - answer.interval.lower) / 2
    assert abs(answer.estimate - 4) < 2 * half
    page = report(found.path, out=tmp_path / "report.html").read_text()
    assert "over all units where age &gt;= 40" in page
    # No sentence of the guidelines says that all units were used, or that the answer is about all of them.
    assert "units were used." not in page.replace("those who are eligible were used", "")
    assert "every unit of the dataset where age &gt;= 40" in page
    assert "every unit of the dataset," not in page


def test_a_public_column_of_label_level(tmp_path: Path) -> None:
    where = [{"column": "group", "op": "in", "values": ["a", "b"]}]
    asked = {
        "estimator": {"penalty": ..., "name": "balancing"},
        "privacy": {"epsilon": "20", "delta": 0, "level": "label"},
    }
    path = study_in(tmp_path / "study", where=where, **asked)
    release = run_study(path, out=tmp_path / "out", engine="direct").release
    assert isinstance(release, EffectRelease)
    count = people(4_000).filter(pl.col("group") != "c").height
    assert sum(value for name, value in release.details.items() if name.startswith("units[")) == count  # type: ignore[misc]
    path = study_in(tmp_path / "other", where=[{"column": "tall", "op": "==", "value": 1}], **asked)
    assert any("column 'tall' is not among the contract's 'public' columns" in one.text for one in check(path))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"column": "age", "op": ">=", "value": 70}, "70 is outside the declared range from 20 to 60"),
    ({"column": "age", "op": ">", "value": 60}, "no unit can meet it"),
    ({"column": "age", "op": ">=", "value": 20}, "every unit meets it"),
    ({"column": "age", "op": "==", "value": "forty"}, "'forty' is no number"),
    ({"column": "age", "op": "in", "values": [30, 30]}, "a value stands twice"),
    ({"column": "group", "op": "==", "value": "d"}, "'d' is none of what the contract declares: 'a', 'b', 'c'"),
    ({"column": "group", "op": "<", "value": "b"}, "has levels, which have no order"),
    ({"column": "group", "op": "not in", "values": ["a", "b", "c"]}, "no unit can meet it"),
    ({"column": "group", "op": "==", "values": ["a"]}, "'==' takes one 'value'"),
    ({"column": "group", "op": "in", "value": "a"}, "'in' takes 'values', a list"),
    ({"column": "weight", "op": ">", "value": 1}, "declares no column 'weight'"),
    ({"column": "score", "op": ">", "value": 1}, "'where' names 'score', which is an outcome"),
    ({"column": "treated", "op": "==", "value": 1}, "'where' names 'treated', which is the treatment"),
    ({"column": "person", "op": "==", "value": 1}, "declares no column 'person'"),
    ({"column": "age", "op": "=~", "value": 1}, "'where.0.op'"),
    ({"column": "age", "op": "> 1 or", "value": 1}, "'where.0.op'"),
    ({"column": "age", "op": ">", "value": {"sql": "1"}}, "'where.0.value'"),
    ({"column": "age", "op": ">", "value": 30, "code": "x"}, "unknown key 'where.0.code'"),
]


@pytest.mark.parametrize(("condition", "told"), WRONG)
def test_what_cannot_be_asked_is_told_with_its_line(condition: dict[str, Any], told: str, tmp_path: Path) -> None:
    path = study_in(tmp_path / "study", 50, where=[condition])
    (problem,) = check(path)
    assert told in problem.text
    assert problem.line is not None
    line = path.read_text().splitlines()[problem.line - 1]
    assert any(line.strip().startswith(one) for one in ("where", "- column", "op", "value", "code"))
    with pytest.raises(StudyError) as refusal:
        resolved(path)
    assert told in str(refusal.value)


def test_comparisons_that_exclude_each_other(tmp_path: Path) -> None:
    """Whatever the pair of a column: no value meets both."""
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"op": ">=", "value": 50}, {"op": "<", "value": 50}),
        ({"op": ">", "value": 50}, {"op": "<=", "value": 50}),
        ({"op": "==", "value": 30}, {"op": ">", "value": 40}),
        ({"op": "in", "values": [30, 31]}, {"op": "not in", "values": [30, 31]}),
        ({"op": "==", "value": 30}, {"op": "==", "value": 31}),
    ]
    for pair in pairs:
        path = study_in(tmp_path / "study", 50, where=[{"column": "age", **one} for one in pair])
        assert any("no value of 'age' meets all comparisons" in one.text for one in check(path)), pair
    path = study_in(tmp_path / "study", 50, where=[{"column": "age", "op": ">=", "value": 50}, AGE])
    assert check(path) == []


def test_an_estimator_of_everybody_says_which_answer_of_some(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for key, value in (("where", [AGE]), ("subgroups", "group")):
        path = study_in(
            tmp_path / "study",
            50,
            **{key: value},
            estimator={"penalty": ..., "name": "aipw", "guarantee": "asymptotic"},
        )
        code, told, _ = refused(capfd, "run", str(path), "--engine", "direct")
        assert code == 2
        assert f"'{key}': estimator 'aipw' answers one question of all units; use 'regression'" in told
        # The advice is true.
        path = study_in(tmp_path / "study", 50, where=[AGE])
        assert check(path) == []


def test_nothing_that_is_said_changes_nothing(tmp_path: Path) -> None:
    plain = resolved(study_in(tmp_path / "plain", 50))
    for value in ([], None):
        assert resolved(study_in(tmp_path / "empty", 50, where=value)).digest == plain.digest


def test_a_population_with_few_eligible_is_covered() -> None:
    """Runs of 8,000 people, a quarter eligible, seeded; so few of 200 or 40 cover once in 1,000 tests."""
    for name, runs, least in (("regression", 40, 33), ("difference_in_means", 200, 179)):
        asked = {"name": name, "trial": True, "epsilon": "2"}
        condition = {"column": "x00", "holds": {"lower": -1, "upper": 1}, "op": ">", "values": [0.5]}
        study, held = make_protocol(1, 1, where=[condition], **asked), []
        for seed in range(runs):
            random = np.random.default_rng(seed)
            z = random.uniform(-1, 1, (8_000, 1))
            t, inside = random.integers(0, 2, 8_000), z[:, 0] > 0.5
            u = np.clip(0.2 * z[:, 0] + 0.3 * t * np.where(inside, 1, -1) + 0.2 * random.normal(size=8_000), -1, 1)
            rows = in_cells(z, t, u[:, None], ~inside)
            (answer,) = analysed(study, rows, seed).answers
            assert answer.interval is not None
            # Half of the range of 10 is 1 in u.
            held.append(answer.interval.lower <= 1.5 <= answer.interval.upper)
            assert answer.state == "answered"
        assert sum(held) >= least, (name, sum(held))


def test_few_eligible_read_as_nobody_does() -> None:
    """Forty of 4,000 people, or nobody: the interval is the declared range, and no error tells of it."""
    for count in (40, 0):
        random = np.random.default_rng(count)
        z, t = random.uniform(-1, 1, (4_000, 1)), random.integers(0, 2, 4_000)
        rows = in_cells(z, t, random.uniform(-1, 1, (4_000, 1)), np.arange(4_000) >= count)
        for name in ("regression", "difference_in_means"):
            condition = {"column": "x00", "holds": {"lower": -1, "upper": 1}, "op": ">", "values": [0.5]}
            (answer,) = analysed(make_protocol(1, 1, name=name, where=[condition]), rows).answers
            assert answer.state == "unresolved"
            assert answer.interval is not None
            assert (answer.interval.lower, answer.interval.upper) == (-10, 10)


def test_the_operators_are_all_tried() -> None:
    assert {op for _, _, op, _, _ in MEETS} == {str(one) for one in Operator}
