"""Our accounts beside those of OpenDP and dp-accounting: on the safe side of both, and hardly above."""

from __future__ import annotations

import itertools
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pytest
from opendp import combinators, domains, measurements, measures, metrics, mod
from opendp.mod import OpenDPException

from causalveil.schemas.privacy import Accounting, Charge, Norm, PrivacyCost, Scope
from causalveil.tasks.privacy import mechanisms as m
from causalveil.tasks.privacy.concentrated import epsilon_of_rho, rho_of
from causalveil.tasks.privacy.ledger.accounts import Cap, Use, use_of

SPACE = domains.atom_domain(T=float, nan=False), metrics.absolute_distance(T=float)
CAP = PrivacyCost(epsilon=Decimal(4), delta=Decimal("1e-5"))


def gaussian(epsilon: str) -> Charge:
    mechanism = m.GaussianAnalytic(
        m.Sensitivity(1.0, Norm.l2, "1"), PrivacyCost(epsilon=Decimal(epsilon), delta=Decimal("1e-6"))
    )
    return mechanism.charge(m.Slot("effect", Scope.all))


def laplace(epsilon: str) -> Charge:
    mechanism = m.Laplace(m.Sensitivity(1.0, Norm.l1, "1"), PrivacyCost(epsilon=Decimal(epsilon), delta=Decimal(0)))
    return mechanism.charge(m.Slot("effect", Scope.all))


@cache
def theirs(scale: float, *, pure: bool = False) -> Any:
    """OpenDP's mechanism of the same noise scale, for a shift of 1."""
    return (measurements.make_laplace if pure else measurements.make_gaussian)(*SPACE, scale=scale)


@pytest.fixture(autouse=True)
def _features() -> None:
    mod.enable_features("contrib")


def ledgers(seed: int, count: int, make: Any, low: float, high: float) -> list[list[Charge]]:
    """Random ledgers of one to three draws out of fifty."""
    rng = np.random.default_rng(seed)
    pool = [make(f"{epsilon:.4g}") for epsilon in np.exp(rng.uniform(np.log(low), np.log(high), 50))]
    return [[pool[k] for k in rng.integers(50, size=rng.integers(1, 4))] for _ in range(count)]


def test_rho_is_on_the_safe_side_of_opendp_s_fully_adaptive_odometer() -> None:
    """Two thousand random ledgers (seed 11): never below its sum, at most a billionth above."""
    odometer = combinators.make_fully_adaptive_composition(*SPACE, measures.zero_concentrated_divergence())
    for drawn in ledgers(11, 2_000, gaussian, 0.05, 5):
        queryable = odometer(0.0)
        for charge in drawn:
            queryable(theirs(charge.noise_scale))
        loss = queryable.privacy_loss(1.0)
        ours = float(sum((rho_of(charge) for charge in drawn), Decimal(0)))
        assert loss * (1 - 1e-14) <= ours <= loss * (1 + 1e-9)


def test_sums_of_epsilon_are_on_the_safe_side_of_opendp_s() -> None:
    """The same of a thousand ledgers without delta (seed 12)."""
    odometer = combinators.make_fully_adaptive_composition(*SPACE, measures.max_divergence())
    for drawn in ledgers(12, 1_000, laplace, 0.01, 5):
        queryable = odometer(0.0)
        for charge in drawn:
            queryable(theirs(charge.noise_scale, pure=True))
        ours = float(sum((charge.epsilon for charge in drawn), Decimal(0)))
        assert queryable.privacy_loss(1.0) * (1 - 1e-12) <= ours <= queryable.privacy_loss(1.0) * (1 + 1e-9)


def test_a_cap_ends_where_opendp_s_filter_does() -> None:
    """Fifteen orders of draws (seed 13) until ours refuses: what it admits OpenDP's filter of the same rho admits, and
    where it refuses the other does, unless the sum is within a billionth of the cap."""
    cap, rng = Cap(CAP, Accounting.concentrated), np.random.default_rng(13)
    pool = [gaussian(f"{epsilon:.4g}") for epsilon in np.exp(rng.uniform(-2, 0.5, 50))]
    limit, ends = float(cap.rho(Use())), []
    odometer = combinators.make_fully_adaptive_composition(*SPACE, measures.zero_concentrated_divergence())
    for _ in range(15):
        queryable, used = combinators.make_privacy_filter(odometer, d_in=1.0, d_out=limit)(0.0), Use()
        for step in itertools.count():
            charge = pool[rng.integers(50)]
            asked = use_of([charge], PrivacyCost(epsilon=charge.epsilon, delta=charge.delta))
            if cap.excess(used, asked) is None:
                queryable(theirs(charge.noise_scale))
                used = used.plus(asked)
                continue
            if float(used.rho + asked.rho) > limit * (1 + 1e-9):
                with pytest.raises(OpenDPException, match="exhausted"):
                    queryable(theirs(charge.noise_scale))
            ends.append(step)
            break
    assert min(ends) >= 1
    assert max(ends) > 5


def test_epsilon_of_an_account_is_that_of_dp_accounting_s_renyi_accountant() -> None:
    """A hundred and fifty random ledgers (seed 14), within 1%: theirs is the least over a grid of
    orders."""
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    orders = list(1 + np.exp(np.arange(np.log(0.01), np.log(2_000), 0.05)))
    for drawn in ledgers(14, 150, gaussian, 0.05, 5):
        accountant = RdpAccountant(orders)
        for charge in drawn:
            accountant.compose(GaussianDpEvent(float(charge.noise_scale)))
        ours = float(epsilon_of_rho(sum((rho_of(charge) for charge in drawn), Decimal(0)), CAP.delta))
        their_epsilon = accountant.get_epsilon(float(CAP.delta))
        assert their_epsilon * 0.99 <= ours <= their_epsilon * 1.01
