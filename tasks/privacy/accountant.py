"""The joint privacy cost of the draws of one run.

``compose`` adds exact decimals and always holds. ``total`` is the cost that a run reserves: the sum where it keeps the
request, else the composition of its Gaussian draws by mu, which loses nothing, and beside other draws by privacy loss
distributions of the declared draws. Both are sound since every parameter of a run is fixed before a row is read; over
runs, where it is not, only sums count (``tasks/privacy/concentrated.py``). Proofs: ``docs/proofs/accounting.md``.

A unit is in one half of a split, training or estimation: so what touches a half counts together, and of the halves only
the larger counts, on top of what reads all units (``docs/privacy.md``, composition).
"""

from __future__ import annotations

import decimal
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.privacy import (
    Charge,
    PrivacyCost,
    add,
    amount_text,
    float_below,
    largest_sum,
    met_by_one_unit,
    parse_amount,
    subtract,
)
from causalveil.tasks.privacy.concentrated import rho_of, tested_delta
from causalveil.tasks.privacy.gaussian import composed, composed_epsilon, epsilon_of, keeps

# The grid of privacy losses: fine against epsilon, but with a bounded number of points. Pessimistic at any step.
PLD_STEPS, PLD_POINTS = 20_000, 100_000
PLD_EPSILON = (1e-6, 100.0)


class Concentrated(NamedTuple):
    """The cost of a run to an account over runs: ``rho``-zCDP except with probability ``delta``.

    Both are exact decimals.
    """

    rho: Decimal
    delta: Decimal


def compose(charges: Iterable[Charge]) -> PrivacyCost:
    """Compose basically, in exact decimals: the largest sum of charges that a unit can meet.

    Scope ``all`` meets every unit. A unit is in one half of a split, and meets the charges of that half: the larger sum
    counts. Epsilon and delta take their maxima apart.

    Raises:
        StudyError: the exact total has more digits than an amount may have.
    """
    listed = list(charges)
    try:
        return PrivacyCost(
            epsilon=parse_amount(largest_sum(listed, lambda charge: charge.epsilon)),
            delta=parse_amount(largest_sum(listed, lambda charge: charge.delta)),
        )
    except (ValueError, decimal.Inexact):
        raise StudyError("the charges do not add up to an amount of budget; write them with fewer digits") from None


def concentrate(charges: Iterable[Charge]) -> Concentrated:
    """Add up rho, and the deltas of tests, of charges over the structure of ``compose``."""
    listed = list(charges)
    return Concentrated(largest_sum(listed, rho_of), largest_sum(listed, tested_delta))


def sum_text(charges: Iterable[Charge], delta: Decimal) -> str:
    """Return the sum of charges of a run in the unit in which they add up.

    That is epsilon where the run has no delta, else rho, with the deltas of tests. It is the largest sum that one unit
    meets, as in ``compose``.

    Args:
        charges: some of the run's, or all.
        delta: of the run's reservation.
    """
    listed = list(charges)
    if delta == 0:
        return f"epsilon {amount_text(largest_sum(listed, lambda charge: charge.epsilon))}"
    rho, tested = concentrate(listed)
    return f"rho {amount_text(rho)}" + (f" and delta {amount_text(tested)}" if tested else "")


def total(charges: Iterable[Charge], request: PrivacyCost) -> PrivacyCost:
    """Return the joint cost of the charges of a run: at most ``request``, where proved.

    The sum, if that keeps the request. Else at the request's delta: of Gaussian draws alone the epsilon of their
    composed mu; of a mixture the request itself, if Gaussian draws keep the rest of it beside the others' sum, or the
    privacy loss distributions of all of them do.

    Raises:
        StudyError: the charges exceed the request, and their sum is no amount.
    """
    listed = list(charges)
    try:
        basic, problem = compose(listed), None
    except StudyError as error:
        basic, problem = None, error
    if basic is not None and basic.epsilon <= request.epsilon and basic.delta <= request.delta:
        return basic
    met = met_by_one_unit(listed)
    if all(charge.mu is not None for charge in listed) and request.delta > 0:
        mus = [_composed_mu(half) for half in met]
        epsilon = max(epsilon_of(mu, request.delta) for mu in mus)
        if epsilon > request.epsilon and all(keeps(mu, request) for mu in mus):
            epsilon = request.epsilon
        return PrivacyCost(epsilon=epsilon, delta=request.delta)
    if all(_mixture_keeps(half, request) for half in met) or _distributions_keep(listed, request):
        return request
    if basic is None:
        raise problem or StudyError("the charges exceed the request")
    return basic


