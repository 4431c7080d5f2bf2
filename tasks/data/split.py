"""Split units by ranks of keyed hashes: training half, folds, and their public sizes.

The round(f n) units with the smallest keyed hashes train the propensity model, exactly that many. Of folds the units
whose hashes are the first n_1 of all are fold 1, the next n_2 fold 2, and so on; they count from 0 in code, from 1
where a person reads them. Either depends on the units and the key alone, not on the order of rows or on how they are
cut into files: a replaced person takes the old one's place and no other unit moves (``docs/proofs/data.md``).
Normalised rows ascend by hash, so a half or a fold of a segment is a span of its rows. Why the key must be secret:
``docs/privacy.md``.

The argument needs the hashes of distinct units to look like independent uniform draws (or draws without replacement)
without the key. AES-128 is a pseudorandom permutation of 16-byte blocks, fast in hardware, and one call
hashes a million units. Integers are one block, encoded injectively, so distinct integers have distinct hashes with
certainty. Text is a CBC-MAC over blocks, the first of which holds the length: no encoded text is a prefix of another,
and on a prefix-free set CBC-MAC is a pseudorandom function (Petrank & Rackoff 2000; Bellare, Kilian & Rogaway 2000);
two of 10^7 texts collide with probability below 10^-23. A type tag in the first block keeps texts and integers apart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import polars as pl
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from causalveil.schemas.errors import DataError, StudyError
from causalveil.schemas.plan import Sizes
from causalveil.schemas.study import Study
from causalveil.tasks.data.enclave import Enclave, HashArray, Rows
from causalveil.tasks.machine.arrays import ByteArray, IntArray

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext


HASH_LABEL = "unit hash"
BLOCK = 16
CHUNK_ROWS = 65_536
# Second word of the first block. The lowest byte of the integers' word says whether the value is negative.
_INTEGER_TAG = np.uint64(0x696E_7465_6765_7200)
_TEXT_TAG = np.uint64(0x7465_7874_0000_0000)
# Row k keeps the first k bytes of a block.
_KEEP = np.tril(np.full((BLOCK + 1, BLOCK), 0xFF, dtype=np.uint8), k=-1)


def keyed_hash(units: pl.Series, key: bytes) -> HashArray:
    """Hash each unit id under a 16-byte key.

    Args:
        units: integers that 64 bits hold, with a sign or without (int32 5 and uint64 5 have the same hash), or text.
        key: an AES-128 key that never leaves the enclave.

    Returns:
        Shape (n, 2), the high and the low word of each hash.

    Raises:
        DataError: nulls, or neither integers nor text.
    """
    if units.null_count():
        raise DataError("the unit column holds nulls")
    if units.dtype.base_type() in (pl.Categorical, pl.Enum):
        units = units.cast(pl.String)
    if not (units.dtype.is_integer() or units.dtype == pl.String):
        raise DataError("the unit column must hold integers or text")
    # ECB on distinct blocks is the bare permutation, which is what a hash of single blocks wants.
    cipher = Cipher(algorithms.AES128(key), modes.ECB()).encryptor()
    tag = _integer_tags if units.dtype.is_integer() else _text_tags
    hashes = np.empty((len(units), 2), dtype=np.uint64)
    for start in range(0, len(units), CHUNK_ROWS):
        hashes[start : start + CHUNK_ROWS] = tag(units[start : start + CHUNK_ROWS], cipher).view(">u8")
    return hashes


def ascending(hashes: HashArray) -> IntArray:
    """Return the permutation that sorts (n, 2) hashes by their 128-bit value."""
    high = hashes[:, 0]
    order = np.argsort(high)
    ranked = high[order]
    if np.any(ranked[1:] == ranked[:-1]):
        order = np.lexsort((hashes[:, 1], high))
    return order


def _integer_tags(units: pl.Series, cipher: CipherContext) -> ByteArray:
    """One block each: two's complement in 64 bits, then the sign.

    The map is injective over int64 and uint64 together.
    """
    blocks = np.empty((len(units), 2), dtype="<u8")
    blocks[:, 0] = units.cast(pl.UInt64, wrap_numerical=True).to_numpy()
    blocks[:, 1] = _INTEGER_TAG | (units < 0).to_numpy()
    return _encrypt(blocks.view(np.uint8), cipher)


def _text_tags(units: pl.Series, cipher: CipherContext) -> ByteArray:
    """CBC-MAC of each text; loops over the index of the block, not over rows."""
    content, starts = _utf8(units)
    lengths = np.diff(starts)
    first = np.empty((len(units), 2), dtype="<u8")
    first[:, 0] = lengths
    first[:, 1] = _TEXT_TAG
    state = _encrypt(first.view(np.uint8), cipher)
    # Every window of 16 bytes; the padding keeps the last text's windows inside the buffer.
    padded = np.concatenate([content, np.zeros(BLOCK, dtype=np.uint8)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, BLOCK)
    for offset in range(0, int(lengths.max(initial=0)), BLOCK):
        active = np.flatnonzero(lengths > offset)
        block = windows[starts[active] + offset] & _KEEP[np.minimum(lengths[active] - offset, BLOCK)]
        state[active] = _encrypt(state[active] ^ block, cipher)
    return state


def _utf8(units: pl.Series) -> tuple[ByteArray, IntArray]:
    """All bytes of a text column one after the other, and the n + 1 places where texts start and end."""
    lengths = units.str.len_bytes().to_numpy().astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    joined = units.str.join("").item() if len(units) else ""
    return np.frombuffer(joined.encode(), dtype=np.uint8), starts


def _encrypt(blocks: ByteArray, cipher: CipherContext) -> ByteArray:
    """Shape (n, 16) to shape (n, 16)."""
    # update_into needs room for another block than those it writes.
    encrypted = np.empty((len(blocks) + 1, BLOCK), dtype=np.uint8)
    cipher.update_into(np.ascontiguousarray(blocks).reshape(-1).data, encrypted.reshape(-1).data)
    return encrypted[:-1]


SPLIT = "split"
# Half width of the first range in which the threshold is sought; sqrt(n) / 2 is at least one standard error.
STANDARD_ERRORS = 8


def training_size(units: int, fraction: float) -> int:
    """Return round(fraction * units), the public number of training units.

    Args:
        units: n >= 1.
        fraction: in (0, 1).

    Raises:
        StudyError: a half would be empty.
    """
    size = round(fraction * units)
    if not 0 < size < units:
        raise StudyError(
            f"train_fraction {fraction:g} of {units} units leaves one half of the split empty; "
            "change 'train_fraction' or bring more units"
        )
    return size


def leading_rows(hashes: Sequence[HashArray], size: int) -> IntArray:
    """Count each segment's rows that are among the ``size`` smallest hashes of all.

    Keyed hashes are uniform, so the threshold is sought near size / units of their range: a few thousand of 1e8 rows
    are copied and sorted, and one segment is open at a time. A range that turns out too narrow is widened.

    Args:
        hashes: per segment shape (rows, 2), ascending by 128-bit value.
        size: 0 < size <= all rows.

    Raises:
        DataError: a hash stands twice at the threshold, so that a unit has two rows.
    """
    units = sum(map(len, hashes))
    middle, spread = size * 2**64 // units, (isqrt(units) + 1) * STANDARD_ERRORS * 2**64 // units
    while True:
        low, high = max(0, middle - spread), min(2**64, middle + spread)
        below, near = np.zeros(len(hashes), dtype=np.int64), []
        for index, part in enumerate(hashes):
            below[index] = bisect_left(part[:, 0], low)
            # A copy, so that the segment does not stay open.
            near.append(np.array(part[int(below[index]) : bisect_left(part[:, 0], high)]))
        wanted = size - int(below.sum())
        if 0 < wanted <= sum(map(len, near)):
            break
        spread *= STANDARD_ERRORS
    values = np.concatenate(near)
    order = ascending(values)
    if wanted < len(order) and np.array_equal(values[order[wanted - 1]], values[order[wanted]]):
        raise DataError("a unit occurs twice; each unit has one row over all partitions of the run")
    owners = np.repeat(np.arange(len(near)), [len(part) for part in near])
    return below + np.bincount(owners[order[:wanted]], minlength=len(near))


@dataclass(frozen=True)
class Cut:
    """The rows of one run, cut at edges.

    ``edges``: whole numbers of rows, a column for each segment. ``name``: of the edges in the enclave.
    """

    enclave: Enclave
    edges: IntArray
    name: ClassVar[str]

    @classmethod
    def open(cls, enclave: Enclave) -> Self:
        """Open the edges that the stage of that name left.

        Raises:
            CausalveilError: it has not run.
        """
        return cls(enclave, np.array(enclave.load(cls.name)))


class Halves(Cut):
    """Rows for training and rows for estimation.

    ``edges``: shape (2, segments); the leading rows of each segment that train, and the first that is estimated on.
    """

    name = SPLIT

    @property
    def segments(self) -> int:
        """Number of segments."""
        return len(self.edges[0])

    def train(self, segment: int) -> Rows:
        """Return the training units of a segment."""
        return self.enclave.rows(segment)[: int(self.edges[0, segment])]

    def estimation(self, segment: int) -> Rows:
        """Return the estimation units of a segment."""
        return self.enclave.rows(segment)[int(self.edges[1, segment]) :]


def split_stage(study: Study, enclave: Enclave) -> None:
    """Leave in the enclave where each segment is cut: ``Halves.edges``.

    Without a training share both halves are all rows.

    Raises:
        StudyError: a half would be empty.
        DataError: a unit occurs twice.
    """
    hashes = enclave.hashes()
    lengths = np.array([len(part) for part in hashes], dtype=np.int64)
    if study.training_share is None:
        enclave.save(SPLIT, np.stack([lengths, np.zeros_like(lengths)]))
        return
    leading = leading_rows(hashes, training_size(int(lengths.sum()), study.training_share))
    enclave.save(SPLIT, np.stack([leading, leading]))


FOLDS = "folds"
# Fewer units than this per fold cannot carry an estimate at any budget that a study may ask for.
SMALLEST_FOLD = 2


def fold_sizes(units: int, folds: int) -> tuple[int, ...]:
    """Return the public number of units of each fold, as equal as can be, the larger first.

    Raises:
        StudyError: fewer than two units in a fold.
    """
    if units < SMALLEST_FOLD * folds:
        raise StudyError(f"{units} units are too few for {folds} folds; lower 'folds' or bring more units")
    return tuple(units // folds + (fold < units % folds) for fold in range(folds))


@dataclass(frozen=True)
class Pieces:
    """Rows in pieces for sums over units; one piece is in memory at a time."""

    rows: Callable[[int], Rows]
    count: int
    units: int


class Folds(Cut):
    """Rows of each fold. ``edges``: shape (K + 1, segments)."""

    name = FOLDS

    @property
    def count(self) -> int:
        """K."""
        return len(self.edges) - 1

    def fold(self, fold: int) -> Pieces:
        """Return the units of one fold, 0 <= fold < K, a piece per segment that has any."""
        spans = zip(self.edges[fold].tolist(), self.edges[fold + 1].tolist(), strict=True)
        places = [(index, start, stop) for index, (start, stop) in enumerate(spans) if start < stop]

        def rows(piece: int) -> Rows:
            index, start, stop = places[piece]
            return self.enclave.rows(index)[start:stop]

        return Pieces(rows, len(places), sum(stop - start for _, start, stop in places))


def folds_stage(enclave: Enclave, folds: int) -> None:
    """Leave in the enclave where each fold begins and ends in each segment: ``Folds.edges``.

    Raises:
        StudyError: too few units.
        DataError: a unit occurs twice.
    """
    hashes = enclave.hashes()
    sizes = fold_sizes(sum(map(len, hashes)), folds)
    inner = [leading_rows(hashes, int(size)) for size in np.cumsum(sizes)[:-1]]
    ends = [np.zeros(len(hashes), dtype=np.int64), np.array([len(part) for part in hashes], dtype=np.int64)]
    enclave.save(FOLDS, np.array([ends[0], *inner, ends[1]]))


def sizes_of(study: Study, units: int) -> Sizes:
    """Return sizes that every sensitivity depends on.

    They are public, since replace-one leaves the number of units alone.

    Args:
        study: the study.
        units: number of units.

    Raises:
        StudyError: too few units: one of the two halves is empty.
        DataError: there are no units.
    """
    if units < 1:
        raise DataError("there are no units")
    if study.training_share is None:
        return Sizes(units=units, train=units, estimation=units)
    train = training_size(units, study.training_share)
    return Sizes(units=units, train=train, estimation=units - train)
