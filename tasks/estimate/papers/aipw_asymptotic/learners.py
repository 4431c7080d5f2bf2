"""Fit nuisance models of the asymptotic guarantee, by name, from a closed registry.

They are fitted without any privacy. A study names a model and never a place to load code from, since a study file
travels and must not execute code. A site adds a model in code that it has installed: an entry point of the group
``causalveil.outcome_models`` or ``causalveil.propensity_models`` that is a :class:`Learner`.

The models are those of Schröder, Hartenstein and Feuerriegel (2025), appendix C.2, fitted by scikit-learn. Features are
in [0, 1], outcomes in their own units, treatments 0 or 1.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.metadata import entry_points

import numpy as np

from causalveil.schemas.errors import StudyError
from causalveil.tasks.machine.arrays import FloatArray

# Appendix C.2 of the paper: kernel ridge regression and the network have the same alpha.
ALPHA = 0.1
HIDDEN = 32
# A kernel matrix of a fold's rows stays below 1 GB.
LARGEST_KERNEL = 20_000
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")

# Features of shape (points, d) -> values, shape (points,), and gradients, shape (points, d).
Surface = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


class Role(StrEnum):
    """The role of a model: it predicts outcomes or propensities."""

    outcome = "outcome"
    propensity = "propensity"


@dataclass(frozen=True)
class Learner:
    """The method by which one kind of model is fitted.

    Attributes:
        fit: (features (m, d), targets (m,), seed) -> a smooth surface. A propensity model's values lie in [0, 1]
            and its targets are 0 or 1. The same arguments must give the same surface: a resumed run fits again.
        largest: the largest number of units that it takes, or None.
    """

    fit: Callable[[FloatArray, FloatArray, int], Surface]
    largest: int | None = None


def learner(role: Role, name: str) -> Learner:
    """Return the learner of that name.

    Raises:
        StudyError: the model is not in the registry.
    """
    learners = {**_installed(role), **_REGISTRY[role]}
    if name not in learners:
        key, names = "outcome_model" if role is Role.outcome else "propensity", sorted(learners)
        raise StudyError(
            f"no {role} model '{name}' is installed here; there are: {', '.join(names)}. Write below 'estimator', as "
            f"in {key}: {{model: {names[0]}}}"
        )
    return learners[name]


@contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress all warnings, since whether a model converged is a fact about the data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def constant(value: float) -> Surface:
    """Return a surface with one value everywhere and slopes of 0."""
    return lambda points: (np.full(len(points), value), np.zeros(points.shape))


@cache
def _installed(role: Role) -> dict[str, Learner]:
    """Return the models of installed packages; they cannot replace built-in ones."""
    learners: dict[str, Learner] = {}
    for entry in entry_points(group=f"causalveil.{role}_models"):
        model = entry.load()
        if NAME.fullmatch(entry.name) and isinstance(model, Learner):
            learners[entry.name] = model
    return learners


def _logistic(x: FloatArray, t: FloatArray, seed: int) -> Surface:  # noqa: ARG001  (nothing is drawn)
    """Fit a logistic regression with scikit-learn's defaults."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression().fit(x, t)
    weights, intercept = model.coef_[0], float(model.intercept_[0])

    def surface(points: FloatArray) -> tuple[FloatArray, FloatArray]:
        score = _sigmoid(points @ weights + intercept)
        return score, (score * (1 - score))[:, None] * weights

    return surface


def _kernel_ridge(x: FloatArray, y: FloatArray, seed: int) -> Surface:  # noqa: ARG001  (nothing is drawn)
    """Fit kernel ridge regression with kernel exp(-||a - b||^2 / d), d features: scikit-learn's default."""
    from sklearn.kernel_ridge import KernelRidge

    dual = KernelRidge(kernel="rbf", alpha=ALPHA).fit(x, y).dual_coef_
    width, squares = 1 / x.shape[1], np.sum(x * x, axis=1)

    def surface(points: FloatArray) -> tuple[FloatArray, FloatArray]:
        distances = np.sum(points * points, axis=1)[:, None] + squares - 2 * (points @ x.T)
        pull = np.exp(-width * distances) * dual
        values = pull.sum(axis=1)
        return values, 2 * width * (pull @ x - values[:, None] * points)

    return surface


def _network(x: FloatArray, y: FloatArray, seed: int) -> Surface:
    """Fit a hidden layer of 32 tanh neurons by stochastic gradient descent, with scikit-learn's defaults."""
    from sklearn.neural_network import MLPRegressor

    return _layers(MLPRegressor, x, y, seed)


def _network_score(x: FloatArray, t: FloatArray, seed: int) -> Surface:
    """Fit the network with a logistic output to a treatment."""
    from sklearn.neural_network import MLPClassifier

    logit = _layers(MLPClassifier, x, t, seed)

    def surface(points: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, slopes = logit(points)
        score = _sigmoid(values)
        return score, (score * (1 - score))[:, None] * slopes

    return surface


def _layers(kind: Callable[..., object], x: FloatArray, y: FloatArray, seed: int) -> Surface:
    """Fit a network and read its two layers back: the surface before any output activation."""
    model = kind(hidden_layer_sizes=(HIDDEN,), activation="tanh", solver="sgd", alpha=ALPHA, random_state=seed)
    model.fit(x, y)  # type: ignore[attr-defined]  # scikit-learn has no types
    (inner, outer), (shift, offset) = model.coefs_, model.intercepts_  # type: ignore[attr-defined]  # as above

    def surface(points: FloatArray) -> tuple[FloatArray, FloatArray]:
        hidden = np.tanh(points @ inner + shift)
        return hidden @ outer[:, 0] + offset[0], ((1 - hidden * hidden) * outer[:, 0]) @ inner.T

    return surface


def _sigmoid(values: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-values)), dtype=np.float64)


_REGISTRY: dict[Role, dict[str, Learner]] = {
    Role.outcome: {"kernel_ridge": Learner(_kernel_ridge, LARGEST_KERNEL), "neural_network": Learner(_network)},
    Role.propensity: {"logistic": Learner(_logistic), "neural_network": Learner(_network_score)},
}
