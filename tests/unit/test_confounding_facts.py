"""Facts on confounding: what a mean of estimates says of it, from what each of them says."""

from __future__ import annotations

import pytest

from causalveil.schemas.confounding import (
    AS_THEY_ARE,
    RANDOMISED,
    TOO_NOISY,
    AdjustmentMethod,
    AdjustmentState,
    ConfoundingStatement,
    PriorSource,
    Shortfall,
    by,
    of_share,
    over_parts,
)

WHOLE, PART = by(AdjustmentMethod.balancing), by(AdjustmentMethod.balancing, Shortfall.imbalance)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([(RANDOMISED, 1.0), (RANDOMISED, 3.0)], RANDOMISED),
        ([(AS_THEY_ARE, 1.0), (AS_THEY_ARE, 3.0)], AS_THEY_ARE),
        ([(WHOLE, 9.0), (PART, 1.0)], PART),
        ([(of_share(0.96), 1.0), (of_share(0.92), 3.0)], of_share(0.93)),
        ([(of_share(0.8), 0.5), (TOO_NOISY, 0.5)], of_share(0.4)),
        ([(of_share(0.8), 0.5), (of_share(0.8, linear=True), 0.5)], of_share(0.8, linear=True)),
        ([(TOO_NOISY, 1.0), (TOO_NOISY, 2.0)], TOO_NOISY),
    ],
)
def test_a_mean_says_what_its_parts_say_together(
    parts: list[tuple[ConfoundingStatement, float]], said: ConfoundingStatement
) -> None:
    found = over_parts(parts)
    assert found.model_copy(update={"share": said.share}) == said
    assert found.share == (None if said.share is None else pytest.approx(said.share))


def test_a_mean_names_what_any_of_its_parts_left_out_and_any_declared_prior() -> None:
    found = over_parts([(of_share(0.5, left_out=("age",)), 1.0), (of_share(0.5, default=False, left_out=("b",)), 1.0)])
    assert found.left_out == ("age", "b")
    assert found.prior is PriorSource.declared
    assert found.state is AdjustmentState.partly
