"""`replicate weighting` in small: files, a page, data that are missing or foreign, draws that are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from causalveil_replication.lee2019 import command, data, page
from causalveil_replication.lee2019.command import WeightingResults
from causalveil_replication.lee2019.runs import EPSILONS, TableDraw
from causalveil_replication.lee2019.tables import AUTHORS, STATED, noise_factor, table_rows
from causalveil_replication.main import main

SMALL = ["--vectors", "2", "--trials", "2", "--draws", "100"]


def run(*words: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(["weighting", *words])
    return ended.value.code


def test_everything_that_needs_no_data_and_what_is_missing_and_an_interrupted_command_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("--out", str(tmp_path), *SMALL) == 0
    said = capfd.readouterr().out
    for name in (data.LALONDE, data.IHDP):
        assert f"{name} is left out" in said
        assert data.DIGESTS[name] in said
    names = {path.name for path in tmp_path.iterdir() if path.is_file()}
    assert names == {
        "weighting.md",
        *(f"weighting-{name}.svg" for name in ("bias", "flips", "estimates")),
        *(f"weighting-{name}.csv" for name in ("flips", "estimates", "bias", "bounds")),
    }
    written = (tmp_path / "weighting.md").read_text()
    assert all(f"{name}.svg" in written for name in ("bias", "flips", "estimates"))
    first = {name: (tmp_path / name).read_bytes() for name in names}
    kept = sorted((tmp_path / "runs").iterdir())
    assert len(kept) == 4
    kept[0].unlink()
    old = {path: path.stat().st_mtime_ns for path in kept[1:]}
    assert run("--out", str(tmp_path), *SMALL) == 0
    assert {name: (tmp_path / name).read_bytes() for name in names} == first
    assert {path: path.stat().st_mtime_ns for path in kept[1:]} == old, "draws that were kept are not made again"


def test_a_file_of_other_numbers_is_refused_before_anything_is_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / data.LALONDE).write_text("a,b\n1,2\n")
    assert run("--out", str(tmp_path / "out"), "--data", str(tmp_path)) == 3
    error = capfd.readouterr().err
    assert data.DIGESTS[data.LALONDE][:16] in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_runs_draw_their_arms_as_the_papers_do() -> None:
    t = np.repeat([1, 0], [297, 425]).astype(np.uint8)
    men = data.Subjects(np.arange(722.0)[:, None], t, np.zeros(722))
    train, effect = data.lalonde_draw(men, 5)
    assert (len(train.t), train.t.sum(), len(effect.t), effect.t.sum()) == (500, 250, 200, 100)
    assert len(np.unique(effect.x)) == 200, "without replacement"
    assert not np.isin(train.x, effect.x).any()
    train, effect = data.ihdp_draw([men], 250, 0)
    assert (len(train.t), len(effect.t)) == (500, 500)
    assert not np.isin(train.x, effect.x).any()


def test_outcomes_are_made_by_the_recipe_of_the_published_ones() -> None:
    """The treated's surface is a line and the controls' its exponential; the effect on the treated is 4."""
    random = np.random.default_rng(1)
    t = (random.random(200) < 0.3).astype(np.uint8)
    infants = data.Subjects(random.normal(size=(200, 25)), t, np.zeros(200))
    controls, treated = data.surfaces(infants, random)
    with_one = np.column_stack([np.ones(200), infants.x])
    lines = [np.linalg.lstsq(with_one, values, rcond=None)[0] for values in (np.log(controls), treated)]
    assert with_one @ lines[0] == pytest.approx(np.log(controls))
    assert lines[0][1:] == pytest.approx(lines[1][1:])
    slopes = lines[0][1:]
    assert np.abs(slopes[:, None] - data.SLOPES).min(axis=1).max() < 1e-9
    assert lines[0][0] - 0.5 * slopes.sum() == pytest.approx(
        data.INTERCEPTS[np.abs(data.INTERCEPTS - (lines[0][0] - 0.5 * slopes.sum())).argmin()]
    )
    assert np.mean((treated - controls)[t != 0]) == pytest.approx(4)
    one, same, other = (data.recipe_draw(infants, 20, run)[1].y for run in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_rows_of_a_table_by_hand() -> None:
    """Two runs at each epsilon: noise of one deviation turns the second's sign if the deviation is as stated."""
    one = TableDraw(0, 0.2, 10.0, 12.0, 4.0, -1.0, 10.0, 12.0, 1.0, 1.0, 1.0, -1.0)
    draws = [one._replace(run=run, epsilon=float(e)) for run in range(2) for e in EPSILONS]
    rows = {(r["estimate"], r["epsilon"]): r for r in table_rows("x", draws, 100, 5.0)}
    factor = noise_factor(0.2, "1e-6")
    assert factor == pytest.approx((2 * np.log(1.25e6)) ** 0.5 / 0.2)
    authors, stated = rows[AUTHORS, 0.2], rows[STATED, 0.2]
    assert (authors["flips"], stated["flips"]) == (0, 1)
    assert authors["mean"] == pytest.approx(12 - (factor * 4) ** 0.5, abs=1e-3)
    assert stated["mean"] == pytest.approx(12 - factor * 2 * 5 / (100 * 0.1), abs=1e-3)
    assert rows["partly private, matched", 0.2]["flips"] == 1
    assert rows["non-private", float("inf")]["runs"] == 2


def test_published_data_makes_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in of the files' shapes: every row of the tables is there, in numbers."""
    random = np.random.default_rng(1)
    men = np.column_stack([np.repeat([1, 0], [297, 425]), random.random((722, 10))])
    infants = np.column_stack([random.integers(0, 2, 747), random.random((747, 29))])
    np.savetxt(tmp_path / data.LALONDE, men, delimiter=",", header="columns", fmt="%.17g")
    np.savetxt(tmp_path / data.IHDP, infants, delimiter=",", fmt="%.17g")
    for name, values in ((data.LALONDE, men), (data.IHDP, infants)):
        monkeypatch.setitem(data.DIGESTS, name, data.digest_of(values))
    found = WeightingResults()
    command._published(found, (tmp_path,), tmp_path / "runs", 3)
    assert found.missing == []
    assert len(found.tables) == 4 * (1 + 7 * len(EPSILONS)) + 2 * (1 + 2 * len(EPSILONS))
    assert all(np.isfinite(row["mean"]) for row in found.tables)
    assert [row["penalty"] for row in found.penalties] == [0.1, 0.01, 0.001]
    assert "outside the unit ball" in "".join(page._tables(found))
