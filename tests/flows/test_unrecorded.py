"""Who has no outcome or no treatment: the number of units says nothing of it, and the report says what was done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from causalveil.flows.api import load_study, plan, report, run_study
from causalveil.flows.engine.engine import DirectEngine
from causalveil.flows.run.admit import admit_folder, fill
from causalveil.schemas.contract import load_contract
from causalveil.schemas.errors import ContractError, StudyError
from causalveil.schemas.release import EffectRelease
from causalveil.schemas.remarks import PlanCode, remark
from causalveil.tasks.data.cells import arms_of
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.manifests import rows_folder
from causalveil.tasks.data.normalise import arm_of, scaled_outcome
from causalveil.tasks.privacy.keys import owner_key
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.bad_data import study as effect
from tests.protocol_help import make_protocol
from tests.studies import command, people, write_study

INIT = ("--data-class", "sensitive", "--unit", "id", "--treatment", "treated", "--outcome", "score")
KNOWN = ("--range", "score=0:10", "--range", "age=0:100")


def rows(last: str) -> str:
    """Forty people, the last one as given: treatment and outcome, or none of them."""
    told = [f"{place},{('no', 'yes')[place % 2]},{place % 7},{20 + place}" for place in range(39)]
    return "id,treated,score,age\n" + "\n".join([*told, f"39,{last},40"]) + "\n"


def drafted(folder: Path, last: str, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    """Everything that somebody other than the owner could see of a first hour."""
    folder.mkdir()
    (folder / "people.csv").write_text(rows(last))
    out = folder / "people"
    codes = [command("init", folder / "people.csv", "--out", out, *INIT, *KNOWN, *more)]
    capsys.readouterr()
    codes.append(command("plan", out / "study.yaml"))
    told = capsys.readouterr().out.replace(str(folder), "")
    files = sorted(str(path.relative_to(out)) for path in out.rglob("*"))
    modes = {path.stat().st_mode & 0o077 for path in (out, *out.glob("*.yaml"))}
    assert modes == {0}, "words that were read off the data are in the drafts"
    manifest = DataFolder(out).manifest()
    assert manifest is not None
    contract = (out / "dataset.yaml").read_text()
    asked = (out / "study.yaml").read_text()
    return {"codes": codes, "plan": told, "files": files, "n": manifest.rows, "contract": contract, "study": asked}


def test_two_files_that_differ_in_one_persons_outcome_look_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same with a treatment that is missing: n, plan, files, exit codes, contract and study are equal."""
    whole = drafted(tmp_path / "whole", "yes,3", capsys)
    assert whole["n"] == 40
    assert whole["codes"] == [0, 0]
    said = " ".join(whole["plan"].split())
    assert "on 40 units" in said
    assert "units without 'score' count with 5, the middle of its declared range" in said
    assert "units without 'treated' count as controls" in said
    assert drafted(tmp_path / "outcome", "yes,", capsys) == whole
    assert drafted(tmp_path / "treatment", ",3", capsys) == whole
    assert "missing_outcome: middle" in whole["study"]
    assert "missing_treatment: control" in whole["study"]


