"""The experiments of Yuan et al. (2026), private matching, beside ours."""

from __future__ import annotations

from causalveil.flows.papers.items import Item, Paper

COMMAND = "causalveil replicate matching --out docs/figures --data FOLDER"
NOT_YET = "not made yet"
DATA = ("data", ("IHDP", "LaLonde", "ACIC", "Synth"))


def _errors(name: str, **where: str) -> Item:
    """Relative errors on the four data sets, one number each; the figure prints none."""
    return Item(
        name,
        COMMAND,
        "matching-errors.csv",
        {"mechanism": "one draw", "neighbours": "5", "cap": "adaptive", **where},
        DATA,
        "relative_error",
        "standard_error",
        reason="no numbers printed",
    )


YUAN = Paper(
    "Yuan et al. (2026): private matching",
    "matching.md",
    (
        Item("Table II: the data sets", COMMAND, proved="the same four sets: 747, 445, 4,802 and 1,000 units"),
        _errors("Figure 2, ours at label level, epsilon 1", level="label", epsilon="1"),
        _errors("Figure 2, ours at sample level, epsilon 1", level="sample", epsilon="1"),
        Item("Figure 2: competitors IPW-PP, SmoothDPM, DPCI, PrivSyn, AIM", reason=NOT_YET),
        _errors("Figure 3: cap 1 at label level, epsilon 1", level="label", epsilon="1", cap="1"),
        Item("Figure 4: the error coefficient c", reason=NOT_YET),
        _errors("Figure 5: cap 1 at sample level, epsilon 1", level="sample", epsilon="1", cap="1"),
        Item("Figure 6: the error coefficient h", reason=NOT_YET),
        _errors("Figure 7: N = 1, label level, epsilon 1", level="label", epsilon="1", neighbours="1"),
        _errors(
            "Figure 8: cap 1 at N = 1, label level, epsilon 1",
            level="label",
            epsilon="1",
            neighbours="1",
            cap="1",
        ),
        Item("Figure 9: c at N = 1, 3, 7", reason=NOT_YET),
        _errors(
            "Figure 10: cap 1 at N = 1, sample level, epsilon 1",
            level="sample",
            epsilon="1",
            neighbours="1",
            cap="1",
        ),
        Item("Figure 11: h at N = 1, 3, 7", reason=NOT_YET),
        Item("Figure 12: allocation of the budget", reason=NOT_YET),
        Item("Table III: complexity of ours", proved="`docs/proofs/matching.md`; times are Table IV's"),
        Item("Table IV: seconds", reason=NOT_YET),
        Item("Table V: megabytes", reason=NOT_YET),
        Item("Theorem 3: bound on the error", reason=NOT_YET),
    ),
)
