"""Figures of the accuracy study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from causalveil.tasks.report.plots import figure, legend, series
from causalveil_replication.accuracy.methods import EPSILONS, METHODS, UNITS
from causalveil_replication.accuracy.verdicts import LEAST, PLAN, known, ratio
from causalveil_replication.figures import picture

Row = dict[str, Any]
# Populations of the first figure: one of each kind.
SHOWN = ("normals2", "toeplitz18", "flags15", "mixed14", "binary11", "heavy24", "rare10", "curved8", "clinics2")
METHODS_SHOWN = ("regression", "balancing", "matching-label", "difference", "ipw-label")
SIZE = 3_000


def draw(out: Path, rows: Sequence[Row], titles: dict[str, str]) -> list[str]:
    """Write the figures into ``out``; their Markdown."""
    return [_errors(out, rows, titles), _coverage(out, rows, titles), _plan(out, rows)]


def _present(rows: Sequence[Row]) -> list[str]:
    """Methods that are drawn, of those that were computed; at least one."""
    return [method for method in METHODS_SHOWN if any(row["method"] == method for row in rows)] or [METHODS_SHOWN[0]]


def _errors(out: Path, rows: Sequence[Row], titles: dict[str, str]) -> str:
    name = "accuracy-errors.svg"
    alt = (
        "Root mean square error against epsilon on nine populations of one size, one line an estimator: regression "
        "and balancing fall with epsilon, others stay where confounding holds them."
    )
    size = SIZE if any(row["units"] == SIZE for row in rows) else min((row["units"] for row in rows), default=SIZE)
    # At least one panel, which has the legend's entries.
    shown = [one for one in SHOWN if any(row["population"] == one and row["units"] == size for row in rows)] or SHOWN[
        :1
    ]
    with figure(out / name, alt=alt, down=max(1, math.ceil(len(shown) / 3)), across=3, sharex=True) as axes:
        panels = [panel for line in axes for panel in line]
        for panel, population in zip(panels, shown, strict=False):
            some = [row for row in rows if row["population"] == population and row["units"] == size and row["runs"]]
            for place, method in enumerate(_present(rows)):
                own = [row for row in some if row["method"] == method]
                label = f"{METHODS[method].title} ({METHODS[method].level})"
                series(panel, [row["epsilon"] for row in own], [row["error"] for row in own], label, place)
            plain = [row["error"] for row in some if row["method"] == "least-squares"]
            if plain:
                panel.axhline(plain[0], color="black", linewidth=1, linestyle=":")
            panel.set(xscale="log", yscale="log", title=titles[population])
            panel.set_xticks([float(one) for one in EPSILONS], EPSILONS)
        for panel in panels[len(shown) :]:
            panel.axis("off")
        for panel in axes[-1]:
            panel.set_xlabel("epsilon")
        for line in axes:
            line[0].set_ylabel("error")
        legend(axes)
    return picture(name, alt, f"Error at n = {size:,.0f}; dotted: least squares without privacy.")


def _coverage(out: Path, rows: Sequence[Row], titles: dict[str, str]) -> str:
    name = "accuracy-coverage.svg"
    alt = (
        "Coverage of the 95 % interval of regression and of balancing, a square for each population, size and epsilon; "
        "red squares are below 93 %."
    )
    methods = ("regression", "balancing")
    populations = list(dict.fromkeys(row["population"] for row in rows if row["units"] in UNITS and known(row)))
    sizes = [units for units in UNITS if any(row["units"] == units and row["method"] in methods for row in rows)]
    places = [(units, float(epsilon)) for units in sizes for epsilon in EPSILONS]
    down = max(1, round(len(populations) / 12))
    with figure(out / name, alt=alt, down=down, across=2, sharey=True) as axes:
        import matplotlib as mpl

        colours = mpl.colors.ListedColormap(["#b2182b", "#ef8a62", "#fddbc7", "#d1e5f0", "#67a9cf"])
        bounds = mpl.colors.BoundaryNorm([0, 0.5, 0.8, LEAST - 0.05, LEAST, 1.001], 5)
        # One tall panel a method: the rows of panels are merged.
        grid: Any = axes[0][0].get_gridspec()
        drawing: Any = axes[0][0].figure
        for line in axes:
            for panel in line:
                panel.remove()
        image = None
        for column, method in enumerate(methods):
            table = np.full((len(populations), len(places)), np.nan)
            for row in rows:
                if row["method"] == method and known(row) and (row["units"], row["epsilon"]) in places:
                    table[populations.index(row["population"]), places.index((row["units"], row["epsilon"]))] = row[
                        "coverage_95"
                    ]
            panel = drawing.add_subplot(grid[:, column])
            image = panel.imshow(table, aspect="auto", cmap=colours, norm=bounds)
            panel.set(title=f"{METHODS[method].title} ({METHODS[method].level})")
            panel.set_yticks(
                range(len(populations)),
                [titles[one] for one in populations] if column == 0 else [""] * len(populations),
            )
            middles = [len(EPSILONS) * place + (len(EPSILONS) - 1) / 2 for place in range(len(sizes))]
            panel.set_xticks(middles, [f"{units / 1000:g}k" for units in sizes])
            panel.set_xlabel("n; in each, epsilon .1 to 8")
            for place in range(1, len(sizes)):
                panel.axvline(len(EPSILONS) * place - 0.5, color="black", linewidth=1)
            panel.grid(False)
        if image is not None:
            bar = drawing.colorbar(image, ax=drawing.axes, shrink=0.6)
            bar.set_label("coverage at 95 %")
    return picture(name, alt, "Coverage of the 95 % interval; white: not computed or refused.")


def _plan(out: Path, rows: Sequence[Row]) -> str:
    name = "accuracy-plan.svg"
    alt = (
        "Expected half-width of `plan` over the mean measured one against the measured one, a dot a cell, a panel an "
        "estimator; a grey band marks 15 % either side."
    )
    shown = _present(rows)
    with figure(out / name, alt=alt, down=math.ceil(len(shown) / 3), across=3, sharey=True) as axes:
        panels = [panel for line in axes for panel in line]
        for panel in panels[len(shown) :]:
            panel.axis("off")
        for panel, method in zip(panels, shown, strict=False):
            some = [row for row in rows if row["method"] == method and row["runs"] and not math.isnan(ratio(row))]
            panel.axhspan(1 - PLAN, 1 + PLAN, color="#cccccc")
            panel.scatter([row["half_width"] for row in some], [ratio(row) for row in some], s=7, color="#0072B2")
            panel.set(xscale="log", yscale="log", ylim=(0.1, 10), xlabel="measured half-width")
            panel.set_title(f"{METHODS[method].title} ({METHODS[method].level})")
        for line in axes:
            line[0].set_ylabel("plan / measured")
    return picture(name, alt, f"`plan` beside what was measured; the band is {PLAN:.0%} either side.")
