"""Studies, tables and a budget for tests of the inverse probability weighting estimator."""

from __future__ import annotations

import itertools
from typing import Any, cast

import numpy as np

from causalveil.schemas.estimators.ipw import IpwStudy
from causalveil.tasks.data.enclave import Rows
from tests.studies import made

ESTIMANDS = ("ATE", "ATT", "ATC")


def make_study(**changes: Any) -> IpwStudy:
    """The small study with changes; keys of privacy and estimator may stand at the top."""
    return cast(IpwStudy, made("ipw", **{"penalty": 0.1} | changes))


def random_rows(n: int, d: int = 4, seed: int = 0, slope: float = 2.0) -> Rows:
    """Rows of the unit ball with an intercept, a treatment that depends on them, an outcome in [-1, 1]."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (n, d))
    x[:, -1] = 1
    x /= np.sqrt(d)
    t = (random.random(n) < 1 / (1 + np.exp(-slope * x.sum(axis=1)))).astype(np.uint8)
    u = np.clip(0.3 * x[:, 0] + 0.4 * t - 0.2 + random.normal(0, 0.3, n), -1, 1)
    return Rows(x, t, u)


def cut(rows: Rows, parts: int) -> list[Rows]:
    """The same rows in partitions of unequal size, one of them empty."""
    edges = [0, *sorted({len(rows) * k * k // parts**2 for k in range(1, parts)}), len(rows)]
    pieces = [Rows(rows.x[a:b], rows.t[a:b], rows.u[a:b]) for a, b in itertools.pairwise(edges)]
    return [*pieces, Rows(rows.x[:0], rows.t[:0], rows.u[:0])]
