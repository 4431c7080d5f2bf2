"""What draws of noise cost together, and how much noise a cost asks for.

Forwards: ``compose`` is the enforced total (basic composition, exact decimals); ``epsilon_pld`` is the reported one
(privacy loss distributions), which may be smaller and is never larger. Backwards: each ``*_scale`` or ``*_sigma``
returns a float that is certainly large enough for the theorem that its mechanism names.

A unit is in one part of a partition, the training or the estimation half, one of K folds: so what touches a part counts
together, and of the parts only the largest counts, on top of what reads everybody (``docs/privacy.md``, composition).
"""

from __future__ import annotations

import decimal
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import chain, product
from typing import Any, NamedTuple

from causalveil.schemas.amounts import add, float_below, parse_amount
from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.privacy import Charge, PrivacyCost
from causalveil.tasks.privacy.gaussian import WIDENING, composed_epsilon, unit_sigma
from causalveil.tasks.privacy.noise import opendp_laplace_loss

LATTICE_EPSILON = (1e-6, 1e3)
# Below S by this power of two: ties are rare and calibration is wider than S/epsilon by a part in a million.
LATTICE_BITS = 20
# The grid of privacy losses: fine against epsilon, but with a bounded number of points. Pessimistic at any step.
PLD_STEPS, PLD_POINTS = 20_000, 100_000
PLD_EPSILON = (1e-6, 100.0)


def compose(charges: Iterable[Charge]) -> PrivacyCost:
    """Basic composition in exact decimals: the largest sum of charges that a unit can meet.

    Scope ``all`` meets every unit. Of each partition of the units (two halves; K folds) a unit is in one part, and
    meets the charges whose scope touches that part: their largest sum over the parts counts. A unit that trains K - 1
    folds' models and is scored in its own so pays K - 1 models and one score. Partitions that are spoken of together
    cross in every way, so their maxima add up. Epsilon and delta take their maxima apart.

    Raises:
        StudyError: the exact total has more digits than an amount may have.
    """
    listed = list(charges)
    groups = _groups(listed)

    def total(amount: Callable[[Charge], Decimal]) -> Decimal:
        common = add(*(amount(charge) for charge in listed if not charge.scope.whole))
        return parse_amount(add(common, *(max(add(*map(amount, met)) for met in group) for group in groups)))

    try:
        return PrivacyCost(epsilon=total(lambda charge: charge.epsilon), delta=total(lambda charge: charge.delta))
    except (ValueError, decimal.Inexact):
        raise StudyError("the charges do not add up to an amount of budget; write them with fewer digits") from None


def _groups(charges: Sequence[Charge]) -> list[list[list[Charge]]]:
    """For each partition that scopes speak of, and each of its parts, the charges that touch the part."""
    wholes = dict.fromkeys(charge.scope.whole for charge in charges if charge.scope.whole)
    return [
        [[c for c in charges if c.scope.whole == whole and part in c.scope.parts] for part in whole] for whole in wholes
    ]


def epsilon_pld(charges: Sequence[Charge], delta: Decimal) -> float:
    """Epsilon of all charges at ``delta``, by privacy loss distributions over the structure of ``compose``.

    Gaussian draws alone compose in closed form. Else each distribution is pessimistic, from our own sensitivity and
    noise scale; mechanisms without a distribution of their own (L2-Laplace, lattice Laplace) enter as the worst
    mechanism of their (epsilon, delta). For a vector under Laplace noise the scalar of the same L1 sensitivity is the
    worst case.

    Returns:
        the smaller of this and the basic total; infinity if ``delta`` is below what the charges spend. Outside
        [1e-6, 100] the basic total, where it holds.

    Raises:
        CausalveilError: a charge has no noise scale yet, since the number of units is unknown.
    """
    basic = compose(charges)
    # Without a delta the largest loss counts, and the largest losses of pure draws add up.
    if delta == 0 and basic.delta == 0:
        return float(basic.epsilon)
    common = [charge for charge in charges if not charge.scope.whole]
    # One part of each partition in every way; parts that meet the same charges are looked at once.
    met = {tuple(sorted(_key(charge) for charge in chain(common, *choice))) for choice in product(*_groups(charges))}
    bound = float(basic.epsilon) if delta >= basic.delta else math.inf
    if not PLD_EPSILON[0] <= basic.epsilon <= PLD_EPSILON[1]:
        return bound
    return min(bound, max(_composed_epsilon(keys, float_below(delta)) for keys in met))


class _Key(NamedTuple):
    """What a distribution of privacy losses depends on; amounts are rounded up."""

    mechanism: str
    ratio: float  # noise scale per unit of sensitivity, rounded down; of randomised response, which has none, its p
    epsilon: float
    delta: float

    @property
    def reach(self) -> float:
        """The largest privacy loss that matters: ten standard deviations of a Gaussian loss, else epsilon."""
        if self.mechanism.startswith("gaussian"):
            return (0.5 / self.ratio + 10) / self.ratio
        return self.epsilon


