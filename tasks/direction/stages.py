"""Direction of cause between two variables.

Regress, score, answer (Kusner et al. 2016, Algorithm 1, made private).

Regressions of each variable on the other are fitted on the training half. On the test half the residuals of a
regression are compared with the variable that predicted; the direction whose residuals depend less on it wins. The
exact scores stay in the enclave; what leaves it goes through the draws of ``draws.py``.

Both variables are scaled to [-1, 1] by declared bounds, in the order of keyed hashes. Beside ``h.npy`` a segment's
folder in scratch holds ``xy.npy``, float64 (rows, 2), rows ascending by hash; the leading rows that ``split`` counted
are training rows. Test rows are brought together in the order of their hashes over all segments: 32 bytes a row, for
ranks need them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from causalveil.schemas.errors import DataError
from causalveil.schemas.estimators.direction import RANKS, DirectionStudy, Releases, Score, Variable
from causalveil.schemas.plan import Sizes
from causalveil.schemas.privacy import Half
from causalveil.tasks.direction import scores, sensitivity
from causalveil.tasks.direction.answers import DirectionFindings, ReleasedDraw, findings
from causalveil.tasks.direction.draws import BESIDE, VECTORS, Draw, draws, fits
from causalveil.tasks.direction.scores import Kernel, Pairs, Regression, fit
from causalveil.tasks.direction.sensitivity import QuartileRange, bin_distances, order_distance, released_log
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.enclave.normalise import hashed_order, rescale
from causalveil.tasks.enclave.partitions import LoadedSegment
from causalveil.tasks.enclave.split import Halves
from causalveil.tasks.enclave.unit_hash import ascending
from causalveil.tasks.machine.arrays import FloatArray, IntArray, save_array
from causalveil.tasks.machine.frames import values_of
from causalveil.tasks.privacy.mechanisms import Budget, Laplace


@dataclass(frozen=True)
class TestRows:
    """Test rows in the order of their keyed hashes.

    ``pairs``: (x', y'), shape (m, 2), in [-1, 1]. ``ties``: another keyed order, shape (m,), a permutation. A unit's
    place in either is random and has nothing to do with its values, and replacing a unit moves nobody else.
    """

    __test__ = False

    pairs: FloatArray
    ties: IntArray


def scaled(variable: Variable, values: pl.Series) -> FloatArray:
    """Return the values clipped to the variable's bounds and mapped to [-1, 1], shape (n,).

    Raises:
        DataError: nulls, NaN, or not numbers.
    """
    numbers = values.cast(pl.Float64, strict=False)
    if numbers.null_count():
        raise DataError(f"column '{variable.name}' holds nulls")
    result = numbers.to_numpy().copy()
    rescale(result, variable, 1.0, out=result)
    return result


def normalise_segment(study: DirectionStudy, segment: LoadedSegment, place: Path, key: bytes) -> None:
    """Write xy.npy and h.npy of one segment, rows ascending by keyed hash.

    Raises:
        DataError: a value that admission refuses.
    """
    order = hashed_order(values_of(segment.frame, study.data.unit), place, key)
    pair = study.pair
    columns = [scaled(variable, values_of(segment.frame, variable.name))[order] for variable in (pair.x, pair.y)]
    save_array(place / "xy.npy", np.column_stack(columns))


def training_sizes(enclave: Enclave) -> IntArray:
    """Return how many leading rows of each segment are training rows, shape (segments,)."""
    return np.asarray(Halves.open(enclave).edges[0])


def training_rows(enclave: Enclave) -> Callable[[int], FloatArray]:
    """Return the training rows of a segment, shape (rows, 2), by its number."""
    sizes = training_sizes(enclave)
    return lambda index: np.asarray(enclave.load("xy", index)[: sizes[index]])


def test_rows(enclave: Enclave) -> TestRows:
    """Return the test rows of all segments."""
    sizes = training_sizes(enclave)
    hashes, pairs = (enclave.gather(name, sizes) for name in ("h", "xy"))
    order = ascending(hashes)
    # The low word is as random as the high one, and independent of the order by the whole hash.
    ties = np.empty(len(order), dtype=np.int64)
    ties[np.lexsort((hashes[order, 0], hashes[order, 1]))] = np.arange(len(order))
    return TestRows(pairs[order], ties)


Vectors = Mapping[str, FloatArray]
"""``x``, ``y``, ``residual_y`` and ``residual_x`` on the test rows, shape (m,) each, in the order of their hashes."""

WEIGHTS = "weights"


def regress(study: DirectionStudy, pairs: Pairs, segments: int) -> tuple[Regression, Regression]:
    """Return the regression of y on x and that of x on y, exactly.

    Raises:
        ConvergenceError: see ``residuals.fit``.
    """
    estimator, workers = study.estimator, study.execution.workers
    f, g = (fit(pairs, segments, cause, estimator.penalty, estimator.bandwidth, workers) for cause in (0, 1))
    return f, g


def release_regressions(
    study: DirectionStudy, sizes: Sizes, exact: tuple[Regression, Regression], budget: Budget
) -> tuple[Regression, Regression] | None:
    """Release both regressions with noise on their weights.

    The result is None where no draw needs them so.
    """
    declared = fits(study, sizes)
    if not declared:
        return None
    f, g = (
        Regression(exact[draw.cause].kernel, draw.mechanism.release(exact[draw.cause].weights, draw.slot, budget))
        for draw in declared
    )
    return f, g


def vectors(test: TestRows, regressions: tuple[Regression, Regression]) -> Vectors:
    """Return the two variables on the test rows, and the residuals of their regressions."""
    x, y = np.ascontiguousarray(test.pairs.T)
    return {"x": x, "y": y, "residual_y": y - regressions[0].predict(x), "residual_x": x - regressions[1].predict(y)}


def score_values(study: DirectionStudy, score: Score, found: Vectors, test: TestRows) -> tuple[float, float]:
    """Return a score's two exact values: x to y, then y to x.

    The smaller one names the direction.
    """
    sides = ((found["x"], found["residual_y"]), (found["y"], found["residual_x"]))
    if score is Score.hsic:
        variable = Kernel(study.estimator.bandwidth, 1.0)
        residual = Kernel(study.estimator.kernel_of_residuals, 2.0)
        forwards, backwards = (scores.hsic(a, b, variable, residual) for a, b in sides)
    elif score is Score.iqr:
        logs = {name: released_log(_quartile_range(found[name]).now) for name in VECTORS}
        forwards, backwards = logs["x"] + logs["residual_y"], logs["y"] + logs["residual_x"]
    else:
        # Ties of the two variables are broken by unrelated orders: by one order they would look like dependence.
        measure = scores.spearman if score is Score.spearman else scores.kendall
        forwards, backwards = (measure(a, b, (None, test.ties)) for a, b in sides)
    return forwards, backwards


def measure(study: DirectionStudy, sizes: Sizes, draw: Draw, found: Vectors, test: TestRows) -> FloatArray:
    """Compute the exact numbers that ``draw`` is made on: values, then distances of its test.

    They stay in the enclave.
    """
    if not draw.vectors:
        values = [_asked(study, score_values(study, score, found, test)) for score in draw.scores]
        return np.concatenate([*values, _order_distances(study, sizes, draw, found)])
    distances = np.array([_bin_distances(study, sizes, draw, name, found[name]) for name in draw.vectors], np.float64)
    if len(draw.vectors) > 1:
        # One test for all: the better bin of each vector, the worst vector.
        value = _asked(study, score_values(study, Score.iqr, found, test))
        return np.append(value, distances.max(axis=1).min())
    name = draw.vectors[0]
    # Where test units are not protected the variable beside a residual is added exactly.
    names = [name] if Half.test in study.estimator.protect else [name, BESIDE[name]]
    return np.append(sum(released_log(_quartile_range(found[part]).now) for part in names), distances[0])


def release(draw: Draw, measured: FloatArray, budget: Budget) -> FloatArray | None:
    """Make a draw on what was measured for it; None is "no answer"."""
    if isinstance(draw.mechanism, Laplace):
        return draw.mechanism.release(measured, draw.slot, budget)
    tests = draw.mechanism.tests
    return draw.mechanism.release(measured[:-tests], measured[-tests:], draw.slot, budget)


def regress_stage(study: DirectionStudy, sizes: Sizes, enclave: Enclave, budget: Budget) -> None:
    """Fit both regressions on the training rows; release them too if the study needs them noisy.

    Raises:
        ConvergenceError: before anything is drawn.
    """
    exact = regress(study, training_rows(enclave), enclave.segments)
    noisy = release_regressions(study, sizes, exact, budget) or exact
    enclave.save(WEIGHTS, np.array([[side.weights for side in pair] for pair in (exact, noisy)]))


def score_stage(study: DirectionStudy, sizes: Sizes, enclave: Enclave) -> None:
    """Measure every draw on the test rows and leave the numbers in the enclave."""
    kernel, weights = Kernel(study.estimator.bandwidth, 1.0), enclave.load(WEIGHTS)
    test = test_rows(enclave)
    exact, noisy = (vectors(test, (Regression(kernel, f), Regression(kernel, g))) for f, g in weights)
    for draw in draws(study, sizes):
        measured = measure(study, sizes, draw, noisy if draw.scores[0] in RANKS else exact, test)
        enclave.save(_name(draw), measured)


def answer_stage(study: DirectionStudy, sizes: Sizes, enclave: Enclave, budget: Budget) -> DirectionFindings:
    """Draw once for each declared charge and put the released values together."""
    declared = draws(study, sizes)
    measured = [enclave.load(_name(draw)) for draw in declared]
    released = [ReleasedDraw(draw, release(draw, part, budget)) for draw, part in zip(declared, measured, strict=True)]
    return findings(study, sizes, released)


def _name(draw: Draw) -> str:
    return f"score-{draw.slot.name}"


def _asked(study: DirectionStudy, values: tuple[float, float]) -> FloatArray:
    """Both values of a score, or y to x minus x to y if only their difference is asked for."""
    both = np.array(values)
    return both if study.estimator.release is Releases.scores else both[1:] - both[:1]


def _quartile_range(values: FloatArray) -> QuartileRange:
    return QuartileRange(np.sort(values))


def _movement(study: DirectionStudy, sizes: Sizes) -> float:
    return sensitivity.residual_movement(sizes.train, study.estimator.penalty, study.estimator.variant)


def _bin_distances(study: DirectionStudy, sizes: Sizes, draw: Draw, name: str, values: FloatArray) -> tuple[int, int]:
    protect, trained = study.estimator.protect, name in BESIDE and Half.train in study.estimator.protect
    return bin_distances(
        _quartile_range(values),
        draw.bin,
        draw.cap,
        replace=Half.test in protect,
        movement=_movement(study, sizes) if trained else None,
    )


def _order_distances(study: DirectionStudy, sizes: Sizes, draw: Draw, found: Vectors) -> FloatArray:
    """The distance to another order of the residuals on either side.

    There is none for a draw without a test.
    """
    if isinstance(draw.mechanism, Laplace):
        return np.zeros(0)
    movement = _movement(study, sizes)
    return np.array([float(min(order_distance(found[name], movement, draw.cap) for name in BESIDE))])
