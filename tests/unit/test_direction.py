"""What a direction study declares and answers: shares, scales, theorems at released margins, the planner's hump."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from causalveil.flows.run.declare import declare, known_sizes
from causalveil.schemas.errors import DataError, StudyError
from causalveil.schemas.estimators.direction import Favours, Releases, Score
from causalveil.schemas.plan import Sizes, StandIn
from causalveil.schemas.privacy import Scope
from causalveil.schemas.release import ScoreRelease
from causalveil.schemas.remarks import PlanCode
from causalveil.schemas.study import Variant
from causalveil.tasks.data.admit import admit_stage
from causalveil.tasks.data.data_folder import DataFolder
from causalveil.tasks.data.normalise import normalise_stage
from causalveil.tasks.data.partitions import read_layout
from causalveil.tasks.estimate.papers.direction import scores as sensitivity
from causalveil.tasks.estimate.papers.direction.stages import (
    draws,
    favoured,
    fits,
    hsic_margin,
    normalise_segment,
    regress,
    score_values,
    shares,
    stand_in_pairs,
    sweep,
    vectors,
    verdict,
)
from causalveil.tasks.privacy.accountant import total
from causalveil.tasks.privacy.budget import RehearsalBudget
from tests.direction_help import (
    OPTIONS,
    answered,
    cause_and_effect,
    doses,
    make_direction,
    option_name,
    rows,
    write_direction,
)

SIZES = Sizes(units=4_000, train=2_000, estimation=2_000)


@pytest.mark.parametrize("option", OPTIONS, ids=option_name)
@pytest.mark.parametrize(
    "scores", [["spearman"], ["hsic", "iqr"], ["iqr", "kendall", "spearman", "hsic"]], ids="+".join
)
@pytest.mark.parametrize("amounts", [("1", "1e-6"), ("0.7", "3e-7"), ("0.123456789", "1.7e-9")])
def test_charges_add_up_exactly(option: dict[str, Any], scores: list[str], amounts: tuple[str, str]) -> None:
    """With and without a known number of units, whatever does not divide evenly."""
    delta = amounts[1] if "iqr" in scores or "train" in option["protect"] else "0"
    study = make_direction(**option, scores=scores, epsilon=amounts[0], delta=delta)
    for sizes in (SIZES, None):
        charges = [step.mechanism.charge(step.slot) for step in (*fits(study, sizes), *draws(study, sizes))]
        assert total(charges, study.privacy.cost) == study.privacy.cost
        assert len({charge.name for charge in charges}) == len(charges)


def test_shares_are_nearly_equal_and_exact() -> None:
    for whole, parts in (("1", 3), ("0.7", 7), ("1e-6", 6), ("0.000001", 7), ("2", 1), ("0", 3)):
        found = shares(Decimal(whole), parts)
        assert sum(found) == Decimal(whole)
        assert max(found) - min(found) <= Decimal(whole) * Decimal("1e-6")


@pytest.mark.parametrize("score", ["spearman", "kendall", "hsic"])
def test_scales_are_sensitivity_over_epsilon(score: str) -> None:
    """Twice the sensitivity of one value, over the score's epsilon: for the pair, and for the difference."""
    for release in Releases:
        study = make_direction(scores=[score], release=release, epsilon="0.5", delta="0")
        (draw,) = draws(study, SIZES)
        expected = 2 * sensitivity.score_sensitivity(Score(score), 2_000, Variant.ours) / 0.5
        assert draw.mechanism.noise_scale == pytest.approx(expected, rel=1e-12)


def test_ours_is_never_noisier_than_the_paper() -> None:
    for score in (Score.spearman, Score.kendall, Score.hsic):
        for m in (5, 50, 5_000):
            ours, paper = (
                sensitivity.score_sensitivity(score, m, variant) for variant in (Variant.ours, Variant.paper)
            )
            assert ours <= paper
    for penalty in (1e-5, 1e-3, 0.1, 1.0):
        ours, paper = (
            sensitivity.weight_movement(1_000, penalty, variant) for variant in (Variant.ours, Variant.paper)
        )
        assert ours < paper


def test_both_halves_take_the_larger_sensitivity() -> None:
    one = {half: make_direction(scores=["hsic"], protect=[half], delta="0") for half in ("train", "test")}
    both = make_direction(scores=["hsic"], protect=["train", "test"], delta="0")
    for n, m in ((200, 2_000), (20_000, 20)):
        sizes = Sizes(units=n + m, train=n, estimation=m)
        scales = [draws(study, sizes)[0].mechanism.noise_scale for study in one.values()]
        (draw,) = draws(both, sizes)
        assert draw.mechanism.noise_scale == max(scales)
        assert draw.slot.scope is Scope.all


