"""Pages of replications: tables in Markdown."""

from __future__ import annotations

from causalveil_replication.figures import markdown_table, picture

ROWS = [{"data": "a|b", "n": 3, "error": 0.123456}, {"data": "c", "n": 4, "error": float("nan")}]


def test_markdown_table() -> None:
    table = markdown_table(ROWS, {"error": ".2f"}).splitlines()
    assert table == ["| data | n | error |", "| --- | ---: | ---: |", "| a\\|b | 3 | 0.12 |", "| c | 4 | - |"]
    assert "0.123 |" in markdown_table(ROWS)


def test_picture_has_a_text_and_a_caption() -> None:
    assert picture("error.svg", "alt", "caption") == "![alt](error.svg)\n\n*caption*"
