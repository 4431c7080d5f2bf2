"""The page's part on the competitors: who won where, what the paper says of them, and what each costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from causalveil.tasks.report.figures import figure, legend, series
from causalveil_replication.competitors.ours import UNADJUSTED
from causalveil_replication.figures import markdown_table, picture
from causalveil_replication.pieces import Value
from causalveil_replication.yuan2026.rivals import COMPETITORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = dict[str, Value]
Rows = Sequence[Row]
LEVELS = ("label", "sample")
# Lines of the figures, ours first; seven can be told apart.
LINES = {
    "label": (
        "auto_label",
        "matching_label",
        "matching_label_paper",
        "ipw_label",
        "exact_matching_label",
        "guha_reiter_label",
        "lebeda_label",
    ),
    "sample": ("auto_sample", "matching_sample", "ipw_pp", "smooth_matching", "dpci", "privsyn", "aim"),
}
SHOWN = (0.5, 1.0, 2.0, 4.0)
# Who takes long and comes last: cells are compared before, and say who lacks.
LATE = {"aim", "privsyn", "privsyn_core", "dpci", "auto_label", UNADJUSTED}
FIGURE = "matching-competitors-{}.svg"


def draw(out: Path, rows: Rows) -> None:
    """One figure a level."""
    for level in LEVELS:
        found = compared(rows, level)
        names = [name for name in LINES[level] if rows_of_cell(rows, competitor=name)]
        if not found:
            continue
        with figure(out / FIGURE.format(level), alt=_alt(rows, level), across=len(found), sharey=True) as panels:
            for data, axes in zip(found, panels[0], strict=True):
                for index, name in enumerate(names):
                    _line(axes, rows_of_cell(rows, data=data, competitor=name), index)
                axes.set_yscale("log")
                axes.yaxis.set_major_formatter("{x:g}")
                axes.set_title(data)
                axes.set_xlabel("epsilon")
            panels[0][0].set_ylabel("relative error")
            legend(panels)


def parts(rows: Rows) -> list[str]:
    """The section, part by part; nothing without rows."""
    if not rows:
        return []
    return [
        "## Beside the competitors (Figure 2)",
        "All estimate the same average effect on the same orders of the same units; the error is that against "
        "matching without privacy, as above, the mean over orders of one draw each, of competitors 4 "
        "(one of PrivSyn and AIM; AIM has 5 orders, AIM, DPCI and PrivSyn 3 on ACIC). *Without "
        "noise* is the error that is left when an estimator's noise is taken away: what it estimates is not what "
        "matching does. To answer 0 always has an error of 1. All numbers: "
        "[matching-competitors.csv](matching-competitors.csv); there stands, too, the "
        "error against the effect itself, where outcomes are simulated and it is known.",
        "**Whose privacy, in which sense.** A panel without this key misleads: `delta` 0 is a stronger promise than "
        "1e-5, an epsilon for a unit that comes or goes is worth up to half of one for a unit that is replaced, and "
        "an asymptotic guarantee is none at these sizes.",
        markdown_table(_key(rows)),
        "`auto` is what `estimator: auto` takes, `balancing` at label level and `regression` at sample level. "
        "*Public weights*: where outcomes alone are private, a weighted sum of them needs noise of its largest weight "
        "alone, whatever made these weights. SmoothDPM is exact matching on strata of declared covariates cut at "
        "their middle, with a smooth sensitivity derived here (`docs/proofs/competitors.md`), since no code of its "
        "authors is to be had. Guha and Reiter define their estimator for binary outcomes; here it is theirs with the "
        "declared range in place of [0, 1]. Groups and folds are sqrt(n) in number. Lebeda et al. are run with ridge "
        "regressions, logistic scores in [0.1, 0.9] and Laplace noise. DPCI spends all of its budget on the effect, "
        "as the paper has it. PrivSyn is its authors' definition without the joining of pairs into larger tables. AIM "
        "is its authors' with the settings of their code (all pairs as workload, at first 16 rounds a column, models "
        "of at most 80 MB), but that a fit goes on where the one before ended, by steps with a line search until 20 "
        "gain less than .01 of log-likelihood, 300 at most, where theirs has 1,000 steps without one. Neither is a "
        "package's; *PrivSyn as packaged* is privsyn-core 0.1.1 in an environment of its own, with its own noise. For "
        "all three continuous columns are cut into 16 equal bins and read back at their middle; an arm that "
        "has fewer than 5 units in the synthetic data is *no answer*.",
        "### Who won where",
        *(part for level in LEVELS for part in _winners(rows, level)),
        "### All of them",
        *(part for level in LEVELS for part in _level(rows, level)),
    ]


def cost_parts(rows: Rows, competitors: Rows) -> list[str]:
    """Tables IV and V."""
    if not rows:
        return []
    titles = {str(row["competitor"]): f"{row['title']} ({row['level']} level)" for row in competitors}
    found = data_sets(rows)
    lines: dict[str, list[Row]] = {"seconds": [], "megabytes": []}
    for kind, table in lines.items():
        for name in dict.fromkeys(str(row["competitor"]) for row in rows):
            line: Row = {"estimator": titles.get(name, name)}
            for data in found:
                some = rows_of_cell(rows, data=data, competitor=name)
                if not some:
                    line[data] = None
                    continue
                row = some[0]
                printed = row[f"printed_{kind}"]
                line[data] = f"{row[kind]:,}" + ("" if printed is None else f" ({printed:,})")
            table.append(line)
    return [
        "## Time and memory (Tables IV and V)",
        "Processor seconds of one fit and release at epsilon 1, and the peak memory in MB of a process that does "
        "nothing else; "
        "the paper's numbers in brackets. Each is measured once, the second of two releases, so that imports and "
        "compilation do not count, on a machine that did other work besides; the memory of a process that has only "
        "imported the code is most of ours. All numbers: [matching-costs.csv](matching-costs.csv).",
        "Seconds:",
        markdown_table(lines["seconds"]),
        "Megabytes:",
        markdown_table(lines["megabytes"]),
    ]


def data_sets(rows: Rows) -> list[str]:
    """The data sets of the table, in its order."""
    return list(dict.fromkeys(str(row["data"]) for row in rows))


def compared(rows: Rows, level: str) -> list[str]:
    """The data sets on which everybody quick was run at a level who was run at all: where a winner is one."""
    names = {row["competitor"] for row in rows if row["level"] == level} - LATE
    return [
        data
        for data in data_sets(rows)
        if names and names <= {row["competitor"] for row in rows_of_cell(rows, data=data, level=level)}
    ]


def number(value: Value) -> float:
    """A number of a table; NaN where there is none."""
    return float(value) if isinstance(value, int | float) else math.nan


def ranked(rows: Rows, **wanted: Value) -> list[Row]:
    """The rows of a cell by their error, least first; without those that gave no answer or adjust for nothing."""
    found = [row for row in rows_of_cell(rows, **wanted) if row["competitor"] != UNADJUSTED]
    return sorted(
        (row for row in found if row["relative_error"] is not None), key=lambda row: number(row["relative_error"])
    )


def behind(first: Row, second: Row, error: str = "relative_error", deviation: str = "standard_error") -> bool:
    """Return whether the second's error is above the first's by more than chance explains.

    By more than two standard errors of the difference.
    """
    return number(second[error]) - number(first[error]) > 2 * math.hypot(
        number(first[deviation]), number(second[deviation])
    )


def _winners(rows: Rows, level: str) -> list[str]:
    cells = []
    tally: dict[str, int] = {}
    ours = clear = cells_won = 0
    for data in compared(rows, level):
        line: Row = {"data": data}
        for epsilon in sorted({number(row["epsilon"]) for row in rows}):
            found = ranked(rows, data=data, level=level, epsilon=epsilon)
            if not found:
                line[f"epsilon {epsilon:g}"] = None
                continue
            first, *others = found
            cells_won += 1
            tally[str(first["title"])] = tally.get(str(first["title"]), 0) + 1
            ours += bool(first["ours"])
            apart = bool(others) and behind(first, others[0])
            clear += apart
            mark = "**" if apart else ""
            line[f"epsilon {epsilon:g}"] = f"{mark}{first['title']}{mark} {number(first['relative_error']):.2f}"
        cells.append(line)
    absent = "; ".join(
        f"{data}: {', '.join(lacking)}"
        for data in compared(rows, level)
        if (lacking := [one.title for one in COMPETITORS if one.level == level and not _whole(rows, data, one.name)])
    )
    if not cells:
        return [f"{level.capitalize()} level: not computed yet."]
    won = ", ".join(f"{title} {times}" for title, times in sorted(tally.items(), key=lambda pair: -pair[1]))
    return [
        f"{level.capitalize()} level, {cells_won} cells: ours have the least error in {ours}, others in "
        f"{cells_won - ours}. In {clear} the second is more than two standard errors of the difference behind (bold). "
        f"Cells won: {won}." + (f" **Not computed, or not at every epsilon: {absent}.**" if absent else ""),
        markdown_table(cells),
    ]


def _whole(rows: Rows, data: str, name: str) -> bool:
    """Return whether a competitor was run at every epsilon."""
    return len(rows_of_cell(rows, data=data, competitor=name)) == len({row["epsilon"] for row in rows})


def _level(rows: Rows, level: str) -> list[str]:
    table = []
    for data in data_sets(rows):
        for name in dict.fromkeys(str(row["competitor"]) for row in rows_of_cell(rows, level=level)):
            some = rows_of_cell(rows, data=data, competitor=name)
            if not some:
                continue
            line: Row = {"data": data, "estimator": some[0]["title"]}
            for epsilon in SHOWN:
                cell = rows_of_cell(some, epsilon=epsilon)
                line[f"epsilon {epsilon:g}"] = _with_error(cell[0]) if cell else None
            floor = some[0]["without_noise"]
            line["without noise"] = None if floor is None else f"{number(floor):.2f}"
            silent = sum(int(number(row["no_answer"])) for row in some)
            line["no answer"] = f"{silent} of {sum(int(number(row['runs'])) for row in some)}"
            table.append(line)
    caption = f"Relative error by epsilon at {level} level; bands are one standard error."
    drawn = [picture(FIGURE.format(level), _alt(rows, level), caption)] if compared(rows, level) else []
    return [*drawn, markdown_table(table)]


def _with_error(row: Row) -> str:
    if row["relative_error"] is None:
        return "no answer"
    return f"{number(row['relative_error']):.2f} ± {number(row['standard_error']):.2f}"


def _key(rows: Rows) -> list[Row]:
    names = dict.fromkeys(str(row["competitor"]) for row in rows)
    firsts = [rows_of_cell(rows, competitor=name)[0] for name in names]
    return [
        {
            "estimator": row["title"],
            "level": row["level"],
            "whose": "ours" if row["ours"] else "competitor",
            "neighbours": row["neighbours"],
            "guarantee": row["guarantee"],
            "delta": f"{number(row['delta']):g}",
        }
        for row in firsts
    ]


def rows_of_cell(rows: Rows, **wanted: Value) -> list[Row]:
    """The rows with these values, by epsilon."""
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return sorted(found, key=lambda row: number(row.get("epsilon")))


def _alt(rows: Rows, level: str) -> str:
    titles = [
        str(rows_of_cell(rows, competitor=name)[0]["title"])
        for name in LINES[level]
        if rows_of_cell(rows, competitor=name)
    ]
    return (
        f"Relative error at {level} level against epsilon from 0.5 to 4, on a logarithmic scale, one panel each for "
        f"{', '.join(compared(rows, level))}. Lines: {'; '.join(titles)}."
    )


def _line(axes: Axes, found: list[Row], index: int) -> None:
    heard = [row for row in found if row["relative_error"] is not None]
    if not heard:
        return
    columns = [[number(row[key]) for row in heard] for key in ("epsilon", "relative_error", "standard_error")]
    series(axes, columns[0], columns[1], str(heard[0]["title"]), index, error=columns[2])
