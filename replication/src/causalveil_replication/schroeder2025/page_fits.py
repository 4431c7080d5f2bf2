"""The page and the figures of what `replicate intervals` fits once and "
"reads at every level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from causalveil.tasks.report.figures import figure, legend, series
from causalveil_replication.figures import markdown_table, picture

Tables = Mapping[str, Sequence[dict[str, Any]]]
WIDTHS, UTILITY = "interval-widths.svg", "interval-utility.svg"


def draw_fits(out: Path, tables: Tables) -> list[str]:
    """Draw both figures into ``out``; Markdown of each."""
    rows = tables["interval-widths"]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    with figure(out / WIDTHS, alt=WIDTHS_ALT, across=2, sharey=True) as axes:
        for index, method in enumerate(methods):
            mine = [row for row in rows if row["method"] == method]
            over = [row for row in mine if row["units"] == 3_000]
            series(axes[0][0], [row["epsilon"] for row in over], [row["half_width"] for row in over], method, index)
            sizes = sorted((row for row in mine if row["epsilon"] == 0.5), key=lambda row: row["units"])
            series(axes[0][1], [row["units"] for row in sizes], [row["half_width"] for row in sizes], method, index)
        axes[0][0].set(xscale="log", yscale="log", xlabel="epsilon", ylabel="half-width at 95%", title="n = 3,000")
        axes[0][1].set(yscale="log", xlabel="n", title="epsilon 0.5")
        legend(axes)
    rows = tables["interval-utility"]
    weights = sorted({row["weight"] for row in rows})
    with figure(out / UTILITY, alt=UTILITY_ALT, across=len(weights), sharey=True) as axes:
        for weight, axis in zip(weights, axes[0], strict=True):
            for index, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
                mine = [row for row in rows if row["weight"] == weight and row["method"] == method]
                series(axis, [row["epsilon"] for row in mine], [row["utility"] for row in mine], method, index)
            axis.set(xscale="log", xlabel="epsilon", title=f"weight of privacy {weight:g}")
        axes[0][0].set_ylabel("utility")
        legend(axes)
    return [picture(WIDTHS, WIDTHS_ALT, WIDTHS_CAPTION), picture(UTILITY, UTILITY_ALT, UTILITY_CAPTION)]


def page_fits(tables: Tables, pictures: Sequence[str]) -> list[str]:
    """The page."""
    patients = tables["interval-rhc-levels"]
    form = {"level": ".2f", "epsilon": "g", "fits": "d", "runs": "d", "units": ",", "weight": "g"}
    return [
        "# Private intervals: the other columns, levels and figures",
        MADE,
        "## Table 1: standard and naive intervals",
        COLUMNS,
        markdown_table(tables["interval-columns"], form | {"coverage": ".3f", "error": ".4f"}),
        "### The network by its step",
        STEPS,
        markdown_table(tables["interval-network"], form | {"coverage": ".3f", "step": "g"}),
        "### What another variance could change",
        VARIANCES,
        markdown_table(tables["interval-variance"], form | {"narrower_at_most": ".1%"}),
        "## Figure 4: width over epsilon and n",
        pictures[0],
        markdown_table(tables["interval-widths"], form),
        *(
            ["## Table 2: right heart catheterisation at 80, 90 and 95%", PATIENTS, markdown_table(patients, form)]
            if patients
            else []
        ),
        "## Figure 5: utility",
        UTILITIES,
        pictures[1],
        "## Table 3: a difference of means by disjoint groups",
        GROUPED,
        markdown_table(tables["interval-grouped"], form | {"coverage": ".3f"}),
    ]


MADE = (
    "Made by `uv run --package causalveil-replication replicate intervals --part fits --out docs/figures --data "
    "FOLDER`, after Schröder, "
    "Hartenstein and Feuerriegel (2025). Each table is read off the same fits: tau, sigma, and the largest influence "
    "gamma of the declared domain. Epsilon 0.5, delta 1e-5, nine tenths of both for the effect, unless a table says "
    "otherwise."
)
COLUMNS = (
    "*Standard*: no privacy. *Naive*: the private estimate with the interval of the standard one. The effect's noise "
    "is integrated out, so the error of the naive rows is that between fits. *Half of epsilon*: the effect has half of "
    "epsilon and delta, the default that the paper's appendix names; on Dataset 1 the printed naive coverage asks for "
    "noise about twice ours, which that share gives, on Dataset 2 for ours."
)
STEPS = (
    "The paper gives its network's layer, penalty and descent, not the step. Production has scikit-learn's, .001, with "
    "which descent stops before 24 covariates are learned, and the estimate without noise is off by about two of its "
    "standard errors; ten times that step learns them, and the interval covers as the paper prints. Everything else is "
    "the same, data and seeds too. In the private interval this bias is lost: its noise is fifty times as large."
)
VARIANCES = (
    "Of the paper's second version (arXiv 2505.21641v2) this project has the abstract alone. Its first and third step "
    "are the first version's (an effect with noise on it; an interval that accounts for it), its second reads "
    "*estimating the differentially private variance in a doubly robust manner* where the first version's reads "
    "*through a truncated output perturbation mechanism*. The first version's variance is doubly robust before its "
    "noise, too (appendix A.4), so what is not known is the formula and the mechanism of the second's. What they can "
    "change is known, as long as the effect's release is the paper's: its noise is nearly all of the width at 95%. "
    "*Exact variance*: the same budget for the effect, and a variance that no noise was added to. *Variance of zero*: "
    "all of the budget for the effect, and nothing for the variance, not even the sampling error; equation 16 gives no "
    "interval that is narrower."
)
PATIENTS = (
    "*Valid naive*: the paper's name for the interval with the noise of the effect, but with a variance without noise. "
    "Over the *declared domain* gamma is about twice what any of the patients attains; *gamma over the patients* is "
    "what the paper's widths correspond to, and it is no bound for other people. The non-private estimate that the "
    "paper prints, 1.17, is impossible for a difference of probabilities; ours stands in the last column."
)
UTILITIES = (
    "The paper calls utility a weighted sum of privacy and width, and compares with a bootstrap; it defines neither. "
    "Here: w (1 - epsilon/2) + (1 - w)(1 - min(1, h/2.5)), h the half-width at 95% and 2.5 half the outcome's range; "
    "the bootstrap makes 20 private estimates at a twentieth of the budget each, and a naive interval keeps no privacy."
)
GROUPED = (
    "After Guha and Reiter (2025), with 25 disjoint groups, half of epsilon for the mean of their differences and half "
    "for that of their variances, Laplace noise, no delta. Coverage is nominal or above, and as the paper says of it "
    "the interval is much wider than the others; our own difference in means on [intervals.md](intervals.md) is not."
)
WIDTHS_ALT = (
    "Half-width of 95% intervals on Dataset 1, logarithmic, against epsilon at n = 3,000 and against n at epsilon "
    "0.5: the asymptotic methods fall like one over epsilon and stay far above the standard interval, the "
    "finite-sample one lies between."
)
WIDTHS_CAPTION = "As Figure 4 of the paper: Dataset 1, means over ten runs."
UTILITY_ALT = (
    "Utility against epsilon for three weights of privacy: private intervals, a bootstrap of private estimates, and "
    "naive intervals without privacy."
)
UTILITY_CAPTION = "As Figure 5 of the paper, with the utility of this page."
