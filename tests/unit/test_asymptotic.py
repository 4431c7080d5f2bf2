"""Equations 6 to 16 of Schröder, Hartenstein and Feuerriegel (2025) against plain second implementations."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from causalveil.schemas.errors import StudyError
from causalveil.schemas.privacy import PrivacyCost
from causalveil.tasks.estimate.papers.aipw_asymptotic import influence
from causalveil.tasks.estimate.papers.aipw_asymptotic.influence import Domain, InfluenceMoments, NuisanceSurfaces, Table
from causalveil.tasks.estimate.papers.aipw_asymptotic.learners import Learner, Role, Surface, learner
from causalveil.tasks.privacy.accountant import compose, epsilon_pld
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.privacy.mechanisms import gross_error_gaussian

ROOT = Path(__file__).parents[2]

COST = PrivacyCost(epsilon=Decimal("0.5"), delta=Decimal("1e-5"))
EFFECT = PrivacyCost(epsilon=Decimal("0.45"), delta=Decimal("9e-6"))
DOMAIN = Domain(2, -1.0, 4.0, (0.1, 0.9))


def wave(a: float, b: float, c: float) -> Surface:
    """A smooth surface on the square with a gradient by hand."""

    def surface(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value = a + b * np.sin(3 * x[:, 0]) + c * x[:, 1] ** 2
        return value, np.column_stack([3 * b * np.cos(3 * x[:, 0]), 2 * c * x[:, 1]])

    return surface


NUISANCES = NuisanceSurfaces(wave(1.5, 0.4, 0.3), wave(0.5, -0.2, 0.6), wave(0.5, 0.3, -0.45))


def people(n: int, seed: int = 0) -> Table:
    random = np.random.default_rng(seed)
    x = random.random((n, 2))
    t = (random.random(n) < 0.3 + 0.4 * x[:, 0]) * 1.0
    return Table(x, t, t + x @ [0.5, 0.8] + random.uniform(-1, 1, n))


def aipw_score(x: np.ndarray, t: float, y: float) -> float:
    """One unit's term of equation 3, which the influence of equation 6 must equal."""
    one, zero, pi = (float(s(x[None])[0][0]) for s in (NUISANCES.treated, NUISANCES.control, NUISANCES.propensity))
    pi = min(max(pi, 0.1), 0.9)
    return one - zero + t * (y - one) / pi - (1 - t) * (y - zero) / (1 - pi)


def test_the_influence_is_the_term_of_the_estimator() -> None:
    table = people(200)
    got = influence.influence(table.x, table.t, table.y, NUISANCES, DOMAIN.clip)
    want = [aipw_score(*unit) for unit in zip(table.x, table.t.tolist(), table.y.tolist(), strict=True)]
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_the_gradient_that_the_search_uses_is_that_of_the_score() -> None:
    """Central differences at 60 random points; those at a corner of the clip are left out."""
    random = np.random.default_rng(3)
    x, t, y = random.random((60, 2)), random.integers(0, 2, 60) * 1.0, random.uniform(-1, 4, 60)
    raw = NUISANCES.propensity(x)[0]
    assert ((raw < 0.1) | (raw > 0.9)).any(), "some scores must be clipped"
    keep = (abs(raw - 0.1) > 1e-3) & (abs(raw - 0.9) > 1e-3)
    _, slope = influence._gap(x, t, y, NUISANCES, DOMAIN.clip, 0.3)
    for j in range(2):
        step = 1e-6 * np.eye(2)[j]
        ends = [influence._gap(x + sign * step, t, y, NUISANCES, DOMAIN.clip, 0.3)[0] for sign in (1, -1)]
        np.testing.assert_allclose(slope[keep, j], ((ends[0] - ends[1]) / 2e-6)[keep], rtol=1e-5, atol=1e-5)


