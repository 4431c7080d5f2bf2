"""What `plan` declares, what the ledger holds and what the release prints are equal, for every option."""

from __future__ import annotations

import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from causalveil.flows.api import run_study
from causalveil.flows.sequence.declare import plan_study
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.ledger_help import assert_agreed
from tests.studies import merge, resolved, write_study

OPTIONS = [
    {"weighting": weighting, "estimand": estimand, "level": level, "delta": delta, "variant": "ours"}
    for weighting, estimand, level, delta in itertools.product(
        ("hajek", "horvitz_thompson"), ("ATE", "ATT", "ATC"), ("sample", "label", "training_units"), ("1e-6", "0")
    )
    if weighting == "hajek" or level != "label"
] + [
    {"weighting": "horvitz_thompson", "estimand": estimand, "level": level, "delta": "1e-6", "variant": "paper"}
    for estimand, level in itertools.product(("ATE", "ATT", "ATC"), ("sample", "training_units"))
]

SCOPES = {"sample": {"train", "estimation"}, "label": {"all"}, "training_units": {"train"}}


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: "-".join(option.values()))
def test_plan_ledger_release_agree(option: dict[str, str], tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "estimand": option["estimand"],
        "estimator": {"weighting": option["weighting"], "variant": option["variant"]},
        "privacy": {"epsilon": "0.7", "delta": option["delta"], "level": option["level"]},
    }
    path = write_study(tmp_path / "study", study=changes)
    _, plan = plan_study(path)
    release = assert_agreed(plan, run_study(path, out=tmp_path / "out", engine="direct").path)
    assert {str(charge.scope) for charge in plan.charges} == SCOPES[option["level"]]
    assert plan.total.epsilon == Decimal("0.7")

    model = [name for name in release.details if name.startswith("propensity_coefficient[")]
    assert len(model) == (0 if option["level"] == "label" else 5), "age, three groups, intercept; noisy ones only"

    interval = release.interval
    assert interval.lower <= release.estimate <= interval.upper
    assert release.variance.sampling >= 0
    assert release.variance.noise >= 0
    assert release.units == 400
    assert not release.not_for_release


def test_same_run_id_again_is_free(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study")
    first = run_study(path, out=tmp_path / "out", run_id="again", engine="direct")
    second = run_study(path, out=tmp_path / "elsewhere", run_id="again", engine="direct")
    assert second.resumed
    assert second.path.read_bytes() == first.path.read_bytes()
    assert open_ledger().account("small").blocks[0].spent.epsilon == 1


def test_plan_without_data_has_formulas(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study")
    for part in path.parent.glob("*.parquet"):
        part.unlink()
    _, plan = plan_study(path)
    assert plan.sizes is None
    assert all(charge.sensitivity is None and charge.noise_scale is None for charge in plan.charges)
    assert any("n" in charge.formula or "m" in charge.formula for charge in plan.charges)
    _, counted = plan_study(path, units=400)
    assert all(charge.sensitivity for charge in counted.charges)


def test_blocks_are_charged_one_by_one(tmp_path: Path) -> None:
    """A run charges the blocks that it reads; a new month starts fresh; an old one does not come back."""
    import polars as pl

    from tests.studies import people

    folder = tmp_path / "study"
    path = write_study(
        folder,
        study={"data": {"select": {"newest": 1}}},
        contract={"blocks": {"key": "month", "units_span": False}, "caps": {"sample": {"epsilon": 1, "delta": "1e-5"}}},
    )
    for part in folder.glob("*.parquet"):
        part.unlink()

    def month(name: str, first: int) -> None:
        (folder / f"month={name}").mkdir()
        frame = people(400, seed=first).with_columns(person=pl.col("person") + first)
        frame.write_parquet(folder / f"month={name}" / "part.parquet")

    month("2026-01", 0)
    run_study(path, out=tmp_path / "january", engine="direct")
    month("2026-02", 10_000)
    release = run_study(path, out=tmp_path / "february", engine="direct").release
    assert release.privacy.blocks.charged == ("month=2026-02",)
    assert release.units == 400
    spent = {block.block: block.spent.epsilon for block in open_ledger().account("small").blocks}
    assert spent == {"month=2026-01": 1, "month=2026-02": 1}


def test_units_that_span_blocks_charge_all(tmp_path: Path) -> None:
    from tests.studies import people

    folder = tmp_path / "study"
    path = write_study(
        folder,
        study={"data": {"select": {"newest": 1}}},
        contract={"blocks": {"key": "month", "units_span": True}},
    )
    for part in folder.glob("*.parquet"):
        part.unlink()
    for name in ("1", "2", "10"):
        (folder / f"month={name}").mkdir()
        people(300).write_parquet(folder / f"month={name}" / "part.parquet")
    release = run_study(path, out=tmp_path / "out", engine="direct").release
    assert release.privacy.blocks.charged == ("all",)
    assert release.privacy.blocks.units_span_blocks
    assert release.units == 300


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
