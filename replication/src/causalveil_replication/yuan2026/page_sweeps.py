"""The page's part on error coefficients, caps by N, shares of the budget and Theorem 3."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from causalveil.tasks.report.figures import figure, legend, series
from causalveil_replication.figures import markdown_table, picture
from causalveil_replication.pieces import Value
from causalveil_replication.yuan2026.page_rivals import Row, Rows, data_sets, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = ("label", "sample")
LETTER = {"label": "c", "sample": "h"}
DEFAULT = {"label": 0.01, "sample": 0.001}
COEFFICIENTS, CAPS, ALLOCATIONS = "matching-coefficients-{}.svg", "matching-caps-{}.svg", "matching-allocations.svg"
# Shares of scores and treatments nearest to the paper's .1 and .7.
PAPER_SHARES = (0.1, 0.7)


def draw(out: Path, errors: Rows, coefficients: Rows, allocations: Rows) -> None:
    """Every figure of this part."""
    for level in LEVELS:
        _by_neighbours(
            out / COEFFICIENTS.format(level),
            coefficients,
            _alt_coefficients(coefficients, level),
            f"error coefficient {LETTER[level]}",
            partial(_coefficient_lines, coefficients, level),
            logarithmic=True,
        )
        _by_neighbours(
            out / CAPS.format(level),
            errors,
            _alt_caps(errors, level),
            "epsilon",
            partial(_cap_lines, errors, level),
        )
    if not allocations:
        return
    found, epsilons = data_sets(allocations), _values(allocations, "epsilon")
    shared = {"sharex": True, "sharey": True}
    path, alt = out / ALLOCATIONS, _alt_allocations(allocations)
    with figure(path, alt=alt, down=len(epsilons), across=len(found), **shared) as panels:
        for epsilon, line in zip(epsilons, panels, strict=True):
            for data, axes in zip(found, line, strict=True):
                _squares(axes, _of(allocations, data=data, epsilon=epsilon))
                if line is panels[0]:
                    axes.set_title(data)
                if line is panels[-1]:
                    axes.set_xlabel("share of scores")
            line[0].set_ylabel(f"share of treatment, epsilon {epsilon:g}")


def parts(errors: Rows, coefficients: Rows, allocations: Rows, bounds: Rows) -> list[str]:
    """The sections, part by part; those of an empty table are left out."""
    return [
        *(_coefficient_parts(coefficients) if coefficients else []),
        "## Caps by number of neighbours (Figures 3, 5, 8 and 10)",
        *(
            picture(
                CAPS.format(level),
                _alt_caps(errors, level),
                f"Adaptive against fixed caps at {level} level, rows N = 1, 3, 5, 7; bands are one standard error.",
            )
            for level in LEVELS
        ),
        "In how many of the epsilons each cap has the least error:",
        markdown_table(_best_caps(errors)),
        *(_allocation_parts(allocations) if allocations else []),
        *(_bound_parts(bounds) if bounds else []),
    ]


def _coefficient_parts(coefficients: Rows) -> list[str]:
    return [
        "## Error coefficients (Figures 4, 6, 9 and 11)",
        "The coefficient weighs the bias of a low cap against noise: c at label level (0.01 in the paper), h at sample "
        "level (0.001). The estimator is the paper's, caps adaptive. All numbers: "
        "[matching-coefficients.csv](matching-coefficients.csv).",
        *(
            picture(
                COEFFICIENTS.format(level),
                _alt_coefficients(coefficients, level),
                f"Relative error by {LETTER[level]}, rows N = 1, 3, 5, 7; bands are one standard error.",
            )
            for level in LEVELS
        ),
        "Which coefficient has the least error at N = 5, and the error at the paper's:",
        markdown_table(_best_coefficients(coefficients)),
    ]


def _allocation_parts(allocations: Rows) -> list[str]:
    return [
        "## Shares of the budget (Figure 12)",
        "At sample level, N = 5, the paper's estimator: the share of scores (half of it for the model), that of "
        "treatments, and the rest for outcomes. All numbers: [matching-allocations.csv](matching-allocations.csv).",
        picture(ALLOCATIONS, _alt_allocations(allocations), "Mean relative error; darker is more."),
        markdown_table(_best_allocations(allocations)),
    ]


def _bound_parts(bounds: Rows) -> list[str]:
    return [
        "## Theorem 3, computed",
        "The bound on the squared error of an arm's sum at label level, 2 ((k + 1) B/epsilon)^2 + (R B/N)^2, and that "
        "error itself, both as roots over n in outcome units, at N = 5 in the first order. The error is exact but for "
        "the noise's variance, which is known. R is what units serve beyond their cap when there is none; greedy "
        "matching with caps takes exactly R uses away from them (both are in "
        "[matching-bounds.csv](matching-bounds.csv)), so the theorem holds. *Noise alone* is what is left of the "
        "bound without its second term, which takes every replaced neighbour to differ by the whole range B.",
        markdown_table(_bounds(bounds)),
    ]


def _by_neighbours(
    path: Path,
    rows: Rows,
    alt: str,
    label: str,
    lines: Callable[[Axes, str, float], None],
    *,
    logarithmic: bool = False,
) -> None:
    if not rows:
        return
    found, ratios = data_sets(rows), _values(rows, "neighbours")
    with figure(path, alt=alt, down=len(ratios), across=len(found), sharex=True, sharey=True) as panels:
        for ratio, line in zip(ratios, panels, strict=True):
            for data, axes in zip(found, line, strict=True):
                lines(axes, data, ratio)
                axes.set_yscale("log")
                axes.yaxis.set_major_formatter("{x:g}")
                if logarithmic:
                    axes.set_xscale("log")
                if line is panels[0]:
                    axes.set_title(data)
                if line is panels[-1]:
                    axes.set_xlabel(label)
            line[0].set_ylabel(f"relative error, N = {ratio:g}")
        legend(panels)


def _coefficient_lines(rows: Rows, level: str, axes: Axes, data: str, ratio: float) -> None:
    for index, epsilon in enumerate(_values(rows, "epsilon")):
        some = _of(rows, level=level, data=data, neighbours=ratio, epsilon=epsilon)
        _plot(axes, some, "coefficient", f"epsilon {epsilon:g}", index)


def _cap_lines(rows: Rows, level: str, axes: Axes, data: str, ratio: float) -> None:
    for index, cap in enumerate(dict.fromkeys(row["cap"] for row in rows)):
        some = _of(rows, level=level, data=data, neighbours=ratio, cap=cap, mechanism="one draw")
        _plot(axes, some, "epsilon", f"cap {cap}", index)


def _plot(axes: Axes, rows: Rows, key: str, label: str, index: int) -> None:
    some = sorted(rows, key=lambda row: number(row[key]))
    x, y, error = ([number(row[name]) for row in some] for name in (key, "relative_error", "standard_error"))
    series(axes, x, y, label, index, error=error)


def _squares(axes: Axes, rows: Rows) -> None:
    """A square for every pair of shares, as dark as its error, with the error in it."""
    most = max(number(row["relative_error"]) for row in rows)
    for row in rows:
        x, y, error = (number(row[key]) for key in ("scores_share", "treatment_share", "relative_error"))
        dark = min(error / most, 1.0)
        axes.scatter([x], [y], s=210, marker="s", color=str(0.95 - 0.75 * dark))
        axes.text(x, y, f"{error:.2g}", ha="center", va="center", fontsize=5, color="white" if dark > 0.5 else "black")
    axes.set_xlim(0, 0.9)
    axes.set_ylim(0, 0.9)
    axes.grid(visible=False)


def _best_coefficients(rows: Rows) -> list[Row]:
    table: list[Row] = []
    for level in LEVELS:
        for data in data_sets(rows):
            line: Row = {"data": data, "coefficient": LETTER[level]}
            for epsilon in _values(rows, "epsilon"):
                some = _of(rows, level=level, data=data, neighbours=5, epsilon=epsilon)
                if not some:
                    continue
                best = min(some, key=lambda row: number(row["relative_error"]))
                usual = _of(some, coefficient=DEFAULT[level])[0]
                line[f"epsilon {epsilon:g}"] = (
                    f"{number(best['coefficient']):g}: {number(best['relative_error']):.2f}; "
                    f"the paper's {number(usual['relative_error']):.2f}"
                )
            if len(line) > 2:
                table.append(line)
    return table


def _best_caps(rows: Rows) -> list[Row]:
    table: list[Row] = []
    for level in LEVELS:
        for ratio in _values(rows, "neighbours"):
            wins: dict[Value, int] = dict.fromkeys((row["cap"] for row in rows), 0)
            for data in data_sets(rows):
                for epsilon in _values(rows, "epsilon"):
                    some = _of(rows, data=data, level=level, neighbours=ratio, epsilon=epsilon, mechanism="one draw")
                    wins[min(some, key=lambda row: number(row["relative_error"]))["cap"]] += 1
            table.append({"level": level, "N": ratio, **{f"cap {cap}": count for cap, count in wins.items()}})
    return table


def _best_allocations(rows: Rows) -> list[Row]:
    table: list[Row] = []
    for data in data_sets(rows):
        for epsilon in _values(rows, "epsilon"):
            some = _of(rows, data=data, epsilon=epsilon)
            best = min(some, key=lambda row: number(row["relative_error"]))
            usual = _of(some, scores_share=PAPER_SHARES[0], treatment_share=PAPER_SHARES[1])[0]
            shares = [number(best[f"{name}_share"]) for name in ("scores", "treatment", "outcome")]
            table.append(
                {
                    "data": data,
                    "epsilon": f"{epsilon:g}",
                    "best shares (scores, treatment, outcome)": ", ".join(f"{share:.1f}" for share in shares),
                    "its error": _with_error(best),
                    "error at .1, .7, .2": _with_error(usual),
                }
            )
    return table


def _bounds(rows: Rows) -> list[Row]:
    found: list[Row] = [
        {
            "data": row["data"],
            "arm": row["arm"],
            "epsilon": f"{number(row['epsilon']):g}",
            "cap": row["cap"],
            "R": row["replaced"],
            "root of bound / n": f"{number(row['root_of_bound']):.3g}",
            "root of error / n": f"{number(row['root_of_error']):.3g}",
            "noise alone / n": f"{number(row['noise_alone']):.3g}",
            "bound / error": f"{number(row['ratio']):.2f}",
        }
        for row in rows
        if number(row["epsilon"]) in (0.5, 1.0, 4.0)
    ]
    return found


def _with_error(row: Row) -> str:
    return f"{number(row['relative_error']):.2f} ± {number(row['standard_error']):.2f}"


def _values(rows: Rows, key: str) -> list[float]:
    return sorted({number(row[key]) for row in rows})


def _of(rows: Rows, **wanted: Value) -> list[Row]:
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def _alt_coefficients(rows: Rows, level: str) -> str:
    return (
        f"Relative error at {level} level against the error coefficient {LETTER[level]}, both on logarithmic scales, "
        f"columns {', '.join(data_sets(rows))}, rows N = 1, 3, 5 and 7, a line for each epsilon."
    )


def _alt_caps(rows: Rows, level: str) -> str:
    return (
        f"Relative error at {level} level against epsilon, on a logarithmic scale, columns "
        f"{', '.join(data_sets(rows))}, rows one for each N. Lines: the adaptive cap, and caps of 1, 10 and 50 times N."
    )


def _alt_allocations(rows: Rows) -> str:
    epsilons = ", ".join(f"{epsilon:g}" for epsilon in _values(rows, "epsilon"))
    return (
        f"Squares for shares of scores (across) and of treatment (up), darker where the relative error is larger; "
        f"columns {', '.join(data_sets(rows))}, rows epsilon {epsilons}."
    )
