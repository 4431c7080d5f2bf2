"""A keyed 128-bit hash of unit ids, vectorised.

Who is in which half, and whether a unit occurs twice.

Why AES. The split argument needs the hashes of distinct units to look like independent uniform draws (or
draws without replacement) to everybody who lacks the key. AES-128 is a pseudorandom permutation of
16-byte blocks, fast in hardware, and one call hashes a million units. Integers are one block, encoded
injectively, so distinct integers have distinct hashes with certainty. Text is a CBC-MAC over blocks, the
first of which holds the length: no encoded text is a prefix of another, and on a prefix-free set CBC-MAC
is a pseudorandom function (Petrank & Rackoff 2000; Bellare, Kilian & Rogaway 2000); two of 10^7 texts
collide with probability below 10^-23. A type tag in the first block keeps texts and integers apart, and
that first block also keeps the whole set prefix-free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from causalveil.schemas.errors import DataError
from causalveil.tasks.machine.arrays import ByteArray, IntArray

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

HashArray = NDArray[np.uint64]
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
    # update_into wants room for one block more than it writes.
    encrypted = np.empty((len(blocks) + 1, BLOCK), dtype=np.uint8)
    cipher.update_into(np.ascontiguousarray(blocks).reshape(-1).data, encrypted.reshape(-1).data)
    return encrypted[:-1]
