"""What scores add where slopes serve both arms is as well known as how much more an arm varies than both together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from causalveil.schemas.study import Estimand
from causalveil.tasks.covariates.columns import Basis, Columns
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.interval import CLEAR, COVERS_UNEVEN, effect_of
from causalveil.tasks.regression.lines.adjust import UNEVEN, adjust
from causalveil.tasks.regression.lines.joint import JointMoments
from causalveil.tasks.regression.moments import moment_sums, moments_from
from causalveil.tasks.regression.scales import Scales, scale_sums, scales_from
from causalveil.tasks.regression.scores import score_sums
from tests.aipw_help import in_memory
from tests.regression_help import analysed, in_rows, make_regression

UNITS = 50_000


def tails() -> Rows:
    """Two exponential columns in whose tails the treated lie, 4 % of all, and with whose product outcomes grow."""
    random = np.random.default_rng(11)
    z = random.exponential(size=(UNITS, 2)) - 1
    t = (random.random(UNITS) < 1 / (1 + np.exp(4.2 - 0.7 * z.sum(axis=1)))).astype(np.uint8)
    y = 0.5 * z.sum(axis=1) + 0.5 * z[:, 0] * z[:, 1] + random.normal(size=UNITS)
    return in_rows(np.clip(z / 8, -1, 1), t, np.clip(y / 40, -1, 1))


def without_noise(rows: Rows) -> tuple[Scales, Features, JointMoments]:
    """What two releases say of them, next to without noise, with lines of each arm."""
    columns = Columns.of(make_regression(2))
    scales = scales_from(scale_sums(in_memory([rows]), columns), UNITS, 1e-9, columns)
    features = Features(columns, scales, Basis.linear, 4.0, by_arm=Basis.linear)
    return scales, features, moments_from(moment_sums(in_memory([rows]), features), UNITS, 1e-9, features)


@pytest.mark.parametrize(
    ("estimand", "part"),
    [(Estimand.ATE, lambda p: 1 - 2 * p), (Estimand.ATT, lambda p: p), (Estimand.ATC, lambda p: 1 - p)],
)
def test_by_what_part_scores_may_be_off(estimand: Estimand, part: object) -> None:
    """Slopes of each arm have nothing left to be off by, and a trial's arms are alike."""
    scales, _, moments = without_noise(tails())
    study = make_regression(2)
    choice, _ = adjust(study.estimator, scales, moments.without_arms(), estimand, UNITS, 1e-6)
    parts = {Estimand.ATE: 1 - 2 * scales.share, Estimand.ATT: scales.share, Estimand.ATC: 1 - scales.share}
    assert choice.uneven == pytest.approx(UNEVEN * parts[estimand])
    furthest, _ = adjust(study.estimator, scales, moments, estimand, UNITS, 1e-6)
    assert furthest.own == 1
    assert furthest.uneven == 0
    trial = make_regression(2, trial=True)
    assert adjust(trial.estimator, scales, moments.without_arms(), estimand, UNITS, 1e-6)[0].uneven == 0


def test_what_scores_add_beyond_noise_is_in_the_variance() -> None:
    rows = tails()
    scales, features, moments = without_noise(rows)
    choice, _ = adjust(make_regression(2).estimator, scales, moments.without_arms(), Estimand.ATE, UNITS, 1e-6)
    exact = score_sums(in_memory([rows]), scales, features, choice)
    added = scales.limit * choice.reach * float(exact[0]) / UNITS
    found = [effect_of(1, UNITS, 1e-9, scales, replace(choice, uneven=part), exact) for part in (0.0, 0.5)]
    clear = added**2 - CLEAR * (found[0].sampling + (scales.limit * choice.made_good) ** 2)
    assert clear > 0
    assert found[1].uneven == pytest.approx(0.25 * clear, rel=1e-6)
    assert found[1].models - found[0].models == pytest.approx(found[1].uneven, rel=1e-9)
    assert found[0].uneven == 0
    assert found[1].value == found[0].value
    # Scores that are noise alone add nothing.
    assert effect_of(1, UNITS, 2 * abs(float(exact[0])), scales, replace(choice, uneven=0.5), exact).uneven == 0


def test_the_release_says_so() -> None:
    """One seeded run by lines alone, epsilon .5; a trial's says nothing of it."""
    for trial in (False, True):
        found = analysed(make_regression(2, basis="linear", epsilon="0.5", trial=trial), tails(), seed=1)
        assert (COVERS_UNEVEN in found.interval.covers) is not trial
