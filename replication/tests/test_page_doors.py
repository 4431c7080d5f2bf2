"""Which of the competitors' wins on the matching page deserve a door: computed, each ground by itself."""

from __future__ import annotations

import pytest

from causalveil_replication.competitors.ours import UNADJUSTED
from causalveil_replication.yuan2026.page_doors import BEHIND_EFFECT, LEFT, NO_ADJUSTMENT, WITHIN, parts, verdict
from causalveil_replication.yuan2026.page_rivals import Row, ranked


def row(name: str, error: float, *, ours: int = 0, spread: float = 0.001, effect: float | None = None) -> Row:
    return {
        "data": "Synth",
        "level": "label",
        "epsilon": 1.0,
        "competitor": name,
        "title": name,
        "ours": ours,
        "relative_error": error,
        "standard_error": spread,
        "error_of_effect": effect,
        "standard_error_of_effect": spread,
    }


@pytest.mark.parametrize(
    ("winner", "ours", "unadjusted", "what"),
    [
        (row("a", 0.1), row("b", 0.2, ours=1, spread=0.06), None, WITHIN),
        (row("a", 0.1), row("b", 0.2, ours=1), row(UNADJUSTED, 0.09, ours=1), NO_ADJUSTMENT),
        (row("a", 0.1, effect=0.5), row("b", 0.2, ours=1, effect=0.3), row(UNADJUSTED, 0.3, ours=1), BEHIND_EFFECT),
        (row("a", 0.1, effect=0.2), row("b", 0.2, ours=1, effect=0.3), row(UNADJUSTED, 0.3, ours=1), LEFT),
        (row("a", 0.1), row("b", 0.2, ours=1), None, LEFT),
    ],
)
def test_a_win_falls_by_the_first_ground_that_holds(winner: Row, ours: Row, unadjusted: Row | None, what: str) -> None:
    assert verdict([winner, ours], unadjusted) == what


def test_the_page_says_how_many_wins_are_left() -> None:
    rows = [row("exact_matching_label", 0.1), row("matching_label", 0.2, ours=1)]
    assert "Of the 1 cells that competitors win 1 are left" in "\n".join(parts(rows))
    assert "none is left" in "\n".join(parts([*rows, row(UNADJUSTED, 0.05, ours=1)]))
    assert "**No competitor wins a cell.**" in parts([row("matching_label", 0.2, ours=1)])
    assert parts([]) == []


def test_who_adjusts_for_nothing_wins_no_cell() -> None:
    rows = [row(UNADJUSTED, 0.05, ours=1), row("matching_label", 0.2, ours=1)]
    assert [one["competitor"] for one in ranked(rows, level="label")] == ["matching_label"]
