"""Tables and figures: what is written, that it is written the same twice, and that it can be read without colours."""

from __future__ import annotations

import csv
from pathlib import Path
from xml.etree import ElementTree

import pytest

from causalveil.schemas.errors import StudyError
from causalveil.tasks.report.figures import COLOURS, DASHES, MARKERS, figure, legend, series, write_table

ROWS = [{"data": "a|b", "n": 3, "error": 0.123456}, {"data": "c", "n": 4, "error": float("nan")}]


def draw(path: Path) -> bytes:
    with figure(path, alt="Error falls with epsilon.", across=2, sharey=True) as panels:
        for index, axes in enumerate(panels[0]):
            for line in range(3):
                series(axes, [1, 2, 4], [3.0 - line, 2, 1], f"line {line}", line, error=[0.1, 0.1, 0.1])
            axes.set_title(f"panel {index}")
        legend(panels)
    return path.read_bytes()


def test_csv_reads_back(tmp_path: Path) -> None:
    write_table(tmp_path / "deep" / "table.csv", ROWS)
    with (tmp_path / "deep" / "table.csv").open() as stream:
        back = list(csv.DictReader(stream))
    assert [row["data"] for row in back] == ["a|b", "c"]
    assert float(back[0]["error"]) == 0.123456


def test_figure_is_the_same_every_time_and_carries_its_text(tmp_path: Path) -> None:
    first = draw(tmp_path / "one.svg")
    assert first == draw(tmp_path / "two.svg")
    assert len(first) < 150_000
    words = "".join(ElementTree.fromstring(first).itertext())
    for text in ("Error falls with epsilon.", "panel 1", "line 2"):
        assert text in words


def test_series_differ_in_more_than_colour() -> None:
    assert len(set(COLOURS)) == len(set(MARKERS)) == len({str(dash) for dash in DASHES}) == 7


def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="cannot be written"):
        write_table(tmp_path / "file" / "table.csv", ROWS)
    with pytest.raises(StudyError, match="cannot be written"):
        draw(tmp_path / "file" / "figure.svg")
