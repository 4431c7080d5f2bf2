"""Arms that noise hides."""

from __future__ import annotations

import math

import pytest

from causalveil.tasks.inference.assemble import may_be_empty


@pytest.mark.parametrize("share", [-0.01, 0.0, 0.0164, 0.9836, 1.02])
def test_shares_within_their_noise_of_an_end_may_be_empty(share: float) -> None:
    assert may_be_empty(share, 0.01, 0.95)
    assert not may_be_empty(share, 0.001, 0.95) or not 0.01 < share < 0.99


def test_more_confidence_asks_for_more() -> None:
    assert not may_be_empty(0.0166, 0.01, 0.95)
    assert may_be_empty(0.0166, 0.01, 0.99)
    assert not may_be_empty(math.nextafter(0.0, 1.0), 0.0, 0.95)
