"""Where one arm is small, and what plainer ways to adjust are seen to leave of richer ones."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from causalveil.schemas.plan import StandIn
from causalveil.tasks.covariates.columns import Basis
from causalveil.tasks.enclave.sizes import sizes_of
from causalveil.tasks.regression import basis as basis_rules
from causalveil.tasks.regression.basis import LEAST_OWN, WHOLE_WIDTH, features_of
from causalveil.tasks.regression.decide import recipe
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.lines.adjust import score_cut
from causalveil.tasks.regression.lines.adjustment import Adjustment
from causalveil.tasks.regression.lines.apart import CLEAR, CLEAR_PART, left_by, left_by_part
from causalveil.tasks.regression.recipe import PAIRS_CUT
from causalveil.tasks.regression.stand_in import expected_scales
from tests.regression_help import even_scales, make_regression

ADJUSTED = Adjustment(
    slopes=np.array([0.2, 0.0]),
    weights=np.zeros(2),
    apart=np.array([1.0, 1.0]),
    index=0.0,
    correction=0.0,
    leaning=(0.5, 0.5),
    reach=1.0,
    cut=4.0,
    second_order=0.01**2,
    bias=0.0,
    adjusted=True,
    own=1.0,
)


def test_what_a_plainer_way_leaves_counts_beyond_its_noise() -> None:
    plain = replace(ADJUSTED, slopes=np.array([0.1, 0.0]), second_order=0.02**2)
    noise = CLEAR * (0.01**2 + 0.02**2)
    assert left_by(plain, ADJUSTED) == pytest.approx(math.sqrt(0.1**2 - noise))
    assert left_by(ADJUSTED, plain) == left_by(plain, ADJUSTED)
    # What noise adds on average moves both by what is known, and as much again may be left.
    moved = replace(ADJUSTED, correction=0.03)
    assert left_by(plain, moved) == pytest.approx(math.sqrt((0.13 - 0.03) ** 2 - noise))
    assert left_by(replace(ADJUSTED, slopes=np.array([0.19, 0.0])), ADJUSTED) == 0
    assert left_by(replace(plain, adjusted=False), ADJUSTED) == 0
    # Slopes that have gone a part of the way to each arm's own take off less, which scores make good.
    assert left_by(plain, replace(ADJUSTED, own=0.85)) == 0
    assert left_by(plain, replace(ADJUSTED, adjusted=False)) == 0


def test_what_a_part_of_the_way_leaves_counts_beyond_two_deviations_of_noise() -> None:
    part = replace(ADJUSTED, slopes=np.array([0.15, 0.0]), own=0.85)
    noise = CLEAR_PART * 0.01**2
    assert left_by_part(part, ADJUSTED) == pytest.approx(math.sqrt(0.05**2 - noise))
    # What noise adds on average moves both by what is known, and as much again may be left.
    moved = replace(part, correction=-0.01)
    assert left_by_part(moved, ADJUSTED) == pytest.approx(math.sqrt((0.06 - 0.01) ** 2 - noise))
    assert left_by_part(replace(ADJUSTED, slopes=np.array([0.181, 0.0]), own=0.85), ADJUSTED) == 0
    assert left_by_part(ADJUSTED, ADJUSTED) == 0


def told(units: int, epsilon: str, treated: float, columns: int = 5) -> Features:
    """What release 2 would be of."""
    study = make_regression(columns, epsilon=epsilon)
    plan = recipe(study, sizes_of(study, units))
    scales = expected_scales(study, plan, units, StandIn(treated=treated, deviation=0.6))
    return features_of(study, plan, scales)


def test_of_a_small_arm_all_is_told_apart_or_lines_alone() -> None:
    """An eighth treated: squares by arm at 200,000 people, with more budget products too, and cubes; not at 5,000."""
    assert (told(200_000, "0.5", 0.12).basis, told(200_000, "0.5", 0.12).by_arm) == (Basis.squares, Basis.squares)
    for epsilon, basis in (("2", Basis.pairs), ("4", Basis.cubes)):
        rich = told(200_000, epsilon, 0.12)
        assert (rich.basis, rich.by_arm) == (basis, basis)
    assert told(5_000, "0.5", 0.12).by_arm in (None, Basis.linear)
    # Half of them treated: lines of each arm stand beside products that serve both.
    even = told(200_000, "0.5", 0.5)
    assert even.basis >= Basis.pairs
    assert even.by_arm is not None


def test_no_richer_basis_than_slopes_of_each_arm_are_borne_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1 < WHOLE_WIDTH < 1.5
    assert 0 < LEAST_OWN < 1
    monkeypatch.setattr(basis_rules, "LEAST_OWN", 1.01)
    assert told(200_000, "0.5", 0.12).by_arm in (None, Basis.linear)


def test_a_basis_that_was_asked_for_stays() -> None:
    study = make_regression(5, epsilon="0.5", basis="linear")
    plan = recipe(study, sizes_of(study, 200_000))
    scales = expected_scales(study, plan, 200_000, StandIn(treated=0.12, deviation=0.6))
    assert features_of(study, plan, scales).basis is Basis.linear


def test_rows_with_products_are_cut_further_out_than_rows_with_squares() -> None:
    study = make_regression(5, epsilon="1")
    plan = recipe(study, sizes_of(study, 100_000))
    assert plan.cut(20, long=True) == PAIRS_CUT * plan.cut(20)
    scales = expected_scales(study, plan, 100_000, StandIn(deviation=0.6))
    for basis, times in ((Basis.linear, 1.0), (Basis.squares, 1.0), (Basis.pairs, PAIRS_CUT)):
        features = replace(plan, basis=basis).features(scales)
        assert features.basis is basis
        assert features.cut == times * plan.cut(plan.columns.features(basis))


@pytest.mark.parametrize("share", [0.5, 0.01, 0.0005])
def test_scores_of_a_small_arm_are_cut_no_nearer_than_those_of_a_large_one(share: float) -> None:
    """Of a million people, in deviations of the smaller arm's residuals: its scores are 1/p of them."""
    scales = even_scales(2, share=share)
    assert score_cut(10**6, 7.0, scales) * math.sqrt(scales.between) > 3.5
