"""Matching: what `plan` declares, what the ledger holds and what the release prints are equal, for every option."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.sequence.declare import plan_study
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.ledger_help import assert_agreed
from tests.matching_help import CONTRACT, matching_changes
from tests.studies import people, write_study

STAGES = {"label": ["perturb"], "sample": ["propensity", "scores", "respond", "perturb"]}
OPTIONS: list[dict[str, Any]] = [
    {"level": level, "estimand": estimand} for level in STAGES for estimand in ("ATE", "ATT", "ATC")
] + [
    {"level": "label", "variant": "paper"},
    {"level": "sample", "variant": "paper"},
    {"level": "label", "cap": 3, "ratio": 2},
    {"level": "label", "caliper": 0.05, "ratio": 1},
    {"level": "sample", "caliper": 5.0},
    {"level": "sample", "delta": "1e-6"},
    {"level": "sample", "correct_attenuation": True, "epsilon": "5"},
    {"level": "sample", "budget_shares": {"weights": 0.1, "scores": 0.3, "treatment": 0.3, "outcome": 0.3}},
]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: "-".join(map(str, option.values())))
def test_plan_ledger_release_agree(option: dict[str, Any], tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", study=matching_changes(**{"epsilon": "0.7"} | option), contract=CONTRACT)
    study, plan = plan_study(path)
    release = assert_agreed(plan, run_study(path, out=tmp_path / "out", engine="direct").path)
    assert [charge.stage for charge in plan.charges] == STAGES[option["level"]]
    assert {str(charge.scope) for charge in plan.charges} == {"all"}
    assert plan.total == study.privacy.cost
    assert sum(charge.epsilon for charge in plan.charges) == Decimal(option.get("epsilon", "0.7"))

    interval = release.interval
    assert interval.lower <= release.estimate <= interval.upper
    assert interval.confidence == 0.95
    assert min(release.variance.sampling, release.variance.noise) >= 0
    assert not release.not_for_release


@pytest.mark.parametrize("level", ["label", "sample"])
def test_the_release_prints_what_the_declared_unit_was(level: str, tmp_path: Path) -> None:
    """The charge says 1 in units of the largest weight times B; the details say how much that is in this run."""
    correct = {"correct_attenuation": False} if level == "sample" else {}
    changes = matching_changes(level=level, epsilon="4", **correct)
    path = write_study(tmp_path / "study", study=changes, contract=CONTRACT)
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
    for level in STAGES:
        found = []
        for name, rows, partitions in (("a", frame, 1), ("b", shuffled, 4)):
            study = matching_changes(level=level, epsilon="8")
            path = write_study(
                tmp_path / level / name, frame=rows, partitions=partitions, study=study, contract=CONTRACT
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
    path = write_study(tmp_path / "study", frame=frame, study=study, contract=CONTRACT)
    release = run_study(path, out=tmp_path / "out", engine="direct").release
    assert release.interval.whole_range
    assert release.details["drowned"]
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1