def test_the_owner_may_say_that_having_an_outcome_is_public(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = drafted(tmp_path / "a", "yes,", capsys, "--recorded-is-public", "score")
    assert found["n"] == 39
    assert found["codes"] == [0, 0]
    assert "recorded_is_public: [score]" in found["contract"]
    assert "missing_outcome" not in found["study"]


def test_rows_are_not_left_out_of_sensitive_data_for_what_stands_in_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By hand: an extract under the contract, and one that came before it, which plan, run and admission meet."""
    drafted(tmp_path / "a", "yes,", capsys)
    out = tmp_path / "a/people"
    source, contract = out / "source.yaml", out / "dataset.yaml"
    source.write_text(source.read_text().replace("required: [id]", "required: [id, score]"))
    with pytest.raises(ContractError, match="take 'score' out of 'required'"):
        fill(source, DirectEngine())
    words = contract.read_text()
    contract.unlink()
    for path in sorted(out.glob("rows=all/*")):
        path.unlink()
    (out / "rows=all").rmdir()
    assert fill(source, DirectEngine()).manifest.rows == 39
    owner = owner_key(create=True)
    words += f"owner_key: {owner.public}\n"
    contract.write_text(words)
    # A contract that nobody granted is refused before it is read for what it leaves out.
    open_ledger().grant(load_contract(contract), "opening", owner)
    for step in (lambda: plan(out / "study.yaml"), lambda: admit_folder(DataFolder(out), DirectEngine())):
        with pytest.raises(ContractError, match=r"'recorded_is_public: \[score\]'"):
            step()
    with pytest.raises(ContractError, match="would tell who has none"):
        run_study(out / "study.yaml", engine="direct")
    # The advice is true: both ways lead on.
    contract.write_text(words.replace("recorded_is_public: []", "recorded_is_public: [score]"))
    sized = plan(out / "study.yaml").sizes
    assert sized is not None
    assert sized.units == 39


def test_who_has_none_counts_with_the_declared_value() -> None:
    """Exactly, and within the ball that sensitivities rest on; a value that is no code is refused as before."""
    scores = pl.Series("score", [0.0, None, 10.0])
    for end, value in (("middle", 0.0), ("lower", -1.0), ("upper", 1.0)):
        found = scaled_outcome(effect(missing_outcome=end), scores.alias("weeks").to_frame())
        assert found[1] == value
        assert list(found[[0, 2]]) == list(scaled_outcome(effect(), pl.DataFrame({"weeks": [0.0, 10.0]})))
    treated = pl.Series("treated", [1, None, 0])
    assert arm_of(effect(missing_treatment="control"), treated).to_list() == [1, 0, 0]
    assert arms_of(make_protocol(missing_treatment="control"), treated).tolist() == [1, 0, 0]
    for broken in (pl.Series("treated", [1, 2, 0]), pl.Series("treated", [None, 7, 0])):
        with pytest.raises(Exception, match="not one of its two codes"):
            arm_of(effect(missing_treatment="control"), broken)


def test_a_study_has_to_say_what_they_count_as(tmp_path: Path) -> None:
    path = write_study(tmp_path, contract={"columns": {"score": {"nulls": "indicator"}}})
    with pytest.raises(StudyError, match=r"'outcome': column 'score' may hold nulls; .*'missing_outcome: middle'"):
        load_study(path)
    document = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(document | {"missing_outcome": "middle"}))
    assert load_study(path).specification()["missing_outcome"] == "middle"
    assert load_study(path).specification()["missing_treatment"] == "refuse"


def test_a_run_counts_everybody_and_the_report_says_with_what(tmp_path: Path) -> None:
    """4,000 people, an effect of 2, a quarter of each arm without an outcome (seed 3): 1.5 is what is estimated.

    At epsilon 5 the difference of arms has an error below .1; 7 of them are exceeded once in 1e11 runs.
    """
    frame = people(4000, seed=3).with_columns(treated=pl.int_range(pl.len()) % 2 == 0)
    frame = frame.with_columns(score=pl.when(pl.int_range(pl.len()) % 8 > 1).then(5.0 + 2 * pl.col("treated") - 1))
    study = {
        "missing_outcome": "middle",
        "estimator": {"name": "difference_in_means", "penalty": ...},
        "privacy": {"epsilon": "5"},
    }
    columns = {"score": {"nulls": "indicator"}}
    path = write_study(
        tmp_path, frame=frame, study=study, contract={"columns": columns, "estimators": ["difference_in_means"]}
    )
    release = run_study(path, out=tmp_path / "out", engine="direct").release
    assert isinstance(release, EffectRelease)
    assert release.units == 4000
    assert release.estimate == pytest.approx(1.5, abs=0.7)
    counted = {"column": "score", "value": 5.0, "place": "the middle", "far": 5.0}
    assert release.warnings[0] == remark(PlanCode.no_outcome, **counted)
    page = report(tmp_path / "out/release.json").read_text()
    assert "by at most 5 times the sum of the arms" in page
    assert "outcome are never missing" not in page


def test_rows_without_a_day_count_only_where_there_are_no_others(tmp_path: Path) -> None:
    """Nobody drops out of n for a day that nobody wrote down."""
    frame = pl.DataFrame(
        {
            "person": [1, 1, 2, 3, 3],
            "treated": [0, 1, 1, 0, 0],
            "score": [1.0, 2.0, 3.0, 4.0, 5.0],
            "age": [30.0] * 5,
            "group": ["a"] * 5,
            "day": [None, 4, None, 9, None],
        }
    )
    for keep in ("first", "last"):
        path = write_study(tmp_path / keep, frame=frame, contract={"rows": {"keep": keep, "order": "day"}})
        admission = admit_folder(DataFolder(path.parent), DirectEngine())
        assert admission.units == 3
        reduced = pl.read_parquet(
            rows_folder(DataFolder(path.parent), admission).path / "*.parquet", hive_partitioning=False
        )
        assert reduced.sort("person")["score"].to_list() == [2.0, 3.0, 4.0]
