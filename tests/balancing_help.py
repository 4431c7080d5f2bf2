"""Studies, tables and whole analyses for tests of balancing weights."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from causalveil.schemas.estimators.balancing import BalancingStudy
from causalveil.tasks.data.enclave import Rows
from tests.regression_help import in_rows
from tests.studies import made


def make_balancing(p: int = 2, **changes: Any) -> BalancingStudy:
    """A study of `p` numbers in [-1, 1], outcome from 0 to 10; keys of privacy and estimator may stand at the top."""
    return cast(BalancingStudy, made("balancing", p, **{"epsilon": "1", "delta": "0", "level": "label"} | changes))


def confounded(n: int, p: int = 2, seed: int = 0, constant: float = 0.0) -> Rows:
    """Covariates that move log odds of treatment by a deviation of about 1, and outcomes; the effect is .1 in u."""
    random = np.random.default_rng(seed)
    z = np.clip(random.normal(size=(n, p)) / 3, -1, 1)
    index = 3 * z.mean(axis=1) * np.sqrt(p)
    t = (random.random(n) < 1 / (1 + np.exp(-index - constant))).astype(np.uint8)
    u = np.clip(0.1 * t + 0.1 * index + 0.1 * random.normal(size=n), -1, 1)
    return in_rows(z, t, u)
