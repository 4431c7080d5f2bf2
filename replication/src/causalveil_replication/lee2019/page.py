"""The page and the figures of `replicate weighting`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from causalveil.tasks.report.figures import figure, legend, series
from causalveil_replication.figures import markdown_table, picture
from causalveil_replication.lee2019.data import DIGESTS, SOURCES
from causalveil_replication.lee2019.items import PRINTED_FLIPS, PRINTED_LINES
from causalveil_replication.lee2019.runs import EFFECTS, EPSILONS, LINE_EPSILONS
from causalveil_replication.lee2019.tables import AUTHORS, PARTLY, READ_OFF, STATED

if TYPE_CHECKING:
    from causalveil_replication.lee2019.command import WeightingResults

Rows = Sequence[dict[str, Any]]
BIAS, FLIPS, ESTIMATES = "weighting-bias.svg", "weighting-flips.svg", "weighting-estimates.svg"
PAPERS = {50: "first paper, d = 50, n = 1,000", 25: "second paper, d = 25, n = 200"}


def _some(rows: Rows, **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def draw(out: Path, found: WeightingResults) -> None:
    """Every figure."""
    sizes = sorted({row["n"] for row in found.bias})
    epsilons = sorted({row["epsilon"] for row in found.bias})
    with figure(out / BIAS, alt=BIAS_ALT, across=len(sizes), sharey=True) as panels:
        for axes, size in zip(panels[0], sizes, strict=True):
            for index, epsilon in enumerate(epsilons):
                rows = _some(found.bias, n=size, epsilon=epsilon)
                # Beyond 10^6 nothing is to be seen but that it is useless.
                heights = [min(row["log10_bias"], 6.0) for row in rows]
                series(axes, [row["m"] for row in rows], heights, f"epsilon {epsilon:g}", index)
            axes.set(xscale="log", xlabel="m", title=f"n = {size:,}")
        panels[0][0].set_ylabel("log10 |g|")
        legend(panels)
    with figure(out / FLIPS, alt=FLIPS_ALT, down=2, across=2, sharex=True, sharey=True) as panels:
        for line, (dimension, title) in zip(panels, PAPERS.items(), strict=True):
            for axes, effect in zip(line, EFFECTS, strict=True):
                rows = _some(found.flips, dimension=dimension, effect=effect, event="partly private")
                x, y = [row["epsilon"] for row in rows], [row["mean"] for row in rows]
                series(axes, x, y, "ours, mean over coefficients", 0)
                axes.fill_between(x, [r["least"] for r in rows], [r["largest"] for r in rows], alpha=0.15, linewidth=0)
                series(axes, x, PRINTED_FLIPS[dimension, effect], "printed, one draw of coefficients", 1)
                axes.set(xscale="log", xlabel="epsilon", title=f"{title.split(',')[0]}, effect {effect:g}")
        for line in panels:
            line[0].set_ylabel("P(sign flips)")
        legend(panels)
    names = ("true scores", "without noise", *(f"epsilon {epsilon}" for epsilon in LINE_EPSILONS))
    with figure(out / ESTIMATES, alt=ESTIMATES_ALT, down=2, across=2, sharex=True) as panels:
        for line, dimension in zip(panels, PAPERS, strict=True):
            for axes, effect in zip(line, EFFECTS, strict=True):
                for index, name in enumerate(names):
                    rows = _some(found.estimates, dimension=dimension, effect=effect, line=name)
                    series(axes, [row["m"] for row in rows], [row["mean"] for row in rows], name, index)
                axes.set(xlabel="m", title=f"d = {dimension}, effect {effect:g}")
            line[0].set_ylabel("mean estimate")
        legend(panels)


def parts(found: WeightingResults) -> list[str]:
    """The page."""
    return [
        "# Private weighting and private propensity scores",
        "Made by `uv run --package causalveil-replication replicate weighting --out docs/figures --data FOLDER`, "
        "after two papers of S. K. Lee, "
        "L. Gresele, M. Park and K. Muandet (2019): *Privacy-Preserving Causal Inference via Inverse Probability "
        "Weighting* (the first here) and *Private Causal Inference using Propensity Scores* (the second). Noise is "
        "seeded and nothing is a release. Errors are Monte-Carlo standard errors.",
        *found.missing,
        RESTS,
        *_tables(found),
        "## Figures 1: the bias g of Lemma 3",
        picture(BIAS, BIAS_ALT, BIAS_CAPTION),
        "## Figures 2a and 2b: how often noise turns the sign",
        picture(FLIPS, FLIPS_ALT, FLIPS_CAPTION),
        markdown_table(_flip_table(found.flips), {"effect": "g", "epsilon": "g"}),
        "## Figures 2c and 2d: estimates over the training units",
        picture(ESTIMATES, ESTIMATES_ALT, ESTIMATES_CAPTION),
        markdown_table(_line_table(found.estimates), {"effect": "g"}),
        "## What they prove, computed",
        BOUNDS,
        markdown_table(found.bounds, {"epsilon": "g", "draws": ","}),
        "## Data",
        *(
            f"- `{name}`: {source}. SHA-256 of its numbers, row by row as little-endian doubles: `{DIGESTS[name]}`."
            for name, source in SOURCES.items()
        ),
        "Tables: " + ", ".join(f"`{name}.csv`" for name, rows in found.files().items() if rows) + ".",
    ]


def _tables(found: WeightingResults) -> list[str]:
    if not found.tables:
        return []
    rows = []
    for data in dict.fromkeys(row["data"] for row in found.tables):
        of_data = _some(found.tables, data=data)
        for estimate in dict.fromkeys(row["estimate"] for row in of_data):
            some = _some(of_data, estimate=estimate)
            shown = {"data": data, "estimate": estimate, "runs": f"{some[0]['runs']:,}"}
            flips = dict(zip(EPSILONS, some, strict=False)) if len(some) > 1 else {}
            shown["mean at .99"] = f"{some[-1]['mean']:.2f} ± {some[-1]['mean_error']:.2f}"
            rows.append(shown | {f"flips at {e}": f"{flips[e]['flips']:.3f}" if flips else "-" for e in EPSILONS})
    return [
        "## The tables: LaLonde and IHDP",
        TABLES,
        markdown_table(rows),
        OTHERS,
        *([_norms(found.norms)] if found.norms else []),
        *([INFANTS, markdown_table(found.penalties)] if found.penalties else []),
        *([LEVELS, markdown_table(found.levels, {"runs": ","})] if found.levels else []),
    ]


def _norms(norms: list[str]) -> str:
    return (
        f"IHDP as the papers use it: {norms[0]} of the rows of {norms[3]} realisations lie outside the unit ball "
        f"(norms {norms[1]} to {norms[2]}), where 2/(m lambda) is no sensitivity of the fitted model. Those rows keep "
        "no stated guarantee; the rows *within the unit ball* do."
    )


def _flip_table(flips: Rows) -> list[dict[str, Any]]:
    """Ours beside the printed, one row a bar."""
    rows = []
    for dimension in PAPERS:
        for effect in EFFECTS:
            for event in ("partly private", "both"):
                printed = PRINTED_FLIPS.get(
                    (dimension, effect) if event == "partly private" else (dimension, effect, 2)
                )
                some = _some(flips, dimension=dimension, effect=effect, event=event)
                for index, row in enumerate(some):
                    rows.append(
                        {
                            "d": dimension,
                            "effect": effect,
                            "event": event,
                            "epsilon": row["epsilon"],
                            "printed": None if printed is None else printed[index],
                            "ours": row["mean"],
                            "least": row["least"],
                            "largest": row["largest"],
                        }
                    )
    return rows


def _line_table(estimates: Rows) -> list[dict[str, Any]]:
    rows = []
    for row in estimates:
        if row["m"] not in (500, 2500):
            continue
        lines = PRINTED_LINES[row["dimension"], row["effect"]]
        printed = lines[row["line"]][0 if row["m"] == 500 else -1]
        kept = {name: row[name] for name in ("effect", "m", "line")}
        rows.append(
            {"d": row["dimension"], **kept, "printed": printed, "ours": row["mean"], "least": row["least"]}
            | {"largest": row["largest"]}
        )
    return rows


RESTS = (
    "**What the fully private rows rest on.** The first paper's guarantee for the estimation units is Gaussian noise "
    "of deviation sqrt(2 ln(1.25/delta)) S/epsilon, S from declared bounds. The authors' notebook takes S from the "
    "rows that it should protect, which is no sensitivity, and hands that deviation to a function that expects a "
    "variance, so that its square root is the deviation of the noise. The printed rows are those of that code: on "
    f"LaLonde ours (*{AUTHORS}*) agree with them. With the deviation as stated and the same S (*{READ_OFF}*), and all "
    f"the more with declared bounds (*{STATED}*), LaLonde's sign is close to a coin's toss at every epsilon below 1. "
    "So the printed fully private rows of Tables 2 and 3 rest on no guarantee for the estimation units at any epsilon, "
    "and what they seem to show, that this protection costs next to nothing, is the effect of noise that is a "
    "hundred times too small, and more."
)
TABLES = (
    "Share of runs in which the sign is not that of the same estimate without noise, and the mean at epsilon .99. "
    f"*{PARTLY}*: noise on the model only, as in both papers. delta 1e-6, penalty 0.1, m = 500. Declared bounds: "
    "earnings within 61,000, IHDP's outcomes within 20, scores cut off at .1 and .9."
)
OTHERS = (
    "The papers name stratification and matching as other uses of a private score and measure neither. *Stratified*: "
    "five quantile strata; *matched*: the nearest unit of the other arm, with replacement. Both only read the order of "
    "scores or their distances, so no weight can explode; they are compared with themselves without noise. "
    "Matching on LaLonde turns its sign often at any epsilon: treatment was randomised there, fitted scores differ "
    "little, and so noise decides who is paired with whom."
)
INFANTS = (
    "The papers average over 1,000 published realisations of IHDP's outcomes, of which five are at hand. *A "
    "realisation a run* makes one in every run by the recipe of the published ones (Hill's second surface, package "
    "npci, setting A, which the five files fit to 1e-6): their outcomes differ a lot more than "
    "those of the five, and flips are then those that the papers print. The mean without noise is not theirs, and it "
    "hangs on how the scores were fitted: by the penalty, on the same realisations,"
)
LEVELS = (
    "**Separate levels.** The first paper lets scores and effect have levels of their own. On LaLonde, with the stated "
    "deviation and declared bounds: flips and the median distance from the clipped estimate without noise. The two "
    "halves share no unit, so the whole costs the larger of the two, `whole_epsilon`: at a given cost two equal levels "
    "are never the worse choice, and a study has one."
)
BOUNDS = (
    "One synthetic sample (d = 5, m = 1,000, n = 200, effect 2). *Printed*: the statement as the first paper prints "
    "it; *holds*: what can be proved (`replication/src/causalveil_replication/lee2019/formulas.py` has the "
    "arguments); *measured* on seeded "
    "draws. Lemma 3 of the first paper has a sign too many in the exponent (the second paper has it right): the "
    "printed expectation is off by many errors. Lemma 6 and Theorem 4 hold, for other reasons than those given, and "
    "can be sharper. Corollary 7 as printed is no bound: with one treated and one control unit of the same weight it "
    "is 0 and the estimate still moves; Markov's inequality needs the mean of the absolute distance."
)
BIAS_ALT = (
    "log10 of the bias against the number of training units, one panel each for n of 10, 100 and 1,000, lines for "
    "epsilon .01, .1, 1 and 10: straight lines that fall with a slope of minus two, cut off at 6 where the bias "
    "explodes."
)
BIAS_CAPTION = (
    "As Figure 1 of both papers: d 5, penalty 1, delta 1e-5, effect 3, means over 30 repeats. The bias falls like "
    "1/(epsilon m)^2 where it is small and explodes where epsilon m is below about 10."
)
FLIPS_ALT = (
    "Four panels: share of flipped signs against epsilon from .01 to .99, by paper and effect; ours as a mean over "
    "coefficient vectors with the range over vectors as a band, the printed bars as a line."
)
FLIPS_CAPTION = (
    "The papers draw coefficients once, so their bars have no error that can be read off one draw; the band is the "
    "range over our coefficient vectors. *Both* in the table is the joint event that both private estimates flip, "
    "which is what the first paper's second bar counts."
)
ESTIMATES_ALT = (
    "Four panels: mean estimates against m from 500 to 2,500, by paper and effect: with the true scores, with fitted "
    "scores, and with noise at epsilon .1, .3 and .5, which falls to the line without noise as m grows."
)
ESTIMATES_CAPTION = (
    "Means over coefficient vectors and trials. The papers do not name the epsilons of their lines; growth at m = 500 "
    "fits .1, .3 and .5. The penalised scores are flatter than the true ones, hence the gap between the lowest lines."
)
