"""How the budget is divided over the five releases: decided from public facts, so that no part depends on a release."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from causalveil.tasks.adjustment.released import ColumnKind, Public

# Sensitivities of the releases: two parts of 2, moments by arm, two products in a ball, a pair of scores.
SCALES, MOMENTS, SCREEN, SCORES = math.sqrt(8), 3.0, math.sqrt(8), 2.0
# Candidates of a screen, at most; and noise of a candidate's part in treatment from which nothing is seen.
MOST_CANDIDATES, BLIND = 150, 0.5
# Candidates of each number: its square, a bend and steps.
OF_A_NUMBER = 7


@dataclass(frozen=True)
class Parts:
    """Parts of mu^2 (of epsilon without a delta) by release (chosen on the tuning tables); they add up to 1.

    ``screen`` and ``refit`` are 0 where public facts say that nothing would be seen.
    """

    scales: Decimal = Decimal("0.12")
    lines: Decimal = Decimal("0.32")
    screen: Decimal = Decimal("0.12")
    refit: Decimal = Decimal("0.15")
    scores: Decimal = Decimal("0.29")


LINES_ALONE = Parts(lines=Decimal("0.46"), screen=Decimal(0), refit=Decimal(0), scores=Decimal("0.42"))


def candidates_of(public: Public) -> int:
    """How many curves a screen has, at most."""
    numbers = sum(column.kind is ColumnKind.number for column in public.columns)
    single = numbers + sum(column.kind is ColumnKind.flag for column in public.columns)
    return min(OF_A_NUMBER * numbers + math.comb(single, 2), MOST_CANDIDATES)


def parts_of(public: Public) -> Parts:
    """Decide the parts: no screen where a half treated would leave a candidate hidden by noise."""
    count, full = candidates_of(public), Parts()
    if not count or public.trial:
        return LINES_ALONE
    noise = SCREEN * math.sqrt(count) / (public.mu * math.sqrt(full.screen) * public.units * 0.25)
    return LINES_ALONE if noise > BLIND else full


def moments_sd(public: Public) -> float:
    """Deviation of the noise on a mean of release 2."""
    return MOMENTS / (public.mu * math.sqrt(parts_of(public).lines) * public.units)


def scores_sd(public: Public) -> float:
    """Deviation of the noise on a mean of release 5."""
    return SCORES / (public.mu * math.sqrt(parts_of(public).scores) * public.units)
