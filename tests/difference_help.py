"""Studies and tables for tests of the difference in means, and people whose covariates confound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from causalveil.schemas.estimators.difference import DifferenceStudy
from causalveil.schemas.plan import Sizes
from causalveil.tasks.data.cells import CellRows
from causalveil.tasks.data.enclave import Rows
from causalveil.tasks.data.split import Pieces
from causalveil.tasks.estimate import difference
from causalveil.tasks.machine.arrays import FloatArray
from causalveil.tasks.privacy.mechanisms import Mechanism
from tests.studies import made

HAIR = 1 - 2.0**-40


def make_difference(**changes: Any) -> DifferenceStudy:
    """A study by arm means; keys of privacy and estimator may stand at the top."""
    return cast(DifferenceStudy, made("difference_in_means", **changes))


def difference_sums(study: DifferenceStudy, rows: Rows) -> FloatArray:
    """What some people add to the one release of a difference in means, without noise."""
    return difference.sums(study, Pieces(lambda _: CellRows.of(rows), 1, len(rows)))


def difference_mechanism(study: DifferenceStudy, sizes: Sizes) -> Mechanism:
    """The mechanism of that release."""
    return difference.mechanism(study, sizes)


def encode(z: np.ndarray) -> np.ndarray:
    """Covariates in [-1, 1], shape (n, p), as rows of the unit ball with their intercept."""
    return np.column_stack([z, np.ones(len(z))]) / np.sqrt(z.shape[1] + 1) * HAIR


def confounded(n: int, p: int = 2, seed: int = 0, strength: float = 1.0, curved: bool = False) -> tuple[Rows, float]:
    """Rows whose treatment and outcome (u in [-1, 1]) depend on the same covariates, and the effect on u.

    `curved`: the outcome depends on the first covariate by its cube root, which no line follows.
    """
    random = np.random.default_rng(seed)
    z = random.uniform(-1, 1, (n, p))
    shared = z.mean(axis=1)
    t = (random.random(n) < 1 / (1 + np.exp(-2 * strength * shared))).astype(np.uint8)
    signal = np.cbrt(z[:, 0]) if curved else shared
    u = 0.2 * (t - 0.5) + 0.3 * signal + random.uniform(-0.2, 0.2, n)
    return Rows(encode(z), t, u), 0.2


def in_memory(tables: Sequence[Rows]) -> Pieces:
    """Rows that are in memory as pieces."""
    return Pieces(tables.__getitem__, len(tables), sum(map(len, tables)))
