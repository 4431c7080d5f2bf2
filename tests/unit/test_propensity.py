"""The propensity fit against other optimisers, and every constant of its sensitivity against brute force."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from causalveil.schemas.errors import ConvergenceError
from causalveil.schemas.privacy import Scope
from causalveil.tasks.data.enclave import MemoryEnclave, Rows
from causalveil.tasks.data.split import SPLIT, sizes_of
from causalveil.tasks.estimate.models import logistic
from causalveil.tasks.estimate.models import logistic as propensity
from causalveil.tasks.privacy.budget import RehearsalBudget
from causalveil.tasks.privacy.mechanisms import GaussianAnalytic, GaussianClassic, L2Laplace
from tests.ipw_help import cut, make_study, random_rows

PENALTIES = (1e-6, 1e-3, 0.03, 0.1, 0.17, 0.171, 0.5, 1.0, 10.0, 100.0)


def fit(rows: Rows, penalty: float, parts: int = 1, workers: int = 1) -> np.ndarray:
    pieces = cut(rows, parts)
    return propensity.fit(pieces.__getitem__, len(pieces), len(rows), penalty, workers)


def loss(w: np.ndarray, rows: Rows, penalty: float) -> float:
    s = rows.x @ w
    return float(np.mean(np.logaddexp(0, s) - rows.t * s) + penalty / 2 * w @ w)


@pytest.mark.parametrize("penalty", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_fit_is_the_optimum_of_other_solvers(penalty: float, seed: int) -> None:
    rows = random_rows(800, 5, seed)
    w = fit(rows, penalty)
    # scikit-learn minimises C sum(loss) + ||w||^2/2: the same optimum at C = 1/(m penalty).
    model = LogisticRegression(
        C=1 / (len(rows) * penalty), fit_intercept=False, tol=1e-12, max_iter=10_000, solver="newton-cholesky"
    ).fit(rows.x, rows.t)
    np.testing.assert_allclose(w, model.coef_[0], atol=1e-8)
    gradient = lambda v, *_: rows.x.T @ (expit(rows.x @ v) - rows.t) / len(rows) + penalty * v  # noqa: E731
    other = minimize(loss, np.zeros(5), (rows, penalty), jac=gradient, method="BFGS", options={"gtol": 1e-11})
    np.testing.assert_allclose(w, other.x, atol=5e-8)


def test_derivatives_are_those_of_the_loss() -> None:
    rows, penalty = random_rows(300, 4, 1), 0.05
    w = np.array([0.3, -1.0, 0.2, 0.5])
    gradient, hessian = propensity._derivatives([propensity._chunk_sums(rows, w, True)], w, len(rows), penalty)
    step = 1e-5
    for j in range(4):
        e = np.eye(4)[j] * step
        assert gradient[j] == pytest.approx(
            (loss(w + e, rows, penalty) - loss(w - e, rows, penalty)) / (2 * step), abs=1e-9
        )
        up, down = (
            propensity._derivatives([propensity._chunk_sums(rows, v, True)], v, len(rows), penalty)[0]
            for v in (w + e, w - e)
        )
        np.testing.assert_allclose(hessian[j], (up - down) / (2 * step), atol=1e-8)


@pytest.mark.parametrize("size", [40_000, 200_000])
def test_neither_partitions_nor_workers_nor_the_start_matter(size: int) -> None:
    rows = random_rows(size, 6, 3)
    one = fit(rows, 0.01)
    np.testing.assert_array_equal(fit(rows, 0.01, parts=4, workers=1), fit(rows, 0.01, parts=4, workers=2))
    np.testing.assert_allclose(fit(rows, 0.01, parts=4), one, atol=2 * propensity.TOLERANCE / 0.01)


@pytest.mark.parametrize(("leading", "passes"), [("alike", 4), ("another", None)])
def test_a_sample_saves_passes_and_decides_nothing(
    leading: str, passes: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, penalty = random_rows(200_000, 6, 4), 0.01
    if leading == "another":
        # The first rows, which are the sample, are all treated and all alike: what they say is wrong everywhere.
        rows.x[: 4 * propensity.CHUNK] = rows.x[0]
        rows.t[: 4 * propensity.CHUNK] = 1
    whole = []
    derivatives = propensity._derivatives

    def counted(parts, w, units, penalty):
        whole.extend([units] if units == len(rows) else [])
        return derivatives(parts, w, units, penalty)

    monkeypatch.setattr(propensity, "_derivatives", counted)
    w = fit(rows, penalty, parts=4)
    gradient = rows.x.T @ (expit(rows.x @ w) - rows.t) / len(rows) + penalty * w
    assert np.linalg.norm(gradient) <= 1.01 * propensity.TOLERANCE
    assert passes is None or len(whole) <= passes


@pytest.mark.parametrize("penalty", [1e-6, 1e-4])
def test_separable_and_one_armed_tables_converge(penalty: float) -> None:
    rows = random_rows(60, 3, 2)
    for t in ((rows.x[:, 0] > 0).astype(np.uint8), np.zeros(60, np.uint8), np.ones(60, np.uint8)):
        table = Rows(rows.x, t, rows.u)
        w = fit(table, penalty)
        gradient = rows.x.T @ (expit(rows.x @ w) - t) / 60 + penalty * w
        assert np.linalg.norm(gradient) <= 1.1 * propensity.TOLERANCE
        assert np.linalg.norm(w) <= propensity.coefficient_bound(penalty) * (1 + 1e-6)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_bound_on_the_coefficients_is_attained(penalty: float) -> None:
    bound = propensity.coefficient_bound(penalty)
    # Every row the same vector, as long as the worst case wants it, all treated.
    length = min(1.0, propensity.PEAK_AT / bound)
    x = np.array([[length, 0.0]])
    w = fit(Rows(x, np.ones(1, np.uint8), np.zeros(1)), penalty)
    slack = propensity.TOLERANCE / penalty
    assert bound * (1 - 1e-6) - slack <= np.linalg.norm(w) <= bound + slack
    assert bound <= np.sqrt(2 * np.log(2) / penalty)


@pytest.mark.parametrize("radius", [0.0, 0.005, 0.4, 1.2784, 1.669, 1.72, 1.9, 2.5, 4.0, 5.28, 9.0, 16.7, 60.0, 528.0])
def test_the_diameter_of_gradients_is_that_of_a_fine_grid(radius: float) -> None:
    angle = np.linspace(0, 2 * np.pi, 6001)[:-1]
    points = (expit(radius * np.cos(angle)) * np.array([np.cos(angle), np.sin(angle)])).T
    if radius > 10:  # the worst pair sits where the direction is almost across w
        points = points[np.abs(np.cos(angle)) < 0.6]
    points = points[::2] if len(points) > 3000 else points
    largest = max(float(np.max(np.linalg.norm(points - p, axis=1))) for p in points)
    bound = propensity.gradient_diameter(radius)
    assert largest <= bound
    assert bound <= largest * (1 + 2e-3 if radius > 10 else 1 + 1e-5)


def test_the_diameter_also_holds_inside_the_ball_and_in_three_dimensions() -> None:
    random = np.random.default_rng(0)
    for radius in (0.5, 1.7, 3.0, 8.0):
        z = random.normal(size=(2, 200_000, 3))
        z *= (random.random((2, 200_000, 1)) ** 0.2) / np.linalg.norm(z, axis=2, keepdims=True)
        f = expit(radius * z[:, :, :1]) * z
        assert np.max(np.linalg.norm(f[0] - f[1], axis=1)) <= propensity.gradient_diameter(radius)


@pytest.mark.parametrize("penalty", [1e-6, 0.1, 10.0])
def test_a_computed_gradient_errs_by_less_than_is_charged(penalty: float) -> None:
    rows = random_rows(3 * propensity.CHUNK // 8, 5, 4)
    w = np.array([0.4, -0.2, 1.0, 0.3, -1.0]) * min(1.0, propensity.coefficient_bound(penalty))
    computed, _ = propensity._derivatives([propensity._chunk_sums(rows, w, True)], w, len(rows), penalty)
    with mpmath.workdps(40):
        exact = [mpmath.mpf(0)] * 5
        for x, t in zip(rows.x.tolist(), rows.t.tolist(), strict=True):
            s = mpmath.fsum(mpmath.mpf(a) * mpmath.mpf(b) for a, b in zip(x, w.tolist(), strict=True))
            residual = 1 / (1 + mpmath.exp(-s)) - t
            exact = [total + residual * mpmath.mpf(a) for total, a in zip(exact, x, strict=True)]
        error = [
            float(total / len(rows) + mpmath.mpf(penalty) * mpmath.mpf(b) - mpmath.mpf(float(g)))
            for total, b, g in zip(exact, w.tolist(), computed, strict=True)
        ]
    assert np.linalg.norm(error) <= propensity.rounding_bound(5, penalty)


def test_sensitivity_is_the_formula_and_never_above_the_papers() -> None:
    sizes = sizes_of(make_study(), 20_000)
    for penalty in PENALTIES:
        ours = propensity.model(make_study(penalty=penalty), sizes).sensitivity().value
        paper_study = make_study(penalty=penalty, variant="paper", weighting="horvitz_thompson", epsilon="0.5")
        paper = propensity.model(paper_study, sizes).sensitivity().value
        assert ours is not None
        assert paper is not None
        slack = 2 * (propensity.TOLERANCE + propensity.rounding_bound(6, penalty)) / penalty
        assert paper == pytest.approx(2 / (10_000 * penalty) + slack, rel=1e-9)
        assert 1 / (10_000 * penalty) + slack < ours < paper
    # 1.2136 for the 2 at the default penalty.
    assert propensity.gradient_diameter(propensity.coefficient_bound(0.1)) == pytest.approx(1.21362, abs=1e-4)


def test_which_mechanism_releases_the_coefficients() -> None:
    assert propensity.SLOT.scope is Scope.train
    sizes = sizes_of(make_study(), 100)
    assert isinstance(propensity.model(make_study(), sizes).mechanism(), GaussianAnalytic)
    assert isinstance(propensity.model(make_study(delta=0), sizes).mechanism(), L2Laplace)
    assert isinstance(propensity.model(make_study(level="training_units"), sizes).mechanism(), GaussianAnalytic)
    paper = make_study(variant="paper", weighting="horvitz_thompson", epsilon="0.5")
    assert isinstance(propensity.model(paper, sizes).mechanism(), GaussianClassic)
    unknown = propensity.model(make_study(), None).mechanism()
    assert unknown is not None
    assert unknown.noise_scale is None
    assert "m training units" in unknown.sensitivity.formula


def enclave(rows: Rows, training: int) -> MemoryEnclave:
    made = MemoryEnclave.of(rows)
    made.save(SPLIT, np.array([[training], [training]]))
    return made


def test_the_stage_reads_training_units_only_and_draws_once() -> None:
    study, rows = make_study(), random_rows(400, 6, 5)
    budget = RehearsalBudget(0)
    released = propensity.propensity_stage(study, sizes_of(study, 400), enclave(rows, 200), budget)
    exact = fit(Rows(rows.x[:200], rows.t[:200], rows.u[:200]), 0.1)
    assert len(budget.charges) == 1
    assert budget.charges[0].scope is Scope.train
    assert not np.allclose(released, exact, atol=1e-6)
    deviation = float(budget.charges[0].noise_scale or 0)
    assert np.linalg.norm(released - exact) < 6 * deviation * np.sqrt(6)


def test_a_public_fit_uses_every_unit_and_scales_columns() -> None:
    rows = random_rows(400, 6, 5)
    pieces = cut(rows, 2)
    found = propensity.fit_scaled(pieces.__getitem__, len(pieces), len(rows), 0.1)
    # Columns are scaled by what they are, which is public; a column that does not vary is made 1.
    deviation = rows.x.std(axis=0)
    size = np.where(deviation > 1e-9, deviation * np.sqrt(len(deviation)), np.abs(rows.x.mean(axis=0)))
    expected = fit(Rows(rows.x / size, rows.t, rows.u), 0.1) / size
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def test_no_convergence_is_a_typed_error_before_any_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    study = make_study()
    rows = random_rows(400, 6, 5)
    monkeypatch.setattr(logistic, "MAX_ITERATIONS", 1)
    budget = RehearsalBudget(0)
    with pytest.raises(ConvergenceError, match="tolerance") as caught:
        propensity.propensity_stage(study, sizes_of(study, 400), enclave(rows, 200), budget)
    assert budget.charges == []
    assert "\n" not in str(caught.value)
