"""The page and the figures of `replicate intervals`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from causalveil.tasks.report.figures import COLOURS, MARKERS, figure, legend, series
from causalveil_replication.figures import markdown_table, picture
from causalveil_replication.schroeder2025.runs import LEVELS, OneInterval

Rows = Sequence[Mapping[str, Any]]

# Panels of the figure of the page on accuracy: data as its table names them, and the number of units.
SHOWN = (("Dataset 1 (p = 2)", 3_000), ("Dataset 2 (p = 24, s = 6)", 3_000))
TITLES = {
    "page": "# Private intervals: coverage and width",
    "made": "Made by `uv run --package causalveil-replication replicate intervals`, after M. Schröder, J. "
    "Hartenstein and S. Feuerriegel, *PrivATE: "
    "Differentially Private Confidence Intervals for Average Treatment Effects* (2025). `asymptotic` is their method "
    "as printed, whose privacy proof holds in the limit of large n; `finite sample` is ours, proved at this n, by "
    "`regression`. Epsilon 0.5 and delta 1e-5 unless a table says otherwise; ± is one Monte-Carlo standard error. "
    "Standard and naive intervals, Table 2 at each level and Figures 4 and 5 are made by `--part fits`: "
    "`interval-columns.csv`, `interval-widths.csv`, `interval-rhc-levels.csv`, `interval-utility.csv`.",
    "coverage": "Coefficients are new in every run. Dataset 2 has one support for treatment and outcome, as the "
    "design's source has; with separate supports arm means are confounded a quarter as much. Run k has the same data "
    "and the same draws of noise in every row, so where noise is most of the error rows err together. The paper prints "
    "no widths. *Bias-aware*: the study declares that confounders left out explain .4 of the outcome's "
    "variance and .03 of treatment's (on average it is .33 and .03).",
    "patients": "5,735 patients, eight confounders of which the paper names three; "
    "`replication/src/causalveil_replication/schroeder2025/data.py` says how the file is prepared. Means over runs "
    "that differ in folds and "
    "noise; half-widths of 95% intervals.",
    "trial": "Ten runs as in the paper: a coverage is a multiple of 0.1 and errs by about 0.1. Table 1 has more runs.",
}


def page(table: Rows, few: Rows, patients: Rows, pictures: Sequence[str]) -> list[str]:
    """The parts of the Markdown page.

    Args:
        table: rows of intervals.csv.
        few: rows of interval-trial.csv.
        patients: rows of interval-rhc.csv.
        pictures: Markdown of the figures.
    """
    parts = [TITLES["page"], TITLES["made"], *pictures]
    if table:
        parts += ["## Table 1: coverage where the effect is known", TITLES["coverage"], markdown_table(_wide(table))]
    if patients:
        formats = {"epsilon": "g", "estimate": ".3f", "half_width": ".3f", "share_of_asymptotic": ".2f"}
        parts += ["## Table 2: right heart catheterisation", TITLES["patients"], markdown_table(patients, formats)]
    if few:
        parts += [
            "## Table 3: a randomised trial, ten runs of 1,000 units",
            TITLES["trial"],
            markdown_table(_wide(few)),
        ]
    return parts


def _wide(table: Rows) -> list[dict[str, Any]]:
    """One row per method for people: coverage at the three levels, the paper's, bias, half-width at the last level."""
    cells: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in table:
        cells.setdefault((row["data"], row["units"], row["method"]), []).append(row)
    wide = []
    for (data, units, method), rows in cells.items():
        last, printed = rows[-1], [row["paper_coverage"] for row in rows]
        levels = {f"{row['level']:.0%}": f"{row['coverage']:.3f} ± {row['coverage_error']:.3f}" for row in rows}
        wide.append(
            {
                "data": data,
                "n": f"{units:,}",
                "method": method,
                "runs": last["runs"],
                **levels,
                "paper": None if None in printed else " ".join(f"{share:.3f}" for share in printed),
                "bias": f"{last['bias']:.3f} ± {last['bias_error']:.3f}",
                f"half-width {last['level']:.0%}": f"{last['half_width']:.3f}",
            }
        )
    return wide


