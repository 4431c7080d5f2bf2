"""`replicate intervals` in small: files, figures, a page, and runs that are not computed twice."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from causalveil.schemas.errors import DataError
from causalveil_replication.main import main
from causalveil_replication.schroeder2025 import fits, runs, tables
from causalveil_replication.schroeder2025.data import DATASET_1, RHC_FILE, TRIAL, draw, rows_of
from causalveil_replication.schroeder2025.runs import (
    ADJUSTED,
    DIFFERENCE,
    FINITE,
    IPW,
    KERNEL,
    LEVELS,
    NETWORK,
    Analysis,
    OneInterval,
    summarise,
)
from causalveil_replication.schroeder2025.tables import CELLS, Cell, write_intervals

SMALL = (
    Cell(DATASET_1, 3_000, FINITE),
    Cell(DATASET_1, 3_000, IPW),
    Cell(TRIAL, 300, KERNEL),
    Cell(TRIAL, 300, DIFFERENCE),
)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_tables_figures_and_page_come_from_one_command_and_runs_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_intervals(tmp_path, None, runs=3, workers=2, cells=SMALL)
    rows = table(tmp_path / "intervals.csv")
    assert len(rows) == len(SMALL) * len(LEVELS)
    assert {row["runs"] for row in rows} == {"3"}
    assert len(table(tmp_path / "interval-trial.csv")) == 2 * len(LEVELS)
    assert not (tmp_path / "interval-rhc.csv").exists()
    page = (tmp_path / "intervals.md").read_text()
    for name in ("interval-width-and-coverage.svg", "interval-trial.svg"):
        assert name in page
        assert ElementTree.parse(tmp_path / name).getroot().tag.endswith("svg")
    assert "0.912" not in page, "the paper's coverage of a method that was not run"
    before = (tmp_path / "intervals.csv").read_bytes()

    class Closed:
        """A pool that must not be asked for anything."""

        def __init__(self, *_: Any, **__: Any) -> None: ...

        def __enter__(self) -> Closed:
            return self

        def __exit__(self, *_: Any) -> None: ...

        def map(self, _: Any, batches: list[Any]) -> list[Any]:
            assert batches == []
            return []

    monkeypatch.setattr(tables, "ProcessPoolExecutor", Closed)
    write_intervals(tmp_path, None, runs=3, workers=2, cells=SMALL)
    assert (tmp_path / "intervals.csv").read_bytes() == before
    write_intervals(tmp_path, None, runs=2, workers=2, cells=SMALL)
    assert {row["runs"] for row in table(tmp_path / "intervals.csv")} == {"2"}


@pytest.mark.parametrize("method", [KERNEL, NETWORK, FINITE, ADJUSTED, DIFFERENCE, IPW], ids=lambda method: method.name)
def test_a_run_is_one_draw_read_at_three_levels_and_can_be_made_again(method: Analysis) -> None:
    study = runs.study_of(TRIAL.document(), method, 400, "0.5", "1e-5")
    rows = rows_of(study, draw(TRIAL, 400, 1))
    found, again = (runs.analyse(study, rows, 9) for _ in range(2))
    assert len({one.estimate for one in found}) == 1
    widths = [one.interval.upper - one.interval.lower for one in found]
    assert widths == sorted(widths)
    assert [one.interval.confidence for one in found] == list(LEVELS)
    assert [one.interval for one in found] == [one.interval for one in again]
    other = runs.analyse(study, rows, 10)
    assert other[0].estimate != found[0].estimate


def test_noise_of_a_run_shares_no_bits_with_its_data() -> None:
    """SeededNoise of the data's own seed would replay the bits that made the data."""
    first = np.random.default_rng(runs.NOISE_SEED + 3).random(1000)
    assert np.intersect1d(first, np.random.default_rng(3).random(1000)).size == 0


def test_summaries_by_hand() -> None:
    answers = [
        OneInterval(0, 0.9, 1.2, 1.1, 1.3),
        OneInterval(1, 0.9, 0.9, 0.8, 1.0),
        OneInterval(2, 0.9, 1.0, 0.5, 1.5),
    ]
    (summary,) = summarise(answers, 1.0)
    assert (summary.runs, summary.level) == (3, 0.9)
    assert summary.coverage == pytest.approx(2 / 3)
    assert summary.coverage_error == pytest.approx((2 / 9 / 3) ** 0.5)
    assert summary.bias == pytest.approx(0.1 / 3)
    assert summary.bias_error == pytest.approx(np.std([0.2, -0.1, 0.0], ddof=1) / 3**0.5)
    assert summary.half_width == pytest.approx((0.1 + 0.1 + 0.5) / 3)


def test_the_command_covers_the_papers_tables() -> None:
    """Every printed coverage has its cell, at the paper's sizes."""
    cells = {(cell.population.name, cell.method.name): cell.units for cell in CELLS if cell.units < 30_000}
    assert {key: cells[key] for key in tables.PAPER_COVERAGE} == {
        key: 1_000 if key[0] == "trial" else 3_000 for key in tables.PAPER_COVERAGE
    }


def test_a_missing_file_of_patients_is_said_before_anything_is_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DataError, match=RHC_FILE):
        write_intervals(tmp_path / "out", tmp_path, runs=500, workers=1)
    with pytest.raises(SystemExit) as ended:
        main(["intervals", "--out", str(tmp_path / "out"), "--data", str(tmp_path)])
    assert ended.value.code == 3
    assert not (tmp_path / "out").exists()
    assert RHC_FILE in capfd.readouterr().err


@pytest.mark.long
def test_tables_from_fits_and_fits_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fits, "UNITS", (300, 400))
    monkeypatch.setattr(fits, "MAIN", 300)
    monkeypatch.setattr(fits, "FEW", 2)
    monkeypatch.setattr(fits, "TRIAL_RUNS", 20)
    monkeypatch.setattr(fits, "STEP_RUNS", 2)
    fits.write_fits(tmp_path, None, fits=3, workers=1)
    assert len(table(tmp_path / "interval-columns.csv")) == 2 * 2 * 4 * len(LEVELS)
    widths = table(tmp_path / "interval-widths.csv")
    assert {(row["units"], row["runs"]) for row in widths} == {("300", "2"), ("400", "2")}
    assert not (tmp_path / "interval-rhc-levels.csv").exists()
    page = (tmp_path / "interval-fits.md").read_text()
    for name in ("interval-widths.svg", "interval-utility.svg"):
        assert name in page
        assert (tmp_path / name).stat().st_size > 1_000
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    kept = sorted((tmp_path / "runs").iterdir())
    kept[0].unlink()
    made = {path: path.stat().st_mtime_ns for path in kept[1:]}
    fits.write_fits(tmp_path, None, fits=3, workers=1)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    assert {path: path.stat().st_mtime_ns for path in kept[1:]} == made
