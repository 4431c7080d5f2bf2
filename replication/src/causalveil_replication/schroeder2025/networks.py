"""The network of Table 1 by its step: bias and coverage of the interval without privacy.

The paper's appendix C.2 gives its network's layer, activation, penalty and descent, and leaves the step open. What
privacy adds needs the largest influence in the domain, whose search takes most of a fit: without it runs are quick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from causalveil.schemas.estimators.aipw import AipwStudy
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.estimate.papers.aipw_asymptotic import influence
from causalveil.tasks.estimate.papers.aipw_asymptotic.learners import ALPHA, HIDDEN, Learner, Surface
from causalveil.tasks.estimate.papers.aipw_asymptotic.stages import domain, table
from causalveil.tasks.machine.arrays import FloatArray
from causalveil_replication.schroeder2025.data import Population, draw, rows_of
from causalveil_replication.schroeder2025.runs import LEVELS, NETWORK, NOISE_SEED, study_of

# scikit-learn's default, which production has, and ten times it.
STEPS = (0.001, 0.01)


class StepRun(NamedTuple):
    """An estimate without noise, in outcome units, and its standard error."""

    run: int
    tau: float
    error: float


def step_runs(population: Population, units: int, step: float, runs: Iterable[int]) -> list[StepRun]:
    """Estimates of networks of that step: run k has the data, folds and seeds of every other replication here."""
    study = study_of(population.document(), NETWORK, units, "0.5", "1e-5")
    if not isinstance(study, AipwStudy):
        raise TypeError("the network is a learner of aipw")
    learners = (Learner(_outcome(step)), Learner(_score(step)))
    found = []
    for run in runs:
        rows = rows_of(study, draw(population, units, run))
        parts = np.array_split(np.arange(units), study.estimator.folds)
        folds = [table(study, Rows(rows.x[part], rows.t[part], rows.u[part])) for part in parts]
        of_run = influence.moments(folds, domain(study), learners, NOISE_SEED + run, lambda *_: 0.0)
        found.append(StepRun(run, of_run.tau, float(np.sqrt(of_run.sigma2 / units))))
    return found


def step_rows(population: Population, step: float, found: Sequence[StepRun]) -> list[dict[str, Any]]:
    """Coverage at each level, and the bias in standard errors of an estimate."""
    off, error = np.array([one.tau for one in found]) - population.truth, np.array([one.error for one in found])
    ratio = off / error
    return [
        {
            "data": population.title,
            "step": step,
            "level": level,
            "runs": len(found),
            "coverage": round(float(np.mean(np.abs(ratio) <= stats.norm.ppf((1 + level) / 2))), 5),
            "bias": round(float(off.mean()), 5),
            "bias_error": round(float(off.std(ddof=1)) / len(found) ** 0.5, 5),
            "standard_error": round(float(error.mean()), 5),
        }
        for level in LEVELS
    ]


def _outcome(step: float) -> Callable[[FloatArray, FloatArray, int], Surface]:
    from sklearn.neural_network import MLPRegressor

    def fit(x: FloatArray, y: FloatArray, seed: int) -> Surface:
        model = MLPRegressor(random_state=seed, **_settings(step)).fit(x, y)
        return lambda points: (model.predict(points), np.zeros(points.shape))

    return fit


def _score(step: float) -> Callable[[FloatArray, FloatArray, int], Surface]:
    from sklearn.neural_network import MLPClassifier

    def fit(x: FloatArray, t: FloatArray, seed: int) -> Surface:
        model = MLPClassifier(random_state=seed, **_settings(step)).fit(x, t)
        return lambda points: (model.predict_proba(points)[:, 1], np.zeros(points.shape))

    return fit


def _settings(step: float) -> dict[str, Any]:
    return {
        "hidden_layer_sizes": (HIDDEN,),
        "activation": "tanh",
        "solver": "sgd",
        "alpha": ALPHA,
        "learning_rate_init": step,
    }