def plain_supremum(tau: float) -> float:
    """sup |Gamma - tau| on a grid of 400 x 400 features, two arms and 5 outcomes."""
    axis = np.linspace(0, 1, 400)
    x = np.array(np.meshgrid(axis, axis)).reshape(2, -1).T
    best = 0.0
    for t in (0.0, 1.0):
        for y in np.linspace(DOMAIN.lower, DOMAIN.upper, 5):
            score = influence.influence(x, np.full(len(x), t), np.full(len(x), y), NUISANCES, DOMAIN.clip)
            best = max(best, float(np.abs(score - tau).max()))
    return best


@pytest.mark.parametrize("tau", [-3.0, 0.0, 1.0, 6.0])
def test_the_search_finds_what_a_fine_grid_finds(tau: float) -> None:
    found = influence.farthest(NUISANCES, DOMAIN, tau)
    assert plain_supremum(tau) * (1 - 1e-9) <= found <= plain_supremum(tau) * 1.001


def test_starts_that_advance_together_find_what_each_finds_alone() -> None:
    """Kernel ridge and logistic regression of a fold, 4 corners, 10 starts: scipy's L-BFGS-B, one run for each."""
    from scipy.optimize import minimize

    models = influence.fit(
        people(400), DOMAIN, learner(Role.outcome, "kernel_ridge"), learner(Role.propensity, "logistic"), seed=1
    )
    best = 0.0
    for t in (1.0, 0.0):
        for y in (DOMAIN.lower, DOMAIN.upper):
            for start in influence._starting_points(10, DOMAIN):

                def negative(x: np.ndarray, t: float = t, y: float = y) -> float:
                    score = influence.influence(x[None], np.array([t]), np.array([y]), models, DOMAIN.clip)[0]
                    return -float((score - 1.0) ** 2)

                best = max(best, -minimize(negative, start, method="L-BFGS-B", bounds=[(0, 1)] * 2).fun)
    assert influence.farthest(models, DOMAIN, 1.0) == pytest.approx(math.sqrt(best), rel=1e-6)


def test_starting_points_fill_the_cube_and_never_change() -> None:
    domain = Domain(24, 0.0, 1.0, (0.1, 0.9))
    points = influence._starting_points(10, domain)
    assert points.shape == (10, 24)
    assert ((points > 0) & (points < 1)).all()
    assert np.abs(points.mean(axis=0) - 0.5).max() < 0.25
    assert np.unique(points, axis=0).shape == (10, 24)
    np.testing.assert_array_equal(points, influence._starting_points(10, domain))


@pytest.mark.parametrize(("sizes", "combinations"), [((3, 2), 6), ((9, 9, 9), 64)])
def test_starts_stand_at_levels_and_not_between_them(sizes: tuple[int, ...], combinations: int) -> None:
    starts = np.cumsum((1, *sizes))[:-1].tolist()
    domain = Domain(1 + sum(sizes), 0.0, 1.0, (0.1, 0.9), tuple(zip(starts, sizes, strict=True)))
    points = influence._starting_points(10, domain)
    assert points.shape == (max(10, combinations), domain.features)
    for start, size in domain.categories:
        block = points[:, start : start + size]
        assert set(np.unique(block)) == {0.0, 1.0}
        assert (block.sum(axis=1) == 1).all()
        assert (block.max(axis=0) == 1).all(), "every level is tried"
    assert len(np.unique(points[:, 1:], axis=0)) > 0.9 * combinations


