"""What an analyst without privacy would say of the same people: least squares, and double machine learning.

Double machine learning is Chernozhukov et al. 2018 (theorem 5.1) with two folds: outcomes of each arm and treatment by
gradient boosting over histograms (scikit-learn), scores of chance in [.01, .99].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.machine.distribute import one_thread
from causalveil_replication.accuracy.public_data import design_matrix

FOLDS, CLIP, ITERATIONS = 2, 0.01, 60


class PlainAnswer(NamedTuple):
    """An estimate and its standard error."""

    estimate: float
    standard_error: float


def least_squares(frame: pl.DataFrame, declared: Mapping[str, Mapping[str, object]], seed: int) -> PlainAnswer:
    """Treatment's coefficient beside all covariates, and its standard error by White's sandwich."""
    del seed
    x, t, y = _arrays(frame, declared)
    matrix = np.column_stack([np.ones(len(x)), t, x])
    inverse = np.linalg.pinv(matrix.T @ matrix)
    slopes = inverse @ (matrix.T @ y)
    meat = matrix * (y - matrix @ slopes)[:, None]
    return PlainAnswer(float(slopes[1]), float(np.sqrt((inverse @ (meat.T @ meat) @ inverse)[1, 1])))


def double_machine_learning(
    frame: pl.DataFrame, declared: Mapping[str, Mapping[str, object]], seed: int
) -> PlainAnswer:
    """The mean of cross-fitted doubly robust scores."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    x, t, y = _arrays(frame, declared)
    fold = np.arange(len(x)) % FOLDS
    scores = np.zeros(len(x))
    # scikit-learn is loaded by now; its threads would wait for each other.
    with one_thread():
        for place in range(FOLDS):
            own, other = fold == place, fold != place
            chance = HistGradientBoostingClassifier(max_iter=ITERATIONS, random_state=seed).fit(x[other], t[other])
            e = np.clip(chance.predict_proba(x[own])[:, 1], CLIP, 1 - CLIP)
            m = []
            for arm in (0, 1):
                some = other & (t == arm)
                model = HistGradientBoostingRegressor(max_iter=ITERATIONS, random_state=seed).fit(x[some], y[some])
                m.append(model.predict(x[own]))
            rest = t[own] * (y[own] - m[1]) / e - (1 - t[own]) * (y[own] - m[0]) / (1 - e)
            scores[own] = m[1] - m[0] + rest
    return PlainAnswer(float(scores.mean()), float(scores.std(ddof=1) / np.sqrt(len(scores))))


def _arrays(
    frame: pl.DataFrame, declared: Mapping[str, Mapping[str, object]]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    x = design_matrix(frame, declared)
    t: FloatArray = frame["t"].to_numpy().astype(np.float64)
    y: FloatArray = frame["y"].to_numpy().astype(np.float64)
    return x, t, y


PLAIN: Mapping[str, Callable[[pl.DataFrame, Mapping[str, Mapping[str, object]], int], PlainAnswer]] = {
    "least-squares": least_squares,
    "dml": double_machine_learning,
}
