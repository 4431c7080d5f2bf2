"""Sensitivities of AIPW and of the difference in means: constructed pairs of tables attain them, or nearly.

Hypothesis tries scores by any models. `test_every_sensitivity.py` searches for pairs that break the others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causalveil.tasks.aipw import outcome_model
from causalveil.tasks.aipw.decide import recipe
from causalveil.tasks.aipw.outcome_model import ArmSummary, OutcomeModel
from causalveil.tasks.aipw.recipe import APART_WEIGHT, MEANS_WEIGHT, Recipe
from causalveil.tasks.aipw.scores import Nuisances, score_range, score_sums
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.enclave.sizes import sizes_of
from causalveil.tasks.trial import difference
from tests.aipw_help import in_memory, make_aipw, make_difference
from tests.neighbours import neighbour

unit = st.floats(-1, 1, allow_nan=False)
corner = st.one_of(unit, st.sampled_from([-1.0, 0.0, 1.0]))
ARMS = ArmSummary(0.5, 0.0, (0.1, -0.2), (0.0, 0.0), 0.25)


@st.composite
def table(draw: st.DrawFn, size: int, d: int = 3) -> Rows:
    """Rows anywhere in the unit ball with an intercept of 0.1, corners preferred."""
    x = np.array(draw(st.lists(st.lists(corner, min_size=d - 1, max_size=d - 1), min_size=size, max_size=size)))
    x = x.reshape(size, d - 1) / np.maximum(1.0, np.linalg.norm(x.reshape(size, d - 1), axis=1, keepdims=True))
    x = np.column_stack([x * math.sqrt(0.99), np.full(size, 0.1)]) * (1 - 2.0**-40)
    t = np.array(draw(st.lists(st.sampled_from([0, 1]), min_size=size, max_size=size)), dtype=np.uint8)
    return Rows(x, t, np.array(draw(st.lists(corner, min_size=size, max_size=size))))


def plan(delta: str = "1e-6", n: int = 100_000, radius: float = 0.5) -> Recipe:
    """Without delta of a study that allows for nothing: beside an allowance it would learn no slopes."""
    none: dict[str, Any] = {"confounding_prior": {"outcome_r2": 0, "distance": 0}} if delta == "0" else {}
    study = make_aipw(2, delta=delta, outcome_model={"model": "ridge", "radius": radius}, **none)
    found = recipe(study, sizes_of(study, n))
    assert found.slopes_cost is not None
    return found


def bound(mechanism: object) -> float:
    value = mechanism.sensitivity.value
    assert value is not None
    return value


def row(z: list[float], t: int, u: float) -> Rows:
    return Rows(np.array([[*z, 0.05]]) * (1 - 2.0**-40), np.array([t], np.uint8), np.array([u]))


def test_bounds_on_sums_are_nearly_attained() -> None:
    made, pure = plan(), plan("0")
    # Opposite residuals of rows at the angle of the proof; without second moments, of opposite rows.
    cosine = (1 - MEANS_WEIGHT**2) / (1 + APART_WEIGHT**2)
    turned = row([0.9 * cosine, 0.9 * math.sqrt(1 - cosine**2)], 1, -1.0)
    pairs = {
        "arms": (row([0.9, 0], 1, 1.0), row([0.9, 0], 1, -1.0)),
        "slopes": (row([0.9, 0], 1, 1.0), turned),
        "pure": (row([0.9, 0], 1, 1.0), row([-0.9, 0], 1, 1.0)),
    }
    found = {
        "arms": [outcome_model.arm_sums(in_memory([r])) for r in pairs["arms"]],
        "slopes": [outcome_model.slope_sums(in_memory([r]), ARMS, made) for r in pairs["slopes"]],
        "pure": [outcome_model.slope_sums(in_memory([r]), ARMS, pure) for r in pairs["pure"]],
    }
    mechanisms = {
        "arms": (made.arm_sums_mechanism(0), 0.9999),
        # Half of what lies within ranges: who is within all of them has no covariates of full length.
        "slopes": (made.slopes_mechanism(0), 0.9975),
        "pure": (pure.slopes_mechanism(0), 0.999),
    }
    for name, (mechanism, least) in mechanisms.items():
        distance = np.linalg.norm(found[name][0] - found[name][1])
        assert least * bound(mechanism) <= distance <= bound(mechanism)
    # The other corners of the proof for the arms: another arm.
    one, two = (outcome_model.arm_sums(in_memory([r])) for r in (row([0, 0], 1, 1.0), row([0, 0], 0, -1.0)))
    assert np.linalg.norm(one - two) >= 0.98 * bound(made.arm_sums_mechanism(0))


def test_the_difference_bound_is_attained() -> None:
    study = make_difference()
    one, two = (difference.sums(in_memory([r])) for r in (row([0, 0], 1, 1.0), row([0, 0], 0, 1.0)))
    assert np.linalg.norm(one - two) == pytest.approx(2.0)
    one, two = (difference.sums(in_memory([r])) for r in (row([0, 0], 1, 1.0), row([0, 0], 1, -1.0)))
    assert np.linalg.norm(one - two) == pytest.approx(2.0)
    assert bound(difference.mechanism(study, sizes_of(study, 2))) >= 2


slopes = st.lists(st.floats(-2, 2), min_size=2, max_size=2).map(np.array)


@st.composite
def nuisances(draw: st.DrawFn) -> Nuisances:
    """Any models that could have been released."""
    constants = (draw(st.floats(-1.5, 1.5)), draw(st.floats(-1.5, 1.5)))
    limit, middle = draw(st.sampled_from([0.0, 0.3, 2.0])), draw(st.floats(-3, 3))
    model = OutcomeModel(constants, draw(slopes), limit, 0.5, 1.0, middle=middle)
    weights = draw(st.one_of(st.none(), st.lists(st.floats(-20, 20), min_size=3, max_size=3).map(np.array)))
    return Nuisances(model, draw(st.floats(0.01, 0.99)), weights)


@settings(max_examples=400, deadline=None)
@given(st.data(), st.integers(2, 4), nuisances())
def test_score_sums_of_neighbours_are_as_close_as_declared(data: st.DataObject, n: int, models: Nuisances) -> None:
    study = make_aipw(2)
    rows, other = data.draw(table(n)), data.draw(table(1))
    reach = score_range(study, [models])
    one, two = (score_sums(study, [in_memory([t])], [models], reach) for t in (rows, neighbour(rows, other)))
    made = recipe(study, sizes_of(study, 4))
    assert np.linalg.norm(one - two) <= bound(made.effect_mechanism())


def test_the_score_bound_is_attained() -> None:
    """v = 1 against v = -1: two controls with outcomes at the two ends, scored by arm means of zero."""
    study = make_aipw(2)
    models = Nuisances(OutcomeModel((0.0, 0.0), np.zeros(2), 0.0, 1.0, 0.0), 0.5)
    reach = score_range(study, [models])
    sums = [score_sums(study, [in_memory([row([0, 0], 0, u)])], [models], reach) for u in (1.0, -1.0)]
    made = recipe(study, sizes_of(study, 4))
    assert 0.999 * bound(made.effect_mechanism()) <= np.linalg.norm(sums[0] - sums[1])


def test_a_trained_units_share_moves_by_one() -> None:
    shares = {"propensity": "0.2", "outcome_model": "0.4", "effect": "0.4"}
    study = make_aipw(30, budget_shares=shares)
    mechanism = recipe(study, sizes_of(study, 400)).treated_count_mechanism(0)
    assert mechanism is not None
    assert bound(mechanism) == 1.0