def test_the_search_stays_at_the_levels() -> None:
    """A mean outcome of 1 at either level, of 6 or -4 where both or none of the indicators are 1."""

    def surface(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return x @ [0.0, 5.0, 5.0] - 4.0, np.tile([0.0, 5.0, 5.0], (len(x), 1))

    domain = Domain(3, 0.0, 1.0, (0.5, 0.5), ((1, 2),))
    flat = NuisanceSurfaces(surface, wave_of_three, wave_of_three)
    # Gamma is 2 y - mu_1 if treated and mu_1 - 2 y if not, y in {0, 1}.
    assert influence.farthest(flat, domain, 0.0) == pytest.approx(1.0)


def wave_of_three(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(len(x)), np.zeros_like(x)


def test_moments_are_those_of_cross_fitted_scores() -> None:
    """Equations 7, 8 and 11 by loops, with the suprema of each fold by the same search."""
    folds = [people(150, 1), people(151, 2), people(149, 3)]
    pair = (learner(Role.outcome, "kernel_ridge"), learner(Role.propensity, "logistic"))
    found = influence.moments(folds, DOMAIN, pair, seed=0)
    scores, models = [], []
    for k, fold in enumerate(folds):
        others = [part for index, part in enumerate(folds) if index != k]
        train = Table(*(np.concatenate([getattr(part, name) for part in others]) for name in ("x", "t", "y")))
        models.append(influence.fit(train, DOMAIN, *pair, seed=0))
        scores += influence.influence(fold.x, fold.t, fold.y, models[-1], DOMAIN.clip).tolist()
    tau = sum(scores) / 450
    assert found.units == 450
    assert found.tau == pytest.approx(tau)
    assert found.sigma2 == pytest.approx(sum((score - tau) ** 2 for score in scores) / 450)
    assert found.gamma == pytest.approx(max(influence.farthest(model, DOMAIN, tau) for model in models))
    assert found.gamma_s == pytest.approx(found.gamma**2 - found.sigma2)


def test_the_second_supremum_is_sigma2_where_every_score_is_far_from_tau() -> None:
    """Equation 11 where sigma2 is the larger part: scores are +2 and -2, so gamma^2 - sigma2 = 0 and sigma2 = 4."""

    def constant(value: float) -> Learner:
        return Learner(lambda x, y, seed: lambda points: (np.full(len(points), value), np.zeros_like(points)))

    t, y = np.tile([1.0, 1.0, 0.0, 0.0], 10), np.tile([1.0, -1.0], 20)
    folds = [Table(np.zeros((40, 2)), t, y) for _ in range(2)]
    found = influence.moments(folds, DOMAIN, (constant(0.0), constant(0.5)), seed=0, suprema=lambda *_: 0.0)
    assert (found.tau, found.sigma2, found.gamma, found.gamma_s) == (0.0, 4.0, 2.0, 4.0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", ["kernel_ridge", "neural_network"])
@pytest.mark.parametrize("treated", [0, 1, 59, 60])
def test_an_empty_or_tiny_arm_is_no_error(treated: int, model: str) -> None:
    """An error would tell of the data. What is not learnt is the middle of the range, and the share at its clip."""
    table = people(60)
    alone = Table(table.x, (np.arange(60) < treated) * 1.0, table.y)
    score = "logistic" if model == "kernel_ridge" else model
    pair = (learner(Role.outcome, model), learner(Role.propensity, score))
    found = influence.fit(alone, DOMAIN, *pair, seed=0)
    if treated in (0, 60):
        empty = found.treated if treated == 0 else found.control
        np.testing.assert_array_equal(empty(table.x)[0], 1.5)
        np.testing.assert_array_equal(found.propensity(table.x)[0], treated / 60)
    whole = influence.moments([alone, alone], DOMAIN, pair, seed=0)
    # The outcome is 5 wide, and some score has at least the weight 1/0.9.
    assert whole.gamma >= 2.5
    assert np.isfinite([whole.tau, whole.sigma2, whole.gamma_s]).all()
    assert whole.gamma_s > 0


def test_what_a_learner_warns_of_is_not_heard(recwarn: pytest.WarningsRecorder) -> None:
    """Whether it converged, and whether a number overflowed, are facts about the data."""

    def loud(x: np.ndarray, y: np.ndarray, seed: int) -> Surface:
        warnings.warn("did not converge", RuntimeWarning, stacklevel=1)
        return lambda points: (np.exp(points[:, 0] + 1e4).clip(0.0, 0.5), points * 0)

    influence.moments([people(40, 1), people(40, 2)], DOMAIN, (Learner(loud), Learner(loud)), seed=0)
    assert not recwarn.list


@pytest.mark.parametrize(("epsilon", "delta", "n"), [("0.5", "1e-5", 3000), ("0.1", "1e-9", 5735), ("8", "0.01", 2)])
def test_the_scale_is_r_of_equation_7(epsilon: str, delta: str, n: int) -> None:
    mechanism = gross_error_gaussian(n, PrivacyCost(epsilon=Decimal(epsilon), delta=Decimal(delta)))
    printed = 5 * math.sqrt(2 * math.log(n) * math.log(2 / float(delta))) / (float(epsilon) * n)
    assert mechanism.noise_scale is not None
    assert printed <= mechanism.noise_scale <= printed * (1 + 1e-8)


def test_release_is_equations_7_and_11_with_noise_in_units_of_gamma() -> None:
    """4,000 seeded draws: mean tau and deviation gamma r, sigma2 floored at 0 and its upper tail gamma_s r."""
    found = InfluenceMoments(3000, tau=1.2, sigma2=2.0, gamma=9.0, gamma_s=79.0)
    pair = influence.mechanisms(3000, COST, EFFECT)
    assert [m.cost.epsilon for m in pair] == [Decimal("0.45"), Decimal("0.05")]
    assert [m.cost.delta for m in pair] == [Decimal("9e-6"), Decimal("1e-6")]
    budget = RehearsalBudget(5)
    drawn = np.array([influence.release(found, pair, budget) for _ in range(4000)])
    taus, squares = drawn.T
    r1, r2 = (5 * math.sqrt(2 * math.log(3000) * math.log(2 / d)) / (e * 3000) for e, d in ((0.45, 9e-6), (0.05, 1e-6)))
    # A mean of 4,000 errs by 1.6% of the deviation, a deviation by 1.1%: five standard errors, false alarm 1e-6.
    assert abs(taus.mean() - 1.2) < 5 * 9.0 * r1 / math.sqrt(4000)
    assert taus.std() == pytest.approx(9.0 * r1, rel=0.06)
    assert (squares >= 0).all()
    assert (squares == 0).mean() == pytest.approx(_normal(-2.0 / (79.0 * r2)), abs=0.04)
    assert np.quantile(squares, 0.9) == pytest.approx(2.0 + 1.2816 * 79.0 * r2, rel=0.08)
    assert {charge.name for charge in budget.charges} == {"effect", "variance"}


def _normal(value: float) -> float:
    return math.erfc(-value / math.sqrt(2)) / 2


def test_charges_add_up_and_their_loss_is_what_they_declare() -> None:
    """1/n is no proved sensitivity, so the privacy loss distribution must not be that of Gaussian noise on it."""
    pair = influence.mechanisms(3000, COST, EFFECT)
    charges = [pair[0].charge(influence.EFFECT), pair[1].charge(influence.VARIANCE)]
    assert compose(charges) == COST
    assert epsilon_pld(charges, COST.delta) == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize(("cost", "units"), [((Decimal("1"), Decimal("0")), 100), ((Decimal("1"), Decimal("1e-6")), 1)])
def test_no_delta_or_one_unit_has_no_such_noise(cost: tuple[Decimal, Decimal], units: int) -> None:
    with pytest.raises(StudyError):
        gross_error_gaussian(units, PrivacyCost(epsilon=cost[0], delta=cost[1]))


COLD = """
import numpy as np
from causalveil_replication.schroeder2025.data import DATASET_2, draw, rows_of
from causalveil_replication.schroeder2025 import runs as interval_runs
study = interval_runs.study_of(DATASET_2.document(), interval_runs.KERNEL, 1000, "0.5", "1e-5")
rows = rows_of(study, draw(DATASET_2, 1000, 3))
print(len({interval_runs.analyse(study, rows, 9)[0].interval.upper for _ in range(2)}))
"""


def test_the_first_run_of_a_process_is_like_every_other() -> None:
    """Libraries are loaded before their threads are limited, not while they are."""
    around = os.environ | {"PYTHONPATH": str(ROOT / "replication/src")}
    done = subprocess.run(
        [sys.executable, "-c", COLD], cwd=ROOT, env=around, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "1"
