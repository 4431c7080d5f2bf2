"""A direction study from end to end: totals, halves, no answers, bad input, kills, and nothing of the data outside."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.run.declare import plan_study
from causalveil.schemas.estimators.direction import Favours
from causalveil.schemas.release import DirectionRelease
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.direction_help import OPTIONS, doses, option_name, write_direction
from tests.ledger_help import assert_agreed
from tests.studies import command, refused

SCOPES = {"test": {"estimation"}, "train": {"train"}, "train+test": {"train", "estimation", "all"}}


def run(path: Path, out: Path, **more: Any) -> DirectionRelease:
    release = run_study(path, out=out, engine="direct", **more).release
    assert isinstance(release, DirectionRelease)
    return release


@pytest.mark.parametrize("option", OPTIONS, ids=option_name)
def test_plan_ledger_release_agree(option: dict[str, Any], tmp_path: Path) -> None:
    path = write_direction(tmp_path / "study", study={"estimator": option, "privacy": {"epsilon": "0.7"}})
    _, plan = plan_study(path)
    release = assert_agreed(plan, run_study(path, out=tmp_path / "out", engine="direct").path)
    assert isinstance(release, DirectionRelease)
    assert {str(charge.scope) for charge in plan.charges} == SCOPES["+".join(option["protect"])]
    assert (plan.total.epsilon, plan.total.delta) == (Decimal("0.7"), Decimal("1e-6"))

    halves = {"train", "test"} - set(option["protect"])
    assert set(release.unbounded_halves) == halves
    assert len(release.privacy.unprotected) == len(halves)
    assert [score.score for score in release.scores] == ["spearman", "kendall", "hsic", "iqr"]
    named = {charge.name for charge in plan.charges}
    for score in release.scores:
        assert set(score.charges) <= named
        assert score.answered == (score.margin is not None) == (score.order_kept is not None)
        assert (score.x_to_y is not None) == (score.answered and option["release"] == "scores")
        if score.x_to_y is not None and score.y_to_x is not None:
            assert score.margin == pytest.approx(score.y_to_x - score.x_to_y)


def test_a_clear_direction_is_found(tmp_path: Path) -> None:
    """At epsilon 200 noise is no matter; 4000 units whose y is a curve of x. Swapped, the other direction."""
    changes = {"estimator": {"scores": ["hsic"], "penalty": 0.001}, "privacy": {"epsilon": 200, "delta": 0}}
    caps = {"caps": {"sample": {"epsilon": 1000}}}
    frame = doses(4_000)
    swapped = frame.select("person", dose=pl.col("response") / 5 + 1, response=5 * (pl.col("dose") - 1))
    for table, expected in ((frame, Favours.x_to_y), (swapped, Favours.y_to_x)):
        path = write_direction(tmp_path / expected, frame=table, study=changes, contract=caps)
        release = run(path, tmp_path / expected / "out")
        assert release.verdict.favours is expected
        assert release.scores[0].order_kept > 0.999
        assert abs(release.verdict.weight) > 0.99


def test_the_unprotected_half_needs_the_owners_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for protect, missing in ((["test"], "train"), (["train"], "test")):
        path = write_direction(
            tmp_path / missing, study={"estimator": {"protect": protect}}, contract={"unbounded_halves": protect}
        )
        assert command("run", path, "--out", tmp_path / "out") == 2
        assert f"unbounded_halves: [{missing}]" in capfd.readouterr().err
    both = write_direction(
        tmp_path / "both", study={"estimator": {"protect": ["train", "test"]}}, contract={"unbounded_halves": []}
    )
    assert run(both, tmp_path / "out").unbounded_halves == ()
    text = (tmp_path / "both" / "dataset.yaml").read_text()
    (tmp_path / "both" / "dataset.yaml").write_text(text.replace("unbounded_halves: []\n", ""))
    assert run(both, tmp_path / "again").unbounded_halves == ()


def test_the_ledger_records_the_unbounded_half(tmp_path: Path, home: Path) -> None:
    import sqlite3

    run(write_direction(tmp_path / "study"), tmp_path / "out", run_id="half")
    connection = sqlite3.connect(home / "ledger.db")
    (body,) = connection.execute("select body from entries where kind = 'reserve'").fetchone()
    connection.close()
    assert json.loads(body)["reservation"]["unbounded_halves"] == ["train"]


def test_no_answer_is_charged_like_an_answer(tmp_path: Path) -> None:
    """Few units, a narrow bin and a tiny delta: the test cannot pass; the charge is that of the plan all the same."""
    study = {"estimator": {"scores": ["iqr"], "bin": 0.05}, "privacy": {"delta": "1e-9"}}
    release = run(write_direction(tmp_path / "study", study=study), tmp_path / "out")
    (score,) = release.scores
    assert not score.answered
    assert (score.margin, score.favours, score.order_kept, release.verdict.favours) == (None, None, None, None)
    block = open_ledger().account("small").blocks[0]
    assert (block.spent.epsilon, block.spent.delta) == (1, Decimal("1e-9"))


def test_partitions_and_order_of_rows_do_not_matter(tmp_path: Path) -> None:
    """The same units in one file, in three, and shuffled: one seeded answer, bit for bit but for sums' rounding."""
    frame = doses(300).with_columns(dose=pl.col("dose").round(1), response=pl.col("response").round(0))
    tables = [(frame, 1), (frame, 3), (frame.sample(fraction=1, shuffle=True, seed=1), 2)]
    found = []
    for index, (table, partitions) in enumerate(tables):
        path = write_direction(tmp_path / str(index), frame=table, partitions=partitions)
        found.append(run(path, tmp_path / f"out-{index}", run_id="same", simulate=3).scores)
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert one.margin == pytest.approx(two.margin, abs=1e-12)


