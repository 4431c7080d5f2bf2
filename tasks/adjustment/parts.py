"""Division of the budget over the five releases: decided from public facts, so that no part depends on a release."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from causalveil.tasks.adjustment.released import ColumnKind, Public

# Sensitivities of the releases: two parts of 2, moments by arm, two products in a ball, a pair of scores.
SCALES, MOMENTS, SCREEN, SCORES, SCORES_L1 = math.sqrt(8), 3.0, math.sqrt(8), 2.0, 2.25
# Candidates of a screen, at most; and noise of a candidate's part in treatment from which nothing is seen.
MOST_CANDIDATES, BLIND = 150, 0.5
# A row of d features is cut to a ball of so many times sqrt(d + 1): the first, or more as long as noise moves the
# eigenvalues of the Gram matrix by less than the third number, up to twice as much (1.25 to 2 in today's regression).
RADIUS, MOST_RADIUS, QUIET = 1.4, 2.8, 0.1
# Candidates of each number: its square, a bend and steps.
OF_A_NUMBER = 7


@dataclass(frozen=True)
class Parts:
    """Parts of the budget by release; they add up to 1.

    Of mu^2 where there is a delta (chosen on the tuning tables), of epsilon without one: there noise falls with a part
    and not with its root, so parts are near the roots of those. ``screen`` and ``refit`` are 0 where public facts say
    that nothing would be seen.
    """

    scales: Decimal
    lines: Decimal
    screen: Decimal
    refit: Decimal
    scores: Decimal

    @classmethod
    def of(cls, *hundredths: int) -> Parts:
        """Return parts given in hundredths."""
        return cls(*(Decimal(one) / 100 for one in hundredths))


FULL, LINES_ALONE = Parts.of(12, 32, 12, 15, 29), Parts.of(12, 46, 0, 0, 42)
PURE, PURE_LINES_ALONE = Parts.of(16, 26, 16, 17, 25), Parts.of(21, 40, 0, 0, 39)


def candidates_of(public: Public) -> int:
    """Return the largest number of curves that a screen can have."""
    numbers = sum(column.kind is ColumnKind.number for column in public.columns)
    single = numbers + sum(column.kind is ColumnKind.flag for column in public.columns)
    return min(OF_A_NUMBER * numbers + math.comb(single, 2), MOST_CANDIDATES)


def parts_of(public: Public) -> Parts:
    """Decide the parts: no screen where a half treated would leave a candidate hidden by noise."""
    if public.asked is not None:
        return Parts(*public.asked)
    full, alone = (PURE, PURE_LINES_ALONE) if public.pure else (FULL, LINES_ALONE)
    count = candidates_of(public)
    if not count or public.trial:
        return alone
    noise = noise_sd(public, full.screen, SCREEN, 2 * count) * math.sqrt(count) / 0.25
    return alone if noise > BLIND else full


def looks_for_curves(public: Public) -> bool:
    """Return whether squares, bends, steps and products are candidates, from public facts."""
    return not public.trial and parts_of(public).screen > 0 and candidates_of(public) > 0


def noise_sd(public: Public, part: Decimal, sensitivity: float, numbers: int) -> float:
    """Return the standard deviation of the noise on each of some means.

    The noise is Gaussian, or L2-Laplace without a delta.
    """
    if public.pure:
        return sensitivity * math.sqrt(numbers + 1) / (float(part) * public.mu * public.units)
    return sensitivity / (math.sqrt(part) * public.mu * public.units)


def moments_sd(public: Public) -> float:
    """Return the deviation of the noise on a mean of release 2.

    Without a delta it does not tell the arms apart.
    """
    count = len(public.columns) + 1
    numbers = 2 * count + 1 + count * (count + 1) // 2
    return noise_sd(public, parts_of(public).lines, SCREEN if public.pure else MOMENTS, numbers)


def scores_sd(public: Public) -> float:
    """Return the standard deviation of the noise on a mean of release 5.

    Without a delta it is Laplace noise, of sensitivity 9/4 in the L1 norm.
    """
    part = parts_of(public).scores
    if public.pure:
        return math.sqrt(2) * SCORES_L1 / (float(part) * public.mu * public.units) / public.weight
    return noise_sd(public, part, SCORES, 2) / public.weight


def radius_of(public: Public, count: int) -> float:
    """Return the radius of the ball to which rows of ``count`` features and a constant are cut."""
    edge = moments_sd(public) * math.sqrt(2 * max(count, 1)) * RADIUS**2 * (count + 1)
    wider = min(max(math.sqrt(QUIET / edge), 1.0), MOST_RADIUS / RADIUS)
    return RADIUS * wider * math.sqrt(count + 1)