def _key(charge: Charge) -> _Key:
    if charge.noise_scale is None or charge.sensitivity is None:
        raise CausalveilError("privacy loss distributions need noise scales: the number of units is not known yet")
    ratio = charge.noise_scale
    if charge.sensitivity != 1:
        ratio = math.nextafter(charge.noise_scale / charge.sensitivity, 0.0)
    return _Key(charge.mechanism, ratio, _float_above(charge.epsilon), _float_above(charge.delta))


def _composed_epsilon(keys: Sequence[_Key], delta: float) -> float:
    if not keys:
        return 0.0
    if all(key.mechanism.startswith("gaussian") for key in keys):
        return composed_epsilon(tuple(key.ratio for key in keys), delta)
    interval = _interval(keys)
    total: Any = None
    # Repeated draws are counted here: dp-accounting's own count loses repeated randomised response.
    for key, count in Counter(keys).items():
        once = _distribution(key, interval)
        repeated = once if count == 1 else once.self_compose(count)
        total = repeated if total is None else total.compose(repeated)
    return float(total.get_epsilon_for_delta(delta))


def _interval(keys: Sequence[_Key]) -> float:
    return max(sum(k.epsilon for k in keys) / PLD_STEPS, sum(k.reach for k in keys) / PLD_POINTS)


@lru_cache(maxsize=64)
def _distribution(key: _Key, interval: float) -> Any:
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    if key.mechanism.startswith("gaussian"):
        return pld.from_gaussian_mechanism(key.ratio, value_discretization_interval=interval)
    if key.mechanism == "laplace":
        return pld.from_laplace_mechanism(key.ratio, value_discretization_interval=interval)
    if key.mechanism == "randomised response":
        # Its noise parameter is the chance of a fresh fair bit, twice the chance of a flip; its sensitivity is 1.
        chance = 2 * (1 - key.ratio)
        return pld.from_randomized_response(chance, 2, value_discretization_interval=interval)
    parameters = common.DifferentialPrivacyParameters(key.epsilon, key.delta)
    return pld.from_privacy_parameters(parameters, value_discretization_interval=interval)


def quotient_above(sensitivity: Fraction, epsilon: float) -> float:
    """The least float b with ``sensitivity / b <= epsilon``, exactly."""
    exact = sensitivity / Fraction(epsilon)
    try:
        nearest = float(exact)
    except OverflowError:
        raise StudyError("epsilon is too small for this sensitivity: the noise would be infinite") from None
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


@lru_cache(maxsize=256)
def laplace_scale(sensitivity: float, epsilon: float) -> float:
    """Scale of Laplace noise: S/epsilon rounded up, and on until OpenDP's own privacy map agrees."""
    scale = quotient_above(Fraction(sensitivity), epsilon)
    while opendp_laplace_loss(scale, sensitivity) > epsilon:
        scale = math.nextafter(scale, math.inf)
    return scale


def analytic_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """Standard deviation of the analytic Gaussian, rounded up; ``gaussian_delta`` of it is at most ``delta``."""
    return _product_above(unit_sigma(epsilon, delta), sensitivity)


def classic_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """sqrt(2 ln(1.25/delta)) S/epsilon, rounded up (Dwork and Roth 2014, Theorem A.1)."""
    multiplier = math.sqrt(2 * math.log(1.25 / delta)) * (1 + WIDENING)
    return _product_above(multiplier, quotient_above(Fraction(sensitivity), epsilon))


def granularity(sensitivity: float) -> float:
    """Step of the record-level lattice: the power of two in (S 2^-21, S 2^-20]."""
    return math.ldexp(1.0, math.frexp(sensitivity)[1] - 1 - LATTICE_BITS)


def lattice_scale(sensitivity: float, epsilon: float) -> float:
    """Scale of lattice Laplace noise: rounding to the lattice may part two values by one step more."""
    step = Fraction(granularity(sensitivity))
    steps = Fraction(sensitivity) // step + 1
    return quotient_above(steps * step, epsilon)


@lru_cache(maxsize=256)
def keep_probability(epsilon: float) -> float:
    """The largest float p with p/(1 - p) <= exp(epsilon), and below 1."""
    from mpmath.ctx_mp import MPContext

    mp = MPContext()
    mp.prec = 400
    odds = mp.exp(mp.mpf(epsilon))
    keep = min(float(odds / (1 + odds)), math.nextafter(1.0, 0.0))
    while mp.mpf(keep) > odds * (1 - mp.mpf(keep)):
        keep = math.nextafter(keep, 0.0)
    return keep


def _product_above(left: float, right: float) -> float:
    """The least float that is not below the exact product."""
    exact = Fraction(left) * Fraction(right)
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def _float_above(amount: Decimal) -> float:
    nearest = float(amount)
    return math.nextafter(nearest, math.inf) if Decimal(nearest) < amount else nearest
