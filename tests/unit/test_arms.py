"""Arms that noise hides."""

from __future__ import annotations

import math

import pytest

from causalveil.tasks.inference.arms import MIDDLE_NOISE, believed, everybody, from_everybody, may_be_empty


def test_what_noise_hides_is_not_believed() -> None:
    assert believed(0.0, 0.2) == 1
    assert believed(0.2, 0.2) == 0.5
    assert believed(0.1, 0.2) > 0.99
    assert believed(0.4, 0.2) < 0.01


def test_everybodys_mean_lies_in_the_range() -> None:
    assert everybody(-0.8, 0.01) == pytest.approx(-0.8)
    assert everybody(-7.0, 0.01) == pytest.approx(-1)
    assert everybody(-0.8, MIDDLE_NOISE) == pytest.approx(-0.4)
    assert abs(everybody(-0.8, 1.0)) < 1e-3


def test_an_arm_is_as_far_from_everybody_as_it_is_seen_to_be() -> None:
    # 2 % of units whose mean is -.6, beside everybody's -.8.
    assert from_everybody(-0.6 * 0.02, 0.02, 0.02, -0.8) == pytest.approx(0.2)
    # The same where noise does not let the share be told from one twice as large.
    assert from_everybody(-0.6 * 0.02, 0.02, 0.04, -0.8) == pytest.approx(0.1)
    # The middle of the range tells nothing of either.
    assert from_everybody(0.1, 0.0, 0.01, -0.8) == pytest.approx(1.8)
    assert from_everybody(-9.0, 0.0, 0.01, -0.8) == pytest.approx(-0.2)


@pytest.mark.parametrize("share", [-0.01, 0.0, 0.0164, 0.9836, 1.02])
def test_shares_within_their_noise_of_an_end_may_be_empty(share: float) -> None:
    assert may_be_empty(share, 0.01, 0.95)
    assert not may_be_empty(share, 0.001, 0.95) or not 0.01 < share < 0.99


def test_more_confidence_asks_for_more() -> None:
    assert not may_be_empty(0.0166, 0.01, 0.95)
    assert may_be_empty(0.0166, 0.01, 0.99)
    assert not may_be_empty(math.nextafter(0.0, 1.0), 0.0, 0.95)