def figures(out: Path, table: Rows, trial: Mapping[str, Sequence[OneInterval]], patients: Rows) -> list[str]:
    """Draw what there are numbers for into ``out``; Markdown for the page.

    Args:
        out: the folder.
        table: rows of intervals.csv.
        trial: answers of a few runs by method.
        patients: rows of interval-rhc.csv.
    """
    pictures = [_widths(out / "interval-width-and-coverage.svg", table)]
    if patients:
        pictures.append(_patients(out / "interval-rhc.svg", patients))
    if trial:
        pictures.append(_trial(out / "interval-trial.svg", trial))
    return pictures


def _widths(path: Path, table: Rows) -> str:
    """Half-width and coverage side by side against the confidence level, a row of panels per population."""
    alt = "Mean half-width, on a logarithmic scale, and coverage of intervals against the confidence level, by method."
    methods = list(dict.fromkeys(row["method"] for row in table if (row["data"], row["units"]) in SHOWN))
    with figure(path, alt=alt, down=len(SHOWN), across=2) as axes:
        for (data, units), (width, coverage) in zip(SHOWN, axes, strict=True):
            for index, method in enumerate(methods):
                some = [row for row in table if (row["data"], row["units"], row["method"]) == (data, units, method)]
                levels = [row["level"] for row in some]
                series(width, levels, [row["half_width"] for row in some], method, index)
                errors = [2 * row["coverage_error"] for row in some]
                series(coverage, levels, [row["coverage"] for row in some], method, index, errors)
            coverage.plot(LEVELS, LEVELS, color="black", linewidth=0.8)
            width.set(yscale="log", ylabel="mean half-width", title=f"{data}, n = {units:,}")
            _plain_ticks(width)
            coverage.set(ylabel="coverage", title="black: nominal")
            for panel in (width, coverage):
                panel.set(xticks=LEVELS, xlabel="confidence")
        legend(axes)
    return picture(path.name, alt, "Left: mean half-width. Right: coverage with two Monte-Carlo errors.")


def _patients(path: Path, patients: Rows) -> str:
    """Half-width against epsilon on right heart catheterisation."""
    alt = "Half-width of 95% intervals against epsilon on right heart catheterisation: the paper's, and ours."
    printed = [row for row in patients if row["paper_half_width"] is not None]
    epsilons = [row["epsilon"] for row in printed]
    with figure(path, alt=alt) as axes:
        panel = axes[0][0]
        series(panel, epsilons, [row["paper_half_width"] for row in printed], "the paper's table 2", 0)
        for index, method in enumerate(dict.fromkeys(row["method"] for row in patients), start=1):
            widths = [row["half_width"] for row in patients if row["method"] == method]
            series(panel, epsilons, widths, method, index)
        panel.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="half-width at 95%")
        _plain_ticks(panel)
        panel.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        panel.set_xticks([], minor=True)
        drawing: Any = panel.figure
        drawing.legend(loc="outside lower center", ncols=2)
    return picture(path.name, alt, "Right heart catheterisation, 5,735 patients, death within 180 days.")


def _plain_ticks(panel: Any) -> None:
    """Ticks of a logarithmic axis as plain numbers: 1, 2 and 5 times a power of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.yaxis.set_major_formatter("{x:g}")
    panel.yaxis.set_minor_formatter(NullFormatter())


def _trial(path: Path, trial: Mapping[str, Sequence[OneInterval]]) -> str:
    """The intervals of a few runs, as figure 6 of the paper."""
    alt = "95% intervals of ten runs on a randomised trial of 1,000 units, one panel per method, the truth at 1."
    with figure(path, alt=alt, across=len(trial), sharey=True) as axes:
        for index, ((method, answers), panel) in enumerate(zip(trial.items(), axes[0], strict=True)):
            some = [answer for answer in answers if answer.level == LEVELS[-1]]
            middle = [(answer.lower + answer.upper) / 2 for answer in some]
            half = [(answer.upper - answer.lower) / 2 for answer in some]
            runs = [answer.run + 1 for answer in some]
            panel.errorbar(runs, middle, half, color=COLOURS[index], marker=MARKERS[index], linestyle="none")
            panel.axhline(1.0, color="black", linewidth=0.8)
            panel.set(xlabel="run", title=method)
        axes[0][0].set_ylabel("effect")
    return picture(path.name, alt, "Intervals at 95% of ten runs; black: the truth.")
