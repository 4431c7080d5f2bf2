"""What an analyst's file, a folder or an edit decided once, each played as it was found: the owner decides it now.

Each of these released, answered or read something before the owner's contract declared the columns.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from causalveil.flows.api import run_study
from causalveil.schemas.errors import CausalveilError, ContractError, DataError, RunConflict, StudyError
from causalveil.schemas.release import EffectRelease
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.partitions import read_layout
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.studies import CONTRACT, people, resolved, write_study

ROOT = Path(__file__).parents[2]


def refused(path: Path, error: type[CausalveilError], says: str) -> None:
    """It is refused, and nothing is spent for it."""
    with pytest.raises(error, match=says):
        run_study(path, out=path.parent / "out", run_id="asked")
    assert all(run.state == "voided" for run in open_ledger().account("small").runs)


def test_a_study_cannot_say_who_is_protected(tmp_path: Path) -> None:
    """Ten people of twenty visits: with `unit: visit` a person paid twenty times what was declared."""
    visits = people(200).with_columns(person=pl.int_range(200) % 10 + 1000, visit=pl.int_range(200))
    asked = write_study(tmp_path / "a", frame=visits, study={"data": {"unit": "visit"}})
    refused(asked, StudyError, "dataset.yaml names the unit")
    # And without it the contract's person counts, who has twenty rows.
    refused(write_study(tmp_path / "b", frame=visits), DataError, "names a unit twice")


def test_a_study_cannot_choose_the_account(tmp_path: Path) -> None:
    """The same rows as "all", by month and by site were three accounts, each with the whole cap."""
    for key in ("month", "site"):
        path = write_study(tmp_path / key, study={"data": {"blocks": key}})
        refused(path, StudyError, "dataset.yaml names the block key")
    # The contract's key is the only account, however a run selects from it.
    blocks = {"blocks": {"key": "month", "units_span": False}, "caps": {"sample": {"epsilon": 1, "delta": "1e-5"}}}
    path = write_study(tmp_path / "one", partitions=0, contract=blocks)
    (path.parent / "site=north" / "month=1").mkdir(parents=True)
    people(400).write_parquet(path.parent / "site=north" / "month=1" / "part.parquet")
    assert run_study(path, out=tmp_path / "out").release.privacy.blocks.charged == ("month=1",)


@pytest.mark.parametrize("role", ["treatment", "covariates"])
def test_label_level_prints_nothing_of_a_column_that_is_not_public(role: str, tmp_path: Path) -> None:
    """A study called the sensitive column its treatment, the steps its outcome, and was told exact counts."""
    hiv = {"codes": {"no": 0, "yes": 1}}
    frame = people(400).with_columns(hiv=pl.int_range(400) % 2)
    asked = {"treatment": "hiv"} if role == "treatment" else {"covariates": {"hiv": {}}}
    path = write_study(
        tmp_path / "study",
        frame=frame,
        study={**asked, "privacy": {"level": "label"}},
        contract={"columns": {"hiv": hiv}},
    )
    refused(path, ContractError, "column 'hiv' is not among the contract's 'public' columns")


def test_label_level_may_ask_about_any_column_as_outcome(tmp_path: Path) -> None:
    path = write_study(tmp_path / "study", study={"privacy": {"level": "label"}})
    assert run_study(path, out=tmp_path / "out").release.privacy.level == "label"


def test_levels_of_a_study_answer_nothing(tmp_path: Path) -> None:
    """ "Does anybody have code c?" was answered exactly, for free, by leaving c out of the levels."""
    seen = []
    for name, there in (("with", True), ("without", False)):
        frame = people(400)
        frame = frame if there else frame.with_columns(group=pl.col("group").replace("c", "b"))
        path = write_study(tmp_path / name, frame=frame, study={"covariates": {"group": {"levels": ["a", "b"]}}})
        found = run_study(path, out=tmp_path / f"{name}-out", simulate=1, run_id="asked").release
        assert isinstance(found, EffectRelease)
        seen.append(found.units)
    assert seen[0] == seen[1], "both run, whoever has the code"
    path = write_study(tmp_path / "more", study={"covariates": {"group": {"levels": ["a", "code 7"]}}})
    refused(path, StudyError, "'code 7' is no level in the contract")


@pytest.mark.parametrize(
    "execution", [{"address": "tcp://127.0.0.1:9", "runner": "dask"}, {"engine": "direct"}, {"workers": 200}]
)
def test_a_study_cannot_name_who_computes(execution: dict[str, Any], tmp_path: Path) -> None:
    """The flow unpickled what the analyst's scheduler sent it."""
    refused(write_study(tmp_path / "study", study={"execution": execution}), StudyError, "site.toml")


def test_a_folder_above_another_dataset_is_not_read_under_its_own_contract(tmp_path: Path) -> None:
    """A sensitive folder was released under the caps of a synthetic one around it."""
    outer = write_study(tmp_path / "outer")
    inner = write_study(tmp_path / "outer" / "inner", contract={"data_class": "sensitive", "dataset": "inner"})
    refused(outer, ContractError, "another dataset's folder lies inside")
    refused(inner, ContractError, "lies inside the folder of another dataset")