def test_ranks_of_the_training_half_are_one_test() -> None:
    study = make_direction(scores=["spearman", "kendall"], protect=["train"], epsilon="1", delta="1e-6")
    (draw,) = draws(study, SIZES)
    assert draw.scores == (Score.spearman, Score.kendall)
    assert (draw.mechanism.cost.epsilon, draw.mechanism.cost.delta) == (1, Decimal("1e-6"))


def test_distant_residuals_release_their_ranks_exactly() -> None:
    """Four test rows far apart and very many training rows: the test passes, and values are exact."""
    study = make_direction(scores=["spearman", "kendall"], protect=["train"], release="scores", penalty=1, epsilon=50)
    train = np.tile(cause_and_effect(1_000), (200, 1))
    test = rows(np.array([[-0.9, 0.1], [-0.2, 0.8], [0.3, -0.9], [0.8, 0.4]]))
    found = answered(study, train, test, RehearsalBudget(0))
    exact = vectors(test, regress(study, lambda _: train, 1))
    for score in found.scores:
        assert (score.x_to_y, score.y_to_x) == score_values(study, score.score, exact, test)
        assert score.order_kept == 1


def test_rows_that_tie_are_not_taken_for_dependence() -> None:
    """Two unrelated keyed orders break ties: by one order five hundred equal rows would have the score 1."""
    study = make_direction(delta="1e-6")
    test = rows(np.zeros((500, 2)))
    found = vectors(test, regress(study, lambda _: np.zeros((10, 2)), 1))
    for score in (Score.spearman, Score.kendall):
        assert max(score_values(study, score, found, test)) < 0.2


def test_noise_vanishes_with_epsilon() -> None:
    """At epsilon 1e6 every draw on the test half returns what was measured."""
    study = make_direction(release="scores", epsilon="1000000", delta="1e-6")
    train, test = cause_and_effect(2_000), rows(cause_and_effect(2_000, 1))
    exact = vectors(test, regress(study, lambda _: train, 1))
    for score in answered(study, train, test, RehearsalBudget(0)).scores:
        values = score_values(study, score.score, exact, test)
        assert score.x_to_y == pytest.approx(values[0], abs=1e-4)
        assert score.margin == pytest.approx(values[1] - values[0], abs=1e-4)


def test_theorems_at_their_ends() -> None:
    for theorem in (
        sensitivity.order_kept_one_draw,
        sensitivity.order_kept_two_draws,
        sensitivity.order_kept_four_draws,
    ):
        assert theorem(0.0, 2.0) == pytest.approx(0.5)
        assert theorem(60.0, 1.0) == pytest.approx(1)
        values = [theorem(margin, 1.0) for margin in np.linspace(0, 20, 200)]
        assert all(np.diff(values) >= 0)
    ratio = 1.3
    assert sensitivity.order_kept_two_draws(ratio, 1) == pytest.approx(1 - (ratio + 2) / 4 * math.exp(-ratio))


def vote(favours: Favours | None, kept: float | None) -> ScoreRelease:
    margin = None if kept is None else {Favours.x_to_y: 1.0, Favours.y_to_x: -1.0, None: 0.0}[favours]
    return ScoreRelease(
        score="hsic",
        answered=kept is not None,
        x_to_y=None,
        y_to_x=None,
        margin=margin,
        favours=favours,
        order_kept=kept,
        theorem="",
        charges=("hsic",),
    )


@pytest.mark.parametrize(
    ("votes", "favours", "weight"),
    [
        ([(Favours.x_to_y, 1.0)], Favours.x_to_y, 1.0),
        ([(Favours.x_to_y, 0.75), (Favours.y_to_x, 0.6)], Favours.x_to_y, 0.15),
        ([(Favours.x_to_y, 0.9), (Favours.y_to_x, 0.9)], None, 0.0),
        ([(None, None), (Favours.y_to_x, 0.8)], Favours.y_to_x, -0.6),
        ([(None, None)], None, 0.0),
        ([(None, 0.5)], None, 0.0),
    ],
)
def test_verdict(votes: list[tuple[Favours | None, float | None]], favours: Favours | None, weight: float) -> None:
    found = verdict([vote(*one) for one in votes])
    assert found.favours is favours
    assert found.weight == pytest.approx(weight)
    assert "2 p - 1" in found.rule


