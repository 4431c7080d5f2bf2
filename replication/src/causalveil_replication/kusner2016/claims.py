"""Two statements that the paper takes from elsewhere: its Theorem 4(1), and Corollary 3.21 of Dwork and Roth (2014).

Theorem 4(1) is of propose-test-release: with tests of scale 1/epsilon, threshold 1 + ln(1/delta)/epsilon and distances
A_1 and A_2 to leaving either bin, P(release) = 1 - (1 - p_1) (1 - p_2), p_j = (delta/2) exp(epsilon (A_j - 1)) up to
the threshold. It prints at most 3 delta/2 "given A_1 or A_2 <= e". For both at most 1, which is what privacy needs, it
is below delta. Where one distance alone is small the other test passes: the bound does not hold for "or". For distances
up to 2 < e it holds while epsilon < ln 1.5.

Corollary 3.21: k looks of epsilon each are (epsilon', k delta + delta')-DP for epsilon = epsilon'/(2 sqrt(2 k
ln(1/delta'))), epsilon' < 1. It gives more than the plain sum, epsilon'/k, from k > 8 ln(1/delta') on. For the paper's
three looks and our four it gives less, so production adds up (``docs/proofs/direction.md``, 10).
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
from scipy import optimize, stats

from causalveil.schemas.privacy import Norm, PrivacyCost, Scope
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.privacy.mechanisms import ProposeTestRelease, Sensitivity, Slot

Row = dict[str, Any]
TESTS = 2
FAR = 10_000.0
DISTANCES = {"both 0": (0.0, 0.0), "both 1": (1.0, 1.0), "both 2": (2.0, 2.0), "1 and far": (1.0, FAR)}
EPSILONS, DELTA = ("0.2", "1", "3"), "0.01"
LOOKS, SLACKS, TOTAL = (3, 4, 200), ("1e-2", "1e-4", "1e-6"), 0.99
_SLOT = Slot(name="quartile range", scope=Scope.all)


def release_rows(count: int, seed: int = 0) -> list[Row]:
    """Return P(release) by distances and by the epsilon of one test: exact, by ``count`` draws, and as printed."""
    budget, rows = RehearsalBudget(seed), []
    for epsilon in EPSILONS:
        cost = PrivacyCost(epsilon=Decimal(epsilon) * (TESTS + 1), delta=Decimal(DELTA))
        mechanism = ProposeTestRelease(Sensitivity(value=1.0, norm=Norm.l1, formula="1"), cost, tests=TESTS)
        for name, distances in DISTANCES.items():
            fails = [1 - mechanism.answer_probability(distance) for distance in distances]
            exact = 1 - math.prod(fails)
            drawn = [mechanism.release(np.zeros(1), np.array(distances), _SLOT, budget) for _ in range(count)]
            budget.charges.clear()
            rows.append(
                {
                    "distances": name,
                    "epsilon": float(epsilon),
                    "delta": float(DELTA),
                    "exact": exact,
                    "measured": sum(one is not None for one in drawn) / count,
                    "standard_error": math.sqrt(exact * (1 - exact) / count),
                    "printed": 1.5 * float(DELTA),
                }
            )
    return rows


def look_rows() -> list[Row]:
    """Return the epsilon of each of k looks that are (TOTAL, delta')-DP together: by corollary, sum and exactly."""
    return [
        {
            "looks": looks,
            "slack": slack,
            "corollary": corollary(TOTAL, looks, float(slack)),
            "sum": TOTAL / looks,
            "exact": exact_look(TOTAL, looks, float(slack)),
        }
        for looks in LOOKS
        for slack in SLACKS
    ]


def corollary(total: float, looks: int, slack: float) -> float:
    """Return the epsilon of each look by Corollary 3.21."""
    return total / (2 * math.sqrt(2 * looks * math.log(1 / slack)))


def exact_look(total: float, looks: int, slack: float) -> float:
    """Return the largest epsilon whose k-fold composition is (total, slack)-DP (Kairouz, Oh and Viswanath 2015)."""
    return float(optimize.brentq(lambda each: composed_delta(each, looks, total) - slack, 1e-9, total + 10))


def composed_delta(each: float, looks: int, total: float) -> float:
    """Return the smallest delta with which ``looks`` looks of epsilon ``each`` are (total, delta)-DP.

    Randomised response is the worst there is: i of its k bits differ with binomial chances on either data set.
    """
    kept = 1 / (1 + math.exp(-each))
    bits = np.arange(looks + 1)
    one, other = stats.binom.pmf(bits, looks, kept), stats.binom.pmf(bits, looks, 1 - kept)
    return float(np.sum(np.maximum(one - math.exp(total) * other, 0.0)))
