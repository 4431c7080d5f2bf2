"""Recipe of the five releases.

The budget of each, decided from public facts alone, before a row is read.

No part of the budget depends on a release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from causalveil.schemas.confounding import ConfoundingPrior
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Norm, PrivacyCost, Scope
from causalveil.tasks.adjustment import sums
from causalveil.tasks.adjustment.features import Encoding
from causalveil.tasks.adjustment.released import ColumnKind, Prior, Public
from causalveil.tasks.adjustment.sums import ScaleSums
from causalveil.tasks.models.lattice_sums import sums_sensitivity
from causalveil.tasks.privacy.gaussian import mu_of
from causalveil.tasks.privacy.mechanisms import Laplace, Mechanism, Sensitivity, Slot, vector_mechanism

# Sensitivities of the releases: two parts of 2, moments by arm, two products in a ball, a pair of scores.
SCALES_L2, MOMENTS_L2, SCREEN_L2, SCORES_L2 = math.sqrt(8), 3.0, math.sqrt(8), 2.0
# Candidates of a screen, at most; and noise of a candidate's part in treatment from which nothing is seen.
MOST_CANDIDATES, BLIND = 150, 0.5
# A row of d features is cut to a ball of so many times sqrt(d + 1): the first, or more as long as noise moves the
# eigenvalues of the Gram matrix by less than the third number, up to twice as much (in practice 1.25 to 2).
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
    noise = noise_sd(public, full.screen, SCREEN_L2, 2 * count) * math.sqrt(count) / 0.25
    return alone if noise > BLIND else full


def looks_for_curves(public: Public) -> bool:
    """Return whether squares, bends, steps and products are candidates, from public facts."""
    return not public.trial and parts_of(public).screen > 0 and candidates_of(public) > 0


def noise_sd(public: Public, part: Decimal, sensitivity: float, numbers: int) -> float:
    """Return the standard deviation of the noise on each of some means.

    The noise is Gaussian, or L2-Laplace without a delta.
    """
    if public.pure:
        return sensitivity * math.sqrt(numbers * public.blocks + 1) / (float(part) * public.mu * public.units)
    return sensitivity / (math.sqrt(part) * public.mu * public.units)


def moments_sd(public: Public) -> float:
    """Return the deviation of the noise on a mean of release 2.

    Without a delta it does not tell the arms apart.
    """
    count = len(public.columns) + 1
    numbers = 2 * count + 1 + count * (count + 1) // 2
    return noise_sd(public, parts_of(public).lines, SCREEN_L2 if public.pure else MOMENTS_L2, numbers)


def scores_sd(public: Public) -> float:
    """Return the standard deviation of the noise on a mean of release 5.

    Without a delta it is Laplace noise, of sensitivity 2 in the L1 norm.
    """
    part = parts_of(public).scores
    if public.pure:
        return math.sqrt(2) * sums.SCORES_L1 / (float(part) * public.mu * public.units) / public.scores_weight
    return noise_sd(public, part, SCORES_L2, 2) / public.scores_weight


def radius_of(public: Public, count: int) -> float:
    """Return the radius of the ball to which rows of ``count`` features and a constant are cut."""
    edge = moments_sd(public) * math.sqrt(2 * max(count, 1)) * RADIUS**2 * (count + 1)
    wider = min(max(math.sqrt(QUIET / edge), 1.0), MOST_RADIUS / RADIUS)
    return RADIUS * wider * math.sqrt(count + 1)


SCALES = Slot(name="scales", scope=Scope.all)
LINES = Slot(name="lines", scope=Scope.all)
SCREEN = Slot(name="screen", scope=Scope.all)
REFIT = Slot(name="refit", scope=Scope.all)
SCORES = Slot(name="scores", scope=Scope.all)
# Curves that release 4 keeps at most.
MOST_KEPT = 6
# An unknown number of units is taken for a large one.
UNKNOWN = 10**9


class AdjustsBy(Protocol):
    """Settings of an estimator that adjusts."""

    @property
    def trial(self) -> bool:
        """True if treatment was randomised."""

    @property
    def confounding_prior(self) -> ConfoundingPrior:
        """Confounding that is expected."""


@dataclass(frozen=True)
class AdjustmentRecipe:
    """Every draw of a study.

    Attributes:
        public: what is known before a row is read.
        encoding: of its rows.
        known: whether the number of units is.
        costs: by release; screen and refit are missing where no curve is looked for.
        ending: of the name of each release, where a study makes several of a kind.
        scope: whom they are charged to.
        most: how many units a sum may be of; None: as many as are read, which ``public`` has.
        scores_l1: sensitivity of release 5 in the L1 norm.
    """

    public: Public
    encoding: Encoding
    known: bool
    costs: dict[str, PrivacyCost]
    ending: str = ""
    scope: Scope = Scope.all
    most: int | None = None
    scores_l1: float = sums.SCORES_L1

    def slot(self, slot: Slot) -> Slot:
        """Return what a release is called here, and whom it is charged to."""
        return Slot(f"{slot.name}{self.ending}", self.scope)

    @property
    def by_arm(self) -> bool:
        """True if moments are released by arm."""
        return not self.public.pure

    @property
    def scale_sums(self) -> ScaleSums:
        """Release 1."""
        return ScaleSums(self.encoding, self.public.pure)

    @property
    def most_features(self) -> int:
        """No release 2 or 4 has more features beside the constant."""
        return len(self.public.columns) + MOST_KEPT

    @property
    def _moments(self) -> float:
        return MOMENTS_L2 if self.by_arm else sums.MOMENTS_ALIKE

    def mechanism(self, slot: Slot) -> Mechanism | None:
        """Return the mechanism of a release, or None where there is none."""
        cost = self.costs.get(slot.name)
        if cost is None:
            return None
        numbers, size, in_l1 = {
            SCALES: (self.scale_sums.numbers, SCALES_L2, sums.SCALES_L1),
            LINES: (sums.moment_numbers(self.most_features, self.by_arm), self._moments, None),
            SCREEN: (2 * MOST_CANDIDATES, SCREEN_L2, None),
            REFIT: (sums.moment_numbers(self.most_features, self.by_arm), self._moments, None),
            SCORES: (2, SCORES_L2, self.scores_l1),
        }[slot]
        units = (self.most or self.public.units) if self.known else None
        if not self.public.pure or in_l1 is None:
            return vector_mechanism(sums_sensitivity(numbers, units, size), cost)
        return laplace_mechanism(numbers, units, in_l1, cost)


def laplace_mechanism(numbers: int, units: int | None, size: float, cost: PrivacyCost) -> Laplace:
    """Return the mechanism of exact sums over ``units`` units whose L1 sensitivity is ``size``."""
    # The L1 norm of a rounding error is up to the root of the numbers larger than its length.
    rounded = sums_sensitivity(numbers**2, units, size)
    return Laplace(Sensitivity(rounded.value, Norm.l1, rounded.formula), cost)


def public_of(
    total: PrivacyCost, estimand: str, settings: AdjustsBy, encoding: Encoding, sizes: Sizes | None
) -> Public:
    """Return the public facts of a study that spends all its budget on the five releases."""
    pure, prior = total.delta == 0, settings.confounding_prior
    return Public(
        units=UNKNOWN if sizes is None else sizes.units,
        columns=encoding.columns,
        estimand=estimand,
        trial=settings.trial,
        prior=Prior(prior.outcome_r2, prior.distance),
        mu=float(total.epsilon if pure else mu_of(total)),
        pure=pure,
    )
