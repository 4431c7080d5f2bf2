"""Accounts over runs: how many fit, what is refused, and that an adaptive analyst cannot pass a cap."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from causalveil.schemas.contract import Contract
from causalveil.schemas.errors import BudgetRefused, ContractError, LedgerError
from causalveil.schemas.ledger import Reservation
from causalveil.schemas.privacy import Accounting, Charge, Norm, PrivacyCost, Scope
from causalveil.tasks.privacy import mechanisms as m
from causalveil.tasks.privacy.accountant import concentrate
from causalveil.tasks.privacy.concentrated import rho_of_cap, rho_of_epsilon
from causalveil.tasks.privacy.gaussian import mu_of
from causalveil.tasks.privacy.ledger.accounts import Cap, Use, use_of
from causalveil.tasks.privacy.ledger.ledger import Ledger
from causalveil.tasks.privacy.mechanisms import StableRelease
from tests.ledger_help import budget, contract, reservation, value


def cost(epsilon: str, delta: str = "1e-6") -> PrivacyCost:
    return PrivacyCost(epsilon=Decimal(epsilon), delta=Decimal(delta))


def gaussian(epsilon: str = "0.2", delta: str = "1e-6", name: str = "effect") -> Charge:
    mechanism = m.GaussianAnalytic(m.Sensitivity(2.0, Norm.l2, "2"), cost(epsilon, delta))
    return mechanism.charge(m.Slot(name, Scope.all))


def stable(epsilon: str, delta: str) -> Charge:
    return StableRelease(cost(epsilon, delta)).charge(m.Slot("ranks", Scope.all))


def owner(epsilon: str = "10", delta: str = "1e-4", **more: Any) -> Contract:
    return contract(epsilon, delta, accounting="concentrated", **more)


def request(run_id: str, *charges: Charge, by: Contract, **more: Any) -> Reservation:
    return reservation(run_id, charges=charges, contract=by, **more)


@pytest.mark.parametrize(("epsilon", "basic", "concentrated"), [("0.2", 50, 1526), ("1", 10, 75)])
def test_how_many_studies_fit_under_a_cap(epsilon: str, basic: int, concentrated: int) -> None:
    run = use_of([gaussian(epsilon)], cost(epsilon))
    for accounting, fits in ((Accounting.basic, basic), (Accounting.concentrated, concentrated)):
        cap = Cap(cost("10", "1e-4"), accounting)
        assert cap.fits(Use(), run) == fits
        many = Use(*(amount * fits for amount in (run.epsilon, run.delta, run.rho, run.tested)))
        assert cap.excess(Use(), many) is None
        assert cap.excess(many, run) is not None
        assert cap.epsilon(many) <= 10
        assert cap.share_left(many) < 0.02


def test_a_cap_without_delta_is_basic_whatever_the_policy_says() -> None:
    cap = Cap(cost("1", "0"), Accounting.concentrated)
    assert not cap.concentrated
    assert cap.fits(Use(), Use(Decimal("0.1"), Decimal(0), Decimal(7), Decimal(0))) == 10


def test_the_ledger_admits_as_many_as_fit_and_verifies(ledger: Ledger, tmp_path: Any) -> None:
    by = owner("1", "1e-5")
    ledger.grant(by, "opening")
    fits = Cap(by.caps["sample"], Accounting.concentrated).fits(Use(), use_of([gaussian("0.4")], cost("0.4")))
    assert fits == 6
    for number in range(fits):
        run = request(f"run-{number}", gaussian("0.4"), by=by)
        ledger.reserve(run, by)
        budget(ledger, run, tmp_path).spend(run.charges[0], value(1.0))
    with pytest.raises(BudgetRefused, match=r"rho spent or reserved .*, remaining .* \(epsilon .* of 1 at"):
        ledger.reserve(request("late", gaussian("0.4"), by=by), by)
    assert ledger.verify().runs == fits
    (block,) = ledger.account("trial").blocks
    assert block.rho is not None
    assert block.rho.spent == fits * concentrate([gaussian("0.4")]).rho
    assert block.rho.granted == rho_of_cap(Decimal(1), Decimal("1e-5"))
    assert (block.rho.reserved, block.spent.delta) == (0, 0)
    assert 0.8 < block.spent.epsilon <= 1
    ledger.void("run-0", "drawn, so nothing is freed")
    assert ledger.account("trial").blocks[0].rho == block.rho


def test_tests_spend_delta_and_leave_less_rho(ledger: Ledger) -> None:
    by = owner("1", "1e-5")
    ledger.grant(by, "opening")
    ledger.reserve(request("first", stable("0.1", "9e-6"), by=by), by)
    (block,) = ledger.account("trial").blocks
    assert block.rho is not None
    assert block.rho.granted == rho_of_cap(Decimal(1), Decimal("1e-6"))
    assert block.remaining.delta == Decimal("1e-6")
    with pytest.raises(BudgetRefused, match="delta of tests spent or reserved"):
        ledger.reserve(request("second", stable("0.1", "2e-6"), by=by), by)
    ledger.reserve(request("third", gaussian("0.2", "1e-5"), by=by), by)
    ledger.verify()


def test_an_account_with_runs_is_not_converted(ledger: Ledger) -> None:
    by = owner("1", "1e-5")
    ledger.grant(contract("1", "1e-5"), "opening")
    ledger.grant(by, "no run yet, so nothing is converted")
    ledger.reserve(request("first", gaussian(), by=by), by)
    before = ledger.verify()
    with pytest.raises(ContractError, match="cannot be converted"):
        ledger.grant(contract("1", "1e-5"), "back")
    assert ledger.verify() == before


def test_a_run_of_every_block_and_a_run_of_one_meet(ledger: Ledger) -> None:
    """A unit that may span blocks has one account; a block's account holds what was charged to all of them."""
    by = contract("0.3", "0")
    ledger.grant(by, "opening")
    pure = m.Laplace(m.Sensitivity(1.0, Norm.l1, "1"), cost("0.1", "0")).charge(m.Slot("a", Scope.all))
    for run_id, blocks in (("a", ("month=1",)), ("b", ("all",)), ("c", ("month=2",))):
        ledger.reserve(request(run_id, pure, by=by, blocks=blocks), by)
    with pytest.raises(BudgetRefused, match="block 'all'"):
        ledger.reserve(request("d", pure, by=by, blocks=("all",)), by)
    ledger.reserve(request("e", pure, by=by, blocks=("month=2",)), by)
    with pytest.raises(BudgetRefused, match="block 'month=2'"):
        ledger.reserve(request("f", pure, by=by, blocks=("month=2",)), by)
    assert ledger.verify().runs == 4


