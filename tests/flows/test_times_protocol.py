"""Protocols of times end to end: one charge for all questions, subgroups, arms, who is eligible, refusals, a rerun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.plan.study_plan import planned
from causalveil.flows.run.declare import plan_study
from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.plan import StandIn
from causalveil.schemas.release import EffectRelease, release_schema
from causalveil.schemas.remarks import PlanCode
from causalveil.tasks.report.page import report_html
from tests.studies import resolved
from tests.survival_help import MANY, kept_whole, of_sites, write_times

DOSES = {"drug": {"levels": ["none", "low", "high"]}, "age": {"lower": 20, "upper": 90}}


def with_doses(n: int) -> pl.DataFrame:
    random = np.random.default_rng(5)
    drug = pl.Series("drug", random.choice(["none", "low", "high"], n))
    return of_sites(n).with_columns(drug, age=pl.Series(random.uniform(20, 90, n)))


@pytest.mark.parametrize(
    ("changes", "answers", "pairs"),
    [
        ({}, 20, 4),
        ({"treatment": "drug", "arms": {"reference": "none"}}, 40, 8),
        ({"subgroups": ..., "where": [{"column": "age", "op": ">=", "value": 40}]}, 5, 1),
        ({"measure": "risk", "privacy": {"delta": "0"}}, 12, 4),
    ],
)
def test_plan_ledger_release_agree(changes: dict[str, Any], answers: int, pairs: int, tmp_path: Path) -> None:
    """One draw of sensitivity sqrt(2) (without a delta 2) for all; a second run returns the first one's bytes."""
    frame = with_doses(3_000)
    path = write_times(tmp_path / "study", frame=frame, contract={"columns": DOSES}, study=changes)
    _, plan = plan_study(path)
    found = run_study(path, out=tmp_path / "out", run_id="many", engine="direct")
    release = found.release
    assert isinstance(release, EffectRelease)
    assert release.privacy.charges == plan.charges
    assert [(one.name, round(float(one.sensitivity), 4)) for one in plan.charges] == [
        ("cells", 2.0 if "privacy" in changes else 1.4142)
    ]
    assert (len(release.answers), len(release.curves)) == (answers, pairs)
    assert all(one.curves.times == release.curves[0].curves.times for one in release.curves)
    # The reference's cumulative incidence stands once in each group, as far as pairs are seen equally long.
    once = {(one.group, one.curves.seen_until) for one in release.curves}
    assert report_html(release).count("incidence in arm none, ") == (len(once) if "treatment" in changes else 0)
    kept_whole(found, path, release_schema())


@pytest.mark.parametrize(
    ("study", "first"),
    [
        ({"measure": ["rmst", "risk"]}, "the mean time without event until 365 days"),
        # The first primary question is the headline's, wherever it stands.
        ({"measure": ["risk"], "outcomes": MANY["outcomes"][::-1]}, "the risk of death until 365 days"),
    ],
)
def test_a_plan_names_the_answer_that_a_width_is_of(study: dict[str, Any], first: str, tmp_path: Path) -> None:
    path = write_times(tmp_path, frame=of_sites(300), study=study)
    found = planned(path, 40_000, StandIn(), target=0.9).expected
    assert found["half_width_of"] == first
    (target,) = (one for one in found["sentences"] if one.code in (PlanCode.target, PlanCode.target_missed))
    assert target.facts["of"] == f" of {first}"
    single = "subgroups" in study
    assert any("to hold together with all other answers" in str(one) for one in found["sentences"]) != single
    asked = next(one for one in found["sentences"] if one.code is PlanCode.asked)
    assert (" in 3 subgroups." in str(asked)) != single


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a column that nobody declared": ({"subgroups": "ward"}, "declares no column 'ward'"),
    "a number for subgroups": ({"subgroups": "age"}, "levels of a column"),
    "a level that is none": ({"subgroups": {"name": "site", "levels": ["north", "moon"]}}, "'moon' is no level"),
    "beyond the contract": (
        {"outcomes": [{"time": "days", "event": "status", "horizon": 9999, "role": "primary"}]},
        "times end at 3650",
    ),
    "twice the same horizon": (
        {"outcomes": [MANY["outcomes"][0], {**MANY["outcomes"][0], "of": ["death"]}]},
        "write each once",
    ),
    "no time": ({"outcomes": ["days"]}, "asks for a time to an event"),
    "losses by the subgroups": ({"covariates": ["age"], "censoring": {"by": ["site"]}}, "two roles"),
    "an earlier end": ({"censoring": {"beyond": "restrict"}}, "add an outcome with an earlier"),
    "a subgroup as a covariate": ({"covariates": ["age", "site"]}, "is a covariate too"),
    "censoring of arms as they are": ({"censoring": {"floor": 0.2}}, "name covariates"),
    "a drug without arms": ({"treatment": "drug"}, "is no pair of codes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_asked_is_refused_before_anything_is_charged(case: str, tmp_path: Path) -> None:
    changes, said = REFUSED[case]
    path = write_times(tmp_path, frame=with_doses(300), contract={"columns": DOSES}, study=changes)
    with pytest.raises(CausalveilError, match=said):
        run_study(path, out=tmp_path / "out", engine="direct")
    assert not (tmp_path / "out").exists()


def test_the_same_rows_are_read_whatever_is_asked(tmp_path: Path) -> None:
    """Columns of a protocol: who, treatment, time, event, subgroup, and what eligibility reads; nothing else."""
    path = write_times(
        tmp_path, frame=with_doses(300), contract={"columns": DOSES},
        study={"where": [{"column": "age", "op": "<", "value": 80}]},
    )  # fmt: skip
    assert resolved(path).columns == ("person", "treated", "days", "status", "site", "age")
