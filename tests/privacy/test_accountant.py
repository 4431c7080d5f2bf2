"""The accountant: exact decimals, the two halves, and privacy loss distributions against oracles."""

from __future__ import annotations

import math
import time
from decimal import Decimal

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.privacy import Charge, Norm, PrivacyCost, Scope
from causalveil.tasks.privacy import mechanisms as m
from causalveil.tasks.privacy.accountant import (
    _composed_epsilon,
    _distribution,
    _interval,
    _key,
    compose,
    epsilon_pld,
)


def charge(epsilon: str, delta: str = "0", scope: Scope = Scope.all, name: str = "a", kind=None) -> Charge:
    kind = kind or (m.L2Laplace if delta == "0" else m.GaussianAnalytic)
    cost = PrivacyCost(epsilon=Decimal(epsilon), delta=Decimal(delta))
    if kind is m.RandomisedResponse:
        return m.RandomisedResponse(cost).charge(m.Slot(name, scope))
    return kind(m.Sensitivity(0.013, kind.NORM, "S"), cost).charge(m.Slot(name, scope))


KINDS = [
    (m.Laplace, "0"),
    (m.GaussianAnalytic, "1e-7"),
    (m.GaussianClassic, "1e-7"),
    (m.L2Laplace, "0"),
    (m.LatticeLaplace, "0"),
    (m.RandomisedResponse, "0"),
]
every_kind = pytest.mark.parametrize(("kind", "delta"), KINDS, ids=[k.NAME for k, _ in KINDS])


# --- Basic composition -------------------------------------------------------------------------------------------


def test_three_tenths_are_three_tenths() -> None:
    assert compose([charge("0.1")] * 3).epsilon == Decimal("0.3")
    assert compose([]) == PrivacyCost(epsilon=0, delta=0)


def test_halves_count_by_their_maximum_each_amount_by_its_own() -> None:
    charges = [
        charge("0.5", "1e-6", Scope.train),
        charge("0.25", "3e-6", Scope.estimation),
        charge("0.3", "0", Scope.estimation),
        charge("0.1", "1e-7", Scope.all),
    ]
    assert compose(charges) == PrivacyCost(epsilon=Decimal("0.65"), delta=Decimal("3.1e-6"))
    assert compose(iter(charges)) == compose(reversed(charges))


def test_a_total_that_is_no_amount_is_refused_not_rounded() -> None:
    with pytest.raises(StudyError):
        compose([charge("1"), charge("1.23456789012e-10")])


# --- Privacy loss distributions ----------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("count", [2, 7, 10])
def test_count_equals_that_many_single_compositions(kind, delta: str, count: int) -> None:
    """dp-accounting's own count loses repeated randomised response (1.1 for 11)."""
    charges = [charge("0.4", delta, name=f"c{k}", kind=kind) for k in range(count)]
    keys = tuple(_key(c) for c in charges)
    target = 1e-5
    interval = _interval(keys)
    total = _distribution(keys[0], interval)
    for key in keys[1:]:
        total = total.compose(_distribution(key, interval))
    assert _composed_epsilon(keys, target) == pytest.approx(total.get_epsilon_for_delta(target), rel=1e-4)
    assert _composed_epsilon(keys, target) > 0.4 * math.sqrt(count) * 0.5


@every_kind
def test_distribution_is_never_above_basic(kind, delta: str) -> None:
    for count in (1, 2, 30):
        charges = [charge("0.02", delta, name=f"c{k}", kind=kind) for k in range(count)]
        total = compose(charges)
        assert 0 < epsilon_pld(charges, max(total.delta, Decimal("1e-9"))) <= float(total.epsilon)


def test_many_small_draws_cost_less_than_their_sum() -> None:
    charges = [charge("0.02", "0", name=f"c{k}") for k in range(200)]
    assert epsilon_pld(charges, Decimal("1e-6")) < 0.5 * float(compose(charges).epsilon)


def test_randomised_response_against_the_binomial() -> None:
    """Sixty responses at epsilon 0.1: the hockey stick of Binomial(60, p) against Binomial(60, 1 - p), summed."""
    item, n, delta = charge("0.1", kind=m.RandomisedResponse), 60, 1e-4
    k = np.arange(n + 1)
    p, q = stats.binom.pmf(k, n, item.noise_scale), stats.binom.pmf(k, n, 1 - item.noise_scale)
    exact = optimize.brentq(lambda e: np.maximum(p - math.exp(e) * q, 0).sum() - delta, 0, 5)
    assert exact < 4
    reported = epsilon_pld([item.model_copy(update={"name": f"c{i}"}) for i in range(n)], Decimal(str(delta)))
    assert exact - 1e-9 <= reported <= exact * 1.01


