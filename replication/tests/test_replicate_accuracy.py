"""`replicate accuracy` in small: nothing is computed twice, and the shipped page is its table's."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from xml.etree import ElementTree

import pytest

from causalveil.flows.sequence.rehearse import rehearse_effect
from causalveil.tasks.privacy.rehearsal import RehearsalBudget
from causalveil_replication.accuracy import page, study
from causalveil_replication.accuracy.cells import NOISE_SEED, rows_of
from causalveil_replication.accuracy.later import LATER
from causalveil_replication.accuracy.measure import Job, at_every_confidence, measure, study_of
from causalveil_replication.accuracy.methods import CONFIDENCES, METHODS
from causalveil_replication.accuracy.not_private import PLAIN
from causalveil_replication.accuracy.populations import POPULATIONS
from causalveil_replication.accuracy.public_data import public_tables
from causalveil_replication.accuracy.verdicts import kind, short
from causalveil_replication.main import main

ROOT = Path(__file__).parents[2]
SMALL = ("normals2-500-difference", "normals2-500-least-squares", "clinics2-500-difference")


def replicate(out: Path, *more: str) -> int:
    patterns = [word for name in SMALL for word in ("--only", name)]
    with pytest.raises(SystemExit) as ended:
        main(["accuracy", "--out", str(out), "--runs", "10", "--workers", "1", *patterns, *more])
    return int(ended.value.code or 0)


def test_one_command_writes_table_page_and_figures_and_goes_on_where_it_was(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert replicate(tmp_path) == 0
    with (tmp_path / "accuracy.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {(row["population"], row["method"], row["runs"]) for row in rows} == {
        ("normals2", "difference", "3"),
        ("normals2", "least-squares", "3"),
        ("clinics2", "difference", "3"),
    }
    assert len(rows) == 13
    assert all(float(row["planned"]) > 0 for row in rows if row["method"] == "difference")
    text = (tmp_path / "accuracy.md").read_text()
    assert "IHDP is left out" in text
    assert "Not computed" in text
    for name in ("accuracy-errors.svg", "accuracy-coverage.svg", "accuracy-plan.svg"):
        assert name in text
        assert ElementTree.parse(tmp_path / name).getroot().tag.endswith("svg")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    # One job is marked and another lost: the first is taken as it was kept, the second comes out the same.
    kept = tmp_path / "runs" / "normals2-500-difference-3-0.csv"
    text = kept.read_text()
    kept.write_text(text.replace("normals2", "toeplitz18"))
    (tmp_path / "runs" / "clinics2-500-difference-3-0.csv").unlink()
    assert replicate(tmp_path) == 0
    assert "toeplitz18" in (tmp_path / "accuracy.csv").read_text()
    kept.write_text(text)
    assert replicate(tmp_path, "--kept") == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    capfd.readouterr()


@pytest.mark.parametrize("name", [name for name in METHODS if name not in PLAIN])
def test_each_confidence_says_what_a_run_of_its_own_would(name: str) -> None:
    population = POPULATIONS["normals2"]
    asked = study_of(population, METHODS[name], "4")
    rows = rows_of(asked, population, 400, 0)
    found = at_every_confidence(asked, rows, NOISE_SEED)
    for confidence, one in zip(CONFIDENCES, found, strict=True):
        alone = asked.model_copy(update={"confidence": confidence})
        assert rehearse_effect(alone, rows, RehearsalBudget(NOISE_SEED), NOISE_SEED) == one


@pytest.mark.long
def test_people_of_later_populations_have_the_effect_that_is_said(tmp_path: Path) -> None:
    """Seeded: boosting in folds comes near the effect that a difference of means misses."""
    for name, population in LATER.items():
        frame = population.draw(6_000, 0)
        t, y = frame["t"].to_numpy().astype(float), frame["y"].to_numpy()
        low, high = population.outcome
        assert ((y < low) | (y > high)).mean() < 1e-3, name
        (row,) = measure(Job(name, 6_000, "dml", 1, 0, (tmp_path,)))
        naive = y[t == 1].mean() - y[t == 0].mean() - population.truth
        assert abs(row["bias"]) < abs(naive) / 3, name


def test_public_tables_that_are_absent_are_said(tmp_path: Path) -> None:
    found, missing = public_tables((tmp_path,))
    assert found == {}
    assert len(missing) == 4
    shipped, _ = public_tables((ROOT / "data",))
    assert set(shipped) == {"lalonde", "fertility"}
    assert shipped["lalonde"].draw(0, 0).height == 445
    assert math.isclose(shipped["lalonde"].truth_in(3), shipped["lalonde"].truth_in(4))


def test_what_a_release_says_has_one_kind_each() -> None:
    assert kind("adjusted, with squares and products") == kind("adjusted by balancing weights") == "adjusted"
    assert kind("adjusted linearly") == "linearly"
    assert kind("partly adjusted, linearly") == "partly"
    assert kind("unadjusted: the noise was too large for this many people and this budget") == "unadjusted"
    assert kind("refused: p > n") == "refused"
    row = {"population": "normals2", "runs": 40, "coverage_95": 0.84}
    assert short(row)
    assert not short(row | {"coverage_95": 0.86})
    assert not short(row | {"population": "rhc", "coverage_95": 0.0})


def test_the_page_that_is_shipped_shows_the_table_that_is_shipped() -> None:
    """Every piece but the head and what was absent follows from accuracy.csv."""
    folder = ROOT / "docs" / "figures"
    rows = study.with_plain(study.read_rows(folder / "accuracy.csv"))
    text = (folder / "accuracy.md").read_text()
    pieces = list(page.parts(rows, [], [], study.every_title(), []))
    assert len(pieces) > 20
    for place, piece in enumerate(pieces):
        if place != 1:
            assert piece.strip("\n") in text, piece[:80]
    assert f"{len(rows):,} cells" in text
