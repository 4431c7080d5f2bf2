"""Dividing a request into Gaussian draws: exact by the closed form, safe by dp-accounting, refused where wrong."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from causalveil.schemas.errors import CausalveilError, StudyError
from causalveil.schemas.privacy import Charge, GaussianCost, Norm, PrivacyCost, Scope
from causalveil.tasks.privacy import mechanisms as m
from causalveil.tasks.privacy.accountant import compose, total
from causalveil.tasks.privacy.gaussian import composed, divide, epsilon_of, keeps, mu_of, portion

REQUESTS = [("0.5", "1e-5"), ("0.1", "1e-9"), ("2", "1e-6"), ("20", "1e-3"), ("0.001", "0.2"), ("1e-6", "1e-30")]
requested = pytest.mark.parametrize(("epsilon", "delta"), REQUESTS)


def cost(epsilon: str, delta: str = "1e-6") -> PrivacyCost:
    return PrivacyCost(epsilon=Decimal(epsilon), delta=Decimal(delta))


def draw(part: PrivacyCost, name: str = "a", scope: Scope = Scope.all) -> Charge:
    return m.vector_mechanism(m.Sensitivity(0.013, Norm.l2, "S"), part).charge(m.Slot(name, scope))


def delta_of(mu: float, epsilon: float) -> float:
    """Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu) in plain floats."""
    return float(stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu))


@requested
def test_a_divided_request_is_kept_and_used_up(epsilon: str, delta: str) -> None:
    request = cost(epsilon, delta)
    parts = divide(request, {"a": Decimal("0.05"), "b": Decimal("0.35"), "c": Decimal("0.6")})
    drawn = [draw(part, name) for name, part in parts.items()]
    assert total(drawn, request) == request
    used = composed(charge.mu for charge in drawn)
    assert keeps(used, request)
    assert not keeps(used * Decimal("1.00001"), request)
    assert total(drawn[:-1], request).epsilon <= request.epsilon


def test_shares_of_mu_squared_are_wider_only_by_a_root() -> None:
    """The point of it: half of a budget costs a factor sqrt(2), where half of epsilon and delta costs nearly 2."""
    whole, half = (draw(portion(cost("0.5", "1e-5"), Decimal(s))).noise_scale for s in ("1", "0.5"))
    assert half / whole == pytest.approx(math.sqrt(2), rel=1e-9)
    old = draw(PrivacyCost(epsilon=Decimal("0.25"), delta=Decimal("5e-6"))).noise_scale
    assert 1.3 < old / half < 1.5


@settings(max_examples=200, deadline=None)
@given(st.floats(0.01, 20), st.floats(-12, -1), st.floats(0.001, 1))
def test_a_draw_keeps_what_it_says_alone(epsilon: float, log: float, share: float) -> None:
    request = cost(f"{epsilon:.6g}", f"{10**log:.6g}")
    part = portion(request, Decimal(f"{share:.5f}"))
    charge = draw(part)
    assert charge.epsilon <= request.epsilon
    assert Fraction(charge.sensitivity) / Fraction(charge.noise_scale) <= Fraction(charge.mu)
    assert float(charge.mu) ** 2 <= share * float(mu_of(request)) ** 2 * 1.01
    assert delta_of(float(charge.mu), float(charge.epsilon)) <= float(charge.delta) * (1 + 1e-6) + 1e-15


def test_the_total_is_on_the_safe_side_of_dp_accounting() -> None:
    """Two thousand random runs of one to six draws (seed 4): never below its closed form, at most 1% above."""
    from dp_accounting import get_epsilon_gaussian

    rng = np.random.default_rng(4)
    for _ in range(2_000):
        mus = np.exp(rng.uniform(-5, 1, rng.integers(1, 7)))
        delta = Decimal(f"{10 ** rng.uniform(-12, -2):.3g}")
        exact = [Decimal(f"{mu:.10g}") for mu in mus]
        ours = float(epsilon_of(composed(exact), delta))
        theirs = float(get_epsilon_gaussian(1 / math.sqrt(sum(float(mu) ** 2 for mu in exact)), float(delta)))
        assert theirs * (1 - 1e-9) - 1e-12 <= ours <= theirs * 1.01 + 1e-12


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(Scope)), st.integers(1, 50)), min_size=2, max_size=8))
def test_halves_compose_by_what_the_worst_unit_meets(draws: list[tuple[Scope, int]]) -> None:
    """Unit by unit; the mean over halves and forgetting one of them both say too little."""
    request = cost("1")
    whole = mu_of(request)
    charges = [
        draw(GaussianCost(epsilon=Decimal(1), delta=request.delta, mu=whole * part / 60), str(i), scope)
        for i, (scope, part) in enumerate(draws)
    ]
    worst = max(sum(c.mu**2 for c in charges if c.scope in ("all", half)) for half in ("train", "estimation"))
    if compose(charges).epsilon <= request.epsilon and compose(charges).delta <= request.delta:
        return
    try:
        fits = total(charges, request).epsilon <= request.epsilon
    except StudyError:
        fits = False
    assert fits == (worst <= whole**2 * (1 + Decimal("1e-9")))


def test_a_mixture_leaves_gaussian_draws_what_the_others_do_not_take() -> None:
    request = cost("1", "1e-6")
    pure = m.L2Laplace(m.Sensitivity(1.0, Norm.l2, "S"), cost("0.4", "0")).charge(m.Slot("p", Scope.all))
    parts = divide(cost("0.6", "1e-6"), {"a": Decimal("0.5"), "b": Decimal("0.5")})
    drawn = [pure, draw(parts["a"], "a"), draw(parts["b"], "b")]
    assert total(drawn, request) == request
    wider = [pure, *(draw(portion(cost("0.9", "1e-6"), Decimal("0.5")), name) for name in "ab")]
    assert total(wider, request) != request


def test_without_delta_shares_are_of_epsilon_and_the_last_takes_the_rest() -> None:
    # The part of a has eight digits and is rounded down to six, so that b has more than its share.
    parts = divide(cost("0.7", "0"), {"a": Decimal("0.12345678"), "none": Decimal(0), "b": Decimal("0.87654322")})
    assert set(parts) == {"a", "b"}
    assert parts["a"].epsilon + parts["b"].epsilon == Decimal("0.7")
    assert not any(isinstance(part, GaussianCost) for part in parts.values())


@pytest.mark.parametrize(
    "shares",
    [{}, {"a": "0.5"}, {"a": "0.6", "b": "0.6"}, {"a": "1.5", "b": "-0.5"}],
    ids=["none", "less", "more", "sign"],
)
def test_shares_that_are_none_are_refused(shares: dict[str, str]) -> None:
    with pytest.raises(StudyError, match="add up to 1"):
        divide(cost("1"), {name: Decimal(share) for name, share in shares.items()})
    with pytest.raises(StudyError):
        portion(cost("1"), Decimal("1.2"))


def test_costs_that_no_gaussian_draw_can_have_are_refused() -> None:
    with pytest.raises(StudyError):
        mu_of(cost("1", "0"))
    with pytest.raises(StudyError):
        mu_of(cost("1e-20", "1e-9"))
    with pytest.raises(CausalveilError):
        epsilon_of(Decimal(1), Decimal(0))
    with pytest.raises(ValueError, match="mu"):
        GaussianCost(epsilon=1, delta="1e-6", mu=0)
    with pytest.raises(ValueError, match="mu"):
        GaussianCost(epsilon=1, delta="1e-6", mu="NaN")
    with pytest.raises(CausalveilError):
        m.Gaussian(m.Sensitivity(1.0, Norm.l2, "S"), cost("1"))
