"""docs/evidence.md: held to the tables, complete, and able to say that numbers differ."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from typer.main import get_command

from causalveil_replication.commands import replicate_app
from causalveil_replication.evidence import ITEMS as ITEMS_FILE
from causalveil_replication.evidence import PAPERS, agreement, items_of, parts
from causalveil_replication.items import Item, Paper, read
from causalveil_replication.lee2019.items import LALONDE
from causalveil_replication.lee2019.runs import EPSILONS
from causalveil_replication.lee2019.tables import PARTLY

# Tables in which nothing is drawn.
NO_SEEDS = tuple(
    f"{name}.csv" for name in ("matching-costs", "matching-bounds", "direction-neighbours", "direction-looks")
)
ROOT = Path(__file__).parents[2]
TABLES = ROOT / "docs" / "figures"
ITEMS = [item for paper in PAPERS for item in paper.items]
# Every numbered table and figure with an experiment in it, paper by paper in the order of the page.
EXPERIMENTS = (
    ("Figure 1", "Figure 2a", "Figure 2b", "Figure 2c", "Figure 2d", "Table 2", "Table 3", "Corollary 7"),
    ("Figure 1", "Figure 2a", "Figure 2b", "Figure 2c", "Figure 2d", "Table 1"),
    (*(f"Figure {n}" for n in range(2, 13)), *(f"Table {n}" for n in ("II", "III", "IV", "V")), "Theorem 3"),
    ("Table 1", "Figure 4", "Table 2", "Figure 5", "Table 3", "Figure 6"),
    ("Table 1", "Table 2", "Figure 1", "Figure 2"),
)


def test_the_page_is_what_the_tables_say() -> None:
    page = "\n\n".join(part.strip("\n") for part in parts(TABLES)) + "\n"
    written = (ROOT / "docs" / "evidence.md").read_text()
    assert written == page, "replicate evidence --out docs/evidence.md"
    with (TABLES / f"{ITEMS_FILE}.csv").open(newline="") as stream:
        told = [{key: value.removeprefix("'") for key, value in row.items()} for row in csv.DictReader(stream)]
    assert told == [row for paper in PAPERS for row in items_of(paper, TABLES)]


@pytest.mark.parametrize(("paper", "wanted"), list(zip(PAPERS, EXPERIMENTS, strict=True)), ids=lambda _: "")
def test_no_experiment_is_left_out(paper: Paper, wanted: tuple[str, ...]) -> None:
    names = " ".join(item.name for item in paper.items) + " "
    assert [name for name in wanted if not re.search(rf"{name}\b", names)] == []
    assert paper.main in names


def test_every_item_has_its_command_and_a_difference_its_reason() -> None:
    commands = set(getattr(get_command(replicate_app), "commands", {}))
    for item in ITEMS:
        found = read(item, TABLES)
        if item.table:
            assert re.match(r"replicate (\w+)", item.command), item.name
            assert item.command.split()[1] in commands, item.name
            assert found.complete, f"{item.name}: {item.table} lacks a row or a number"
            if item.printed:
                assert len(item.printed) == len(found.ours), item.name
        if found.beyond or not found.apart:
            assert item.reason or item.proved, item.name


def test_commands_that_pages_name_exist() -> None:
    commands = set(getattr(get_command(replicate_app), "commands", {}))
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    named = {word for page in pages for word in re.findall(r"(?:`|replication )replicate ([a-z]+)", page.read_text())}
    assert {"matching", "intervals", "direction", "weighting", "evidence"} <= named
    assert named <= commands
    assert not [page for page in pages if "causalveil replicate" in page.read_text()]


def test_the_page_says_how_much_evidence_there_is() -> None:
    """How many rows have printed numbers, which were read off the same runs, and how large a difference goes unseen."""
    page = parts(TABLES)
    printed = [item for item in ITEMS if item.printed]
    assert f"{len(ITEMS)} items of five papers. {len(printed)} have printed numbers" in page[1]
    assert f"{len(ITEMS) - len(printed)} have none" in page[1]
    for paper in PAPERS:
        for item in paper.items:
            if item.table not in ("", *NO_SEEDS):
                assert paper.runs_of(item) is not None, f"{item.name}: which runs?"
    men = [item for item in ITEMS if item.printed and item.where.get("data") == LALONDE and item.over[1] == EPSILONS]
    assert {runs.letter for item in men for paper in PAPERS[:2] if (runs := paper.runs_of(item))} == {"b"}
    assert len(men) == 6, "two tables printed, one table of ours"
    weak = [agreement(item, read(item, TABLES)) for item in printed if item.runs == "vectors"]
    assert all(not text.startswith("agree: ") for text in weak)
    assert sum(text.startswith("agree, weakly: ") for text in weak) >= 20
    assert all("unseen" in text for text in weak if text.startswith("agree"))


def test_a_printed_number_is_the_papers() -> None:
    """Both papers print the same mean at epsilon .2 on LaLonde."""
    means = [item.printed[0] for item in ITEMS if item.column == "mean" and item.where.get("estimate") == PARTLY]
    assert means.count(872.21) == 2


def table(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_what_would_not_be_seen_by_hand(tmp_path: Path) -> None:
    """One vector against 16 whose mean has an error of .1: 4 errors of .1 sqrt(17)."""
    table(tmp_path / "one.csv", [{"epsilon": 1.0, "mean": 3.0, "error": 0.1, "vectors": 16}])
    item = Item("x", "c", "one.csv", {}, column="mean", error="error", runs="vectors", printed=(4.0,), printed_runs=1)
    found = read(item, tmp_path)
    assert found.unseen == pytest.approx((0.4 * 17**0.5,))
    assert agreement(item, found) == "agree, weakly: 2.4 errors, 1.6 unseen"
    far = Item(**{**vars(item), "printed": (5.0,), "reason": "why"})
    assert agreement(far, read(far, tmp_path)) == "1 of 1 differ by more than 1.6: why"


def test_agreement_by_hand(tmp_path: Path) -> None:
    """A share of .5 in 100 runs against .7 in 100: pooled error .0687, so 2.9 errors; against .9 it is 6.2."""
    table(tmp_path / "one.csv", [{"epsilon": 1.0, "share": 0.5, "runs": 100, "mean": 3.0, "error": 0.5}])
    item = Item("x", "c", "one.csv", {"epsilon": "1"}, column="share", share=True, printed_runs=100, reason="why")
    close, far = (read(Item(**{**vars(item), "printed": (printed,)}), tmp_path) for printed in (0.7, 0.9))
    assert close.apart[0] == pytest.approx(-0.2 / (0.6 * 0.4 * 2 / 100) ** 0.5, rel=0.02)
    assert (close.beyond, far.beyond) == (0, 1)
    probability = Item(**{**vars(item), "printed": (0.9,), "error": "error"})
    assert read(probability, tmp_path).apart[0] == pytest.approx(-0.4 / (0.25 + 0.7 * 0.3 / 100) ** 0.5, rel=0.02)
    mean = Item("y", "c", "one.csv", {"epsilon": "1"}, column="mean", error="error", printed=(4.5,), printed_runs=25)
    # The paper's mean of 25 runs has twice our error of 100 runs.
    assert read(mean, tmp_path).apart[0] == pytest.approx(-1.5 / (0.5 * 5**0.5))
    assert agreement(item, read(Item(**{**vars(item), "table": "none.csv"}), tmp_path)) == "missing: why"
    assert agreement(Item(**{**vars(item), "printed": (0.9,)}), far) == "1 of 1 differ by more than 0.26: why"
    half = Item(**{**vars(item), "over": ("epsilon", ("1", "2")), "printed": (0.5, 0.5)})
    assert agreement(half, read(half, tmp_path)) == "missing in part: why"
