"""Text in CSV files for people stays text in a spreadsheet, and every such file is written by one function."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from rich.console import Console

from causalveil.flows.cli import show
from causalveil.flows.plan.study_plan import plan_study
from causalveil.schemas.errors import StudyError
from causalveil.schemas.ledger import Account, RunAccount, Sum
from causalveil.schemas.plan import Plan
from causalveil.schemas.privacy import Level, amount_text
from causalveil.tasks.machine.arrays import csv_text, harmless
from causalveil.tasks.report.figures import COLOURS, DASHES, MARKERS, figure, legend, series, write_table

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


# Tables on a terminal of eighty columns: no cell is cut, and every number stands whole on one line.
DATA = Path(__file__).parents[2] / "data"
STUDIES = sorted(DATA.rglob("study*.yaml"))


def on_a_terminal(plan: Plan, width: int) -> str:
    console = Console(width=width)
    with console.capture() as found:
        console.print(show.charge_table(plan.charges, title="Charges"))
    return found.get()


@pytest.mark.parametrize("path", STUDIES, ids=[path.relative_to(DATA).as_posix() for path in STUDIES])
@pytest.mark.parametrize("width", [80, 120])
def test_no_charge_is_cut(path: Path, width: int) -> None:
    """A delta of 1e-5 was printed as 1e, and a formula ended in three dots."""
    _, plan = plan_study(path)
    shown = on_a_terminal(plan, width)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    words = shown.split()
    for charge in plan.charges:
        assert {amount_text(charge.epsilon), amount_text(charge.delta)} <= {*words}
        assert charge.sensitivity is not None or " ".join(charge.formula.split()) in " ".join(words)


def test_a_ledger_shows_each_runs_study(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its column had no letter's width beside an id of usual length."""
    monkeypatch.setenv("COLUMNS", "80")
    run = RunAccount(
        run_id="fertility-weeks-worked-223e2611",
        study="weeks-worked",
        level=Level.training_units,
        blocks=("all",),
        state="finished",
        cost=Sum(),
        spent=Sum(),
    )
    show.account(Account(dataset="fertility", ledger="0" * 32, caps={}, blocks=(), runs=(run,), older_runs=0))
    _, _, shown = capfd.readouterr().out.partition("Runs, newest first")
    assert "weeks-worked" in [row.strip() for row in shown.splitlines()]
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80


# Tables and figures: what is written, that it is written the same twice, and that it can be read without colours.
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
