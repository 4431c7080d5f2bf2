"""What `plan` declares, what the ledger holds and what the release prints are equal, for every way to ask.

The ways are those of ``tests/golden_studies.py``, whose golden file has their numbers and charges. Beside them stand
blocks, runs that cost nothing, and what some estimators alone print. Tables on which a division could end badly are
those of ``tests/statistical/test_degenerate_columns.py``.
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.run.declare import plan_study
from causalveil.schemas.errors import BudgetRefused, CausalveilError, StudyError
from causalveil.schemas.limits import Code
from causalveil.schemas.release import EffectRelease
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from causalveil.tasks.report.page import report_html
from tests.golden import read
from tests.golden_studies import EFFECTS, FURTHER, TABLES, Made, made, rows
from tests.ledger_help import assert_agreed
from tests.limits import codes, words
from tests.matching_help import matching_changes
from tests.studies import command, merge, people, refused, resolved, write_study

MADE = made()
REFUSED = {line[0] for line in read() if line[2] == "refused"}
# What differs from others of its estimator by a number alone, and tables: ``test_protocol_study.py`` runs some.
LONG = {f"{kind} by {name}" for kind, some in (("effect", EFFECTS), ("protocol", TABLES)) for name in some}
LONG |= {name for name in MADE if name.startswith("protocol")} - {"protocol by regression, sample, delta 0"}
# Whom the charges of a level are made to.
SCOPES = {"sample": {"train", "estimation"}, "label": {"all"}, "training_units": {"train"}}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in MADE if name not in REFUSED],
)
def test_plan_ledger_release_agree(name: str, tmp_path: Path) -> None:
    study: Made = MADE[name]
    path = study.write(tmp_path / "study")
    _, plan = plan_study(path)
    release = assert_agreed(plan, run_study(path, out=tmp_path / "out", engine="direct").path)
    asked, privacy = study.study["estimator"]["name"], study.study["privacy"]
    assert release.units == 1_000
    assert not release.not_for_release
    assert plan.total.epsilon == Decimal(str(privacy["epsilon"]))
    if name in FURTHER:
        assert len(plan.charges) == FURTHER[name][2]
    if asked == "ipw":
        assert {str(charge.scope) for charge in plan.charges} == SCOPES[privacy.get("level", "sample")]
    if not isinstance(release, EffectRelease):
        return
    for row in release.answers:
        assert row.interval is None or row.interval.lower <= row.estimate <= row.interval.upper
        assert min(row.sampling_error or 0, row.noise_error or 0) >= 0
    # Of a private model noisy coefficients alone are printed: age, three groups, intercept.
    model = [detail for detail in release.details if detail.startswith("propensity_coefficient[")]
    private = asked in ("ipw", "matching") and privacy.get("level") != "label"
    assert len(model) == (5 if private else 0) or asked not in ("ipw", "matching")


# Under a concentrated account; of a draw without a delta too.
CONCENTRATED = {"accounting": "concentrated", "caps": {"sample": {"epsilon": 4, "delta": "1e-4"}}}
IN_RHO = ("effect by ipw, sample, delta 1e-6", "regression, curves", "effect by matching, sample, delta 0")


@pytest.mark.parametrize("name", IN_RHO)
def test_plan_ledger_release_agree_in_rho(name: str, tmp_path: Path) -> None:
    asked = MADE[name]
    study = merge(asked.study, {"privacy": {"epsilon": "0.5"}})
    path = Made(study, merge(asked.contract, CONCENTRATED), asked.frame).write(tmp_path / "study")
    _, plan = plan_study(path)
    assert_agreed(plan, run_study(path, out=tmp_path / "out", engine="direct").path)
    (row, *_) = open_ledger().account("small").blocks
    assert row.rho is not None
    assert 0 < row.share_left < 1


def test_runs_in_rho_end_where_the_plan_says_that_they_fit(tmp_path: Path) -> None:
    changes = {"accounting": "concentrated", "caps": {"sample": {"epsilon": 1, "delta": "1e-5"}}}
    changes["caps"] |= {"label": ..., "training_units": ...}
    path = write_study(tmp_path / "study", study={"privacy": {"epsilon": "0.5"}}, contract=changes)
    # Sums would admit two.
    for number in range(3):
        run_study(path, out=tmp_path / str(number), run_id=f"run-{number}", engine="direct")
    with pytest.raises(BudgetRefused, match="rho spent or reserved"):
        run_study(path, out=tmp_path / "late", run_id="late", engine="direct")


def test_what_cannot_be_asked_is_refused_and_costs_nothing(tmp_path: Path) -> None:
    for place, name in enumerate(sorted(REFUSED & MADE.keys())):
        path = MADE[name].write(tmp_path / str(place))
        with pytest.raises(CausalveilError) as ended:
            run_study(path, out=tmp_path / "out", engine="direct")
        assert "\n" not in str(ended.value), name
    assert not (tmp_path / "out").exists()
    assert open_ledger().account("small").blocks == ()


@pytest.mark.parametrize("name", ["effect by ipw, sample, delta 1e-6", "regression, curves"])
def test_plan_without_data_has_formulas(name: str, tmp_path: Path) -> None:
    path = MADE[name].write(tmp_path / "study")
    for part in path.parent.glob("*.parquet"):
        part.unlink()
    _, plan = plan_study(path)
    assert plan.sizes is None
    assert all(charge.sensitivity is None and charge.noise_scale is None for charge in plan.charges)
    assert plan.total.epsilon == Decimal(str(MADE[name].study["privacy"]["epsilon"]))
    _, counted = plan_study(path, units=400)
    assert all(charge.sensitivity for charge in counted.charges)


@pytest.mark.parametrize("arm", [False, True])
def test_one_arm_alone_is_refused_where_arms_are_public(
    arm: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    study = MADE["effect by balancing, label, delta 0"]
    path = Made(study.study, study.contract, lambda n, seed: rows(n, seed).with_columns(treated=pl.lit(arm))).write(
        tmp_path / "study"
    )
    code, line, _ = refused(capfd, "run", str(path), "--engine", "direct", "--out", str(tmp_path / "out"))
    assert code == 3
    assert ("no control unit" if arm else "no treated unit") in line


@pytest.mark.parametrize(
    ("name", "linear"),
    [
        ("regression, no curves", True),
        ("regression, curves", False),
    ],
)
def test_confounding_by_curves_counts_as_covered_only_where_they_were_looked_for(
    name: str, linear: bool, tmp_path: Path
) -> None:
    path = MADE[name].write(tmp_path / "study")
    release = run_study(path, out=tmp_path / "out", engine="direct", simulate=1).release
    done, left = release.answers[0].confounding, codes(release.not_covered)
    assert done is not None
    assert done.linear is linear
    assert done.unseen is not None
    assert (Code.any_curves in left) is linear
    assert (Code.other_curves in left) is not linear
    assert (Code.curves_not_kept in codes(release.covers)) is not linear


def test_terms_are_in_plan_release_balance_and_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each column of a term has its balance; other curves are said not to be covered, and nothing allows for them."""
    path = MADE["effect by regression, terms"].write(tmp_path / "study")
    release = run_study(path, out=tmp_path / "out", engine="direct", simulate=1).release
    names = [one.covariate for one in release.balance]
    assert names[-6:] == ["age^2", "group=b:age", "group=c:age", "ns(age, 3)[1]", "ns(age, 3)[2]", "age > 40"]
    assert "non-linear confounding other than by the declared terms" in words(release.not_covered)
    assert Code.curves_not_kept not in codes(release.covers)
    stated = "the declared terms alone are adjusted for: age^2, group:age, ns(age, 3), age > 40"
    assert any(stated in str(one) for one in release.warnings)
    page = report_html(release)
    assert all(name in page for name in ("age^2", "ns(age, 3)[2]", "group=b:age"))
    command("plan", path)
    assert stated in " ".join(capsys.readouterr().out.split())