def test_a_contract_that_is_a_link_speaks_of_another_folder(tmp_path: Path) -> None:
    write_study(tmp_path / "mild")
    path = write_study(tmp_path / "strict")
    (path.parent / "dataset.yaml").unlink()
    (path.parent / "dataset.yaml").symlink_to(tmp_path / "mild" / "dataset.yaml")
    refused(path, ContractError, "is a link")


@pytest.mark.parametrize("key", ["path", "data"])
def test_a_contract_that_names_another_path_is_refused(key: str, tmp_path: Path) -> None:
    refused(write_study(tmp_path / "study", contract={key: "../elsewhere"}), ContractError, f"unknown key '{key}'")


UNREADABLE = """
import os, sys
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
from pathlib import Path
from causalveil.schemas.errors import DataError
from causalveil.tasks.data.partitions import _parquet_files
try:
    list(_parquet_files(Path(sys.argv[1])))
except DataError as problem:
    sys.exit(3)
"""


def test_a_folder_that_cannot_be_listed_is_an_error_whoever_runs_it(tmp_path: Path) -> None:
    """Root may list everything, so another user is played where root runs the tests."""
    folder = write_study(tmp_path / "study").parent
    hidden = folder / "month=1"
    hidden.mkdir()
    for place in (*folder.parents, folder):
        if place.is_relative_to(tmp_path.parents[1]):
            place.chmod(place.stat().st_mode | 0o055)
    hidden.chmod(0o000)
    try:
        done = subprocess.run([sys.executable, "-c", UNREADABLE, str(folder)], cwd=ROOT, capture_output=True, text=True)
    finally:
        hidden.chmod(0o700)
    if done.returncode not in (0, 3):
        pytest.skip("another user cannot even start this Python here")
    assert done.returncode == 3, done.stderr


def test_an_error_of_listing_is_never_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_study(tmp_path / "study")
    (path.parent / "month=1").mkdir()
    listed, refused = os.scandir, (path.parent / "month=1").stat().st_ino

    def scandir(place: Any) -> Any:
        # Folders are listed by their descriptors.
        if os.stat(place).st_ino == refused:
            raise PermissionError(13, "Permission denied")
        return listed(place)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(DataError, match="cannot be read"):
        read_layout(resolved(path), DataFolder(path.parent))


@pytest.mark.parametrize("clip", [[5e-309, 0.9], [1e-7, 0.9], [0.1, 1 - 1e-9]])
def test_a_clip_near_an_end_is_refused(clip: list[float], tmp_path: Path) -> None:
    """1/5e-309 is infinite: NaN became the smallest integer, and one row moved a sum by 2e9."""
    refused(write_study(tmp_path / "study", study={"estimator": {"clip": clip}}), StudyError, "clip needs")


def test_nothing_exact_of_sensitive_data_is_printed_without_a_guarantee(tmp_path: Path) -> None:
    """`gross_error_sensitivity` of the asymptotic guarantee is an exact number of the data."""
    asked = {"estimator": {"name": "aipw", "penalty": ..., "guarantee": "asymptotic"}}
    allowed = {"estimators": ["aipw"], "guarantees": ["asymptotic"], "data_class": "sensitive"}
    refused(write_study(tmp_path / "study", study=asked, contract=allowed), ContractError, "no privacy guarantee")


def test_an_edited_contract_is_another_contract(tmp_path: Path) -> None:
    """Every key but the ledger's identity and the warning is in the digest that grants and reservations name."""
    from causalveil.schemas.contract import Contract, load_contract

    path = write_study(tmp_path / "study").with_name("dataset.yaml")
    before = load_contract(path).digest
    edits: dict[str, Any] = {
        "unit": "household",
        "blocks": {"key": "month", "units_span": True},
        "public": [],
        "accounting": "concentrated" if CONTRACT.get("accounting") == "basic" else "basic",
        "columns": {**yaml.safe_load(path.read_text())["columns"], "score": {"lower": 0, "upper": 11}},
        "caps": {"sample": {"epsilon": 11, "delta": 0}},
    }
    for key, value in edits.items():
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), key: value}))
        after = load_contract(path).digest
        assert after != before, key
        before = after
    assert set(CONTRACT) <= set(Contract.model_fields)


def test_a_run_that_comes_back_finds_the_rows_that_it_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run drew from one table, died, and went on with another of as many rows under the same charges."""
    from causalveil.tasks.estimate.papers.ipw import weights

    path = write_study(tmp_path / "study", frame=people(400))
    with monkeypatch.context() as patch:
        patch.setattr(weights, "release", _dies)
        with pytest.raises(CausalveilError):
            run_study(path, out=tmp_path / "out", run_id="back")
    assert [run.state for run in open_ledger().account("small").runs] == ["reserved"], "one value was drawn"
    before = open_ledger().account("small").blocks
    write_study(tmp_path / "study", frame=people(400).with_columns(score=pl.lit(5.0)))
    with pytest.raises(RunConflict, match="another content of its data files"):
        run_study(path, out=tmp_path / "out", run_id="back")
    assert open_ledger().account("small").blocks == before
    write_study(tmp_path / "study", frame=people(400))
    assert run_study(path, out=tmp_path / "out", run_id="back").resumed


def _dies(*_: Any) -> Any:
    raise DataError("the machine stopped")