def _mixture_keeps(charges: Sequence[Charge], request: PrivacyCost) -> bool:
    """Check whether the draws that a unit meets keep the request.

    The Gaussian draws must keep the rest of it that the sum of all others leaves.
    """
    summed = [charge for charge in charges if charge.mu is None]
    epsilon = subtract(request.epsilon, add(*(charge.epsilon for charge in summed)))
    delta = subtract(request.delta, add(*(charge.delta for charge in summed)))
    if epsilon < 0 or delta < 0:
        return False
    try:
        left = PrivacyCost(epsilon=epsilon, delta=delta)
    except ValueError:
        return False
    return keeps(_composed_mu(charges), left)


def _composed_mu(charges: Iterable[Charge]) -> Decimal:
    """Mu of the Gaussian draws among charges together."""
    return composed(charge.mu for charge in charges if charge.mu is not None)


def _distributions_keep(charges: Sequence[Charge], request: PrivacyCost) -> bool:
    if request.delta == 0 or any(charge.noise_scale is None for charge in charges):
        return False
    return epsilon_pld(charges, request.delta) <= float_below(request.epsilon)


def epsilon_pld(charges: Sequence[Charge], delta: Decimal) -> float:
    """Return epsilon of all charges at ``delta``, by privacy loss distributions.

    They are composed over the structure of ``compose``, Gaussian draws alone by the closed form. Each distribution is
    pessimistic, from our own sensitivity and noise scale; mechanisms without a distribution of their own (L2-Laplace,
    lattice Laplace) enter as the worst mechanism of their (epsilon, delta). For a vector under Laplace noise the scalar
    of the same L1 sensitivity is the worst case.

    Returns:
        the smaller of this and the basic total; infinity if ``delta`` is below that of the charges. Outside
        [1e-6, 100] the basic total, where it holds.

    Raises:
        CausalveilError: a charge has no noise scale yet, since the number of units is unknown.
    """
    if any(charge.noise_scale is None or charge.sensitivity is None for charge in charges):
        raise CausalveilError("privacy loss distributions need noise scales: the number of units is not known yet")
    try:
        basic = compose(charges)
        bound = float(basic.epsilon) if delta >= basic.delta else math.inf
    except StudyError:
        basic, bound = None, math.inf
    # Without a delta the largest loss counts, and the largest losses of pure draws add up.
    if basic is not None and delta == 0 and basic.delta == 0:
        return float(basic.epsilon)
    if charges and delta > 0 and all(charge.mu is not None for charge in charges):
        return min(bound, float(max(epsilon_of(_composed_mu(half), delta) for half in met_by_one_unit(charges))))
    if basic is None or not PLD_EPSILON[0] <= basic.epsilon <= PLD_EPSILON[1]:
        return bound
    # Halves with the same charges are composed once.
    met = {tuple(sorted(_key(charge) for charge in half)) for half in met_by_one_unit(charges)}
    return min(bound, max(_composed_epsilon(keys, float_below(delta)) for keys in met))


class _Key(NamedTuple):
    """The parameters of a distribution of privacy losses; amounts are rounded up."""

    mechanism: str
    ratio: float  # noise scale per unit of sensitivity, rounded down; of randomised response, which has none, its p
    epsilon: float
    delta: float

    @property
    def reach(self) -> float:
        """Largest privacy loss that matters: ten deviations of a Gaussian loss, else epsilon."""
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


@lru_cache(maxsize=256)
def _composed_epsilon(keys: tuple[_Key, ...], delta: float) -> float:
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


def _float_above(amount: Decimal) -> float:
    nearest = float(amount)
    return math.nextafter(nearest, math.inf) if Decimal(nearest) < amount else nearest
