"""The experiments of Lee, Gresele, Park and Muandet (2019), two papers, beside ours."""

from __future__ import annotations

from causalveil.flows.papers.items import Item, Paper

NOT_YET = "not made yet"

LEE_WEIGHTING = Paper(
    "Lee, Gresele, Park, Muandet (2019): Privacy-preserving causal inference via inverse probability weighting",
    "weighting.md",
    (
        Item("Figure 1: bias over m, n and epsilon", reason=NOT_YET),
        Item("Figure 2a: flips over epsilon, effect 0.1", reason=NOT_YET),
        Item("Figure 2b: flips over epsilon, effect 2", reason=NOT_YET),
        Item("Figure 2c: estimates over m, effect 0.1", reason=NOT_YET),
        Item("Figure 2d: estimates over m, effect 2", reason=NOT_YET),
        Item("Table 2: IHDP", reason=NOT_YET),
        Item("Table 3: LaLonde", reason=NOT_YET),
        Item("Lemma 3: expectation", reason=NOT_YET),
        Item("Lemma 6: bounded difference", reason=NOT_YET),
        Item("Theorems 4 and 5: probability of a flip", reason=NOT_YET),
        Item("Corollary 7: error", reason=NOT_YET),
    ),
)
LEE_SCORES = Paper(
    "Lee, Gresele, Park, Muandet (2019): Private causal inference using propensity scores",
    "weighting.md",
    (
        Item("Figure 1: bias over m, n and epsilon", reason=NOT_YET),
        Item("Figure 2a: flips over epsilon, effect 0.1", reason=NOT_YET),
        Item("Figure 2b: flips over epsilon, effect 2", reason=NOT_YET),
        Item("Figure 2c: estimates over m, effect 0.1", reason=NOT_YET),
        Item("Figure 2d: estimates over m, effect 2", reason=NOT_YET),
        Item("Table 1: IHDP and LaLonde", reason=NOT_YET),
        Item("Stratification and matching on private scores (named, not measured)", reason=NOT_YET),
    ),
)
