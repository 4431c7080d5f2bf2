"""P(noise keeps the order of the scores): the theorems against 10,000 draws of the production mechanisms.

One margin of one noise scale for each of: one draw on the difference, one for each score (Theorem 2), one for each
quartile range (Theorem 4). Three comparisons at 4 standard errors: a false alarm in 5,000 runs. A scale wrong by 30%
moves the probabilities by 8 to 20 standard errors.
"""

from __future__ import annotations

import pytest

from causalveil.tasks.estimate.papers.direction import scores
from causalveil_replication.kusner2016.runs import THEOREMS, rehearse_theorems

DRAWS = 10_000
FORMULAS = dict(
    zip(
        THEOREMS,
        (scores.order_kept_one_draw, scores.order_kept_two_draws, scores.order_kept_four_draws),
        strict=True,
    )
)


def check(ratios: tuple[float, ...], errors: float) -> None:
    rows = rehearse_theorems(ratios, DRAWS, seed=1)
    assert len(rows) == len(THEOREMS) * len(ratios)
    for row in rows:
        formula, ratio = FORMULAS[row["draws"]], row["margin_over_scale"]
        print(f"{row['draws']}, {ratio}: theorem {row['theorem']:.4f}, measured {row['measured']:.4f}")
        assert row["theorem"] == pytest.approx(formula(ratio, 1.0))
        assert abs(row["measured"] - row["theorem"]) <= errors * row["standard_error"]
        if ratio == 1:
            for wrong in (0.7, 1.3):
                assert abs(row["measured"] - formula(ratio, wrong)) > errors * row["standard_error"]


def test_theorems_are_measured() -> None:
    check((1.0,), 4)


@pytest.mark.long
def test_theorems_are_measured_at_many_margins() -> None:
    check((0.25, 0.5, 1.0, 2.0, 4.0), 4.5)


def test_theorems_at_their_ends() -> None:
    """No margin is a coin's toss, an endless one is certain, and fewer draws are never worse."""
    for formula in FORMULAS.values():
        assert formula(0.0, 2.0) == pytest.approx(0.5)
        assert formula(1000.0, 1.0) == pytest.approx(1)
    for margin in (0.1, 1.0, 3.0, 10.0):
        one, two, four = (formula(margin, 1.0) for formula in FORMULAS.values())
        assert one > two > four > 0.5
