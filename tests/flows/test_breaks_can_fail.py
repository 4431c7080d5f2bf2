"""Each break comes back once its guard is taken away: the tests in ``test_breaks.py`` can fail.

The tree before the owner's contract released in each of these cases.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from causalveil.flows.api import run_study
from causalveil.flows.run import declare
from causalveil.schemas import study as study_schema
from causalveil.schemas.errors import CausalveilError
from causalveil.tasks.data.admit import _Look
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.privacy.ledger import rules
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.studies import people, write_study


def ran(path: Path, run_id: str = "asked") -> bool:
    """Whether an attack ends in a release."""
    try:
        run_study(path, out=path.parent / run_id, run_id=run_id, engine="direct")
    except CausalveilError:
        return False
    return True


def test_a_person_of_twenty_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    visits = people(200).with_columns(person=pl.int_range(200) % 10 + 1000)
    path = write_study(tmp_path / "study", frame=visits)
    assert not ran(path, "guarded")
    monkeypatch.setattr(_Look, "repeated", lambda _: [])
    assert ran(path, "bare")


def test_columns_that_are_not_public_at_label_level(tmp_path: Path) -> None:
    hiv = {"codes": {"no": 0, "yes": 1}}
    frame = people(400).with_columns(hiv=pl.int_range(400) % 2)
    changes = {"treatment": "hiv", "privacy": {"level": "label"}}
    path = write_study(tmp_path / "study", frame=frame, study=changes, contract={"columns": {"hiv": hiv}})
    assert not ran(path, "guarded")
    write_study(tmp_path / "study", frame=frame, study=changes, contract={"columns": {"hiv": hiv}, "public": ["hiv"]})
    assert not ran(path, "half")
    public = {"columns": {"hiv": hiv}, "public": ["hiv", "age", "group"]}
    write_study(tmp_path / "study", frame=frame, study=changes, contract=public)
    assert ran(path, "allowed")


def test_a_folder_around_another_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outer = write_study(tmp_path / "outer")
    write_study(tmp_path / "outer" / "inner", contract={"data_class": "sensitive"}, frame=people(800).tail(400))
    assert not ran(outer, "guarded")
    monkeypatch.setattr(DataFolder, "_refuse_contract", lambda *_: None)
    assert ran(outer, "bare"), "eight hundred people, half of them sensitive"
    run = open_ledger().record("bare")
    assert run is not None
    assert run.reservation.units == 800


def test_a_clip_of_next_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_study(tmp_path / "study", study={"estimator": {"clip": [5e-309, 0.9]}})
    assert not ran(path, "guarded")
    monkeypatch.setattr(study_schema, "sane_clip", lambda *_: None)
    assert ran(path, "bare"), "contributions are bounded all the same, which the break had not"


def test_the_whole_cap_for_each_name_of_a_month(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same people under another month's name were another account, though they span months."""
    contract: dict[str, Any] = {
        "blocks": {"key": "month", "units_span": True},
        "caps": {level: {"epsilon": 1, "delta": "1e-5"} for level in ("sample", "label", "training_units")},
    }
    for dataset in ("guarded", "bare"):
        path = write_study(tmp_path / dataset, partitions=0, contract={**contract, "dataset": dataset})
        if dataset == "bare":
            monkeypatch.setattr(declare, "blocks_charged", lambda _, layout: layout.blocks)
        (path.parent / "month=1").mkdir()
        people(400).write_parquet(path.parent / "month=1" / "a.parquet")
        assert ran(path, f"{dataset}-first")
        (path.parent / "month=1").rename(path.parent / "month=2")
        # One account, whatever lies in the folder.
        assert ran(path, f"{dataset}-second") == (dataset == "bare")


def test_a_run_that_comes_back_to_other_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from causalveil.tasks.estimate.papers.ipw import weights

    path = write_study(tmp_path / "study")
    with monkeypatch.context() as patch:
        patch.setattr(weights, "release", _dies)
        assert not ran(path, "back")
    write_study(tmp_path / "study", frame=people(400).with_columns(score=pl.lit(5.0)))
    assert not ran(path, "back")
    monkeypatch.setitem(rules.BINDING, "dataset", "dataset")
    for field in ("contents", "layout_digest"):
        monkeypatch.delitem(rules.BINDING, field)
    assert ran(path, "back"), "half of a release from one table, half from another"


def _dies(*_: Any) -> Any:
    raise CausalveilError("the machine stopped")
