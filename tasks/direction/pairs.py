"""The two variables of a direction study, scaled to [-1, 1] by declared bounds, in the order of keyed hashes.

Beside ``h.npy`` a segment's folder in scratch holds ``xy.npy``, float64 (rows, 2), rows ascending by hash; the
leading rows that ``split`` counted are training rows. Test rows are brought together in the order of their hashes over
all segments: 32 bytes a row, for ranks need them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from causalveil.schemas.errors import DataError
from causalveil.schemas.estimators.direction import DirectionStudy, Variable
from causalveil.schemas.plan import Layout
from causalveil.tasks.enclave.data_folder import DataFolder
from causalveil.tasks.enclave.enclave import Enclave
from causalveil.tasks.enclave.normalise import hashed_order, rescale, write_segments
from causalveil.tasks.enclave.segments import LoadedSegment
from causalveil.tasks.enclave.split import Halves
from causalveil.tasks.enclave.unit_hash import ascending
from causalveil.tasks.machine.arrays import FloatArray, IntArray, save_array
from causalveil.tasks.machine.frames import values_of


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
    """The values clipped to the variable's bounds and mapped to [-1, 1], shape (n,).

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


def normalise_stage(
    study: DirectionStudy,
    folder: DataFolder,
    layout: Layout,
    scratch: Path,
    run_id: str,
    seed: int | None = None,
) -> None:
    """Normalise every partition into ``scratch/enclave``; all as for ``tasks.enclave.normalise.normalise_stage``."""
    write_segments(partial(normalise_segment, study), study, folder, layout, scratch, run_id, seed)


def training_sizes(enclave: Enclave) -> IntArray:
    """Leading rows of each segment that are training rows, shape (segments,)."""
    return np.asarray(Halves.open(enclave).edges[0])


def training_rows(enclave: Enclave) -> Callable[[int], FloatArray]:
    """The training rows of a segment, shape (rows, 2), by its number."""
    sizes = training_sizes(enclave)
    return lambda index: np.asarray(enclave.load("xy", index)[: sizes[index]])


def test_rows(enclave: Enclave) -> TestRows:
    """The test rows of all segments."""
    sizes = training_sizes(enclave)
    hashes, pairs = (enclave.gather(name, sizes) for name in ("h", "xy"))
    order = ascending(hashes)
    # The low word is as random as the high one, and independent of the order by the whole hash.
    ties = np.empty(len(order), dtype=np.int64)
    ties[np.lexsort((hashes[order, 0], hashes[order, 1]))] = np.arange(len(order))
    return TestRows(pairs[order], ties)
