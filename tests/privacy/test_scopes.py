"""Cross-fitting's charges: what a unit of each fold pays is counted unit by unit, and compose agrees."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from causalveil.flows.estimators.aipw import AIPW
from causalveil.schemas.privacy import Charge, GaussianCost, Norm, PrivacyCost, Scope
from causalveil.tasks.data.split import sizes_of
from causalveil.tasks.estimate.papers.aipw.stages import known_recipe
from causalveil.tasks.privacy.accountant import compose, epsilon_pld, total
from causalveil.tasks.privacy.gaussian import mu_of
from tests.aipw_help import make_aipw


def charge(epsilon: Decimal, scope: Scope, name: str) -> Charge:
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


def paid(charges: list[Charge], fold: int, folds: int) -> Decimal:
    """What a unit of `fold`, from 1, pays, by reading each scope as a sentence."""
    met = [c for c in charges if c.scope == "all" or c.scope != f"all but fold {fold} of {folds}"]
    return sum((c.epsilon for c in met), Decimal(0))


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 6), st.data())
def test_compose_is_what_the_worst_unit_pays(folds: int, data: st.DataObject) -> None:
    scopes = [Scope.all, *(Scope.without_fold(k, folds) for k in range(1, folds + 1))]
    draws = data.draw(st.lists(st.tuples(st.sampled_from(scopes), st.integers(1, 50)), min_size=1, max_size=8))
    charges = [charge(Decimal(amount) / 100, scope, str(i)) for i, (scope, amount) in enumerate(draws)]
    assert compose(charges).epsilon == max(paid(charges, fold, folds) for fold in range(1, folds + 1))


@pytest.mark.parametrize("folds", [2, 3, 5])
@pytest.mark.parametrize("units", [None, 300, 40_000])
@pytest.mark.parametrize("delta", ["1e-6", "0"])
def test_a_unit_pays_for_all_models_but_its_own(folds: int, units: int | None, delta: str) -> None:
    """(K - 1) sum mu_model^2 + mu_scores^2 is the request's mu^2; without delta the same of epsilon, exactly."""
    study = make_aipw(3, folds=folds, delta=delta, epsilon="0.7")
    sizes = None if units is None else sizes_of(study, units)
    made, charges = known_recipe(study, sizes), AIPW.declare(study, sizes)
    request = PrivacyCost(epsilon=Decimal("0.7"), delta=Decimal(delta))
    assert total(charges, request) == request
    models = [_measure(cost) for cost in made.folds[0].costs.values()]
    effect = _measure(made.scores)
    whole = request.epsilon if delta == "0" else mu_of(request) ** 2
    assert 0 <= whole - ((folds - 1) * sum(models) + effect) <= whole * Decimal("1e-10")
    assert len(charges) == folds * len(models) + 1
    if units is not None:
        assert epsilon_pld(charges, Decimal(delta)) <= 0.7
    # Charged as if folds were disjoint, K = 2 would look half as dear and K = 5 four times cheaper than it is.
    assert whole > max(models) * (1 if folds == 2 else 2)


def _measure(cost: PrivacyCost) -> Decimal:
    """What adds up: mu^2, or epsilon where there is no delta."""
    return cost.mu**2 if isinstance(cost, GaussianCost) else cost.epsilon


def test_a_halves_scope_and_a_folds_scope_cross() -> None:
    one, other = charge(Decimal("0.1"), Scope.train, "a"), charge(Decimal("0.2"), Scope.without_fold(1, 2), "b")
    assert compose([one, other]).epsilon == Decimal("0.3")


def test_scopes_are_their_text_and_nothing_else_is_one() -> None:
    adapter = TypeAdapter(Scope)
    scope = Scope.without_fold(2, 3)
    assert scope == "all but fold 2 of 3"
    assert adapter.validate_json(adapter.dump_json(scope)) is scope
    assert scope.parts == {"fold 1 of 3", "fold 3 of 3"}
    assert Scope("train") is Scope.train
    for text in ("fold 1 of 2", "all but fold 3 of 2", "all but fold 1 of 1", "all but fold 0 of 2", "everyone", ""):
        with pytest.raises(ValidationError):
            adapter.validate_python(text)
