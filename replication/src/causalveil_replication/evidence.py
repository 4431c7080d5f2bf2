"""`replicate evidence`: every experiment of the five papers on one page, printed numbers beside ours.

Reads the tables that the replications wrote, computes nothing. An item that nobody makes yet is listed as missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from causalveil_replication.figures import markdown_table
from causalveil_replication.items import ERRORS, Beside, Item, Paper, read
from causalveil_replication.kusner2016.items import KUSNER
from causalveil_replication.lee2019.items import LEE_SCORES, LEE_WEIGHTING
from causalveil_replication.schroeder2025.items import SCHROEDER
from causalveil_replication.yuan2026.items import YUAN

PAPERS: tuple[Paper, ...] = (LEE_WEIGHTING, LEE_SCORES, YUAN, SCHROEDER, KUSNER)
MISSING = "missing"
# A column of runs that are coefficient vectors: the papers drew one.
VECTORS = "vectors"


def parts(tables: Path) -> list[str]:
    """The page, from the folder of tables."""
    found = {paper: [(item, read(item, tables)) for item in paper.items] for paper in PAPERS}
    return [
        "# The papers' experiments beside ours",
        f"{counted([one for of_paper in found.values() for one in of_paper])} "
        "Made by `uv run --package causalveil-replication replicate evidence --out docs/evidence.md` "
        "from the tables in `docs/figures/`; a test holds this page to them. Data that are not shipped are named by "
        "each command, with where they come from; nothing is downloaded.",
        "*Command*: what makes our numbers, after `uv run --package causalveil-replication`.",
        f"*Agree*: no number of the row is further from the printed one than {ERRORS:g} standard errors of the "
        "difference, counting the runs of both sides. It is no proof of equality: a difference up to the stated size "
        "would not have been seen. *Agree, weakly*: the paper drew one vector of coefficients, and estimates differ "
        "more between vectors than between most methods; what would not have been seen is then large. Where numbers "
        "differ the reason is given. Where a figure prints no numbers nothing is held against it, and the row says "
        "what ours shows.",
        "*Runs*: rows with the same letter were read off the same seeded runs. They agree or differ together and are "
        "one piece of evidence, as are the numbers within a row.",
        *(part for paper in PAPERS for part in _paper(paper, found[paper], tables)),
    ]


def _paper(paper: Paper, found: Sequence[tuple[Item, Beside]], tables: Path) -> Iterator[str]:
    yield f"## {paper.citation}"
    yield _link(paper, tables)
    lines = []
    for runs in paper.runs:
        rows = sum(item.table in runs.tables for item in paper.items)
        lines.append(f"- Runs {runs.letter} ({rows} {'row' if rows == 1 else 'rows'}): {runs.shared}.")
    if lines:
        yield "\n".join(lines)
    yield markdown_table([_row(paper, item, beside) for item, beside in found])


def counted(found: Sequence[tuple[Item, Beside]]) -> str:
    """Count the items, those with printed numbers, and how these compare, in words."""
    said = [agreement(item, beside) for item, beside in found]
    printed = [text for text, (item, _) in zip(said, found, strict=True) if item.printed]
    agree, weakly = (sum(text.startswith(start) for text in printed) for start in ("agree: ", "agree, weakly"))
    unheld = sum(text.startswith("no error") for text in printed)
    missing = sum(text.startswith(MISSING) for text in said)
    proved = sum(bool(item.proved) for item, _ in found)
    rest = len(said) - len(printed) - missing - proved
    return (
        f"{len(said)} items of five papers. {len(printed)} have printed numbers: {agree} agree, {weakly} agree weakly, "
        f"{len(printed) - agree - weakly - unheld} differ in at least one number, and {unheld} have no error to hold "
        f"them by. {len(said) - len(printed)} have none: {rest} show what we measured, {proved} are statements with a "
        f"proof or a reason, and {missing} {'is' if missing == 1 else 'are'} missing."
    )


def _link(paper: Paper, tables: Path) -> str:
    made = (tables / paper.page).is_file()
    return f"Page: [{paper.page}](figures/{paper.page})." if made else "No page yet."


def agreement(item: Item, found: Beside) -> str:
    """Describe how an item compares with the paper."""
    if item.proved:
        return item.proved
    if not found.ours:
        return f"{MISSING}: {item.reason}"
    if not found.complete:
        return f"{MISSING} in part: {item.reason or 'the table lacks rows'}"
    if not item.printed:
        return item.reason
    if not found.apart:
        return f"no error to be had: {item.reason}"
    least, most = (format(size(found.unseen), ".2g") for size in (min, max))
    unseen = least if least == most else f"{least} to {most}"
    if not found.beyond:
        agrees = "agree, weakly" if item.runs == VECTORS else "agree"
        largest = max(map(abs, found.apart))
        said = f"{agrees}: largest distance {largest:.1f} errors; differences of less than {unseen} would not be seen"
        return said + (f" ({item.reason})" if item.reason else "")
    return f"{found.beyond} of {len(found.apart)} differ by more than {unseen}: {item.reason}"


def _row(paper: Paper, item: Item, found: Beside) -> dict[str, str]:
    runs = paper.runs_of(item)
    return {
        "item": item.name,
        "printed": " ".join(format(number, item.form) for number in item.printed) or "-",
        "ours": " ".join(format(number, item.form) for number in found.ours) or "-",
        "agreement": agreement(item, found),
        "runs": runs.letter if runs else "-",
        "command": f"`{item.command}`" if item.command else "-",
    }