def changed(column: str, value: Any) -> pl.DataFrame:
    frame = doses(60)
    values = [*frame[column].to_list()[:7], value, *frame[column].to_list()[8:]]
    return frame.with_columns(pl.Series(column, values, strict=False))


BAD: dict[str, tuple[int, str, dict[str, Any]]] = {
    "unknown score": (2, "scores", {"study": {"estimator": {"scores": ["pearson"]}}}),
    "score twice": (2, "stands twice", {"study": {"estimator": {"scores": ["hsic", "hsic"]}}}),
    "no score": (2, "scores", {"study": {"estimator": {"scores": []}}}),
    "half unknown": (2, "protect", {"study": {"estimator": {"protect": ["everybody"]}}}),
    "penalty above one": (2, "penalty", {"study": {"estimator": {"penalty": 1.5}}}),
    "penalty zero": (2, "penalty", {"study": {"estimator": {"penalty": 0}}}),
    "bandwidth too narrow": (2, "bandwidth", {"study": {"estimator": {"bandwidth": 0.001}}}),
    "no delta for the range": (2, "delta", {"study": {"privacy": {"delta": 0}}}),
    "delta nobody spends": (2, "delta: 0", {"study": {"estimator": {"scores": ["hsic"]}}}),
    "label level": (2, "sample", {"study": {"privacy": {"level": "label"}}}),
    "paper with both halves": (
        2,
        "one half",
        {"study": {"estimator": {"variant": "paper", "release": "scores", "protect": ["train", "test"]}}},
    ),
    "paper with a difference": (2, "release: scores", {"study": {"estimator": {"variant": "paper"}}}),
    "x is y": (2, "two roles", {"study": {"pair": {"y": {"name": "dose"}}}}),
    "inverted bounds": (2, "lower must be below upper", {"study": {"pair": {"x": {"lower": 3}}}}),
    "one test unit": (2, "two test units", {"frame": doses(10), "study": {"estimator": {"train_fraction": 0.9}}}),
    "one unit": (2, "half", {"frame": doses(1), "partitions": 1}),
    "estimator not allowed": (2, "does not allow estimator", {"contract": {"estimators": ["ipw"]}}),
    "null": (3, "'dose' holds nulls", {"frame": changed("dose", None)}),
    "NaN": (3, "'response' holds nulls or NaN", {"frame": changed("response", float("nan"))}),
    "text": (3, "'dose' must be", {"frame": doses(60).with_columns(dose=pl.lit("zq7canary"))}),
    "missing column": (3, "'response' is missing", {"frame": doses(60).drop("response")}),
    "unit twice": (3, "names a unit twice", {"frame": changed("person", 1000)}),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, says, changes = BAD[name]
    path = write_direction(tmp_path / "study", **changes)
    ended, told, everything = refused(capfd, "run", str(path), "--out", str(tmp_path / "out"))
    assert ended == code, everything
    assert says in told
    assert "canary" not in everything
    assert not (tmp_path / "out").exists()
    assert all(block.spent.epsilon == 0 for block in open_ledger().account("small").blocks)


def test_constant_and_extreme_columns_are_no_errors(tmp_path: Path) -> None:
    """To refuse them would tell about the data: values beyond bounds are clipped, ranges of 0 get no answer."""
    for index, frame in enumerate(
        (doses(60).with_columns(dose=pl.lit(1.0)), doses(60).with_columns(dose=pl.lit(1e300), response=pl.lit(-1e300)))
    ):
        release = run(write_direction(tmp_path / str(index), frame=frame), tmp_path / f"out-{index}")
        assert not release.scores[3].answered