@pytest.mark.parametrize(
    "change",
    [
        {"noise_scale": 1.0},
        {"noise_scale": -1.0},
        {"noise_scale": 0.0},
        {"mu": Decimal("1e-9")},
        {"rho": Decimal("1e-9")},
        {"mechanism": "l2-laplace", "mu": None, "rho": Decimal("1e-9")},
    ],
    ids=str,
)
def test_a_charge_that_understates_itself_is_refused(ledger: Ledger, change: dict[str, Any]) -> None:
    by = owner()
    ledger.grant(by, "opening")
    honest = gaussian()
    with pytest.raises(BudgetRefused):
        ledger.reserve(request("run", honest.model_copy(update=change), by=by), by)
    assert ledger.account("trial").runs == ()


def test_amounts_that_are_none_are_refused() -> None:
    honest = gaussian().model_dump()
    for change in ({"mu": "NaN"}, {"rho": "-1"}, {"mu": "0." + "1" * 60}, {"rho": "Infinity"}):
        with pytest.raises(ValidationError):
            Charge.model_validate(honest | change)
    with pytest.raises(ValidationError, match="not finite"):
        request("run", gaussian().model_copy(update={"noise_scale": math.nan}), by=owner())


def test_a_cap_that_no_draw_fits_refuses_every_run(ledger: Ledger) -> None:
    by = owner("1e-12", "1e-29")
    ledger.grant(by, "opening")
    with pytest.raises(BudgetRefused, match="remaining"):
        ledger.reserve(request("run", gaussian(), by=by), by)
    assert ledger.verify().runs == 0


def test_a_ledger_of_an_older_version_is_refused_in_one_line(ledger: Ledger) -> None:
    by = contract()
    ledger.grant(by, "opening")
    body = {"reservation": reservation(contract=by).model_dump(), "cap": {"epsilon": "1", "delta": "1e-6"}}
    with ledger.store.write() as connection:
        ledger.store.append(connection, "reserve", dataset="trial", run_id="run-1", body=body)
    with pytest.raises(LedgerError, match=r"entry 3 was written by.*begin a new one"):
        ledger.verify()


# --- The adaptive analyst ------------------------------------------------------------------------------------------


