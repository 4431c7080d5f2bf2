"""Studies, rows and chosen designs for tests of regression."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from causalveil.schemas.estimators.regression import RegressionStudy
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.estimate.adjust.features import (
    ArmScales,
    Curve,
    Encoding,
    FeatureMap,
    LineFeature,
    Scores,
    Screen,
    Shape,
)
from tests.studies import made

NONE = np.zeros(1)


def make_regression(p: int = 2, **changes: Any) -> RegressionStudy:
    """A study of `p` numbers in [-1, 1], outcome from 0 to 10; keys of privacy and estimator may stand at the top."""
    return cast(RegressionStudy, made("regression", p, **changes))


def in_rows(z: np.ndarray, t: np.ndarray, u: np.ndarray) -> Rows:
    """Covariates in [-1, 1], shape (n, p), with their intercept as rows of the unit ball."""
    x = np.column_stack([z, np.ones(len(z))]) / np.sqrt(z.shape[1] + 1) * (1 - 2.0**-40)
    return Rows(x, np.asarray(t, dtype=np.uint8), np.asarray(u, dtype=np.float64))


class Design:
    """What later releases sum over, as if release 1 had said it: one straight line a column, a curve of each shape."""

    def __init__(self, study: RegressionStudy, steep: float = 4.0, cut: float = 1.0) -> None:
        self.encoding = Encoding.of(study)
        columns = self.encoding.columns
        missing = {one.covariate: place for place, one in enumerate(columns) if one.kind == "missing"}
        ends = np.array([-1.0, 1.0])
        self.lines = tuple(
            LineFeature(place, ends, steep * ends, missing.get(one.covariate) if one.kind == "number" else None)
            for place, one in enumerate(columns)
        )
        d = len(self.lines)
        slopes = np.zeros(d)
        slopes[0] = 0.2
        self.curves = (
            Curve(Shape.square, 0, 0, NONE, NONE, 1.0, slopes, 1.3),
            Curve(Shape.product, 0, d - 1, NONE, NONE, 0.1, 0 * slopes, 1.0),
            Curve(Shape.step, 0, 0, np.array([0.3]), NONE, 0.4, slopes, 0.5),
            Curve(Shape.bend, 0, 0, ends, np.array([0.0, 1.0]), 0.5, slopes, 0.3),
        )
        self.arms = ArmScales(0.3, (0.2, -0.3), 0.2, 0.6)
        self.features = FeatureMap(self.lines, self.curves, cut * np.sqrt(1 + d + 4))
        some = np.linspace(-0.3, 0.4, d)
        self.screen = Screen(
            self.arms, self.lines, self.curves, cut * 2.0, some, some, np.stack([some, -some]), some[::-1].copy(), 0.9
        )
        some = np.linspace(-0.3, 0.4, d + 4)
        self.scores = Scores(
            self.arms, self.features, (0.7, 0.3), some, some, np.stack([some, -some]), np.stack([some, some]) / 3,
            np.array([0.1, 0.2]), 2.0,
        )  # fmt: skip
