"""Black-box audits of whole runs: what all draws together tell of the worst unit, and mutants of the account.

Seed 11, 400,000 runs of each world; a false alarm once in 10^4. The statistic is the likelihood ratio of all draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pytest
from scipy import stats

from causalveil.schemas.privacy import Charge, GaussianCost, Norm, PrivacyCost, Scope
from causalveil.tasks.privacy import mechanisms as m
from causalveil.tasks.privacy.accountant import total
from causalveil.tasks.privacy.gaussian import divide, mu_of, portion
from tests.audit import epsilon_lower_bound

REQUEST = PrivacyCost(epsilon=Decimal(1), delta=Decimal("1e-3"))
RUNS = 400_000
S = 2.0


def declared(model: PrivacyCost, effect: PrivacyCost) -> list[Charge]:
    """A run of two models of the training half, and one effect of all."""

    def charge(part: PrivacyCost, name: str, scope: Scope) -> Charge:
        return m.vector_mechanism(m.Sensitivity(S, Norm.l2, "2"), part).charge(m.Slot(name, scope))

    return [*(charge(model, f"model-{k}", Scope.train) for k in (1, 2)), charge(effect, "effect", Scope.all)]


def found(charges: Sequence[Charge]) -> float:
    """A lower bound on epsilon for a person of the training half, who moves every sum by the whole sensitivity."""
    rng = np.random.default_rng(11)
    ratio = {}
    for world in (0.0, 1.0):
        statistic = np.zeros(RUNS)
        for charge in charges:
            drawn = rng.normal(S * world, charge.noise_scale or math.nan, RUNS)
            statistic += S * (drawn - S / 2) / (charge.noise_scale or math.nan) ** 2
        ratio[world] = statistic
    return epsilon_lower_bound(ratio[1.0], ratio[0.0], float(REQUEST.delta), 1 - 1e-4)


def test_a_run_keeps_its_request_and_is_close_to_it() -> None:
    parts = divide(REQUEST, {"one": Decimal("0.3"), "other": Decimal("0.3"), "effect": Decimal("0.4")})
    run = declared(parts["one"], parts["effect"])
    assert total(run, REQUEST) == REQUEST
    bound = found(run)
    assert 0.8 <= bound <= 1.0


def test_who_meets_most_decides_what_a_run_costs() -> None:
    """Two draws of one half and a small one of the other: the first half keeps all of the request."""
    parts = divide(REQUEST, {"one": Decimal("0.5"), "other": Decimal("0.5")})
    draws = [
        (Scope.train, parts["one"]),
        (Scope.train, parts["other"]),
        (Scope.estimation, portion(REQUEST, Decimal("0.01"))),
    ]
    sensitivity = m.Sensitivity(S, Norm.l2, "2")
    run = [m.vector_mechanism(sensitivity, cost).charge(m.Slot(str(k), scope)) for k, (scope, cost) in enumerate(draws)]
    assert 0.99 <= float(total(run, REQUEST).epsilon) <= 1
    assert float(total(run[2:], REQUEST).epsilon) < 0.2


def mean_over_halves() -> list[Charge]:
    """Charges added up as the average over the halves, as if each unit met one of the two models."""
    return declared(portion(REQUEST, Decimal("0.6")), portion(REQUEST, Decimal("0.4")))


def mu_for_its_square() -> list[Charge]:
    """Shares s of mu^2 drawn at s of mu's own budget, sqrt(mu): mu_i = mu * s^(1/4)."""
    whole, alone = mu_of(REQUEST), REQUEST.epsilon
    costs = [
        GaussianCost(epsilon=alone, delta=REQUEST.delta, mu=round(whole * Decimal(share).sqrt().sqrt(), 12))
        for share in ("0.3", "0.4")
    ]
    return declared(*costs)


@pytest.mark.parametrize("mutant", [mean_over_halves, mu_for_its_square], ids=lambda f: f.__name__)
def test_a_mutant_is_caught_by_attack_and_by_the_account(mutant: object) -> None:
    run = mutant()  # type: ignore[operator]
    assert found(run) > 1.0
    assert total(run, REQUEST).epsilon > REQUEST.epsilon


def test_the_audit_s_yardstick() -> None:
    """The bound of one draw at mu of the request is near the truth, by the closed form."""
    mu = float(mu_of(REQUEST))
    delta = stats.norm.cdf(mu / 2 - 1 / mu) - math.exp(1) * stats.norm.cdf(-mu / 2 - 1 / mu)
    assert delta == pytest.approx(1e-3, rel=1e-6)
