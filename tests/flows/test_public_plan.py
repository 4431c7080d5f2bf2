"""A plan at label level looks at covariates and treatments of its own people, which are public, and at no outcome."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from causalveil.flows.api import plan as plan_of
from causalveil.flows.plan.curves import target
from causalveil.flows.plan.study_plan import people_of
from causalveil.flows.run.declare import known_sizes, plan_study
from causalveil.schemas.plan import Layout, StandIn
from causalveil.schemas.remarks import PlanCode, remark
from causalveil.tasks.data import normalise
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.normalise import public_rows
from causalveil.tasks.data.partitions import read_layout
from causalveil.tasks.estimate.people import assumed
from causalveil_replication.accuracy.cells import run_cell
from causalveil_replication.accuracy.later import LATER
from causalveil_replication.accuracy.methods import METHODS
from causalveil_replication.accuracy.populations import POPULATIONS
from tests.studies import people, resolved, write_study

LABEL: dict[str, Any] = {"privacy": {"level": "label", "delta": 0}}
ESTIMATORS: dict[str, dict[str, Any]] = {
    "balancing": {"penalty": ..., "name": "balancing"},
    "ipw": {"name": "ipw", "penalty": ...},
    "matching": {"name": "matching", "penalty": ...},
}
CAPS = {level: {"epsilon": 1000, "delta": "1e-2"} for level in ("sample", "label")}
OWNER: dict[str, Any] = {"estimators": list(ESTIMATORS), "caps": CAPS}
OF_PEOPLE = remark(PlanCode.public_columns)


def said_of(folder: Path, name: str, frame: pl.DataFrame, **study: Any) -> dict[str, Any]:
    """What a plan of this table expects, its sentences among it."""
    changes = LABEL | {"estimator": ESTIMATORS[name]} | study
    found = plan_of(write_study(folder, frame=frame, study=changes, contract=OWNER))
    return {**found.expected, "sentences": found.sentences}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_public_columns_are_looked_at_and_outcomes_are_not(name: str, tmp_path: Path) -> None:
    frame = people(400)
    said = said_of(tmp_path / "a", name, frame)
    assert OF_PEOPLE in said["sentences"]
    assert said["treated"] == pytest.approx(frame["treated"].mean())
    assert said["half_width_range"][0] <= said["half_width"] <= said["half_width_range"][1]
    # Outcomes that no run could read make no difference, a bit of it.
    other = frame.with_columns(score=pl.lit("nobody may know"))
    assert said_of(tmp_path / "b", name, other) == said
    # The treated are older by as much as the range allows.
    older = frame.with_columns(age=pl.when(pl.col("treated") == 1).then(40 + pl.col("age") / 3).otherwise("age"))
    confounded = said_of(tmp_path / "c", name, older.with_columns(pl.col("age").cast(frame.schema["age"])))
    assert confounded["half_width"] > 1.05 * said["half_width"]


def test_the_epsilon_for_a_width_is_the_one_at_which_a_plan_says_that_width(tmp_path: Path) -> None:
    """By the same people: what their weights leave of imbalance no formula knows."""
    frame, changes = people(400), LABEL | {"estimator": ESTIMATORS["ipw"]}
    path = write_study(tmp_path / "a", frame=frame, study=changes, contract=OWNER)
    study, declared = plan_study(path, None)
    seen, wanted = people_of(path, study, declared), 0.8 * plan_of(path).expected["half_width"]
    found = target(study, known_sizes(declared), assumed(study, StandIn()), wanted, seen)
    privacy = LABEL["privacy"] | {"epsilon": found["epsilon"]}
    said = said_of(tmp_path / "b", "ipw", frame, privacy=privacy)
    assert found["expected"] == pytest.approx(said["half_width"], rel=1e-9)
    assert found["expected"] <= wanted


def test_where_the_people_are_not_at_hand_a_plan_speaks_of_people_who_nobody_is(tmp_path: Path) -> None:
    frame, estimator = people(400), ESTIMATORS["ipw"]
    path = write_study(tmp_path / "a", frame=frame, study=LABEL | {"estimator": estimator}, contract=OWNER)
    assert OF_PEOPLE in plan_of(path).sentences
    # Of another number of units the folder tells nothing.
    assert OF_PEOPLE not in plan_of(path, units=401).sentences
    # Nor where treatments and covariates are private.
    path = write_study(tmp_path / "b", frame=frame, study={"estimator": estimator}, contract=OWNER)
    assert OF_PEOPLE not in plan_of(path).sentences
    # What a run would refuse is a run's to refuse.
    for place, wrong in enumerate(
        (
            frame.with_columns(treated=pl.lit(7)),
            frame.with_columns(treated=pl.lit(1)),
            frame.with_columns(age=pl.struct("age")),
            frame.with_columns(age=pl.lit("x")),
            frame.drop("age"),
        )
    ):
        said = said_of(tmp_path / f"wrong{place}", "ipw", wrong)["sentences"]
        assert OF_PEOPLE not in said, place
    damaged = write_study(tmp_path / "d", frame=frame, study=LABEL | {"estimator": estimator}, contract=OWNER)
    file = tmp_path / "d" / "part-0.parquet"
    content = bytearray(file.read_bytes())
    content[20:600] = bytes(580)
    file.write_bytes(bytes(content))
    assert OF_PEOPLE not in plan_of(damaged).sentences


def test_an_even_part_of_large_data_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten row groups of 100 rows every k-th row, and every second group where less is to be read."""
    frame = people(1000).with_columns(age=20.0 + 0.04 * pl.int_range(1000))
    study = resolved(write_study(tmp_path, frame=frame, study=LABEL, contract=OWNER))
    for path in tmp_path.glob("*.parquet"):
        pl.read_parquet(path).write_parquet(path, row_group_size=100)
    layout: Layout = read_layout(study, DataFolder(tmp_path))

    def places(most: int) -> list[int]:
        ages = public_rows(study, DataFolder(tmp_path), layout, most).x[:, 0]
        span = 999 * 0.04 / 40 * 2
        # From an age's place in its range back to its row.
        return [round((age / factor + 1) / span * 999) for age in ages for factor in (abs(ages[0]),)]

    assert places(10_000) == list(range(1000))
    assert places(100) == list(range(0, 1000, 10))
    monkeypatch.setattr(normalise, "READ", 500)
    assert places(10_000) == [row for row in range(1000) if row // 100 % 2 == 0]


def off_by(name: str, units: int, method: str, epsilon: str, runs: int = 3) -> float:
    """The mean half-width that plans of the people of some runs expect over that of the runs."""
    population, one = {**POPULATIONS, **LATER}[name], METHODS[method]
    found = run_cell(population, one.estimator(population), units, epsilon, one.delta, runs, level=one.level)
    return found.planned / found.half_width - 1


@pytest.mark.parametrize("epsilon", ["0.5", "8"])
@pytest.mark.parametrize(("method", "most"), [("matching-label", 0.15), ("ipw-label", 0.15), ("balancing", 0.2)])
def test_the_expected_width_is_the_measured_one_where_products_confound(method: str, most: float, epsilon: str) -> None:
    """Near the mean of the same 3 runs of 500 people; by people who nobody is `ipw` and `matching` had come to a third
    of it. What is left to outcomes is most of the width of `balancing`, whose imbalance is little."""
    assert abs(off_by("interaction6", 500, method, epsilon)) < most


def test_in_a_trial_what_treatment_seems_to_follow_explains_nothing() -> None:
    """Randomised treatments of 3,000 people follow an index by chance alone, which outcomes do not."""
    assert abs(off_by("trial6", 3_000, "balancing", "8", runs=2)) < 0.1


def test_randomised_treatments_of_many_people_stay_randomised_in_a_plan() -> None:
    """Level sample, 100,000 people. Of fewer people with epsilon in proportion treatments would hardly be mixed."""
    assert abs(off_by("normals2", 100_000, "matching", "1", runs=2)) < 0.15