def test_a_duplicated_covariate_harms_nothing(tmp_path: Path) -> None:
    frame = people(4000).with_columns(again=pl.col("age"))
    covariates = {"again": {"lower": 20, "upper": 60}}
    study = {"estimator": {"penalty": ..., "name": "regression", "curves": "none"}, "covariates": covariates}
    contract = {"estimators": ["regression"], "columns": covariates, "caps": {"sample": {"epsilon": 1000}}}
    study |= {"privacy": {"epsilon": "20"}, "estimand": "ATC"}
    path = write_study(tmp_path / "study", frame=frame, study=study, contract=contract)
    release = run_study(path, out=tmp_path / "out", engine="direct", simulate=1).release
    assert release.interval.lower < 2 < release.interval.upper
    assert release.interval.upper - release.interval.lower < 1


MATCHING = {"estimators": ["matching"]}


@pytest.mark.parametrize("level", ["label", "sample"])
def test_the_release_prints_what_the_declared_unit_was(level: str, tmp_path: Path) -> None:
    """The charge says 1 in units of the largest weight times B; the details say how much that is in this run."""
    correct = {"correct_attenuation": False} if level == "sample" else {}
    changes = matching_changes(level=level, epsilon="4", **correct)
    path = write_study(tmp_path / "study", study=changes, contract=MATCHING)
    release = run_study(path, out=tmp_path / "out", engine="direct").release
    details = release.details
    assert details["largest_weight"] == pytest.approx((1 + details["largest_reuse"] / 5) / 400)
    assert details["sensitivity_of_estimate"] == details["largest_weight"] * 10
    assert details["largest_reuse"] <= max(details["cap_treated"], details["cap_controls"])
    assert details["treated_arm"] + details["control_arm"] == details["matched"] == 400
    scale = release.privacy.charges[-1].noise_scale
    assert details["noise_standard_error"] == pytest.approx(
        np.sqrt(2) * scale * details["sensitivity_of_estimate"] / (1 - 0.15)
    )
    assert ("attenuation_factor" in details) == (level == "sample")
    assert bool(release.privacy.unprotected) == (level == "label")
    assert sum(name.startswith("propensity_coefficient[") for name in details) == (5 if level == "sample" else 0)


