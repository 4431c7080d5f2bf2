"""The page, the tables and the figures of `replicate direction`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from causalveil.tasks.report.figures import figure, legend, series
from causalveil_replication.figures import markdown_table, picture
from causalveil_replication.kusner2016.pairs import ORIENTATION_SEED, SOURCE
from causalveil_replication.kusner2016.runs import BANDWIDTH, DELTA, PENALTY, Row, less_often_right
from causalveil_replication.kusner2016.tables import (
    SCORES,
    VARIANTS,
    Results,
    best_rows,
    main_rows,
    null_rows,
    reference_rows,
    setting_rows,
    size_rows,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ACCURACY, SWEEP = "direction-accuracy.svg", "direction-penalty.svg"


def draw(out: Path, found: Results) -> None:
    """Both figures."""
    with figure(out / ACCURACY, alt=ACCURACY_ALT, down=2, across=4, sharex=True, sharey="row") as axes:
        for panels, rows, what in zip(axes, (found.accuracy, found.easy), ("all pairs", "its own pairs"), strict=True):
            for axis, score in zip(panels, SCORES, strict=True):
                _accuracy_panel(
                    axis, [row for row in rows if row["score"] == score and row.get("size", "all") == "all"]
                )
                axis.set_title(f"{score}, {what}")
        axes[1][0].set_ylabel("P(right)")
        axes[0][0].set_ylabel("P(right)")
        legend(axes)
    if not found.penalties:
        return
    epsilons = sorted({row["epsilon"] for row in found.penalties})
    with figure(out / SWEEP, alt=SWEEP_ALT, across=len(epsilons) + 1, sharey=True) as axes:
        for axis, epsilon in zip(axes[0], epsilons, strict=False):
            _penalty_panel(axis, [row for row in found.penalties if row["epsilon"] == epsilon])
            axis.set_title(f"epsilon {epsilon:g}")
        _best_panel(axes[0][-1], found.penalties)
        axes[0][0].set_ylabel("P(right)")
        legend(axes)


def _accuracy_panel(axis: Axes, rows: list[Row]) -> None:
    for index, (variant, label) in enumerate(VARIANTS.items()):
        chosen = [row for row in rows if row["variant"] == variant]
        series(axis, [row["epsilon"] for row in chosen], [row["accuracy"] for row in chosen], label, index)
    plain = [row["accuracy"] for row in rows if row["variant"] == "none"] or [1.0]
    axis.axhline(plain[0], color="#000000", linewidth=1, linestyle=":", label="without privacy")
    axis.axhline(0.5, color="#999999", linewidth=0.8)
    axis.set_xscale("log")
    axis.set_xlabel("epsilon")


def _penalty_panel(axis: Axes, rows: list[Row]) -> None:
    for index, (variant, label) in enumerate(VARIANTS.items()):
        chosen = [row for row in rows if row["variant"] == variant]
        series(axis, [row["penalty"] for row in chosen], [row["accuracy"] for row in chosen], label, index)
    plain = [row for row in rows if row["variant"] == "ours"]
    without = [row["without_privacy"] for row in plain]
    axis.plot([row["penalty"] for row in plain], without, color="#000000", linestyle=":", label="without privacy")
    axis.set_xscale("log")
    axis.set_xlabel("penalty")


def _best_panel(axis: Axes, rows: list[Row]) -> None:
    for index, (variant, label) in enumerate(VARIANTS.items()):
        best: dict[float, float] = {}
        for row in rows:
            if row["variant"] == variant:
                best[row["epsilon"]] = max(best.get(row["epsilon"], 0.0), row["accuracy"])
        series(axis, list(best), list(best.values()), label, index)
    axis.set_xscale("log")
    axis.set_xlabel("epsilon")
    axis.set_title("the best penalty")


def parts(found: Results) -> list[str]:
    """The page."""
    errors = {"theorem": ".4f", "measured": ".4f", "standard_error": ".4f", "errors_apart": "+.2f"}
    return [
        "# Which way does it run: private causal direction on pairs whose direction is known",
        MADE,
        *(_on_pairs(found) if found.pairs else [f"No pairs were given. Wanted is {SOURCE}."]),
        "## The theorems, measured",
        f"{found.draws:,} draws of the production mechanisms for each line. If a theorem holds, a line is more than 3 "
        "standard errors off once in 370 times.",
        markdown_table(found.theorems, errors),
        "## Neighbours: replaced, or added and removed",
        NEIGHBOURS,
        markdown_table(found.neighbours, {"m": "d"}),
        "## What the paper takes from elsewhere",
        RELEASES,
        markdown_table(found.releases, {"exact": ".4f", "measured": ".4f", "standard_error": ".4f"}),
        LOOKS,
        markdown_table(found.looks, {"looks": "d"}),
        *(_last(found) if found.pairs else []),
    ]


def _on_pairs(found: Results) -> list[str]:
    return [
        _data(found),
        _method(found),
        "## Without privacy, and at epsilon 0.1, 1 and 2",
        markdown_table(main_rows(found)),
        _reading(found),
        picture(ACCURACY, ACCURACY_ALT, ACCURACY_CAPTION),
        "## By the number of units",
        "Without privacy, and with this code at epsilon 1; half of the units are test units.",
        markdown_table(size_rows(found)),
        "## References without privacy",
        REFERENCES,
        markdown_table(reference_rows(found), {"pairs": "d"}),
        "## How often IQR has no answer",
        NULLS,
        markdown_table(null_rows(found), {"epsilon": "g", "delta": "g", "splits": ","}),
        "## Training-set privacy of HSIC",
        *(
            [picture(SWEEP, SWEEP_ALT, SWEEP_CAPTION), markdown_table(best_rows(found))]
            if found.penalties
            else [NO_SWEEP]
        ),
    ]


def _last(found: Results) -> list[str]:
    return [
        "## Other settings, without privacy",
        "Every pair as one, at most two splits. The tables above keep the setting that was fixed beforehand.",
        markdown_table(setting_rows(found)),
        "Tables: `direction-accuracy.csv`, `direction-pairs.csv`, `direction-penalty.csv`, `direction-settings.csv`, "
        "`direction-theorems.csv`, `direction-references.csv`, `direction-null.csv`, `direction-neighbours.csv`, "
        "`direction-releases.csv`, `direction-looks.csv`.",
    ]


MADE = (
    "Made by `uv run --package causalveil-replication replicate direction --out FOLDER --data FOLDER`, with seeded "
    "noise; nothing is a release. "
    "The experiments are those of Kusner, Sun, Sridharan and Weinberger (2016), whose own data, ten pairs of a "
    "competition, are not at hand."
)
NO_SWEEP = "No pair is large enough, or HSIC is right on none of them in every split."


def _data(found: Results) -> str:
    sources = round(sum(pair.weight for pair in found.pairs))
    return (
        f"**Data.** {len(found.pairs)} cause-effect pairs of Mooij et al. (2016): {SOURCE}. The file always stores the "
        f"cause first, so each pair is turned or left by a coin (seed {ORIENTATION_SEED}). It has no weights: pairs "
        f"that share a column are taken for one source, {sources} sources in all, and `by source` lets each have one "
        "vote. The pairs are public, so the range of each column stands for declared bounds. Every pair is used whole: "
        "regressions and HSIC take time linear in the number of units."
    )


def _method(found: Results) -> str:
    return (
        f"**Method.** {found.splits} splits of each pair into equal halves by keyed hashes; penalty {PENALTY:g}, "
        f"bandwidth {BANDWIDTH:g}, a study's defaults, fixed before anything was measured. One score at a time spends "
        f"all of epsilon (delta {DELTA} for IQR). *This code*: 6/(m + 1), 4/m, 3m/(2(m - 1)^2) and one draw on the "
        "difference of the two scores, one tested difference for IQR. "
        "*The paper's sensitivities*: 30/m, 4/m, (12m - 11)/(m - 1)^2 and a draw for each score, four tested ranges "
        "for IQR, at the same total epsilon under replace-one (the paper counts 2 epsilon for two scores, as we do, "
        "and 9 epsilon for four ranges, which is 12). P(right) is the theorems' at the exact scores; `drawn` is the "
        "share of right answers among draws that were made. No answer counts as a coin's toss."
    )


def _reading(found: Results) -> str:
    worse, compared, _ = less_often_right(found.tests)
    return (
        "Noise keeps the order of the exact scores less often with this code than with the paper's sensitivities in "
        f"{worse:,} of {compared:,} comparisons (pair, split, score, epsilon){_where(found)}. Noise brings accuracy "
        "nearer to a half: where a score is wrong more often than right without privacy, less noise shows that sooner."
    )


def _where(found: Results) -> str:
    worse, _, scores = less_often_right(found.tests)
    if not worse:
        return ""
    return (
        f", all of them {' and '.join(scores)}: in columns of few distinct values a range jumps, our narrower bins "
        "break and there is no answer, where the paper's bins of width 1 hold but leave little more than a coin's toss"
    )


REFERENCES = (
    "What the paper names beside its private scores. *Variance*: log variances in place of log quartile ranges; one "
    "unit can move them by any amount, so there is no private release of it. *HSIC p-value*: of the hypothesis that "
    "cause and residual are independent, by a gamma law, on at most 400 test units; the direction with the larger "
    "p-value is taken. (Section 3.3 says the lower one; that would choose the direction whose residual depends more.) "
    "*No split*: regressions and scores on all units, at more than half as many units per score, which no proof "
    "covers, since a unit would move both. *IGCI*: mean log slopes, for relations without noise."
)
NULLS = (
    "P(no answer) is exact: the distances of the tests are known here. The paper looked at delta from 1e-5 to 1e-2 on "
    "the data sets of its Figure 1 and saw no null in 10,000 draws, at an epsilon that it does not name. `never` is "
    "the share of splits of which that would be true; `null_where_right` averages over the pairs that IQR always gets "
    "right, as the paper chose them: by its bins it is next to nothing at epsilon 10 and not at 1. A larger delta "
    "lowers the threshold, and narrows our bins with it, so that ours need not fall."
)
NEIGHBOURS = (
    "The paper's definition allows a unit to be added, removed or replaced; its proofs replace one, as ours do. "
    "Farthest that one unit moves a score, searched: rank scores over all rankings of m units, HSIC over all data in "
    "two clusters a variable. One addition moves a rank score as far as one replacement does. A replacement is a "
    "removal and an addition, so epsilon under add-remove is up to 2 epsilon under replace-one: protection of a "
    "replaced person by an add-remove mechanism costs the last column, up to twice what our bound asks."
)
RELEASES = (
    "*Theorem 4(1)* bounds how often a quartile range is released although it may leave its bin: at most 3 delta/2 "
    "where the distance to leaving either bin, A_1 or A_2, is at most e. *Exact* is the mechanism's own probability, "
    "by the epsilon of one test. With both distances at most 1, which privacy needs, it is below delta. With one of "
    "them small and the other far, as *or* allows, a release is certain; with both 2, which is below e, the bound "
    "holds up to epsilon ln 1.5 = .41 alone."
)
LOOKS = (
    "*Corollary 3.21* of Dwork and Roth (2014) says how large the epsilon of each of k looks may be, for .99 in all "
    "with a slack of delta. *Sum*: .99/k, which needs no slack. *Exact*: the largest epsilon that there is. For the "
    "three looks of the paper, and the four that replacing a row takes, the corollary allows a sixth to a third of the "
    "sum; it is above the sum from 8 ln(1/slack) looks on. So no study uses it."
)
ACCURACY_ALT = (
    "Eight panels: P(right) against epsilon from 0.05 to 10 for Spearman, Kendall, HSIC and IQR, above over all pairs, "
    "below over the pairs where the score is right in every split without privacy. Below, this code's line lies above "
    "that of the paper's sensitivities everywhere."
)
ACCURACY_CAPTION = (
    "As the paper's Figure 1: the probability of the true direction at test-set privacy. Above: all pairs. Below: for "
    "each score the pairs that it gets right in every split without privacy, as the paper chooses them."
)
SWEEP_ALT = (
    "P(right) of HSIC against the penalty at training-set privacy, one panel an epsilon: a half where the penalty is "
    "small and the sensitivity large, then a hump, as too large a penalty makes the regressions poor; the hump grows "
    "with epsilon. On the right, P(right) at the best penalty against epsilon. The paper's Theorem 7 as printed stays "
    "at a half."
)
SWEEP_CAPTION = (
    "As the paper's Figure 2: HSIC at training-set privacy over penalties (at most 1, where the theorem ends), means "
    "over the pairs with 4,000 units or more that HSIC gets right in every split; on the right at the best penalty."
)