def test_favoured() -> None:
    assert [favoured(margin) for margin in (0.1, -0.1, 0.0, None)] == [Favours.x_to_y, Favours.y_to_x, None, None]


def test_stand_in_is_evenly_spread_and_has_the_direction_that_it_states() -> None:
    pairs = stand_in_pairs(4_096)
    assert np.abs(pairs).max() <= 1
    assert np.abs(np.histogram(pairs[:, 0], 16, (-1, 1))[0] - 256).max() <= 3
    assert hsic_margin(0.001, 0.2, 0.2) > 0.005
    assert hsic_margin(1.0, 0.2, 0.2) < hsic_margin(0.1, 0.2, 0.2)


def test_sweep_has_the_papers_hump() -> None:
    """Training-set privacy: small penalties drown in noise, large ones fit nothing, the best lies between."""
    study = make_direction(scores=["hsic"], protect=["train"], delta="0", epsilon="10", bandwidth=0.1)
    table = sweep(study, Sizes(units=400_000, train=200_000, estimation=200_000))
    right = [row["right_direction"] for row in table]
    best = int(np.argmax(right))
    assert 0 < best < len(right) - 1
    assert right[best] > max(right[0], right[-1]) + 0.2
    assert all(np.diff([row["noise_scale"] for row in table]) <= 0)
    rising = right[3 : best + 1]  # before, the bound on HSIC's sensitivity is HSIC's whole range
    assert np.array_equal(rising, np.sort(rising))


def test_sweep_without_training_privacy_has_none() -> None:
    study = make_direction(scores=["hsic"], protect=["test"], delta="0")
    right = [row["right_direction"] for row in sweep(study, SIZES)]
    assert np.array_equal(right, np.sort(right)[::-1])


def test_sweep_refusals() -> None:
    with pytest.raises(StudyError, match="hsic"):
        sweep(make_direction(scores=["kendall"], delta="0"), SIZES)
    with pytest.raises(StudyError, match="number of units"):
        known_sizes(declare(make_direction(scores=["hsic"], delta="0"), None))


@pytest.mark.parametrize("option", OPTIONS, ids=option_name)
def test_what_is_expected(option: dict[str, Any]) -> None:
    """Every option has sentences; a half without a bound is a warning; few units drown."""
    from causalveil.flows.estimators.direction import DIRECTION

    study = make_direction(**option)
    for units in (40, 400_000):
        sizes = Sizes(units=units, train=units // 2, estimation=units // 2)
        found = DIRECTION.expected(study, sizes, StandIn(), None)
        assert found["sentences"] or found["warnings"]
        unprotected = [one for one in found["warnings"] if one.code is PlanCode.unprotected]
        assert len(unprotected) == 2 - len(option["protect"])
        assert 0.0 <= found["hsic_right_direction"] <= 1.0


def test_plan_sweep_on_the_command_line(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    from causalveil.flows.cli.main import main
    from tests.direction_help import write_direction

    path = write_direction(tmp_path)
    for part in tmp_path.glob("*.parquet"):
        part.unlink()
    with pytest.raises(SystemExit) as ended:
        main(["plan", str(path), "--units", "4000", "--sweep", "penalty", "--json"])
    assert ended.value.code == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["expected"]["sweep"]) == 9
    with pytest.raises(SystemExit) as ended:
        main(["plan", str(path), "--units", "4000", "--sweep", "penalty"])
    shown = capsys.readouterr().out
    assert "right direction" in shown


def test_a_pair_changed_after_admission_is_refused(tmp_path: Path) -> None:
    folder, study, scratch = write_direction(tmp_path / "study").parent, make_direction(), tmp_path / "scratch"
    data = DataFolder(folder)
    layout = read_layout(study, data)
    admission = admit_stage(data.contract, data, layout, tmp_path, tmp_path / "reduced")
    normalise_stage(study, data.held_to(admission.digests), layout, scratch, "run", 1, normalise_segment)
    write_direction(folder, frame=doses(400).with_columns(pl.col("person") + 1))
    with pytest.raises(DataError, match=r"part-0\.parquet: changed since"):
        normalise_stage(study, data.held_to(admission.digests), layout, scratch, "run", 1, normalise_segment)
