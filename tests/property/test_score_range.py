"""No row of the declared domain has a score outside the range that was proved, and the range is not idle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causalveil.tasks.estimate.adjust.features import LineFeature
from causalveil.tasks.estimate.papers.aipw.stages import OutcomeModel, common_range, expected_variance
from causalveil.tasks.estimate.papers.aipw.stages import Precision as Known
from causalveil.tasks.machine.arrays import FloatArray

ENDS = np.array([-1.0, 1.0])


@st.composite
def models(draw: st.DrawFn) -> OutcomeModel:
    """Any model that could have been released, of two columns."""
    numbers = st.floats(-3, 3)
    lines = tuple(LineFeature(place, ENDS, draw(st.floats(-6, 6)) * ENDS) for place in (0, 1))
    slopes = np.array(draw(st.lists(numbers, min_size=4, max_size=4))).reshape(2, 2)
    middle = np.array(draw(st.lists(numbers, min_size=2, max_size=2)))
    means = draw(st.floats(-1, 1)), draw(st.floats(-1, 1))
    limit = draw(st.sampled_from([0.0, 0.3, 2.0]))
    return OutcomeModel(draw(st.floats(0.01, 0.99)), means, draw(st.floats(0.01, 1)), lines, middle, slopes, limit)


def scores(model: OutcomeModel, z: FloatArray, t: FloatArray, u: FloatArray) -> FloatArray:
    """Written again, row by row."""
    found = []
    for row, arm, outcome in zip(z, t, u, strict=True):
        one, zero = model.predicted(row[:, None])[:, 0]
        if arm:
            found.append(one - zero + (outcome - one) / model.chance)
        else:
            found.append(one - zero - (outcome - zero) / (1 - model.chance))
    return np.array(found)


@settings(max_examples=200, deadline=None)
@given(models(), st.integers(0, 2**32 - 1))
def test_no_row_is_outside(model: OutcomeModel, seed: int) -> None:
    random = np.random.default_rng(seed)
    z = np.where(random.random((60, 2)) < 0.5, np.sign(random.uniform(-1, 1, (60, 2))), random.uniform(-1, 1, (60, 2)))
    t, u = random.integers(0, 2, 60), random.choice([-1.0, 1.0, 0.3], 60)
    found, (low, high) = scores(model, z, t, u), model.ends
    slack = 1e-9 * max(1.0, abs(low), abs(high))
    assert low - slack <= found.min()
    assert found.max() <= high + slack


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("means", [(0.0, 0.0), (0.6, -0.2)])
def test_both_ends_are_attained_by_predictions_at_their_limits(chance: float, means: tuple[float, float]) -> None:
    lines = (LineFeature(0, ENDS, 6 * ENDS),)
    reached = []
    for slopes in ([[5.0], [5.0]], [[-5.0], [5.0]], [[5.0], [-5.0]]):
        model = OutcomeModel(chance, means, 0.3, lines, np.zeros(1), np.array(slopes), 1.5)
        corners = np.array([(z, t, u) for z in ENDS for t in (0, 1) for u in ENDS])
        reached.append(scores(model, corners[:, :1], corners[:, 1], corners[:, 2]))
    low, high = model.ends
    assert np.min(reached) == pytest.approx(low)
    assert np.max(reached) == pytest.approx(high)
    assert common_range([model.ends]).half == pytest.approx((high - low) / 2)


def test_predictions_are_cut_where_noise_costs_more_than_they_explain() -> None:
    def limit(noise: float, units: int = 10_000) -> float:
        return expected_variance(0.5, (0.0, 0.0), 0.3, 0.5, 0.7, Known(units, noise)).limit

    assert limit(0.0) == pytest.approx(3 * 0.7), "without noise they are hardly cut"
    assert limit(1.0) == 0, "beside much noise only arms' means are left"
    limits = [limit(noise) for noise in np.geomspace(1e-5, 1, 30)]
    assert limits == sorted(limits, reverse=True)
    assert any(0 < one < 2 for one in limits)
