"""The closed registry of nuisance models: what it holds, what it refuses, and that surfaces are what was fitted."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import numpy as np
import pytest

from causalveil.schemas.errors import StudyError
from causalveil.tasks.estimate.papers.aipw_asymptotic import learners
from causalveil.tasks.estimate.papers.aipw_asymptotic.learners import Learner, Role, constant, learner

MODELS = [(role, name) for role in Role for name in learners._REGISTRY[role]]


def sample(role: Role, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.random((300, 3))
    mean = x @ [1.0, -0.5, 0.2]
    y = mean + random.normal(0, 0.1, 300) if role is Role.outcome else (random.random(300) < 0.3 + mean / 3) * 1.0
    return x, y


def reference(role: Role, name: str, x: np.ndarray, y: np.ndarray, points: np.ndarray) -> np.ndarray:
    """What scikit-learn itself predicts, with the settings of the paper's appendix C.2."""
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    network = {"hidden_layer_sizes": (32,), "activation": "tanh", "solver": "sgd", "alpha": 0.1, "random_state": 7}
    if role is Role.outcome:
        model = KernelRidge(alpha=0.1, kernel="rbf") if name == "kernel_ridge" else MLPRegressor(**network)
        return model.fit(x, y).predict(points)
    model = LogisticRegression() if name == "logistic" else MLPClassifier(**network)
    return model.fit(x, y).predict_proba(points)[:, 1]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("role", "name"), MODELS)
def test_a_surface_has_scikit_learns_values_and_the_gradient_of_differences(role: Role, name: str) -> None:
    x, y = sample(role)
    points = np.random.default_rng(1).random((20, 3))
    surface = learner(role, name).fit(x, y, 7)
    values, slopes = surface(points)
    np.testing.assert_allclose(values, reference(role, name, x, y, points), rtol=1e-9, atol=1e-10)
    steps = 1e-6 * np.eye(3)
    differences = np.stack([(surface(points + one)[0] - surface(points - one)[0]) / 2e-6 for one in steps], axis=1)
    np.testing.assert_allclose(slopes, differences, atol=1e-7)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("role", "name"), MODELS)
def test_fitting_again_gives_the_same_surface(role: Role, name: str) -> None:
    x, y = sample(role)
    first, second = (learner(role, name).fit(x, y, 3)(x)[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_networks_differ_by_seed() -> None:
    x, y = sample(Role.outcome)
    fit = learner(Role.outcome, "neural_network").fit
    assert not np.array_equal(fit(x, y, 1)(x)[0], fit(x, y, 2)(x)[0])


@pytest.mark.parametrize("name", ["sklearn.linear_model.Ridge", "os:system", "../x", "forest", "", "Kernel_Ridge"])
def test_only_registered_names_are_models(name: str) -> None:
    with pytest.raises(StudyError, match="kernel_ridge, neural_network"):
        learner(Role.outcome, name)


def test_a_model_of_one_role_is_none_of_the_other() -> None:
    with pytest.raises(StudyError):
        learner(Role.propensity, "kernel_ridge")


OFFERED = Learner(lambda x, y, seed: constant(0.0))


def test_entry_points_of_installed_packages_join_but_built_in_names_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group of another role is not read, and what is no Learner is not taken."""
    group = "causalveil.outcome_models"
    found = [
        EntryPoint("zero", f"{__name__}:OFFERED", group),
        EntryPoint("kernel_ridge", f"{__name__}:OFFERED", group),
        EntryPoint("nothing", f"{__name__}:MODELS", group),
    ]
    monkeypatch.setattr(learners, "entry_points", lambda group: [e for e in found if e.group == group])
    monkeypatch.setattr(EntryPoint, "load", lambda self: globals()[self.attr])
    learners._installed.cache_clear()
    try:
        assert learner(Role.outcome, "zero") is OFFERED
        assert learner(Role.outcome, "kernel_ridge") is not OFFERED
        for role, name in ((Role.outcome, "nothing"), (Role.propensity, "zero")):
            with pytest.raises(StudyError):
                learner(role, name)
    finally:
        learners._installed.cache_clear()
