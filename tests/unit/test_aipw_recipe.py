"""What a budget is spent on: decided by public sizes, exactly divided, and refused where it makes no sense."""

from __future__ import annotations

import pytest

from causalveil.flows.estimators.aipw import AIPW
from causalveil.schemas.errors import StudyError
from causalveil.schemas.privacy import Scope
from causalveil.tasks.aipw.decide import recipe
from causalveil.tasks.enclave.sizes import sizes_of
from causalveil.tasks.privacy.division import mu_of
from tests.aipw_help import make_aipw, make_difference


def made(n: int | None, p: int = 2, **changes: object) -> object:
    study = make_aipw(p, **changes)
    return recipe(study, None if n is None else sizes_of(study, n))


def test_more_units_let_more_be_learnt() -> None:
    small, middle, large = (made(n, p=10, epsilon="0.5") for n in (1_000, 20_000, 100_000_000))
    assert (small.slopes_cost, small.penalty) == (None, None)
    assert middle.slopes_cost is not None
    assert middle.penalty is None
    assert large.slopes_cost is not None
    assert large.penalty is not None
    assert large.residuals > small.residuals
    unknown = made(None)
    assert unknown.sizes is None
    assert unknown.penalty is not None


def test_declared_shares_are_spent_as_declared() -> None:
    shares = {"propensity": "0.25", "outcome_model": "0.25", "effect": "0.5"}
    for n in (500, 1_000_000):
        study = make_aipw(10, budget_shares=shares)
        charges = {charge.name: charge for charge in AIPW.declare(study, sizes_of(study, n))}
        whole = mu_of(study.privacy.cost)
        assert float(charges["effect"].mu ** 2 / whole**2) == pytest.approx(0.5, rel=1e-10)
        propensity = charges["share-1" if n == 500 else "propensity-1"]
        assert float(propensity.mu**2 / whole**2) == pytest.approx(0.25, rel=1e-10)
        assert propensity.scope == Scope.without_fold(1, 2)


def test_a_declared_penalty_is_used_and_a_known_score_costs_nothing() -> None:
    assert made(500, propensity={"penalty": 0.2}).penalty == 0.2
    known = made(500, propensity={"known": 0.5})
    assert known.propensity_cost is None
    assert float(known.effect_cost.mu**2 / mu_of(make_aipw(2).privacy.cost) ** 2) == pytest.approx(0.9, rel=1e-10)
    study = make_aipw(2, propensity={"known": 0.5})
    charges = AIPW.declare(study, sizes_of(study, 500))
    assert charges
    assert not [charge for charge in charges if charge.stage == "propensity"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"estimand": "ATT"}, "ATT and ATC are"[:3]),
        ({"level": "label"}, "no label level"),
        ({"level": "training_units"}, "no training_units level"),
        ({"folds": 1}, "folds"),
        ({"folds": 11}, "folds"),
        ({"propensity": {"known": 1.0}}, "known"),
        ({"propensity": {"known": 0.5, "penalty": 0.1}}, "no model, penalty or clip"),
        ({"propensity": {"model": "forest"}}, "finite_sample"),
        ({"outcome_model": {"model": "os.system"}}, "outcome_model.model"),
        ({"outcome_model": {"model": "kernel_ridge"}}, "finite_sample"),
        ({"outcome_model": {"radius": 0}}, "radius"),
        ({"budget_shares": {"propensity": "0.5", "outcome_model": "0.5", "effect": "0.5"}}, "add up to 1"),
        ({"budget_shares": {"propensity": "0.5", "outcome_model": "0.5", "effect": "0"}}, "above 0"),
        (
            {
                "propensity": {"known": 0.5},
                "budget_shares": {"propensity": "0.2", "outcome_model": "0.3", "effect": "0.5"},
            },
            "must be 0",
        ),
        ({"guarantee": "asymptotic", "delta": "0"}, "delta above 0"),
    ],
)
def test_what_cannot_be_proved_is_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(StudyError, match=says):
        make_aipw(2, **changes)


def test_too_few_units_are_refused() -> None:
    with pytest.raises(StudyError, match="too few for 5 folds"):
        made(9, folds=5)


def test_the_difference_knows_its_limits() -> None:
    for changes, says in (({"estimand": "ATC"}, "ATE"), ({"level": "training_units"}, "no meaning")):
        with pytest.raises(StudyError, match=says):
            make_difference(**changes)