def test_a_filter_of_loss_distributions_is_passed_where_rho_is_not() -> None:
    """Why epsilons of loss distributions are never added up over runs: an exact counterexample.

    Cap (1, 0.01). The first answer is randomised response of 0.1. Seen its "yes", the analyst asks a response of b,
    seen its "no" a mechanism that tells everything with a chance of 0.01. Either pair alone keeps the cap exactly, so
    a filter that composes what was really asked admits both. Together they spend delta = 0.01 (1 + P(no)).
    """
    epsilon, delta, first = 1.0, 0.01, 0.1
    yes = 1 / (1 + math.exp(-first))

    def stick(b: float, at: float) -> float:
        keep = 1 / (1 + math.exp(-b))
        return max(0.0, keep - math.exp(at) * (1 - keep)) + max(0.0, (1 - keep) - math.exp(at) * keep)

    low, high = 0.0, 3.0
    for _ in range(200):
        b = (low + high) / 2
        both = yes * stick(b, epsilon - first) + (1 - yes) * stick(b, epsilon + first)
        low, high = (b, high) if both < delta else (low, b)
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    grid = {"value_discretization_interval": 1e-5}
    one = pld.from_randomized_response(2 * (1 - yes), 2, **grid)
    second = pld.from_randomized_response(2 / (1 + math.exp(low)), 2, **grid)
    reveal = pld.from_privacy_parameters(common.DifferentialPrivacyParameters(0.0, delta), **grid)
    for pair in (one.compose(second), one.compose(reveal)):
        assert pair.get_delta_for_epsilon(epsilon) <= delta * 1.001
    spent = yes * stick(low, epsilon - first) + (1 - yes) * delta
    assert spent > 1.4 * delta
    # The account refuses the second branch, which spends all of the cap's delta, before it is asked.
    cap = Cap(cost("1", "0.01"), Accounting.concentrated)
    before = Use(Decimal("0.1"), rho=rho_of_epsilon(Decimal("0.1")))
    second = Use(delta=Decimal("0.01"), rho=rho_of_epsilon(Decimal(0)), tested=Decimal("0.01"))
    assert cap.excess(before, second) is not None


@pytest.mark.parametrize("appetite", ["bold when behind", "bold when ahead", "all at once", "stop when ahead"])
def test_an_adaptive_analyst_cannot_pass_the_cap(appetite: str) -> None:
    """Each budget is chosen after the last answer, of the worst mechanism there is for a rho, a Gaussian at its bound.

    200,000 analysts, seed 8: the hockey-stick divergence at the cap's epsilon is E (1 - exp(epsilon - loss))+; it stays
    below delta (four standard errors, a false alarm in 30,000). The account admits while rho fits; a mutant that
    takes mu for rho is caught by far.
    """
    cap = Cap(cost("1", "0.02"), Accounting.concentrated)
    limit = float(cap.rho(Use()))

    def spent(budget_of_mu: Any, limit: float) -> tuple[float, float]:
        rng = np.random.default_rng(8)
        loss, used = np.zeros(200_000), np.zeros(200_000)
        for step in range(25):
            left = limit - used
            bold, behind = 0.5 * left, loss < 0.5
            share = {
                "bold when behind": np.where(behind, bold, 0.02 * left),
                "bold when ahead": np.where(behind, 0.02 * left, bold),
                "all at once": left if step == 0 else np.zeros_like(left),
                "stop when ahead": np.where(loss < 1.0, 0.3 * left, 0.0),
            }[appetite]
            mu = budget_of_mu(share)
            loss += mu * mu / 2 + mu * rng.standard_normal(len(loss))
            used += share
        stick = np.maximum(0.0, 1 - np.exp(1.0 - loss))
        return float(stick.mean()), float(stick.std() / math.sqrt(len(stick)))

    mean, error = spent(lambda share: np.sqrt(2 * share), limit)
    assert mean <= 0.02 + 4 * error
    mutant, _ = spent(lambda share: np.sqrt(2 * np.sqrt(share)), limit)
    assert mutant > 0.04


def laplace(epsilon: str, name: str = "effect") -> Charge:
    mechanism = m.Laplace(m.Sensitivity(1.0, Norm.l1, "1"), cost(epsilon, "0"))
    return mechanism.charge(m.Slot(name, Scope.all))


