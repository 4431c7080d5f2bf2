"""`replicate matching`: what it writes, that it runs the production code, what it says of missing data."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from pathlib import Path

import pytest

from causalveil.flows.run.estimators import rehearse_effect
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil_replication.main import main
from causalveil_replication.yuan2026 import costs, runs, sweeps, tables
from causalveil_replication.yuan2026.bound import bounds
from causalveil_replication.yuan2026.data import load
from causalveil_replication.yuan2026.rivals import COMPETITORS
from causalveil_replication.yuan2026.runs import SETTINGS, Setting, prepare

DATA = Path(__file__).parents[2] / "data"


FEW_COMPETITORS = ("matching_label", "auto_label", "lebeda_label", "matching_sample", "smooth_matching", "privsyn")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every mechanism and every cap, but two epsilons and, beside N = 5, N = 1 with adaptive caps only; a few
    competitors, one coefficient beside the paper's, four divisions of the budget."""
    few = [one for one in SETTINGS if one.ratio == 5 or (one.ratio, one.cap) == (1, "adaptive")]
    monkeypatch.setattr(runs, "SETTINGS", few)
    monkeypatch.setattr(runs, "EPSILONS", ("0.5", "4"))
    monkeypatch.setattr(tables, "COMPETITORS", [one for one in COMPETITORS if one.name in FEW_COMPETITORS])
    monkeypatch.setattr(sweeps, "RATIOS", (5,))
    monkeypatch.setattr(sweeps, "COEFFICIENTS", {"label": ("0.01", "1"), "sample": ("0.001", "0.1")})
    monkeypatch.setattr(sweeps, "COEFFICIENT_EPSILONS", ("1",))
    monkeypatch.setattr(sweeps, "ALLOCATION_EPSILONS", ("1.5",))
    monkeypatch.setattr(sweeps, "TENTHS", (Decimal("0.1"), Decimal("0.7")))


@pytest.mark.usefixtures("few")
def test_tables_page_and_figures(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """On what is shipped. An interrupted command goes on, and gives the same bytes as one that was not."""
    out = tmp_path / "out"

    def make(*words: str) -> dict[str, bytes]:
        with pytest.raises(SystemExit) as ended:
            main(["matching", "--seeds", "2", "--no-costs", "--json", "--out", str(out), *words])
        assert ended.value.code == 0
        return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}

    first = make()
    document = json.loads(capfd.readouterr().out)
    kept = sorted(path.name for path in (out / "runs").iterdir())
    assert "lalonde-2-smooth_matching.csv" in kept
    untouched = out / "runs" / "lalonde-2-errors.csv"
    written = untouched.stat().st_mtime_ns
    for name in kept[len(kept) // 2 :]:
        if name != untouched.name:
            (out / "runs" / name).unlink()
    (out / "matching.md").unlink()
    late = make("--minutes", "0")["matching.md"].decode()
    assert "Not computed yet" in late
    assert kept[-1].removesuffix(".csv") in late
    capfd.readouterr()
    assert make() == first
    assert untouched.stat().st_mtime_ns == written
    assert [sentence.split()[0] for sentence in document["missing"]] == ["IHDP", "ACIC", "PrivSyn"]
    assert sorted(first) == [
        "matching-allocations.csv",
        "matching-allocations.svg",
        "matching-bounds.csv",
        "matching-caps-label.svg",
        "matching-caps-sample.svg",
        "matching-caps.svg",
        "matching-coefficients-label.svg",
        "matching-coefficients-sample.svg",
        "matching-coefficients.csv",
        "matching-competitors-label.svg",
        "matching-competitors-sample.svg",
        "matching-competitors.csv",
        "matching-error.svg",
        "matching-errors.csv",
        "matching-neighbours.svg",
        "matching-several.csv",
        "matching.md",
    ]
    rows = _rows(first["matching-errors.csv"])
    assert len(rows) == len(document["errors"]) == 2 * 2 * len(runs.SETTINGS) == 52
    assert {row["data"] for row in rows} == {"LaLonde", "Synth"}
    assert {row["cap"] for row in rows} == {"adaptive", "1", "10", "50"}
    competitors = _rows(first["matching-competitors.csv"])
    assert {row["competitor"] for row in competitors} == set(FEW_COMPETITORS)
    assert len(competitors) == 2 * 2 * len(FEW_COMPETITORS)
    page = first["matching.md"].decode()
    for name in first:
        assert name == "matching.md" or f"]({name})" in page
    assert "ACIC is left out" in page
    assert "pip download --no-deps causallib" in page
    assert "SHA-256" in page
    assert max(len(content) for name, content in first.items() if name.endswith(".svg")) < 250_000


def test_theorem_3_holds_and_caps_take_away_what_it_counts() -> None:
    """LaLonde: the bound is above the error, and greedy matching with caps replaces exactly R uses."""
    data = load("LaLonde", (DATA,))
    assert data is not None
    found = list(bounds(prepare(data, 2), ("0.5", "4")))
    assert len(found) == 4
    for row in found:
        assert row["replaced"] == row["replaced_in_the_matching"]
        assert float(str(row["ratio"])) >= 1
    assert any(int(str(row["replaced"])) for row in found)


def test_costs_are_measured_in_a_process_of_its_own() -> None:
    assert set(costs.MEASURED) <= {one.name for one in COMPETITORS}
    (row,) = costs.costs("LaLonde", (DATA,), "matching_label")
    assert row["printed_seconds"] == 0.02
    assert row["printed_megabytes"] == 467.46
    assert 0 <= float(str(row["seconds"])) < 60
    assert float(str(row["megabytes"])) > 50


def _rows(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


def test_a_fit_that_is_remembered_changes_nothing() -> None:
    """Each run is what a study computes from scratch, at both levels."""
    data = load("LaLonde", (DATA,))
    assert data is not None
    prepared = prepare(data, 2)
    for level in ("label", "sample"):
        study = prepared.study(Setting(level), "1")
        assert study.privacy.level == level
        fresh, kept = (rehearse_effect(study, prepared.rows[0], RehearsalBudget(3)) for _ in range(2))
        assert kept == fresh
        charges = RehearsalBudget(3)
        rehearse_effect(study, prepared.rows[0], charges)
        assert sum(charge.epsilon for charge in charges.charges) == 1


def test_foreign_files_end_with_exit_code_3(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ihdp_1.csv").write_text("1,2,three\n")
    with pytest.raises(SystemExit) as ended:
        main(["matching", "--out", str(tmp_path / "out"), "--data", str(tmp_path)])
    assert ended.value.code == 3
    assert "not as published" in capfd.readouterr().err
