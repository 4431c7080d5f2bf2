"""Release 3: one pair of orthogonal scores of all units.

v = w (u - m_t - b'(xs - xbar_t))/V cut to [-1, 1], xs the features, xbar_t the arms' means of them, and w weights
linear in xs that balance them: an error in b meets one in the weights. Where each arm has slopes of its own
(b1 - b0)'xs is added, so that the features' mean, which nobody knows, drops out. (sum v, sum v^2) has L2 sensitivity 2
and L1 sensitivity 2.25 (``docs/proofs/regression.md``, section 3).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from causalveil.tasks.enclave.folds import Pieces
from causalveil.tasks.enclave.rows import Rows
from causalveil.tasks.machine.arrays import BoolArray, FloatArray
from causalveil.tasks.models.lattice_sums import exact_sums, on_lattice
from causalveil.tasks.regression.features import Features
from causalveil.tasks.regression.lines.adjustment import Adjustment
from causalveil.tasks.regression.scales import Scales


def score_sums(
    pieces: Pieces, scales: Scales, features: Features | None, choice: Adjustment, workers: int = 1
) -> FloatArray:
    """The exact sums (sum v, sum v^2), shape (2,).

    Args:
        pieces: all units.
        scales: of release 1.
        features: what is adjusted for; None: nothing is.
        choice: slopes, weights and where scores are cut.
        workers: threads; the sums do not depend on it.
    """

    def of(rows: Rows) -> FloatArray:
        v = on_lattice(scores(rows, scales, features, choice) / choice.reach)
        return np.array([v.sum(), v @ v])

    return exact_sums(pieces, of, 2, workers)


def scores(rows: Rows, scales: Scales, features: Features | None, choice: Adjustment) -> FloatArray:
    """w r_b of each row, and what the effect differs by, shape (rows,), in units of L, not cut.

    A row's score depends on that row alone.
    """
    residual, treated = scales.residuals(rows), rows.t != 0
    if features is None:
        return row_scores(residual, treated, scales.share, choice, lambda *_: [])
    # All in one pass over the rows, which makes their features.
    return row_scores(residual, treated, scales.share, choice, partial(features.times, rows.x))


def row_scores(
    residual: FloatArray,
    treated: BoolArray,
    share: float,
    choice: Adjustment,
    times: Callable[..., list[FloatArray]],
) -> FloatArray:
    """The scores of some rows, shape (rows,), in units of L, not cut.

    Args:
        residual: (u - m_t)/L, shape (rows,).
        treated: whose they are, shape (rows,).
        share: p.
        choice: what is adjusted for.
        times: the rows' features by each of some vectors; not called where nothing is adjusted for.
    """
    weight = np.where(treated, 1 / share, -1 / (1 - share))
    if not choice.adjusted:
        plain: FloatArray = weight * residual
        return plain
    own = choice.lines if choice.controls is not None else choice.lines[:1]
    by_slopes, by_weights, *of_controls = times(*(vector for line in own for vector in (line.slopes, line.weights)))
    effect: float | FloatArray = 0.0
    if of_controls:
        effect = by_slopes - of_controls[0]
        by_slopes, by_weights = np.where(treated, (by_slopes, by_weights), of_controls)
    moved = np.where(treated, *[float(choice.apart @ line.slopes) for line in choice.lines])
    between = np.where(treated, *[line.index for line in choice.lines])
    # The arms' means of the features are (1-p) D and -p D.
    arms = np.where(treated, 1 - share, -share)
    predicted = by_slopes - arms * moved
    index = by_weights - arms * between
    treated_lean, control_lean = choice.leaning
    balanced = np.where(treated, 1 - treated_lean * index, 1 + control_lean * index)
    found: FloatArray = effect + weight * balanced * (residual - predicted)
    return found