def test_draws_without_delta_fit_by_their_sum_where_rho_would_not_do(ledger: Ledger) -> None:
    """Laplace noise of 4 costs a rho of 3.02, more than a cap of (10, 1e-4) is worth; two of them are (8, 0)-DP."""
    by = owner()
    ledger.grant(by, "opening")
    ledger.reserve(request("one", laplace("4"), by=by), by)
    ledger.reserve(request("two", laplace("4"), by=by), by)
    (row,) = ledger.account("trial").blocks
    assert (row.granted.epsilon, row.reserved.epsilon, row.rho) == (10, 8, None)
    assert row.share_left == pytest.approx(0.2)
    with pytest.raises(BudgetRefused, match=r"epsilon spent or reserved 8, requested 4, remaining 2 .*epsilon 2 fits"):
        ledger.reserve(request("three", laplace("4"), by=by), by)
    with pytest.raises(BudgetRefused, match=r"rho spent or reserved 6.03.* epsilon 2 fits"):
        ledger.reserve(request("noisy", gaussian("0.01"), by=by), by)
    ledger.reserve(request("rest", laplace("2"), by=by), by)
    assert ledger.verify().runs == 3


def test_what_is_refused_after_noise_with_delta_is_told_what_fits(ledger: Ledger) -> None:
    by = owner()
    ledger.grant(by, "opening")
    ledger.reserve(request("noisy", gaussian("1"), by=by), by)
    with pytest.raises(
        BudgetRefused, match=r"rho .*without delta, one draw of Laplace noise of epsilon 3\.041 fits"
    ) as told:
        ledger.reserve(request("four", laplace("4"), by=by), by)
    assert "\n" not in str(told.value)
    with pytest.raises(BudgetRefused):
        ledger.reserve(request("more", laplace("3.042"), by=by), by)
    ledger.reserve(request("fits", laplace("3.041"), by=by), by)


def test_many_small_draws_without_delta_fit_by_rho_where_their_sum_would_not_do() -> None:
    cap, run = Cap(cost("10", "1e-4"), Accounting.concentrated), use_of([laplace("0.1")], cost("0.1", "0"))
    assert cap.fits(Use(), run) > 400
    many = Use(run.epsilon * 400, Decimal(0), run.rho * 400, Decimal(0))
    assert cap.epsilon(many) < 10


@pytest.mark.parametrize("appetite", ["then noise when behind", "then noise when ahead", "noise first", "answers only"])
def test_an_analyst_who_may_use_either_filter_cannot_pass_the_cap(appetite: str) -> None:
    """Randomised responses of 0.1, the worst draws without delta, and Gaussian noise; cap (1, 0.002), ask in any order.

    400,000 analysts, seed 9; four standard errors, a false alarm in 30,000. The mutant keeps a purse for each filter
    and is caught.
    """
    cap, rng, count = Cap(cost("1", "0.002"), Accounting.concentrated), np.random.default_rng(9), 400_000
    rho, one = float(cap.rho(Use())), float(rho_of_epsilon(Decimal("0.1"), "randomised response"))
    assert 12 * one < rho < 40 * one

    def answers(number: int) -> Any:
        kept = rng.random((count, number)) < math.exp(0.1) / (1 + math.exp(0.1))
        return 0.1 * (2.0 * kept.sum(axis=1) - number)

    def noise(share: float) -> Any:
        return share + math.sqrt(2 * share) * rng.standard_normal(count)

    def stick(loss: Any) -> tuple[float, float]:
        value = np.maximum(0.0, 1 - np.exp(1.0 - loss))
        return float(value.mean()), float(value.std() / math.sqrt(count))

    first = answers(5)
    rest_of_rho, rest_of_sum = noise(rho - 5 * one), answers(5)
    loss = {
        "then noise when behind": first + np.where(first < 0.1, rest_of_rho, rest_of_sum),
        "then noise when ahead": first + np.where(first > 0.1, rest_of_rho, rest_of_sum),
        "noise first": noise(rho),
        "answers only": first + rest_of_sum,
    }[appetite]
    mean, error = stick(loss)
    assert mean <= 0.002 + 4 * error
    assert stick(noise(rho) + answers(10))[0] > 0.004


def test_a_share_of_the_cap_never_beats_its_own_epsilon() -> None:
    """One run that asks for the cap itself: Gaussian differential privacy is below zCDP, so it needs less than all."""
    request_of_cap = cost("1", "1e-5")
    run = use_of([gaussian("1", "1e-5")], request_of_cap)
    cap = Cap(request_of_cap, Accounting.concentrated)
    assert float(run.rho) == pytest.approx(float(mu_of(request_of_cap)) ** 2 / 2, rel=1e-6)
    assert cap.fits(Use(), run) in (0, 1)
