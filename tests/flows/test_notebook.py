"""`cv.run` in a notebook: on files and on frames, the same cell again for nothing, and a whole notebook executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import polars as pl
import pytest
from nbclient import NotebookClient

import causalveil as cv
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.studies import people

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs/tutorials/notebook.ipynb"
CONTRACT: dict[str, Any] = {
    "dataset": "frame",
    "data_class": "synthetic",
    "unit": "person",
    "columns": {
        "treated": {"codes": {"control": 0, "treated": 1}},
        "age": {"lower": 18, "upper": 90},
        "score": {"lower": 0, "upper": 1},
    },
    "public": [],
    "caps": {"sample": {"epsilon": 10, "delta": 1e-4}},
}
STUDY: dict[str, Any] = {
    "kind": "effect",
    "name": "scores",
    "treatment": "treated",
    "outcome": "score",
    "covariates": ["age"],
    "estimator": {"name": "regression"},
    "privacy": {"epsilon": 1.0, "delta": 1e-6},
}


def runs() -> int:
    return open_ledger().account("frame").blocks[0].runs


@pytest.mark.parametrize("kind", ["polars", "arrow", "pandas"])
def test_a_frame_runs_and_the_same_cell_again_costs_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = people(500, 1)
    if kind == "pandas":
        pytest.importorskip("pandas", reason="pandas is none of the program's needs, and is not installed")
    data = {"polars": lambda: frame, "arrow": frame.to_arrow, "pandas": frame.to_pandas}[kind]()
    first = cv.run(STUDY, data=data, contract=CONTRACT, engine="direct")
    again = cv.run(dict(STUDY), data=data, contract=dict(CONTRACT), engine="direct")
    assert again.run_id == first.run_id
    assert again.release == first.release
    assert runs() == 1
    assert cv.run(STUDY, data=data, contract=CONTRACT, engine="direct", again=True).run_id != first.run_id
    assert runs() == 2
    other = cv.run(STUDY, data=frame[:400], contract=CONTRACT, engine="direct")
    assert other.release.units == 400


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"contract": None}, cv.ContractError, "needs its contract"),
        ({"contract": CONTRACT | {"data_class": "sensitive"}}, cv.ContractError, "admitted from files"),
        ({"contract": CONTRACT | {"colums": {}}}, cv.ContractError, "did you mean 'columns'"),
        ({"data": None}, cv.StudyError, "needs its rows"),
        ({"data": [1, 2]}, cv.StudyError, "no data frame"),
    ],
)
def test_what_a_frame_lacks_is_one_sentence(change: dict[str, Any], error: type[Exception], says: str) -> None:
    arguments = {"data": people(50, 1), "contract": CONTRACT} | change
    with pytest.raises(error, match=says):
        cv.run(STUDY, engine="direct", **arguments)


def test_the_notebook_executes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAUSALVEIL_HOME", str(tmp_path / "home"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    assert any("text/html" in out.get("data", {}) for out in outputs), "a release is shown as the head of its report"
    assert outputs[-1]["data"]["text/plain"] == "True", "the same cell again returned the same release"


@pytest.mark.parametrize("kind", ["polars", "pandas"])
def test_a_draft_of_a_frame_is_read_edited_planned_run_and_saved(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words are numbers where they say so, rows without an outcome are left out, and each row may be a person."""
    monkeypatch.chdir(tmp_path)
    if kind == "pandas":
        pytest.importorskip("pandas", reason="pandas is none of the program's needs, and is not installed")
    scores = people(500, 1)["score"].cast(pl.String)
    scores = pl.select(pl.when(pl.int_range(500) < 20).then(pl.lit("n/a")).otherwise(scores).alias("score"))["score"]
    frame: Any = people(500, 1).drop("person").with_columns(scores, pl.col("treated").cast(pl.Float64))
    drafted = cv.draft(frame if kind == "polars" else frame.to_pandas(), treatment="treated", outcome="score")
    assert drafted.rows.height == 480
    assert "covariates:" in str(drafted)
    assert "read as no value" in drafted._repr_html_()
    drafted.study["privacy"]["epsilon"] = 3
    assert cv.plan(drafted).total.epsilon == 3
    assert cv.plan(drafted.study, data=drafted.rows, contract=drafted.contract).total.epsilon == 3
    answer = cv.run(drafted, engine="direct").release
    assert isinstance(answer, cv.EffectRelease)
    assert answer.units == 480
    row = answer.to_frame().row(0, named=True)
    assert (row["outcome"], row["estimate"]) == ("score", answer.estimate)
    saved = drafted.save(tmp_path / "saved")
    assert cv.run(saved, engine="direct", simulate=1).release.units == 480
    with pytest.raises(cv.StudyError, match="is there already"):
        drafted.save(tmp_path / "saved")


def test_a_frame_of_sensitive_rows_is_not_drafted() -> None:
    with pytest.raises(cv.StudyError, match="drafted from a file"):
        cv.draft(people(50, 1), treatment="treated", outcome="score", data_class="sensitive")  # type: ignore[arg-type]
    with pytest.raises(cv.StudyError, match="outcome: there is no column 'scores'"):
        cv.draft(people(50, 1), treatment="treated", outcome="scores")
    # Names are told as they are, whatever options they look like.
    with pytest.raises(cv.StudyError, match="treatment: there is no column '--not'"):
        cv.draft(people(50, 1), treatment="--not", outcome="score")


def test_two_frames_without_a_name_have_a_budget_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second frame under another contract is not refused as the first one's contract that was changed."""
    monkeypatch.chdir(tmp_path)
    names = set()
    for rows in (400, 500):
        drafted = cv.draft(people(rows, 1).drop("person"), treatment="treated", outcome="score")
        names.add(cv.run(drafted, engine="direct").release.dataset)
    assert len(names) == 2


def test_a_named_index_of_pandas_is_a_column() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is none of the program's needs, and is not installed")
    frame = people(50, 1).to_pandas().set_index("person")
    assert cv.draft(frame, treatment="treated", outcome="score", unit="person").contract["unit"] == "person"
    with pytest.raises(cv.StudyError, match="values of several types"):
        cv.draft(pandas.DataFrame({"a": [1, "b"]}), treatment="treated", outcome="score")
