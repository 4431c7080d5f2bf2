from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from causalveil.schemas.errors import DataError
from causalveil.tasks.data.split import CHUNK_ROWS, ascending, keyed_hash

KEY = bytes(range(16))


def reference(unit: int | str) -> tuple[int, int]:
    """The definition, one unit at a time, in plain integers and bytes."""
    if isinstance(unit, int):
        sign = b"\x01" if unit < 0 else b"\x00"
        blocks = [(unit % 2**64).to_bytes(8, "little") + sign + b"regetni"]
    else:
        content = unit.encode()
        blocks = [len(content).to_bytes(8, "little") + b"\0\0\0\0txet"]
        blocks += [content[i : i + 16].ljust(16, b"\0") for i in range(0, len(content), 16)]
    state = bytes(16)
    for block in blocks:
        mixed = bytes(a ^ b for a, b in zip(state, block, strict=True))
        state = Cipher(algorithms.AES128(KEY), modes.ECB()).encryptor().update(mixed)
    return int.from_bytes(state[:8], "big"), int.from_bytes(state[8:], "big")


def hashed(values, dtype=None) -> list[tuple[int, int]]:
    return [tuple(pair) for pair in keyed_hash(pl.Series(values, dtype=dtype), KEY).tolist()]


TEXTS = ["", "a", "b", "ab", "a\0", "\0", "x" * 15, "x" * 16, "x" * 17, "x" * 32, "x" * 100, "émile", "日本" * 9, "5"]


def test_text_agrees_with_the_definition():
    assert hashed(TEXTS) == [reference(text) for text in TEXTS]


def test_integers_agree_with_the_definition():
    values = [0, 1, -1, 5, 2**63 - 1, -(2**63)]
    assert hashed(values, pl.Int64) == [reference(value) for value in values]
    large = [0, 2**63, 2**64 - 1]
    assert hashed(large, pl.UInt64) == [reference(value) for value in large]


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64])
def test_width_does_not_matter(dtype):
    assert hashed([0, 5, 127], dtype) == hashed([0, 5, 127], pl.Int64)


def test_text_and_dictionaries_agree_and_differ_from_integers():
    assert hashed(["5", "6"], pl.Categorical) == hashed(["5", "6"])
    assert not set(hashed(["5", "6"])) & set(hashed([5, 6]))
    # Minus one and 2^64 - 1 share their 64 bits.
    assert hashed([-1], pl.Int64) != hashed([2**64 - 1], pl.UInt64)


def test_everything_is_distinct_and_key_dependent():
    values = pl.Series(range(-5000, 5000))
    whole = hashed(values) + hashed([str(value) for value in values]) + hashed(TEXTS[:-1])
    assert len(set(whole)) == len(whole)
    assert not np.any(keyed_hash(values, KEY) == keyed_hash(values, bytes(16)))


def test_chunks_and_slices_do_not_matter():
    rows = CHUNK_ROWS + 100
    for values in (pl.Series(range(rows)), pl.Series([f"{i:x}" * (i % 9) + str(i) for i in range(rows)])):
        whole = keyed_hash(values, KEY)
        assert np.array_equal(whole[CHUNK_ROWS - 50 :], keyed_hash(values[CHUNK_ROWS - 50 :], KEY))
        chunked = pl.concat([values[:77], values[77:]], rechunk=False)
        assert np.array_equal(whole, keyed_hash(chunked, KEY))


def test_no_rows():
    assert keyed_hash(pl.Series([], dtype=pl.Int64), KEY).shape == (0, 2)
    assert keyed_hash(pl.Series([], dtype=pl.String), KEY).shape == (0, 2)


def test_bits_are_balanced():
    """Each of the 128 bits of 20,000 hashes is set half of the time; false alarms below 1e-6 (5.9 sd, 128 bits)."""
    bits = np.unpackbits(keyed_hash(pl.Series(range(20_000)), KEY).view(np.uint8).reshape(-1, 16), axis=1)
    assert np.all(np.abs(bits.mean(axis=0) - 0.5) < 5.9 * 0.5 / np.sqrt(20_000))


@pytest.mark.parametrize("values", [[1, None], ["a", None], [1.0, 2.0], [True, False]])
def test_refuses_what_is_no_unit(values):
    with pytest.raises(DataError):
        keyed_hash(pl.Series(values), KEY)


def test_ascending_sorts_by_128_bits():
    generator = np.random.default_rng(1)
    hashes = generator.integers(0, 2**64, (500, 2), dtype=np.uint64)
    hashes[:100, 0] = hashes[0, 0]
    values = [(int(high) << 64) | int(low) for high, low in hashes[ascending(hashes)]]
    assert values == sorted(values)
