"""A file that says otherwise than its folder is not admitted: the folder says which account is charged."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from causalveil.schemas.admission import NotAdmitted
from causalveil.tasks.machine import folders
from tests.bad_data import UNIT, admitted, contract, good
from tests.stored import put

BLOCKS = {"data": {"path": ".", "unit": UNIT, "blocks": "month"}}
SAME: dict[str, tuple[str, Any]] = {
    "text": ("2025-01", "2025-01"),
    "a day of the month": ("2025-01", date(2025, 1, 17)),
    "a moment of the month": ("2025-01", datetime(2025, 1, 17, 12)),
    "a whole number": ("07", 7),
    "a float": ("7", 7.0),
    "a written sign": ("a%2Fb", "a/b"),
    "no value": ("2025-01", None),
    "no value, by Hive": ("__HIVE_DEFAULT_PARTITION__", None),
}
OTHER: dict[str, tuple[str, Any]] = {
    "text": ("2025-02", "2025-01"),
    "a day": ("2025-02", date(2025, 1, 17)),
    "a moment": ("2025-02", datetime(2025, 1, 17, 12)),
    "a whole number": ("8", 7),
    "a float": ("7", 7.5),
    "a number in a folder of words": ("may", 5),
    "a value where Hive says none": ("__HIVE_DEFAULT_PARTITION__", "2025-01"),
}


def write(folder: Path, said: str, value: Any) -> Path:
    kind = pl.String() if value is None else None
    put(folder / f"month={said}" / "a.parquet", good(24).with_columns(pl.lit(value, kind).alias("month")))
    return folder


@pytest.mark.parametrize("most", [folders.SMALL_BYTES, 0], ids=["small", "large"])
@pytest.mark.parametrize("case", SAME)
def test_a_file_that_says_the_same_is_admitted(
    case: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "SMALL_BYTES", most)
    assert admitted(contract(**BLOCKS), write(tmp_path / "data", *SAME[case]), tmp_path / "scratch").units == 24


@pytest.mark.parametrize("most", [folders.SMALL_BYTES, 0], ids=["small", "large"])
@pytest.mark.parametrize("case", OTHER)
def test_a_file_that_says_otherwise_is_refused(
    case: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "SMALL_BYTES", most)
    with pytest.raises(
        NotAdmitted, match=r"a.parquet: column 'month' says otherwise than the name of the folder"
    ) as told:
        admitted(contract(**BLOCKS), write(tmp_path / "data", *OTHER[case]), tmp_path / "scratch")
    assert [one.rows for one in told.value.findings] == [24]
