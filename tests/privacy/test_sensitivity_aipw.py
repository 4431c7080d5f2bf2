"""Sensitivities of AIPW's scores and of the difference in means: constructed pairs of tables attain them.

Hypothesis tries scores by any models. `test_every_sensitivity.py` searches for pairs that break these and the others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causalveil.tasks.aipw.recipe import KnownRecipe, OutcomeModel, known_recipe
from causalveil.tasks.aipw.stages import summed
from causalveil.tasks.enclave.enclave import Rows
from causalveil.tasks.enclave.split import sizes_of
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Mechanism
from tests.aipw_help import difference_mechanism, difference_sums, encode, in_memory, make_aipw, make_difference
from tests.neighbours import neighbour
from tests.property.test_score_range import models

unit = st.floats(-1, 1, allow_nan=False)
corner = st.one_of(unit, st.sampled_from([-1.0, 0.0, 1.0]))
PLAIN = OutcomeModel(0.5, (0.0, 0.0), 0.3, (), np.zeros(0), np.zeros((2, 0)), 0.0)


def row(z: list[float], t: int, u: float) -> Rows:
    return Rows(encode(np.array([z])), np.array([t], np.uint8), np.array([u]))


def bound(mechanism: Mechanism) -> float:
    value: Any = mechanism.sensitivity.value
    assert value is not None
    return float(value)


def plan(delta: str = "1e-6", units: int = 4) -> KnownRecipe:
    study = make_aipw(2, delta=delta)
    return known_recipe(study, sizes_of(study, units))


def sums(rows: Rows, model: OutcomeModel) -> FloatArray:
    return summed(plan(), [in_memory([rows])], [model], 1)


@st.composite
def table(draw: st.DrawFn, size: int) -> Rows:
    """Rows of the domain, corners preferred."""
    z = np.array(draw(st.lists(st.lists(corner, min_size=2, max_size=2), min_size=size, max_size=size)))
    t = np.array(draw(st.lists(st.sampled_from([0, 1]), min_size=size, max_size=size)), dtype=np.uint8)
    u = np.array(draw(st.lists(corner, min_size=size, max_size=size)))
    return Rows(encode(z.reshape(size, 2)), t, u)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(2, 4), models())
def test_score_sums_of_neighbours_are_as_close_as_declared(data: st.DataObject, n: int, model: OutcomeModel) -> None:
    rows, other = data.draw(table(n)), data.draw(table(1))
    one, two = (sums(each, model) for each in (rows, neighbour(rows, other)))
    assert np.linalg.norm(one - two) <= bound(plan().effect)
    assert np.abs(one - two).sum() <= bound(plan("0").effect)


def test_the_score_bound_is_attained() -> None:
    """v = 1 against v = -1: two controls with outcomes at the two ends, scored by arm means of zero."""
    one, two = (sums(row([0, 0], 0, u), PLAIN) for u in (1.0, -1.0))
    assert 0.999 * bound(plan().effect) <= np.linalg.norm(one - two)
    # In the L1 norm one of two scores is half way.
    one, two = (sums(row([0, 0], 0, u), PLAIN) for u in (1.0, -0.5))
    assert 0.999 * bound(plan("0").effect) <= np.abs(one - two).sum()


def test_a_narrower_range_than_was_proved_would_be_cut_and_not_break_the_bound() -> None:
    """Scores are cut to the range after all: that they lie in it is what makes them unbiased, not private."""
    wide = replace(PLAIN, means=(0.9, -0.9), chance=0.05)
    one, two = (sums(row([1, 1], t, u), wide) for t, u in ((1, -1.0), (0, 1.0)))
    assert np.linalg.norm(one - two) <= bound(plan().effect)


def test_the_difference_bound_is_attained() -> None:
    study = make_difference()
    one, two = (difference_sums(study, r) for r in (row([0, 0], 1, 1.0), row([0, 0], 0, 1.0)))
    assert np.linalg.norm(one - two) == pytest.approx(2.0)
    one, two = (difference_sums(study, r) for r in (row([0, 0], 1, 1.0), row([0, 0], 1, -1.0)))
    assert np.linalg.norm(one - two) == pytest.approx(2.0)
    assert bound(difference_mechanism(study, sizes_of(study, 2))) >= 2
