"""Text in CSV files for people stays text in a spreadsheet, and every such file is written by one function."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import polars as pl
import pytest

from causalveil.tasks.machine.arrays import csv_text, harmless
from causalveil.tasks.report.figures import write_table

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("text", ["=1+1", "+a", "-b", "@c", "＝g", "=HYPERLINK(1)"])
def test_text_that_begins_as_a_formula_does_is_led_by_a_quote(text: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({text: [text, None, "plain"], "n": [-1.5, 2.0, None]})
    found = list(csv.reader(io.StringIO(csv_text(frame), newline="")))
    assert found == [[f"'{text}", "n"], [f"'{text}", "-1.5"], ["", "2.0"], ["plain", ""]]
    write_table(tmp_path / "table.csv", [{text: text, "n": -1.5}])
    assert (tmp_path / "table.csv").read_bytes().decode().lstrip('"').startswith(f"'{text}")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\td", "\\td"),
        ("a\r\nb", "a\\r\\nb"),
        ("=1\x9b2J", "'=1\\x9b2J"),
        ("a\u202eb", "a\\u202eb"),
        ("گروه\u200cها, café\xa0noir", "گروه\u200cها, café\xa0noir"),
    ],
)
def test_a_file_that_is_printed_runs_nothing_on_a_terminal(text: str, told: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({text: [text]})
    assert list(csv.reader(io.StringIO(csv_text(frame), newline=""))) == [[told], [told]]
    write_table(tmp_path / "table.csv", [{text: text}])
    assert list(csv.reader(io.StringIO((tmp_path / "table.csv").read_text(), newline=""))) == [[told], [told]]


def test_numbers_stay_numbers() -> None:
    assert [harmless(one) for one in ("-1.5", "+3", "-1e-6", -2, None, "")] == ["-1.5", "+3", "-1e-6", -2, None, ""]


def test_no_other_place_writes_csv() -> None:
    writers = {
        path.name
        for floor in ("flows", "tasks", "schemas", "replication/src")
        for path in (ROOT / floor).rglob("*.py")
        if re.search(r"write_csv\(|csv\.(Dict)?[wW]riter\(", path.read_text())
    }
    assert writers <= {"arrays.py", "figures.py"}, "write CSV by tasks/machine/arrays.py"
