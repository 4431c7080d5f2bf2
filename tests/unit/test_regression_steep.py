"""Treatment that follows one number steeply: arms that lie apart, of which one hardly varies around its own mean.

Seeded runs of three normal numbers, one of which drives treatment and outcome; the effect is 1. Slopes and weights of
each arm's own, and squares, are in reach of noise there, and were far off beside narrow intervals.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from causalveil.flows.sequence.rehearse import rehearse_effect
from causalveil.schemas.studies import parse_study
from causalveil.tasks.inference.assemble import EffectFindings
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.rehearsal import RehearsalBudget
from causalveil.tasks.regression.lines.fits import MOST_LEFT_BY_ROUND, Fits
from causalveil.tasks.regression.lines.fitted import FittedMoments
from causalveil.tasks.regression.lines.joint import JointMoments
from causalveil_replication.accuracy.cells import rows_of
from causalveil_replication.accuracy.populations import KnownPopulation


def found(
    run: int, units: int, slope: float, intercept: float, lower: float = -4.0, upper: float = 4.0, **settings: Any
) -> EffectFindings:
    """One seeded run with epsilon 1: log odds of ``slope`` times the first number plus ``intercept``."""

    def draws(random: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        x = random.normal(size=(n, 3))
        t = (random.random(n) < 1 / (1 + np.exp(-slope * x[:, 0] - intercept))).astype(np.float64)
        return x, t, 5 + x[:, 0] + t + random.normal(size=n)

    covariates = {f"x{place}": {"lower": lower, "upper": upper} for place in range(3)}
    population = KnownPopulation("steep", "steep", 1.0, (0, 10), covariates, draws)
    study = parse_study(population.study({"name": "regression", **settings}, "1", "1e-6", 0.95, "sample"))
    return rehearse_effect(study, rows_of(study, population, units, run), RehearsalBudget(run + 1), 1)


def off(one: EffectFindings) -> float:
    """By how many half-widths the estimate is off."""
    return abs(one.estimate - 1) / ((one.interval.upper - one.interval.lower) / 2)


@pytest.mark.parametrize("run", range(200, 206))
def test_squares_that_are_close_to_an_arms_lines_do_not_go_astray(run: int) -> None:
    """Within -1 to 3 the treated are all to one side: estimates were off by up to 1.65 beside intervals of +- .17.

    No error of these seeds is above 1.2 half-widths; of a normal one 1.6 are not passed by one in 600.
    """
    assert off(found(run, 50_000, 2, -1.5, -1, 3)) < 1.6


@pytest.mark.parametrize("run", [200, 203, 216, 218, 224])
def test_an_arm_that_hardly_varies_around_its_mean_has_no_slopes_of_its_own_there(run: int) -> None:
    """The treated are 15 %, 1.6 deviations away: of these seeds errors were .25 to .73 beside +- .09 to .28."""
    assert off(found(run, 50_000, 2, -3)) < 1.6


def test_cubes_that_noise_reaches_go_where_they_confound_nothing() -> None:
    """One number sets the arms .9 deviations apart: with cubes 13 of 60 intervals missed. 20 seeded runs.

    If .95 hold, fewer than 15 of 20 do once in 3,000 times.
    """
    runs = [found(run, 50_000, 1, 0) for run in range(200, 220)]
    assert not any("cubes" in one.details["adjustment"] for one in runs)
    assert sum(off(one) <= 1 for one in runs) >= 15


def test_a_way_is_left_where_rounds_leave_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ways that are tried no such one is resolved, and some is not there."""
    ways, apart = [], Fits.apart

    def kept(self: Fits, share: float, own: float) -> Fits:
        ways.append(apart(self, share, own))
        return ways[-1]

    monkeypatch.setattr(Fits, "apart", kept)
    found(203, 50_000, 2, -1.5, -1, 3)
    slow = [way for way in ways if way.left_by_round > MOST_LEFT_BY_ROUND]
    assert slow
    assert not any(way.resolved for way in slow)
    assert max(way.left_by_round for way in slow) > 1


@pytest.mark.parametrize(("within", "hidden"), [(0.2, 0), (0.06, 0), (0.04, 1), (0.001, 1)])
def test_a_direction_of_which_treatment_leaves_little_counts_as_hidden(within: float, hidden: int) -> None:
    """Two features, next to no noise: treatment takes a fifth of one feature's square, and leaves ``within``."""
    apart, between = np.array([0.9, 0.0]), 0.25
    gram = np.diag([between * 0.81 + within, 0.3])
    nothing = np.zeros(2)
    moments = JointMoments(nothing, apart, 1.0, gram, 1e-9, 1e-9, 1e-9, nothing, nothing)
    assert FittedMoments.of(moments, between).floored == hidden
