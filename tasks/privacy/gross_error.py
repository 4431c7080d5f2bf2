"""The noise of Schröder, Hartenstein and Feuerriegel (2025), Theorems 4.3 and 4.5. Its guarantee is asymptotic."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from causalveil.schemas.errors import StudyError
from causalveil.schemas.privacy import Norm, PrivacyCost, float_below
from causalveil.tasks.privacy.gaussian import WIDENING
from causalveil.tasks.privacy.mechanisms import GaussianNoise, Sensitivity
from causalveil.tasks.privacy.scales import quotient_above


@dataclass(frozen=True)
class GrossErrorGaussian(GaussianNoise):
    """Gaussian noise of r = 5 sqrt(2 ln(n) ln(2/delta))/(epsilon n) per unit of the gross-error sensitivity gamma.

    That gamma r bounds what smooth sensitivity would ask for is a statement about large n (Avella-Medina 2021). The
    value is released *in units of gamma*, so that the declared scale is exact whatever gamma turns out to be;
    ``sensitivity`` is that of a mean, 1/n. The name does not begin with "gaussian": its loss is what it declares,
    not that of Gaussian noise on a sensitivity of 1/n, which nobody has proved.
    """

    NAME = "gross-error gaussian"

    units: int = field(kw_only=True)

    def __post_init__(self) -> None:
        """Refuse fewer than two units, for which ln n is not positive."""
        super().__post_init__()
        if self.units < 2:
            raise StudyError(f"{self.NAME} needs at least 2 units")

    def _scale(self, sensitivity: float) -> float:
        delta = float_below(self.cost.delta)
        factor = 5 * math.sqrt(2 * math.log(self.units) * math.log(2 / delta)) * (1 + WIDENING)
        return factor * quotient_above(Fraction(sensitivity), self._epsilon)


def gross_error_gaussian(units: int | None, cost: PrivacyCost) -> GrossErrorGaussian:
    """The mechanism for a mean over ``units`` units, released in units of its gross-error sensitivity."""
    bound = Sensitivity(
        value=None if units is None else 1 / units,
        norm=Norm.l2,
        formula="1/n of the gross-error sensitivity, n units (asymptotic)",
    )
    return GrossErrorGaussian(bound, cost, units=units or 2)
