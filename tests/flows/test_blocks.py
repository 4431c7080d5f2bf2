"""Months as blocks of the ledger: a run charges what it reads, and says on whose word the others were left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from causalveil.flows.api import run_study
from causalveil.schemas.contract import load_contract
from causalveil.schemas.errors import BudgetRefused
from causalveil.schemas.release import Release
from causalveil.tasks.privacy.ledger.ledger import open_ledger
from tests.studies import command, people, write_study

MONTHS = [f"month=2026-{month:02d}" for month in range(1, 7)]


def write(folder: Path, months: list[str], newest: int | None = None, span: bool = False, epsilon: int = 2) -> Path:
    """A study over one Parquet file a month, 200 people each."""
    data: dict[str, Any] = {}
    if newest is not None:
        data["select"] = {"newest": newest}
    caps = {level: {"epsilon": epsilon, "delta": "1e-4"} for level in ("sample", "label", "training_units")}
    path = write_study(
        folder,
        partitions=0,
        study={"data": data},
        contract={"caps": caps, "accounting": "basic", "blocks": {"key": "month", "units_span": span}},
    )
    frame = people(200 * len(MONTHS))
    for index, month in enumerate(months):
        (folder / month).mkdir(exist_ok=True)
        frame[200 * index : 200 * (index + 1)].write_parquet(folder / month / "part-0.parquet")
    return path


def run(path: Path, run_id: str) -> Release:
    return run_study(path, out=path.parent / "out" / run_id, run_id=run_id).release


def spent() -> dict[str, int]:
    return {row.block: int(row.spent.epsilon) for row in open_ledger().account("small").blocks}


def test_only_the_newest_blocks_are_charged_and_new_months_start_fresh(tmp_path: Path) -> None:
    path = write(tmp_path / "study", MONTHS[:4], newest=3)
    release = run(path, "first")
    assert release.units == 600
    assert release.privacy.blocks.charged == tuple(MONTHS[1:4])
    assert "owner asserts that no unit has rows in two blocks of 'month'" in release.privacy.blocks.statement
    write(tmp_path / "study", MONTHS[:5], newest=3)
    assert run(path, "second").privacy.blocks.charged == tuple(MONTHS[2:5])
    assert spent() == dict(zip(MONTHS[1:5], (1, 2, 2, 1), strict=True))
    # A month is in three windows of three, and the cap here is two: the third run is refused ...
    write(tmp_path / "study", MONTHS[:6], newest=3)
    with pytest.raises(BudgetRefused, match="block 'month=2026-04'"):
        run(path, "third")
    assert spent() == dict(zip(MONTHS[1:5], (1, 2, 2, 1), strict=True)), "a refusal charges no block"
    # ... and one that reads the fresh months alone is not.
    write(tmp_path / "study", MONTHS[:6], newest=2)
    assert run(path, "fourth").privacy.blocks.charged == tuple(MONTHS[4:6])


def test_if_units_span_blocks_one_account_is_charged_whatever_lies_in_the_folder(tmp_path: Path) -> None:
    path = write(tmp_path / "study", MONTHS[:4], newest=1, span=True)
    release = run(path, "first")
    assert release.units == 200
    assert release.privacy.blocks.charged == ("all",)
    assert release.privacy.blocks.statement.endswith("so the account `all` was charged.")
    run(path, "second")
    # A month that is deleted, and one that is new, do not refill the cap.
    for file in (tmp_path / "study" / MONTHS[0]).iterdir():
        file.unlink()
    write(tmp_path / "study", MONTHS[1:5], newest=1, span=True)
    with pytest.raises(BudgetRefused, match="block 'all'"):
        run(path, "third")


def test_one_full_block_refuses_the_whole_run(tmp_path: Path) -> None:
    path = write(tmp_path / "study", MONTHS[:2], newest=1, epsilon=1)
    run(path, "first")
    write(tmp_path / "study", MONTHS[:2], epsilon=1)
    with pytest.raises(BudgetRefused, match="block 'month=2026-02'"):
        run(path, "second")
    assert spent() == {"month=2026-02": 1}


def test_ledger_show_is_a_table_by_block(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    path = write(tmp_path / "study", MONTHS[:4], newest=3)
    assert command("run", path, "--run-id", "first", "--out", tmp_path / "out") == 0
    shown = capfd.readouterr().out
    assert "owner asserts" in shown
    assert command("ledger", "show", "small") == 0
    shown = capfd.readouterr().out
    rows = [re.split(r"\s{2,}", line.strip()) for line in shown.splitlines() if "month=" in line]
    assert [row[1] for row in rows[:3]] == MONTHS[1:4]
    assert rows[0][2:] == ["2, 0.0001", "1, 1e-6", "0, 0", "1, 0.000099", "1"] or "9.9e-5" in rows[0][5]
    assert "never charged" in shown


@pytest.mark.parametrize("accounting", ["basic", "concentrated"])
def test_a_narrow_terminal_cuts_no_name_and_no_id(
    accounting: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run_id = "training-units-2026-11-20261122T014500-0b5c1d"
    path = write_study(
        tmp_path / "study",
        study={"privacy": {"level": "training_units"}},
        contract={"accounting": accounting, "caps": {"training_units": {"epsilon": "12.3456789012", "delta": "1e-5"}}},
    )
    # Nobody used a cap yet: it is shown all the same.
    open_ledger().grant_itself(load_contract(path.with_name("dataset.yaml")))
    for used in (False, True):
        if used:
            run_study(path, out=tmp_path / "out", run_id=run_id)
        capfd.readouterr()
        command("ledger", "show", "small")
        shown = capfd.readouterr().out
        assert "…" not in shown
        assert max(map(len, shown.splitlines())) <= 80
        assert all(level in shown for level in ("sample", "label", "training_units"))
        _, _, runs = shown.partition("of study")
        joined = "".join(row.strip().split("  ")[0] for row in runs.splitlines())
        assert not used or run_id in joined
