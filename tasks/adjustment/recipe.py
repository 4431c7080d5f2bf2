"""Recipe of the five releases: the budget of each, decided from public facts alone, before a row is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from causalveil.schemas.confounding import ConfoundingPrior
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Norm, PrivacyCost, Scope
from causalveil.tasks.adjustment import parts, sums
from causalveil.tasks.adjustment.features import Encoding
from causalveil.tasks.adjustment.parts import MOST_CANDIDATES
from causalveil.tasks.adjustment.released import Prior, Public
from causalveil.tasks.adjustment.screen import MOST_KEPT
from causalveil.tasks.adjustment.sums import ScaleSums
from causalveil.tasks.models.lattice_sums import sums_sensitivity
from causalveil.tasks.privacy.gaussian import mu_of
from causalveil.tasks.privacy.mechanisms import Laplace, Mechanism, Sensitivity, Slot, vector_mechanism

SCALES = Slot(name="scales", scope=Scope.all)
LINES = Slot(name="lines", scope=Scope.all)
SCREEN = Slot(name="screen", scope=Scope.all)
REFIT = Slot(name="refit", scope=Scope.all)
SCORES = Slot(name="scores", scope=Scope.all)
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
    """

    public: Public
    encoding: Encoding
    known: bool
    costs: dict[str, PrivacyCost]
    ending: str = ""
    scope: Scope = Scope.all
    most: int | None = None

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
        return parts.MOMENTS if self.by_arm else sums.MOMENTS_ALIKE

    def mechanism(self, slot: Slot) -> Mechanism | None:
        """Return the mechanism of a release, or None where there is none."""
        cost = self.costs.get(slot.name)
        if cost is None:
            return None
        numbers, size, in_l1 = {
            SCALES: (self.scale_sums.numbers, parts.SCALES, sums.SCALES_L1),
            LINES: (sums.moment_numbers(self.most_features, self.by_arm), self._moments, None),
            SCREEN: (2 * MOST_CANDIDATES, parts.SCREEN, None),
            REFIT: (sums.moment_numbers(self.most_features, self.by_arm), self._moments, None),
            SCORES: (2, parts.SCORES, sums.SCORES_L1),
        }[slot]
        units = (self.most or self.public.units) if self.known else None
        if not self.public.pure or in_l1 is None:
            return vector_mechanism(sums_sensitivity(numbers, units, size), cost)
        # The L1 norm of a rounding error is up to the root of the numbers larger than its length.
        rounded = sums_sensitivity(numbers**2, units, in_l1)
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