def test_gaussians_against_the_closed_form() -> None:
    """n Gaussian draws are one of sensitivity sqrt(n); Balle and Wang's formula at 60 digits."""
    charges = [charge("0.4", "1e-7", name=f"c{k}") for k in range(9)]
    with mpmath.workdps(60):
        mu = 3 * mpmath.mpf(charges[0].sensitivity) / mpmath.mpf(charges[0].noise_scale)

        def excess(e):
            return mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu) - mpmath.mpf("1e-6")

        low, high = mpmath.mpf("0.1"), mpmath.mpf(4)
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        exact = float(high)
    assert exact <= epsilon_pld(charges, Decimal("1e-6")) <= exact * 1.005


def test_laplace_against_the_closed_form() -> None:
    """One draw: delta(e) = 1 - exp((e - epsilon)/2)."""
    exact = 0.4 + 2 * math.log1p(-0.01)
    assert exact <= epsilon_pld([charge("0.4", kind=m.Laplace)], Decimal("0.01")) <= exact + 1e-3


def test_a_vector_under_laplace_noise_is_no_worse_than_a_scalar() -> None:
    """The claim that the accountant rests on (docs/privacy.md): splitting an L1 shift cannot reveal more."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    def of(shift: float):
        return pld.from_laplace_mechanism(1.0, sensitivity=shift, value_discretization_interval=1e-4)

    whole, parts = of(1.5), of(0.9).compose(of(0.4)).compose(of(0.2))
    for epsilon in np.linspace(0, 1.5, 16):
        assert parts.get_delta_for_epsilon(epsilon) <= whole.get_delta_for_epsilon(epsilon) + 1e-4


def test_halves_are_accounted_apart() -> None:
    train = [charge("0.5", "5e-7", Scope.train, "t")]
    other = [charge("0.3", "5e-7", Scope.estimation, "e")]
    both = [charge("0.2", "5e-7", Scope.all, "b")]
    delta = Decimal("1e-6")
    assert epsilon_pld(train + other, delta) == epsilon_pld(train, delta)
    assert epsilon_pld(train + other + both, delta) == epsilon_pld(train + both, delta)
    assert epsilon_pld(train + both, delta) > epsilon_pld(train, delta)
    assert epsilon_pld([], delta) == 0


def test_below_the_delta_that_was_spent_basic_says_nothing() -> None:
    charges = [charge("0.5", "1e-6")]
    assert epsilon_pld(charges, Decimal("1e-8")) > 0.5
    assert epsilon_pld([charge("2000", "1e-6")], Decimal("1e-8")) > 2000
    tested = charge("2000", "1e-6").model_copy(update={"mu": None, "mechanism": "propose-test-release"})
    assert epsilon_pld([tested], Decimal("1e-8")) == math.inf


@pytest.mark.parametrize(("epsilon", "delta"), [("1e-9", "1e-9"), ("0.01", "0.1"), ("90", "1e-6"), ("1e6", "1e-6")])
def test_extremes_stay_cheap_and_below_basic(epsilon: str, delta: str) -> None:
    start = time.process_time()
    assert 0 < epsilon_pld([charge(epsilon, delta)], Decimal(delta)) <= float(epsilon)
    assert time.process_time() - start < 5


def test_three_charges_are_accounted_in_half_a_second() -> None:
    """Beyond the import; processor time, so that a busy machine does not fail it."""
    import dp_accounting  # noqa: F401

    charges = [
        charge("0.31", "2e-7", Scope.train, "t"),
        charge("0.27", "3e-7", Scope.estimation, "e"),
        charge("0.11", "1e-7", Scope.all, "b", m.GaussianAnalytic),
    ]
    epsilon_pld(charges[:1], Decimal("1e-6"))
    _distribution.cache_clear()
    start = time.process_time()
    epsilon_pld(charges, Decimal("1e-6"))
    assert time.process_time() - start < 0.5


def test_a_plan_without_units_has_no_distribution() -> None:
    cost = PrivacyCost(epsilon=Decimal(1), delta=Decimal("1e-6"))
    unknown = m.GaussianAnalytic(m.Sensitivity(None, Norm.l2, "2/n"), cost).charge(m.Slot("a", Scope.all))
    assert compose([unknown]) == cost
    with pytest.raises(CausalveilError):
        epsilon_pld([unknown], cost.delta)


# What a unit of each half pays is counted unit by unit, and compose agrees.
def charge_scopes(epsilon: Decimal, scope: Scope, name: str) -> Charge:
    """Any draw: only amounts and scopes count here."""
    return Charge(
        name=name,
        stage="s",
        mechanism="gaussian (analytic)",
        scope=scope,
        norm=Norm.l2,
        sensitivity=1.0,
        formula="1",
        noise_scale=5.0,
        epsilon=epsilon,
        delta=epsilon / 1000000,
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(Scope)), st.integers(1, 50)), min_size=1, max_size=8))
def test_compose_is_what_the_worst_unit_pays(draws: list[tuple[Scope, int]]) -> None:
    charges = [charge_scopes(Decimal(amount) / 100, scope, str(i)) for i, (scope, amount) in enumerate(draws)]
    paid = [sum(c.epsilon for c in charges if c.scope in ("all", half)) for half in ("train", "estimation")]
    assert compose(charges).epsilon == max(paid)