def test_the_order_of_rows_and_the_cut_into_files_do_not_matter(tmp_path: Path) -> None:
    """Same run id, so the same secret key, and seeded noise: then the release is the same to the last digit."""
    frame = people(300)
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=3).select(sorted(frame.columns))
    for level in ("label", "sample"):
        found = []
        for name, mixed, partitions in (("a", frame, 1), ("b", shuffled, 4)):
            study = matching_changes(level=level, epsilon="8")
            path = write_study(
                tmp_path / level / name, frame=mixed, partitions=partitions, study=study, contract=MATCHING
            )
            out = tmp_path / f"out-{level}-{name}"
            found.append(run_study(path, out=out, run_id="order", simulate=3, engine="direct").release)
        assert found[0].estimate == found[1].estimate
        assert found[0].interval == found[1].interval
        details = [{k: v for k, v in one.details.items() if not k.startswith("propensity_c")} for one in found]
        assert details[0] == details[1]


def test_at_sample_level_an_empty_arm_is_no_error(tmp_path: Path) -> None:
    """What randomised treatments left is no fault of the data: the whole range, and the whole charge."""
    frame = people(12).with_columns(treated=pl.lit(True))
    study = matching_changes(level="sample", ratio=50)
    path = write_study(tmp_path / "study", frame=frame, study=study, contract=MATCHING)
    release = run_study(path, out=tmp_path / "out", engine="direct").release
    assert release.interval.whole_range
    assert release.details["drowned"]
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1


@pytest.mark.parametrize("asked", [{"propensity": {"known": 0.5}}, {"guarantee": "finite_sample"}])
def test_another_guarantee_of_aipw_is_refused_and_each_advice_is_true(asked: dict[str, Any], tmp_path: Path) -> None:
    """No study gets the paper's interval, which holds in the limit alone, unless it asks for it."""
    contract = {"estimators": ["aipw", "regression", "difference_in_means"], "guarantees": ["finite_sample"]}
    study: dict[str, Any] = {"estimator": {"name": "aipw", "penalty": ..., **asked}}
    with pytest.raises(StudyError, match="no guarantee but 'asymptotic'") as refused:
        plan_study(write_study(tmp_path / "study", study=study, contract=contract))
    told = re.findall(r"{name: (\w+)(, trial: true)?}", str(refused.value))
    assert [name for name, _ in told] == ["regression", "difference_in_means", "regression"]
    for place, (name, trial) in enumerate(told):
        instead = {"estimator": {"name": name, "penalty": ...} | ({"trial": True} if trial else {})}
        plan_study(write_study(tmp_path / str(place), study=instead, contract=contract))


def test_simulation_charges_nothing(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study")
    first = run_study(path, out=tmp_path / "a", run_id="s", simulate=7, engine="direct").release
    second = run_study(path, out=tmp_path / "b", run_id="s", simulate=7, engine="direct").release
    other = run_study(path, out=tmp_path / "c", run_id="s", simulate=8, engine="direct").release
    assert first.estimate == second.estimate != other.estimate
    assert first.not_for_release
    assert first.noise.source == "seeded"
    assert open_ledger().account("small").blocks == ()


def test_specification_and_digest_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest leaves out data.path and the operator's settings, and nothing else."""
    base = resolved(write_study(tmp_path / "a")).digest
    monkeypatch.setenv("CAUSALVEIL_WORKERS", "2")
    assert resolved(write_study(tmp_path / "b", study={"data": {"path": "."}})).digest == base
    for declared in ({"columns": {"treated": {"codes": {"control": 1, "treated": 0}}}}, {"unit": "age"}):
        columns = {"columns": {"age": ...}} if "unit" in declared else {}
        study = {"covariates": {"age": ...}} if columns else None
        owner = merge({"public": ["treated", "group"]} | columns, declared)
        assert resolved(write_study(tmp_path / "d", study=study, contract=owner)).digest != base
    for changes in ({"confidence": 0.9}, {"privacy": {"epsilon": "0.9"}}, {"outcome": {"upper": 11}}):
        assert resolved(write_study(tmp_path / "c", study=changes)).digest != base
